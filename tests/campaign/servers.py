"""Commands against servers with wrong behaviour (strange.py): they must end in time, with a sentence.

A trial mostly waits, so several run at once, each in a fork of a process that has imported everything.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from campaign import judge, witness
from campaign.inputs import ROOT
from campaign.records import Finding, Record, State
from campaign.strange import BEHAVIOURS, WIRES
from support import hostile
from support.prepared import Ended, Prepared

NAMES = tuple(WIRES)
SIDE_BY_SIDE = 12
LONGEST_S = 40.0
MOST_BYTES = 400 << 20
"""The most memory of a command, including everything that it has imported."""
KEPT_OF_A_KIND = 3
_PATIENCE_S = 300.0
_GONE_S = 5.0
_AHEAD = 4 * SIDE_BY_SIDE
_SECRET = "s3cr3t-of-ours"
_POOLS = {"mysql": "64MiB", "postgres": "128MiB"}
"""The pool of a usual server."""
_AT = re.compile(r'File "\S*/bufferlab/(\S+)", line (\d+)')


@dataclass(frozen=True)
class Trial:
    """One command against one server."""

    family: str
    behaviour: str
    command: str
    rng: random.Random

    def arguments(self, url: str, version: str, out: Path) -> list[str]:
        """Return the command's arguments."""
        rng = self.rng
        match self.command:
            case "observe":
                words = ["observe", url, "--duration", "3s"]
            case "advise":
                words = ["advise", url, "--within", "20s", "--yes"]
            case "doctor":
                words = ["doctor", "--server", url]
            case _:
                engine = "mariadb" if "MariaDB" in version and rng.random() < 0.8 else self.family
                words = ["run", "hot-rows", "--engine", engine, "--server", url, "--quick", "--out", str(out)]
                pool = ["--set", f"pool_size={_POOLS[self.family]}", "--sweep", "hot_rows=500"]
                words += pool * (rng.random() < 0.5)
                words += ["--dry-run"] * (rng.random() < 0.4)
        return words + ["--json"] * (rng.random() < 0.4)


COMMANDS = ("observe", "advise", "doctor", "run")
EACH_ONCE = len(BEHAVIOURS) * len(COMMANDS)
"""With this many trials a family has tried each behaviour with each command once."""


def trial(family: str, seed: int, number: int) -> Trial:
    """Return the trial of this family, seed and number; equal arguments give equal trials."""
    behaviour = tuple(BEHAVIOURS)[number % len(BEHAVIOURS)]
    command = COMMANDS[number // len(BEHAVIOURS) % len(COMMANDS)]
    return Trial(family, behaviour, command, random.Random(f"servers:{family}/{seed}/{number}"))


def run(state: State, name: str, *, seed: int, seconds: float, goal: int) -> None:
    """Try commands of one family for `seconds`, or until the goal of trials is reached."""
    family, ends = f"servers:{name}", time.monotonic() + seconds
    kinds = Counter(finding.what for finding in state.total(family).findings)
    first = state.total(family).trials
    numbers = iter(range(first, goal))
    with tempfile.TemporaryDirectory(prefix="bufferlab-campaign-") as folder:
        Path(folder).chmod(0o711)  # A server's user must be able to enter the cache.
        for number, tried in tries(Path(folder), name, seed, numbers, ends):
            findings = []
            for what in tried.wrong:
                kinds[what] += 1
                kept = state.keep(family, f"{seed}/{number}", tried.evidence) if kinds[what] <= KEPT_OF_A_KIND else ""
                findings.append(Finding(what, f"{seed}/{number}", kept))
            state.add(Record(family, f"{seed}/{number}", 1, tried.counts, findings))
            print(f"{family} seed {seed}/{number}: {tried.told}", flush=True)


@dataclass(frozen=True)
class Tried:
    """The end of a trial."""

    told: str
    counts: Mapping[str, int]
    wrong: Sequence[str]
    evidence: Mapping[str, bytes | Path]


def tries(
    folder: Path, family: str, seed: int, numbers: Iterator[int], ends: float = float("inf")
) -> Iterator[tuple[int, Tried]]:
    """Do trials at once until the time is over; yield them in the order of their numbers."""
    begun: list[Prepared] = []
    free: SimpleQueue[Prepared] = SimpleQueue()
    under_way: deque[tuple[int, Future[Tried]]] = deque()

    def begin() -> None:
        begun.append(Prepared())
        free.put(begun[-1])

    def attempt(number: int) -> Tried:
        process = free.get()
        try:
            return one(trial(family, seed, number), folder / str(number), process, pretender)
        finally:
            free.put(process) if process.is_alive else begin()

    with _pretender(family) as pretender, ThreadPoolExecutor(SIDE_BY_SIDE) as workers:
        try:
            for _ in range(SIDE_BY_SIDE):
                begin()
            for number in numbers:
                under_way.append((number, workers.submit(attempt, number)))
                if len(under_way) >= _AHEAD:
                    yield _first(under_way)
                if time.monotonic() > ends:
                    break
            while under_way:
                yield _first(under_way)
        finally:
            # If the campaign is stopped, end its commands too.
            for _, left in under_way:
                left.cancel()
            for process in begun:
                process.end()
            workers.shutdown()
            for process in begun:
                process.end()


@contextmanager
def _pretender(family: str) -> Iterator[tuple[int, float]]:
    """Start a process with a server's name, which ends with this process; yield its number, and the time of its
    start."""
    begun_s, name = time.monotonic(), {"mysql": "mysqld", "postgres": "postgres"}[family]
    command = [name, f"--pid={os.getpid()}", "-f", os.devnull]
    with subprocess.Popen(command, executable=shutil.which("tail")) as process:
        try:
            yield process.pid, begun_s
        finally:
            process.kill()


def _first(under_way: deque[tuple[int, Future[Tried]]]) -> tuple[int, Tried]:
    number, done = under_way.popleft()
    return number, done.result()


def one(
    what: Trial,
    folder: Path,
    process: Prepared,
    pretender: tuple[int, float] = (1, 0.0),
    longest_s: float = LONGEST_S,
) -> Tried:
    """Do one trial in a separate folder. `pretender` is the process that the server claims to be, and the time of its
    start."""
    for name in ("work", "tmp", "home"):
        (folder / name).mkdir(parents=True)
    server = BEHAVIOURS[what.behaviour](what.family, what.rng, *pretender)
    failed: list[str] = []

    def behave(line: hostile.Line) -> None:
        try:
            server(line)
        except OSError:
            raise  # The client or the behaviour has closed the connection.
        except Exception as error:
            line.close()
            failed.append(f"the server of the campaign failed: {error!r}")

    with hostile.served(what.family, behave, patience_s=_PATIENCE_S) as url:
        arguments = what.arguments(url, server.version, folder / "out")
        ended, out, err = _command(arguments, folder, process, longest_s)
    wrong = [*judged(ended, out, err, longest_s, as_json="--json" in arguments), *failed, *_left(folder)]
    how = f"exit {ended.code} after {ended.seconds:.1f} s, {ended.peak_bytes >> 20} MiB" if ended else "killed"
    told = f"{what.behaviour}, {what.command}: {how}"
    evidence: dict[str, bytes | Path] = {
        "trial.txt": f"{told}\n{arguments}\n{server.drawn}\n".encode("utf-8", "backslashreplace"),
        "statements.txt": "\n".join(server.heard).encode("utf-8", "backslashreplace"),
        "stdout": out.encode("utf-8", "backslashreplace"),
        "stderr": err.encode("utf-8", "backslashreplace"),
        **{path.name: path.read_bytes() for path in (folder / "tmp").glob("bufferlab-bug-*")},
    }
    counts = {f"exit {ended.code}" if ended else "killed": 1, what.behaviour: 1}
    shutil.rmtree(folder)
    return Tried(told, counts, [f"{what.command}: {fault}" for fault in wrong], evidence)


def _command(
    arguments: Sequence[str], folder: Path, process: Prepared, longest_s: float
) -> tuple[Ended | None, str, str]:
    """Run a command; return its exit code (None if it had to be killed) and its two streams."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("BUFFERLAB_")},
        "PYTHONPATH": str(ROOT / "python"),
        "PATH": f"{os.environ['PATH']}:/{_mark(folder)}",
        "BUFFERLAB_CACHE": str(folder / "cache"),
        "BUFFERLAB_LOCKS": str(folder / "locks"),
        "BUFFERLAB_PASSWORD": _SECRET,
        "XDG_STATE_HOME": str(folder / "state"),
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "POLARS_MAX_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    out, err = folder / "stdout", folder / "stderr"
    ended = None
    with suppress(subprocess.TimeoutExpired):
        ended = process.run(arguments, environment, folder / "work", out, err, longest_s + 2)
    return ended, out.read_text("utf-8", "replace"), err.read_text("utf-8", "replace")


def judged(
    ended: Ended | None, out: str, err: str, longest_s: float = LONGEST_S, *, as_json: bool = False
) -> list[str]:
    """Return the faults of a finished command."""
    if ended is None:
        at = _AT.search(err)
        return [f"did not end within {longest_s:g} s" + (f", at {at[1]}:{at[2]}" if at else "")]
    wrong = judge.faults(ended.code, out, err, as_json=as_json)
    if ended.seconds > longest_s:
        wrong.append(f"took longer than {longest_s:g} s")
    if ended.peak_bytes > MOST_BYTES:
        wrong.append(f"held more than {MOST_BYTES >> 20} MiB")
    if _SECRET in out + err:
        wrong.append("a password was shown")
    return wrong


def _left(folder: Path) -> list[str]:
    """Return what a finished command left: processes, and files in its temporary folder other than the log of a bug."""
    processes = witness.gone_within(
        _GONE_S, lambda: {str(k): v for k, v in witness.processes(_mark(folder), folder).items()}
    )
    things = [*(folder / "tmp").iterdir(), *folder.glob("*/.tmp-*")]
    wrong = [f"a process was left: {command.split()[0]}" for command in processes.values()]
    for number in processes:
        os.kill(int(number), 9)
    return wrong + [
        f"a file was left: {re.sub('[0-9a-f]{4,}|[0-9]+', '#', path.name)}"
        for path in things
        if not path.name.startswith("bufferlab-bug-")
    ]


def _mark(folder: Path) -> str:
    return f"bufferlab-campaign-servers-{os.getpid()}-{folder.name}"
