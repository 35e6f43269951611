"""What a sweep costs more with the traces that it carries by default: wall time, and bytes of its folder.

    PYTHONPATH=python .venv/bin/python benches/page_trace_sweep.py [--pairs 1] [--engine mysql --server mysql-5.7] ...

Runs `bufferlab run buffer-size` with `--no-page-trace` and without it in turn; further options go to both. Wall time
is from the first run's begin to the command's end, so that the load is left out and what a sweep reckons at its end is
not. The runs of a pair stand beside each other, point by point and block by block: their ratio has an interval. A sweep
in which a run or a trace failed ends the benchmark. All else must rest. Prints a Markdown table. A pair of the default
sweep on SQLite, 2 x 25 runs, takes ten to thirty minutes, by the speed of the disk; one with `--quick` a minute.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from random_read_fio import ratio

from bufferlab.registry import open_sweep

AIM_RATIO = 1.05
AIM_MORE_BYTES = 100_000_000
_HEAD = ("pairs", "sweep without, s", "with, s", "ratio", "of its runs (95 %)", "folder without, MB", "more with, MB",
         "aims: <= 1.05, <= 100 MB")  # fmt: skip


@dataclass(frozen=True)
class Swept:
    """One sweep."""

    seconds: float
    run_seconds: dict[tuple[str, int], float]
    """By the point's key and the block."""
    folder_bytes: int


def main() -> None:
    """Sweep in turn, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1)
    arguments, more = parser.parse_known_args()
    sides: dict[bool, list[Swept]] = {False: [], True: []}
    for pair in range(arguments.pairs):
        for traced in (False, True) if pair % 2 == 0 else (True, False):
            sides[traced].append(swept(more, traced))
            print(
                f"pair {pair + 1}, {'with' if traced else 'without'}: {sides[traced][-1].seconds:.0f} s",
                file=sys.stderr,
            )
    print("\n".join(table(sides[False], sides[True])))


def table(plain: list[Swept], traced: list[Swept]) -> list[str]:
    """Return the Markdown table of pairs."""
    seconds = [sum(one.seconds for one in side) for side in (plain, traced)]
    longer = seconds[1] / seconds[0]
    pairs = list(zip(plain, traced, strict=True))
    runs = [other.run_seconds[key] / one.run_seconds[key] for one, other in pairs for key in one.run_seconds]
    more_bytes = max(other.folder_bytes - one.folder_bytes for one, other in pairs)
    met = longer <= AIM_RATIO and more_bytes <= AIM_MORE_BYTES
    row = (
        str(len(plain)), *(f"{total / len(plain):.1f}" for total in seconds), f"{longer:.3f}", ratio(runs),
        f"{plain[0].folder_bytes / 1e6:.1f}", f"{more_bytes / 1e6:.1f}", "met" if met else "missed",
    )  # fmt: skip
    return [f"| {' | '.join(_HEAD)} |", "|---" * len(_HEAD) + "|", f"| {' | '.join(row)} |"]


def swept(more: list[str], traced: bool) -> Swept:
    """One sweep in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as out:
        asked = ["run", "buffer-size", *more, "--out", out, *([] if traced else ["--no-page-trace"])]
        done = subprocess.run([sys.executable, "-m", "bufferlab", *asked], capture_output=True, text=True)
        ended = datetime.now(UTC)
        if done.returncode:
            raise SystemExit(f"bufferlab {' '.join(asked)} ended with {done.returncode}: {done.stderr}")
        (folder,) = (path.parent for path in Path(out).glob("*/plan.json"))
        runs = [record.run for record in open_sweep(folder).runs()]
        for trace in (run.page_trace for run in runs):
            if (trace is not None) is not traced or (trace and trace.status == "failed"):
                raise SystemExit(f"a run's trace is not as it should be: {trace}")
        moment = datetime.fromisoformat
        return Swept(
            seconds=(ended - min(moment(run.started_at) for run in runs)).total_seconds(),
            run_seconds={
                (run.point_key, run.block): (moment(run.ended_at) - moment(run.started_at)).total_seconds()
                for run in runs
            },
            folder_bytes=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        )


if __name__ == "__main__":
    main()
