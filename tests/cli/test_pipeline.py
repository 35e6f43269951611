"""From `bufferlab run` to the answer, on the fake engine, with every failure that can happen on the way."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import bufferlab
from bufferlab.registry import open_sweep
from support.core import ROOT
from support.fake import Bench, blocks, children, is_alive, wait, wait_until


def statuses(bench: Bench) -> Counter[str]:
    return Counter(run["status"] for run in bench.runs())


def test_a_sweep_runs_from_toml_to_an_answer_and_leaves_nothing_behind(bench: Bench) -> None:
    ended = bench.run(bench.experiment(), "--json")
    assert ended.code == 0, ended.err
    assert statuses(bench) == {"ok": 4}
    assert bench.leftovers() == []
    assert (bench.sweep_path() / "report.html").is_file()
    assert (bench.sweep_path() / "report.md").is_file()
    _is_one_object_on_standard_output(ended.json, bench)
    # Without a terminal, progress is plain lines on standard error.
    assert "error" not in ended.err
    assert "left)" in ended.err
    assert "run 4 of 4" in ended.err
    assert "\x1b" not in ended.err + ended.out


def _is_one_object_on_standard_output(document: dict[str, Any], bench: Bench) -> None:
    assert document["format_version"] == 3
    assert document["sweep"] == str(bench.sweep_path())
    assert document["answer"].endswith(".")
    assert [point["swept"] for point in document["points"]] == [{"pool_size": "5%"}, {"pool_size": "80%"}]
    reads = [
        next(row for row in point["summaries"] if row["metric"] == "reads_per_new_order")
        for point in document["points"]
    ]
    assert reads[0]["value"] > 5 * reads[1]["value"]
    assert all(row["n"] == 2 and row["ci_low"] < row["value"] < row["ci_high"] for row in reads)
    assert any(step["metric"] == "reads_per_new_order" for step in document["steps"])


def test_a_failed_check_ends_with_code_1_where_strict_asks_for_it_and_is_named_in_json(bench: Bench) -> None:
    toml = bench.experiment(knobs='behave = "capped"', repetitions=1)
    toml.write_text(toml.read_text().replace("\n\n[measure]", '\non_cap = "report"\n\n[measure]'))
    ended = bench.run(toml, "--strict", "--json")
    assert ended.code == 1
    assert ended.json["failed_checks"] == ["warm_up_gates"]
    assert "--strict: 1 failed: Every warm-up met a condition of its gate" in ended.err
    path = bench.sweep_path()
    assert bench.bufferlab("report", path).code == 0
    assert bench.bufferlab("report", path, "--html", "--strict").code == 1


def test_strict_ends_with_code_0_where_every_check_passes(bench: Bench) -> None:
    ended = bench.run(bench.experiment(repetitions=1), "--strict", "--json")
    assert ended.code == 0, ended.err
    assert ended.json["failed_checks"] == []


def test_the_same_seed_gives_the_same_counts_and_another_seed_others(bench: Bench, tmp_path: Path) -> None:
    counts = []
    for number, seed in enumerate((7, 7, 8)):
        place = Bench(tmp_path / str(number))
        place.measure(place.experiment(repetitions=1, seed=seed))
        counts.append(_reads_by_cell(place))
    assert counts[0] == counts[1] != counts[2]


def test_a_dry_run_shows_the_plan_and_touches_nothing(bench: Bench) -> None:
    ended = bench.run(bench.experiment(), "--dry-run")
    assert ended.code == 0
    assert "2 points x 2 repetitions = 4 runs" in ended.out
    assert "consistency checks" in ended.out
    assert not bench.out.exists()
    assert not bench.cache.exists()
    document = bench.run(bench.experiment(), "--dry-run", "--json").json
    assert len(document["plan"]["runs"]) == 4
    assert document["estimate"]["seconds"] > 0


def test_a_failed_point_is_told_with_its_reason_and_code_1(bench: Bench) -> None:
    ended = bench.run(bench.experiment(sweep='behave = ["crash", "ok"]', repetitions=1))
    assert ended.code == 1
    assert "ended by SIGSEGV" in ended.err
    assert "1 run failed; to try again: bufferlab run --resume" in ended.err


def test_a_sweep_in_which_every_run_fails_still_ends_with_a_report_and_code_1(bench: Bench) -> None:
    ended = bench.run(bench.experiment(knobs='behave = "io_error"'), "--json")
    assert ended.code == 1
    assert {point["status"] for point in ended.json["points"]} == {"failed"}
    assert all("page 7" in point["reason"] for point in ended.json["points"])
    failures = [failure for point in ended.json["points"] for failure in point["failures"]]
    assert len(failures) == 4
    assert {failure["run_id"] for failure in failures} == {run["run_id"] for run in bench.runs()}
    assert {(one["status"], one["failure"]["kind"], one["failure"]["where"]) for one in failures} == {
        ("failed", "io", "the fake device")
    }


def test_runs_that_trying_again_does_not_mend_are_told_apart(bench: Bench) -> None:
    ended = bench.run(bench.experiment(sweep='behave = ["other_setting", "ok"]', repetitions=2))
    assert ended.code == 1
    assert "2 runs failed because settings or statements were refused, which trying again does not mend" in ended.err
    assert "to try again" not in ended.err


def test_debug_shows_the_causes_of_a_workers_error(bench: Bench) -> None:
    ended = bench.run(bench.experiment(knobs='behave = "io_error"', repetitions=1), "--debug")
    assert "the worker's error, with its causes:\nTraceback (most recent call last):" in ended.err
    assert "in _misbehave" in ended.err
    assert " ms bufferlab." in ended.err
    assert "matplotlib" not in ended.err, "of libraries only warnings are shown"
    assert "causes" not in "".join(path.read_text() for path in bench.sweep_path().glob("runs/*/run.json"))
    quiet = bench.run(bench.experiment(knobs='behave = "io_error"', repetitions=1))
    assert "Traceback" not in quiet.err


def test_debug_shows_an_error_and_what_caused_it(bench: Bench) -> None:
    ended = bench.bufferlab("run", "buffer-size", "--probe", "block-trace", "--trace-buffer", "many", "--debug")
    assert ended.code == 2
    assert "direct cause" in ended.err
    assert ended.err.index("UnitError") < ended.err.index("SpecError: error:")


def test_an_error_for_programs_has_its_kind(bench: Bench) -> None:
    assert bench.bufferlab("run", "no-such-experiment", "--json").json["kind"] == "usage"
    ended = bench.run(bench.experiment(knobs='load_behave = "full_disk"'), "--json")
    assert (ended.code, ended.json["kind"]) == (3, "full_disk")


def started_measuring(bench: Bench) -> bool:
    """Return whether a run's copy of the database exists, so that the run has started."""
    return any(bench.out.glob(".bufferlab-work/*/*/worker.log"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_cleanly_with_the_partial_run_kept(bench: Bench, number: int, code: int) -> None:
    experiment = bench.experiment(knobs="pace_ms = 50", transactions=1_000_000, repetitions=1)
    process = bench.start("run", experiment, "--out", bench.out)
    wait_until(lambda: started_measuring(bench), "the first run to start")
    # The kernel may leave a child out of its list while another process ends (proc(5), children).
    wait_until(lambda: bool(children(process.pid)), "the worker to be listed")
    workers = children(process.pid)
    process.send_signal(number)
    ended = wait(process)
    assert ended.code == code, ended.err
    assert "Traceback" not in ended.err
    assert f"bufferlab run --resume {bench.sweep_path()}" in ended.err
    (run,) = bench.runs()
    assert run["status"] == "interrupted"
    assert signal.Signals(number).name in run["failure"]["what"]
    assert bench.leftovers() == []
    assert workers
    assert not any(is_alive(pid) for pid in workers)


def is_stubborn(pid: int) -> bool:
    """Return whether this worker blocks SIGTERM. A forked child also blocks it until it has become its program."""
    with suppress(OSError):
        return blocks(pid, signal.SIGTERM) and b"run.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def test_a_worker_that_will_not_stop_is_killed_at_the_second_interrupt(bench: Bench) -> None:
    experiment = bench.experiment(knobs='behave = "stubborn"', transactions=10_000_000, repetitions=1)
    process = bench.start("run", experiment, "--out", bench.out, afresh=True)
    wait_until(lambda: started_measuring(bench), "the first run to start")
    # A worker that has just started ends at the first request; it blocks signals only once it can answer them.
    wait_until(lambda: any(map(is_stubborn, children(process.pid))), "the worker to be stubborn")
    workers = children(process.pid)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    process.send_signal(signal.SIGINT)
    assert wait(process, 10).code == 130
    assert statuses(bench) == {"interrupted": 1}
    assert bench.leftovers() == []
    assert not any(is_alive(pid) for pid in workers)


def test_an_interrupt_while_the_process_ends_does_not_change_how_it_ended() -> None:
    # Objects of the main module are freed after Python has restored the default handlers of signals.
    code = (
        "import os, signal, sys\n"
        "class Last:\n"
        "    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGINT):\n"
        "        kill(pid, number)\n"
        "sys.argv = ['bufferlab', '--version']\n"
        "from bufferlab.cli.entry import main\n"
        "last = Last()\n"
        "main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "bufferlab" in ended.stdout


def test_an_interrupt_while_loading_leaves_nothing(bench: Bench) -> None:
    process = bench.start("run", bench.experiment(knobs='load_behave = "silent"'), "--out", bench.out)
    wait_until(lambda: bool(list((bench.cache / "data").glob(".tmp-*/database.db"))), "the load to start")
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)  # The kernel merges two signals that come at once into one.
    process.send_signal(signal.SIGINT)
    assert wait(process).code == 130
    assert bench.leftovers() == []


def test_an_interrupted_sweep_is_resumed_to_the_same_counts_as_an_undisturbed_one(bench: Bench, tmp_path: Path) -> None:
    experiment = bench.experiment(knobs="pace_ms = 50", transactions=4000)
    process = bench.start("run", experiment, "--out", bench.out)
    wait_until(lambda: bool(list(bench.out.glob("fake-sweep-*/runs/[0-9a-f]*"))), "the first run to be published")
    process.send_signal(signal.SIGTERM)
    assert wait(process).code == 143
    before = statuses(bench)
    assert before["ok"] >= 1
    resumed = bench.bufferlab("run", "--resume", bench.sweep_path())
    assert resumed.code == 0, resumed.err
    assert statuses(bench) == {"ok": 4}
    undisturbed = Bench(tmp_path / "undisturbed")
    undisturbed.measure(undisturbed.experiment(knobs="pace_ms = 0", transactions=4000))
    assert _reads_by_cell(bench) == _reads_by_cell(undisturbed)


def _reads_by_cell(bench: Bench) -> dict[tuple[int, int], int]:
    counts = {}
    for record in bench.sweep().runs():
        samples = record.samples()
        end = samples.filter((samples["edge"] == "end") & (samples["metric"] == "pages_read"))
        counts[(record.run.point.index, record.run.block)] = int(end["count"][0])
    return counts


def test_a_resume_of_a_complete_sweep_does_nothing_and_answers(bench: Bench) -> None:
    bench.measure(bench.experiment(repetitions=1))
    before = {run["run_id"] for run in bench.runs()}
    ended = bench.bufferlab("run", "--resume", bench.sweep_path())
    assert ended.code == 0
    assert "2 of 2 runs are there; 0 to do" in ended.err
    assert {run["run_id"] for run in bench.runs()} == before


def test_a_resume_refuses_another_experiment_and_options(bench: Bench) -> None:
    experiment = bench.experiment(repetitions=1)
    bench.measure(experiment)
    path = bench.sweep_path()
    assert bench.bufferlab("run", experiment, "--resume", path).code == 0
    other = bench.bufferlab("run", experiment, "--seed", "99", "--resume", path)
    assert other.code == 2
    assert "design differ" in other.err
    assert bench.bufferlab("run", "--resume", path, "--seed", "99").code == 2
    assert bench.bufferlab("run", "--resume", path, "--out", bench.root).code == 2


def test_after_a_kill_nothing_runs_on_and_the_next_start_cleans_up_and_finishes(bench: Bench) -> None:
    experiment = bench.experiment(knobs="pace_ms = 50", transactions=8000, repetitions=1)
    process = bench.start("run", experiment, "--out", bench.out)
    # The log appears a moment before its worker.
    wait_until(lambda: started_measuring(bench) and bool(children(process.pid)), "the first run to start")
    workers = children(process.pid)
    process.kill()
    wait(process)
    wait_until(lambda: not any(is_alive(pid) for pid in workers), "the worker to die with its parent", 5)
    assert workers
    assert bench.leftovers(), "a killed sweep cannot clean up"
    assert bench.bufferlab("run", "--resume", bench.sweep_path()).code == 0
    assert bench.leftovers() == []
    assert statuses(bench) == {"ok": 2}


def test_two_sweeps_do_not_share_a_device_unless_told(bench: Bench) -> None:
    slow = bench.experiment(knobs="pace_ms = 50", transactions=1_000_000, repetitions=1)
    process = bench.start("run", slow, "--out", bench.out)
    wait_until(lambda: started_measuring(bench), "the first sweep to start")
    second = Bench(bench.root / "second")
    quick = second.experiment(repetitions=1)
    refused = bench.run(quick, out=second.out)
    assert refused.code == 3
    assert f"process {process.pid}" in refused.err
    assert "--share-device" in refused.err
    assert bench.run(quick, "--share-device", out=second.out).code == 0
    process.send_signal(signal.SIGINT)
    assert wait(process).code == 130


def test_a_sweep_folder_is_resumed_by_one_process_at_a_time(bench: Bench) -> None:
    experiment = bench.experiment(knobs="pace_ms = 50", transactions=1_000_000, repetitions=1)
    process = bench.start("run", experiment, "--out", bench.out)
    wait_until(lambda: started_measuring(bench), "the sweep to start")
    beside = bench.bufferlab("run", "--resume", bench.sweep_path(), "--share-device")
    assert (beside.code, "another process is adding runs" in beside.err) == (3, True)
    process.send_signal(signal.SIGINT)
    wait(process)
    first = bench.start("run", "--resume", bench.sweep_path())
    wait_until(lambda: started_measuring(bench), "the resume to start")
    second = bench.bufferlab("run", "--resume", bench.sweep_path(), "--share-device")
    assert second.code == 3
    assert "another process is adding runs" in second.err
    first.send_signal(signal.SIGINT)
    assert wait(first).code == 130


def test_a_report_is_made_again_from_the_stored_samples(bench: Bench) -> None:
    bench.measure(bench.experiment())
    path = bench.sweep_path()
    assert bench.bufferlab("report", path, "--html").code == 0
    assert (path / "report.html").is_file()
    assert not (path / "report.md").exists()
    document = bench.bufferlab("report", path, "--json").json
    assert document["answer"] == bench.bufferlab("report", path, "--json").json["answer"]
    assert (path / "report.md").is_file()


def test_all_tables_are_written_as_csv_on_request(bench: Bench) -> None:
    bench.measure(bench.experiment())
    path = bench.sweep_path()
    ended = bench.bufferlab("report", path, "--format", "csv")
    assert ended.code == 0, ended.err
    written = [Path(line) for line in ended.out.splitlines()]
    assert path / "tables" / "runs.csv" in written
    assert path / "tables" / "summary.csv" in written
    assert all(one.is_file() for one in written)
    for also in ("--json", "--html"):
        refused = bench.bufferlab("report", path, "--format", "csv", also)
        assert refused.code == 2
        assert "leave" in refused.err
    shutil.rmtree(path / "tables")
    (path / "tables").symlink_to(bench.root)
    blocked = bench.bufferlab("report", path, "--format", "csv")
    assert blocked.code == 65
    assert str(path / "tables") in blocked.err


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished sweep; tests damage copies of it."""
    bench = Bench(tmp_path_factory.mktemp("complete"))
    bench.measure(bench.experiment(repetitions=1))
    return bench.sweep_path()


@pytest.mark.parametrize("damage", ["plan", "run", "samples", "foreign", "absent"])
@pytest.mark.parametrize("command", ["report", "resume"])
def test_a_corrupt_or_foreign_sweep_folder_is_code_65_and_names_the_file(
    bench: Bench, complete: Path, command: str, damage: str
) -> None:
    path = bench.out / complete.name
    shutil.copytree(complete, path)
    run = next(path.glob("runs/*"))
    match damage:
        case "plan":
            (path / "plan.json").write_text("{")
        case "run":
            (run / "run.json").write_text((run / "run.json").read_text()[:-30])
        case "samples":
            data = (run / "samples.parquet").read_bytes()
            (run / "samples.parquet").write_bytes(data[: len(data) // 2])
        case "foreign":
            path = bench.root
        case "absent":
            path = bench.root / "nothing"
    arguments = ("report", path) if command == "report" else ("run", "--resume", path)
    ended = bench.bufferlab(*arguments)
    assert ended.code == 65, ended.err
    assert "where:" in ended.err
    assert "Traceback" not in ended.err


def test_a_folder_of_an_interrupted_sweep_can_be_opened_and_reported(bench: Bench) -> None:
    experiment = bench.experiment(knobs="pace_ms = 50", transactions=1_000_000)
    process = bench.start("run", experiment, "--out", bench.out, "--json")
    wait_until(lambda: started_measuring(bench), "the first run to start")
    process.send_signal(signal.SIGINT)
    ended = wait(process)
    assert ended.code == 130
    assert ended.json["status"] != "ok"
    assert open_sweep(bench.sweep_path()).runs()
    assert bench.bufferlab("report", bench.sweep_path()).code == 0


def test_a_worker_in_the_users_folder_is_not_fooled_by_its_modules(bench: Bench) -> None:
    experiment = bench.experiment(sweep='pool_size = ["5%"]', transactions=300, repetitions=1)
    (bench.root / "json.py").write_text("raise SystemExit('shadowed')")
    process = subprocess.run(
        [sys.executable, "-P", "-m", "bufferlab", "run", str(experiment), "--out", str(bench.out)],
        cwd=bench.root,
        env={**bench.environment, "PYTHONPATH": f"{Path(bufferlab.__file__).parents[1]}:{ROOT / 'tests'}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 0, process.stderr
