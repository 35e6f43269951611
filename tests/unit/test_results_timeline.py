"""A run over time with phases after its window: each stretch of time belongs to the window, to one phase, or to
none."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from bufferlab.results.metrics import PerWork
from bufferlab.results.store import RunRecord
from bufferlab.results.timeline import BETWEEN, instants, measured_instants, per_second
from support.fake import Bench

PHASES = """\
[phases.scan]
script = "scan.sql"
transactions = 2500
max_duration = "9s"
"""


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    bench = Bench(tmp_path / "bench")
    bench.root.mkdir()
    (bench.root / "scan.sql").write_text("SELECT 1;")
    bench.measure(bench.experiment(more=PHASES, sweep='pool_size = ["64k", "128k"]', repetitions=1))
    return bench.sweep().runs()[0]


def test_the_measured_instants_end_where_the_window_does_and_not_with_the_last_phase(record: RunRecord) -> None:
    measured = measured_instants(record.samples())
    assert {instant.phase for instant in measured} == {"measure"}
    assert measured[-1].edge == "end"
    assert measured[-1].t_s - measured[0].t_s == pytest.approx(record.run.measured.seconds)
    assert instants(record.samples())[-1].phase == "scan"


def test_a_window_whose_edge_belongs_to_two_phases_has_no_instants(record: RunRecord) -> None:
    samples = record.samples()
    first = samples.filter((pl.col("phase") == "measure") & (pl.col("edge") == "start")).head(1)
    assert measured_instants(pl.concat([first.with_columns(phase=pl.lit("scan")), samples])) == []


def test_every_stretch_has_the_figures_of_its_own_phase(record: RunRecord) -> None:
    stretches = per_second(record.samples(), [PerWork.page_gets["transaction"]])
    gets = {
        phase: [each.values["page_gets_per_transaction"].value for each in stretches if each.phase == phase]
        for phase in ("measure", "scan")
    }
    assert gets["measure"] == pytest.approx([60] * 3, rel=0.01)
    assert gets["scan"] == pytest.approx([10] * 3, rel=0.01)
    assert {each.phase for each in stretches} <= {"measure", "scan", BETWEEN}
