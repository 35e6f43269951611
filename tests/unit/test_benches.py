"""The benchmarks write jobs by hand, and no test runs them to their end: the core still understands their words."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import SimpleNamespace

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
        assert failure_of(refused.value).kind == "io"


def test_the_job_of_generated_accesses_counts_the_same_gets_for_every_pool() -> None:
    bench = importlib.import_module("generate")
    jobs = [{**bench.job_of(1, 100, 500, model), "connections": 2} for model in bench.MODELS]
    lru, model = (json.loads(native().generate(json.dumps(job), None)) for job in jobs)
    assert lru["way"]["name"] == model["way"]["name"] == "exact"
    assert lru["pools"][0]["gets"] == model["pools"][0]["gets"] > 10_000
    for told in (lru, model):
        (pool,) = told["pools"]
        assert pool["warm_up_transactions"] == 0
        assert pool["misses"] <= pool["evictions"] + pool["frames_used"] <= pool["misses"] + pool["creates"]
