"""Q1 by a chosen plan, as far as Python decides: refusals before anything starts, and runs without a warm-up."""

from __future__ import annotations

from pathlib import Path

import pytest

from bufferlab import spec
from bufferlab.chapter.elements import Table
from bufferlab.errors import SpecError
from bufferlab.plan import estimated_facts, make
from bufferlab.report.build import build
from bufferlab.spec import Overrides
from bufferlab.workloads import registry as workloads
from support.fake import Bench

WORKLOAD = 'name = "index_scan"\nscale_factor = 0.5'


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


def refused(*settings: tuple[str, str], sweep: tuple[tuple[str, tuple[str, ...]], ...] = ()) -> SpecError:
    def plan() -> None:
        experiment = spec.load("index-scan", Overrides(set_knobs=settings, sweep=sweep))
        make(experiment, estimated_facts(experiment))

    with pytest.raises(SpecError) as error:
        plan()
    return error.value


def test_a_plan_that_an_engine_does_not_have_is_refused_with_the_reason_and_the_engines_that_have_it() -> None:
    for error in (refused(("plan", "bitmap")), refused(sweep=(("plan", ("sequential", "bitmap")),))):
        assert error.what == (
            "plan = bitmap cannot be on sqlite: rows are fetched there one by one, in the order of the index"
        )
        assert "--engine postgres" in (error.hint or "")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ((("ship_until", "1993-02-30"),), "is not a date"),
        ((("ship_from", "1994-01-01"), ("ship_until", "1994-01-01")), "is not after"),
        ((("ship_from", "yesterday"),), "cannot be"),
        ((("scale_factor", "0.001"),), "below the minimum"),
        ((("scale_factor", "51"),), "above the maximum"),
    ],
)
def test_dates_and_scales_that_cannot_be_are_refused(settings: tuple[tuple[str, str], ...], told: str) -> None:
    error = refused(*settings)
    assert told in error.what
    assert error.hint


def test_the_data_are_decided_by_scale_and_tables_alone() -> None:
    declaration = workloads.declaration("index_scan")
    assert [knob.name for knob in declaration.parameters if knob.decides_file] == ["scale_factor", "tables"]
    asked = [(0.1, "lineitem"), (1.0, "lineitem"), (1.0, "all")]
    sizes = [declaration.estimate_bytes({"scale_factor": scale, "tables": tables}, 8192) for scale, tables in asked]
    assert sizes[1] == pytest.approx(10 * sizes[0])
    assert sizes[2] > 1.3 * sizes[1]


def test_no_warm_up_is_a_cold_pool_and_neither_a_cap_nor_a_failed_check(bench: Bench) -> None:
    toml = bench.experiment(workload=WORKLOAD, sweep='plan = ["index_scan", "sequential"]', transactions=2)
    toml.write_text(toml.read_text().replace("max_transactions = 5000", "max_transactions = 0"))
    bench.measure(toml)
    runs = bench.runs()
    assert {run["status"] for run in runs} == {"ok"}
    assert all(run["warm_up"]["gate"] == "cold" and run["warm_up"]["transactions"] == 0 for run in runs)
    assert all(run["measured"]["transactions"] == 2 for run in runs)
    sweep = bench.sweep()
    for record in sweep.runs():
        values = record.values()
        assert values["seconds_per_transaction"].value == pytest.approx((values["measured_seconds"].value or 0) / 2)
    report = build(sweep)
    checks = {check.name: check for check in report.checks}
    assert checks["warm_up_gates"].status == "not_applicable"
    assert "cold" in checks["warm_up_gates"].detail


def test_the_report_tells_what_a_query_costs_and_the_plans_in_the_engines_words(bench: Bench) -> None:
    sweep = 'plan = ["index_scan", "sequential"]'
    bench.measure(bench.experiment(workload=WORKLOAD, sweep=sweep, transactions=2, repetitions=3))
    report = build(bench.sweep())
    assert report.answer.index("eads per transaction") < report.answer.index("Seconds per transaction"), "counts first"
    sections = {section.id: section for section in report.sections}
    cost, device, plans = sections["query-costs"].blocks
    assert isinstance(cost, Table)
    assert isinstance(device, Table)
    assert isinstance(plans, Table)
    assert len(cost.rows) == len(device.rows) == 2
    assert [row.cells for row in plans.rows] == [
        ("index scan", "1,000", "6", "the imaginary plan index_scan"),
        ("sequential", "1,000", "6", "the imaginary plan sequential"),
    ]


def test_a_sweep_without_plans_has_no_such_chapter(bench: Bench) -> None:
    bench.measure(bench.experiment(repetitions=1))
    assert "query-costs" not in {section.id for section in build(bench.sweep()).sections}
