"""CONTRIBUTING's recipes are correct: each patch makes an addition in a copy of the tree, and the copy measures with
it.

tests/docs/test_recipes.py checks which existing files a recipe may change. Recipes that need a server or a build of the
Rust core are slow.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support import innodb
from support.core import ROOT

pytestmark = pytest.mark.real

PAGE_SIZES = {"mysql": "16k", "postgres": "8k"}


class Tree:
    """A copy of the present tree, with the built core."""

    def __init__(self, root: Path) -> None:
        self.root = root / "bufferlab"
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        files = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout
        for name in [*files.decode().split("\0")[:-1], *(str(core.relative_to(ROOT)) for core in cores())]:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            # A link stays a link: python/bufferlab/experiments leads to a folder. Files keep their times, by which
            # Python recognises their compiled modules.
            shutil.copy2(ROOT / name, self.root / name, follow_symlinks=False)
        for compiled in (*(ROOT / "python").rglob("*.pyc"), *(ROOT / "tests").rglob("*.pyc")):
            (self.root / compiled.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # Another lane has replaced the file meanwhile.
                shutil.copyfile(compiled, self.root / compiled.relative_to(ROOT))

    def add(self, recipe: str) -> None:
        """Apply the recipe's patch."""
        patch = ROOT / "tests/fixtures/recipes" / f"{recipe}.patch"
        # Inside a checkout git would silently skip each file outside of this folder.
        alone = {**os.environ, "GIT_CEILING_DIRECTORIES": str(self.root.parent)}
        subprocess.run(["git", "apply", str(patch)], cwd=self.root, env=alone, check=True, timeout=60)

    def run(self, *arguments: str) -> dict[str, Any]:
        """Run a command of the copy; return the JSON that it prints."""
        document: dict[str, Any] = json.loads(self._python("bufferlab", *arguments, "--json"))
        return document

    def test(self, *arguments: str, **environment: str) -> None:
        """Run tests of the copy; all must pass."""
        self._python("pytest", "-q", "-p", "no:cacheprovider", *arguments, **environment)

    def _python(self, module: str, *arguments: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-P", "-m", module, *arguments],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": f"{self.root / 'python'}:{self.root / 'tests'}", **environment},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def build(self) -> None:
        """Build the core of this tree, from a copy of the other tree's build without the tests' parts."""
        built = ROOT / "target/release"
        if built.is_dir():
            # Another test's compiler may remove its objects meanwhile.
            passing = shutil.ignore_patterns("*.rcgu.o")
            shutil.copytree(built, self.root / "target/release", symlinks=True, ignore=passing)
        self._compile(Path(sys.executable).with_name("maturin"), "develop", "--release", "--locked", "--skip-install")

    def cargo(self, *arguments: str) -> None:
        """Run cargo in the copy."""
        self._compile("cargo", *arguments)

    def _compile(self, *command: str | Path) -> None:
        environment = {**os.environ, "VIRTUAL_ENV": sys.prefix}
        subprocess.run(command, cwd=self.root, env=environment, check=True, timeout=1200)


def cores() -> list[Path]:
    return list((ROOT / "python/bufferlab").glob("_native*.so"))


@pytest.fixture
def tree(disk: Path) -> Iterator[Tree]:
    yield Tree(disk / "recipe")
    shutil.rmtree(disk / "recipe")


@pytest.mark.slow
def test_a_knob_can_be_set_and_is_read_back(tree: Tree) -> None:
    innodb.build("mysql-5.7")  # Fetched, or skipped.
    tree.add("knob")
    with innodb.folder() as folder:
        small = ("--smoke", "--repetitions", "1", "--sweep", "pool_size=20MiB", "--set", "log_buffer_size=8MiB")
        document = tree.run(
            "run", "buffer-size", "--engine", "mysql", "--server", "mysql-5.7", *small, "--out", str(folder / "runs")
        )
    (point,) = document["points"]
    assert point["settings"]["log_buffer_size"]["asked"] == "8MiB"
    assert point["settings"]["log_buffer_size"]["actual"] == 8 << 20


@pytest.mark.slow
def test_a_metric_of_a_server_and_a_probe_are_measured_and_shown(tree: Tree) -> None:
    innodb.build("mysql-5.7")  # Fetched, or skipped.
    tree.add("metric")
    tree.add("probe")
    tree.build()
    with innodb.folder() as folder:
        small = ("--smoke", "--repetitions", "1", "--sweep", "pool_size=20MiB", "--out", str(folder / "runs"))
        document = tree.run("run", "buffer-size", "--engine", "mysql", "--server", "mysql-5.7", *small)
        (stored,) = Path(document["sweep"]).glob("runs/*/samples.parquet")
        samples, page = pl.read_parquet(stored), (Path(document["sweep"]) / "report.md").read_text()
    (point,) = document["points"]
    values = {row["metric"]: row for row in point["summaries"]}
    assert values["log_write_requests_per_transaction"]["value"] > 1
    assert values["log_write_requests_per_transaction"]["unit"] == "writes/transaction"
    assert "Log-buffer writes" in page, "a chapter shows it"
    stalled = samples.filter(samples["metric"] == "io_stalled_us")
    assert stalled["count"].is_sorted()
    assert stalled.height == samples.filter(samples["metric"] == "context_switches").height
    assert (stalled["count"].null_count() == 0) == Path("/proc/pressure/io").exists()


def test_an_engine_of_a_known_kind_brings_its_metric_check_and_chapter(tree: Tree) -> None:
    tree.add("engine")
    document = tree.run("run", "log-blocks", "--out", str(tree.root / "runs"))
    blocks = [row["value"] for point in document["points"] for row in point["summaries"]
              if row["metric"] == "log_blocks_per_new_order"]  # fmt: skip
    assert blocks[0] > 5 * blocks[1]
    (check,) = (check for check in document["checks"] if check["name"] == "log_blocks")
    assert check["status"] == "passed"
    page = (Path(document["sweep"]) / "report.md").read_text()
    assert "## Inside the log" in page
    assert "Not a result" in page, "it is a scripted engine"


def test_an_experiment_answers_its_question(tree: Tree) -> None:
    tree.add("experiment")
    document = tree.run("run", "write-ahead-log", "--smoke", "--out", str(tree.root / "runs"))
    assert [point["swept"] for point in document["points"]] == [
        {"wal_autocheckpoint": "256KiB"},
        {"wal_autocheckpoint": "4MiB"},
    ]
    assert document["answer"]


@pytest.mark.slow
def test_a_command_has_help_a_schema_and_a_line_in_the_hints(tree: Tree) -> None:
    tree.add("command")
    (point,) = tree.run("settings", "tests/fixtures/sweeps/traced")["points"]
    assert point["settings"]["pool_size"]["asked"] == "20%"
    tests = ("tests/docs/test_schemas.py", "tests/cli/test_words.py", "-k", "settings or every_schema")
    tree.test(*tests, UPDATE_SNAPSHOTS="1")
    tree.test(*tests)
    assert (tree.root / "docs/schemas/settings.json").is_file()


@pytest.mark.slow
def test_a_buffer_manager_predicts(tree: Tree) -> None:
    tree.add("buffer-manager")
    tree.build()
    sizes = ("--sweep", "pool_size=20%,100%", "--out", str(tree.root / "runs"))
    document = tree.run("predict", "tests/fixtures/sweeps/traced", *sizes)
    small, whole = (run["prediction"] for run in document["predictions"])
    assert (small["model"], small["model_version"]) == ("fifo", 1)
    assert small["opt"]["reads"] < small["lru"]["reads"] < small["found"]["reads"]
    assert whole["found"]["reads"] == whole["lru"]["reads"]
    tree.cargo("test", "--release", "--locked", "-p", "bufferlab-sim", "--test", "fifo")


@pytest.mark.slow
def test_a_workload_runs_on_every_engine_with_its_metric_condition_and_chapter(tree: Tree) -> None:
    innodb.build("mysql-5.7")  # Fetched, or skipped.
    tree.add("workload")
    tree.build()
    with innodb.folder() as folder:
        for engine in ((), ("--engine", "mysql", "--server", "mysql-5.7"), ("--engine", "postgres")):
            pool = ("--set", "pool_size=8MiB", "--set", f"page_size={PAGE_SIZES[engine[1]]}") if engine else ()
            document = tree.run("run", "counters", *engine, "--smoke", *pool, "--out", str(folder / "runs"))
            for point in document["points"]:
                values = {row["metric"]: row["value"] for row in point["summaries"]}
                assert values["retries_per_transaction"] == 0
            for stored in Path(document["sweep"]).glob("runs/*/run.json"):
                run = json.loads(stored.read_text())
                executed = run["warm_up"]["transactions"] + run["measured"]["transactions"]
                assert 0 < run["workload"]["drawn"]["raised"] < executed
            conditions = {check["name"]: check["status"] for check in document["checks"]}
            assert conditions["consistency"] == "passed"
            assert "counters were raised." in (Path(document["sweep"]) / "report.md").read_text()
