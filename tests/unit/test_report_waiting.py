"""The report's statements on threads that waited for a processor."""

from __future__ import annotations

from pathlib import Path

import pytest

from bufferlab.chapter.analysis import Analysis
from bufferlab.report import answer
from bufferlab.report.detail_tables import disturbance_table
from support.synthetic import BUFFER_SIZE, Sweep, build

#: The nanoseconds that a synthetic run waits for each nanosecond that it runs.
ORDINARY = 30 / 310


def waited(tmp_path: Path, share: float) -> Analysis:
    """Return a sweep whose threads waited for this share of the time in which they could have run."""
    scale = {"sched_wait_ns": share / (1 - share) / ORDINARY}
    return Analysis.of(build(tmp_path, Sweep(truths=BUFFER_SIZE[3:], blocks=2, scale=scale)))


@pytest.mark.parametrize(("share", "said"), [(0.19, False), (0.21, True)])
def test_waiting_for_more_than_a_fifth_of_the_time_is_a_caveat(tmp_path: Path, share: float, said: bool) -> None:
    analysis = waited(tmp_path, share)
    found = [limit for limit in answer.limits(analysis) if "waited for a processor" in limit]
    assert bool(found) == said
    assert all("4 of 4 runs" in limit and "21.0 %" in limit for limit in found)


def test_a_table_shows_the_share_of_every_run(tmp_path: Path) -> None:
    table = disturbance_table(waited(tmp_path, 0.4))
    assert table is not None
    place = [column.title for column in table.columns].index("Waiting for a processor")
    assert {row.cells[place] for row in table.rows} == {"40 %"}


def test_a_kernel_that_does_not_count_it_leaves_a_reason_and_no_caveat(tmp_path: Path) -> None:
    analysis = Analysis.of(build(tmp_path, Sweep(truths=BUFFER_SIZE[3:], blocks=2, unscheduled=True)))
    value = analysis.runs[0].values["processor_wait_share"]
    assert (value.value, value.reason) == (None, "this kernel counts nothing in schedstat")
    assert not any("waited for a processor" in limit for limit in answer.limits(analysis))
