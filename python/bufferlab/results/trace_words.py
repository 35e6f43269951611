"""The names in a page trace, as the Rust core defines them: kinds of accesses, table columns, fields of a record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module

NOT_WRITTEN = "the page trace could not be written"
"""The beginning of the core's message when it cannot write the spool, the file of recorded accesses (recording.rs)."""


@dataclass(frozen=True)
class PageTraceWords:
    """The names in a page trace, as the Rust core declares them."""

    kinds: tuple[str, ...]
    """The kinds of accesses. A kind's number in the trace is its index here."""
    columns: Mapping[str, str]
    """The columns of page-trace.parquet: one row per access to a page of the pool, in the order of time."""
    record: tuple[tuple[str, str], ...]
    """The fields of an access in the spool, the file that is recorded during a run, with their numpy types."""


def hint_for(problem: str, if_not_written: str) -> str:
    """Return the hint for a problem of a page trace: `if_not_written` if the core could not write the spool."""
    return if_not_written if problem.startswith(NOT_WRITTEN) else "please report this with the server's version"


@cache
def page_trace_words() -> PageTraceWords:
    """Return the names in a page trace from the Rust core (crates/bufferlab-model/src/trace.rs)."""
    words = json.loads(import_module("bufferlab._native").page_trace_words())
    return PageTraceWords(tuple(words["kinds"]), dict(words["columns"]), tuple(map(tuple, words["record"])))
