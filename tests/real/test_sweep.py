"""Whole sweeps of the real engine by the command line: the answer, and the answer after a kill."""

from __future__ import annotations

import itertools
import json
import os
import random
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
from bufferlab.results.checks_of_every_engine import check_sweep
from bufferlab.results.window import Window
from support import core, prepared

pytestmark = pytest.mark.real

SMALL = ["buffer-size", "--warehouses", "1", "--sweep", "pool_size=10%,30%"]
PF_EXITING = 4
"""The flag of a task that is ending (include/linux/sched.h)."""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bufferlab", *arguments]


@pytest.fixture
def out(disk: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    directory = disk / f"out-{request.node.name}"
    directory.mkdir()
    yield directory
    shutil.rmtree(directory)


def outliving(directory: Path) -> list[str]:
    """Return the processes that remain although their sweep has ended.

    A process that has received its death signal may still wait in the kernel for a slow disk, and cannot be interrupted
    there: it gets a minute. A process without a death signal gets five seconds.
    """
    begun = time.monotonic()
    while processes := processes_in(directory):
        waited = time.monotonic() - begun
        if waited > 60 or (waited > 5 and not all("dying" in process for process in processes)):
            return processes
        time.sleep(0.05)
    return []


def processes_in(directory: Path) -> list[str]:
    """Return the living processes that mention the directory or run a worker in it: number, state, command line."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                files = [os.readlink(link) for link in (process / "fd").iterdir()]
                state = (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if state != "Z" and (str(directory) in words or any(str(directory) in file for file in files)):
                found.append(f"{process.name} ({state}, {held_by(process)}): {words}")
    return found


def held_by(process: Path) -> str:
    """Return whether a process has a death signal, and where in the kernel each of its threads waits."""
    try:
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        flags = int((process / "stat").read_text().rsplit(")", 1)[1].split()[6])
        waits = [(task / "wchan").read_text() for task in sorted((process / "task").iterdir())]
    except OSError:
        return "dying"
    killed = 1 << (signal.SIGKILL - 1)
    told = flags & PF_EXITING or any(int(status[mask], 16) & killed for mask in ("SigPnd", "ShdPnd"))
    return f"{'dying' if told else 'living'}, parent {status['PPid'].strip()}, waits in {' '.join(waits)}"


def unpublished(out: Path) -> list[Path]:
    """Return copies of runs and temporary folders, but not lock files and finished runs."""
    return [path for path in out.rglob("*") if path.name.startswith(".tmp-") or path.suffix in {".db", ".db-wal"}]


@pytest.mark.figures
@pytest.mark.slow
@pytest.mark.parametrize("pools", ["10%,30%", "5%,20%,60%"])
def test_reads_per_new_order_fall_with_the_pool_and_the_intervals_say_so(disk: Path, out: Path, pools: str) -> None:
    swept = ("--sweep", f"pool_size={pools}", "--repetitions", "3", "--transactions", "1500")
    arguments = ["buffer-size", "--warehouses", "1", *swept, "--out", str(out), "--json"]
    done = prepared.run(["run", *arguments], core.environment(disk), 600)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    reads = [summary(point, "reads_per_new_order") for point in answer["points"]]
    assert [row["n"] for row in reads] == [3] * len(pools.split(","))
    for larger, smaller in itertools.pairwise(reads):
        assert smaller["value"] < larger["value"]
        assert smaller["ci_high"] < larger["ci_low"]
    steps = [step for step in answer["steps"] if step["metric"] == "reads_per_new_order"]
    assert len(steps) == len(reads) - 1
    assert all(step["verdict"].startswith("falls") and step["estimate"]["ci_high"] < 1 for step in steps)
    assert "fall" in answer["answer"]
    gets = [summary(point, "page_gets_per_new_order")["value"] for point in answer["points"]]
    # The transactions are the same, but the database has grown more in a longer warm-up.
    assert max(gets) < 1.06 * min(gets), "the same workload asks for the same pages whatever the pool"
    ratios = growth_of_gets(Path(answer["sweep"]))
    assert len(ratios) == 3
    # Before windows had a separate stream of random numbers, this ratio differed by 4 % between blocks.
    assert max(ratios) < 1.01 * min(ratios), "what a longer warm-up changes is the same in every block"
    assert answer["status"] == "ok"
    assert (Path(answer["sweep"]) / "report.html").exists()
    assert unpublished(out) == []
    assert processes_in(out) == []


def growth_of_gets(sweep: Path) -> list[float]:
    """Return the page gets per transaction after the longest warm-up divided by those after the shortest, block by
    block."""
    by_block: dict[int, dict[int, float]] = {}
    for record in open_sweep(sweep).runs():
        gets = record.measured().values["page_gets_per_transaction"].value
        assert gets is not None
        by_block.setdefault(record.run.block, {})[record.run.warm_up.transactions] = gets
    return [gets[max(gets)] / gets[min(gets)] for gets in by_block.values()]


def summary(point: dict[str, Any], metric: str) -> dict[str, Any]:
    return next(row for row in point["summaries"] if row["metric"] == metric)


@pytest.mark.figures
def test_phases_are_measured_for_themselves_and_leave_the_window_and_the_data_as_they_were(
    disk: Path, out: Path
) -> None:
    arguments = ["page-size", "--smoke", "--repetitions", "1", "--out", out, "--share-device", "--json"]
    done = prepared.run(["run", *arguments], core.environment(disk), 600)
    assert done.returncode == 0, done.stderr
    records = open_sweep(json.loads(done.stdout)["sweep"]).runs()
    assert len(records) == 2
    asked = {"range_scan": 20, "append": 50, "random_insert": 30}
    for record in records:
        run, samples = record.run.model_dump(mode="json"), record.samples()
        assert {phase["name"]: phase["transactions"] for phase in run["phases"]} == asked
        edges = samples.filter(samples["edge"].is_not_null()).select("phase", "edge").unique(maintain_order=True)
        assert edges.rows() == [(phase, edge) for phase in ("measure", *asked) for edge in ("start", "end")]
        measured = record.measured()
        assert measured.values["transactions"].value == run["measured"]["transactions"] == 300
        for phase, transactions in asked.items():
            window = Window.of(samples, phase)
            assert window.change("transactions_committed").value == transactions
            assert (window.change("page_gets").value or 0) > 0
        assert Window.of(samples, "append").change("pages_created").value
        assert run["database"]["bytes_start"] <= run["database"]["bytes_end"]
        assert all(row["passed"] for row in run["consistency"]["conditions"])
        assert {row["status"] for row in run["integrity"]} == {"passed"}
        assert {tree["name"] for tree in run["database"]["shape"]["trees"]} >= {"order_line", "stock", "customer"}
        types = set(record.latency()["transaction_type"].unique())
        assert {name.split(".")[0] for name in types if "." in name} == set(asked)
    # A smoke's warm-up is cut short, so this test does not check whether the pool was warm and steady; nor how busy the
    # host is.
    not_asked = {"warm_up_gates", "steady_window", "stolen_time"}
    checks = check_sweep([record.measured() for record in records])
    failed = [check for check in checks if check.status == "failed" and check.name not in not_asked]
    assert failed == [], "the edges of phases are not the window's"
    assert unpublished(out) == []


@pytest.mark.slow  # Sweeps of engines that need no time are killed and resumed by tests/cli/test_pipeline.py.
def test_killed_at_random_moments_and_resumed_it_ends_with_every_run_whole(disk: Path, out: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # pytest shows it when the test fails
    moments = random.Random(seed)
    fresh = [*SMALL, "--repetitions", "2", "--transactions", "200", "--out", str(out)]
    published_before = 0
    for _ in range(24):
        folders = sorted(path for path in out.iterdir() if path.name.startswith("buffer-size-"))
        # It was killed before it had a folder: starting again loses nothing.
        arguments = ["--resume", str(folders[-1])] if folders else fresh
        with subprocess.Popen(
            command("run", *arguments),
            env=core.environment(disk),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as sweep:
            time.sleep(moments.uniform(0.2, 2.5))
            sweep.send_signal(signal.SIGKILL)
            sweep.wait()
        assert outliving(out) == [], "a worker outlived its sweep"
        published = len(list(out.glob("buffer-size-*/runs/[!.]*/run.json")))
        assert published >= published_before, "a published run is gone"
        published_before = published
    folders = sorted(path for path in out.iterdir() if path.name.startswith("buffer-size-"))
    arguments = ["--resume", str(folders[-1])] if folders else fresh
    done = prepared.run(["run", *arguments, "--json"], core.environment(disk), 600)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    sweep_folder = Path(answer["sweep"])
    runs = [json.loads(path.read_text()) for path in sweep_folder.glob("runs/*/run.json")]
    whole = [run for run in runs if run["status"] == "ok"]
    cells = sorted((run["point"]["index"], run["repetition"]) for run in whole)
    assert cells == [(point, repetition) for point in range(2) for repetition in range(2)]
    assert all(condition["passed"] for run in whole for condition in run["consistency"]["conditions"])
    assert unpublished(out) == []


def test_interrupted_by_ctrl_c_it_keeps_what_it_has_and_says_how_to_go_on(disk: Path, out: Path) -> None:
    arguments = [*SMALL, "--repetitions", "2", "--transactions", "30000", "--out", str(out)]
    with subprocess.Popen(
        command("run", *arguments),
        env=core.environment(disk),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as sweep:
        assert sweep.stderr is not None
        # Wait for the first line about a running point; from then on there is something to interrupt.
        for line in sweep.stderr:
            if "measuring" in line:
                break
        os.killpg(sweep.pid, signal.SIGINT)
        words = sweep.stderr.read()
        assert sweep.wait(timeout=30) == 130, words
    assert "--resume" in words
    assert "Traceback" not in words
    statuses = [json.loads(path.read_text())["status"] for path in out.glob("buffer-size-*/runs/*/run.json")]
    assert "interrupted" in statuses
    assert unpublished(out) == []
    assert processes_in(out) == []
