"""Finds which blocks of a plan (its repetitions) a sweep folder holds. Reads and writes lists of blocks: "1,3-4".

Users count blocks from 1; the code and the stored files count them from 0. `KeepTraces` is defined here because
--help loads this module, but not the schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from bufferlab.errors import SpecError

KeepTraces = Literal["all", "one", "none"]
"""The blocks of a sweep whose page traces are kept in its folder."""


class HostBlocks(NamedTuple):
    """A host, as in its host.json, and the blocks that it measured."""

    host: dict[str, Any]
    blocks: tuple[int, ...]


def blocks_of(plan: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the blocks that the folder of a plan.json should hold, in order: those of `run --blocks`, or all."""
    told = plan.get("blocks")
    found = told if told is not None else (run["block"] for run in plan.get("runs", []))
    return tuple(sorted({int(block) for block in found}))


def cells_of(plan: Mapping[str, Any]) -> set[tuple[int, int]]:
    """Return (point, block) of every run that the folder of a plan.json should hold."""
    blocks = blocks_of(plan)
    cells = {(int(run["point"]), int(run["block"])) for run in plan.get("runs", [])}
    return {cell for cell in cells if cell[1] in blocks}


_PART = re.compile(r"([1-9][0-9]{0,8})(?:-([1-9][0-9]{0,8}))?")


def parse_blocks(text: str, planned: int) -> tuple[int, ...]:
    """Return the blocks of the option --blocks in their order, counted from 0.

    Raises SpecError for a malformed list, and for a block beyond the `planned` blocks of the plan.

    >>> parse_blocks("1,3-4", 5), parse_blocks("2-3, 1", 3)
    ((0, 2, 3), (0, 1, 2))
    """
    where = f"--blocks {text}"
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise SpecError(f'"{part.strip()}" is no block of a plan', where, "write numbers from 1, such as 1,3-4")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise SpecError(f"blocks {part.strip()} end before they begin", where, f"write {last}-{first}")
        if last > planned:
            has = "1 block" if planned == 1 else f"{planned} blocks"
            what = f"the plan has {has}, and block {last} is beyond it"
            raise SpecError(what, where, "blocks are repetitions: --repetitions N makes more, for every host alike")
        found.update(range(first - 1, last))
    return tuple(sorted(found))


def in_words(blocks: Sequence[int]) -> str:
    """Return blocks, counted from 0, in the form that --blocks takes.

    >>> in_words([0, 2, 3]), in_words([1])
    ('1,3-4', '2')
    """
    runs: list[list[int]] = []
    for block in sorted(blocks):
        if runs and block == runs[-1][-1] + 1:
            runs[-1].append(block)
        else:
            runs.append([block])
    return ",".join(str(run[0] + 1) if len(run) == 1 else f"{run[0] + 1}-{run[-1] + 1}" for run in runs)


def said(blocks: Sequence[int]) -> str:
    """Return blocks, counted from 0, as words for a sentence.

    >>> said([0]), said([0, 2, 3])
    ('block 1', 'blocks 1, 3-4')
    """
    return f"block{'' if len(blocks) == 1 else 's'} {in_words(blocks).replace(',', ', ')}"
