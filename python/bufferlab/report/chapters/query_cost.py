"""The chapter on the cost of one long query by its plan: its time, the device's work, and the plan in the engine's
words.
"""

from __future__ import annotations

from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.blocks import Column, Row, Section, Table
from bufferlab.chapter.point_table import headed, point_table

_TIME = ("seconds_per_transaction", "device_reads_per_transaction")
_PAGES = ("reads_per_transaction", "misses_per_transaction", "page_gets_per_transaction", "cpu_us_per_transaction")
_DEVICE = (
    "device_reads_per_s",
    "device_read_kib_per_s",
    "device_read_await_ms",
    "device_queue_length",
    "device_busy_ratio",
    "cpu_iowait_share",
)
_LONGEST_PLAN = 600
"""The longest text of a plan, in characters, that a table shows: servers tell theirs in JSON."""


def query_cost(analysis: Analysis) -> Section | None:
    """Return the query's cost, the device's work and the plans; None unless a plan was asked for and checked."""
    plans = _plans(analysis)
    if plans is None:
        return None
    caption = "Means over the runs of a point, with 95 % intervals."
    size = {"Size of a request (KiB)": "device_read_size_kib"}
    heads = {**headed(analysis, _TIME), **size, **headed(analysis, _PAGES)}
    cost = point_table(analysis, "query-cost", "What one query costs", heads, caption)
    title = "The device while queries ran"
    device = point_table(analysis, "query-device", title, headed(analysis, _DEVICE), "Over the whole window.")
    intro = "The plan is forced; that the engine takes it is checked before the window, every answer in it."
    return Section("query-costs", "What a query costs by its plan", intro, (cost, device, plans))


def _plans(analysis: Analysis) -> Table | None:
    """Return the words of each plan from its first run, and the answers that were checked in all of its runs."""
    told = [drawn for run in analysis.runs if "plan_text" in (drawn := run.run.workload.get("drawn") or {})]
    rows = []
    for plan in dict.fromkeys(drawn["plan"] for drawn in told):
        of_plan = [drawn for drawn in told if drawn["plan"] == plan]
        checked = sum(drawn["answers_checked"] for drawn in of_plan)
        in_range = ", ".join(sorted({f"{drawn['rows_in_range']:,}" for drawn in of_plan}))
        rows.append(Row((plan.replace("_", " "), in_range, f"{checked:,}", _in_one_line(of_plan[0]["plan_text"]))))
    columns = (
        Column("Plan", numeric=False),
        Column("Rows in the range"),
        Column("Answers checked"),
        Column("As the engine told it", numeric=False),
    )
    return Table("query-plans", "Plans taken", columns, tuple(rows)) if rows else None


def _in_one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_PLAN else f"{line[:_LONGEST_PLAN]} … (the rest is in run.json)"
