"""Repeats, at a small scale, the measurements of the five documents of docs/labs, with a lab report (PDF) of each.

Called by labs. Each document has a page in docs/labs, which shows the commands below unchanged. A sweep that is
complete is not measured again; a stopped sweep is resumed. If this host cannot set what a sweep asks for (a loop
device, the device's read-ahead, a bound on memory), a second command leaves that out, and this program says so.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import monotonic

from prediction_cells import minutes_since, sweep_folder

PYTHON = ".venv/bin/python"
PDF_PACKAGES = "requirements-pdf.lock"
KEPT_GOING = (0, 1)
"""The exit codes of a sweep that has results: complete, or with failed points."""
STOPPED = (130, 143)
"""The exit codes of a command that Ctrl-C or SIGTERM ended."""


@dataclass(frozen=True)
class Sweep:
    """One command of a lab, and the name of its report."""

    name: str
    command: str
    needs: tuple[str, ...] = ()
    """The findings of `bufferlab doctor` that must be ok for `command`. Otherwise the command `otherwise` runs."""
    otherwise: str = ""
    """The command for hosts where a finding in `needs` is not ok."""


@dataclass(frozen=True)
class Lab:
    """A document: the name of its page in docs/labs, and the sweeps that repeat its measurements."""

    page: str
    sweeps: tuple[Sweep, ...]

    @property
    def servers(self) -> list[str]:
        """Return the names of the servers that the lab needs, for `bufferlab engines fetch`."""
        words = [word for sweep in self.sweeps for word in sweep.command.split()]
        return [name for option, name in pairwise(words) if option == "--server"]


LABS = (
    Lab(
        "0-page-size",
        (
            Sweep(
                "0-page-size",
                "./bufferlab run page-size --engine mysql --server mysql-5.7 --set pool_size=38MiB "
                "--sweep page_size=4k,8k,16k",
            ),
        ),
    ),
    Lab(
        "1-buffer-size",
        (
            Sweep(
                "1-buffer-size",
                "./bufferlab run buffer-size --engine mysql --server mysql-5.7 "
                "--sweep pool_size=12.8%,25.6%,32%,44.8%,51.2%",
            ),
        ),
    ),
    Lab(
        "2-lru-scan-depth",
        (
            Sweep(
                "2-lru-scan-depth",
                "./bufferlab run scan-depth --server mysql-5.7 --sweep lru_scan_depth=128,512,1024,2048,8192",
            ),
        ),
    ),
    Lab(
        "3-hot-rows",
        (
            Sweep(
                "3-hot-rows",
                "./bufferlab run hot-rows --engine mysql --server mysql-5.7 --sweep page_size=4k,16k "
                "--sweep layout=scattered,clustered --sweep hot_rows=50%,90%,110%,150%,200% --repetitions 2",
            ),
        ),
    ),
    Lab(
        "4-random-read-and-index-scan",
        (
            Sweep(
                "4-random-read",
                "./bufferlab run random-read --repetitions 3",
                ("loop devices",),
                "./bufferlab run random-read --set device=as_is --sweep read_ahead=as_is --repetitions 3",
            ),
            Sweep(
                "4-index-scan",
                "./bufferlab run index-scan --engine postgres --server postgres-17 "
                "--sweep plan=index_scan,bitmap,sequential --sweep read_ahead=128,0 --repetitions 3",
                ("memory limit", "read-ahead"),
                "./bufferlab run index-scan --engine postgres --server postgres-17 --set memory_limit=off "
                "--repetitions 3",
            ),
        ),
    ),
)


def ended(log: Path, *words: str) -> int:
    """Run a command to its end, with its output in the file `log`; return its exit code.

    Ctrl-C reaches the command too. This function then waits, so that the command can clean up and end. It passes
    SIGTERM on to the command. After either signal, it returns the code of a command ended by that signal.
    """
    stopped: list[int] = []
    running: list[subprocess.Popen[bytes]] = []

    def note(number: int, _: object) -> None:
        stopped.append(128 + number)
        for process in running:
            if number == signal.SIGTERM:
                process.send_signal(number)

    # Set the handlers before the command starts. Otherwise a signal between the two would end this program alone.
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with log.open("a") as opened, subprocess.Popen(words, stdout=opened, stderr=opened) as process:
            running.append(process)
            if stopped:
                process.terminate()
            code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return stopped[0] if stopped else code


def unless_stopped(code: int) -> int:
    """Return `code`. Raises SystemExit if it means that a signal stopped the command."""
    if code in STOPPED:
        print("stopped; called again, it goes on from here", flush=True)
        raise SystemExit(code)
    return code


def bufferlab(log: Path, *arguments: str) -> int:
    """Run ./bufferlab with `ended`. Raises SystemExit if a signal stopped it."""
    return unless_stopped(ended(log, "./bufferlab", *arguments))


def set_pdf_up(log: Path) -> None:
    """Install Typst, which makes the PDFs, into the environment that ./bufferlab made, unless it is there already."""
    # Without ./bufferlab's environment nothing can be measured; the function `able` reports that later.
    if not Path(PYTHON).exists() or unless_stopped(ended(log, PYTHON, "-c", "import typst")) == 0:
        return
    print("installing Typst, which sets the reports", flush=True)
    if unless_stopped(ended(log, PYTHON, "-m", "pip", "install", "--require-hashes", "-r", PDF_PACKAGES)) != 0:
        print(f"Typst could not be installed, see {log}; the sweeps are done all the same", file=sys.stderr)


def able(log: Path) -> frozenset[str]:
    """Return the names of the findings of `bufferlab doctor` that are ok on this host."""
    with log.open("a") as opened:
        # The sweeps have their data directory there too.
        place = os.environ.get("BUFFERLAB_DATA") or str(log.parent)
        words = ["./bufferlab", "doctor", "--json", "--data-dir", place]
        told = subprocess.run(words, stdout=subprocess.PIPE, stderr=opened, check=False)
    try:
        return frozenset(finding["name"] for finding in json.loads(told.stdout)["findings"] if finding["ok"])
    except ValueError:
        raise SystemExit(f"bufferlab doctor told nothing, see {log}") from None


def command_for(sweep: Sweep, abilities: Collection[str]) -> str:
    """Return the one of a sweep's commands that this host can do."""
    lacking = [need for need in sweep.needs if need not in abilities]
    if not lacking:
        return sweep.command
    print(f"{sweep.name}: without {' and '.join(lacking)}, which `./bufferlab doctor` explains")
    return sweep.otherwise


def measured(folder: Path, name: str, command: str) -> bool:
    """Do a sweep or resume it; return whether it has results for a report."""
    done, into, log = folder / f"{name}.done", folder / name, folder / f"{name}.log"
    if done.exists():
        return True
    begun, started = sweep_folder(into), monotonic()
    print(f"{name}: {'going on' if begun else 'begun'}", flush=True)
    _, *arguments = shlex.split(command)
    code = bufferlab(log, *(("run", "--resume", str(begun)) if begun else (*arguments, "--out", str(into))))
    if code == 0:
        done.touch()
    words = "done" if code == 0 else f"some runs failed, see {log}," if code == 1 else f"failed, see {log},"
    print(f"{name}: {words} after {minutes_since(started)}", flush=True)
    return code in KEPT_GOING and sweep_folder(into) is not None


def reported(folder: Path, name: str) -> Path | None:
    """Make the lab report of a sweep; return its path, or None if that failed."""
    sweep, pdf, log = sweep_folder(folder / name), folder / f"{name}.pdf", folder / f"{name}.log"
    assert sweep is not None
    if bufferlab(log, "report", str(sweep), "--format", "pdf") != 0:
        print(f"{name}: no PDF, see {log}", flush=True)
        return None
    shutil.copyfile(sweep / "report.pdf", pdf)
    return pdf


def done(folder: Path, labs: Sequence[Lab]) -> Iterator[tuple[str, Path | None]]:
    """Do the labs; yield the name of each sweep, with the path of its report."""
    abilities = able(folder / "doctor.log")
    for lab in labs:
        for sweep in lab.sweeps:
            whole = measured(folder, sweep.name, command_for(sweep, abilities))
            yield sweep.name, reported(folder, sweep.name) if whole else None


def main() -> int:
    """Do the labs that the arguments ask for; return 1 if something failed."""
    parser = argparse.ArgumentParser(prog="tools/labs", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--only", default="", help="names of pages in docs/labs, with commas between them")
    parser.add_argument("--list", action="store_true", help="print the commands and do nothing")
    given = parser.parse_args()
    names = given.only.split(",") if given.only else [lab.page for lab in LABS]
    if unknown := {*names} - {lab.page for lab in LABS}:
        parser.error(f"no pages are named {', '.join(sorted(unknown))}")
    wanted = [lab for lab in LABS if lab.page in names]
    if given.list:
        print("\n".join(sweep.command for lab in wanted for sweep in lab.sweeps))
        return 0
    if given.folder is None:
        parser.error("name a folder for the sweeps and their reports")
    given.folder.mkdir(parents=True, exist_ok=True)
    started, log = monotonic(), given.folder / "fetch.log"
    servers = sorted({server for lab in wanted for server in lab.servers})
    if bufferlab(log, "engines", "fetch", *servers) != 0:
        print(f"not all servers could be fetched, see {log}", file=sys.stderr)
    set_pdf_up(given.folder / "pdf.log")
    reports = dict(done(given.folder, wanted))
    partly = [name for name, pdf in reports.items() if pdf and not (given.folder / f"{name}.done").exists()]
    print(f"all after {minutes_since(started)}")
    for name, pdf in reports.items():
        print(f"not done: {name}" if pdf is None else str(pdf), file=sys.stderr if pdf is None else sys.stdout)
    for name in partly:
        print(f"not whole: {name}; called again, its failed runs are done again", file=sys.stderr)
    return 1 if partly or None in reports.values() else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # Ctrl-C came between two commands.
        sys.exit(130)
