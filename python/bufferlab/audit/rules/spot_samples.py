"""Compares one-second samples of iostat with the cumulative counters of the status text between the same times.

Counters hold every read of the run, a few samples only a few seconds. Where both are given, the counters decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import mean, stdev

from bufferlab.audit.case import Case, Rates, RunEvidence, name_of
from bufferlab.audit.finding import Finding, Rule
from bufferlab.units import format_percent

NAME = "spot-samples"
#: Samples this near the counters lead nobody astray.
_NEAR = 0.10


@dataclass(frozen=True)
class Sampled:
    """A run that has both samples and counters."""

    run: RunEvidence
    rates: Rates
    spots: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean of the samples."""
        return mean(self.spots)

    @property
    def off(self) -> float:
        """The relative deviation of the samples' mean from the counters': their ratio less one."""
        return self.mean / self.rates.read_per_s - 1


def check(case: Case) -> Iterator[Finding]:
    """Yield one finding for each file whose samples miss the counters, or show a trend that the counters do not."""
    for runs in case.runs_by_file.values():
        sampled = [found for run in runs if (found := sampled_of(run))]
        if not sampled:
            continue
        contradicted = len(sampled) > 1 and abs(_trend([one.mean for one in sampled]) - _counted(sampled)) > _NEAR
        if contradicted or any(abs(one.off) > _NEAR for one in sampled):
            yield _finding(sampled, contradicted)


def sampled_of(run: RunEvidence) -> Sampled | None:
    """Return the samples of a run with its counters; None when it lacks one of them."""
    rates = run.rates()
    spots = tuple(row.reads_per_s for row in run.spots() if row.reads_per_s is not None)
    return Sampled(run, rates, spots) if rates and rates.read_per_s and len(spots) > 1 else None


def _trend(values: list[float]) -> float:
    return values[-1] / values[0] - 1 if values[0] else 0.0


def _counted(sampled: list[Sampled]) -> float:
    return _trend([one.rates.read_per_s for one in sampled])


def _finding(sampled: list[Sampled], contradicted: bool) -> Finding:
    spots = " / ".join(f"{one.mean:.0f}" for one in sampled)
    counters = " / ".join(f"{one.rates.read_per_s:.1f}" for one in sampled)
    names = " / ".join(name_of(one.run) for one in sampled)
    scatter = max(stdev(one.spots) for one in sampled)
    n = " / ".join(str(len(one.spots)) for one in sampled)
    seconds = sampled[0].rates.seconds
    what = (
        f"the mean of {n} iostat samples is {spots} reads/s ({names}; samples of one setting scatter by up to"
        f" ±{scatter:.0f}),"
        f" the counters between {seconds:.0f} s say {counters} pages read/s"
    )
    if contradicted:
        by_spots = _trend([one.mean for one in sampled])
        consequence = (
            f"from the first setting to the last the samples change by {_signed(by_spots)}, the counters by"
            f" {_signed(_counted(sampled))}: a conclusion drawn from the samples is contradicted"
        )
    else:
        worst = max(sampled, key=lambda one: abs(one.off))
        consequence = (
            f"the samples are off by up to {_signed(worst.off)} ({name_of(worst.run)}): they are noise, not a trend"
        )
    parts = [
        f"{name_of(one.run)}: {', '.join(f'{part.read_per_s:.0f}' for part in one.run.segments())}" for one in sampled
    ]
    return Finding(
        NAME,
        sampled[0].rates.start.place,
        what,
        consequence,
        f"{counters} pages read/s; between the printouts {'; '.join(parts)}",
        {
            "runs": [name_of(one.run) for one in sampled],
            "samples_reads_per_s": [list(one.spots) for one in sampled],
            "samples_mean": [one.mean for one in sampled],
            "counters_reads_per_s": [one.rates.read_per_s for one in sampled],
            "segments_reads_per_s": [[part.read_per_s for part in one.run.segments()] for one in sampled],
        },
    )


def _signed(ratio: float) -> str:
    return f"{'−' if ratio < 0 else '+'}{format_percent(abs(ratio))}"


RULE = Rule(NAME, "Do a few samples say what the counters say?", check)
