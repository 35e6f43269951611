"""A sweep's answer before its first run and between runs: when predictions are made, the table, and the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from bufferlab.errors import Interrupted
from bufferlab.execute import sweep as module
from bufferlab.execute.progress import Standing
from bufferlab.models import access_rules
from bufferlab.models.managers.declaration import Server
from bufferlab.plan import Plan
from bufferlab.report.build import build as build_report
from bufferlab.report.running import Running
from bufferlab.report.terminal import text
from bufferlab.results.page_traces import GeneratedPoint, GeneratedPoints, GeneratedReads, PlannedTraces
from bufferlab.results.store import OTHER_POOLS_FILE
from support.fake import Bench, Heard

DOCS = Path(__file__).parents[2] / "docs" / "prediction.md"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


class Predictor:
    """A stand-in for the generator that keeps its arguments; each point has ten reads fewer than the one before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ends: Exception | None = None) -> None:
        self.asked: list[tuple[Server, list[int]]] = []
        self.ends = ends
        monkeypatch.setattr(module, "has_generator", lambda _: True)
        monkeypatch.setattr(module, "generated_points", self.predict)
        traces = PlannedTraces(recorder=None, keep="one", by_name=False, why_not="there is no recorder for it")
        monkeypatch.setattr(module.page_trace_probe, "planned", lambda *_: traces)

    def predict(self, plan: Plan, server: Server, watch: Callable[[float], None], sweep_s: float) -> Any:
        assert sweep_s > 0
        self.asked.append((server, [point.index for point in plan.points]))
        watch(0.5)
        if self.ends:
            raise self.ends
        points = [
            GeneratedPoint(
                index=point.index,
                pool_bytes=point.engine["pool_size"].number,
                runs=[
                    GeneratedReads(
                        seed=seed, reads=300 - 100 * point.index + seed, work={"transaction": 20, "new_order": 10}
                    )
                    for seed in (1, 2, 3)
                ],
                verdicts=[],
            )
            for point in plan.points
        ]
        told = GeneratedPoints(
            rules="sqlite", rules_version=3, model="sqlite", model_version=1, engine_version="1", points=points
        )
        return told, ["nothing is left out"]


def test_points_are_predicted_after_the_plan_and_before_the_first_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor, heard = Predictor(monkeypatch), Heard()
    folder = bench.measure(bench.experiment(repetitions=1), heard).folder
    assert [points for _, points in predictor.asked] == [[0, 1]]
    assert predictor.asked[0][0].engine == "fake"
    assert heard.looks[0].runs == []
    stages = [status.stage for status in heard.states]
    assert stages.index("predicting the points without any run") < next(
        place for place, status in enumerate(heard.states) if status.run
    )
    assert "no prediction without a run: nothing is left out" in heard.said
    found = folder.other_pools()
    assert found is not None
    assert found.generated is not None
    assert [point.index for point in found.generated.points] == [0, 1]


def test_a_resumed_sweep_keeps_its_prediction_and_makes_one_that_is_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = Predictor(monkeypatch)
    folder = bench.measure(bench.experiment(repetitions=1)).folder
    bench.resume()
    assert len(predictor.asked) == 1
    (folder.path / OTHER_POOLS_FILE).write_text("{}")
    bench.resume()
    assert len(predictor.asked) == 2


def test_a_point_whose_server_had_another_pool_is_predicted_anew_at_the_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = Predictor(monkeypatch)

    def second_alone(plan: Plan, _folder: object) -> Plan:
        return module.replace(plan, points=plan.points[1:])

    monkeypatch.setattr(module, "with_other_pools", second_alone)
    found = bench.measure(bench.experiment(repetitions=1)).folder.other_pools()
    assert [points for _, points in predictor.asked] == [[0, 1], [1]]
    assert found is not None
    assert found.generated is not None
    assert [point.index for point in found.generated.points] == [0, 1]


def test_a_stop_during_the_prediction_ends_the_sweep_before_its_first_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    Predictor(monkeypatch, Interrupted(2))
    with bench.in_environment():
        outcome = module.run_sweep(module_spec(bench), bench.out)
    assert outcome.signal_number == 2
    assert outcome.folder.runs() == []
    assert bench.leftovers() == []


def module_spec(bench: Bench) -> Any:
    from bufferlab import spec

    return spec.load(bench.experiment(repetitions=1))


def test_before_any_run_the_answer_is_the_predicted_one_and_says_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    Predictor(monkeypatch)
    heard = Heard()
    folder = bench.measure(bench.experiment(repetitions=1), heard).folder
    answer = Running().answer(folder, [], 90)
    assert answer.status == "running"
    assert answer.answer == (
        "Predicted, before any run: reads per New-Order go from 30.2 to 20.2 pages as the buffer pool goes from 5 % to "
        "80 % of the database."
    )
    assert answer.facts == ("running", "0 of 2 runs", "about 1 min 30 s left")
    shown = text(answer, 80)
    assert "30.20 (29.95–30.45)" in shown
    assert "0.5 %, at most 1.2 %" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_measured_points_take_the_place_of_predicted_ones(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    Predictor(monkeypatch)
    folder = bench.measure(bench.experiment(repetitions=2)).folder
    first, *_ = runs = folder.runs()
    running = Running()
    (table,) = running.answer(folder, [first], 60).sections[0].blocks
    by_point = {place: row.cells for place, row in enumerate(table.rows)}
    mine, other = by_point[first.run.point.index], by_point[1 - first.run.point.index]
    assert (mine[4], other[4]) == ("1 of 2", "0 of 2")
    assert float(mine[5]) > 0
    assert other[3] == other[5] == "–"
    whole = running.answer(folder, runs, 0)
    assert whole.facts[1] == "4 of 4 runs"
    assert whole.answer == build_report(folder).answer


def test_a_run_is_read_once_for_all_answers(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = bench.measure(bench.experiment(repetitions=2)).folder
    runs, read = folder.runs(), list[str]()
    own = type(runs[0]).measured

    def measured(record: Any) -> Any:
        read.append(record.run_id)
        return own(record)

    monkeypatch.setattr(type(runs[0]), "measured", measured)
    running = Running()
    for count in range(1, len(runs) + 1):
        running.answer(folder, runs[:count], 0)
    assert read == [record.run_id for record in runs]


def test_an_answer_that_cannot_be_made_is_a_warning_once_and_costs_no_run(bench: Bench) -> None:
    class Broken(Heard):
        def look(self, standing: Standing) -> None:
            raise ZeroDivisionError("by nothing")

    heard = Broken()
    bench.measure(bench.experiment(repetitions=1), heard)
    assert [problem.what for problem in heard.warned] == ["the answer so far cannot be shown: by nothing"]


#: The servers that have cells in docs/prediction.md, by the rules that predict them.
SERVERS = MappingProxyType(
    {
        "innodb": "MySQL 5.7.22",
        "innodb80": "MySQL 9.7.4",
        "postgres": "PostgreSQL 17.2",
        "sqlite": "SQLite 3.54.1",
    }
)


def rows_below(heading: str) -> list[list[str]]:
    """Return the rows of the first table below a heading of docs/prediction.md."""
    below = DOCS.read_text().split(f"### {heading}\n")[1].split("\n### ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in below.splitlines() if line[:1] == "|"]


@pytest.mark.parametrize("rules", access_rules.RULES, ids=lambda rules: rules.name)
def test_the_known_error_is_that_of_the_blind_cells_in_docs(rules: access_rules.AccessRules) -> None:
    server, group, off = "", "", list[float]()
    for row in rows_below("Cells predicted before they were measured"):
        server, group = row[0] or server, row[1] or group
        if server == SERVERS[rules.name] and "known" not in group:
            off.append(abs(float(row[5].removesuffix(" %"))) / 100)
    told = rules.errors["tpcc"]
    assert (told.cells, told.most) == (len(off), pytest.approx(max(off)))
    assert told.mean == pytest.approx(sum(off) / len(off), abs=5e-4)


OF_HOT_ROWS = [rules for rules in access_rules.RULES if "hot_rows" in rules.errors]


@pytest.mark.parametrize("rules", OF_HOT_ROWS, ids=lambda rules: rules.name)
def test_the_known_error_of_hot_rows_is_the_largest_difference_in_docs(rules: access_rules.AccessRules) -> None:
    server, off, cells = "", [0.0], 0
    for what, generated, _, difference in rows_below("Hot rows")[2:]:
        server = what if not what.startswith("the same") else server
        if server.startswith(SERVERS[rules.name]):
            cells += len(generated.split(", "))
            off += map(float, re.findall(r"0\.\d+", difference))
    told = rules.errors["hot_rows"]
    assert (told.cells, told.most, told.mean) == (cells, max(off), None)
