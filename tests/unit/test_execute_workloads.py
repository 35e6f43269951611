"""Sweeps of every workload on the fake engine: settings of engine, workload and load, open loop, phases, and reused
data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.fake import Bench, Heard

HOT = 'name = "hot_rows"\nrows = 100000'
SCRIPT = """\
-- setup
CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT);
-- transaction: read weight=3
SELECT v FROM t WHERE id = 1;
-- transaction: write
UPDATE t SET v = 'x' WHERE id = 1;
"""
PHASES = """\
[phases.range_scan]
script = "scan.sql"
transactions = 400
max_duration = "20s"

[phases.insert]
script = "insert.sql"
transactions = 50
max_duration = "20s"
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


def scripts(bench: Bench, **texts: str) -> None:
    bench.root.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (bench.root / f"{name}.sql").write_text(text)


def manifests(bench: Bench) -> list[Path]:
    return sorted((bench.cache / "data").glob("*/manifest.json"))


def by_point(bench: Bench) -> dict[str, dict[str, Any]]:
    return {run["point"]["label"]: run for run in bench.runs()}


def test_hot_rows_as_shares_of_the_knee_become_numbers_that_are_asked_and_actual(bench: Bench) -> None:
    sweep = 'hot_rows = ["50%", "200%"]\nlayout = ["scattered", "clustered"]'
    bench.measure(bench.experiment(workload=HOT, knobs='pool_size = "1MiB"', sweep=sweep, repetitions=1))
    runs = by_point(bench)
    assert len(runs) == 4
    for run in runs.values():
        assert run["status"] == "ok", run["failure"]
        assert run["workload"]["name"] == "hot_rows"
        assert (
            run["workload"]["hot_rows"] == run["settings"]["hot_rows"]["actual"] == run["workload"]["drawn"]["hot_rows"]
        )
        assert run["settings"]["hot_rows"]["asked"] in ("50%", "200%")
        assert run["load"] == {"mode": "closed", "rate_per_s": None, "arrivals": None, "patience_s": None}
    few, many = (
        runs[f"hot_rows {share}, layout scattered"]["settings"]["hot_rows"]["actual"] for share in ("50%", "200%")
    )
    assert many == pytest.approx(4 * few, abs=4)
    near = runs["hot_rows 50%, layout clustered"]["settings"]["hot_rows"]["actual"]
    assert near > 5 * few, "neighbours share pages, so more of them fit"
    assert len(manifests(bench)) == 1, "what is hot does not decide the data"


def test_the_trees_of_the_loaded_database_are_kept_with_it_and_with_every_run(bench: Bench) -> None:
    bench.measure(bench.experiment(workload=HOT, knobs='pool_size = "1MiB"', sweep='page_size = ["4k", "16k"]'))
    stored = {
        manifest["shape"]["page_size_bytes"]: manifest["shape"]
        for manifest in (json.loads(path.read_text()) for path in manifests(bench))
    }
    assert stored.keys() == {4096, 16384}
    for run in bench.runs():
        assert run["database"]["shape"] == stored[run["settings"]["page_size"]["actual"]]
        (tree,) = run["database"]["shape"]["trees"]
        assert (tree["name"], tree["rows"]) == ("sbtest1", 100_000)


def test_a_database_of_before_trees_were_kept_gets_them_without_a_load(bench: Bench) -> None:
    experiment = bench.experiment(workload=HOT, knobs='pool_size = "1MiB"', sweep='arm = ["a", "b"]', repetitions=1)
    bench.measure(experiment)
    (file,) = manifests(bench)
    manifest = json.loads(file.read_text())
    old = {name: value for name, value in manifest.items() if name != "shape"}
    file.write_text(json.dumps(old))
    heard = Heard()
    bench.measure(experiment, heard)
    assert json.loads(file.read_text()) == manifest
    assert not any("loaded" in line for line in heard.said)
    assert bench.leftovers() == []


def test_what_a_share_needs_is_loaded_before_the_plan_and_shown(bench: Bench) -> None:
    heard = Heard()
    sweep = 'page_size = ["4k", "8k", "16k"]'
    bench.measure(bench.experiment(workload=HOT, knobs='pool_size = "1MiB"', sweep=sweep, repetitions=1), heard)
    before = [state for state in heard.states if state.run == 0]
    assert {state.stage for state in before} >= {f"loading database {number} of 3" for number in (1, 2, 3)}
    assert [state.done for state in before if "loading" in state.stage] == sorted(
        state.done for state in before if "loading" in state.stage
    )
    assert len(manifests(bench)) == 3


def test_a_rate_is_an_open_loop_and_every_arrival_is_in_the_results(bench: Bench) -> None:
    sweep = 'rate = ["unlimited", "250", "2500"]'
    bench.measure(bench.experiment(sweep=sweep, knobs='pool_size = "64k"\npatience = "2s"', repetitions=1))
    runs = by_point(bench)
    assert runs["rate unlimited"]["load"]["mode"] == "closed"
    assert runs["rate unlimited"]["settings"]["rate"]["actual"] == "unlimited"
    slow = runs["rate 250"]
    assert slow["load"] == {"mode": "open", "rate_per_s": 250.0, "arrivals": "poisson", "patience_s": 2.0}
    assert slow["settings"]["rate"]["actual"] == 250.0
    assert slow["measured"]["seconds"] == pytest.approx(3000 / 250)
    for rate, detail in (("250", "3,000 transactions"), ("2500", "1,200 of 3,000 arrivals served, the others dropped")):
        (row,) = (row for row in runs[f"rate {rate}"]["integrity"] if row["name"] == "window_complete")
        assert (row["status"], row["detail"]) == ("passed", detail)
    for record in bench.sweep().runs():
        if record.run.load.mode == "open":
            assert set(record.latency()["time"].unique()) == {"service", "queue", "response"}
    observed = json.loads((bench.cache / "rates.json").read_text())["observed"]["fake/tpcc"]
    transactions, seconds = observed["transactions_per_s"]
    assert transactions / seconds == pytest.approx(1000), "a rate that was asked says nothing of what can be had"


def test_phases_are_kept_with_their_samples_times_and_latencies(bench: Bench) -> None:
    scripts(bench, scan="SELECT 1;", insert="-- transaction: one\nSELECT 2;")
    bench.measure(bench.experiment(more=PHASES, repetitions=1))
    for record in bench.sweep().runs():
        run = record.run.model_dump(mode="json")
        assert run["status"] == "ok", run["failure"]
        assert [(part["name"], part["transactions"]) for part in run["phases"]] == [("range_scan", 400), ("insert", 50)]
        samples, latency = record.samples(), record.latency()
        assert set(samples["phase"].unique()) == {"measure", "range_scan", "insert"}
        assert {"range_scan.script", "insert.one", "new_order"} <= set(latency["transaction_type"].unique())
        (row,) = (row for row in run["integrity"] if row["name"] == "phases_complete")
        assert row["status"] == "passed"


def test_a_phase_that_its_time_cap_ended_is_a_failed_check(bench: Bench) -> None:
    scripts(bench, scan="SELECT 1;", insert="SELECT 2;")
    more = PHASES.replace("400", "9000").replace('"20s"', '"2s"')
    bench.measure(bench.experiment(more=more, repetitions=1))
    for run in bench.runs():
        (row,) = (row for row in run["integrity"] if row["name"] == "phases_complete")
        assert row["status"] == "failed"
        assert row["detail"] == "range_scan ended after 2,000 of 9,000 transactions (time cap 2 s)"


def test_a_script_runs_and_another_transaction_in_it_needs_no_other_data(bench: Bench) -> None:
    scripts(bench, mine=SCRIPT)
    workload = 'name = "script"\nscript = "mine.sql"'
    experiment = bench.experiment(workload=workload, sweep='pool_size = ["64k", "128k"]', repetitions=1)
    bench.measure(experiment)
    first = bench.runs()
    for run in first:
        assert run["status"] == "ok", run["failure"]
        assert run["workload"]["script"] == "mine.sql"
        assert len(run["workload"]["script_sha256"]) == 64
        assert "text" not in json.dumps(run["workload"])
    scripts(bench, mine=SCRIPT.replace("'x'", "'y'"))
    bench.measure(experiment)
    assert len(manifests(bench)) == 1
    scripts(bench, mine=SCRIPT.replace("v TEXT", "v BLOB"))
    bench.measure(experiment)
    assert len(manifests(bench)) == 2


def test_a_script_may_work_on_the_data_of_another_workload(bench: Bench) -> None:
    scripts(bench, mine="SELECT c FROM sbtest1 WHERE id = :rows;")
    workload = 'name = "script"\nscript = "mine.sql"\ndata = "hot_rows"\nrows = 50000'
    bench.measure(bench.experiment(workload=workload, sweep='pool_size = ["64k", "128k"]', repetitions=1))
    for run in bench.runs():
        assert run["status"] == "ok", run["failure"]
        assert run["workload"]["rows"] == 50_000
        assert run["database"]["shape"]["trees"][0]["name"] == "sbtest1"


def test_a_sweep_of_every_kind_of_setting_is_resumed_where_it_stopped(bench: Bench) -> None:
    scripts(bench, scan="SELECT 1;", insert="SELECT 2;")
    sweep = 'hot_rows = ["50%", "150%"]\nrate = ["unlimited", "500"]\nbehave = ["ok", "crash"]'
    toml = bench.experiment(workload=HOT, knobs='pool_size = "1MiB"', sweep=sweep, more=PHASES, repetitions=1)
    bench.measure(toml, failing=4)
    old = {run["run_id"] for run in bench.runs() if run["status"] == "ok"}
    bench.resume(failing=4)
    new = {run["run_id"]: run["status"] for run in bench.runs()}
    assert {run_id for run_id, status in new.items() if status == "ok"} == old


def test_swept_scale_loads_a_database_for_each(bench: Bench) -> None:
    workload, sweep = 'name = "tpcc"', "warehouses = [1, 2]"
    bench.measure(bench.experiment(workload=workload, sweep=sweep, knobs='pool_size = "50%"', repetitions=1))
    runs = by_point(bench)
    assert len(manifests(bench)) == 2
    one, two = (runs[f"warehouses {number}"] for number in (1, 2))
    assert two["database"]["bytes_loaded"] > 1.9 * one["database"]["bytes_loaded"]
    assert two["settings"]["pool_size"]["actual"] == pytest.approx(2 * one["settings"]["pool_size"]["actual"], rel=0.02)
    assert (one["settings"]["warehouses"]["actual"], one["workload"]["warehouses"]) == (1, 1)
