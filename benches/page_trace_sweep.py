"""Measures how much more a sweep costs with its default page traces: wall time, and bytes of its folder.

    PYTHONPATH=python .venv/bin/python benches/page_trace_sweep.py [--blocks 5] [--engine mysql --server mysql-5.7] ...

Runs `bufferlab run buffer-size` one block at a time, in turn with `--no-page-trace` and without it, so that changes of
the disk's speed affect both. Further options apply to both. Both sweeps of a block have the same seed; each block has
another one. The time of a whole sweep is that of its blocks plus, once, that after the last run: for tables, figures
and the predictions for other pools. The load is left out. A sweep keeps the traces of only one block. Runs of a block
are compared point by point, and their ratio has an interval. A failed run or trace stops the benchmark. The machine
must be otherwise idle. Prints a Markdown table. The default sweep on SQLite, 2 x 25 runs, takes half an hour; one with
`--quick --blocks 1` a minute.
"""

from __future__ import annotations

import argparse
import statistics
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
_HEAD = (
    "blocks", "sweep without, s", "with, s", "ratio", "of it after the last run, s", "of its runs (95 %)",
    "folder without, MB", "more with, MB", "aims: <= 1.05, <= 100 MB",
)  # fmt: skip


@dataclass(frozen=True)
class Swept:
    """The results of one block."""

    block_seconds: float
    """The time from the first run's begin to the last run's end."""
    end_seconds: float
    """The time from the last run's end to the command's end."""
    run_seconds: dict[str, float]
    """Key of a point -> seconds of its run."""
    folder_bytes: int


def main() -> None:
    """Do the sweeps in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=5)
    arguments, more = parser.parse_known_args()
    sides: dict[bool, list[Swept]] = {False: [], True: []}
    for block in range(1, arguments.blocks + 1):
        for traced in (False, True) if block % 2 else (True, False):
            one = swept([*more, "--repetitions", "1", "--seed", str(block)], traced)
            sides[traced].append(one)
            side = "with" if traced else "without"
            print(f"block {block}, {side}: {one.block_seconds:.0f} s and {one.end_seconds:.1f} s", file=sys.stderr)
    print("\n".join(table(sides[False], sides[True])))


def table(plain: list[Swept], traced: list[Swept]) -> list[str]:
    """Return the Markdown table of blocks."""
    ends = [statistics.fmean(one.end_seconds for one in side) for side in (plain, traced)]
    seconds = [sum(one.block_seconds for one in side) + end for side, end in zip((plain, traced), ends, strict=True)]
    pairs = list(zip(plain, traced, strict=True))
    runs = [other.run_seconds[key] / one.run_seconds[key] for one, other in pairs for key in one.run_seconds]
    more_bytes = max(other.folder_bytes - one.folder_bytes for one, other in pairs)
    longer = seconds[1] / seconds[0]
    met = longer <= AIM_RATIO and more_bytes <= AIM_MORE_BYTES
    row = (
        str(len(plain)), *(f"{value:.1f}" for value in seconds), f"{longer:.3f}",
        f"{ends[0]:.1f}, {ends[1]:.1f}", ratio(runs),
        f"{plain[0].folder_bytes / 1e6:.1f}", f"{more_bytes / 1e6:.1f}", "met" if met else "missed",
    )  # fmt: skip
    return [f"| {' | '.join(_HEAD)} |", "|---" * len(_HEAD) + "|", f"| {' | '.join(row)} |"]


def swept(more: list[str], traced: bool) -> Swept:
    """Do one block in a temporary folder."""
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
        spans = {
            run.point_key: (datetime.fromisoformat(run.started_at), datetime.fromisoformat(run.ended_at))
            for run in runs
        }
        last = max(end for _, end in spans.values())
        return Swept(
            block_seconds=(last - min(begin for begin, _ in spans.values())).total_seconds(),
            end_seconds=(ended - last).total_seconds(),
            run_seconds={key: (end - begin).total_seconds() for key, (begin, end) in spans.items()},
            folder_bytes=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        )


if __name__ == "__main__":
    main()
