"""Sweeps on an engine that is a server: directories as databases, builds, and a server's answers other than numbers."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import bufferlab as bl
from bufferlab import marked
from bufferlab.errors import EnvironmentLackingError, SpecError
from bufferlab.execute.host import reachable, storage
from bufferlab.execute.run.supervise import Event, Outcome, Worker
from bufferlab.execute.sweep import SweepOptions
from bufferlab.report.build import build as build_report
from bufferlab.report.document import Table
from support.fake import Bench, Heard

CONDITION = "settings_applied"


def experiment(bench: Bench, **parts: object) -> Path:
    path = bench.experiment(**parts)  # type: ignore[arg-type]
    path.write_text(path.read_text().replace('engine = "fake"', 'engine = "fake_server"'))
    return path


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


def entry(bench: Bench) -> Path:
    """Return the only database in the cache."""
    (manifest,) = (bench.cache / "data").glob("*/manifest.json")
    return manifest.parent


def test_a_sweep_on_a_directory_runs_and_leaves_nothing_behind(bench: Bench) -> None:
    bench.measure(experiment(bench))
    assert [run["status"] for run in bench.runs()] == ["ok"] * 4
    assert bench.runs()[0]["workload"]["connections"] == 4
    assert bench.leftovers() == []
    kept = {path.name for path in entry(bench).iterdir()}
    assert kept == {"database", "manifest.json", marked.MARK}, "no log of the load is kept"


def test_connections_are_swept_and_each_run_says_its_own(bench: Bench) -> None:
    bench.measure(experiment(bench, sweep="connections = [1, 8]", repetitions=1))
    told = {run["point"]["label"]: run["workload"]["connections"] for run in bench.runs()}
    assert told == {"connections 1": 1, "connections 8": 8}
    points = bl.read(bench.sweep_path()).points
    assert points["connections"].to_list() == [1, 8]
    bench.resume()


def test_the_report_of_a_scripted_server_says_that_nothing_was_measured(bench: Bench) -> None:
    bench.measure(experiment(bench, repetitions=1))
    assert build_report(bench.sweep()).banners[0].text.startswith("Not a result")


def test_two_shares_that_ran_one_rounded_pool_are_said_to_be_equal_and_differ_from_the_plan(bench: Bench) -> None:
    toml = experiment(bench, sweep='pool_size = ["10%", "30%"]')
    toml.write_text(toml.read_text().replace("warehouses = 2", "warehouses = 1"))
    bench.measure(toml)
    report = build_report(bench.sweep())
    assert "grows" not in report.answer
    assert "10 % and 30 % (1 MiB) ran the same setting, so there is no step between them." in report.answer
    (settings,) = [block for section in report.sections for block in section.blocks if block.id == "engine"]
    assert isinstance(settings, Table)
    rows = [row for row in settings.rows if row.cells[0] == "pool_size (swept)"]
    assert [row.cells[:3] for row in rows] == [("pool_size (swept)", f"{share} %", "1 MiB") for share in (10, 30)]
    for row in rows:
        assert row.mark == "differs"
        assert row.cells[3].startswith("differs from what was asked by ")
        assert ": sizes are rounded up to whole MiB; " in row.cells[3]
        assert row.cells[3].endswith("% of the database as loaded")


def test_a_cached_directory_is_listed_file_by_file_and_may_not_be_written(bench: Bench) -> None:
    bench.measure(experiment(bench, repetitions=1))
    stored = json.loads((entry(bench) / "manifest.json").read_text())["database"]
    assert set(stored["files"]) == {"auth.json", "data", "data/empty", "data/pages.ibd"}
    files = [path for path in (entry(bench) / "database").rglob("*") if path.is_file()]
    assert stored["bytes"] == sum(path.stat().st_size for path in files)
    assert {path.stat().st_mode & 0o777 for path in files} == {0o400}
    assert entry(bench).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("change", "the contents of data/pages.ibd are not what was loaded"),
        ("remove", "data/pages.ibd is missing"),
        ("add", "data/more.ibd was not loaded"),
        ("link", "a symbolic link"),
    ],
)
def test_a_corrupt_directory_is_named_and_loaded_again(bench: Bench, damage: str, told: str) -> None:
    toml = experiment(bench, repetitions=1)
    bench.measure(toml)
    pages = entry(bench) / "database" / "data" / "pages.ibd"
    pages.chmod(0o600)
    match damage:
        case "change":
            with pages.open("r+b") as file:
                file.seek(9000)
                file.write(b"!")
        case "remove":
            pages.unlink()
        case "add":
            (pages.parent / "more.ibd").write_bytes(b"x")
        case _:
            (pages.parent / "link").symlink_to("/etc/passwd")
    shutil.rmtree(bench.out)
    heard = Heard()
    bench.measure(toml, heard)
    (warning,) = (problem for problem in heard.warned if "corrupt" in problem.what)
    assert told in warning.what


def test_what_a_server_says_is_kept_with_the_run(bench: Bench) -> None:
    bench.measure(experiment(bench, repetitions=1))
    (first, *_) = bench.sweep().runs()
    assert "connections" not in (first.folder / "engine.conf").read_text()
    assert "pool_size = " in (first.folder / "engine.conf").read_text()
    assert (first.folder / "engine_status.txt").read_text() == (
        "=== t = 0.000 s, phase measure, the window's start\ncalm\n"
    )
    assert {"engine.conf", "engine_status.txt"} <= set(first.run.files)


def test_a_pool_that_was_rounded_is_a_warning_and_no_failure(bench: Bench) -> None:
    heard = Heard()
    bench.measure(experiment(bench, sweep='pool_size = ["40KiB", "1MiB"]'), heard)
    warned = [problem for problem in heard.warned if "rounded by the server" in problem.what]
    assert [problem.where for problem in warned] == ["first at point pool_size 40KiB"], (
        "once, and not where nothing was rounded"
    )
    assert "40 KiB asked, 1 MiB run" in warned[0].what
    rows = {row["name"]: row for row in bench.runs()[0]["integrity"]}
    assert rows[CONDITION]["status"] == "passed"


def test_what_changed_besides_is_a_failed_check_and_a_warning(bench: Bench) -> None:
    heard = Heard()
    bench.measure(experiment(bench, knobs="new = 1"), heard)
    assert [problem.what for problem in heard.warned if "cleaners" in problem.what] == [
        "cleaners became 1 with one instance"
    ], "once, for all points"
    rows = {row["name"]: row["status"] for row in bench.runs()[0]["integrity"]}
    assert rows["no_confounds"] == "failed"


def test_a_crash_fails_its_run_with_the_end_of_the_servers_log_and_the_sweep_goes_on(bench: Bench) -> None:
    bench.measure(experiment(bench, sweep='behave = ["ok", "crash"]', repetitions=1), failing=1)
    by_status = {record.run.status: record for record in bench.sweep().runs()}
    assert set(by_status) == {"ok", "failed"}
    log = (by_status["failed"].folder / "worker.log").read_text()
    assert "=== the end of the server's error.log\nimaginary server fake-2.0 with 4 connections" in log
    assert "imaginary server" not in (by_status["ok"].folder / "worker.log").read_text()


def test_a_server_that_answers_no_sample_for_long_fails_its_run(bench: Bench) -> None:
    bench.measure(experiment(bench, sweep='behave = ["ok", "unanswered"]', repetitions=1), failing=1)
    (failure,) = (run["failure"] for run in bench.runs() if run["status"] == "failed")
    assert failure["kind"] == "unsteady"
    assert failure["what"].startswith("nothing ran for 21.0 s of the measured window")


def test_a_full_disk_fails_its_run_and_leaves_nothing_of_it(bench: Bench) -> None:
    bench.measure(experiment(bench, sweep='behave = ["ok", "full_disk"]', repetitions=1), failing=1)
    assert bench.leftovers() == []


def test_a_knob_that_a_build_lacks_is_refused_before_anything_starts(bench: Bench) -> None:
    toml = experiment(bench, knobs="new = 1", sweep='server = ["fake-1.0", "fake-2.0"]')
    with pytest.raises(SpecError) as refused:
        bench.measure(toml)
    assert [problem.what for problem in refused.value.problems] == [
        "fake_server 1.0 has no new; fake_server 2.0 or later has"
    ]
    assert not (bench.cache / "data").exists()
    assert "has no new" in bench.run(toml, "--dry-run").err


def test_builds_are_compared_each_on_data_of_its_own(bench: Bench) -> None:
    bench.measure(experiment(bench, sweep='server = ["fake-1.0", "fake-2.0"]'))
    assert len({run["data_key"] for run in bench.runs()}) == 2
    assert {"fake_server fake-1.0", "fake_server fake-2.0"} <= set(bench.sweep().plan["versions"])
    for point in bench.sweep().plan["points"]:
        planned = {name: setting["planned"] for name, setting in point["settings"].items()}
        assert (planned["old"], planned["new"]) == (1, None), "auto stands for a value, or leaves it to the server"


def test_a_server_that_is_not_here_ends_the_sweep_before_it_begins(bench: Bench) -> None:
    with pytest.raises(EnvironmentLackingError, match="no server fake-9"):
        bench.measure(experiment(bench, knobs='server = "fake-9"'))
    assert bench.run(bench.root / "fake.toml", "--dry-run").code == 0, "what it would do can be shown all the same"


def test_an_interrupted_server_sweep_is_resumed(bench: Bench) -> None:
    toml = experiment(bench, sweep='behave = ["ok", "crash"]', repetitions=1)
    bench.measure(toml, failing=1)
    bench.resume(failing=1)
    assert sorted(run["status"] for run in bench.runs()) == ["failed", "ok"]


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@needs_root
def test_as_root_copies_belong_to_the_servers_user_and_the_cache_to_us(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, tuple[int, int]] = {}
    do = Worker.do

    def look(worker: Worker, kind: str, job: dict[str, object], on_event: Callable[[Event], None]) -> Outcome:
        database = Path(str(job["database"]))
        if kind == "run":
            seen.update({str(path.relative_to(database)): (path.stat().st_uid, path.stat().st_mode & 0o777)
                         for path in (database, *database.rglob("*"))})  # fmt: skip
            assert reachable.barrier(database.parent, (65534, 65534)) is None, "the server's user gets to its data"
        return do(worker, kind, job, on_event)

    monkeypatch.setattr(Worker, "do", look)
    for module in ("sweep", "data.datasets"):
        monkeypatch.setattr(f"bufferlab.execute.{module}.servers_owner", lambda engine: (65534, 65534))
    _open(bench.root)
    bench.measure(experiment(bench, repetitions=1), None, SweepOptions(bench.root / "work"))
    assert set(seen.values()) == {(65534, 0o700), (65534, 0o600)}
    assert {path.stat().st_uid for path in entry(bench).rglob("*")} == {0}


@needs_root
def test_a_directory_the_servers_user_cannot_reach_is_refused_with_the_one_that_is_closed(tmp_path: Path) -> None:
    _open(tmp_path)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(EnvironmentLackingError) as refused:
        reachable.require_reachable(closed / "data", (65534, 65534), "the data", "--data-dir")
    assert f"{closed} is closed to others" in refused.value.what
    assert "--data-dir" in (refused.value.hint or "")
    reachable.require_reachable(tmp_path / "made" / "later", (65534, 65534), "the data", "--data-dir")
    reachable.require_reachable(closed, None, "the data", "--data-dir")


@needs_root
def test_as_root_the_default_places_are_ones_the_servers_user_can_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _open(tmp_path)
    closed = tmp_path / "home"
    closed.mkdir(mode=0o700)
    monkeypatch.setattr(reachable, "shared_root", lambda: tmp_path / "shared")
    monkeypatch.setattr(storage, "shared_root", lambda: tmp_path / "shared")
    monkeypatch.delenv("BUFFERLAB_CACHE", raising=False)
    monkeypatch.delenv("BUFFERLAB_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(closed))
    nobody = (65534, 65534)
    assert storage.cache_root() == closed / "bufferlab"
    assert storage.cache_root(nobody) == tmp_path / "shared" / "cache"
    assert storage.data_directory(None, closed / "runs", nobody) == tmp_path / "shared" / "work"
    assert storage.data_directory(None, tmp_path / "runs", nobody) == tmp_path / "runs"
    assert storage.data_directory(closed, tmp_path, nobody) == closed, "what was chosen is not replaced"


def _open(path: Path) -> None:
    """Let other users enter the folder: pytest's folders are closed to them."""
    path.mkdir(parents=True, exist_ok=True)
    for folder in (path, *path.parents):
        if folder.stat().st_uid == os.geteuid() and str(folder) not in ("/", "/tmp", "/var", "/var/tmp", "/root"):
            folder.chmod(folder.stat().st_mode | 0o011)
