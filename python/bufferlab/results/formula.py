"""Reads the formulas in the tables of metrics: sums, differences and quotients of counters and of named quantities.

A counter's name stands for its change in the window. A gauge needs to be told how: mean, lowest, first or last of the
window. `1 - share` is the rest of a share. Nothing else is a formula.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from bufferlab.results.quantity import Quantity
from bufferlab.results.sampled import Sampled


def quantity(text: str, named: Mapping[str, Quantity], sampled: Sampled) -> Quantity:
    """Return the quantity of a formula; AssertionError if it names nothing known, or is none.

    >>> from bufferlab.results.metrics import RAW
    >>> quantity("(pages_read + pages_created) / page_gets", {}, Sampled(RAW.values())).name
    '(pages_read + pages_created) / page_gets'
    """
    levels = {"mean": sampled.mean_of, "lowest": sampled.lowest_of, "first": sampled.first_of, "last": sampled.last_of}

    def of(node: ast.expr) -> Quantity:
        match node:
            case ast.Name(name):
                return named[name] if name in named else sampled.counted(name)
            case ast.Call(ast.Name(how), [ast.Name(metric)]) if how in levels:
                return levels[how](metric)
            case ast.BinOp(ast.Constant(1), ast.Sub(), share):
                return of(share).complement()
            case ast.BinOp(left, ast.Add(), right):
                return of(left) + of(right)
            case ast.BinOp(left, ast.Sub(), right):
                return of(left) - of(right)
            case ast.BinOp(left, ast.Div(), right):
                return of(left) / of(right)
        raise AssertionError(f"{text}: {ast.unparse(node)} is no formula")

    return of(ast.parse(text, mode="eval").body)
