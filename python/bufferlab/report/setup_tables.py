"""Tables of what was set up: host, device, engine (asked and actual), workload, versions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bufferlab.report import words
from bufferlab.report.analysis import Analysis, PointRuns, actual_of, is_size, spaced
from bufferlab.report.model import Column, Row, Table
from bufferlab.units import UnitError, format_bytes, parse_size

_PAIR = (Column("What", numeric=False), Column("Value", numeric=False))


def setup_tables(analysis: Analysis) -> list[Table]:
    """Host, device, engine, workload: everything that should be equal before numbers are compared."""
    apart = ("format", "format_version", "noise")  # The noise floor has a chapter of its own.
    host = {key: value for key, value in analysis.sweep.host.items() if key not in apart}
    device = host.pop("device", None)
    tables = [Table("host", "Host", _PAIR, _pairs(host))]
    if isinstance(device, Mapping):
        tables.append(Table("device-setup", "Device of the data", _PAIR, _pairs(device)))
    if analysis.runs:
        tables += [_engine(analysis), _workload(analysis)]
    return tables


def _pairs(values: Mapping[str, Any], prefix: str = "") -> tuple[Row, ...]:
    rows: list[Row] = []
    for key, value in values.items():
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            rows += _pairs(value, f"{name}: ")
        elif (value is None and key == "reason") or value == []:
            continue
        else:
            rows.append(Row((name.removesuffix(" bytes"), _value(key, value)), "quiet" if value is None else ""))
    return tuple(rows)


def _value(key: str, value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key.endswith("_bytes") and isinstance(value, int | float):
        return format_bytes(value)
    if isinstance(value, list):
        return ", ".join(str(item["name"] if isinstance(item, Mapping) and "name" in item else item) for item in value)
    return str(value)


def _engine(analysis: Analysis) -> Table:
    """Every setting asked and actual; one that differs is marked, a swept one has a row per value."""
    rows: list[Row] = []
    first = next(point for point in analysis.points if point.ok)
    for knob in first.ok[0].run["knobs_asked"]:
        swept = knob in first.swept
        shown = analysis.points if swept else (first,)
        rows += dict.fromkeys(_knob_row(point, knob, swept) for point in shown if point.ok)
    versions = sorted({f"{run.run['engine']} {run.run['engine_version']}" for run in analysis.runs})
    columns = tuple(Column(head, numeric=False) for head in ("Setting", "Asked", "Actual", "Note"))
    caption = (
        f"Engine: {', '.join(versions)}. Its actual values are read back; a count asked as a share shows the count."
    )
    return Table("engine", "Settings, asked and actual", columns, tuple(rows), caption)


def _knob_row(point: PointRuns, knob: str, swept: bool) -> Row:
    run = point.ok[0].run
    asked, actual = run["knobs_asked"][knob], actual_of(run["knobs_actual"], knob)
    name = f"{knob} (swept)" if swept else knob
    if actual is None:
        return Row((name, spaced(asked), "not read back", ""), "differs")
    shown = _shown(knob, actual)
    values = {str(actual_of(other.run["knobs_actual"], knob)) for other in point.ok}
    if len(values) > 1:
        return Row((name, spaced(asked), ", ".join(sorted(values)), "differs between runs"), "differs")
    note = _difference(knob, asked, actual, run)
    return Row((name, spaced(asked), shown, note or ""), "differs" if note and "differs" in note else "")


def _shown(knob: str, actual: Any) -> str:
    if not isinstance(actual, int) or isinstance(actual, bool):
        return str(actual)
    return format_bytes(actual) if is_size(knob) else f"{actual:,}"


#: Asked words that leave a setting, or the choice of a build, to the host.
_LEFT_TO_THE_SERVER = frozenset({"auto", "path"})


def _difference(knob: str, asked: str, actual: Any, run: Mapping[str, Any]) -> str | None:
    """What a reader should know of asked against actual; None when they are the same."""
    if asked in _LEFT_TO_THE_SERVER:
        return "the server's own"
    if not isinstance(actual, int | float) or isinstance(actual, bool):
        return None if str(actual) == asked else "differs from what was asked"
    if not is_size(knob):
        return _difference_of_number(asked, actual)
    try:
        size = parse_size(asked)
    except UnitError:
        return None if str(actual) == asked else "differs from what was asked"
    if size.ratio is None:
        off = int(actual) - (size.size_bytes or 0)
        unit = _chunk(knob, run)
        if unit and 0 < off < unit and int(actual) % unit == 0:
            return f"differs from what was asked: rounded up to whole chunks of all instances ({format_bytes(unit)})"
        page = actual_of(run["knobs_actual"], "page_size") or 1
        if off == 0:
            return None
        return "rounded to whole pages" if abs(off) < page else f"differs from what was asked by {format_bytes(off)}"
    loaded = (run["database"] or {}).get("bytes_loaded")
    return f"{words.share(actual / loaded)} of the database as loaded" if loaded else None


def _chunk(knob: str, run: Mapping[str, Any]) -> int | None:
    """What InnoDB rounds its pool up to: chunk size times instances (buf0buf.cc, srv0start.cc: MySQL 5.7 and later)."""
    chunk, instances = (run["knobs_actual"].get(f"innodb_buffer_pool_{name}") for name in ("chunk_size", "instances"))
    if not knob.startswith("pool_size") or not isinstance(chunk, int):
        return None
    return chunk * (instances if isinstance(instances, int) else 1)


def _difference_of_number(asked: str, actual: float) -> str | None:
    """Counts may be asked as a share, and times with their unit; both are what the core was given."""
    if asked.endswith("%"):
        return "the count that this share is here"
    number = re.match(r"[0-9.]+", asked)
    if number is None or (number[0] != asked and not asked.endswith("s")):
        return "differs from what was asked"
    return None if number[0] != asked or float(asked) == actual else "differs from what was asked"


def _workload(analysis: Analysis) -> Table:
    run = analysis.runs[0].run
    swept = {knob for point in analysis.points for knob in point.swept}
    rows = list(_pairs({name: value for name, value in run["workload"].items() if name not in {"drawn", *swept}}))
    rows += _drawn(analysis)
    grown = [
        other.run["database"]["bytes_end"] - other.run["database"]["bytes_start"]
        for other in analysis.runs
        if other.run["database"] and other.run["database"]["bytes_end"] and other.run["database"]["bytes_start"]
    ]
    if run["database"]:
        rows.append(Row(("database as loaded", format_bytes(run["database"]["bytes_loaded"]))))
    if grown:
        low, high = format_bytes(min(grown)), format_bytes(max(grown))
        rows.append(Row(("database growth while measured", low if low == high else f"{low} to {high}")))
    rows += [Row((f"version of {name}", version)) for name, version in run["versions"].items()]
    rows.append(Row(("seed of the design", str(analysis.sweep.plan.get("seed", "not recorded")))))
    return Table("workload", "Workload and versions", _PAIR, tuple(rows))


#: What a workload drew, as shares: count, what it is a share of, how a report names it.
_DRAWN_SHARES = (
    ("unused_items", "new_orders", "New-Orders that roll back (1 % asked)"),
    ("remote_lines", "order_lines", "order lines from another warehouse (1 % asked)"),
    ("remote_payments", "payments", "payments at another warehouse (15 % asked)"),
    ("payments_by_name", "payments", "payments by last name (60 % asked)"),
)


def _drawn(analysis: Analysis) -> list[Row]:
    """The shares that the specification asks for, as drawn over all runs and warm-ups."""
    drawn = [counts for run in analysis.runs if (counts := run.run["workload"].get("drawn"))]
    rows = []
    for part, whole, name in _DRAWN_SHARES:
        total = sum(counts.get(whole, 0) for counts in drawn)
        if total:
            share = sum(counts.get(part, 0) for counts in drawn) / total
            rows.append(Row((name, f"{100 * share:.2f} % of {total:,}")))
    return rows
