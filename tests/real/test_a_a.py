"""A/A: short comparisons of one setting with itself on the real engine, by the same `compare` that users call.

Each side has runs with its own seeds on fresh copies of one tiny database, published as a sweep folder. The sides do
not differ, so each "different" is wrong; at 95 % that should happen about once in twenty. A smaller pool on one side is
a regression, which `--fail-if` must find.
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
from statistics import fmean
from typing import Any

import pytest

from bufferlab.registry import registry
from bufferlab.report.comparison.compare_metrics import SidesCompared, compare_sides
from bufferlab.report.comparison.fail_if import parse
from bufferlab.report.comparison.sides import of_two_folders
from bufferlab.results.schema import Run
from bufferlab.results.store import SweepFolder, latency_rows, sample_rows
from support import core

PAIRS = 200
RUNS_A_SIDE = 4
FIRST_SEED = 40_000
#: A table of 4 MB with hot rows on most of its pages, and a pool of a quarter of these: chance decides which reads
#: miss.
ROWS, HOT_ROWS, POOL_BYTES = 20_000, 8_000, 1 << 20
#: Five per cent more reads than with POOL_BYTES, by long means of both.
SMALLER_POOL_BYTES = 876 << 10
RULE = parse("reads_per_transaction worse 5%")
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

    def measure(self, seed: int, pool_bytes: int = POOL_BYTES) -> tuple[int, dict[str, Any], list[dict[str, Any]]]:
        """Do one run on a fresh copy; return its seed, answer and events."""
        copy = core.copy(self.table, self.folder / f"{seed}.db")
        job = {
            "target": {"path": str(copy), "knobs": {**KNOBS, "pool_size_bytes": pool_bytes}},
            "frames": pool_bytes // KNOBS["page_size_bytes"],
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
        """Publish a side in the form of a `bufferlab run`: one point, with a block for each run."""
        point = {"index": 0, "label": "as set", "swept": {}}
        plan = {"experiment": side, "engine": "sqlite", "points": [{**point, "point_key": "0"}], "seed": runs[0][0]}
        folder = SweepFolder.create(self.folder, registry(), 'question = "Is it noise?"\n', plan, {"host_id": "here"})
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
            folder.publish_run(Run(**run), samples, latency_rows(answer["latency"]), "")
        return folder

    def compared(
        self, pairs: int, runs_a_side: int, *, pool_of_b: int = POOL_BYTES, first_seed: int = FIRST_SEED
    ) -> Iterator[SidesCompared]:
        """Return the result of `compare --fail-if` for each pair; two runs are done at a time."""
        per_pair = 2 * runs_a_side
        pools = [POOL_BYTES] * runs_a_side + [pool_of_b] * runs_a_side
        with ThreadPoolExecutor(2) as pool:
            measured = pool.map(self.measure, range(first_seed, first_seed + pairs * per_pair), pools * pairs)
            for pair in range(pairs):
                runs = [next(measured) for _ in range(per_pair)]
                a = self.publish(f"a-{pair}", runs[:runs_a_side])
                b = self.publish(f"b-{pair}", runs[runs_a_side:])
                compared = compare_sides(of_two_folders(a, b), rules=[RULE])
                assert compared.method == "welch"
                yield compared

    def outcomes(self, pairs: int, runs_a_side: int) -> Iterator[str]:
        """Yield the outcome of `compare` for the headline figure, pair by pair."""
        for compared in self.compared(pairs, runs_a_side):
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


@pytest.mark.slow
def test_fail_if_leaves_equal_sides_alone_and_finds_a_pool_that_reads_five_per_cent_more(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    equal = list(bench.compared(40, 5, first_seed=50_000))
    smaller = list(bench.compared(20, 5, pool_of_b=SMALLER_POOL_BYTES, first_seed=60_000))
    wrong, found = (sum(pair.rules[0].outcome == "broken" for pair in pairs) for pairs in (equal, smaller))
    untold = sum(pair.rules[0].outcome == "undecided" for pair in equal)
    ratios = [pair.of(pair.headline)[0].found for pair in smaller]
    planted = fmean(one.value_b / one.value_a for one in ratios if one) - 1
    with capsys.disabled():
        line = (
            f"fail-if: {wrong} of 40 equal pairs fail, {untold} cannot be told; {found} of 20 with {planted:+.1%} reads"
        )
        print(f"\n{line}", file=sys.stderr)
    assert 0.045 <= planted <= 0.055
    assert wrong <= 2
    assert found >= 16
