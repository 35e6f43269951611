"""A report names the windows that began before the pool was full, or before updates had moved the rows they favour."""

from __future__ import annotations

from pathlib import Path

import pytest

from bufferlab.chapter.analysis import Analysis
from bufferlab.report import detail_tables, early_windows
from support.synthetic import Sweep, build


def warnings(folder: Path, gate: str, misses: int | None) -> list[str]:
    return early_windows.warnings(Analysis.of(build(folder, Sweep(gate=gate, warm_up_misses=misses))))


def test_a_pool_that_was_not_filled_is_named_with_the_warm_up_that_would_do(tmp_path: Path) -> None:
    (told,) = warnings(tmp_path, "flat_misses", 100)
    assert told.startswith("Before some windows reads had not filled the pool once: ")
    assert " times)" in told
    needed = int(told.partition("--warm-up-min ")[2].split()[0])
    assert needed > Sweep().warm_up_transactions


@pytest.mark.parametrize(("gate", "misses"), [("pool_turnover", 100), ("flat_misses", 10**7), ("flat_misses", None)])
def test_a_pool_that_was_filled_or_of_which_nothing_is_known_is_not_named(
    tmp_path: Path, gate: str, misses: int | None
) -> None:
    assert warnings(tmp_path, gate, misses) == []


@pytest.mark.parametrize(("settle", "warned"), [(0, False), (4600, False), (4601, True)])
def test_a_warm_up_that_its_cap_ended_before_rows_had_moved_is_named(
    tmp_path: Path, settle: int, *, warned: bool
) -> None:
    found = early_windows.warnings(Analysis.of(build(tmp_path, Sweep(settle_transactions=settle))))
    assert len(found) == warned
    assert all("(4,600 of 4,601 transactions)" in text and "--warm-up-time" in text for text in found)


@pytest.mark.parametrize(("settle", "said"), [(0, False), (4_601, True)])
def test_the_caption_of_the_table_of_runs_has_the_transactions_of_warm_ups(
    tmp_path: Path, settle: int, *, said: bool
) -> None:
    table = detail_tables.run_table(Analysis.of(build(tmp_path, Sweep(settle_transactions=settle))))
    assert "Warm-ups lasted 4,600 transactions." in table.caption
    assert ("within 4,601 transactions of the warm-up at most" in table.caption) == said
