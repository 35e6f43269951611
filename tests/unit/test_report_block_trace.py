"""The chapter on block requests, and the text of a stored trace: present for traced runs, absent for others."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from bufferlab.chapter.elements import Figure, Section, Table
from bufferlab.cli.report import print_traces
from bufferlab.errors import RunFailed
from bufferlab.report.build import build as build_report
from bufferlab.report.figures.svg import draw, for_page
from bufferlab.report.html import render_html
from bufferlab.report.markdown import render_markdown
from bufferlab.results.schema import BlockTrace
from bufferlab.results.store import BLOCK_TRACE_FILE, SweepFolder, write_block_trace
from support.block_traces import trace_of
from support.synthetic import BUFFER_SIZE, Sweep, build

pytestmark = pytest.mark.figures

GOOD: dict[str, Any] = {
    "status": "ok",
    "device": "7:0",
    "devices": ["7:0"],
    "names": {"7:0": "loop0"},
    "window_start_ns": 1,
    "window_ns": 2_000_000_000,
    "events": 4000,
    "actions": {"Q": 1000, "G": 1000, "D": 1000, "C": 1000},
    "reader_cpu_us": 500.0,
    "spool_bytes": 1 << 20,
}
FAILED = {
    "status": "failed",
    "reason": "events were lost: dropped events 12",
    "hint": "repeat with --trace-buffer 32MiB",
}


def events(count: int, seed: int) -> list[dict[str, Any]]:
    """Return requests one after another, each 100 µs from queue to completion and 90 µs from issue to completion."""
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        extent = {"sector": rng.randrange(1 << 20) * 8, "sectors": 16 if number % 4 else 8}
        flags = "R" if number % 5 else "WS"
        for action, after_ns in (("Q", 0), ("G", 1_000), ("D", 10_000), ("C", 100_000)):
            error = {"error": 0} if action == "C" else {}
            rows.append({"t_ns": number * 1_000_000 + after_ns, "action": action, "flags": flags, **extent, **error})
    return rows


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> SweepFolder:
    """Return a sweep whose first run has a good trace, its second a failed one, and its other runs none."""
    place = tmp_path_factory.mktemp("traced")
    sweep = build(place, Sweep(truths=BUFFER_SIZE[:2]))
    first, second, *_ = sweep.runs()
    write_block_trace(place / BLOCK_TRACE_FILE, [trace_of(events(600, 1)), trace_of(events(1000, 2)[2400:])])
    for record, told in ((first, GOOD), (second, FAILED)):
        samples, latency = record.samples().to_dicts(), record.latency().to_dicts()
        shutil.rmtree(record.folder)
        tables = {BLOCK_TRACE_FILE: place / BLOCK_TRACE_FILE} if told is GOOD else {}
        sweep.publish_run(
            record.run.model_copy(update={"block_trace": BlockTrace(**told)}), samples, latency, "log", {}, tables
        )
    return sweep


def chapter(sweep: SweepFolder) -> Section:
    (found,) = [section for section in build_report(sweep).sections if section.id == "block-trace"]
    return found


def block(section: Section, id: str) -> Any:
    (found,) = [one for one in section.blocks if one.id == id]
    return found


def test_a_stored_trace_comes_back_whole_and_only_when_it_is_good(traced: SweepFolder) -> None:
    first, second, third, *_ = sorted(traced.runs(), key=lambda record: record.run.order)
    table = first.block_trace()
    assert table is not None
    assert table.height == 4000
    assert table["t_ns"].is_sorted()
    assert (second.block_trace(), third.block_trace()) == (None, None)
    assert not (second.folder / BLOCK_TRACE_FILE).exists()
    assert (third.run.block_trace, second.run.block_trace.hint) == (None, FAILED["hint"])


def test_counts_times_and_costs_are_told_and_a_failed_trace_says_why(traced: SweepFolder) -> None:
    section = chapter(traced)
    counts: Table = block(section, "block-trace-counts")
    heads = [column.title for column in counts.columns]
    good, failed = (dict(zip(heads, row.cells, strict=True)) for row in counts.rows)
    assert (good["Trace"], good["Q"], good["Unmatched"]) == ("ok, 4,000 events", "1,000", "0")
    assert good["Reader's CPU"] == "0.50 µs, 0.03 %"
    assert failed["Trace"] == f"failed: {FAILED['reason']}; {FAILED['hint']}"
    times: Table = block(section, "block-trace-times")
    heads = [column.title for column in times.columns]
    reads, writes = times.rows
    assert reads.cells[1:4] == ("reads", "800", "7.00")
    assert writes.cells[1:4] == ("writes", "200", "7.00")
    assert set(reads.cells[heads.index("Q2C p50 (µs)") : heads.index("D2C p50 (µs)")]) == {"100"}
    assert set(reads.cells[heads.index("D2C p50 (µs)") :]) == {"90.0"}


def test_who_asked_is_told_and_shares_add_up(traced: SweepFolder) -> None:
    tasks: Table = block(chapter(traced), "block-trace-tasks")
    assert [row.cells[1:] for row in tasks.rows] == [("reader", "1,000", "100.0 %")]


def test_figures_are_drawn_the_same_each_time_and_have_their_data_in_words(traced: SweepFolder) -> None:
    section = chapter(traced)
    figures = [one for one in section.blocks if isinstance(one, Figure)]
    assert [one.id for one in figures] == ["block-trace-offsets-0", "block-trace-histograms-0"]
    for one in figures:
        svg = draw(one)
        assert svg == draw.__wrapped__(one)
        assert one.id in for_page(svg, one)
        assert one.data.rows
        assert one.alt.startswith(one.title)
    offsets, histograms = figures
    assert sum(int(row.cells[1].replace(",", "")) for row in offsets.data.rows) == 1000
    shares = [float(row.cells[3].removesuffix(" %")) for row in histograms.data.rows if row.cells[0] == "size"]
    assert sum(shares) == pytest.approx(100)


def test_pages_have_the_chapter_and_sweeps_without_traces_have_none(traced: SweepFolder, tmp_path: Path) -> None:
    report = build_report(traced)
    assert "Block requests" in render_html(report)
    assert "block-trace-offsets-0" in render_markdown(report)
    plain = build(tmp_path, Sweep(truths=BUFFER_SIZE[:2]))
    assert not [section for section in build_report(plain).sections if section.id == "block-trace"]


def test_the_traces_are_printed_as_blkparse_does(traced: SweepFolder, capsys: pytest.CaptureFixture[str]) -> None:
    print_traces(traced)
    out, err = capsys.readouterr()
    assert len(re.findall(r"^  7,0    0 .* Q +R ", out, re.MULTILINE)) == 800
    assert " Reads Queued:         800,    5600KiB\t Writes Queued:" in out.replace("5,600KiB", "5600KiB").replace(
        "  ,", ","
    )
    assert "Events (loop0): 4,000 entries" in out
    assert "left out: run" in err
    assert "events were lost" in err


def test_a_sweep_without_a_trace_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(RunFailed) as caught:
        print_traces(build(tmp_path, Sweep(truths=BUFFER_SIZE[:2])))
    assert "--probe block-trace" in str(caught.value.hint)
