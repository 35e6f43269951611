"""Writes every derived file into a sweep folder: summary.parquet, report.html, report.md, figures/*.svg, *.csv.

All of it can be deleted and made again from the stored samples. A row of the summary has its own runs' source.
"""

from __future__ import annotations

from dataclasses import asdict

from bufferlab.report.build import build
from bufferlab.report.document import Report
from bufferlab.report.html import write_html
from bufferlab.report.markdown import write_markdown
from bufferlab.results.store import SweepFolder


def publish(sweep: SweepFolder) -> Report:
    """Build the report and write every format of it."""
    report = build(sweep)
    origin = {
        record.run.point.index: {"source": record.run.source, "interval_kind": record.run.interval_kind}
        for record in sweep.runs()
        if record.ok
    }
    sweep.write_summary(
        [{**asdict(summary), **origin[point.index]} for point in report.points for summary in point.summaries]
    )
    write_html(report, sweep)
    write_markdown(report, sweep)
    return report
