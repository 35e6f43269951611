"""kill -9 at random times: a sweep is killed, checked, resumed and killed again until it is complete.

This file computes the hashes of finished runs, not bufferlab.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bufferlab.errors import BufferlabError
from bufferlab.registry import open_sweep
from campaign import witness
from campaign.place import Place, place
from campaign.records import Finding, Record, State

GONE_SECONDS = 10.0
LONGEST_SECONDS = 300.0
_FAILED_IN_A_ROW = 3
# Only one sweep in eight loads its data; the others find them in the cache, so that few kills hit a load.
_SHARE_OF_LOADS = 1 / 8

_TOML = """\
format_version = 1
name = "kills"
question = "What does a kill leave?"
engine = "{engine}"
[workload]
name = "hot_rows"
rows = 20000
hot_rows = 2000
layout = "scattered"
update_percent = 20
[knobs]
{knobs}
[sweep]
pool_size = {pools}
[warm_up]
max_transactions = 1000
max_duration = "5s"
on_cap = "report"
[measure]
duration = "{measure_s}s"
[design]
repetitions = 1
seed = 1
"""


@dataclass(frozen=True)
class Engine:
    """The engine whose sweeps are killed, and their data."""

    name: str
    knobs: str = ""
    pools: tuple[str, ...] = ("8MiB", "16MiB")
    disk_mib: int = 0
    traced: bool = False
    """Whether page accesses are recorded; then kills also hit workers, alone and together with the command."""
    measure_s: int = 1

    def command(self, folder: Path) -> list[str | Path]:
        """Return the arguments of a new sweep."""
        if self.name == "file":
            settings = ["--set", "device=as_is", "--sweep", "read_ahead=0,64", "--repetitions", "1"]
            return [
                "run",
                "random-read",
                "--smoke",
                *self.probes,
                *settings,
                "--sweep",
                "io_mode=buffered",
                "--duration",
                "1s",
            ]
        file = folder / "kills.toml"
        text = _TOML.format(engine=self.name, knobs=self.knobs, pools=list(self.pools), measure_s=self.measure_s)
        file.write_text(text)
        return ["run", file, *self.probes]

    @property
    def probes(self) -> list[str]:
        """Return the options that a sweep and its resume need."""
        return ["--probe", "page-trace"] if self.traced else ["--no-page-trace"]


_COMMAND, _WORKER = "the command", "the worker"
ENGINES = {
    "sqlite": Engine("sqlite", 'io_mode = "direct"', ("512KiB", "2MiB")),
    "files": Engine("file", disk_mib=256),
    "mysql": Engine("mysql", 'server = "mysql-5.7"'),
    "postgres": Engine("postgres", 'server = "postgres-17"\nmemory_limit = "200MiB"'),
    "traced-sqlite": Engine("sqlite", 'io_mode = "direct"', ("512KiB", "2MiB"), traced=True),
    "traced-mysql": Engine("mysql", 'server = "mysql-5.7"', traced=True),
}


@dataclass
class Chain:
    """One sweep that is killed and resumed until it is complete."""

    place: Place
    engine: Engine
    out: Path
    cache: Path
    foreign: dict[str, str] = field(default_factory=dict)
    runs: dict[str, dict[str, str]] = field(default_factory=dict)
    """Finished run folders, with the hashes of their files."""
    failed_in_a_row: int = 0

    @property
    def folder(self) -> Path | None:
        """Return the sweep folder, once it exists."""
        return next((path.parent for path in sorted(self.out.glob("kills-*/plan.json"))), None) or next(
            (path.parent for path in sorted(self.out.glob("random-read-*/plan.json"))), None
        )

    def arguments(self) -> list[str | Path]:
        """Return the command that begins or resumes the sweep."""
        data: list[str | Path] = ["--data-dir", self.place.data]
        if self.folder:
            return ["run", "--resume", self.folder, *self.engine.probes, *data]
        return [*self.engine.command(self.place.root), "--out", self.out, *data]

    def look(self) -> list[str]:
        """Return the faults of the sweep folder and of other users' files."""
        wrong = witness.differences("file of others", self.foreign, self._foreign_now())
        if self.folder is None:
            return wrong
        for name, before in self.runs.items():
            there = self.folder / "runs" / name
            now = witness.hashes(there if there.is_dir() else self.folder / "superseded" / name)
            wrong += witness.differences(
                f"finished run {name}", before, {Path(path).name: value for path, value in now.items()}
            )
        for path in self.folder.glob("runs/*/run.json"):
            if not path.parent.name.startswith(".tmp-"):
                found = witness.hashes(path.parent)
                self.runs.setdefault(path.parent.name, {Path(name).name: value for name, value in found.items()})
        try:
            for record in open_sweep(self.folder).runs():
                trace, table = record.run.page_trace, record.page_trace()
                if trace and (trace.status == "ok") != (table is not None):
                    wrong.append(f"the page trace of run {record.run_id} is {trace.status}, and its table is not")
                if table is not None and trace and len(table) != sum(trace.events.values()):
                    wrong.append(f"the page trace of run {record.run_id} lacks events")
        except BufferlabError as error:
            wrong.append(f"a killed sweep cannot be opened: {error.what}")
        return wrong

    def look_when_whole(self) -> list[str]:
        """Return the faults of a sweep that ended by itself."""
        assert self.folder is not None
        plan = json.loads((self.folder / "plan.json").read_text())
        wanted = Counter((run["point"], run["block"]) for run in plan["runs"])
        runs = [json.loads(path.read_text()) for path in self.folder.glob("runs/*/run.json")]
        done = Counter((run["point"]["index"], run["block"]) for run in runs if run["status"] == "ok")
        wrong = [] if done == wanted else [f"cells done {dict(done)}, planned {dict(wanted)}"]
        left = [*self.out.rglob(".tmp-*"), *self.cache.rglob(".tmp-*"), *self.place.data.glob(".bufferlab-work/*")]
        strange = [path for path in left if str(path) not in self.foreign and "superseded" not in path.parts]
        return wrong + [f"left behind by a whole sweep: {path.relative_to(self.place.root)}" for path in strange]

    def remember_foreign(self) -> None:
        """Put other users' files into the results' folder, and note all of them."""
        self.place.plant(self.out)
        self.foreign = self._foreign_now()

    def _foreign_now(self) -> dict[str, str]:
        found = witness.hashes(self.place.others)
        for folder in (self.out, self.place.data, self.cache, self.cache / "data"):
            for name in (
                "theirs",
                ".tmp-theirs",
                ".bufferlab-work/theirs",
                "notes.txt",
                ".tmp-link",
                ".bufferlab-work/link",
            ):
                path = folder / name
                if path.is_symlink() or path.is_file():
                    found |= {key: value for key, value in witness.hashes(path.parent).items() if key == str(path)}
                elif path.is_dir():
                    found |= {str(path): "folder", **witness.hashes(path)}
        return found


def run(state: State, name: str, *, seed: int, seconds: float, goal: int) -> None:
    """Kill sweeps of one engine for `seconds`, or until the goal of kills is reached."""
    family, engine = f"kills:{name}", ENGINES[name]
    if state.total(family).trials >= goal:
        return
    with place(engine.disk_mib) as where:
        settings = witness.read_ahead(witness.loop_devices(where.root))
        # The first sweep also loads the data; the time of a sweep without the load is known once one has ended by
        # itself.
        longest = load(where, engine)
        print(f"{family}: loading and one sweep took {longest:.0f} s", flush=True)
        ends = time.monotonic() + seconds
        chain = None
        number = state.total(family).counts["commands"]
        while time.monotonic() < ends and state.total(family).trials < goal:
            rng = random.Random(f"{family}/{seed}/{number}")
            if chain is None:
                chain = _new_chain(where, engine, number, rng)
            fresh, started = chain.folder is None, time.monotonic()
            delay = rng.uniform(0.3, longest)
            victims = rng.choice([(_COMMAND,), (_WORKER,), (_COMMAND, _WORKER)]) if engine.traced else (_COMMAND,)
            record, whole = _trial(state, chain, family, f"{seed}/{number}", delay, victims, settings)
            if whole and fresh:
                longest = min(longest, time.monotonic() - started)
            state.add(record)
            print(f"{family} seed {record.seed}: {dict(record.counts)}", flush=True)
            chain = None if whole or record.findings else chain
            number += 1


def load(where: Place, engine: Engine) -> float:
    """Run one sweep without a kill, which loads the data; return the seconds that it took."""
    started, log = time.monotonic(), where.root / "load.log"
    arguments = [*engine.command(where.root), "--out", where.root / "runs-load", "--data-dir", where.data]
    code = where.start(arguments, log, where.environment()).wait()
    if code:
        raise SystemExit(f"an undisturbed sweep ended with code {code}:\n{log.read_text(errors='replace')[-3000:]}")
    return min(LONGEST_SECONDS, time.monotonic() - started)


def _new_chain(where: Place, engine: Engine, number: int, rng: random.Random) -> Chain:
    cache = where.cache
    if rng.random() < _SHARE_OF_LOADS:
        cache = where.prepare_cache(where.root / "disk" / f"cache-{number}")
    out = where.root / f"runs-{number}"
    out.mkdir()
    chain = Chain(where, engine, out, cache)
    chain.remember_foreign()
    return chain


def _trial(
    state: State,
    chain: Chain,
    family: str,
    seed: str,
    delay: float,
    victims: Sequence[str],
    settings: Mapping[str, str],
) -> tuple[Record, bool]:
    """Start the sweep or its resume, kill the victims after the delay, and check.

    Return the record, and whether the sweep is complete. If only the worker was killed, the command continues to its
    end.
    """
    where, log = chain.place, chain.place.root / "command.log"
    before = witness.shared_memory()
    process = where.start(chain.arguments(), log, where.environment(chain.cache))
    counts: Counter[str] = Counter(commands=1)
    wrong: list[str] = []
    whole = False
    try:
        code: int | None = process.wait(delay)
    except subprocess.TimeoutExpired:
        counts["kills"] += 1
        counts[f"hit {phase(where, log)}"] += 1
        code = _kill(process, where, victims)
    if code is not None:
        whole = code == 0
        counts["sweeps ended" if whole else f"exit {code}"] += 1
        # A failed run is a result: a busy host may miss a limit, and a run ends with its killed worker. The resume must
        # do it again; but without a kill a run must not fail again and again.
        if whole or not counts["kills"]:
            chain.failed_in_a_row = 0 if whole else chain.failed_in_a_row + 1
        if code not in (0, 1) or chain.failed_in_a_row >= _FAILED_IN_A_ROW:
            wrong.append(f"a resumed sweep ended with code {code}")
    wrong += left_over(where, before)
    wrong += chain.look()
    text = log.read_text(errors="replace")
    if "Traceback (most recent call last)" in text or "a bug in bufferlab" in text:
        wrong.append("a traceback or a bug on standard error")
    if whole:
        wrong += chain.look_when_whole()
        wrong += witness.differences("read-ahead", settings, witness.read_ahead(settings))
    kept = state.keep(family, seed, _evidence(chain, log, wrong)) if wrong else ""
    findings = [Finding(what, seed, kept) for what in wrong]
    return Record(family, seed, counts["kills"], dict(counts), findings), whole


def _kill(process: subprocess.Popen[bytes], where: Place, victims: Sequence[str]) -> int | None:
    """Kill the victims; return the exit code of a command that continued, or None if it was killed."""
    if _COMMAND in victims:
        process.send_signal(signal.SIGKILL)
    if _WORKER in victims:
        for pid, command in witness.processes(where.mark, where.root).items():
            if "bufferlab.execute.run.worker" in command:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    code = process.wait(LONGEST_SECONDS)
    return None if _COMMAND in victims else code


def left_over(where: Place, shared_before: Mapping[str, str]) -> list[str]:
    """Return what a dead command left in the system, after the time in which its children have to end."""
    looks: dict[str, Callable[[], Mapping[str, str]]] = {
        "orphan": lambda: {str(pid): command for pid, command in witness.processes(where.mark, where.root).items()},
        "processes in a dead owner's cgroup": witness.groups,
        "loop device": lambda: {
            k: v for k, v in witness.loop_devices(where.root).items() if v != f"{where.root}/disk.img"
        },
        "mount": lambda: {k: v for k, v in witness.mounts(where.root).items() if k != f"{where.root}/disk"},
        "shared memory": lambda: {k: v for k, v in witness.shared_memory().items() if k not in shared_before},
    }
    ends = time.monotonic() + GONE_SECONDS
    wrong = []
    for what, look in looks.items():
        left = witness.gone_within(max(0.0, ends - time.monotonic()), look)
        wrong += [f"{what} left: {name} {detail}" for name, detail in left.items()]
    return wrong


def phase(where: Place, log: Path) -> str:
    """Return the command's phase: it has printed nothing yet, or whether a server, a worker or neither is alive."""
    commands = " ".join(witness.processes(where.mark, where.root).values())
    if any(program in commands for program in ("mysqld", "mariadbd", "postgres")):
        return "a server"
    if "bufferlab.execute.run.worker" in commands:
        return "a worker"
    return "its own work" if log.stat().st_size else "its start"


def _evidence(chain: Chain, log: Path, wrong: Sequence[str]) -> dict[str, bytes | Path]:
    files: dict[str, bytes | Path] = {"wrong.txt": "\n".join(wrong).encode(), "command.log": log}
    return {**files, "sweep": chain.folder} if chain.folder else files
