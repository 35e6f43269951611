"""The words of a page trace, which the core has: kinds of accesses, columns of the table, fields of a record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module

NOT_WRITTEN = "the page trace could not be written"
"""The beginning of the core's message about a spool that could not be written (recording.rs)."""


@dataclass(frozen=True)
class PageTraceWords:
    """The words of a page trace."""

    kinds: tuple[str, ...]
    """Kinds of accesses, by their numbers."""
    columns: Mapping[str, str]
    """The columns of page-trace.parquet: one row per access to a page of the pool, in the order of time."""
    record: tuple[tuple[str, str], ...]
    """The fields of an access in a spool, with the types of numpy."""


def hint_for(problem: str, if_not_written: str) -> str:
    """Return what to do about a trace's problem, given the core's message."""
    return if_not_written if problem.startswith(NOT_WRITTEN) else "please report this with the server's version"


@cache
def page_trace_words() -> PageTraceWords:
    """Return the words of a page trace, which stand in crates/bufferlab-model/src/trace.rs, from the core."""
    words = json.loads(import_module("bufferlab._native").page_trace_words())
    return PageTraceWords(tuple(words["kinds"]), dict(words["columns"]), tuple(map(tuple, words["record"])))
