"""The benchmarks write jobs by hand, and no test runs them to their end: the core still understands their words."""

from __future__ import annotations

import importlib
import json
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bufferlab.engines.behaviour import failure_of
from bufferlab.engines.native import native, run_core
from support.core import ROOT


@pytest.fixture(autouse=True)
def _benches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benches"))


def test_the_job_of_random_reads_fails_at_the_file_that_is_not_there(tmp_path: Path) -> None:
    bench = importlib.import_module("random_read_fio")
    (tmp_path / "file").write_bytes(bytes(4096))
    job = bench.job_of(tmp_path / "file", 4096, 1, 0.1)
    with pytest.raises(Exception, match="No such file") as refused:
        run_core("file", {**job, "path": str(tmp_path / "nowhere")}, lambda event: None)
    assert failure_of(refused.value).kind == "environment"


def test_the_jobs_of_the_mysql_client_fail_at_the_server_that_is_not_there(tmp_path: Path) -> None:
    bench = importlib.import_module("mysql_client")
    server = SimpleNamespace(socket=tmp_path / "socket", pid=1)
    identity = SimpleNamespace(user="nobody", password="")
    tpcc = {"name": "tpcc", "warehouses": 1, "load_seed": 1, "seed": 1}
    script = {"name": "script", "source": "select.sql", "text": bench.SCRIPT, "variables": {}, "seed": 1}
    for workload, sending in ((script, "spec"), (tpcc, "spec"), (tpcc, "batched")):
        with pytest.raises(Exception, match="socket") as refused:
            bench.run_core(server, identity, workload, 1, sending, None)
        assert failure_of(refused.value).kind == "environment"


def test_the_jobs_of_tls_fail_at_the_server_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    bench = importlib.import_module("tls_round_trip")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for mode in bench.SIDES.values():
        with pytest.raises(Exception, match="refused") as refused:
            bench.round_trips(SimpleNamespace(socket=None, pid=1), port, mode, 1, 1)
        assert failure_of(refused.value).kind == "environment"
    walls = {"without": (40.0, 44.0), "with": (45.0, 47.0)}
    bench.show({side: [bench.Spent(1.0, 2.0, wall) for wall in each] for side, each in walls.items()})
    assert "| wall time | 2 | 42.00 | 46.00 | 4.00 (3.00 to 5.00) |" in capsys.readouterr().out


def test_the_job_of_generated_accesses_counts_the_same_gets_for_every_pool() -> None:
    bench = importlib.import_module("generate")
    jobs = [{**bench.job_of(1, 100, 500, model), "connections": 2} for model in bench.MODELS]
    lru, model = (json.loads(native().generate(json.dumps(job), None)) for job in jobs)
    assert lru["way"]["name"] == model["way"]["name"] == "exact"
    # A bitmap page is got for each page that is read.
    of_lru, of_model = (told["pools"][0]["gets"] - told["pools"][0]["misses"] for told in (lru, model))
    assert of_lru == of_model > 10_000
    for told in (lru, model):
        (pool,) = told["pools"]
        assert pool["warm_up_transactions"] == 0
        assert pool["misses"] <= pool["evictions"] + pool["frames_used"] <= pool["misses"] + pool["creates"]


def test_a_benchmark_of_threads_tells_how_much_faster_many_are_and_refuses_other_numbers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bench = importlib.import_module("predict_threads")
    one, many = bench.Spent(2.0, 0, [7]), bench.Spent(1.0, 3_000_000, [7])
    bench.show("replays", 2, lambda: one, lambda: many)
    row = "| replays | 2 | 2.00 (2.00-2.00) | 1.00 (1.00-1.00) | 2.000 (2.000-2.000) | - | 3 |"
    assert row in capsys.readouterr().out
    with pytest.raises(SystemExit, match="different numbers"):
        bench.show("replays", 1, lambda: one, lambda: many._replace(found=[8]))


def test_a_benchmark_of_traces_that_was_stopped_goes_on_where_it_was_and_servers_and_sides_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = importlib.import_module("page_trace_cost")
    ran: list[tuple[str, int, bool]] = []

    def run(turn: Any) -> Any:
        if len(ran) == 5:
            raise KeyboardInterrupt
        ran.append((turn.server, turn.pair, turn.traced))
        dearer = 1.1 if turn.traced else 1.0
        return bench.Done(400.0, 2000.0 * dearer * (1 + turn.pair / 10), 230.0, 0.0, 3.0, 0.05)

    monkeypatch.setattr(bench, "run", run)
    state = tmp_path / "state"
    asked = ["bench", "--server", "mysql-5.7", "postgres-17", "--pairs", "2", "--state", str(state)]
    monkeypatch.setattr("sys.argv", asked)
    with pytest.raises(KeyboardInterrupt):
        bench.main()
    with state.open("a") as file:
        file.write('{"turn": {"server": "mys')  # As a full disk leaves it.
    begun = list(ran)
    ran.clear()
    bench.main()
    assert begun + ran == [
        ("mysql-5.7", 0, True), ("mysql-5.7", 0, False), ("postgres-17", 0, True), ("postgres-17", 0, False),
        ("mysql-5.7", 1, False), ("mysql-5.7", 1, True), ("postgres-17", 1, False), ("postgres-17", 1, True),
    ]  # fmt: skip
    head, _, *rows = capsys.readouterr().out.splitlines()
    table = [dict(enumerate(row.strip("| ").split(" | "))) for row in rows]
    assert head.count("|") == rows[0].count("|")
    assert [row[0] for row in table] == ["mysql-5.7", "postgres-17"]
    # The same ratio in both pairs; no reads, of which there is no ratio.
    assert (table[0][7], table[0][9], table[0][11]) == ("1.100 (1.100-1.100)", "-", "1.000 (1.000-1.000)")
    ran.clear()
    bench.main()
    assert ran == []
