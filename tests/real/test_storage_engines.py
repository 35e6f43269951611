"""MariaDB's storage engines on real servers: each runs in the same budget, and the kernel's counts equal its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bufferlab.engines.innodb.storage_engines import STORAGE_ENGINES
from bufferlab.engines.servers.memory_limit import usable
from bufferlab.errors import EnvironmentLackingError
from bufferlab.registry import open_sweep
from real.test_innodb_sweeps import Place, place
from support import innodb

__all__ = ["place"]

pytestmark = [pytest.mark.real, pytest.mark.slow]


def _memory_can_be_limited() -> bool:
    try:
        usable()
    except EnvironmentLackingError:
        return False
    return True


@pytest.mark.parametrize("server", ["mariadb-10.11", "mariadb-11.8"])
def test_every_storage_engine_reads_what_the_kernel_counts_for_its_server(server: str, place: Place) -> None:
    if not _memory_can_be_limited():
        pytest.skip("memory cannot be limited on this host")
    innodb.build(server)
    sweep = ",".join(("innodb", *STORAGE_ENGINES))
    done = place.run(
        "run", "hot-rows", "--engine", "mariadb", "--server", server, "--smoke", "--sweep", f"storage_engine={sweep}",
        "--sweep", "hot_rows=500,20000", "--set", "rows=200000", "--set", "pool_size=40MiB",
        "--set", "memory_limit=pool", "--set", "page_size=16k", "--repetitions", "1", "--transactions", "5000",
        "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout)
    folder = open_sweep(max(place.out.glob("hot-rows-*")))
    runs = list(folder.runs())
    assert [run.run.status for run in runs] == ["ok"] * 8
    for run in runs:
        rest, held, limit = (
            run.run.settings[f"memory_{name}_bytes"].actual for name in ("at_rest", "held", "limit")
        )  # fmt: skip
        assert limit == rest + (40 << 20)
        assert rest < held <= limit
    checks = {check["name"]: check for check in told["checks"]}
    # InnoDB's and RocksDB's pages bypass the page cache, Aria's go through it.
    assert checks["process_read_bytes"]["status"] == "passed"
    assert checks["read_calls"]["status"] == "passed"


@pytest.mark.parametrize("name", STORAGE_ENGINES)
def test_page_traces_and_predictions_are_refused_by_name(name: str, place: Place) -> None:
    innodb.build("mariadb-10.11")
    asked = (
        "hot-rows",
        "--engine",
        "mariadb",
        "--server",
        "mariadb-10.11",
        "--set",
        f"storage_engine={name}",
    )
    traced = place.run("run", *asked, "--smoke", "--probe", "page-trace")
    assert traced.returncode == 2
    assert f"page accesses of the storage engine {STORAGE_ENGINES[name].sql_name} cannot be recorded" in traced.stderr
    predicted = place.run("predict", *asked)
    assert predicted.returncode == 2
    assert "storage_engine" in predicted.stderr
