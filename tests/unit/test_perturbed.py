"""Stored samples are changed at one point: 0, 5 or 20 % more reads must change sentence, table and figure accordingly.

The sweep is built once, with two equal points. The perturbation reads the stored samples, changes their counters and
stores them again. So these tests cover everything from the samples on, and not the generator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bufferlab.chapter.elements import PointsPlot
from bufferlab.registry import registry
from bufferlab.report.build import build as build_report
from bufferlab.report.document import Report
from bufferlab.results.store import SweepFolder
from support.synthetic import Sweep, Truth, build

#: The counters that a further read raises, each by the same factor.
READS = (
    *("pages_read", "demand_misses", "db_read_bytes", "db_read_ns", "process_read_bytes", "pool_evictions"),
    *("device_reads", "device_read_bytes", "device_read_ms", "device_busy_ms", "device_queue_ms", "paged_in_bytes"),
)
#: The changed point: before the change it reads as much as the next one.
POINT = 1
SAME = (Truth("10%", 20.0), Truth("20%", 10.0), Truth("40%", 10.0), Truth("80%", 5.0))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> SweepFolder:
    """Build the sweep with noise as measured on real sweeps: 0.7 % inside a block, five blocks."""
    sweep = Sweep(truths=SAME, blocks=5, noise=0.007, block_noise=0.01, seed=5, experiment="perturbed")
    # The planted effects do not depend on the windows' length, and short windows have fewer samples to write.
    return build(tmp_path_factory.mktemp("stored"), replace(sweep, transactions=4600, warm_up_seconds=2))


def perturbed(stored: SweepFolder, parent: Path, factor: float) -> Report:
    """Return the report on the stored sweep with `factor` times the reads at one point."""
    copy = SweepFolder.create(parent, registry(), stored.experiment_toml, stored.plan, stored.host)
    for record in stored.runs():
        samples = record.samples().to_dicts()
        if record.run.point.index == POINT:
            samples = scaled(samples, factor)
        copy.publish_run(record.run, samples, record.latency().to_dicts(), "")
    return build_report(copy)


def scaled(samples: list[dict[str, Any]], factor: float) -> list[dict[str, Any]]:
    """Let the counters of reads grow `factor` times as fast from the first sample on; `pool_hits` keeps the gets
    unchanged."""
    first: dict[tuple[str, str], int] = {}
    reads: dict[float, int] = {}
    changed = []
    for row in samples:
        count = row["count"]
        if count is not None and row["metric"] in READS:
            start = first.setdefault((row["metric"], row["subject"]), count)
            extra = round((count - start) * (factor - 1))
            row = {**row, "count": count + extra}
            if row["metric"] == "pages_read":
                reads[row["t_s"]] = extra
        changed.append(row)
    return [
        {**row, "count": row["count"] - reads[row["t_s"]]} if row["metric"] == "pool_hits" and row["count"] else row
        for row in changed
    ]


@pytest.fixture(scope="module")
def reports(stored: SweepFolder, tmp_path_factory: pytest.TempPathFactory) -> Mapping[float, Report]:
    parent = tmp_path_factory.mktemp("perturbed")
    return {factor: perturbed(stored, parent / str(factor), factor) for factor in (1.0, 1.05, 1.20)}


def verdict(report: Report, step: tuple[str, str]) -> str:
    """Return a cell of the table of verdicts: reads per New-Order at the step into or out of the changed point."""
    assert report.steps is not None
    column = [column.title for column in report.steps.columns].index("Reads per New-Order")
    (row,) = [row for row in report.steps.rows if row.cells[0] == " → ".join(step)]
    return str(row.cells[column])


def plotted(report: Report) -> list[float]:
    """Return the means in the headline's figure, point by point."""
    assert report.headline is not None
    plot = report.headline.plot
    assert isinstance(plot, PointsPlot)
    return [dot.mean for dot in plot.series[0].dots]


INTO, OUT = ("10 %", "20 %"), ("20 %", "40 %")


def test_the_null_is_not_claimed(reports: Mapping[float, Report]) -> None:
    found = reports[1.0]
    assert verdict(found, OUT).startswith("not resolved")
    assert "would have been found" in verdict(found, OUT)
    assert "Reads per New-Order fall as" in found.answer
    assert "2 of 3 steps are resolved" in found.answer
    first, twin = plotted(found)[1:3]
    assert first == pytest.approx(twin, rel=0.02)


@pytest.mark.parametrize("factor", [1.05, 1.20])
def test_a_planted_change_is_claimed_with_bounds_that_hold_it(reports: Mapping[float, Report], factor: float) -> None:
    found = reports[factor]
    # 5 % more before the step make the step a fall of 4.8 %.
    truth = 100 * (1 - 1 / factor)
    said = verdict(found, OUT)
    assert said.startswith("falls by ")
    low, high = (float(bound) for bound in said.removeprefix("falls by ").split(" ")[0].split("–"))
    assert low <= truth <= high
    assert high - low < 5
    assert "fall at every step" in found.answer


@pytest.mark.parametrize("factor", [1.05, 1.20])
def test_the_figure_shows_the_planted_change_at_its_point_alone(reports: Mapping[float, Report], factor: float) -> None:
    before, after = plotted(reports[1.0]), plotted(reports[factor])
    assert after[POINT] / before[POINT] == pytest.approx(factor, rel=1e-3)
    assert after[:POINT] + after[POINT + 1 :] == before[:POINT] + before[POINT + 1 :]


def test_every_planted_size_tells_another_sentence(reports: Mapping[float, Report]) -> None:
    assert len({report.answer for report in reports.values()}) >= 2
    assert len({verdict(report, OUT) for report in reports.values()}) == 3
    assert len({verdict(report, INTO) for report in reports.values()}) == 3


def test_programs_read_the_same_verdicts(reports: Mapping[float, Report]) -> None:
    for factor, direction in ((1.0, "not_resolved"), (1.05, "falls"), (1.20, "falls")):
        steps = [step for step in reports[factor].data.steps if step.metric == "reads_per_new_order"]
        (told,) = [step.direction for step in steps if "20" in step.a and "40" in step.b]
        assert told == direction


def test_reads_that_grew_by_as_much_everywhere_pass_the_integrity_checks(reports: Mapping[float, Report]) -> None:
    assert not [banner.text for report in reports.values() for banner in report.banners]


def test_a_planted_rise_turns_the_sentence_round(stored: SweepFolder, tmp_path: Path) -> None:
    """With half the reads at the point before, the step after it rises."""
    found = perturbed(stored, tmp_path, 0.5)
    assert verdict(found, OUT).startswith("rises by ")
    assert "do not move one way" in found.answer
