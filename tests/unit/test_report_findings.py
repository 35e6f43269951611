"""The sentences next to the headline's change: each is present if its data allow it, and absent otherwise.

test_report_chapters.py tests those on knees and on rates, together with their chapters.
"""

from __future__ import annotations

import re
from pathlib import Path

from bufferlab.chapter.analysis import Analysis
from bufferlab.report.answer import answer
from support.fake import Bench
from support.synthetic import BUFFER_SIZE, Sweep, Truth, build

PHASE = '[phases.{name}]\nscript = "{name}.sql"\ntransactions = 200\nmax_duration = "20s"\n'


def said(folder: Path, sweep: Sweep) -> str:
    return answer(Analysis.of(build(folder, sweep)))


def test_points_that_cannot_be_told_apart_are_best_together(tmp_path: Path) -> None:
    truths = (Truth("10%", 20.0), Truth("20%", 10.0), Truth("40%", 3.0), Truth("80%", 3.0))
    found = said(tmp_path, Sweep(truths=truths, blocks=5, noise=0.007, seed=2))
    assert "40 % and 80 % cannot be told apart as the best; both are below the rest." in found
    assert re.search(r"beyond 68 MiB nothing more was resolved, the next step saves [\d.]+ at most\.", found)


def test_a_single_best_point_is_not_called_a_set(tmp_path: Path) -> None:
    assert "cannot be told apart" not in said(tmp_path, Sweep(truths=BUFFER_SIZE, blocks=5))


def test_what_the_last_step_saved_holds_the_truth(tmp_path: Path) -> None:
    found = said(tmp_path, Sweep(truths=BUFFER_SIZE, blocks=5, block_noise=0.005))
    match = re.search(r"The step from 68 MiB to 136 MiB saved ([\d.]+)–([\d.]+) pages per New-Order\.", found)
    assert match is not None, found
    assert float(match[1]) <= 3.1 - 0.9 <= float(match[2])


def test_a_flat_sweep_says_that_no_step_saved_anything(tmp_path: Path) -> None:
    truths = tuple(Truth(pool, 10.0) for pool in ("10%", "20%", "40%"))
    found = said(tmp_path, Sweep(truths=truths, blocks=5, noise=0.01, seed=4))
    assert "no step is resolved" in found
    assert "would have been found" in found
    assert found.endswith("No step was shown to save pages per New-Order.")


def test_one_repetition_says_nothing_of_best_or_benefit(tmp_path: Path) -> None:
    found = said(tmp_path, Sweep(blocks=1))
    assert "cannot be told apart" not in found
    assert "saved" not in found


def test_page_sizes_are_answered_in_pages_bytes_and_phases(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench")
    bench.root.mkdir(parents=True)
    (bench.root / "scan.sql").write_text("-- transaction: x\nSELECT 1;\n")
    sweep = 'page_size = ["4k", "16k", "64k"]'
    bench.measure(bench.experiment(sweep=sweep, repetitions=3, more=PHASE.format(name="scan")))
    found = answer(Analysis.of(bench.sweep()))
    assert "as the page grows from 4 KiB to 64 KiB" in found
    assert "From 4 KiB to 64 KiB pages: bytes read per New-Order " in found
    assert "; bytes read per row of the phase scan " in found


def test_a_count_that_differs_is_told_before_one_that_does_not_and_before_a_time(tmp_path: Path) -> None:
    analysis = Analysis.of(build(tmp_path, Sweep(truths=BUFFER_SIZE, noise=0.007)))
    analysis.compared = ("page_gets_per_new_order", "device_reads_per_new_order", "reads_per_new_order")
    found = answer(analysis, "seconds_per_transaction")
    assert found.startswith("Reads per New-Order fall at every step")
    assert "Page gets" not in found
    assert "Device reads" not in found
    assert found.index("Seconds per transaction") > 0
