"""Compares page traces of every build with the server's own counts, in a Markdown table. Called by page-trace-builds.

There is one sweep for each build and each kind of user rights. When it has ended, a line is added to
FOLDER/state.jsonl. An interrupted sweep is done again. A sweep that fails has a row with the reason, and the other
sweeps are still done.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from bufferlab.engines.servers.fetched import servers_root
from bufferlab.registry import open_sweep
from bufferlab.results.page_traces import CountedAccesses, PageTrace
from support import innodb
from support.confined import NOBODY, confined
from support.core import ROOT

NINE = ("mysql-5.6", "mysql-5.7", "mysql-8.0", "mariadb-10.2", "mariadb-11.4",
        "postgres-15", "postgres-16", "postgres-17", "postgres-18")  # fmt: skip
RIGHTS = ("own", "nobody")
_GETS_OFF = {"mariadb-11.4": 0.003}
_READS_OFF = {"mariadb-11.4": 0.001}
"""Build -> the largest allowed relative difference of gets, and of reads. In other builds of InnoDB gets may differ by
0.0005, and reads by one read. In PostgreSQL no difference is allowed."""
_HEAD = ("build", "rights", "transactions/s", "gets recorded / counted (beside the window)", "reads recorded / counted",
         "lost", "set up, ms", "waits", "gets off", "reads off", "as demanded")  # fmt: skip


@dataclass(frozen=True)
class Turn:
    """A sweep to do, as the file of finished sweeps identifies it."""

    server: str
    rights: str
    runs: int
    transactions: int


@dataclass(frozen=True)
class Traced:
    """One traced run."""

    transactions_per_s: float
    trace: PageTrace


def main() -> int:
    """Run the missing sweeps and print the table; return 1 if a count differs by too much, or if a sweep failed."""
    parser = argparse.ArgumentParser(prog="tools/page-trace-builds", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--builds", nargs="+", default=NINE)
    parser.add_argument("--rights", nargs="+", choices=RIGHTS, default=RIGHTS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--transactions", type=int, default=3000)
    arguments = parser.parse_args()
    if "nobody" in arguments.rights and os.geteuid() != 0:
        parser.error("only root can give its rights up: run as root, or with --rights own")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    state = arguments.folder / "state.jsonl"
    done = read(state)
    turns = [
        Turn(server, rights, arguments.runs, arguments.transactions)
        for rights in arguments.rights
        for server in arguments.builds
    ]
    for turn in turns:
        if turn not in done:
            print(f"{turn.server} as {turn.rights}", file=sys.stderr)
            done[turn] = traced(turn)
            note(state, turn, done[turn])
    print(f"| {' | '.join(_HEAD)} |\n{'|---' * len(_HEAD)}|")
    rows = [row(turn, done[turn]) for turn in turns]
    for cells in rows:
        print(f"| {' | '.join(cells)} |")
    return int(any(cells[-1] != "yes" for cells in rows))


def read(state: Path) -> dict[Turn, list[Traced] | str]:
    """Return the sweeps in the file of finished sweeps, without incomplete lines and failed sweeps."""
    done: dict[Turn, list[Traced] | str] = {}
    for line in state.read_text().splitlines() if state.exists() else ():
        try:
            noted = json.loads(line)
        except ValueError:
            continue
        runs = [Traced(one["transactions_per_s"], PageTrace(**one["trace"])) for one in noted["runs"]]
        done[Turn(**noted["turn"])] = runs
    return done


def note(state: Path, turn: Turn, runs: list[Traced] | str) -> None:
    """Add a sweep to the file, unless it failed."""
    if not isinstance(runs, str):
        kept = [{"transactions_per_s": one.transactions_per_s, "trace": one.trace.model_dump()} for one in runs]
        with state.open("a") as file:
            file.write("\n" + json.dumps({"turn": asdict(turn), "runs": kept}) + "\n")


def row(turn: Turn, runs: list[Traced] | str) -> list[str]:
    """Return the cells of a sweep, in the order of `_HEAD`."""
    if isinstance(runs, str):
        return [turn.server, turn.rights, runs, *["-"] * (len(_HEAD) - 4), "no"]
    traces = [one.trace for one in runs]
    gets, reads = ([counted(trace, kind) for trace in traces] for kind in ("get", "read"))
    whole = all(trace.status != "failed" and not trace.lost for trace in traces) and None not in (*gets, *reads)
    of_gets, of_reads = ([one for one in counts if one] for counts in (gets, reads))
    good = whole and all(within(turn.server, one, read) for one, read in zip(of_gets, of_reads, strict=True))
    return [
        turn.server, turn.rights,
        ", ".join(f"{one.transactions_per_s:,.0f}" for one in runs),
        ", ".join(map(words, of_gets)) or "-", ", ".join(map(words, of_reads)) or "-",
        str(sum(trace.lost for trace in traces)),
        ", ".join(f"{(trace.set_up_us or 0) / 1000:.0f}" for trace in traces),
        str(sum(trace.waits for trace in traces)),
        f"{max((share(one) for one in of_gets), default=0):.3%}", f"{max(map(off, of_reads), default=0):,}",
        "yes" if good else next((f"no: {trace.reason}" for trace in traces if trace.status == "failed"), "no"),
    ]  # fmt: skip


def counted(trace: PageTrace, kind: str) -> CountedAccesses | None:
    """Return a trace's counts of gets, or of reads; None if the trace broke off before the counts were made."""
    return next((one for one in trace.counts if kind in one.kind.split(" + ")), None)


def words(one: CountedAccesses) -> str:
    """Return a count for the table."""
    beside = f" ({one.at_edges:,})" if one.at_edges else ""
    return f"{one.recorded:,} / {one.counted:,}{beside}"


def off(one: CountedAccesses) -> int:
    """Return how far a count is outside the range of recorded accesses. The range begins at the accesses within the
    window, and ends at these plus all accesses at the window's edges."""
    return max(one.recorded - one.counted, one.counted - one.recorded - one.at_edges, 0)


def share(one: CountedAccesses) -> float:
    """Return `off` as a share of the count."""
    return off(one) / max(one.counted, 1)


def within(server: str, gets: CountedAccesses, reads: CountedAccesses) -> bool:
    """Return whether a run's counts agree well enough."""
    if server.startswith("postgres"):
        return off(gets) == off(reads) == 0
    reads_agree = off(reads) <= 1 or share(reads) <= _READS_OFF.get(server, 0)
    return reads_agree and share(gets) <= _GETS_OFF.get(server, 0.0005)


def traced(turn: Turn) -> list[Traced] | str:
    """Do the runs of a sweep in a temporary folder; return them, or the reason why there are none."""
    with innodb.folder() as root:
        asked = command(turn, root)
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        if turn.rights == "own":
            done = subprocess.run(asked, env=environment, capture_output=True, text=True)
        else:
            cache = root / "cache"
            shutil.copytree(servers_root() / turn.server, cache / "servers" / turn.server, symlinks=True)
            subprocess.run(["chown", "-R", "65534:65534", str(root)], check=True)
            environment["BUFFERLAB_CACHE"] = str(cache)
            done = confined(root, environment, NOBODY, *asked, "--data-dir", str(root / "data"))
        runs = list(runs_in(root))
        if len(runs) == turn.runs:
            return runs
        return f"{len(runs)} of {turn.runs} runs: {' '.join(done.stderr.split()[-40:])}"


def command(turn: Turn, root: Path) -> list[str]:
    """Return the command of a sweep, which puts its folder below `root`."""
    for folder in ("out", "data"):
        (root / folder).mkdir(mode=0o711)
    what = ("buffer-size", "--engine", turn.server.split("-")[0], "--set", f"server={turn.server}", "--warehouses", "1",
            "--connections", "8", "--sweep", "pool_size=30%", "--transactions", str(turn.transactions),
            "--repetitions", str(turn.runs), "--probe", "page-trace", "--keep-traces", "none", "--share-device",
            "--out", str(root / "out"))  # fmt: skip
    return [sys.executable, "-m", "bufferlab", "run", *what]


def runs_in(root: Path) -> Iterator[Traced]:
    """Yield those runs of the only sweep below `root` that have a trace, even a failed one."""
    for plan in (root / "out").glob("*/plan.json"):
        for record in open_sweep(plan.parent).runs():
            measured, trace = record.run.measured, record.run.page_trace
            if measured and trace:
                yield Traced(measured.transactions / measured.seconds, trace)


if __name__ == "__main__":
    sys.exit(main())
