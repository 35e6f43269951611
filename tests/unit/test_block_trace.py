"""Block traces without a kernel: matching compared with a naive twin, counters, blkparse's text there and back,
storing."""

from __future__ import annotations

import json
import random
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bufferlab.audit.parsers.blkparse import Range
from bufferlab.cli import run
from bufferlab.engines.file import behaviour
from bufferlab.errors import SpecError
from bufferlab.execute.probes import block_trace_probe
from bufferlab.execute.probes.block_trace_probe import BlockTraceAsked, keep
from bufferlab.report.blkparse import render
from bufferlab.results.block_requests import Span, counters, match, spans
from support.audit_files import evidence_of
from support.block_traces import trace_of

DISK = ("7:0", "read")


def naive(found: list[Span], opens: str, cancels: str) -> tuple[dict[int, int], int, int]:
    """Return (latencies, unfinished, unopened) by the same rule, with a set of sectors for each opening."""
    sectors: dict[int, set[int]] = {}
    opened: dict[int, Span] = {}
    latencies: dict[int, int] = {}
    unopened = 0
    for span in found:
        mine = [row for row in sectors if opened[row].place == span.place]

        def choose(sector: int, mine: list[int] = mine) -> int | None:
            holders = [row for row in mine if row in sectors and sector in sectors[row]]
            begin = [row for row in holders if sector - 1 not in sectors[row]]
            return min(begin or holders, default=None)

        if span.action == opens:
            sectors[span.row], opened[span.row] = set(range(span.first, span.end)), span
        elif span.action == cancels:
            if (row := choose(span.first)) is not None:
                del sectors[row]
        elif span.action == "C":
            current, strange = None, False
            for sector in range(span.first, span.end):
                if current is None or sector not in sectors.get(current, ()):
                    current = choose(sector)
                if current is None:
                    strange = True
                    continue
                sectors[current].discard(sector)
                if not sectors[current]:
                    del sectors[current]
                    latencies[current] = span.t_ns - opened[current].t_ns
                    current = None
            unopened += strange
    return latencies, len(sectors), unopened


@st.composite
def histories(draw: st.DrawFn) -> list[Span]:
    """Draw openings, requeues and completions over few sectors, so that they overlap, split, merge and miss each
    other."""
    steps = draw(st.lists(st.tuples(st.sampled_from("DDDCCCR"), st.integers(0, 30), st.integers(0, 12), st.booleans())))
    return [
        Span(row, 10 * row, action, DISK if reads else ("7:0", "write"), first, first + length)
        for row, (action, first, length, reads) in enumerate(steps)
    ]


@given(histories())
@settings(max_examples=400)
def test_matching_is_that_of_the_naive_twin(found: list[Span]) -> None:
    found = [span for span in found if span.end > span.first]
    matched = match(found, "D", "R")
    assert (matched.latency_ns, matched.unfinished, matched.unopened) == naive(found, "D", "R")
    assert len(matched.latency_ns) + matched.unfinished + matched.cancelled == sum(one.action == "D" for one in found)


def test_a_split_request_ends_with_its_last_part_and_merged_ones_end_together() -> None:
    found = [
        Span(0, 0, "Q", DISK, 0, 16),
        Span(1, 5, "C", DISK, 8, 16),
        Span(2, 9, "C", DISK, 0, 8),
        Span(3, 20, "Q", DISK, 100, 108),
        Span(4, 21, "Q", DISK, 108, 116),
        Span(5, 30, "C", DISK, 100, 116),
    ]
    matched = match(found, "Q")
    assert matched.latency_ns == {0: 9, 3: 10, 4: 9}
    assert (matched.unfinished, matched.unopened) == (0, 0)


def test_what_has_no_counterpart_is_counted() -> None:
    found = [Span(0, 0, "Q", DISK, 0, 8), Span(1, 1, "C", DISK, 50, 58), Span(2, 2, "C", ("7:0", "write"), 0, 8)]
    matched = match(found, "Q")
    assert (matched.latency_ns, matched.unfinished, matched.unopened) == ({}, 1, 2)


def test_bios_of_a_partition_are_matched_with_the_requests_of_its_disk() -> None:
    trace = trace_of(
        [
            {"t_ns": 0, "action": "Q", "device": "8:1", "sector": 2048, "sectors": 8},
            {"t_ns": 7, "action": "C", "device": "8:0", "sector": 2048, "sectors": 8, "error": 0},
        ]
    )
    assert match(spans(trace, {"8:1": "8:0"}, "QC"), "Q").latency_ns == {0: 7}
    assert match(spans(trace, {}, "QC"), "Q").unfinished == 1


EVENTS: list[dict[str, Any]] = [
    {"t_ns": 0, "action": "Q", "sector": 8, "sectors": 16},
    {"t_ns": 100, "action": "X", "sector": 8, "split_sector": 16},
    {"t_ns": 150, "action": "A", "sector": 8, "sectors": 8, "from_device": "9:0", "from_sector": 1032},
    {"t_ns": 200, "action": "G", "sector": 8, "sectors": 8},
    {"t_ns": 250, "action": "P", "flags": None},
    {"t_ns": 300, "action": "U", "flags": None, "requests": 1},
    {"t_ns": 400, "action": "I", "sector": 8, "sectors": 8},
    {"t_ns": 500, "action": "D", "sector": 8, "sectors": 8, "cpu": 1},
    {"t_ns": 600, "action": "Q", "sector": 101, "sectors": 3, "flags": "WS"},
    {"t_ns": 650, "action": "M", "sector": 104, "sectors": 8, "flags": "WS"},
    {"t_ns": 700, "action": "D", "sector": 101, "sectors": 11, "flags": "WS"},
    {"t_ns": 800, "action": "C", "sector": 8, "sectors": 8, "error": 0, "pid": 0, "comm": None},
    {"t_ns": 900, "action": "D", "sector": 0, "sectors": 0, "flags": "FF"},
    {"t_ns": 2_000_000_900, "action": "C", "sector": 101, "sectors": 11, "flags": "WS", "error": -5, "pid": 0},
]


def test_counters_are_exact_in_sectors_and_tell_the_directions_apart() -> None:
    (one,) = counters(trace_of(EVENTS), {})
    assert (one.device, one.events, one.splits, one.remaps, one.inserts) == ("7:0", 14, 1, 1, 1)
    assert (one.unplugs, one.unplugged_requests) == (1, 1)
    assert (one.read.queued, one.read.queued_sectors, one.read.completed_sectors) == (1, 16, 8)
    assert (one.write.queued_sectors, one.write.merges, one.write.merged_sectors) == (3, 1, 8)
    # A flush is also issued, but has no sectors.
    assert (one.write.issued, one.write.issued_sectors, one.write.depth_max) == (2, 11, 2)
    assert (one.first_ns, one.last_ns) == (0, 2_000_000_900)


def test_the_text_is_blkparses_and_its_importer_reads_it_back() -> None:
    lines = list(render(trace_of(EVENTS), {}, {"7:0": "loop0"}))
    assert lines[0] == "  7,0    0        1     0.000000000   100  Q   R 8 + 16 [reader]"
    assert lines[1].endswith(" X   R 8 / 16 [reader]")
    assert lines[2].endswith(" A   R 8 + 8 <- (9,0) 1032")
    assert lines[5].endswith(" U   N [reader] 1")
    assert lines[13].endswith("2.000000900     0  C  WS 101 + 11 [-5]")
    (trace,) = evidence_of("\n".join(lines)).traces
    seen = trace.seen["7,0"]
    assert (seen.events["Q read"], seen.sectors["Q read"], seen.count("X"), seen.count("A")) == (1, 16, 1, 1)
    assert dict(seen.remapped_from) == {"9,0": 1}
    assert (seen.events["Q write"], seen.sectors["Q write"], seen.unplugged_requests) == (1, 3, 1)
    summary = trace.summaries["loop0"]
    assert summary["Reads Queued"] == Range(1, 1)
    assert summary["Reads Queued KiB"] == Range(8, 8)
    assert (summary["Write Dispatches"], summary["IO unplugs"]) == (Range(2, 2), Range(1, 1))
    assert trace.events["loop0"] == Range(14, 14)


def records(rows: list[dict[str, Any]]) -> bytes:
    made = np.zeros(len(rows), dtype=block_trace_probe._RECORD)
    for place, row in enumerate(rows):
        for name, value in row.items():
            made[place][name] = value
    return made.tobytes()


def test_records_become_rows_in_which_what_does_not_exist_is_null(tmp_path: Path) -> None:
    device = 254 << 20 | 3
    (tmp_path / "records").write_bytes(
        records(
            [
                {"t_ns": 1_000, "action": ord("Q"), "device": device, "sector": 8, "sectors": 16, "flags": b"RA",
                 "comm": b"dd", "pid": 7, "cpu": 1},
                {"t_ns": 1_500, "action": ord("U"), "device": device, "requests": 3, "pid": 7},
                {"t_ns": 1_600, "action": ord("A"), "device": device, "from_device": 9 << 20, "sector": 8,
                 "sectors": 16, "other_sector": 1 << 40},
                {"t_ns": 1_700, "action": ord("X"), "device": device, "sector": 8, "other_sector": 16},
                {"t_ns": 2_000, "action": ord("C"), "device": device, "sector": 8, "sectors": 16, "error": -5},
            ]
        )
    )  # fmt: skip
    table = pl.concat(block_trace_probe.frames(tmp_path / "records", 500))
    queued, unplug, remap, split, completed = table.to_dicts()
    assert (queued["t_ns"], queued["device"], queued["flags"], queued["comm"]) == (500, "254:3", "RA", "dd")
    assert (queued["error"], queued["requests"], queued["from_device"], queued["split_sector"]) == (None,) * 4
    assert (unplug["requests"], unplug["sector"], unplug["sectors"], unplug["flags"]) == (3, None, None, None)
    assert (remap["from_device"], remap["from_sector"]) == ("9:0", 1 << 40)
    assert (split["split_sector"], split["sectors"]) == (16, None)
    assert completed["error"] == -5


TOLD: dict[str, Any] = {
    "device": "7:0",
    "devices": ["7:0"],
    "partitions": [],
    "names": [["7:0", "loop0"]],
    "spool": "",
    "window_start_ns": 5,
    "window_end_ns": 10,
    "buffer_kib_per_cpu": 8,
    "cpus": 2,
    "events_read": 0,
    "pages": 1,
    "spool_bytes": 4096,
    "reader_cpu_ns": 1500,
    "reader_wakeups": 1,
    "lost": {"overrun": 0, "dropped_events": 0, "commit_overrun": 0, "pages_after_a_gap": 0},
    "problem": None,
}


def test_a_trace_that_lost_events_fails_with_their_count_and_a_larger_buffer(tmp_path: Path) -> None:
    told = {**TOLD, "lost": {**TOLD["lost"], "dropped_events": 1234}}
    stored, table = keep(BlockTraceAsked(8192), {"recorded": {"block_trace": told}}, tmp_path)
    assert table is None
    assert stored.status == "failed"
    assert "dropped events 1,234" in str(stored.reason)
    assert "--trace-buffer 32KiB" in str(stored.hint)
    assert stored.reader_cpu_us == 1.5


def test_the_worker_is_told_how_much_of_a_trace_is_wanted(tmp_path: Path) -> None:
    trace = BlockTraceAsked(8192, every_step=True).job(tmp_path)
    assert trace == {"spool": str(tmp_path / "block-trace"), "buffer_kib_per_cpu": 8, "every_step": True}
    assert not BlockTraceAsked().job(tmp_path)["every_step"]


@pytest.mark.parametrize(
    ("buffer", "every_step", "where"), [(None, True, "--trace-steps"), ("32MiB", False, "--trace-buffer")]
)
def test_options_of_a_trace_without_a_trace_are_refused(buffer: str | None, every_step: bool, where: str) -> None:
    with pytest.raises(SpecError) as caught:
        run._trace_asked((), buffer, every_step)
    assert caught.value.where == where
    assert "add --probe block-trace" in str(caught.value.hint)
    assert run._trace_asked(("block-trace",), None, every_step) == BlockTraceAsked(every_step=every_step)


def test_a_trace_without_a_window_or_without_a_worker_fails_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, _ = keep(BlockTraceAsked(), {"recorded": {"block_trace": {**TOLD, "window_start_ns": None}}}, tmp_path)
    assert stored.reason == "the measured window was not reached"
    cleaned = []
    monkeypatch.setattr(block_trace_probe, "clean_tracefs", lambda: cleaned.append(1))
    stored, _ = keep(BlockTraceAsked(), None, tmp_path)
    assert (stored.status, stored.reason, stored.hint) == (
        "failed",
        "the run ended before the trace did",
        "repeat the run",
    )
    assert cleaned


class _Core:
    """A core that reports a decoded trace and writes one record."""

    def __init__(self, events_read: int) -> None:
        self.events_read = events_read

    def block_trace_decode(self, spool: str, out: str) -> str:
        Path(out).write_bytes(records([{"t_ns": 7, "action": ord("Q"), "device": 7 << 20, "sectors": 8}]))
        return json.dumps({"events": 1, "events_read": self.events_read, "actions": {"Q": 1}, "plugs_elsewhere": 0})


def test_a_good_trace_is_kept_as_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_trace_probe, "native", lambda: _Core(1))
    stored, path = keep(BlockTraceAsked(), {"recorded": {"block_trace": {**TOLD, "events_read": 1}}}, tmp_path)
    assert path is not None
    assert (stored.status, stored.events, stored.actions, stored.window_ns) == ("ok", 1, {"Q": 1}, 5)
    assert pl.read_parquet(path)["t_ns"].to_list() == [2]


def test_a_count_that_is_not_the_kernels_fails_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_trace_probe, "native", lambda: _Core(1))
    stored, path = keep(BlockTraceAsked(), {"recorded": {"block_trace": {**TOLD, "events_read": 2}}}, tmp_path)
    assert path is None
    assert stored.reason == "the kernel handed over 2 events, and 1 were found"


def test_the_device_that_a_run_makes_is_the_one_that_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = behaviour._Ready(Path("/dev/loop9"), 4096, (), None, "as_is")
    told: list[dict[str, Any]] = []

    def hear(_core: object, job: dict[str, Any], _on_event: object) -> dict[str, Any]:
        told.append(job)
        return {"actual": {}}

    monkeypatch.setattr(behaviour, "_ready", lambda *_: nullcontext(ready))
    monkeypatch.setattr(behaviour, "run_core", hear)
    knobs = dict.fromkeys(("io_mode", "advice", "cache", "backend", "path", "device"), "x")
    rest: dict[str, Any] = {name: {} for name in ("load", "warm_up", "measure", "sample_interval_ms")}
    monkeypatch.setattr(behaviour, "core_reads", lambda _workload: {})
    rest["workload"] = {}
    probes = {"block_trace": BlockTraceAsked().job(Path("/home"))}
    behaviour.FileBehaviour().run({"database": "/data/file.bin", "knobs": knobs, "probes": probes, **rest}, print)
    assert [(job["path"], job["probes"]) for job in told] == [("/dev/loop9", probes)]


@pytest.mark.parametrize("engine", ["sqlite", "mysql", "mariadb", "postgres", "file"])
def test_only_a_run_that_makes_its_device_is_not_asked_for_the_databases(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(block_trace_probe, "check", asked.append)
    block_trace_probe.require(engine, {"database": "/data/x", "knobs": {}})
    assert (asked == [Path("/data/x")]) == (engine != "file")


@pytest.mark.parametrize(
    ("engine", "knobs", "what"),
    [("fake", {}, "makes no block requests"), ("mysql", {"server": "mysql://u@h/s"}, "runs already is not known here")],
)
def test_what_cannot_be_traced_is_refused_with_a_hint(engine: str, knobs: dict[str, str], what: str) -> None:
    with pytest.raises(SpecError) as caught:
        block_trace_probe.require(engine, {"database": "/x", "knobs": knobs})
    assert what in caught.value.what
    assert caught.value.hint


@given(st.integers(0, 2**32))
@settings(max_examples=60)
def test_depth_and_counts_of_any_trace_add_up(seed: int) -> None:
    rng = random.Random(seed)
    events = [
        {"t_ns": place, "action": rng.choice("QDCMFRUPXAGI"), "sector": rng.randrange(100),
         "sectors": rng.randrange(20), "flags": rng.choice(("R", "RA", "WS", "W", "D", "FF", None)),
         "device": rng.choice(("7:0", "8:1", "8:0"))}
        for place in range(rng.randrange(80))
    ]  # fmt: skip
    found = counters(trace_of(events), {"8:1": "8:0"})
    assert sum(one.events for one in found) == len(events)
    assert sum(one.read.queued + one.write.queued for one in found) == sum(one["action"] == "Q" for one in events)
    for one in found:
        assert one.read.depth_max <= one.read.issued
