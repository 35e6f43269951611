"""Page traces: page numbers, times, faults that fail a trace, and the curve of a traced run."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from bufferlab.cli import run
from bufferlab.engines.behaviour import OwnedPages
from bufferlab.engines.sqlite.behaviour import SqliteBehaviour
from bufferlab.errors import SpecError
from bufferlab.execute.probes import page_trace_probe
from bufferlab.execute.probes.block_trace_probe import BlockTraceAsked
from bufferlab.execute.probes.command_line_probe import EndedRun
from bufferlab.execute.probes.page_trace_probe import NOTHING_SAID, PageTraceAsked, TraceWish
from bufferlab.results.blocks import KeepTraces
from bufferlab.results.files import wrong_page_trace
from bufferlab.results.page_traces import PageTrace
from bufferlab.results.trace_words import page_trace_words
from bufferlab.traces.curve import curve
from bufferlab.traces.page_trace import accesses_of
from bufferlab.units import GIB
from support.fake import Bench

GET, IF_IN_POOL, CREATE, READ, _, EVICT, DROP = range(7)
START_NS = 5_000_000_000
#: (microseconds, page, kind): a get in the warm-up, the window from 10 to 20 us, a get after it.
EVENTS = [(0, 9, GET), (0, 9, READ), (11, 4, GET), (12, 9, GET), (12, 9, READ), (13, 7, CREATE), (14, 7, EVICT),
          (30, 4, GET)]  # fmt: skip


def spooled(tmp_path: Path, events: Sequence[tuple[int, int, int]]) -> dict[str, Any]:
    """Return a spool with these events, and the core's answer about it."""
    records = np.zeros(len(events), page_trace_probe._record())
    for record, (t_us, page, kind) in zip(records, events, strict=True):
        record["t_ns"], record["page"], record["kind"] = START_NS + t_us * 1000 + 999 * (t_us > 0), page, kind
    records.tofile(tmp_path / "spool")
    counts = np.bincount(records["kind"], minlength=len(page_trace_words().kinds)).tolist()
    return {
        "spool": str(tmp_path / "spool"),
        "problem": None,
        "events": {kind: count for kind, count in zip(page_trace_words().kinds, counts, strict=True) if count},
        "window_start_ns": START_NS + 10_000,
        "window_end_ns": START_NS + 20_000,
    }


def samples(gets: int, misses: int) -> list[dict[str, Any]]:
    """Return the engine's own counters at the window's edges."""
    rows = [("start", 100, 100), ("end", 100 + gets, 100 + misses)]
    return [
        {"metric": metric, "edge": edge, "phase": "measure", "count": count}
        for edge, page_gets, demand_misses in rows
        for metric, count in (("page_gets", page_gets), ("demand_misses", demand_misses))
    ]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that stores a trace of SQLite, whose table t has pages 7 and 9."""
    none = np.asarray([], np.uint64)
    owners = [OwnedPages("t", np.asarray([9, 7], np.uint64), none), OwnedPages("u", np.asarray([5], np.uint64), none)]
    monkeypatch.setattr(SqliteBehaviour, "pages_of_objects", lambda *_: owners)

    def keep(
        told: dict[str, Any] | None,
        gets: int = 2,
        misses: int = 1,
        *,
        block: int = 0,
        asked: PageTraceAsked | None = None,
    ) -> tuple[dict[str, Any], Path | None]:
        result = {"recorded": {"page_trace": told} if told else {}, "actual": {"page_size": 4096}}
        ended = EndedRun("sqlite", result, tmp_path, tmp_path / "database", samples(gets, misses), block)
        trace, table = (asked or PageTraceAsked()).keep(ended)
        return trace.model_dump(exclude_unset=True), table

    return keep


def test_pages_have_numbers_in_a_row_by_table_and_times_are_differences(tmp_path: Path, kept: Any) -> None:
    stored, path = kept(spooled(tmp_path, EVENTS))
    assert stored["status"] == "ok"
    assert stored["objects"] == [
        {"name": "t", "first_page": 0, "pages": 2, "interior": 0},
        {"name": "(free)", "first_page": 2, "pages": 1, "interior": 0},
    ]
    assert stored["counts"] == [
        {"kind": "get", "recorded": 2, "counter": "page_gets", "counted": 2},
        {"kind": "read", "recorded": 1, "counter": "demand_misses", "counted": 1},
    ]
    table = pl.read_parquet(path)
    # In table t page 7 is 0 and page 9 is 1; page 4 belongs to no table.
    assert table["page"].to_list() == [1, 1, 2, 1, 1, 0, 0, 2]
    assert table["kind"].to_list() == [kind for _, _, kind in EVENTS]
    assert table["delta_us"].cum_sum().to_list() == [t_us for t_us, _, _ in EVENTS]
    assert not (tmp_path / "spool").exists()


def test_pages_above_the_leaves_have_the_first_numbers_of_their_table(
    tmp_path: Path, kept: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = [OwnedPages("t", np.asarray([9, 7], np.uint64), np.asarray([9, 8], np.uint64))]
    monkeypatch.setattr(SqliteBehaviour, "pages_of_objects", lambda *_: owners)
    stored, path = kept(spooled(tmp_path, EVENTS))
    assert stored["objects"][0] == {"name": "t", "first_page": 0, "pages": 2, "interior": 1}
    assert pl.read_parquet(path)["page"].to_list() == [0, 0, 2, 0, 0, 1, 1, 2]


def test_chunks_do_not_change_the_table(tmp_path: Path, kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pl.read_parquet(kept(spooled(tmp_path, EVENTS))[1])
    monkeypatch.setattr(page_trace_probe, "_CHUNK_EVENTS", 3)
    assert pl.read_parquet(kept(spooled(tmp_path, EVENTS))[1]).equals(whole)


def test_a_trace_that_disagrees_with_the_engine_is_failed_and_has_no_table(tmp_path: Path, kept: Any) -> None:
    events = [(0, 0, GET)] + [(11, page, GET) for page in range(1000)] + [(12, page, READ) for page in range(200)]
    assert kept(spooled(tmp_path, events), 1005, 200)[0]["status"] == "ok"
    stored, table = kept(spooled(tmp_path, events), 1006, 200)
    assert (stored["status"], table) == ("failed", None)
    assert stored["reason"] == "the trace has 1,000 of kind get, and the engine counted 1,006"
    stored, _ = kept(spooled(tmp_path, events), 1000, 198)
    assert stored["reason"] == "the trace has 200 of kind read, and the engine counted 198"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"problem": "the page trace could not be written: No space left on device"}, "No space left"),
        ({"problem": "7 records of the page trace cannot be read"}, "7 records"),
        ({"window_end_ns": None}, "the measured window was not reached"),
        ({"counters_end_ns": None}, "the measured window was not reached"),
        ({"events": {"get": 9}}, "9 accesses were recorded, and the file has 192 bytes"),
        ({"events": {}}, "0 accesses were recorded"),
        (
            {"threads": range(65_537)},
            "65,537 threads and sessions touched pages",
        ),
        ({"steps_back": 1200}, "processors disagree: 1,200 records are older than the one before"),
    ],
)
def test_a_trace_that_is_not_whole_is_failed_and_says_why(
    tmp_path: Path, kept: Any, change: dict[str, Any], reason: str
) -> None:
    stored, table = kept({**spooled(tmp_path, EVENTS), **change})
    assert (stored["status"], table) == ("failed", None)
    assert reason in stored["reason"]
    # Only for a full disk the hint asks for more space.
    assert ("space" in (stored.get("hint") or "")) == ("written" in stored["reason"])


def test_a_trace_that_lost_a_record_is_failed(tmp_path: Path, kept: Any) -> None:
    stored, table = kept({**spooled(tmp_path, EVENTS), "lost": 3, "reader_cpu_ns": 5_000})
    assert (stored["status"], table) == ("failed", None)
    assert "no room for 3 records" in stored["reason"]
    assert (stored["lost"], stored["reader_cpu_us"]) == (3, 5.0)


def test_the_last_thread_that_has_a_number_keeps_it(tmp_path: Path, kept: Any) -> None:
    told = {**spooled(tmp_path, EVENTS), "threads": range(65_536)}
    records = np.fromfile(tmp_path / "spool", page_trace_probe._record())
    records["thread"][2] = 65_535
    records.tofile(tmp_path / "spool")
    stored, path = kept(told)
    assert stored["status"] == "ok"
    assert pl.read_parquet(path)["thread"].to_list() == [0, 0, 65_535, 0, 0, 0, 0, 0]


def test_gets_that_the_server_does_not_count_are_kept_and_not_compared(tmp_path: Path, kept: Any) -> None:
    told = spooled(tmp_path, EVENTS)
    records = np.fromfile(tmp_path / "spool", page_trace_probe._record())
    records["site"][2] = 4
    records.tofile(tmp_path / "spool")
    stored, path = kept({**told, "uncounted_sites": [4]}, 1, 1)
    assert stored["counts"][0] == {"kind": "get", "recorded": 1, "counter": "page_gets", "counted": 1}
    assert pl.read_parquet(path)["kind"].to_list().count(GET) == 4


def test_gets_that_the_server_counts_later_may_be_on_either_side_of_an_edge_and_no_others(
    tmp_path: Path, kept: Any
) -> None:
    events = [(1, 0, GET)] * 30 + [(11, page, GET) for page in range(1000)] + [(12, 0, READ)] + [(30, 0, GET)] * 50
    told = spooled(tmp_path, events)
    records = np.fromfile(tmp_path / "spool", page_trace_probe._record())
    # Thirty gets are before the window, the first twenty in it, and all after it.
    records["site"][:50], records["site"][-50:] = 2, 2

    def status(gets: int, late: list[int]) -> str:
        records.tofile(tmp_path / "spool")
        return str(kept({**told, "late_sites": late}, gets, 1)[0]["status"])

    # A difference of half a per cent is within the limit of any trace.
    assert [status(gets, []) for gets in (994, 996, 1005, 1006)] == ["failed", "ok", "ok", "failed"]
    assert [status(gets, [2]) for gets in (975, 976, 1035, 1036)] == ["failed", "ok", "ok", "failed"]
    assert [status(gets, [3]) for gets in (994, 1006)] == ["failed", "failed"]


def test_accesses_made_while_the_counters_were_read_may_be_in_the_count_and_no_others(
    tmp_path: Path, kept: Any
) -> None:
    moments = [3] + [7] * 20 + [11] * 1000 + [22] * 30 + [27] * 50
    events = sorted([(t_us, 0, GET) for t_us in moments] + [(7, 0, READ), (12, 0, READ)])
    edges = {"recorder": "inside", "counters_start_ns": START_NS + 5_000, "counters_end_ns": START_NS + 25_000}

    def stored(gets: int, more: dict[str, Any]) -> dict[str, Any]:
        return dict(kept({**spooled(tmp_path, events), **more}, gets, 1)[0])

    # A difference of half a per cent of the count is within the limit of any trace.
    assert [stored(gets, edges)["status"] for gets in (994, 1000, 1055, 1056)] == ["failed", "ok", "ok", "failed"]
    assert [one.get("at_edges", 0) for one in stored(1050, edges)["counts"]] == [50, 1]
    # An engine in our own process stands still while its counters are read.
    assert stored(1006, {**edges, "recorder": "engine"})["status"] == "failed"


@pytest.mark.parametrize("kinds", [("get", "read"), ("get", "read", "write")])
def test_writes_are_counted_where_the_build_records_them_and_fail_no_trace(
    tmp_path: Path, kept: Any, monkeypatch: pytest.MonkeyPatch, kinds: tuple[str, ...]
) -> None:
    counters = {("get",): ("page_gets",), ("read",): ("demand_misses",), ("write",): ("page_gets",)}
    monkeypatch.setattr(SqliteBehaviour, "page_trace_counters", counters)
    write = page_trace_words().kinds.index("write")
    events = [(0, 0, GET), (11, 0, GET), (11, 1, GET), (12, 0, READ), (13, 0, write), (30, 1, write)]
    stored, _ = kept({**spooled(tmp_path, events), "kinds": kinds})
    assert stored["status"] == "ok"
    told = {one["kind"]: (one["recorded"], one["counted"]) for one in stored["counts"]}
    assert told == {"get": (2, 2), "read": (1, 1), **({"write": (1, 2)} if "write" in kinds else {})}


@pytest.mark.parametrize(("keeps", "kept_of"), [("all", [0, 1]), ("one", [0]), ("none", [])])
def test_tables_of_the_blocks_that_the_sweep_keeps_stay_and_the_others_are_counted(
    tmp_path: Path, kept: Any, keeps: KeepTraces, kept_of: list[int]
) -> None:
    for block in (0, 1):
        stored, table = kept(spooled(tmp_path, EVENTS), block=block, asked=PageTraceAsked(keeps=keeps))
        assert (stored["status"], table is not None) == (("ok", True) if block in kept_of else ("dropped", False))
        assert stored["counts"][0]["recorded"] == 2
        assert not (tmp_path / "spool").exists()
        if table is None:
            assert "keeps the traces of" in stored["reason"]


def test_a_trace_that_is_off_is_failed_in_a_block_that_is_not_kept_too(tmp_path: Path, kept: Any) -> None:
    assert kept(spooled(tmp_path, EVENTS), 5, block=1)[0]["status"] == "failed"


def test_a_trace_that_reached_its_limit_is_failed_by_name(tmp_path: Path, kept: Any) -> None:
    told = {**spooled(tmp_path, EVENTS), "over_limit_bytes": 2 * GIB}
    (tmp_path / "spool").unlink()
    stored, table = kept(told)
    assert (stored["status"], table) == ("failed", None)
    assert stored["reason"] == "the page trace ended at its limit of 2 GiB"
    assert "--trace-limit" in stored["hint"]
    assert stored["events"] == told["events"]


def test_a_server_that_could_not_be_recorded_has_a_failed_trace_with_its_reason(kept: Any) -> None:
    refused = {"kind": "environment", "what": "no room", "where": None, "hint": "use another"}
    assert kept({"refused": refused})[0] == {"status": "failed", "reason": "no room", "hint": "use another"}


def test_a_disk_that_fills_after_the_window_fails_the_trace_and_not_the_run(
    tmp_path: Path, kept: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(page_trace_probe, "write_page_trace", full)
    stored, table = kept(spooled(tmp_path, EVENTS))
    assert (stored["status"], table) == ("failed", None)
    assert stored["reason"] == "the page trace could not be written: No space left on device"
    assert not (tmp_path / "spool").exists()


def test_a_run_that_ended_without_an_answer_has_a_failed_trace(kept: Any) -> None:
    stored, _ = kept(None)
    assert stored == {"status": "failed", "reason": "the run ended before the trace did", "hint": "repeat the run"}


@pytest.mark.parametrize(("engine", "knobs"), [("sqlite", {"pcache": "stock"}), ("fake", {}), ("file", {})])
def test_what_cannot_be_recorded_is_refused_with_a_hint(engine: str, knobs: dict[str, str]) -> None:
    with pytest.raises(SpecError) as refused:
        PageTraceAsked().require(engine, {"knobs": knobs})
    assert "cannot be recorded" in refused.value.what
    assert refused.value.hint
    PageTraceAsked().require("sqlite", {"knobs": {"pcache": "ours"}})


def test_both_traces_may_be_asked_for_at_once() -> None:
    both = ("page-trace", "block-trace")
    assert run._trace_asked(both, None, False) == BlockTraceAsked()
    assert run._page_trace_wish(both, False, None, None) == TraceWish(by_name=True)
    assert run._page_trace_wish((), False, None, None) == NOTHING_SAID
    assert run._page_trace_wish((), False, "1GiB", "all") == TraceWish(limit_bytes=GIB, keep="all")


@pytest.mark.parametrize("limit", ["0", "-1", "1KiB", "0.5", "much"])
def test_a_limit_that_is_none_is_refused_with_its_flag(limit: str) -> None:
    with pytest.raises(SpecError) as refused:
        run._page_trace_wish((), False, limit, None)
    assert refused.value.where == f"--trace-limit {limit}"
    assert refused.value.hint


def test_a_limit_above_the_free_space_is_refused(tmp_path: Path) -> None:
    job = {"database": str(tmp_path / "database"), "knobs": {"pcache": "ours"}}
    PageTraceAsked(limit_bytes=GIB).require("sqlite", job)
    with pytest.raises(SpecError, match="that are free"):
        PageTraceAsked(limit_bytes=1 << 60).require("sqlite", job)


def test_a_limit_of_which_half_is_more_than_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_trace_probe, "memory_bytes", lambda: GIB)
    PageTraceAsked(limit_bytes=2 * GIB).require("sqlite", {"knobs": {"pcache": "ours"}})
    with pytest.raises(SpecError, match="in memory"):
        PageTraceAsked(limit_bytes=3 * GIB).require("sqlite", {"knobs": {"pcache": "ours"}})


def test_without_a_limit_a_trace_takes_a_tenth_of_the_free_space_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def limit_bytes() -> int:
        return int(PageTraceAsked().job(tmp_path)["spool"]["limit_bytes"])

    monkeypatch.setattr(page_trace_probe, "memory_bytes", lambda: 64 * GIB)
    monkeypatch.setattr(page_trace_probe.shutil, "disk_usage", lambda _: SimpleNamespace(free=100 * GIB))
    assert limit_bytes() == 2 * GIB
    monkeypatch.setattr(page_trace_probe.shutil, "disk_usage", lambda _: SimpleNamespace(free=10 * GIB))
    assert limit_bytes() == GIB
    monkeypatch.setattr(page_trace_probe, "memory_bytes", lambda: 2 * GIB)
    assert limit_bytes() == GIB // 2
    assert PageTraceAsked(limit_bytes=5 * GIB).job(tmp_path)["spool"]["limit_bytes"] == 5 * GIB


@pytest.mark.parametrize(
    ("flag", "wish"),
    [
        ("--probe page-trace", {"by_name": True}),
        ("--trace-limit", {"limit_bytes": 1}),
        ("--keep-traces", {"keep": "all"}),
    ],
)
def test_no_trace_and_what_describes_one_exclude_each_other(flag: str, wish: dict[str, Any]) -> None:
    with pytest.raises(SpecError) as refused:
        TraceWish(unwanted=True, **wish)
    assert flag in str(refused.value.where)


def test_a_get_after_a_drop_is_missed_by_every_pool() -> None:
    kinds = [GET, GET, DROP, GET, EVICT, CREATE, DROP, CREATE, GET, IF_IN_POOL, DROP]
    pages = [0, 1, 0, 0, 1, 2, 2, 2, 2, 1, 3]
    schema = {"page": pl.UInt32, "kind": pl.UInt8, "t_s": pl.Float64}
    found = accesses_of(pl.DataFrame({"page": pages, "kind": kinds, "t_s": [0.0] * 11}, schema=schema))
    assert found.kind.tolist() == [GET, GET, DROP, GET, CREATE, DROP, CREATE, GET, IF_IN_POOL]
    assert found.touches.page.tolist() == [0, 1, 0, 2, 2, 2, 1]
    # The misses are the first gets of 0 and 1, the get of 0 after its drop, and a get of 2 right after its creation.
    assert curve(found, None, lambda _done: None).misses.tolist() == [4, 3, 3, 3]


@pytest.mark.parametrize(
    ("column", "values"), [("kind", [0, 9]), ("page", [0, 2]), ("page", [0, None]), ("delta_us", [None, 1])]
)
def test_rows_that_are_no_accesses_are_refused(column: str, values: list[int | None]) -> None:
    good = pl.DataFrame({"page": [0, 1], "kind": [0, 0], "latch": [0, 0], "thread": [0, 0], "delta_us": [0, 1]})
    assert wrong_page_trace(good) is None
    assert wrong_page_trace(good.with_columns(pl.Series(column, values)))


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_an_engine_that_cannot_be_traced_ends_with_a_usage_error(tmp_path: Path, more: tuple[str, ...]) -> None:
    bench = Bench(tmp_path / "bench")
    ended = bench.bufferlab("run", bench.experiment(), "--probe", "page-trace", "--out", bench.out, *more)
    assert ended.code == 2
    assert "cannot be recorded" in ended.err
    assert not list(bench.out.glob("*/runs"))


@pytest.mark.parametrize(
    "flags",
    [
        ("--probe", "page-trace", "--no-page-trace"),
        ("--no-page-trace", "--keep-traces", "all"),
        ("--keep-traces", "some"),
        ("--trace-limit", "-1"),
    ],
)
def test_flags_of_traces_that_cannot_be_end_with_a_usage_error_that_names_them(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    bench = Bench(tmp_path / "bench")
    ended = bench.bufferlab("run", bench.experiment(), "--out", bench.out, "--dry-run", *flags)
    assert ended.code == 2
    assert flags[0] in ended.err
    assert not bench.out.exists()


def test_a_sweep_without_a_trace_says_how_to_record_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench")
    bench.measure(bench.experiment(repetitions=1))
    ended = bench.bufferlab("curve", bench.sweep_path())
    assert ended.code == 65
    assert "there is no page trace" in ended.err
    assert "--probe page-trace" in ended.err


@pytest.mark.parametrize("moments", [(None, 2, 3), (1, None, 3), (1, 2, None), (2, 1, 3), (1, 3, 2), (-1, 2, 3)])
def test_a_good_trace_whose_window_cannot_be_is_refused(moments: tuple[int | None, ...]) -> None:
    start_ns, window_start_ns, window_end_ns = moments
    with pytest.raises(ValidationError):
        PageTrace(status="ok", start_ns=start_ns, window_start_ns=window_start_ns, window_end_ns=window_end_ns)
