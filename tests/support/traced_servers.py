"""Runs of private servers that record their page accesses, in separate folders, and the checks that a good trace must
pass."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

from bufferlab.engines import registry
from bufferlab.engines.servers.fetched import servers_root
from bufferlab.registry import open_sweep
from bufferlab.results.store import PAGE_TRACE_FILE, RunRecord
from bufferlab.results.trace_words import page_trace_words
from bufferlab.traces.changed_pages import CHANGED, HINTED
from support import innodb, postgres
from support.core import ROOT

_BPF = 321
"""The number of bpf(2) on x86-64."""
_NEXT_PROGRAM, _NEXT_LINK = 11, 31
_FEWEST_WRITES = 100
"""The fewest written pages with which a comparison of writes makes sense."""
_TOML = """\
format_version = 1
name = "traced"
question = "What does the server do to its pages?"
engine = "{engine}"
[workload]
name = "hot_rows"
rows = 40000
hot_rows = 40000
layout = "scattered"
update_percent = 20
[knobs]
server = "{server}"
pool_size = "6MiB"
[warm_up]
max_transactions = 500
max_duration = "60s"
on_cap = "report"
[measure]
transactions = 3000
max_duration = "60s"
[design]
repetitions = 1
seed = 1
"""


class Place:
    """Folders of one sweep with a separate copy of one server. Other tests run the same build, and a trace would slow
    them."""

    def __init__(self, root: Path, name: str) -> None:
        self.engine, self.name = name.split("-")[0], name
        family = postgres if self.engine == "postgres" else innodb
        family.build(name)
        # bufferlab may have found an installed server, and then has not fetched it.
        if not (servers_root() / name).exists():
            registry.fetch_server(name, print)
        self.out, data, cache = root / "out", root / "data", root / "cache"
        for folder in (self.out, data, cache):
            folder.mkdir(mode=0o711)
        shutil.copytree(servers_root() / name, cache / "servers" / name, symlinks=True)
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "BUFFERLAB_CACHE": str(cache)}
        self.places = ("--out", str(self.out), "--data-dir", str(data), "--share-device")

    def traces(self) -> bool:
        """Return whether the server records accesses: the file exists then, and stays empty until the run is over."""
        return any((self.out.parent / "data").rglob("page-trace"))

    def command(self, *more: str) -> list[str]:
        file = self.out.parent / "traced.toml"
        file.write_text(_TOML.format(engine=self.engine, server=self.name))
        return [sys.executable, "-m", "bufferlab", "run", str(file), "--probe", "page-trace", *self.places, *more]

    def runs(self) -> list[RunRecord]:
        (folder,) = self.out.glob("traced-*")
        return open_sweep(folder).runs()


def require_what_was_counted(place: Place, gets_within: float = 0.005) -> None:
    """Require that each run's trace is good, and agrees with the server's counters and with itself."""
    for record in place.runs():
        assert record.run.status == "ok", record.reason
        trace = record.run.page_trace
        assert trace is not None
        assert trace.status == "ok", trace.reason
        assert (trace.recorder, trace.lost) == ("inside", 0)
        table = record.page_trace()
        assert table is not None
        for one in trace.counts:
            if one.kind == "write" and place.name == "postgres-15":
                _require_background_writes(record, table, one.at_edges)
                continue
            # A look-up at a window's edge may be in only one of the two counts, which matters in a short window. For
            # MariaDB 11.8 the probe already allows for gets that are counted later, an eighth in such a short window.
            within = {"get": gets_within, "get + get_if_in_pool": max(gets_within, 0.005)}.get(one.kind, 0.005)
            # The server may have counted what purge did while bufferlab read the counters.
            nearest = min(max(one.counted, one.recorded), one.recorded + one.at_edges)
            assert nearest == pytest.approx(one.counted, rel=within, abs=8), one
            assert one.counted > 500
        assert (record.folder / PAGE_TRACE_FILE).stat().st_size <= 3 * sum(trace.events.values())
        assert "sbtest1" in {one.name for one in trace.objects}
        assert sum(one.pages for one in trace.objects) == table["page"].n_unique()
        # A page can leave the pool only after it has entered.
        kinds = [
            int((table["kind"] == page_trace_words().kinds.index(kind)).sum()) for kind in ("read", "create", "evict")
        ]
        assert 0 < kinds[2] <= kinds[0] + kinds[1]
        if place.name.startswith("postgres"):
            assert trace.events["write"] > _FEWEST_WRITES
            _require_changes_before_writes(table)


def _require_background_writes(record: RunRecord, table: pl.DataFrame, at_edges: int) -> None:
    """Require that the background writer and the checkpointer, which get no page, wrote as many pages as they counted.

    On version 15 sessions count pages by which files grow as writes, and the checkpointer publishes their counts when
    it wakes (checkpointer.c, ForwardSyncRequest and AbsorbSyncRequests).
    """
    trace = record.run.page_trace
    assert trace is not None
    assert trace.start_ns is not None
    assert trace.window_start_ns is not None
    assert trace.window_end_ns is not None
    start_us, end_us = ((edge - trace.start_ns) / 1000 for edge in (trace.window_start_ns, trace.window_end_ns))
    get, write = (page_trace_words().kinds.index(name) for name in ("get", "write"))
    sessions = table.filter(pl.col("kind") == get)["thread"].unique()
    recorded = table.filter(
        pl.col("kind") == write,
        pl.col("delta_us").cast(pl.Int64).cum_sum().is_between(start_us, end_us),
        ~pl.col("thread").is_in(sessions.implode()),
    ).height
    names = [f"postgres_bgwriter_buffers_{who}" for who in ("checkpoint", "clean")]
    told = record.samples().filter(pl.col("metric").is_in(names), pl.col("phase") == "measure")
    starts, ends = (int(told.filter(pl.col("edge") == edge)["count"].sum()) for edge in ("start", "end"))
    assert recorded - 8 <= ends - starts <= recorded + at_edges + 8


def _require_changes_before_writes(table: pl.DataFrame) -> None:
    """Require that each written page was changed since its last write, and that no changed page is evicted."""
    words = page_trace_words().kinds
    kinds = [words[number] for number in table["kind"].to_list()]
    dirty, wrong = set[int](), 0
    for page, kind, latch in zip(table["page"].to_list(), kinds, table["latch"].to_list(), strict=True):
        if kind == "dirty" or (kind in ("get", "create") and latch & (CHANGED | HINTED)):
            dirty.add(page)
        elif kind == "write":
            wrong += page not in dirty
            dirty.discard(page)
        elif kind == "evict":
            wrong += page in dirty
            dirty.discard(page)
    # The trace notes a change at the get before it, and a checkpoint may write the page between the two.
    assert wrong <= 0.001 * (kinds.count("write") + kinds.count("evict"))


def records(pid: int) -> bool:
    """Return whether `advise` has attached BPF programs (bpf(2)) and records. Its self-check attaches programs too, but
    has no file."""
    links = []
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            links.append(os.readlink(one))
    programs = any("bpf" in link and "link" in link for link in links)
    # The file of the record has no name.
    return programs and any("/#" in link and link.endswith("(deleted)") for link in links)


def bpf_programs() -> set[tuple[int, int]]:
    """Return all programs and links of the kernel: the command that lists them (BPF_..._GET_NEXT_ID of bpf.h), and
    their numbers."""
    return {(command, number) for command in (_NEXT_PROGRAM, _NEXT_LINK) for number in _numbers(command)}


def _numbers(command: int) -> set[int]:
    found, number = set(), 0
    call = ctypes.CDLL(None, use_errno=True).syscall
    while True:
        asked = (ctypes.c_uint32 * 3)(number, 0, 0)
        if call(_BPF, command, asked, ctypes.sizeof(asked)) != 0:
            return found
        number = asked[1]
        found.add(number)
