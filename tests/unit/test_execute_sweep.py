"""Sweeps on the fake engine in this process: what is recorded, what fails, and the files that a failure leaves."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bufferlab import spec, units
from bufferlab.errors import BufferlabError, EnvironmentLackingError, Failure, Problem, SpecError
from bufferlab.execute import sweep, sweep_log
from bufferlab.execute.host import fingerprint, storage
from bufferlab.execute.resume import open_for_resume, with_longer_warm_up
from bufferlab.execute.run import engine_backend
from bufferlab.execute.sweep import SweepOptions, prepare_estimate, run_sweep
from bufferlab.registry import registry
from bufferlab.results.store import SweepFolder
from bufferlab.spec.experiment import Measure
from support.engines.fake.script import ENOUGH
from support.fake import Bench, Heard


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


def statuses(bench: Bench) -> Counter[str]:
    return Counter(run["status"] for run in bench.runs())


def test_a_fake_run_says_that_it_is_no_measurement(bench: Bench) -> None:
    bench.measure(bench.experiment(repetitions=1))
    for run in bench.runs():
        assert (run["source"], run["inputs"], run["clock"]) == ("predicted", "given", "virtual")


def test_a_run_records_what_was_asked_what_was_actual_and_where_it_began(bench: Bench) -> None:
    bench.measure(bench.experiment(repetitions=1))
    for run in bench.runs():
        loaded = run["database"]["bytes_loaded"]
        share = {"5%": 5, "80%": 80}[run["settings"]["pool_size"]["asked"]]
        assert run["settings"]["pool_size"]["actual"] == loaded * share // 100 // 4096 * 4096
        assert run["data_key"] == next((bench.cache / "data").glob("*/manifest.json")).parent.name
        assert {row["name"]: row["status"] for row in run["integrity"]} == dict.fromkeys(
            ("same_start", "settings_applied", "window_complete", "window_ran_through"), "passed"
        )
        assert run["consistency"]["conditions"][0]["passed"]
        assert run["warm_up"]["gate"] == "pool_turnover"
        assert set(run["versions"]) == {"bufferlab", "core", "python", "fake"}


def test_runs_of_a_block_share_their_seed_and_their_keys_name_the_point(bench: Bench) -> None:
    bench.measure(bench.experiment(repetitions=2))
    runs = bench.runs()
    assert len({(run["block"], run["seed"]) for run in runs}) == 2
    assert len({(run["point"]["index"], run["point_key"], run["actual_key"]) for run in runs}) == 2
    assert len({run["run_id"] for run in runs}) == 4


def test_the_second_sweep_loads_nothing(bench: Bench) -> None:
    first, second = Heard(), Heard()
    experiment = bench.experiment(repetitions=1)
    bench.measure(experiment, first)
    bench.measure(experiment, second)
    assert any("loaded" in line for line in first.said)
    assert not any("loaded" in line for line in second.said)


def test_the_time_left_goes_to_nothing(bench: Bench) -> None:
    heard = Heard()
    bench.measure(bench.experiment(), heard)
    assert [status.run for status in heard.states if status.run] == sorted(
        status.run for status in heard.states if status.run
    )
    assert heard.states[-1].done > 0.7
    # On an idle host it is a second; on a busy one earlier runs were slower, so the estimate is higher.
    assert heard.states[-1].seconds_left < 2


@pytest.mark.parametrize(
    ("measure", "share"),
    [(Measure(duration=60.0), 0.25), (Measure(transactions=200, max_duration=60.0), 0.5)],
)
def test_a_window_of_a_fixed_time_is_told_by_the_clock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, measure: Measure, share: float
) -> None:
    heard: list[tuple[str, float]] = []
    context: Any = SimpleNamespace(experiment=SimpleNamespace(measure=measure))
    nothing: Any = None
    run = engine_backend._OneRun(context, nothing, nothing, tmp_path, nothing, lambda *told: heard.append(told))
    monkeypatch.setattr(engine_backend, "time", SimpleNamespace(monotonic=iter([100.0, 115.0]).__next__))
    run._hear({"event": "phase", "phase": "measure"})
    run._hear({"event": "progress", "phase": "measure", "done": 100, "total": measure.transactions or 2**53 - 1})
    assert heard == [("measuring", 0.0), ("measuring", share)]


@pytest.mark.parametrize(
    ("behave", "kind", "reason"),
    [
        ("crash", "crash", "ended by SIGSEGV"),
        ("io_error", "io", "read of page 7 failed"),
        ("full_disk", "full_disk", "no space left on device"),
        ("corrupt", "data", "the data is inconsistent after the run: condition 1"),
        ("capped", "unsteady", "hit its cap"),
        ("other_setting", "usage", "asked 4096, actual 2048"),
        ("paused", "unsteady", "nothing ran for 21.0 s of the measured window"),
    ],
)
def test_a_failed_point_is_a_row_with_its_kind_of_failure_and_the_sweep_goes_on(
    bench: Bench, behave: str, kind: str, reason: str
) -> None:
    heard = Heard()
    bench.measure(bench.experiment(sweep=f'behave = ["{behave}", "ok"]'), heard, failing=2)
    assert statuses(bench) == {"failed": 2, "ok": 2}
    for run in bench.runs():
        assert (run["status"] == "failed") == (run["settings"]["behave"]["asked"] == behave)
        if run["status"] == "failed":
            assert run["failure"]["kind"] == kind
            assert reason in run["failure"]["what"]
    first, again = heard.warned
    assert reason in first.what
    assert re.fullmatch(rf"run \d of 4: behave {behave}, block \d: failed as run \d did", again.what)
    assert bench.leftovers() == []


def test_a_long_statement_in_the_worker_leaves_the_run_ok(bench: Bench) -> None:
    assert bench.measure(bench.experiment(knobs='behave = "unanswered"', repetitions=1)).failed == 0


def test_a_crashed_run_keeps_its_samples_and_its_log(bench: Bench) -> None:
    bench.measure(bench.experiment(knobs='behave = "crash"', repetitions=1), failing=2)
    for record in bench.sweep().runs():
        assert record.samples().height > 0
        assert "Segmentation fault" in record.log()


def test_a_silent_worker_is_killed_and_its_run_failed(bench: Bench) -> None:
    bench.measure(bench.experiment(sweep='behave = ["silent", "ok"]', repetitions=1, silent="3s"), failing=1)
    (failed,) = (record for record in bench.sweep().runs() if not record.ok)
    assert failed.failure is not None
    assert failed.failure.kind == "silent"
    assert failed.reason == (
        "the worker was killed: it said nothing for 3 s; see worker.log; a slow device may need a larger"
        " [limits] worker_silent"
    )


def test_a_cap_that_is_to_be_reported_leaves_the_run_ok(bench: Bench) -> None:
    experiment = bench.experiment(knobs='behave = "capped"', repetitions=1)
    experiment.write_text(experiment.read_text().replace("[warm_up]\n", '[warm_up]\non_cap = "report"\n'))
    bench.measure(experiment)
    assert {run["warm_up"]["gate"] for run in bench.runs()} == {"cap"}


@pytest.mark.parametrize(("asked", "status"), [(50_000, "failed"), (2_030, "failed"), (2_010, "passed")])
def test_a_window_that_its_time_cap_ended_is_a_failed_check_unless_it_lacks_next_to_nothing(
    bench: Bench, asked: int, status: str
) -> None:
    """The fake engine does 1,000 transactions a second."""
    experiment = bench.experiment(transactions=asked, repetitions=1)
    experiment.write_text(experiment.read_text().replace('max_duration = "600s"', 'max_duration = "2s"'))
    bench.measure(experiment)
    for run in bench.runs():
        (row,) = (row for row in run["integrity"] if row["name"] == "window_complete")
        assert row["status"] == status
        assert f"2 s ended it after 2,000 of {asked:,}" in row["detail"]


@pytest.mark.parametrize(
    ("behave", "code", "what"),
    [
        ("crash", 1, "the load of the database failed: the worker was ended by SIGSEGV"),
        ("full_disk", 3, "the load of the database failed: no space left on device"),
        ("corrupt", 1, "breaks the workload's own conditions"),
    ],
)
def test_a_failed_load_ends_the_sweep_before_it_began_and_keeps_nothing(
    bench: Bench, behave: str, code: int, what: str
) -> None:
    with pytest.raises(BufferlabError, match=what) as failed:
        bench.measure(bench.experiment(knobs=f'load_behave = "{behave}"'))
    assert failed.value.exit_code == code
    assert bench.leftovers() == []
    assert not list((bench.cache / "data").glob("*/manifest.json"))
    assert list(bench.out.iterdir()) == []


def test_a_load_that_fails_for_some_points_fails_their_runs_alone(bench: Bench) -> None:
    bench.measure(bench.experiment(sweep='load_behave = ["ok", "crash"]', knobs='pool_size = "64k"'), failing=2)
    assert statuses(bench) == {"ok": 2, "failed": 2}
    for run in bench.runs():
        if run["status"] == "failed":  # Also for a run whose failed load was not tried again.
            assert run["failure"]["kind"] == "crash"
            assert run["failure"]["what"].startswith("the load of the database failed: the worker was ended by SIGSEGV")
            assert run["failure"]["hint"] == "see worker.log"


@pytest.mark.parametrize("damage", ["flip", "truncate", "manifest", "missing"])
def test_a_corrupt_cached_database_is_named_and_loaded_again(bench: Bench, damage: str) -> None:
    experiment = bench.experiment(repetitions=1)
    bench.measure(experiment)
    (database,) = (bench.cache / "data").glob("*/database.db")
    original = database.read_bytes()
    database.chmod(0o600)
    match damage:
        case "flip":
            database.write_bytes(original[:5000] + bytes([original[5000] ^ 1]) + original[5001:])
        case "truncate":
            database.write_bytes(original[:-1])
        case "manifest":
            (database.parent / "manifest.json").write_text("{")
        case "missing":
            database.unlink()
    heard = Heard()
    bench.measure(experiment, heard)
    (warning,) = heard.warned
    assert "a cached database is corrupt, and is loaded again" in warning.what
    assert warning.where == str(database.parent)
    assert database.read_bytes() == original


def test_every_run_starts_from_an_untouched_copy(bench: Bench) -> None:
    """The fake engine marks its file and refuses a marked one."""
    bench.measure(bench.experiment(repetitions=2))
    assert statuses(bench) == {"ok": 4}


def test_a_resume_does_failed_runs_again_and_puts_the_old_ones_aside(bench: Bench) -> None:
    bench.measure(bench.experiment(sweep='behave = ["crash", "ok"]', repetitions=1), failing=1)
    old = {run["run_id"]: run["status"] for run in bench.runs()}
    bench.resume(failing=1)
    new = {run["run_id"]: run["status"] for run in bench.runs()}
    assert Counter(new.values()) == {"failed": 1, "ok": 1}
    (kept,) = set(old) & set(new)
    assert old[kept] == "ok"
    (aside,) = (bench.sweep_path() / "superseded").iterdir()
    assert old[aside.name] == "failed"
    log = (bench.sweep_path() / "bufferlab.log").read_text()
    for told in (
        "to be loaded",
        "loaded before; verified, and used again",
        "the window began by the gate pool_turnover",
        "1 of 2 runs are there; 1 to do",
        f"run {aside.name}",
    ):
        assert told in log, told


def test_the_log_of_a_sweep_begins_before_its_folder_and_ends_with_it(tmp_path: Path) -> None:
    heard = Heard()
    with sweep_log.sweep_log(heard) as logged:
        logged.say("before the folder")
        logged.keep_in(tmp_path)
        logged.warn(Problem("odd\n\x1b[2Jthing", "here"))
        sweep_log.LOG.info("mysql://me:s3cret@host/lab")
    logged.say("after the end")
    lines = (tmp_path / sweep_log.NAME).read_text().splitlines()
    assert [line.split(" ", 2)[2] for line in lines][:1] == ["before the folder"]
    assert len(lines) == 3
    assert "s3cret" not in lines[2]
    assert "\x1b" not in lines[1]
    assert heard.said == ["before the folder", "after the end"]


def test_a_link_in_the_place_of_a_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / sweep_log.NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EnvironmentLackingError, match="log cannot be written"), sweep_log.sweep_log(Heard()) as logged:
        logged.keep_in(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def lose_a_run(bench: Bench, block: int) -> None:
    """Remove the folder of a run of this block, as if the run had not been done."""
    shutil.rmtree(next(record.folder for record in bench.sweep().runs() if record.run.block == block))


def ids_of_blocks(bench: Bench) -> list[set[str]]:
    found: dict[int, set[str]] = defaultdict(set)
    for run in bench.runs():
        found[run["block"]].add(run["run_id"])
    return [found[block] for block in sorted(found)]


@pytest.mark.parametrize("other", ["boot", "host"])
def test_a_resume_does_all_of_a_block_that_another_boot_or_host_began_and_leaves_whole_blocks(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    bench.measure(bench.experiment(repetitions=2))
    first, second = ids_of_blocks(bench)
    lose_a_run(bench, block=1)
    booted_at = datetime.now(UTC)
    if other == "boot":
        monkeypatch.setattr(fingerprint, "boot_key", lambda: "another")
        monkeypatch.setattr(fingerprint, "booted_at", lambda: booted_at)
    else:
        monkeypatch.setattr(fingerprint, "_identity", lambda found: "f" * 12)
    heard = Heard()
    bench.resume(heard)
    kept, again = ids_of_blocks(bench)
    assert kept == first
    assert len(again) == 2
    assert not again & second
    (aside,) = (bench.sweep_path() / "superseded").iterdir()
    assert aside.name in second
    (warning,) = heard.warned
    assert warning.what == "1 run of a block that another host or boot began is done again"
    # Runs of this boot stay, although the folder's host.json is from the first boot.
    lose_a_run(bench, block=1)
    bench.resume(heard)
    kept, last = ids_of_blocks(bench)
    assert (kept, len(last & again), len(heard.warned)) == (first, 1, 1)


def test_in_one_boot_a_resume_leaves_the_runs_of_a_block_that_is_not_whole(bench: Bench) -> None:
    bench.measure(bench.experiment(repetitions=2))
    first, second = ids_of_blocks(bench)
    lose_a_run(bench, block=1)
    heard = Heard()
    bench.resume(heard)
    kept, again = ids_of_blocks(bench)
    assert (kept, len(again & second), heard.warned) == (first, 1, [])
    assert not (bench.sweep_path() / "superseded").exists()


def test_the_boot_was_as_long_ago_as_the_kernel_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "uptime").write_text("1000.50 3900.00\n")
    monkeypatch.setattr(fingerprint, "Path", lambda _: tmp_path / "uptime")
    assert (datetime.now(UTC) - fingerprint.booted_at()).total_seconds() == pytest.approx(1000.5, abs=0.5)


def test_a_resume_from_within_the_folder_works_in_the_one_around_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent of "." is "." again: a search upwards from there once never ended."""
    bench.measure(bench.experiment(sweep='behave = ["crash", "ok"]', repetitions=1), failing=1)
    data_directory = storage.data_directory

    def looked(asked: Path | None, out: Path, *owner: Any) -> Path:
        assert out == bench.out
        return data_directory(asked, out, *owner)

    monkeypatch.setattr(storage, "data_directory", looked)
    monkeypatch.chdir(bench.sweep_path())
    with bench.in_environment():
        outcome = run_sweep(spec.load(Path("experiment.toml")), bench.out, Path("."))
    assert (outcome.failed, len(bench.runs())) == (1, 2)
    assert len(list((bench.sweep_path() / "superseded").iterdir())) == 1


def test_of_a_point_whose_settings_were_refused_a_resume_tries_one_run(bench: Bench) -> None:
    first = bench.measure(bench.experiment(sweep='behave = ["other_setting", "ok"]', repetitions=3), failing=3)
    assert (first.failed, first.refused) == (3, 3)
    old = {run["run_id"] for run in bench.runs() if run["status"] == "failed"}
    heard = Heard()
    again = bench.resume(heard, failing=3)
    assert (again.failed, again.refused) == (3, 3)
    assert sum("not tried: its settings were refused again at this point" in line for line in heard.said) == 2
    assert len(old & {run["run_id"] for run in bench.runs()}) == 2
    assert len(list((bench.sweep_path() / "superseded").iterdir())) == 1


def test_a_resume_does_every_refused_run_when_the_refusal_is_mended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as refusing:
        refusing.setattr(engine_backend, "fatal", lambda *_: Failure("the server refuses it", kind="usage"))
        bench.measure(bench.experiment(repetitions=2), failing=4)
    bench.resume()
    assert statuses(bench) == {"ok": 4}


@pytest.mark.parametrize("behave", ["io_error", "full_disk", "capped", "crash"])
def test_a_resume_tries_every_run_again_that_may_go_well_the_next_time(bench: Bench, behave: str) -> None:
    first = bench.measure(bench.experiment(knobs=f'behave = "{behave}"', repetitions=2), failing=4)
    assert first.refused == 0
    old = {run["run_id"] for run in bench.runs()}
    bench.resume(failing=4)
    assert not old & {run["run_id"] for run in bench.runs()}


@pytest.mark.parametrize("on_cap", ["fail", "report"])
def test_a_resume_with_a_longer_warm_up_repeats_only_the_runs_that_hit_the_cap(bench: Bench, on_cap: str) -> None:
    asked = bench.experiment(sweep='behave = ["capped", "ok"]', repetitions=1)
    asked.write_text(asked.read_text().replace("[warm_up]", f'[warm_up]\non_cap = "{on_cap}"'))
    first = bench.measure(asked, failing=on_cap == "fail")
    good = {run["run_id"] for run in bench.runs() if run["warm_up"]["gate"] != "cap"}
    path = bench.sweep_path()
    assert first.longer_warm_ups == (() if on_cap == "report" else ("--warm-up-time 120s",))
    with bench.in_environment():
        folder, stored = open_for_resume(path)
        longer = with_longer_warm_up(folder, stored, spec.Overrides(warm_up_max=ENOUGH))
        run_sweep(longer, bench.out, path)
        with pytest.raises(SpecError, match="may only be longer"):
            with_longer_warm_up(SweepFolder.open(path, registry()), longer, spec.Overrides(warm_up_max=5000))
    assert statuses(bench) == {"ok": 2}
    assert good < {run["run_id"] for run in bench.runs()}
    assert len(list((path / "superseded").iterdir())) == 1
    assert spec.load(path / "experiment.toml").warm_up.max_transactions == ENOUGH


def test_a_resume_warns_of_other_versions(bench: Bench) -> None:
    bench.measure(bench.experiment(repetitions=1))
    file = bench.sweep_path() / "plan.json"
    plan = json.loads(file.read_text())
    file.write_text(json.dumps({**plan, "versions": {**plan["versions"], "core": "0.0.1"}}))
    heard = Heard()
    bench.resume(heard)
    assert any("the runs before the resume had 0.0.1" in problem.what for problem in heard.warned)


def test_a_resume_refuses_a_plan_that_is_not_todays(bench: Bench) -> None:
    bench.measure(bench.experiment(repetitions=1))
    file = bench.sweep_path() / "plan.json"
    plan = json.loads(file.read_text())
    file.write_text(json.dumps({**plan, "database_bytes": plan["database_bytes"] + 4096}))
    with pytest.raises(SpecError, match="database_bytes differ"):
        bench.resume()


def test_results_are_refused_where_no_directory_can_be_before_any_work(bench: Bench) -> None:
    experiment = bench.experiment()
    bench.out.write_text("a file where the folder should be")
    with pytest.raises(EnvironmentLackingError, match="the directory for the results cannot be written") as refused:
        bench.measure(experiment)
    assert "--out" in str(refused.value.hint)
    assert not bench.cache.exists()


def test_data_are_refused_where_no_directory_can_be(bench: Bench) -> None:
    experiment = bench.experiment()
    (bench.root / "file").write_text("not a folder")
    with pytest.raises(EnvironmentLackingError, match="the directory for the data cannot be written"):
        bench.measure(experiment, options=SweepOptions(data_dir=bench.root / "file" / "data"))


@pytest.mark.parametrize("dry", [True, False])
def test_a_pool_larger_than_the_hosts_memory_is_refused_before_anything_starts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, dry: bool
) -> None:
    monkeypatch.setattr(fingerprint, "memory_bytes", lambda: 1 << 30)
    experiment = bench.experiment(sweep='pool_size = ["64MiB", "2GiB"]', repetitions=1)
    refused = r"a pool of 2(\.00)? GiB does not fit into this host's 1(\.00)? GiB of memory"
    with pytest.raises(EnvironmentLackingError, match=refused) as told:
        prepare_estimate(spec.load(experiment)) if dry else bench.measure(experiment)
    assert told.value.where == "point pool_size 2GiB"
    assert not bench.out.exists()


def test_a_share_is_parsed_once_and_the_plan_is_made_once_on_estimates_and_once_on_what_was_loaded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: Counter[str] = Counter()
    made = []

    def split(text: str, quantity: str, hint: str, whole: Any = units._split) -> Any:
        parsed[text] += 1
        return whole(text, quantity, hint)

    def make(experiment: Any, facts: Any, blocks: Any, whole: Any = sweep.make) -> Any:
        made.append(facts)
        return whole(experiment, facts, blocks)

    monkeypatch.setattr(units, "_split", split)
    monkeypatch.setattr(sweep, "make", make)
    bench.measure(bench.experiment(sweep='pool_size = ["10%", "30%"]', repetitions=1))
    assert (parsed["10%"], parsed["30%"]) == (1, 1)
    assert len(made) == 2
    made.clear()
    bench.measure(bench.experiment(sweep='pool_size = ["64KiB", "1MiB"]', repetitions=1))
    assert len(made) == 1, "without a share there is nothing that a loaded database could tell"
