"""A comparison for programs: the one object of `compare --json`, numbers unrounded. docs/compare.md describes it."""

from __future__ import annotations

from typing import Any

from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.registry import declared
from bufferlab.report.compare_guard import differing_settings
from bufferlab.report.compare_metrics import MetricCompared, SidesCompared
from bufferlab.report.compare_rules import RuleJudged
from bufferlab.report.compare_words import answer, limits

COMPARISON_VERSION = 1


def as_json(compared: SidesCompared) -> dict[str, Any]:
    """Return the object; later versions add keys and never rename them."""
    sides = compared.sides
    return {
        "comparison_version": COMPARISON_VERSION,
        "status": "ok",
        "answer": answer(compared),
        "headline": compared.headline,
        "method": compared.method,
        "one_sweep": sides.one_sweep,
        "a": _side(sides.name_a, sides.a),
        "b": _side(sides.name_b, sides.b),
        "differing_settings": {name: {"a": a, "b": b} for name, (a, b) in differing_settings(sides).items()},
        "warnings": list(compared.warnings),
        "forced": [problem.as_dict() for problem in compared.forced],
        "limits": limits(compared),
        "rules": [_rule(judged) for judged in compared.rules],
        "points": [
            {
                "settings": match.settings,
                "a": match.a.label,
                "b": match.b.label,
                "figures": [_figure(figure) for figure in compared.figures if figure.match.place == match.place],
            }
            for match in sides.matched
        ],
        "unmatched": {"a": _points(sides.only_a), "b": _points(sides.only_b)},
    }


def _side(name: str, analysis: Analysis) -> dict[str, Any]:
    return {"name": name, "sweep": str(analysis.sweep.path), "experiment": analysis.sweep.experiment}


def _points(points: tuple[PointRuns, ...]) -> list[dict[str, Any]]:
    return [{"label": point.label, "settings": point.swept, "runs": len(point.ok)} for point in points]


def _rule(judged: RuleJudged) -> dict[str, Any]:
    return {
        "rule": judged.rule.text,
        "metric": judged.rule.metric,
        "limit": judged.rule.limit,
        "outcome": judged.outcome,
        "level": judged.level,
        "points": [
            {
                "settings": point.match.settings,
                "outcome": point.outcome,
                "low": point.low,
                "high": point.high,
                "reason": point.reason,
            }
            for point in judged.points
        ],
    }


def _figure(figure: MetricCompared) -> dict[str, Any]:
    found = figure.found
    estimate = found.verdict.estimate if found else None
    return {
        "metric": figure.metric,
        "unit": declared(figure.metric).unit,
        "outcome": figure.outcome,
        "reason": figure.reason,
        "a": found.value_a if found else None,
        "b": found.value_b if found else None,
        "n_a": found.n_a if found else 0,
        "n_b": found.n_b if found else 0,
        "contrast": found.verdict.contrast if found else None,
        "value": estimate.value if estimate else None,
        "ci_low": estimate.ci_low if estimate else None,
        "ci_high": estimate.ci_high if estimate else None,
        "level": figure.level,
        "smallest_detectable": found.verdict.detectable if found else None,
    }
