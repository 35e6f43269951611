"""The predictions of a sweep before its first run: which points, which sizes, and the report."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from bufferlab import spec
from bufferlab.chapter.analysis import Analysis
from bufferlab.errors import DataFileError, Interrupted
from bufferlab.models import generated_points as module
from bufferlab.models.generated import Generated, of_measured
from bufferlab.models.generated_points import generated_points, has_generator, with_other_pools, with_points
from bufferlab.models.managers.declaration import Server
from bufferlab.models.other_pools import other_pools
from bufferlab.plan import DataFacts, Plan, estimate, estimated_facts, make, run_seed
from bufferlab.report.build import build as build_report
from bufferlab.report.chapters.without_a_run import without_a_run
from bufferlab.report.document import as_json
from bufferlab.report.figures.svg import draw
from bufferlab.report.lab.method import method
from bufferlab.results.page_traces import GeneratedPoint, GeneratedPoints, GeneratedReads, OtherPools, Verdict
from bufferlab.results.store import OTHER_POOLS_FILE, SweepFolder
from bufferlab.spec import Overrides
from bufferlab.spec.profiles import Profile
from bufferlab.units import KIB, MIB
from support.traced import DATABASE_BYTES, GET, Access, build, repeat

LOOP: list[Access] = [(page, GET) for page in range(300)]
POOLS = 'pool_size = ["2MiB", "8MiB"]'
PAGES = 'page_size = ["4KiB", "8KiB"]'
WORK: dict[Any, int] = {"transaction": 10, "new_order": 4}


SQLITE = Server("sqlite", "3.50.4")


def nothing(_share: float = 0.0) -> None:
    """Report progress to no display, and request no stop."""


def measured(tmp_path: Path, sweep: str = POOLS, reads: tuple[int, ...] = (150, 20), **told: Any) -> SweepFolder:
    """Return a sweep with three runs of each of two points, of which the first was traced."""
    knobs = "" if "page_size" not in sweep else 'pool_size = "2MiB"'
    folder = build(tmp_path, LOOP, LOOP, sweep=sweep, knobs=told.pop("knobs", knobs), reads=reads[0], **told)
    more = [[count, count - 2, count + 2][index == 0 :] for index, count in enumerate(reads)]
    return repeat(folder, more, page_size=told.get("page_size", "4KiB"))


def plan_of(folder: SweepFolder) -> Plan:
    return make(spec.loads(folder.experiment_toml, "traced.toml"), lambda _: DataFacts(DATABASE_BYTES))


def predicted(folder: SweepFolder, server: Server = SQLITE) -> tuple[GeneratedPoints | None, list[str]]:
    return generated_points(plan_of(folder), server, nothing)


def kept(folder: SweepFolder, *, traces: bool = True, verdicts: Sequence[Verdict] = ()) -> SweepFolder:
    """Return the sweep with made-up predictions: a tenth above the middle run, and one read more or fewer."""
    windows = [(record.run.point.index, record.measured().window) for record in folder.runs()]
    counted: dict[int, list[int]] = {}
    for index, window in windows:
        counted.setdefault(index, []).append(int(window.change("pages_read").value or 0))
    points = [
        GeneratedPoint(
            index=index,
            pool_bytes=2 * MIB,
            runs=[
                GeneratedReads(seed=seed, reads=median(counts) * 11 // 10 + seed - 2, work=WORK) for seed in (1, 2, 3)
            ],
            verdicts=list(verdicts),
        )
        for index, counts in sorted(counted.items())
    ]
    generated = GeneratedPoints(
        rules="sqlite", rules_version=1, model="sqlite", model_version=1, engine_version="3.50.4", points=points
    )
    folder.write_other_pools(OtherPools(of=other_pools(folder, nothing)[0] if traces else [], generated=generated))
    return folder


def test_each_point_has_three_runs_that_read_what_predict_tells_of_their_seeds(tmp_path: Path) -> None:
    folder = measured(tmp_path)
    found, why_not = predicted(folder)
    assert why_not == []
    assert found is not None
    assert (found.rules, found.model, found.engine_version) == ("sqlite", "sqlite", "3.50.4")
    assert [(point.index, point.pool_bytes // MIB, len(point.runs)) for point in found.points] == [(0, 2, 3), (1, 8, 3)]
    seed = plan_of(folder).experiment.design.seed
    assert [run.seed for run in found.points[0].runs] == [run_seed(seed, block) for block in range(3)]
    target, _ = of_measured(plan_of(folder), SQLITE)
    for planned in target.plan.runs:
        told = target.predicted(planned, target.plan.points[planned.point], lambda _stage, _share: None).prediction
        assert told.found
        run = found.points[planned.point].runs[planned.block]
        assert (run.reads, run.work) == (told.found.reads, told.work)
        assert {one.sentence for one in told.verdicts} <= {one.sentence for one in found.points[planned.point].verdicts}


def test_a_point_whose_server_had_another_pool_is_predicted_anew_with_that_pool(tmp_path: Path) -> None:
    folder = build(tmp_path, LOOP, LOOP, sweep=POOLS, reads=150, actual={"pool_size": 4 * MIB})
    other = with_other_pools(plan_of(folder), folder)
    assert [(point.index, point.knobs["pool_size"]) for point in other.points] == [(0, 4 * MIB)]
    whole = kept(measured(tmp_path / "whole"), traces=False).other_pools()
    assert whole is not None
    assert whole.generated is not None
    small, large = whole.generated.points
    anew = small.model_copy(update={"pool_bytes": 4 * MIB})
    found = with_points(whole.generated, whole.generated.model_copy(update={"points": [anew]}))
    assert found.points == [anew, large]
    assert with_points(whole.generated, None) == whole.generated


def test_pools_that_ran_as_planned_are_not_predicted_anew(tmp_path: Path) -> None:
    folder = build(tmp_path, LOOP, LOOP, sweep=POOLS, reads=150, actual={"pool_size": 2 * MIB})
    assert with_other_pools(plan_of(folder), folder).points == ()


def test_a_larger_work_is_left_out_and_said_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = measured(tmp_path)
    monkeypatch.setattr(module, "of_measured", lambda *_: pytest.fail("it is not begun"))
    monkeypatch.setattr(module, "_MOST_S", 1e-5)
    found, why_not = predicted(folder)
    assert found is None
    said = "before the first run; bufferlab predict traced --engine sqlite has as long as it needs"
    assert why_not[0].endswith(said)


def test_of_a_long_sweep_the_predictions_may_take_a_hundredth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(measured(tmp_path))
    monkeypatch.setattr(module, "_MOST_S", 0.0)
    work_s = module._processor_s(plan)
    assert generated_points(plan, SQLITE, nothing, 101 * work_s)[0] is not None
    assert generated_points(plan, SQLITE, nothing, 99 * work_s)[0] is None


@pytest.mark.parametrize("profile", [None, "quick", "full"])
@pytest.mark.parametrize(
    ("experiment", "engine"),
    [
        *((name, engine) for name in ("buffer-size", "hot-rows") for engine in ("sqlite", "mysql", "postgres")),
        *(("page-size", engine) for engine in ("sqlite", "mysql")),
        ("scan-depth", "mysql"),
        ("memory-split", "postgres"),
    ],
)
def test_shipped_experiments_are_predicted_at_all_their_sizes(
    experiment: str, engine: str, profile: Profile | None
) -> None:
    wanted = spec.load(experiment, Overrides(engine=engine, profile=profile))
    plan = make(wanted, estimated_facts(wanted))
    cost = estimate(plan)
    runs_s = (cost.seconds - cost.load_seconds) * plan.least_runs / len(plan.runs)
    assert module._processor_s(plan) < max(module._MOST_S, module._MOST_SHARE * runs_s)


def test_a_page_size_without_rules_leaves_its_points_out(tmp_path: Path) -> None:
    knobs = 'server = "mysql-5.7"\npool_size = "64MiB"'
    sweep = 'page_size = ["16KiB", "32KiB"]'
    folder = measured(tmp_path, sweep, knobs=knobs, engine="mysql", version="5.7.22", page_size="16KiB")
    found, why_not = predicted(folder, Server("mysql", "5.7.22"))
    assert found is not None
    assert [point.index for point in found.points] == [0]
    assert len(why_not) == 1
    assert "32768" in why_not[0]


def test_a_swept_setting_that_nothing_obeys_is_named(tmp_path: Path) -> None:
    folder = measured(tmp_path, 'synchronous = ["off", "normal"]', knobs='pool_size = "2MiB"')
    assert predicted(folder) == (None, ["what generates page accesses does not know synchronous"])


def test_a_bug_in_the_generator_costs_no_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(Generated, "reads", broken)
    assert predicted(measured(tmp_path)) == (None, ["the generator failed: by nothing"])


def test_a_stop_ends_the_generated_runs(tmp_path: Path) -> None:
    def stop(_share: float) -> None:
        raise Interrupted(2)

    with pytest.raises(Interrupted):
        generated_points(plan_of(measured(tmp_path)), SQLITE, stop)


def test_it_tells_how_many_of_the_runs_are_done(tmp_path: Path) -> None:
    folder, shares = measured(tmp_path), list[float]()
    generated_points(plan_of(folder), SQLITE, shares.append)
    # The progress of a long run is reported again.
    assert list(dict.fromkeys(shares)) == [place / 6 for place in range(6)]


def test_a_server_whose_traces_nobody_saw_has_its_doubt(tmp_path: Path) -> None:
    knobs = 'server = "mysql-8.4"\nlru_scan_depth = 100\nold_blocks_time = 0'
    sweep = 'pool_size = ["8MiB"]'
    folder = build(tmp_path, LOOP, LOOP, sweep=sweep, reads=150, engine="mysql", version="8.4.6", knobs=knobs,
                   page_size="16KiB")  # fmt: skip
    found, _ = predicted(folder, Server("mysql", "8.4.6"))
    assert found is not None
    assert found.rules == "innodb80"
    assert "not_calibrated" in [one.name for one in found.points[0].verdicts]


def test_an_engine_or_a_workload_without_rules_has_no_generator(tmp_path: Path) -> None:
    plan = plan_of(measured(tmp_path))
    assert has_generator(plan)
    assert not has_generator(replace(plan, experiment=spec.load("index-scan")))


# The report.


@pytest.mark.figures
def test_the_line_stands_beside_that_of_the_trace_and_nothing_is_generated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = kept(measured(tmp_path))
    monkeypatch.setattr(Generated, "reads", lambda *_: pytest.fail("a report generates nothing"))
    report = build_report(folder)
    sections = {one.id: one for one in report.sections}
    (figure, _) = sections["other-pools"].blocks
    assert [curve.end for curve in figure.plot.curves] == ["trace", "no run"]
    assert [curve.look for curve in figure.plot.curves] == ["line", "dashed"]
    drawn = draw(figure)
    assert ">trace</text>" in drawn
    assert ">no run</text>" in drawn
    (table,) = sections["without-a-run"].blocks
    assert [row.cells[0] for row in table.rows] == ["2 MiB", "8 MiB"]
    small, large = as_json(report)["points"]
    assert (small["generated"]["metric"], small["generated"]["mean"]["n"]) == ("reads_per_new_order", 3)
    assert (
        small["generated"]["mean"]["ci_low"]
        < small["generated"]["mean"]["value"]
        < small["generated"]["mean"]["ci_high"]
    )
    assert large["generated"]["mean"]["value"] < small["generated"]["mean"]["value"]
    assert small["generated"]["mean"]["value"] == pytest.approx(165 / 4, rel=1e-3)
    assert table.rows[0].cells[3] == "+10.0 %"
    assert "Furthest from the measured mean is the prediction at 8 MiB: +10.3 %" in sections["without-a-run"].intro
    dots = [dot.mean for one in figure.plot.series if "without any run" in one.label for dot in one.dots]
    assert sorted(dots) == pytest.approx(sorted(point["generated"]["mean"]["value"] for point in (small, large)))


def test_over_page_sizes_it_has_a_figure_of_its_own(tmp_path: Path) -> None:
    section = without_a_run(Analysis.of(kept(measured(tmp_path, PAGES))))
    assert section is not None
    figure, table = section.blocks
    assert [dot.x / KIB for one in figure.plot.series for dot in one.dots if one.label == "measured"] == [4, 8]
    assert figure.plot.curves[0].xs == (4 * KIB, 8 * KIB)
    assert "<svg" in draw(figure)
    assert len(table.rows) == 2


def test_without_a_trace_the_pools_have_a_figure_of_it(tmp_path: Path) -> None:
    section = without_a_run(Analysis.of(kept(measured(tmp_path), traces=False)))
    assert section is not None
    assert [block.id for block in section.blocks] == ["without-a-run", "without-a-run-table"]


def test_groups_of_points_have_a_panel_each(tmp_path: Path) -> None:
    both = f"{PAGES}\n{POOLS}"
    section = without_a_run(Analysis.of(kept(measured(tmp_path, both, (150, 20, 200, 30), knobs=""))))
    assert section is not None
    figure, _ = section.blocks
    assert len(figure.plot.panels) == 2
    assert all(len(panel.curves) == 1 for panel in figure.plot.panels)
    assert {row.cells[0].split(",")[0] for row in figure.data.rows} == {panel.title for panel in figure.plot.panels}
    assert "<svg" in draw(figure)


def test_its_doubts_stand_beside_it(tmp_path: Path) -> None:
    doubt = Verdict(name="not_calibrated", sentence="the rules were set beside traces of no such server")
    folder = kept(measured(tmp_path), verdicts=[doubt])
    report = build_report(folder)
    sections = {one.id: one for one in report.sections}
    assert "All points: the rules were set beside traces of no such server." in sections["without-a-run"].intro
    figure, _ = sections["other-pools"].blocks
    labels = {one.label: len(one.dots) for one in figure.plot.series}
    assert (labels["predicted without any run"], labels["without any run, with a doubt"]) == (0, 2)
    assert [figure.plot.series[curve.series].label for curve in figure.plot.curves] == [
        "predicted by the model sqlite",
        "predicted without any run",
    ]
    (table,) = sections["without-a-run"].blocks
    assert [row.cells[-1] for row in table.rows] == ["not calibrated"] * 2
    assert as_json(report)["points"][0]["generated"]["verdicts"] == [doubt.model_dump()]


def test_reads_that_depend_on_the_speed_have_no_mean(tmp_path: Path) -> None:
    folder = kept(measured(tmp_path), traces=False)
    found = folder.other_pools()
    assert found is not None
    assert found.generated is not None
    found.generated.points[0].runs[1].reads = None
    folder.write_other_pools(found)
    small, large = as_json(build_report(folder))["points"]
    assert small["generated"]["mean"] is None
    assert large["generated"]["mean"] is not None


def test_a_sweep_that_kept_nothing_has_no_chapter(tmp_path: Path) -> None:
    folder = measured(tmp_path)
    assert without_a_run(Analysis.of(folder)) is None
    assert [point["generated"] for point in as_json(build_report(folder))["points"]] == [None, None]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda document: document["generated"]["points"][0].update(index=9), "a point that is not of this sweep"),
        (lambda document: document["generated"].update(points=[]), "is damaged at generated.points"),
        (lambda document: document["generated"]["points"][0]["runs"][0].update(work={}), "is damaged"),
        (lambda document: document["generated"]["points"][0]["runs"][0].update(reads=-1), "is damaged"),
    ],
)
def test_a_file_that_is_damaged_or_of_other_points_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], says: str
) -> None:
    folder = kept(measured(tmp_path), traces=False)
    path = folder.path / OTHER_POOLS_FILE
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(DataFileError, match=says):
        folder.other_pools()


def test_the_method_of_a_lab_report_names_the_section_of_the_predictions(tmp_path: Path) -> None:
    folder = measured(tmp_path)
    said = "Before the first run a model predicted the reads of the points."
    assert not any(one.startswith(said) for one in method(Analysis.of(folder)))
    (told,) = (one for one in method(Analysis.of(kept(folder))) if one.startswith(said))
    assert "What was predicted without any run" in told
