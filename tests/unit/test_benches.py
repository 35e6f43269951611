"""The benchmarks write jobs by hand and no test runs them to their end: these tests check that the core accepts the
jobs."""

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


def test_the_benchmark_beside_tpcc_mysql_fails_at_the_server_that_is_not_there_and_shows_ratios_by_rounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = importlib.import_module("tpcc_mysql")
    server, identity = SimpleNamespace(socket=tmp_path / "socket", pid=1), SimpleNamespace(user="nobody", password="")
    tpcc = {"name": "tpcc", "warehouses": 1, "load_seed": 1, "seed": 1}
    for way in bench.WAYS:
        with pytest.raises(Exception, match="socket") as refused:
            bench.by_us(server, identity, tpcc, way, 0.1)
        assert failure_of(refused.value).kind == "environment"
    windows = {program: [bench.Window(1.0, each, 2.0, 0.5, 30.0, 900.0) for each in (9.0, 19.0)] for program in "ab"}
    bench.show({"tpcc-mysql": windows["a"], "spec": windows["b"], "batched": windows["b"]})
    shown = capsys.readouterr().out
    assert "| client CPU, us | 15.0 (10.0-20.0) | 15.0 (10.0-20.0) | 15.0 (10.0-20.0) |" in shown
    assert "| client CPU, ratio to tpcc-mysql's (95 %) | | 1.000 (1.000-1.000) | 1.000 (1.000-1.000) |" in shown
    assert bench.told("  [0] sc:7 lt:1  rt:0  fl:0 avg_rt: 1.0 (5)\n  [1] sc:2 lt:0  rt:0 \n  [0] sc:9  lt:9 \n") == 10


def test_a_benchmark_of_a_server_has_its_options_and_a_folder_that_servers_may_pass_for_as_long_as_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = importlib.import_module("server_bench")
    monkeypatch.setattr(bench.user, "default_root", lambda: tmp_path)
    monkeypatch.setattr("sys.argv", ["bench", "--server", "mysql-9", "--joins", "3"])

    def fails() -> None:
        with bench.begun("A bench.", "postgres-17", pairs=16, joins=10) as (asked, folder):
            assert vars(asked) == {"server": "mysql-9", "pairs": 16, "joins": 3}
            assert (folder.parent, folder.stat().st_mode & 0o777) == (tmp_path, 0o711)
            (folder / "database").mkdir()
            raise ValueError("ended")

    with pytest.raises(ValueError, match="ended"):
        fails()
    assert list(tmp_path.iterdir()) == []


def test_the_job_of_generated_accesses_counts_the_same_gets_for_every_pool() -> None:
    bench = importlib.import_module("generate")
    jobs = [{**bench.job_of(1, 100, 500, model), "connections": 2} for model in bench.MODELS]
    lru, model = (json.loads(native().generate(json.dumps(job), None)) for job in jobs)
    assert lru["way"]["name"] == model["way"]["name"] == "exact"
    # For each page that is read, the model also gets a bitmap page.
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
        file.write('{"turn": {"server": "mys')  # A full disk may leave such a half line.
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
    # Both pairs have the same ratio; without reads there is no ratio of reads.
    assert (table[0][7], table[0][9], table[0][11]) == ("1.100 (1.100-1.100)", "-", "1.000 (1.000-1.000)")
    ran.clear()
    bench.main()
    assert ran == []


def of_advise(rate: float, p999_us: float, cpu_us: float, **more: float) -> Any:
    return importlib.import_module("advise_cost").Done(rate, p999_us, cpu_us, **more)


def test_the_benchmark_of_advise_does_pairs_that_are_not_whole_anew_and_tells_ratios(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = importlib.import_module("advise_cost")
    ran: list[tuple[int, bool]] = []

    def measured(folder: Path, wanted: list[Any], warm_s: int) -> Any:
        for turn in wanted:
            if len(ran) == 3:
                raise KeyboardInterrupt
            ran.append((turn.pair, turn.attached))
            faster = 1 + turn.pair / 10
            plain = of_advise(1000.0 * faster, 9000.0 / faster, 100.0)
            attached = of_advise(990.0 * faster, 9900.0 / faster, 103.0, foretold_us=2.0, by_stops_us=2.5)
            yield turn, attached if turn.attached else plain

    monkeypatch.setattr(bench, "measured", measured)
    monkeypatch.setattr(bench.user, "default_root", lambda: tmp_path)
    monkeypatch.setattr("sys.argv", ["bench", "--pairs", "2", "--state", str(tmp_path / "state")])
    with pytest.raises(KeyboardInterrupt):
        bench.main()
    begun = list(ran)
    ran.clear()
    bench.main()
    assert begun + ran == [(0, True), (0, False), (1, False), (1, False), (1, True)]
    head, _, row = (line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines())
    told = dict(zip(head[4:6], row[4:6], strict=True))
    assert told == {"ratio": "0.990 (0.990-0.990)", "within 0.95-1.05": "no"}, "it must hold 1"
    assert row[8] == "1.100 (1.100-1.100)"
    assert row[-6:-2] == ["3.00 (3.00-3.00)", "2.00", "2.50", "1.50 (1.50-1.50)"]
    ran.clear()
    bench.main()
    assert ran == []


def test_the_benchmark_of_advise_takes_the_interval_that_holds_1_and_lies_within_the_bounds() -> None:
    bench = importlib.import_module("advise_cost")
    plain = [of_advise(1000.0, 9000.0, 100.0) for _ in range(8)]
    attached = [of_advise(1000.0 + 5 * side, 9000.0 + 100 * side, 101.0, foretold_us=1.0) for side in (-1, 1) * 4]
    row = bench.table("mysql-5.7", plain, attached)[-1].split(" | ")
    assert (row[5], row[9]) == ("yes", "yes")
    wide = [of_advise(1000.0 + 200 * side, 9000.0 + 5000 * side, 101.0, foretold_us=1.0) for side in (-1, 1) * 4]
    row = bench.table("mysql-5.7", plain, wide)[-1].split(" | ")
    assert (row[5], row[9]) == ("no", "no")


@pytest.mark.parametrize(
    ("attachments", "why"),
    [
        ([], "was not attached"),
        ([{"ended": "stopped", "seconds": 61.0, "stops": 10}], "was not attached"),
        ([{"ended": "rate", "seconds": 80.0, "stops": 10}], "was not attached"),
        ([{"ended": "stopped", "seconds": 80.0, "stops": 160_000}], None),
    ],
)
def test_a_window_in_which_advise_was_not_attached_all_the_time_ends_the_benchmark(
    attachments: list[Any], why: str | None
) -> None:
    bench = importlib.import_module("advise_cost")
    told = {"attached": attachments, "cost": [{"foretold_cores": 0.004, "by_events_cores": 0.003, "ours_cores": 0.01}]}
    if why:
        with pytest.raises(SystemExit, match=why):
            bench.with_cost(of_advise(1000.0, 1.0, 1.0), told, 60)
        return
    found = bench.with_cost(of_advise(1000.0, 1.0, 1.0), told, 60)
    assert (found.foretold_us, found.by_stops_us, found.stops_per_s) == pytest.approx((4.0, 3.0, 2000.0))


def test_the_job_beside_advise_fails_at_the_server_that_is_not_there(tmp_path: Path) -> None:
    bench = importlib.import_module("advise_cost")
    server, identity = SimpleNamespace(socket=tmp_path / "socket", pid=1), SimpleNamespace(user="nobody", password="")
    with pytest.raises(Exception, match="socket") as refused:
        bench.drive(server, identity, 1000, 1, 1.0, 1.0)
    assert failure_of(refused.value).kind == "environment"


def test_the_latency_beside_advise_is_of_all_types_together() -> None:
    bench = importlib.import_module("advise_cost")
    histograms = [
        {"transaction_type": "look", "time": "service", "max_us": 20.0, "buckets": [(10, 20, 989)]},
        {"transaction_type": "change", "time": "service", "max_us": 4000.0, "buckets": [(10, 20, 9), (3000, 4000, 2)]},
        {"transaction_type": "change", "time": "queue", "max_us": 9e9, "buckets": [(10, 9_000_000_000, 900)]},
    ]
    assert 3000 <= bench.p999_us(histograms) <= 4000
