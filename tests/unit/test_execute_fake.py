"""The fake engine follows the core's contract for every workload, in both loops, with phases: other tests rely on
that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bufferlab.results.store import latency_rows, sample_rows
from support.engines.fake.behaviour import FakeBehaviour

KNOBS = {"page_size": 4096, "pool_size": 1 << 20, "behave": "ok", "pace_ms": 0}
TPCC = {"name": "tpcc", "warehouses": 1, "load_seed": 1}
HOT_ROWS = {"name": "hot_rows", "rows": 100_000, "load_seed": 1}
TEXT = "-- setup\nCREATE TABLE t(id);\n-- transaction: read weight=9\nSELECT 1;\n-- transaction: write\nSELECT 2;\n"
SCRIPT = {"name": "script", "source": "mine.sql", "text": TEXT, "variables": {}}
SELECTS = {**HOT_ROWS, "layout": "scattered", "zipf": 0.0, "update_percent": 0}
PHASE = {"name": "scan", "source": "scan.sql", "text": "SELECT 1;", "variables": {}, "transactions": 400,
         "max_seconds": 20.0}  # fmt: skip


class Ran:
    """The answer and the events of a run."""

    def __init__(self, folder: Path, loaded: dict[str, Any], workload: dict[str, Any], **job: Any) -> None:
        engine, database = FakeBehaviour(), folder / "x.db"
        page = {"page_size": KNOBS["page_size"]}
        engine.load({"database": str(database), "knobs": page, "workload": loaded, "threads": 1}, lambda event: None)
        self.shape = engine.shape(database)
        events: list[dict[str, Any]] = []
        whole = {
            "database": str(database),
            "knobs": KNOBS,
            "workload": {**workload, "seed": 5},
            "warm_up": {"max_transactions": 1000, "max_seconds": 60.0},
            "measure": {"transactions": 5000, "max_seconds": 60.0},
            "sample_interval_ms": 1000,
            **job,
        }
        self.result = engine.run(whole, lambda event: events.append(json.loads(event)))
        self.events = events

    def change(self, metric: str, phase: str = "measure") -> dict[str, int]:
        """Return the growth of a counter between the edges of a window, by subject."""
        start, end = (self.edge(metric, phase, edge) for edge in ("start", "end"))
        return {subject: count - start.get(subject, 0) for subject, count in end.items()}

    def edge(self, metric: str, phase: str, edge: str) -> dict[str, int]:
        (event,) = (each for each in self.events if each.get("edge") == edge and each["phase"] == phase)
        return {value["subject"]: value["count"] for value in event["values"] if value["metric"] == metric}

    def completed(self, phase: str = "measure") -> int:
        ended = (self.change(metric, phase) for metric in ("transactions_committed", "transactions_rolled_back"))
        return sum(sum(counts.values()) for counts in ended)


@pytest.mark.parametrize(
    ("loaded", "workload", "types"),
    [
        (TPCC, TPCC, {"new_order", "payment", "order_status", "delivery", "stock_level"}),
        (HOT_ROWS, {**SELECTS, "hot_rows": 100, "update_percent": 10}, {"select", "update"}),
        (SCRIPT | {"data": None}, SCRIPT, {"read", "write"}),
        (SCRIPT | {"data": HOT_ROWS}, SCRIPT, {"read", "write"}),
    ],
)
def test_every_workload_is_counted_by_its_own_types(
    tmp_path: Path, loaded: dict[str, Any], workload: dict[str, Any], types: set[str]
) -> None:
    ran = Ran(tmp_path, loaded, workload)
    assert ran.change("transactions_committed").keys() == types
    assert ran.completed() == 5000
    assert {row["transaction_type"] for row in latency_rows(ran.result["latency"])} == types


def test_the_same_job_gives_the_same_events(tmp_path: Path) -> None:
    job = {"load": {"mode": "open", "rate_per_s": 500.0, "arrivals": "poisson", "patience_s": 1.0}, "phases": [PHASE]}
    runs = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        ran = Ran(tmp_path / name, HOT_ROWS, {**SELECTS, "hot_rows": 5000}, **job)
        runs.append((ran.events, ran.result))
    assert runs[0] == runs[1]


def test_hot_rows_that_fit_into_the_pool_are_never_missed_and_others_are(tmp_path: Path) -> None:
    frames = KNOBS["pool_size"] // KNOBS["page_size"]
    misses = {}
    for hot, layout in ((frames // 2, "scattered"), (frames * 2, "scattered"), (frames * 2, "clustered")):
        folder = tmp_path / f"{hot}{layout}"
        folder.mkdir()
        ran = Ran(folder, HOT_ROWS, {**SELECTS, "hot_rows": hot, "layout": layout})
        misses[hot, layout] = ran.change("demand_misses")[""] / ran.completed()
        assert ran.result["drawn"] == {"hot_rows": hot, "distinct_leaf_pages": None}
    assert misses[frames // 2, "scattered"] == 0
    assert misses[frames * 2, "scattered"] > 0.2
    assert misses[frames * 2, "clustered"] == 0, "neighbours share pages"


@pytest.mark.parametrize(("rate", "drops"), [(250.0, False), (2500.0, True)])
def test_in_an_open_loop_every_arrival_is_accounted_for(tmp_path: Path, rate: float, drops: bool) -> None:
    load = {"mode": "open", "rate_per_s": rate, "arrivals": "poisson", "patience_s": 1.0}
    ran = Ran(tmp_path, TPCC, TPCC, load=load)
    dropped = sum(ran.change("arrivals_dropped").values())
    assert sum(ran.change("arrivals").values()) == 5000 == ran.completed() + dropped
    assert (dropped > 0) == drops
    seconds = ran.result["measured"]["seconds"]
    assert seconds == pytest.approx(5000 / rate)
    times = {row["time"] for row in latency_rows(ran.result["latency"])}
    assert times == {"service", "queue", "response"}


def test_phases_come_after_the_window_with_edges_types_and_times_of_their_own(tmp_path: Path) -> None:
    ran = Ran(tmp_path, TPCC, TPCC, phases=[PHASE, {**PHASE, "name": "insert", "transactions": 100}])
    edges = [(event["phase"], event["edge"]) for event in ran.events if event.get("edge")]
    assert edges == [(name, edge) for name in ("measure", "scan", "insert") for edge in ("start", "end")]
    assert ran.completed() == 5000
    assert ran.change("transactions_committed", "scan")["scan.script"] == 400
    assert ran.change("transactions_committed", "scan")["new_order"] == 0
    assert [(part["name"], part["transactions"]) for part in ran.result["phases"]] == [("scan", 400), ("insert", 100)]
    assert {"scan.script", "insert.script", "new_order"} <= {row["transaction_type"] for row in ran.result["latency"]}
    assert {row["phase"] for event in ran.events if event["event"] == "sample" for row in sample_rows(event)} == {
        "measure",
        "scan",
        "insert",
    }


def test_of_a_script_only_its_setup_decides_the_data() -> None:
    engine, knobs = FakeBehaviour(), {"page_size": 4096, "load_behave": "ok"}
    recipe = engine.data_recipe(knobs, SCRIPT)
    assert engine.data_recipe(knobs, {**SCRIPT, "text": TEXT.replace("SELECT 2", "SELECT 3"), "source": "b"}) == recipe
    assert engine.data_recipe(knobs, {**SCRIPT, "text": TEXT.replace("t(id)", "t(id, v)")}) != recipe
    assert engine.data_recipe(knobs, {**SCRIPT, "variables": {"rows": 2}}) != recipe


@pytest.mark.parametrize(("loaded", "table"), [(TPCC, "order_line"), (HOT_ROWS, "sbtest1"), (SCRIPT, None)])
def test_a_loaded_file_has_the_trees_of_its_workload(tmp_path: Path, loaded: dict[str, Any], table: str | None) -> None:
    workload = {**SELECTS, "hot_rows": 10} if loaded is HOT_ROWS else loaded
    shape = Ran(tmp_path, loaded, workload).shape
    if table is None:
        assert shape is None
        return
    assert shape is not None
    (tree,) = shape["trees"]
    assert tree["name"] == table
    assert tree["level_pages"][0] == 1
    assert tree["height"] == len(tree["level_pages"])
    assert tree["leaf_pages"] * shape["page_size_bytes"] >= tree["payload_bytes"]
