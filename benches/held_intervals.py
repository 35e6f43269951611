"""Counts how often the intervals of default sweeps contain the mean over many sweeps with different seeds.

    PYTHONPATH=python .venv/bin/python benches/held_intervals.py FOLDER [--seeds 20] [-- OPTION ...]

Runs `bufferlab run buffer-size` once per seed below FOLDER, with the options after `--`; the same command resumes it.
Then it compares each point's interval of the headline metric with that point's mean over all sweeps, which stands for
the truth: with 20 sweeps its error is a fifth of a sweep's. Counts do not depend on other work on the host.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

from bufferlab.chapter import stopping
from bufferlab.chapter.analysis import Analysis
from bufferlab.registry import open_sweep


def main() -> None:
    """Run the missing sweeps, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("options", nargs="*")
    arguments = parser.parse_args()
    sweeps = [swept(arguments.folder / str(seed), seed, arguments.options) for seed in range(1, arguments.seeds + 1)]
    print("| point | mean of all | intervals that hold it | of |\n|---|---:|---:|---:|")
    held = of = 0
    for place, point in enumerate(sweeps[0].points):
        means = [mean for one in sweeps if (mean := one.mean(one.headline, one.points[place])) and mean.has_interval]
        centre = statistics.fmean(mean.value for mean in means)
        holding = sum((mean.ci_low or 0) <= centre <= (mean.ci_high or 0) for mean in means)
        held, of = held + holding, of + len(means)
        print(f"| {point.label} | {centre:.4g} | {holding} | {len(means)} |")
    failed = sum(check.status == "failed" for one in sweeps for check in one.checks)
    blocks = [len(one.whole_blocks) for one in sweeps]
    resolved = [stopping.reason(one) for one in sweeps].count("resolved")
    print(f"\n{held} of {of} hold ({100 * held / of:.1f} %); {failed} failed checks")
    print(f"blocks: {min(blocks)} to {max(blocks)}; {resolved} of {len(sweeps)} sweeps ended with all resolved")


def swept(folder: Path, seed: int, options: list[str]) -> Analysis:
    """Return the analysis of a seed's sweep; do the sweep if it is missing."""
    begun = [path for path in folder.glob("buffer-size-*") if (path / "plan.json").exists()]
    command = [sys.executable, "-m", "bufferlab", "run"]
    command += (
        ["--resume", str(begun[0])] if begun else ["buffer-size", "--seed", str(seed), "--out", str(folder), *options]
    )
    if not begun or stopping.reason(Analysis.of(open_sweep(begun[0]))) == "interrupted":
        subprocess.run([*command, "--share-device"], check=True, stdout=subprocess.DEVNULL)
    (path,) = folder.glob("buffer-size-*")
    return Analysis.of(open_sweep(path))


if __name__ == "__main__":
    main()
