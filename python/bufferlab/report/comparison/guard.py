"""Finds differences that make a comparison invalid or doubtful.

Objections prevent the comparison; warnings are shown to its readers.


An objection is a difference that gives the numbers another meaning: the engine, the workload, or loaded data that
differ for a reason other than the compared settings. Different hosts, versions, days and settings give warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from bufferlab.chapter import words
from bufferlab.engines import registry as engines
from bufferlab.errors import Problem, SpecError
from bufferlab.knob import AUTO, Value
from bufferlab.report import early_windows
from bufferlab.report.comparison.sides import MatchedPoint, Sides, asked_of
from bufferlab.results.check_parts import MeasuredRun
from bufferlab.results.schema import Run
from bufferlab.units import readable
from bufferlab.workloads import registry as workloads

_SAME_HINT = "predict and measure with the same settings: --set NAME=VALUE"
FORCE_HINT = "--force compares them all the same, and says so beside the answer"
#: Keys of host.json that do not describe the host, or that repeat other fields.
_NOT_THE_HOST = ("format", "format_version", "host_id", "boot_key", "noise", "data_directory")
#: If the transactions of two windows differ by more than this share, the database grows unequally in them.
_WINDOW_LIMIT = 0.01
#: Numbers that differ by at most this share count as the same setting, because pools are rounded to whole frames.
_ROUNDED = 0.005
#: From this ratio on, chance no longer explains the different lengths of two warm-ups.
_FAR_LONGER = 4


def require_same_source(sides: Sides) -> None:
    """Raise SpecError if one side was measured and the other predicted. No option overrules this."""
    sources = _each(sides, lambda run: run.source)
    if sources[0] != sources[1]:
        a, b = (", ".join(sorted(found)) for found in sources)
        hint = "bufferlab accuracy MEASURED PREDICTED tells how right a prediction was"
        raise SpecError("one side was measured and the other predicted", f"A: {a}; B: {b}", hint)


def require_prediction(sides: Sides) -> None:
    """Raise SpecError unless A is a measured sweep, and B a prediction with the same engine, workload and settings.

    Any other difference would look like an error of the model.
    """
    for analysis, source in ((sides.a, "measured"), (sides.b, "predicted")):
        if any((run.run.prediction is not None) != (source == "predicted") for run in analysis.runs):
            what = f"this sweep was {'predicted' if source == 'measured' else 'measured'}"
            hint = "bufferlab accuracy MEASURED PREDICTED; `compare` sets two measured sweeps beside each other"
            raise SpecError(what, str(analysis.sweep.path), hint)
    against = [Problem(one.what, one.where, _SAME_HINT) for one in objections(sides)]
    against += [
        Problem(f"{name} was {a} when measured and {b} when predicted", None, _SAME_HINT)
        for name, (a, b) in differing_settings(sides).items()
    ]
    if against:
        raise SpecError.of(against)


def objections(sides: Sides) -> list[Problem]:
    """Return the reasons why the sides must not be compared; [] if they may."""
    found = [
        _objection("engine", "a page or a miss of one is not that of another", _each(sides, lambda run: run.engine)),
        _objection(
            "workload",
            "their transactions do not do the same work",
            _each(sides, lambda run: workload_text(run.workload)),
        ),
    ]
    kept = [problem for problem in found if problem]
    return kept or [problem for problem in [_other_data(sides)] if problem]


def warnings(sides: Sides) -> list[str]:
    """Return the warnings that a reader must know before believing the comparison, each a sentence."""
    found = [*_other_settings(sides), *_other_actual(sides), *_other_windows(sides), *_other_warm_ups(sides)]
    found += _other_recorders(sides)
    for name, side, points in (
        ("A", sides.a, [match.a for match in sides.matched]),
        ("B", sides.b, [match.b for match in sides.matched]),
    ):
        found += [f"Side {name}: {text}" for text in early_windows.warnings(side, points)]
    if not sides.one_sweep:
        found += [*_other_host(sides), *_other_versions(sides), *_other_day(sides)]
        if sides.a.sweep.path.resolve() == sides.b.sweep.path.resolve():
            found.append("A and B are the same folder.")
    return found


def differing_settings(sides: Sides) -> dict[str, tuple[str, str]]:
    """Return the settings that differ at matched points: setting -> (A's value, B's value).

    The values are those of the first matched point at which the setting differs.
    """
    found: dict[str, tuple[str, str]] = {}
    for match in sides.matched:
        for name, pair in _differing(match).items():
            found.setdefault(name, pair)
    return found


def _differing(match: MatchedPoint) -> dict[str, tuple[str, str]]:
    a, b = asked_of(match.a), asked_of(match.b)
    gone = "not recorded"
    names = [name for name in dict.fromkeys([*a, *b]) if a.get(name) != b.get(name)]
    return {name: (readable(a.get(name, gone)), readable(b.get(name, gone))) for name in names}


def workload_text(workload: Mapping[str, Any]) -> str:
    """Return a text that identifies a workload: its name and version; for a script also the hash of its text."""
    said = f"{workload.get('name')} version {workload.get('version')}"
    sha256 = workload.get("script_sha256")
    return f"{said}, {workload.get('script')} ({str(sha256)[:12]})" if sha256 else said


def _objection(what: str, why: str, values: tuple[set[str], set[str]]) -> Problem | None:
    if values[0] == values[1]:
        return None
    a, b = (", ".join(sorted(found)) for found in values)
    return Problem(f"the {what} differs, so {why}", f"A: {a}; B: {b}", FORCE_HINT)


def _other_data(sides: Sides) -> Problem | None:
    """Return an objection if the two sides loaded different data.

    The result is None if a compared setting (a page size) or the engine's version explains the difference.
    """
    for match in sides.matched:
        a, b = ({run.run.data_key for run in point.ok} for point in match.both)
        if a == b:
            continue
        # Generated runs have no loaded data, so only the settings that determine the data are compared.
        unknown = None in a | b
        deciding = _deciding(match)
        differing = [name for name in _differing(match) if name in deciding]
        refused = [name for name in differing if deciding[name] == "workload" and name not in sides.chosen]
        if refused:
            named = "; ".join(f"{name}: {' and '.join(_differing(match)[name])}" for name in refused)
            return Problem(f"the loaded data differ in {words.listing(refused)}", named, FORCE_HINT)
        if unknown:
            continue
        if not differing and versions_of(match.a.ok) == versions_of(match.b.ok):
            where = match.label or "the matched point"
            return Problem(
                "the loaded data differ, and no setting explains it", f"{where}: data_key of A and of B", FORCE_HINT
            )
        if not differing and not _engine_versions_differ(match):
            return Problem(
                "the loaded data differ: they were made by different versions of the loader",
                pairs_text(versions_of(match.a.ok), versions_of(match.b.ok)),
                FORCE_HINT,
            )
    return None


def _deciding(match: MatchedPoint) -> dict[str, str]:
    """Return the settings that decide which data are loaded: name -> "engine" or "workload"."""
    run = match.a.ok[0].run
    found: dict[str, str] = {}
    with suppress(KeyError):  # This bufferlab may lack a newer version's engine or workload.
        found |= {knob.name: "engine" for knob in engines.declaration(run.engine).knobs if knob.decides_file}
    with suppress(KeyError):
        declared = workloads.declaration(run.workload["name"]).parameters
        found |= {knob.name: "workload" for knob in declared if knob.decides_file}
    return found


def _engine_versions_differ(match: MatchedPoint) -> bool:
    a, b = ({run.run.engine_version for run in point.ok} for point in match.both)
    return a != b


def versions_of(runs: Iterable[MeasuredRun]) -> dict[str, str]:
    """Return the versions of the engine and the other programs that made the runs; several are joined by commas."""
    found: dict[str, set[str]] = {}
    for run in runs:
        for name, version in {**run.run.versions, run.run.engine: run.run.engine_version or "?"}.items():
            found.setdefault(name, set()).add(str(version))
    return {name: ", ".join(sorted(versions)) for name, versions in found.items()}


def _other_settings(sides: Sides) -> list[str]:
    """Return a warning if more settings differ than the compared ones: then the cause of a difference is unknown."""
    differing = differing_settings(sides)
    if "script" in differing:  # If the scripts' names differ, the difference of their hashes is not a second one.
        differing.pop("script_sha256", None)
    beside = {name: pair for name, pair in differing.items() if name not in sides.chosen}
    if not beside or len(differing) == 1:
        return []
    named = words.listing([f"{name} ({a} and {b})" for name, (a, b) in beside.items()])
    return [f"More than one setting differs, so which of them made a difference is not known: {named}."]


def _other_actual(sides: Sides) -> list[str]:
    """Return a warning if equal settings ran with different values, such as 10 % of databases of different sizes.

    Settings that both sides left to the server come last, in a separate warning, if the sides differ in a requested
    setting: a server derives some settings from others (PostgreSQL wal_buffers from shared_buffers: xlog.c,
    XLOGChooseNumBuffers).
    """
    found: dict[str, list[tuple[str, str]]] = {}
    left: dict[str, list[tuple[str, str]]] = {}
    for match in sides.matched:
        differing = _differing(match)
        for name in sorted(asked_of(match.a).keys() - differing.keys()):
            a, b = (point.settings.get(name) for point in match.both)
            if a and b and not _alike(a.actual, b.actual):
                shown = f"{words.setting_value(a)} and {words.setting_value(b)}"
                kind = left if differing and a.asked == AUTO else found
                kind.setdefault(name, []).append((shown, match.label))
    remedy = "--set NAME=VALUE on both sides makes them alike"
    differently, derived = (_each_setting(of, len(sides.matched)) for of in (found, left))
    said = [f"Asked alike, run differently: {differently}. {remedy}."] if found else []
    if left:
        said.append(f"Left to the server, and may follow from what differs: {derived}.")
    return said


def _each_setting(found: dict[str, list[tuple[str, str]]], matched: int) -> str:
    """Return the settings with their two values, and the point where these are not the same at all matched points."""
    parts = []
    for name, differing in found.items():
        shown, label = differing[0]
        everywhere = 1 < matched == len(differing) and all(values == shown for values, _ in differing)
        parts.append(f"{name} was {shown}{'' if everywhere or not label else f' at {label}'}")
    return "; ".join(parts)


def _alike(a: Value, b: Value) -> bool:
    if a is None or b is None:
        return True  # A setting that was not read back cannot be compared.
    if isinstance(a, int | float) and isinstance(b, int | float):
        return abs(a - b) <= _ROUNDED * max(abs(a), abs(b))
    return bool(a == b)


def _other_windows(sides: Sides) -> list[str]:
    a, b = _each(sides, lambda run: run.measured and run.measured.transactions)
    a, b = a - {None}, b - {None}
    if not a or not b or max(a | b) <= (1 + _WINDOW_LIMIT) * min(a | b):
        return []
    shown = [f"{min(counts):,}" if len(counts) == 1 else f"{min(counts):,} to {max(counts):,}" for counts in (a, b)]
    said = f"The measured windows differ: {shown[0]} and {shown[1]} transactions"
    grown = {_growth_bytes(run.run) for match in sides.matched for point in match.both for run in point.ok}
    if grown == {0}:
        return [f"{said}. No database grew."]
    return [f"{said}, so the databases grew unequally." if None not in grown else f"{said}."]


def _other_warm_ups(sides: Sides) -> list[str]:
    """Return a warning if all warm-ups of one side were far longer than those of the other."""
    told = _each(sides, lambda run: run.warm_up.transactions if run.warm_up else 0)
    ends = [(min(found), max(found)) for found in told if found]
    if len(ends) < len(told) or not any(few[1] * _FAR_LONGER < many[0] for few, many in (ends, ends[::-1])):
        return []
    shown = [f"{least:,}" if least == most else f"{least:,} to {most:,}" for least, most in ends]
    return [
        f"The warm-ups differ: {shown[0]} and {shown[1]} transactions. Reads that a short warm-up left to the window "
        "may be in the result."
    ]


def _other_recorders(sides: Sides) -> list[str]:
    """Return a warning if the two sides recorded page accesses in different ways, because recording may slow a run."""
    a, b = (words.listing(sorted(found)) for found in _each(sides, lambda run: _RECORDERS[_recorder(run)]))
    if a == b:
        return []
    return [f"Page accesses were recorded on A {a}, on B {b}: a trace may change times, and not what is counted."]


_RECORDERS = {
    None: "by nobody",
    "engine": "by the engine",
    "inside": "by the server",
    "uprobes": "by the kernel",
    "earlier": "by an earlier version",
}


def _recorder(run: Run) -> str | None:
    """Return the recorder of a run's page accesses; None if nothing recorded them."""
    trace = run.page_trace
    return (trace.recorder or (None if trace.status == "failed" else "earlier")) if trace else None


def _growth_bytes(run: Run) -> int | None:
    """Return the bytes by which the database grew in the measured window; None if a run does not record that."""
    base = run.database
    return (
        base.bytes_end - base.bytes_start
        if base and base.bytes_end is not None and base.bytes_start is not None
        else None
    )


def _other_host(sides: Sides) -> list[str]:
    of_a, of_b = ([host_facts(one.host) for one in analysis.sweep.hosts] for analysis in (sides.a, sides.b))
    if len(of_a) > 1 or len(of_b) > 1:
        counted = f"A was measured on {words.plural(len(of_a), 'host')}, B on {words.plural(len(of_b), 'host')}"
        return [f"The hosts differ: {counted}."] if of_a != of_b else []
    (a,), (b,) = of_a, of_b
    return [f"The hosts differ: {pairs_text(a, b)}."] if a != b else []


def _other_versions(sides: Sides) -> list[str]:
    """Return a warning if versions differ. A version that a side does not record is ignored."""
    a = versions_of(run for match in sides.matched for run in match.a.ok)
    b = versions_of(run for match in sides.matched for run in match.b.ok)
    both = [name for name in a if a[name] != "?" and b.get(name, "?") != "?"]
    a, b = ({name: side[name] for name in both} for side in (a, b))
    return [f"Versions differ: {pairs_text(a, b)}."] if a != b else []


def _other_day(sides: Sides) -> list[str]:
    days = [sorted({str(run.run.started_at)[:10] for run in analysis.runs}) for analysis in (sides.a, sides.b)]
    if days[0] == days[1]:
        return []
    shown = [found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}" for found in days]
    return [f"The sides ran on different days ({shown[0]} and {shown[1]}): what changed between them is in the result."]


def _each(sides: Sides, of: Callable[[Run], Any]) -> tuple[set[Any], set[Any]]:
    """Return the set of values that `of` gives for the matched runs of A, and the set for those of B."""
    a = {of(run.run) for match in sides.matched for run in match.a.ok}
    b = {of(run.run) for match in sides.matched for run in match.b.ok}
    return a, b


def host_facts(host: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts that host.json has of the host: name -> value as text."""
    return flat({name: value for name, value in host.items() if name not in _NOT_THE_HOST})


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return the values of nested tables as texts, each under the names of its tables: "memory total bytes"."""
    found: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key} ")
        else:
            found[f"{prefix}{key}".replace("_", " ")] = str(value)
    return found


def pairs_text(a: Mapping[str, str], b: Mapping[str, str]) -> str:
    """Return the differences of two tables as text: "cores 2 and 4; kernel 6.1 and not recorded"."""
    names = [name for name in dict.fromkeys([*a, *b]) if a.get(name) != b.get(name)]
    return "; ".join(f"{name} {a.get(name, 'not recorded')} and {b.get(name, 'not recorded')}" for name in names)
