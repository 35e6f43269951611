"""The chapter on this host's noise floor: the scatter of equal runs, as an earlier sweep measured it.

It shows the smallest changes that repetitions can find, and whether this sweep scatters more than the floor. host.json
has the floor; execute/host/stored_noise.py puts it there. An A/A sweep, whose points differ only in a label, shows its
own scatter. The age shown for a floor is its age at the time of the sweep.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.elements import Row, Section, Table
from bufferlab.registry import declared
from bufferlab.stats.noise import Noise, Scatter, clearly_more, detectable, noise, scatter

REPETITIONS = (3, 5, 10)
OLD_DAYS = 30
_ARM = "arm"
_IDENTICAL = "identical"
#: If the noise within a block is at least this share of the noise across blocks, the host is assumed to cause a part of
#: the noise.
_HOST_PART = 0.25


@dataclass(frozen=True)
class _Line:
    """One metric, with its known noise, and its scatter in this sweep."""

    metric: str
    floor: Noise
    here: Scatter | None = None

    @property
    def worse(self) -> bool:
        """Return whether the metric scattered clearly more in this sweep than in the sweep that measured the floor.

        Only metrics to whose noise the host contributes are judged. Counts depend on settings and transactions, and
        scatter even on the quietest host.
        """
        within, across = self.floor.within, self.floor.across
        if self.here is None or within is None or across is None or within.value < _HOST_PART * across.value:
            return False
        return clearly_more(self.here, within)


def noise_floor(analysis: Analysis) -> Section | None:
    """Return the chapter; None for a sweep that is not an A/A sweep, on a host without a known floor."""
    if is_a_a(analysis):
        lines = [_Line(metric, noise(cells)) for metric, cells in _own(analysis)]
        intro = (
            "Both points are the same setting, so all that differs between them is noise. It is kept for this host and "
            "shown with its later sweeps."
        )
        return _section(lines, intro, beside=False)
    floor = _floor_of(analysis)
    if floor is None:
        return None
    known = {row["metric"]: Noise(_read(row["within"]), _read(row["across"])) for row in floor["figures"]}
    lines = [
        _Line(metric, known[metric], _residual(analysis, metric)) for metric in analysis.compared if metric in known
    ]
    settings = ", ".join(f"{name} {floor['settings'][name]}" for name in ("pool_size",) if name in floor["settings"])
    intro = (
        f"Measured {floor['measured_at'][:10]} by {floor['sweep']}: one setting ({settings}) twice in "
        f"{words.plural(floor['blocks'], 'block')} of {floor['transactions']:,} transactions."
    )
    return _section(lines, " ".join([intro, *_warnings(analysis, floor, lines)]), beside=True)


def is_a_a(analysis: Analysis) -> bool:
    """Return whether this is an A/A sweep, whose points differ only in a label."""
    return len(analysis.points) > 1 and all(set(point.swept) == {_ARM} for point in analysis.points)


def _floor_of(analysis: Analysis) -> Mapping[str, Any] | None:
    if not analysis.runs or analysis.across_hosts:
        return None
    run = analysis.runs[0].run
    floors = analysis.sweep.host.get("noise")
    found = floors.get(f"{run.engine}-{run.workload['name']}") if isinstance(floors, Mapping) else None
    return found if isinstance(found, Mapping) else None


def _own(analysis: Analysis) -> list[tuple[str, Sequence[tuple[Hashable, Hashable, float]]]]:
    found = [
        (metric, [cell for point in analysis.points for cell in point.values(metric)]) for metric in analysis.compared
    ]
    return [(metric, cells) for metric, cells in found if cells]


def _residual(analysis: Analysis, metric: str) -> Scatter | None:
    """Return the scatter within the blocks of this sweep, as a relative standard deviation; None if unknown."""
    fit = analysis.fit(metric)
    if fit is None:
        return None
    means = [abs(fit.mean(point).value) for point in fit.points]
    relative = 1.0 if fit.scale == "log" else sum(means) / len(means)
    return scatter(fit.variance_error**0.5 / relative, fit.df_error, fit.n) if relative else None


def _warnings(analysis: Analysis, floor: Mapping[str, Any], lines: Sequence[_Line]) -> list[str]:
    run, found = analysis.runs[0].run, []
    now = {**run.versions, run.engine: run.engine_version}
    other = [
        f"{name} {floor['versions'].get(name, 'not recorded')}, now {now[name]}"
        for name in now
        if floor["versions"].get(name) != now[name]
    ]
    if other:
        found.append(f"Warning: the floor was measured with other versions ({'; '.join(other)}).")
    days = (datetime.fromisoformat(run.started_at) - datetime.fromisoformat(floor["measured_at"])).days
    if days > OLD_DAYS:
        found.append(f"Warning: the floor was {days} days old; bufferlab run noise measures it again.")
    worse = [declared(line.metric).label for line in lines if line.worse]
    if worse:
        named = words.listing(list(map(words.lowered, worse)))
        found.append(f"Warning: this sweep scatters clearly more than the floor in {named}: was the host busy?")
    return found


def _section(lines: Sequence[_Line], intro: str, *, beside: bool) -> Section:
    heads = (
        "<Figure", "Within a block", "Across blocks", *(("This sweep, within",) if beside else ()),
        *(f"Found with {count} runs" for count in REPETITIONS),
    )  # fmt: skip
    rows = (Row(_cells(line, beside), "differs" if line.worse else "") for line in lines)
    caption = (
        "Relative standard deviations of single runs with 95 % intervals. Within a block the runs do the same "
        "transactions, so all that differs is the host; where they are identical, the host adds nothing to the figure. "
        "Across blocks the transactions differ as well. Last columns: the smallest change found four times in five "
        "between two settings, by the noise within a block / across blocks (sweeps with other seeds)."
    )
    return Section(
        "noise", "Noise floor of this host", intro, (Table.of("noise-floor", "Noise", heads, rows, caption),)
    )


def _cells(line: _Line, beside: bool) -> tuple[str, ...]:
    shown = [line.floor.within, line.floor.across, *([line.here] if beside else [])]
    return (
        declared(line.metric).label,
        *(_scatter_text(one) for one in shown),
        *(
            f"{_found(line.floor.within, count, True)} / {_found(line.floor.across, count, False)}"
            for count in REPETITIONS
        ),
    )


def _scatter_text(found: Scatter | None) -> str:
    if found is None:
        return words.NOTHING
    if found.ci_low is None or found.ci_high is None:
        return f"{_IDENTICAL} (n = {found.n})"
    value, low, high = (words.two_digits(one) for one in (found.value, found.ci_low, found.ci_high))
    return f"{value} % ({low}–{high}; n = {found.n})"


def _found(known: Scatter | None, repetitions: int, paired: bool) -> str:
    if known is None or known.value == 0:
        return words.NOTHING
    return f"{words.two_digits(detectable(known.value, repetitions, paired=paired) - 1)} %"


def _read(stored: Mapping[str, Any] | None) -> Scatter | None:
    return Scatter(**stored) if stored else None
