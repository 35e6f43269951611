"""Plans when each recording tier is attached, predicts its cost and the observation's time, and measures the cost.

The predicted cost comes from the server's rates before any recorder is attached. The measured cost has two parts: the
increase of the server threads' processor time per page get, compared with seconds without the tier, and the processor
time of our process. The kernel counts a thread's time in nanoseconds (/proc/PID/task/TID/schedstat). A stop at a probe
site runs in the thread that hits it, so the added work is in the server's own time.

An observation may end before its planned time, because the tier `misses` ends once it has recorded enough evictions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bufferlab.engines.servers.builds import Flavour
from bufferlab.errors import SpecError
from bufferlab.live.frames import READER_US
from bufferlab.live.host_side import children
from bufferlab.live.live_trace import Tier, stop_us
from bufferlab.live.window import SampledRow
from bufferlab.stats.estimate import quantile_of_t
from bufferlab.units import format_duration, format_percent

_FEWEST_SECONDS = 3
_LEVEL = 0.975
TOLD_WITHIN = 1 / 3
"""A measured cost is shown if half the width of its interval is at most this fraction of the cost computed from
events."""


@dataclass(frozen=True)
class Second:
    """One interval between two samples of the counters, about a second."""

    tier: Tier | None
    """The tier that was attached for the whole interval; None if no tier was."""
    seconds: float
    gets: float
    processor_s: float
    """The processor time of all threads of the server."""
    ours_s: float
    """The processor time of this process, including the thread that reads the events."""


@dataclass(frozen=True)
class TierCost:
    """The cost of one tier while it was attached, in processor cores: 0.01 is a hundredth of a core."""

    tier: Tier
    seconds: float
    events: int
    foretold_cores: float
    """The cost predicted from the rates before any recorder was attached."""
    by_events_cores: float
    """The cost computed from the counted stops of the server's threads and the known time of a stop."""
    server_cores: float | None
    """The measured cost: the processor time per get, minus that of seconds without a tier, times the gets per second.

    None if too few seconds of either kind were sampled.
    """
    low: float | None
    high: float | None
    """The upper end of the 95 % interval of `server_cores`, from the scatter of the seconds; `low` is the lower end.

    None if no cost was measured.
    """
    ours_cores: float

    @property
    def is_told(self) -> bool:
        """Return whether the interval is so narrow that the measured cost is worth showing.

        A tier may take a thousandth of a core, while the seconds of a busy server differ by hundredths of a core.
        """
        if self.low is None or self.high is None:
            return False
        return (self.high - self.low) / 2 <= TOLD_WITHIN * self.by_events_cores


def foretold_cores(events_per_s: float, flavour: Flavour, tier: Tier) -> float:
    """Return the processors that recording takes from the server at that many events per second.

    >>> foretold_cores(100_000, "postgres", "full")
    0.3
    """
    return round(events_per_s * stop_us(flavour, tier) / 1e6, 12)


class Processors:
    """A meter of the processor time that a server's threads and bufferlab's process use between readings."""

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self._pid, self._proc = pid, proc
        self._last, self._ours_s = self._read(), time.process_time()

    def grown(self) -> tuple[float, float]:
        """Return the processor seconds of the server, and of this process, since the last reading.

        Ended threads are not included.
        """
        last, ours_s = self._last, self._ours_s
        self._last, self._ours_s = self._read(), time.process_time()
        server_s = sum(max(0, now - last.get(thread, 0)) for thread, now in self._last.items()) / 1e9
        return server_s, self._ours_s - ours_s

    def _read(self) -> dict[str, int]:
        found = {}
        for pid in (self._pid, *children(self._proc, self._pid)):
            with suppress(OSError):
                for task in (self._proc / f"{pid}/task").iterdir():
                    with suppress(OSError, ValueError, IndexError):
                        found[task.name] = int((task / "schedstat").read_text().split()[0])
        return found


def cost(
    seconds: Sequence[Second], flavour: Flavour, tier: Tier, attached_s: float, events: int, foretold: float
) -> TierCost:
    """Return the cost of a tier that was attached for `attached_s` seconds; `foretold` is its predicted cost."""
    during = [one for one in seconds if one.tier == tier and one.gets]
    beside = [one for one in seconds if one.tier is None and one.gets]
    whole_s = sum(one.seconds for one in during)
    ours = sum(one.ours_s for one in during) / whole_s if whole_s else 0.0
    by_events = foretold_cores(events / attached_s, flavour, tier) if attached_s else 0.0
    if min(len(during), len(beside)) < _FEWEST_SECONDS:
        return TierCost(tier, attached_s, events, foretold, by_events, None, None, None, ours)
    gets_per_s = sum(one.gets for one in during) / whole_s
    (with_it, with_error, with_freedom), (without, error, freedom) = map(_per_get, (during, beside))
    spread = with_error**4 / with_freedom + error**4 / freedom
    both = math.hypot(with_error, error)
    half = quantile_of_t(_LEVEL, both**4 / spread) * both if spread else 0.0
    found = with_it - without
    added, low, high = (gets_per_s * value for value in (found, found - half, found + half))
    return TierCost(tier, attached_s, events, foretold, by_events, added, low, high, ours)


def _per_get(seconds: Sequence[Second]) -> tuple[float, float, int]:
    """Return the processor time per get, its standard error, and the degrees of freedom of that error.

    It is the ratio of the summed times and gets, because PostgreSQL's sessions report gets about once a second. So one
    second may have the processor time of gets that are reported in the next one. The error is Cochran's ("Sampling
    Techniques", 1977, 6.4).
    """
    gets, count = sum(one.gets for one in seconds), len(seconds)
    found = sum(one.processor_s for one in seconds) / gets
    left = sum((one.processor_s - found * one.gets) ** 2 for one in seconds)
    return found, math.sqrt(left * count / (count - 1)) / gets, count - 1


BESIDE_S = 5.0
"""The seconds before and after each attachment without a recorder. The cost is measured against them."""
FULL_S = 10.0
MOST_FULL = 3
"""The maximum number of windows of the tier `full`.

Each has FULL_S seconds, or more if the pool turns over slowly (`full_s`).
"""
TURNOVERS = 2.0
"""How many turnovers of the pool all windows of `full` together should record."""
WATCHING_CORES = 0.008
"""The processors that bufferlab's process uses besides its events: it queries the server once a second and draws the
progress.

On an AMD EPYC with 460 events per second the whole process took 0.0058 of a processor without a terminal and 0.0087 in
one, 0.0007 of them for the events.
"""
_FRAME_EVENTS = 2
"""The number of events per page that is read or created: the read or creation, and the eviction that makes room."""


@dataclass(frozen=True)
class Stage:
    """A part of the observation: the attached tier, or None, and its length in seconds."""

    tier: Tier | None
    seconds: float


@dataclass(frozen=True)
class Foretold:
    """The predicted cost of a tier, by the rates before any recorder was attached."""

    tier: Tier
    events_per_s: float
    seconds: float
    """The seconds of all windows of the tier together."""
    flavour: Flavour
    left_out: str = ""
    """Words for the events that are not in the prediction, because the server does not count them; "" if there are
    none."""

    @property
    def cores(self) -> float:
        """Return the processors that the tier's events take from the server."""
        return foretold_cores(self.events_per_s, self.flavour, self.tier)

    @property
    def recorder_cores(self) -> float:
        """Return the processors that bufferlab's recorder uses."""
        return WATCHING_CORES + self.events_per_s * READER_US / 1e6


def stages(tier: Tier, within_s: float, full_s: float = FULL_S, *, larger: bool = True) -> tuple[Stage, ...]:
    """Return the stages of an observation of `within_s` seconds. The first and last one have no recorder.

    The tier `full` has short windows. `misses` has the rest of the time, if larger sizes are to be judged (`larger`).
    Windows of `full` have `full_s` seconds, or fewer if all would take more than half of the time, but at least FULL_S.

    >>> [(one.tier, one.seconds) for one in stages("full", 60)]
    [(None, 5.0), ('full', 10.0), (None, 5.0), ('misses', 35.0), (None, 5.0)]
    """
    found, left_s = [Stage(None, BESIDE_S)], within_s - 2 * BESIDE_S
    if tier == "full":
        windows = max(1, min(MOST_FULL, int(left_s / 2 // (FULL_S + BESIDE_S))))
        seconds = min(left_s, max(FULL_S, min(full_s, left_s / 2 / windows - BESIDE_S)))
        for _ in range(windows):
            found += [Stage("full", seconds), Stage(None, BESIDE_S)]
            left_s -= seconds + BESIDE_S
    if left_s >= BESIDE_S and (larger or tier == "misses"):
        found += [Stage("misses", left_s), Stage(None, BESIDE_S)]
    return tuple(found)


def full_s(rows: Sequence[SampledRow], pool_pages: float, limit_cores: float, flavour: Flavour) -> float:
    """Return the seconds that each window of `full` needs so that all windows together record TURNOVERS turnovers of
    the pool.

    All windows together take at most as much processor time as windows of FULL_S seconds would at a cost of
    `limit_cores`. `rows` are from a time without recorders.
    """
    (full,) = foretell((Stage("full", 1.0),), rows, flavour)
    reads_per_s = sum(row.counts.get("pages_read", 0.0) for row in rows) / (sum(row.seconds for row in rows) or 1.0)
    wanted_s = TURNOVERS * pool_pages / reads_per_s / MOST_FULL if reads_per_s else FULL_S
    return max(FULL_S, min(wanted_s, FULL_S * limit_cores / full.cores if full.cores else FULL_S))


def foretell(planned: Sequence[Stage], rows: Sequence[SampledRow], flavour: Flavour) -> tuple[Foretold, ...]:
    """Return the predicted cost of each tier of the stages, from rows of a time without recorders."""
    seconds = sum(row.seconds for row in rows) or 1.0
    gets, read, made, written = (
        sum(row.counts.get(name, 0.0) for row in rows) / seconds
        for name in ("page_gets", "pages_read", "pages_created", "pages_written")
    )
    events: dict[Tier, float] = {"full": gets + _FRAME_EVENTS * (read + made), "misses": read + written}
    lengths = {tier: sum(one.seconds for one in planned if one.tier == tier) for tier in events}

    def lacks(name: str) -> bool:
        return not any(name in row.counts for row in rows)

    # PostgreSQL up to 15 counts created pages as read, so its prediction includes them.
    makes = "the pages that it makes" if flavour != "postgres" and lacks("pages_created") else ""
    left_out: dict[Tier, str] = {"full": makes, "misses": "its writes" if lacks("pages_written") else ""}
    return tuple(
        Foretold(tier, events[tier], length, flavour, left_out[tier]) for tier, length in lengths.items() if length
    )


def refuse_above(limit_cores: float, foretold: Sequence[Foretold]) -> None:
    """Raise SpecError if a tier would take more than `limit_cores` processors from the server."""
    for one in foretold:
        if one.cores > limit_cores:
            each = f"{stop_us(one.flavour, one.tier):g} µs each"
            what = (
                f"the tier {one.tier} would take {format_percent(one.cores)} of a processor: {one.events_per_s:,.0f} "
                f"{'gets' if one.tier == 'full' else 'reads and writes'} a second of {each}"
            )
            instead = "--tier misses, or " if one.tier == "full" else ""
            raise SpecError(what, f"--max-cpu {format_percent(limit_cores)}", f"{instead}a larger --max-cpu")


def sentence(one: Foretold) -> str:
    """Return the sentence on the predicted cost of a tier."""
    alone = f", without {one.left_out}, which the server does not count" if one.left_out else ""
    what = "stops" if one.tier == "full" else "calls"
    return (
        f"It costs the server {format_percent(one.cores)} of a processor ({one.events_per_s:,.0f} {what} a second"
        f"{alone}) and this command {format_percent(one.recorder_cores)}, for {format_duration(one.seconds)} at most."
    )


LEAST_MISSES_S = 120.0
"""The least seconds for which `misses` stays attached, because its bounds come from the scatter of time slices."""
STAGE_S = 0.7
"""The seconds that a stage takes in addition to its planned time.

A stage ends with the first sample after its planned time, and attaching, detaching and reading the record take time.
Observations of 90 and 120 s with nine stages took 96 and 128 s on MySQL 5.7.
"""
EVALUATION_S = 1.0
EVALUATED_US = 0.5
"""The evaluation time for each event in microseconds. EVALUATION_S seconds come on top, for the models and the report.

On an AMD EPYC with other work the answer took 0.6 s for 0.5 million events, and 1.6 s for 8.6 million.
"""
_SURE_S = 10.0
"""After this many seconds, the rate of evictions in the observation itself predicts its end better than the rate before
it."""


@dataclass(frozen=True)
class Pace:
    """The quantities from which an observation's time is computed."""

    pages_wanted: float
    """The number of evictions after which `misses` ends, enough for the largest size; 0 or less if it takes all of its
    time."""
    evictions_per_s: float = 0.0
    """The evictions per second before any recorder was attached."""
    events: float = 0.0
    """The predicted number of events of `full` to record and evaluate."""

    @property
    def evaluation_s(self) -> float:
        """Return the seconds of the evaluation after the observation."""
        return EVALUATION_S + EVALUATED_US * self.events / 1e6

    def stage_s(self, stage: Stage, evictions_per_s: float | None = None) -> float:
        """Return the seconds that a stage will take: `misses` ends early once it has recorded enough evictions.

        >>> Pace(30_000, 100).stage_s(Stage("misses", 590)), Pace(30_000, 100).stage_s(Stage("full", 10))
        (300.0, 10)
        """
        per_s = self.evictions_per_s if evictions_per_s is None else evictions_per_s
        if stage.tier != "misses" or self.pages_wanted <= 0 or per_s <= 0:
            return stage.seconds
        return min(stage.seconds, max(LEAST_MISSES_S, self.pages_wanted / per_s))

    def look_s(self, stages: Sequence[Stage]) -> float:
        """Return the seconds that these stages will take together."""
        return sum(self.stage_s(one) + STAGE_S for one in stages)

    def left_s(self, planned: Sequence[Stage], place: int, spent_s: float, evicted: int | None) -> float:
        """Return the seconds left, evaluation included, after `spent_s` seconds of the stage with index `place`.

        `evicted` are the evictions that `misses` has recorded in this stage; None for other stages.
        """
        if place >= len(planned):
            return self.evaluation_s
        per_s = evicted / spent_s if evicted is not None and spent_s >= _SURE_S else None
        this_s = max(0.0, self.stage_s(planned[place], per_s) + STAGE_S - spent_s)
        return this_s + self.look_s(planned[place + 1 :]) + self.evaluation_s


def pace(foretold: Sequence[Foretold], pages_wanted: float, evictions_per_s: float) -> Pace:
    """Return the `Pace` of an observation from the rates before any recorder was attached."""
    events = sum(one.events_per_s * one.seconds for one in foretold if one.tier == "full")
    return Pace(pages_wanted, evictions_per_s, events)


def time_sentence(planned: Sequence[Stage], found: Pace) -> str:
    """Return in words the predicted time of an observation, its evaluation included."""
    expected_s = found.look_s(planned) + found.evaluation_s
    most_s = sum(one.seconds + STAGE_S for one in planned) + found.evaluation_s
    most = f", {format_duration(most_s)} at most" if math.ceil(most_s) > 1.05 * expected_s else ""
    early = " (until enough pages were evicted)" if most else ""
    return (
        f"Until the answer it takes about {format_duration(expected_s)}{early}{most}. Ctrl-C ends it earlier, with the "
        "answer so far."
    )
