"""Blocks of a plan in several folders, merged, on SQLite: the counts equal those of one sweep, run by run."""

from __future__ import annotations

import re
import runpy
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bufferlab.execute.merge import merge
from bufferlab.execute.probes.page_trace_probe import TraceWish
from bufferlab.execute.sweep import SweepOptions, run_sweep
from bufferlab.results.page_traces import OtherPools
from bufferlab.results.store import RunRecord, SweepFolder
from bufferlab.spec import Overrides, load
from support import core

pytestmark = pytest.mark.real

#: Returns the rows of samples that equal seeds make equal, at both edges of a window.
_counts_at_edges = runpy.run_path(str(core.ROOT / "tools/same_truth.py"))["counts"]


@pytest.mark.parametrize(
    ("name", "blocks"),
    [("hot-rows", [1, 0]), pytest.param("buffer-size", [2, 0, 1], marks=pytest.mark.slow)],
)
def test_folders_of_single_blocks_merged_count_what_the_sweep_at_once_counts(
    disk: Path, monkeypatch: pytest.MonkeyPatch, name: str, blocks: list[int]
) -> None:
    place = disk / f"blocks-{name}"
    shutil.copytree(core.ROOT / "experiments" / name, place)
    toml = place / "experiment.toml"
    # Without this, a busy host would end a warm-up at another transaction.
    toml.write_text(re.sub(r'max_duration = "\w+"', 'max_duration = "1h"', toml.read_text()))
    experiment = load(str(toml), Overrides(profile="smoke", repetitions=len(blocks)))
    # The sweeps run in this process and without reports: tests/cli/test_merge_command.py tests the commands.
    monkeypatch.setenv("BUFFERLAB_CACHE", str(disk / "cache"))
    some = SweepOptions(share_device=True, page_trace=TraceWish(by_name=True))
    folders = [run_sweep(experiment, place / "some", options=replace(some, blocks=(one,))).folder for one in blocks]
    at_once = run_sweep(experiment, place / "at-once", options=some).folder
    merged, lacking = merge([folder.path for folder in folders], place / "merged")
    assert lacking == []
    expected, found = (_counts(folder) for folder in (at_once, merged))
    assert len(found) == 2 * len(blocks)
    assert found == expected
    kept = {record.run.block for record in merged.runs() if record.page_trace() is not None}
    assert kept == {0}, "the traces of the first block, and no others"
    assert _pools(merged.other_pools()) == _pools(at_once.other_pools()) != []
    shutil.rmtree(place)


def _pools(told: OtherPools | None) -> list[tuple[int, int | None]]:
    """Return pool and reads of each prediction from the first block's traces."""
    assert told is not None
    return [(pool.pool_bytes, pool.reads) for one in told.of for pool in one.pools]


def _counts(folder: SweepFolder) -> dict[tuple[int, int], Any]:
    """Return seed, data and warm-up of each run, and the counts of its measured window, by point and block."""
    return {(record.run.point.index, record.run.block): _count(record) for record in folder.runs()}


def _count(record: RunRecord) -> tuple[Any, ...]:
    run = record.run
    assert record.ok, record.reason
    assert run.warm_up is not None
    rows = record.samples().filter(pl.col("probe").is_in(["engine", "workload"]) & pl.col("count").is_not_null())
    told = rows.select("phase", "edge", "metric", "subject", "count").rows()
    counts = _counts_at_edges([(0, *row) for row in told])
    assert any(metric == "page_gets" for _, _, _, metric, _ in counts)
    return run.seed, run.order, run.point_key, run.data_key, run.warm_up.transactions, counts
