"""Sweeps on the fake engine, in separate folders: the whole path in well under a second for each run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bufferlab import spec
from bufferlab.errors import Problem
from bufferlab.execute.progress import Standing, SweepStatus
from bufferlab.execute.sweep import SweepOptions, run_sweep
from bufferlab.execute.sweep_runs import SweepOutcome, describe
from bufferlab.registry import open_sweep
from bufferlab.results.store import SweepFolder
from support import prepared

TEMPLATE = """\
format_version = 1
name = "fake-sweep"
question = "Does the path from TOML to report work?"
engine = "fake"

[workload]
{workload}

[knobs]
{knobs}

[sweep]
{sweep}

[warm_up]
max_transactions = 5000
max_duration = "60s"

[measure]
transactions = {transactions}
max_duration = "600s"

[design]
repetitions = {repetitions}
seed = {seed}

[limits]
worker_silent = "{silent}"

{more}
"""


@dataclass(frozen=True)
class Ended:
    """A finished `bufferlab` process."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Return the one JSON object on standard output."""
        document: dict[str, Any] = json.loads(self.out)
        return document


@dataclass(frozen=True)
class Bench:
    """Folders for sweeps: separate results, cache and locks, so that tests do not affect each other."""

    root: Path

    @property
    def out(self) -> Path:
        """Return the folder of sweep folders."""
        return self.root / "runs"

    @property
    def cache(self) -> Path:
        """Return the folder of loaded databases."""
        return self.root / "cache"

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of this bench's processes."""
        return {
            **os.environ,
            "BUFFERLAB_CACHE": str(self.cache),
            "XDG_STATE_HOME": str(self.root / "state"),
            "BUFFERLAB_LOCKS": str(self.root / "locks"),
            "COLUMNS": "100",
        }

    def experiment(
        self,
        *,
        knobs: str = "",
        sweep: str = 'pool_size = ["5%", "80%"]',
        warehouses: int = 1,
        workload: str = "",
        transactions: int = 3000,
        repetitions: int = 2,
        seed: int = 7,
        silent: str = "60s",
        more: str = "",
    ) -> Path:
        """Write an experiment for the fake engine; return the TOML file."""
        self.root.mkdir(parents=True, exist_ok=True)
        path = self.root / "fake.toml"
        path.write_text(
            TEMPLATE.format(
                knobs=knobs,
                sweep=sweep,
                workload=workload or f'name = "tpcc"\nwarehouses = {warehouses}',
                transactions=transactions,
                repetitions=repetitions,
                seed=seed,
                silent=silent,
                more=more,
            )
        )
        return path

    def bufferlab(self, *arguments: str | Path) -> Ended:
        """Run the command and wait for its end."""
        done = prepared.run(arguments, self.environment)
        return Ended(done.returncode, done.stdout, done.stderr)

    def measure(
        self, experiment: Path, heard: Heard | None = None, options: SweepOptions | None = None, *, failing: int = 0
    ) -> SweepOutcome:
        """Do the same as `run` in this process, without the command line and the report: three times as fast.

        Raises AssertionError with the runs' reasons unless exactly `failing` of them fail.
        """
        with self.in_environment():
            return _expected(run_sweep(spec.load(experiment), self.out, None, heard, options), failing)

    def resume(self, heard: Heard | None = None, *, failing: int = 0) -> SweepOutcome:
        """Do `run --resume` on the only sweep folder, in this process; as strict about failures as `measure`."""
        path = self.sweep_path()
        with self.in_environment():
            return _expected(run_sweep(spec.load(path / "experiment.toml"), self.out, path, heard), failing)

    @contextmanager
    def in_environment(self) -> Iterator[None]:
        """Context manager in which this process has this bench's environment."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            patch.setattr(os, "fsync", lambda descriptor: None)  # Tests need no file that survives a power cut.
            yield

    def run(self, *arguments: str | Path, out: Path | None = None) -> Ended:
        """Run `bufferlab run … --out <this bench's folder>`."""
        return self.bufferlab("run", *arguments, "--out", out or self.out)

    def start(self, *arguments: str | Path, afresh: bool = False) -> subprocess.Popen[str]:
        """Start the command, in the background; `afresh` from the beginning, as a user does."""
        begin = prepared.start_afresh if afresh else prepared.start
        return begin(arguments, self.environment)

    def sweep_path(self) -> Path:
        """Return the only sweep folder."""
        (path,) = (entry for entry in self.out.iterdir() if entry.is_dir() and not entry.name.startswith("."))
        return path

    def sweep(self) -> SweepFolder:
        """Open the only sweep folder."""
        return open_sweep(self.sweep_path())

    def runs(self) -> list[dict[str, Any]]:
        """Return run.json of every published run, in the order in which they ran."""
        return [record.run.model_dump(mode="json") for record in self.sweep().runs()]

    def leftovers(self) -> list[Path]:
        """Return files that a finished command must not leave: copies, half-written folders, scratch folders, their
        marks."""
        return [
            path
            for root in (self.out, self.cache)
            if root.exists()
            for path in root.rglob("*")
            if path.name.startswith((".tmp-", ".bufferlab-")) and not (path.parent / "manifest.json").exists()
        ]


def _expected(outcome: SweepOutcome, failing: int) -> SweepOutcome:
    """Return the outcome of a sweep that finished and in which exactly `failing` runs failed."""
    runs = outcome.folder.runs()
    told = [describe(record) for record in runs if not record.ok]
    lost = [f"{outcome.failed} runs failed, {failing} were to", *told]
    assert outcome.failed == failing, "\n".join(lost)
    assert outcome.signal_number is None, f"a signal ended the sweep: {outcome.signal_number}"
    planned = len(outcome.folder.planned_cells)
    assert len(runs) == planned, f"{len(runs)} runs are there of {planned}"
    return outcome


def wait(process: subprocess.Popen[str], timeout_s: float = 60) -> Ended:
    """Wait for a started command; return how it ended."""
    out, err = process.communicate(timeout=timeout_s)
    return Ended(process.returncode, out, err)


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 30) -> None:
    """Wait until the condition holds. Raises AssertionError with `what` after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:g} s in vain for: {what}")
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    """Return the processes whose parent is `pid`."""
    return [child for child, parent in _parents() if parent == pid]


def is_alive(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def blocks(pid: int, number: signal.Signals) -> bool:
    """Return whether the process's main thread blocks that signal (SigBlk of proc_pid_status(5))."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return False
    masks = [int(line.split()[1], 16) for line in lines if line.startswith("SigBlk:")]
    return any(mask >> (number - 1) & 1 for mask in masks)


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            yield int(entry.name), int(fields[1])


class Heard:
    """A watcher that keeps everything that a sweep reports to it."""

    def __init__(self) -> None:
        self.states: list[SweepStatus] = []
        self.looks: list[Standing] = []
        self.said: list[str] = []
        self.warned: list[Problem] = []

    def show(self, status: SweepStatus) -> None:
        """Keep the state."""
        self.states.append(status)

    def look(self, standing: Standing) -> None:
        """Keep the answer so far."""
        self.looks.append(standing)

    def say(self, text: str) -> None:
        """Keep the line."""
        self.said.append(text)

    def warn(self, problem: Problem) -> None:
        """Keep the warning."""
        self.warned.append(problem)
