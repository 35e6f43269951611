"""A report names the pools that reads had not filled when the window began, and the warm-up that would fill them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bufferlab.chapter.analysis import Analysis
from bufferlab.report import unfilled_pools
from support.synthetic import Sweep, build


def warnings(folder: Path, gate: str, misses: int | None) -> list[str]:
    return unfilled_pools.warnings(Analysis.of(build(folder, Sweep(gate=gate, warm_up_misses=misses))))


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
