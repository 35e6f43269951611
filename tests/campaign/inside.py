"""Stops and kills around a server that records itself, once it records: of the reader, the worker, the server, the
command.

A trial is one run. Its trace must be complete or failed, and no file or process may be left. A stop holds only the
reader's thread: the worker's other threads and the server continue.
"""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bufferlab.errors import BufferlabError
from bufferlab.registry import open_sweep
from bufferlab.results.store import PAGE_TRACE_FILE, RunRecord
from campaign import kills, witness
from campaign.place import Place, place
from campaign.records import Finding, Record, State

SERVERS = {
    "mysql": kills.Engine("mysql", 'server = "mysql-5.7"', ("8MiB",), traced=True, measure_s=4),
    "postgres": kills.Engine("postgres", 'server = "postgres-17"', ("8MiB",), traced=True, measure_s=4),
}
STOP = "the reader, stopped"
HITS = (STOP, "the worker", "the reader", "the server", "the command", STOP, "the worker and the command")
"""The targets in turn: two stops and five kills. SIGKILL of the reader's thread ends its process, the worker."""
_MISSED = "came too late"
_READER = "page-trace"
_PROGRAMS = ("mysqld", "postgres")
_STARTS_WITHIN_S, _ENDS_WITHIN_S = 600.0, 900.0
_MOST_STOP_S = 3.0
_MOST_OFF = 0.005

_PTRACE_SEIZE, _PTRACE_INTERRUPT, _PTRACE_DETACH = 0x4206, 0x4207, 17
_WALL = 0x40000000


def run(state: State, name: str, *, seed: int, seconds: float, goal: int) -> None:
    """Hit runs on one server for `seconds`, or until the goal of trials is reached."""
    family, engine = f"inside:{name}", SERVERS[name]
    if state.total(family).trials >= goal:
        return
    with place() as where:
        print(f"{family}: loading and one run took {kills.load(where, engine):.0f} s", flush=True)
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and (total := state.total(family)).trials < goal:
            number = total.trials + total.counts[_MISSED]
            record = _trial(state, where, engine, family, f"{seed}/{number}", HITS[total.trials % len(HITS)])
            state.add(record)
            print(f"{family} seed {record.seed}: {dict(record.counts)}", flush=True)


def _trial(state: State, where: Place, engine: kills.Engine, family: str, seed: str, hit: str) -> Record:
    rng, out, log = random.Random(f"{family}/{seed}"), where.root / "runs", where.root / "command.log"
    out.mkdir()
    shared, old = witness.shared_memory(), left_in_homes(where.data)
    arguments = [*engine.command(where.root), "--out", out, "--data-dir", where.data]
    process = where.start(arguments, log, where.environment())
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    what = None
    if _records_within(_STARTS_WITHIN_S, process, where, old):
        time.sleep(rng.uniform(0, 0.7 * engine.measure_s))
        what = _hit(process, where, hit, rng)
    counts[what or _MISSED] += 1
    try:
        code = process.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        wrong.append(f"a run did not end within {_ENDS_WITHIN_S:g} s")
        code = process.wait()
    counts[f"exit {code}"] += 1
    wrong += kills.left_over(where, shared)
    # If the command is killed, its folders stay; the next command with this cache removes them.
    if code >= 0:
        wrong += [f"left behind: {path.relative_to(where.root)}" for path in left_in_homes(where.data)]
    text = log.read_text(errors="replace")
    if "Traceback (most recent call last)" in text or "a bug in bufferlab" in text:
        wrong.append("a traceback or a bug on standard error")
    try:
        for record in (record for path in out.glob("kills-*/plan.json") for record in open_sweep(path.parent).runs()):
            counts[f"trace {record.run.page_trace.status if record.run.page_trace else 'none'}"] += 1
            wrong += false_claims(record)
            if hit == STOP and not record.ok:
                wrong.append(f"a stop of the reader failed the run: {record.reason}")
    except BufferlabError as error:
        wrong.append(f"a sweep cannot be opened: {error.what}")
    files: dict[str, bytes | Path] = {"wrong.txt": "\n".join(wrong).encode(), "command.log": log, "runs": out}
    kept = state.keep(family, seed, files) if wrong else ""
    shutil.rmtree(out)
    return Record(family, seed, int(what is not None), dict(counts), [Finding(one, seed, kept) for one in wrong])


def false_claims(record: RunRecord) -> list[str]:
    """Return what a run's page trace claims but lacks."""
    trace, table = record.run.page_trace, record.page_trace()
    if trace is None:
        return [f"run {record.run_id} says nothing of its page trace"]
    if trace.status != "ok":
        there = (record.folder / PAGE_TRACE_FILE).exists()
        return [f"the page trace of run {record.run_id} is {trace.status}, and has a table"] if there else []
    wrong = [] if record.ok else [f"run {record.run_id} is {record.run.status}, and its page trace ok"]
    if trace.lost:
        wrong.append(f"the page trace of run {record.run_id} is ok, and lost {trace.lost} accesses")
    if table is None or len(table) != sum(trace.events.values()):
        wrong.append(f"the page trace of run {record.run_id} lacks events")
    return wrong + [
        f"the page trace of run {record.run_id} has {one.recorded} of {one.counted} of {one.kind}"
        for one in trace.counts
        if abs(one.recorded - one.counted) > _MOST_OFF * one.counted
    ]


def left_in_homes(data: Path) -> list[Path]:
    """Return what recorders left in the folders of runs: their library, and files of accesses."""
    # os.walk skips folders that are removed meanwhile.
    return [
        Path(folder, name)
        for folder, _, names in os.walk(data)
        for name in names
        if name.startswith(("bufferlab-inside", _READER))
    ]


def _records_within(seconds: float, process: subprocess.Popen[bytes], where: Place, old: Sequence[Path]) -> bool:
    """Wait until the server records: its file of accesses exists then, and stays empty until the run is over.

    `old` has the files that an earlier trial left; this command removes them.
    """
    ends = time.monotonic() + seconds
    while time.monotonic() < ends and process.poll() is None:
        if any(path.name == _READER and path not in old for path in left_in_homes(where.data)):
            return True
        time.sleep(0.02)
    return False


def _hit(process: subprocess.Popen[bytes], where: Place, hit: str, rng: random.Random) -> str | None:
    """Stop or kill the target; return a word for the counts, or None if all targets had ended already."""
    alive = witness.processes(where.mark, where.root)
    workers = [pid for pid, command in alive.items() if "bufferlab.execute.run.worker" in command]
    servers = [pid for pid, command in alive.items() if any(name in command for name in _PROGRAMS)]
    readers = [(pid, thread) for pid in workers if (thread := thread_named(pid, _READER))]
    if hit == STOP:
        seconds = rng.uniform(0.1, _MOST_STOP_S)
        held = [stop_thread(thread, seconds) for _, thread in readers]
        return ("stopped, above a second" if seconds > 1 else "stopped") if any(held) else None
    if hit == "the reader":
        for pid, thread in readers:
            ctypes.CDLL(None).syscall(234, pid, thread, signal.SIGKILL)  # tgkill
        return "killed the reader" if readers else None
    victims = [process.pid] if "command" in hit else []
    victims += workers if "worker" in hit else []
    victims += servers if "server" in hit else []
    for pid in victims:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return f"killed {hit}" if victims else None


def thread_named(pid: int, name: str) -> int | None:
    """Return the number of the process's thread of that name."""
    for path in Path(f"/proc/{pid}/task").glob("*/comm"):
        with suppress(OSError):
            if path.read_text().strip() == name:
                return int(path.parent.name)
    return None


def stop_thread(thread: int, seconds: float) -> bool:
    """Stop one thread of another process for `seconds`; its other threads continue. Return whether it was stopped."""
    library = ctypes.CDLL(None, use_errno=True)
    library.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    library.ptrace.restype = ctypes.c_long
    if library.ptrace(_PTRACE_SEIZE, thread, None, None) != 0:
        return False
    library.ptrace(_PTRACE_INTERRUPT, thread, None, None)
    _, status = os.waitpid(thread, _WALL)
    if not os.WIFSTOPPED(status):
        return False
    time.sleep(seconds)
    return bool(library.ptrace(_PTRACE_DETACH, thread, None, None) == 0)
