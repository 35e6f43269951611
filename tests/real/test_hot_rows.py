"""Hot rows on the real engine, from start to end: the knee is at its predicted place; neither a kill nor a resume loses
a run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bufferlab.registry import open_sweep
from bufferlab.results.store import SweepFolder
from bufferlab.results.window import Window
from support import core, prepared
from support.fake import children

pytestmark = pytest.mark.real

EXPERIMENT = """\
format_version = 1
name = "few-hot-rows"
question = "Where is the knee?"
engine = "sqlite"

[workload]
name = "hot_rows"
rows = 40000

[knobs]
pool_size = "1MiB"

[sweep]
{sweep}

[warm_up]
max_transactions = 200000
max_duration = "60s"

[measure]
transactions = {transactions}
max_duration = "60s"

[design]
repetitions = {repetitions}
"""
BELOW, ABOVE = ("50%", "80%"), ("130%", "300%")
KNEE = f"hot_rows = {[*BELOW, *ABOVE]}\nlayout = ['scattered', 'clustered']"


class Place:
    """A separate folder on the disk: an experiment, its results and its cache."""

    def __init__(self, root: Path) -> None:
        self.root, self.toml = root, root / "hot.toml"

    def write(self, sweep: str = KNEE, transactions: int = 4000, repetitions: int = 1) -> None:
        self.toml.write_text(EXPERIMENT.format(sweep=sweep, transactions=transactions, repetitions=repetitions))

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "bufferlab", "run", *map(str, arguments)],
            env=core.environment(self.root),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def arguments(self) -> list[str | Path]:
        return [self.toml, "--out", self.root / "out", "--share-device", "--json"]

    def begin(self) -> subprocess.Popen[str]:
        return self.start(*self.arguments())

    def resume(self) -> subprocess.Popen[str]:
        return self.start("--resume", self.folder().path, "--share-device", "--json")

    def folder(self) -> SweepFolder:
        (path,) = (path for path in (self.root / "out").iterdir() if path.name.startswith("few-hot-rows-"))
        return open_sweep(path)

    def leftovers(self) -> list[Path]:
        found = [*(self.root / "out").rglob("*"), *(self.root / "cache").rglob(".tmp-*")]
        return [path for path in found if path.name.startswith(".tmp-") or path.suffix in {".db", ".db-wal"}]


@pytest.fixture
def place(disk: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    root = disk / request.node.name[:60]
    root.mkdir()
    yield Place(root)
    shutil.rmtree(root)


def answer(sweep: subprocess.Popen[str], code: int = 0) -> dict[str, Any]:
    out, err = sweep.communicate(timeout=300)
    assert sweep.returncode == code, err
    document: dict[str, Any] = json.loads(out)
    return document


def misses(document: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Return the page reads per select, by layout and share of the predicted knee."""
    found = {}
    for point in document["points"]:
        row = next(row for row in point["summaries"] if row["metric"] == "misses_per_transaction")
        found[point["swept"]["layout"], point["swept"]["hot_rows"]] = row["value"]
    return found


def test_below_the_predicted_knee_nothing_is_missed_and_above_it_more_with_every_row(place: Place) -> None:
    place.write()
    done = prepared.run(["run", *place.arguments()], core.environment(place.root), 300)
    assert done.returncode == 0, done.stderr
    found = misses(json.loads(done.stdout))
    for layout in ("scattered", "clustered"):
        assert [found[layout, share] for share in BELOW] == [0.0, 0.0], layout
        few, many = (found[layout, share] for share in ABOVE)
        assert 0.02 < few < many, layout
    for record in place.folder().runs():
        run = record.run.model_dump(mode="json")
        assert [row["condition"] for row in run["consistency"]["conditions"]] == list(range(6))
        assert all(row["passed"] for row in run["consistency"]["conditions"])
        trees = {tree["name"]: tree for tree in run["database"]["shape"]["trees"]}
        assert trees["sbtest1"]["rows"] == trees["k_1"]["rows"] == 40_000
        assert run["settings"]["hot_rows"]["actual"] == run["workload"]["drawn"]["hot_rows"]
        assert Window.of(record.samples()).change("transactions_committed", "select").value == 4000
    labels = {run.run.point.label: run.run.settings["hot_rows"].actual for run in place.folder().runs()}
    near, far = labels["hot_rows 80%, layout clustered"], labels["hot_rows 80%, layout scattered"]
    assert near > 5 * far, "neighbours share their pages"
    assert place.leftovers() == []


def test_updates_are_counted_apart_and_leave_a_table_that_is_whole(place: Place) -> None:
    place.write(sweep="update_percent = [0, 30]\nhot_rows = [500]", transactions=3000)
    answer(place.begin())
    for record in place.folder().runs():
        window = Window.of(record.samples())
        share = (window.change("transactions_committed", "update").value or 0) / 3000
        assert share == pytest.approx(int(record.run.point.swept["update_percent"]) / 100, abs=0.04)
        assert record.run.consistency
        assert all(row.passed for row in record.run.consistency.conditions)


def test_what_is_generated_misses_to_the_last_what_was_measured(place: Place) -> None:
    """The same seed draws the same rows, and each row is on the page on which SQLite put it."""
    place.write(sweep="hot_rows = [200, 700]\nlayout = ['scattered', 'clustered']", transactions=3000)
    answer(place.begin())
    arguments = ["predict", place.toml, "--out", place.root / "generated", "--json"]
    done = prepared.run(arguments, core.environment(place.root), 300)
    assert done.returncode == 0, done.stderr
    generated = {
        run["label"]: run["prediction"]["found"]["misses"]
        for run in json.loads(done.stdout)["predictions"]
        if not run["block"]
    }
    windows = {record.run.point.label: Window.of(record.samples()) for record in place.folder().runs()}
    measured = {label: window.change("demand_misses").value for label, window in windows.items()}
    assert max(filter(None, measured.values())) > 1000
    assert generated == measured


def worker_of(sweep: subprocess.Popen[str]) -> int | None:
    for pid in children(sweep.pid):
        try:
            if b"bufferlab.execute.run.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
        except OSError:
            continue
    return None


@pytest.mark.slow
def test_a_killed_worker_costs_its_run_alone_and_a_resume_does_it_again(place: Place) -> None:
    place.write(sweep="hot_rows = ['50%', '200%']", transactions=400_000, repetitions=2)
    sweep = place.begin()
    deadline = time.monotonic() + 60
    killed = False
    while not killed and time.monotonic() < deadline and sweep.poll() is None:
        # Once a run is published there are loaded data, and workers that measure.
        if list((place.root / "out").glob("few-*/runs/[!.]*/run.json")) and (pid := worker_of(sweep)) is not None:
            os.kill(pid, signal.SIGKILL)
            killed = True
        time.sleep(0.01)
    assert killed, "there was no worker to kill"
    answer(sweep, code=1)
    failed = [record.run.model_dump(mode="json") for record in place.folder().runs() if not record.ok]
    assert len(failed) == 1
    assert "SIGKILL" in failed[0]["failure"]["what"]
    assert len(place.folder().runs()) == 4
    kept = {record.run_id for record in place.folder().runs() if record.ok}
    answer(place.resume())
    after = place.folder().runs()
    assert all(record.ok for record in after)
    assert len(after) == 4
    assert kept < {record.run_id for record in after}
    assert place.leftovers() == []


@pytest.mark.slow
def test_a_killed_sweep_is_resumed_with_the_same_hot_rows(place: Place) -> None:
    place.write(sweep="hot_rows = ['50%', '200%']", transactions=200_000, repetitions=2)
    for attempt in range(3):
        sweep = place.resume() if attempt else place.begin()
        before = len(list((place.root / "out").glob("few-*/runs/[!.]*/run.json")))
        deadline = time.monotonic() + 60
        while sweep.poll() is None and time.monotonic() < deadline:
            if len(list((place.root / "out").glob("few-*/runs/[!.]*/run.json"))) > before:
                break
            time.sleep(0.02)
        sweep.kill()
        sweep.communicate()
    answer(place.resume())
    records = place.folder().runs()
    assert [record.ok for record in records] == [True] * 4
    counts = {(record.run.point.label, record.run.settings["hot_rows"].actual) for record in records}
    assert len(counts) == 2, "one number of hot rows for each share"
    assert place.leftovers() == []
