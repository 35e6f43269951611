"""A/A: short comparisons of one setting with itself on the real engine, judged by `compare` as a user's would be.

Each side has runs with seeds of its own on fresh copies of one tiny database, published as a sweep folder. There is no
difference, so "different" is wrong each time it is said; at 95 % that should be about once in twenty.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bufferlab.report.compare_metrics import compare_sides
from bufferlab.report.compare_sides import of_two_folders
from bufferlab.results.store import SweepFolder, latency_rows, sample_rows
from support import core

PAIRS = 200
RUNS_A_SIDE = 4
FIRST_SEED = 40_000
#: A table of 4 MB, hot rows on most of its pages, a pool of a quarter of them: chance decides which reads miss.
ROWS, HOT_ROWS, POOL_BYTES = 20_000, 8_000, 1 << 20
KNOBS: dict[str, Any] = {
    "page_size_bytes": 4096,
    "pool_size_bytes": POOL_BYTES,
    "io_mode": "direct",
    "pcache": "ours",
    "synchronous": "off",
    "wal_autocheckpoint_bytes": 1 << 20,
    "locking_mode": "normal",
}
WORKLOAD: dict[str, Any] = {
    "name": "hot_rows",
    "rows": ROWS,
    "load_seed": 1,
    "hot_rows": HOT_ROWS,
    "layout": "scattered",
    "zipf": 0.0,
    "update_percent": 10,
}


@dataclass(frozen=True)
class Bench:
    """One loaded table, and a folder for copies and results."""

    table: Path
    folder: Path

    def measure(self, seed: int) -> tuple[int, dict[str, Any], list[dict[str, Any]]]:
        """One run on a fresh copy."""
        copy = core.copy(self.table, self.folder / f"{seed}.db")
        job = {
            "database": str(copy),
            "knobs": KNOBS,
            "workload": {**WORKLOAD, "seed": seed},
            "warm_up": {"max_transactions": 2000, "max_seconds": 20},
            "measure": {"transactions": 1500, "max_seconds": 60},
            "sample_interval_ms": 1000,
        }
        answer, events = core.call("run", "sqlite", job)
        for left in self.folder.glob(f"{seed}.db*"):
            left.unlink()
        return seed, answer, [event for event in events if event.get("event") == "sample"]

    def publish(self, side: str, runs: list[tuple[int, dict[str, Any], list[dict[str, Any]]]]) -> SweepFolder:
        """A side as `bufferlab run` would have left it: one point, a block a run."""
        point = {"index": 0, "label": "as set", "swept": {}}
        plan = {"experiment": side, "engine": "sqlite", "points": [{**point, "point_key": "0"}], "seed": runs[0][0]}
        folder = SweepFolder.create(self.folder, 'question = "Is it noise?"\n', plan, {"host_id": "here"})
        now = datetime.now(UTC).isoformat()
        for block, (seed, answer, events) in enumerate(runs):
            run = {
                "run_id": f"{seed:016x}",
                "experiment": side,
                "point_key": "0",
                "data_key": "one table",
                "engine": "sqlite",
                "engine_version": answer["engine_version"],
                "workload": {"version": 1, "connections": 1, **WORKLOAD},
                "settings": {
                    name: {"asked": str(value), "planned": value, "actual": answer["actual"][name]}
                    for name, value in KNOBS.items()
                },
                "point": point,
                "repetition": block,
                "block": block,
                "order": block,
                "seed": seed,
                "measured": answer["measured"],
                "status": "ok",
                "started_at": now,
                "ended_at": now,
            }
            samples = [row for event in events for row in sample_rows(event)]
            folder.publish_run(run, samples, latency_rows(answer["latency"]), "")
        return folder

    def outcomes(self, pairs: int, runs_a_side: int) -> Iterator[str]:
        """What `compare` says of the headline figure, pair by pair; two runs at a time."""
        per_pair = 2 * runs_a_side
        with ThreadPoolExecutor(2) as pool:
            measured = pool.map(self.measure, range(FIRST_SEED, FIRST_SEED + pairs * per_pair))
            for pair in range(pairs):
                runs = [next(measured) for _ in range(per_pair)]
                a = self.publish(f"a-{pair}", runs[:runs_a_side])
                b = self.publish(f"b-{pair}", runs[runs_a_side:])
                compared = compare_sides(of_two_folders(a, b))
                assert compared.method == "welch"
                yield compared.of(compared.headline)[0].outcome


@pytest.fixture
def bench(disk: Path) -> Bench:
    folder = Path(tempfile.mkdtemp(prefix="a-a-", dir=disk))
    table = folder / "table.db"
    load = {"database": str(table), "page_size_bytes": 4096, "threads": 1}
    core.call("load", "sqlite", {**load, "workload": {"name": "hot_rows", "rows": ROWS, "load_seed": 1}})
    return Bench(table, folder)


def test_one_pair_goes_through_the_very_path_of_the_many(bench: Bench) -> None:
    assert list(bench.outcomes(pairs=1, runs_a_side=2)) in (["not_distinguishable"], ["different"])


def test_equal_seeds_on_equal_data_are_identical(bench: Bench) -> None:
    first, second = (bench.publish(side, [bench.measure(seed) for seed in (1, 2)]) for side in ("a", "b"))
    compared = compare_sides(of_two_folders(first, second))
    assert compared.method == "paired"
    assert compared.of(compared.headline)[0].outcome == "same"


@pytest.mark.slow
def test_a_setting_differs_from_itself_in_1_to_10_per_cent_of_pairs(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    began, wrong = time.monotonic(), 0
    for pair, outcome in enumerate(bench.outcomes(PAIRS, RUNS_A_SIDE), start=1):
        assert outcome in ("different", "not_distinguishable")
        wrong += outcome == "different"
        if pair % 10 == 0:
            with capsys.disabled():
                line = f"A/A: {wrong} of {pair} pairs called different, {time.monotonic() - began:.0f} s"
                print(f"\r{line}", end="" if pair < PAIRS else "\n", file=sys.stderr, flush=True)
    assert 0.01 <= wrong / PAIRS <= 0.10, f"{wrong} of {PAIRS} pairs called different"
