"""Judges the rules of `compare --fail-if`: "reads_per_new_order worse 5%" is broken, holds, or is undecided.

All rules of a command, at all matched settings, are one family: their intervals hold together at 95 %. The metrics of
the report's table are another family. So a rule's interval may be narrower than the table's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import ClassVar, Literal

from bufferlab.chapter import words
from bufferlab.errors import SpecError
from bufferlab.registry import declared, registry
from bufferlab.report.comparison.sides import MatchedSetting
from bufferlab.results.metrics import Work, phase_of
from bufferlab.stats.comparison import Compared

Word = Literal["worse", "higher", "lower"]
Outcome = Literal["broken", "holds", "undecided"]
FLAG = "--fail-if"
ON_UNDECIDED = "An undecided rule ends with code 0, with --undecided fail with code 4."
# The example uses a metric that runs of every workload have.
_EXAMPLE = 'write "reads_per_transaction worse 5%"; shares take percentage points: "hit_ratio worse 1pp"'
_WORDS: dict[str, Word] = {"worse": "worse", "higher": "higher", "lower": "lower"}
_RULE = re.compile(r"\s*(?P<metric>\S+)\s+(?P<word>\S+)\s+(?P<limit>[0-9.]+)\s*(?P<unit>\S*)\s*")


@dataclass(frozen=True)
class Rule:
    """One rule: the metric, the direction that is bad, and the smallest change that breaks the rule."""

    text: str
    metric: str
    word: Word
    limit: float
    """The smallest change in the bad direction that breaks the rule: a share of A's value (0.05 for 5 %).

    For a metric that is itself a share, it is a difference of shares.
    """

    @property
    def rises(self) -> bool:
        """Return whether a larger value is bad."""
        return self.word == "higher" or (self.word == "worse" and declared(self.metric).better == "lower")


@dataclass(frozen=True)
class RuleAtPoint:
    """A rule at one setting: the interval of the change in the bad direction, and the outcome."""

    PRINTED: ClassVar = ("settings", "outcome", "low", "high", "reason", "runs_needed")

    setting: MatchedSetting
    outcome: Outcome
    low: float | None
    high: float | None
    reason: str | None
    """The reason why the interval is missing; None if it exists."""
    runs_needed: int | None = None
    """The number of runs on each side that should decide the rule, estimated from the width of this interval.

    None if the rule is decided, or if the interval is missing.
    """

    @property
    def settings(self) -> dict[str, str]:
        """Return the swept settings."""
        return self.setting.settings


@dataclass(frozen=True)
class RuleJudged:
    """A rule at every setting."""

    PRINTED: ClassVar = ("rule", "outcome", "level", "points")

    rule: Rule
    level: float
    """The confidence level of each single interval."""
    points: tuple[RuleAtPoint, ...]

    @property
    def outcome(self) -> Outcome:
        """Return "broken" if any setting is broken, else "undecided" if any is undecided, else "holds"."""
        found = {point.outcome for point in self.points}
        return "broken" if "broken" in found else "undecided" if "undecided" in found else "holds"


def parse(text: str, work: Work | None = None) -> Rule:
    """Return the rule written as METRIC worse|higher|lower LIMIT% (of a share: LIMITpp, percentage points).

    The hint for a misspelt metric lists metrics of any workload, or only those whose unit of work is `work`.
    Raises SpecError for any other text, for an unknown metric, and for "worse" if neither more nor less is worse.
    """
    where = f'{FLAG} "{text}"'
    match = _RULE.fullmatch(text)
    if match is None:
        raise SpecError("this is not METRIC worse LIMIT%", where, _EXAMPLE)
    name, word, unit = match["metric"], match["word"], match["unit"]
    derived = registry().derived
    metric = derived.get(phase_of(name)[1])
    if metric is None:
        # A user who writes "reads" means "reads_per_...". By spelling alone another metric's name could be closer.
        there = [known for known, of in derived.items() if work is None or of.work in (None, "transaction", work)]
        begin = [known for known in there if known.startswith(f"{name}_per_")]
        within = [known for known in there if f"_{name}_" in known][:4]
        close = begin or get_close_matches(name, there, n=1) or within
        hint = f"did you mean {', '.join(close)}?" if close else "see `bufferlab list metrics`"
        raise SpecError(f'no metric "{name}"', where, hint)
    if word not in _WORDS:
        raise SpecError(f'"{word}" is neither worse, higher nor lower', where, _EXAMPLE)
    if word == "worse" and metric.better == "neither":
        raise SpecError(f"neither more nor less of {name} is worse", where, "write higher or lower")
    wanted = "pp" if metric.is_share else "%"
    if unit != wanted:
        what = f"the limit has no unit: {match['limit']}" if not unit else f'"{unit}" is not the unit of this limit'
        said = "a share, compared in percentage points" if metric.is_share else "compared by ratio"
        raise SpecError(what, where, f"{name} is {said}: write {match['limit']}{wanted}")
    try:
        limit = float(match["limit"]) / 100
    except ValueError:
        raise SpecError(f"{match['limit']} is not a number", where, _EXAMPLE) from None
    return Rule(text.strip(), name, _WORDS[word], limit)


def judge(rule: Rule, level: float, points: Sequence[tuple[MatchedSetting, Compared | None]]) -> RuleJudged:
    """Judge a rule at every matched setting. Raises SpecError if it can be judged at none of them."""
    found = tuple(at_setting(rule, setting, compared) for setting, compared in points)
    if all(point.reason for point in found):
        raise refuse(rule, str(found[0].reason), "two runs or more a side: --repetitions 3")
    return RuleJudged(rule, level, found)


def refuse(rule: Rule, why: str, hint: str) -> SpecError:
    """Return the error for a rule that cannot be judged, with the reason and a hint."""
    return SpecError(f"{rule.metric} cannot be judged: {why}", f'{FLAG} "{rule.text}"', hint)


def at_setting(rule: Rule, setting: MatchedSetting, compared: Compared | None) -> RuleAtPoint:
    """Judge a rule at one setting; `compared` is None if a side lacks the metric."""
    if compared is None:
        return RuleAtPoint(setting, "undecided", None, None, "a side has no such figure")
    verdict = compared.verdict
    if verdict.direction == "identical":
        return RuleAtPoint(setting, "holds", 0.0, 0.0, None)
    low, high = verdict.estimate.ci_low, verdict.estimate.ci_high
    if low is None or high is None:
        return RuleAtPoint(setting, "undecided", None, None, verdict.estimate.note or "there is no interval")
    if verdict.contrast == "ratio":
        low, high = low - 1, high - 1
    elif not declared(rule.metric).is_share:
        # If a run's value is zero there is no ratio. Then the difference is divided by A's mean; if that mean is zero
        # too, by a tiny number, so that the result is huge.
        whole = compared.value_a or min(abs(end) for end in (low, high)) * 1e-9 or 1e-9
        low, high = low / whole, high / whole
    if not rule.rises:
        low, high = -high, -low
    if low > 0 and high >= rule.limit:
        return RuleAtPoint(setting, "broken", low, high, None)
    if low > 0 or high < rule.limit:
        return RuleAtPoint(setting, "holds", low, high, None)
    return RuleAtPoint(setting, "undecided", low, high, None, _runs_needed(rule.limit, low, high, verdict.estimate.n))


def _runs_needed(limit: float, low: float, high: float, runs: int) -> int:
    """Return how many runs each side needs so that the interval excludes either "no change" or the limit."""
    centre, half = (low + high) / 2, (high - low) / 2
    return max(runs + 1, math.ceil(runs * (half / max(centre, limit - centre)) ** 2))


_SAID = {"broken": "broken", "holds": "holds", "undecided": "cannot be told"}


def sentences(judged: RuleJudged, since: str = "", why: str = ", the runs scatter too much") -> list[str]:
    """Return the sentences on a rule: one for each setting that decides the rule's outcome, or a single sentence if the
    rule holds.

    `since` is the name of the sweep from which on changes count. `why` has the words for the cause if the rule is
    undecided.
    """
    told = [point for point in judged.points if point.outcome == judged.outcome]
    said = f"{judged.rule.text}: {_SAID[judged.outcome]}{why if judged.outcome == 'undecided' else ''}"
    said += f" since {since}" if since else ""
    if judged.outcome == "holds" and len(told) > 1:
        return [f"{said} at all {words.plural(len(told), 'setting')}"]
    places = [f" at {point.setting.label}" if point.setting.label else "" for point in told]
    more = [f"; about {point.runs_needed} runs a side would tell" if point.runs_needed else "" for point in told]
    return [
        f"{said}{place} ({span(judged, point)}{_reaches(judged.rule, point)}{needed})"
        for place, point, needed in zip(places, told, more, strict=True)
    ]


def _reaches(rule: Rule, point: RuleAtPoint) -> str:
    """Return in words why an interval that begins below the limit still breaks the rule; "" for other intervals."""
    if point.outcome != "broken" or point.low is None or point.low >= rule.limit:
        return ""
    unit = "pp" if declared(rule.metric).is_share else " %"
    return f": all of the interval is {rule.word}, and it reaches {100 * rule.limit:g}{unit}"


_OPPOSITE = {"worse": "better", "higher": "lower", "lower": "higher"}


def span(judged: RuleJudged, point: RuleAtPoint) -> str:
    """Return the interval of the change, such as "5.1–6.3 % higher"; or why it is missing.

    If the whole interval is in the good direction, the text says so: "60.9–61.5 % better". If the change may have
    either sign, the text has signs: "−0.3 to +0.3 %, + is worse".
    """
    if point.low is None or point.high is None:
        return str(point.reason)
    low, high, way = point.low, point.high, str(judged.rule.word)
    is_share = declared(judged.rule.metric).is_share
    unit = "percentage points" if is_share else "%"
    if not math.isfinite(high - low):
        return f"{words.number(100 * low)} {unit} or more {way}"
    if low <= 0 <= high:
        return f"{words.signed_range(low, high, unit)}, + is {way}"
    if high < 0:
        low, high, way = -high, -low, _OPPOSITE[way]
    return f"{words.percent_range(low, high).removesuffix('%')}{unit} {way}"
