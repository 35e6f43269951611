"""Tables of the setup: host, device, engine (asked and actual), workload, versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Row, Table
from bufferlab.results.blocks import said
from bufferlab.results.schema import StoredPlan, StoredSetting
from bufferlab.units import format_bytes, readable

_PAIR = ("<What", "<Value")


def setup_tables(analysis: Analysis) -> list[Table]:
    """Return the tables of hosts, devices, engine and workload, which should be equal for a comparison of numbers."""
    apart = ("format", "format_version", "boot_key", "noise")  # The noise floor has its own chapter.
    tables: list[Table] = []
    for number, (told, blocks) in enumerate(analysis.sweep.hosts, 1):
        host = {key: value for key, value in told.items() if key not in apart}
        device = host.pop("device", None)
        of, place = (f" {number}, {said(blocks)}", f"-{number}") if analysis.across_hosts else ("", "")
        tables.append(Table.of(f"host{place}", f"Host{of}", _PAIR, _pairs(host)))
        if isinstance(device, Mapping):
            title = f"Device of the data{' of host' if of else ''}{of}"
            tables.append(Table.of(f"device-setup{place}", title, _PAIR, _pairs(device)))
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
        # The kernel reports many virtual disks as rotational, even if their host has an SSD.
        return ("yes" if value else "no") + (" (by the kernel)" if key == "rotational" else "")
    if key.endswith("_bytes") and isinstance(value, int | float):
        return format_bytes(value)
    if isinstance(value, list):
        return ", ".join(str(item["name"] if isinstance(item, Mapping) and "name" in item else item) for item in value)
    return str(value)


def _engine(analysis: Analysis) -> Table:
    """Return the table of the requested settings, each with its requested and its actual value.

    Settings that differ are marked. Swept ones, and others that ran with several values, have a row for each point.
    """
    rows: list[Row] = []
    first = next(point for point in analysis.points if point.ok)
    for name, setting in first.settings.items():
        ran = [point for point in analysis.points if point.ok and name in point.settings]
        if setting.asked is None:
            continue
        if name in first.swept:
            rows += dict.fromkeys(_setting_row(point, name, f"{name} (swept)") for point in ran)
        elif len({words.setting_value(point.settings[name]) for point in ran}) > 1:
            rows += (_setting_row(point, name, f"{name} at {analysis.name_of(point)}") for point in ran)
        else:
            rows.append(_setting_row(first, name, name))
    versions = sorted({f"{run.run.engine} {run.run.engine_version}" for run in analysis.runs})
    source = "Settings that were asked for are read back, of the server's own only some."
    if first.ok[0].run.prediction is not None:
        source = "The model took the settings as asked: no server ran them."
    caption = f"Engine: {', '.join(versions)}. {source} A count asked as a share shows the count."
    heads = ("<Setting", "<Asked", "<Actual", "<Note")
    return Table.of("engine", "Settings, asked and actual", heads, rows, caption)


def _setting_row(point: PointRuns, name: str, title: str) -> Row:
    setting, database = point.settings[name], point.ok[0].run.database
    asked = readable(setting.asked or "")
    if setting.actual is None:
        left = setting.planned is None
        return Row((title, asked, "not read back", "the server's own" if left else ""), "" if left else "differs")
    ran = {words.setting_value(run.settings[name]) for run in point.ok if name in run.settings}
    if len(ran) > 1:
        return Row((title, asked, ", ".join(sorted(ran)), "differs between runs"), "differs")
    note = "; ".join(filter(None, [_note(setting), _share_note(setting, database.bytes_loaded if database else 0)]))
    return Row((title, asked, words.setting_value(setting), note), "differs" if setting.differs else "")


def _note(setting: StoredSetting) -> str:
    """Return the note on a setting: how the actual value differs from the requested one, and the engine's note."""
    if setting.planned is None:
        return setting.note or "the server's own"
    if not setting.differs:
        return setting.note
    planned, actual = setting.planned, setting.actual
    off = ""
    if setting.unit == "bytes" and isinstance(planned, int) and isinstance(actual, int):
        off = f" by {format_bytes(actual - planned)}"
    return f"differs from what was asked{off}{': ' if setting.note else ''}{setting.note}"


def _share_note(setting: StoredSetting, loaded: int) -> str:
    """Return a note on a setting that the user gave as a share of the loaded data; "" for others.

    For a size, the note has the actual share after rounding. For a count, it has the count computed from the share.
    """
    if not (setting.asked or "").endswith("%"):
        return ""
    if setting.unit != "bytes":
        return "the count that this share is here"
    ran = setting.actual
    return f"{words.share(ran / loaded)} of the database as loaded" if loaded and isinstance(ran, int) else ""


def _workload(analysis: Analysis) -> Table:
    run = analysis.runs[0].run
    swept = {knob for point in analysis.points for knob in point.swept}
    rows = list(_pairs({name: value for name, value in run.workload.items() if name not in {"drawn", *swept}}))
    rows += _drawn(analysis)
    grown = [
        base.bytes_end - base.bytes_start
        for other in analysis.runs
        if (base := other.run.database) and base.bytes_end and base.bytes_start
    ]
    if run.database:
        rows.append(Row(("database as loaded", format_bytes(run.database.bytes_loaded))))
    if grown:
        low, high = format_bytes(min(grown)), format_bytes(max(grown))
        rows.append(Row(("database growth while measured", low if low == high else f"{low} to {high}")))
    rows += _page_trace(analysis)
    rows += [Row((f"version of {name}", version)) for name, version in run.versions.items()]
    rows.append(Row(("seed of the design", str(analysis.sweep.plan.get("seed", "not recorded")))))
    return Table.of("workload", "Workload and versions", _PAIR, rows)


def _page_trace(analysis: Analysis) -> list[Row]:
    """Return the row on page traces: the recorder and the traces that are kept, or the reason why there are none.

    The row is missing if the user turned them off, or if the plan does not say.
    """
    planned = StoredPlan.model_validate(analysis.sweep.plan).page_trace
    if planned is None or (planned.recorder is None and planned.why_not is None):
        return []
    if planned.recorder is None:
        return [Row(("page trace", f"none: {planned.why_not}"), "quiet")]
    kept = {"all": "all are kept", "one": "those of one block are kept", "none": "none is kept"}[planned.keep]
    return [Row(("page trace", f"in each run ({planned.recorder}); {kept}"))]


#: Shares of events that TPC-C specifies and the driver drew at random: (count in `drawn`, count of all events, words
#: for reports).
_DRAWN_SHARES = (
    ("unused_items", "new_orders", "New-Orders that roll back (1 % asked)"),
    ("remote_lines", "order_lines", "order lines from another warehouse (1 % asked)"),
    ("remote_payments", "payments", "payments at another warehouse (15 % asked)"),
    ("payments_by_name", "payments", "payments by last name (60 % asked)"),
)


def _drawn(analysis: Analysis) -> list[Row]:
    """Return rows with the shares that TPC-C specifies, as counted over all runs of the driver, warm-ups included."""
    drawn = [counts for run in analysis.runs if (counts := run.run.workload.get("drawn"))]
    rows = []
    for part, whole, name in _DRAWN_SHARES:
        total = sum(counts.get(whole, 0) for counts in drawn)
        if total:
            share = sum(counts.get(part, 0) for counts in drawn) / total
            rows.append(Row((name, f"{100 * share:.2f} % of {total:,}")))
    return rows
