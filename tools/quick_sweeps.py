"""Measures quick sweeps of SQLite for tools that count claims over many sweeps; computes intervals of such shares.

A sweep is `run buffer-size --engine sqlite --quick --no-page-trace` at one pool size, with its own seed.
same-or-doubled and history-alarms use this module. Each of them has a table to which it adds the measured sweeps.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from bufferlab.execute.probes.page_trace_probe import TraceWish
from bufferlab.execute.sweep import SweepOptions, run_sweep
from bufferlab.results.store import SweepFolder
from bufferlab.spec import Overrides, load
from bufferlab.units import format_duration

Part = TypeVar("Part")

LEVEL = 0.95


def quick_sweep(out: Path, pool: str, seed: int, cap_s: float | None = None) -> SweepFolder:
    """Measure a sweep of one run below `out`. A signal ends the sweep, and the tool too.

    `cap_s`, if given, is the time limit, in seconds, of the warm-up and of the window.
    """
    overrides = Overrides(profile="quick", engine="sqlite", sweep=(("pool_size", (pool,)),), seed=seed)
    experiment = load("buffer-size", overrides)
    if cap_s is not None:
        capped = {"max_duration": cap_s}
        warm_up, measured = (one.model_copy(update=capped) for one in (experiment.warm_up, experiment.measure))
        experiment = experiment.model_copy(update={"warm_up": warm_up, "measure": measured})
    outcome = run_sweep(experiment, out, options=SweepOptions(page_trace=TraceWish(unwanted=True)))
    if outcome.signal_number is not None:
        sys.exit(128 + outcome.signal_number)
    if outcome.failed:
        reason = next(filter(None, (record.reason for record in outcome.folder.runs())), "no reason is stored")
        sys.exit(f"the sweep of seed {seed} failed: {reason}")
    return outcome.folder


def with_time_left(parts: Sequence[Part]) -> Iterator[Part]:
    """Yield the parts to measure. After each part, print an estimate of the time left."""
    began = time.monotonic()
    for done, part in enumerate(parts, start=1):
        yield part
        left_s = (time.monotonic() - began) / done * (len(parts) - done)
        print(f"{done} of {len(parts)} done, about {format_duration(left_s)} left", file=sys.stderr, flush=True)


def interval(found: int, of: int) -> tuple[float, float]:
    """Return the exact interval of a binomial share (Clopper and Pearson, Biometrika 26, 1934)."""
    from scipy.special import betaincinv

    tail = (1 - LEVEL) / 2
    low = float(betaincinv(found, of - found + 1, tail)) if found else 0.0
    high = float(betaincinv(found + 1, of - found, 1 - tail)) if found < of else 1.0
    return low, high
