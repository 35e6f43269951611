"""The built-in experiments on real SQLite and a real disk, at their small sizes, and the refusals that only SQLite
has."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines.registry import declaration
from bufferlab.spec import builtin_experiments, load
from support.fake import Bench, Ended

pytestmark = pytest.mark.real

ONE = ("--smoke", "--repetitions", "1")


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache with one loaded warehouse for all tests of this file."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def bench(tmp_path: Path, shared_cache: Path) -> Iterator[Bench]:
    place = Bench(tmp_path / "bench")
    place.root.mkdir()
    place.cache.symlink_to(shared_cache)
    return place


def ok(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended.err
    return ended.json


def summary(document: dict[str, Any], metric: str) -> list[float]:
    return [next(row["value"] for row in point["summaries"] if row["metric"] == metric) for point in document["points"]]


@pytest.mark.slow
def test_the_quick_form_shows_reads_fall_as_the_pool_grows(bench: Bench) -> None:
    document = ok(bench.run("buffer-size", "--quick", "--json"))
    reads = summary(document, "reads_per_new_order")
    assert reads == sorted(reads, reverse=True)
    assert reads[0] > 10 * reads[-1]
    assert all(point["status"] == "ok" for point in document["points"])


RUN_ELSEWHERE = {"buffer-size", "index-scan", "page-size", "noise"}
"""Other tests run these in the same form every day: the sweep below, tests/real/test_index_scan.py and test_sweep.py.
`noise` is one pool of buffer-size under two names; tests/unit/test_noise.py runs two arms on the fake engine."""


def embedded_experiments() -> list[Any]:
    """Return the experiments that need no server; the servers' own tests run the others."""
    found = [name for name in builtin_experiments() if not declaration(load(name).engine).is_server]
    return [pytest.param(name, marks=pytest.mark.slow if name in RUN_ELSEWHERE else []) for name in found]


@pytest.mark.figures
@pytest.mark.parametrize("name", embedded_experiments())
def test_every_experiment_runs_in_its_smallest_form(bench: Bench, name: str) -> None:
    ended = bench.run(name, *ONE, "--json")
    if ended.code == 3 and declaration(load(name).engine).changes_host:
        pytest.skip(f"this host does not let itself be changed: {ended.err}")
    document = ok(ended)
    assert document["points"]
    for run in bench.runs():
        assert run["status"] == "ok", run["failure"]
        assert run["measured"]["transactions"] > 0
        assert {row["name"]: row["status"] for row in run["integrity"]}["settings_applied"] == "passed"
        assert [phase["name"] for phase in run["phases"]] == [phase.name for phase in load(name).phases]
    assert bench.leftovers() == []


def test_a_real_sweep_is_consistent_and_started_from_one_copy(bench: Bench) -> None:
    ok(bench.run("buffer-size", *ONE, "--json"))
    runs = bench.runs()
    assert len(runs) == 2
    assert len({run["data_key"] for run in runs}) == 1
    for run in runs:
        assert run["source"] == "measured"
        assert [row["condition"] for row in run["consistency"]["conditions"]] == list(range(13))
        assert all(row["passed"] for row in run["consistency"]["conditions"])
        assert {row["name"]: row["status"] for row in run["integrity"]} == dict.fromkeys(
            ("same_start", "settings_applied", "window_complete", "window_ran_through"), "passed"
        )
        assert run["database"]["bytes_loaded"] <= run["database"]["bytes_start"] <= run["database"]["bytes_end"]
    assert bench.leftovers() == []


@pytest.mark.slow
def test_a_page_size_sweep_loads_a_database_for_each_and_keeps_the_bytes_of_the_pool(bench: Bench) -> None:
    document = ok(bench.run("buffer-size", *ONE, "--set", "pool_size=10%", "--sweep", "page_size=4k,16k", "--json"))
    pools = [point["settings"]["pool_size"]["actual"] for point in document["points"]]
    assert abs(pools[0] - pools[1]) < 16384
    assert [point["settings"]["page_size"]["actual"] for point in document["points"]] == [4096, 16384]
    assert len({run["data_key"] for run in bench.runs()}) == 2


def test_data_in_memory_are_refused(bench: Bench) -> None:
    ended = bench.run("buffer-size", "--smoke", "--data-dir", "/dev/shm/bufferlab-test")
    Path("/dev/shm/bufferlab-test").rmdir()
    assert ended.code == 3
    assert "memory (tmpfs)" in ended.err
    assert "--data-dir" in ended.err


def test_a_cached_database_that_is_corrupt_inside_is_found_by_its_hash(bench: Bench) -> None:
    ok(bench.run("script", *ONE, "--json"))
    for database in bench.cache.glob("data/*/database.db"):
        with database.open("rb") as file:
            if not file.read(16).startswith(b"SQLite format 3"):
                continue  # An experiment without a database has no such bytes.
        database.chmod(0o600)
        with sqlite3.connect(database) as connection:
            connection.execute("PRAGMA user_version = 7")  # Another workload's mark: a valid file, but not ours.
        connection.close()
    ended = bench.run("script", *ONE, "--json")
    assert ended.code == 0
    assert "a cached database is corrupt, and is loaded again" in ended.err


def test_the_full_form_can_be_planned(bench: Bench) -> None:
    document = ok(bench.bufferlab("run", "buffer-size", "--full", "--dry-run", "--json"))
    assert document["estimate"]["seconds"] > 3600
    assert document["plan"]["database_bytes"] > 1 << 30


@pytest.mark.parametrize("command", [["doctor"], ["run", "buffer-size"]])
def test_an_installation_without_its_core_is_code_3_and_says_what_to_do(bench: Bench, command: list[str]) -> None:
    code = (
        "import sys; sys.modules['bufferlab._native'] = None\n"
        "from bufferlab.cli.entry import main; sys.argv = ['bufferlab', *sys.argv[1:]]; main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, *command, "--json"],
        cwd=bench.root,
        env=bench.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 3
    assert "the native core of bufferlab is not built" in ended.stdout
    assert json.loads(ended.stdout)["status"] in ("error", "lacking")
