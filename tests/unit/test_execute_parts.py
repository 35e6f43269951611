"""The parts of a sweep one by one: scratch folders, locks, copies, rates, workers."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bufferlab._native import NativeError

from bufferlab import spec
from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.declaration import DeclaredRates
from bufferlab.engines.servers import user
from bufferlab.errors import FAILURE_KINDS, EnvironmentLackingError, Failure, Interrupted
from bufferlab.execute.data.copy_method import probe_method, restore
from bufferlab.execute.data.datasets import Dataset
from bufferlab.execute.host import reachable, storage
from bufferlab.execute.host.device_lock import Patience, device_lock, lock_directory
from bufferlab.execute.progress import Pace
from bufferlab.execute.rates import KnownRates
from bufferlab.execute.run import engine_backend, worker
from bufferlab.procfs import mounts
from bufferlab.results.schema import WarmUp
from support.core import ROOT
from support.engines.fake.behaviour import FakeBehaviour
from support.fake import Bench, wait, wait_until
from support.marks import leave_marked

RATES = DeclaredRates(
    load_bytes_per_s=1e6,
    restore_bytes_per_s=1e6,
    transactions_per_s=100,
    warm_up_bytes_per_s=1e6,
    check_bytes_per_s=1e6,
)


def test_scratch_is_gone_afterwards_also_after_an_error(tmp_path: Path) -> None:
    def fail_inside() -> None:
        with storage.scratch(tmp_path) as folder:
            (folder / "copy").write_bytes(b"x")
            raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        fail_inside()
    assert list(tmp_path.iterdir()) == []


def test_scratch_of_the_dead_is_removed_and_that_of_the_living_is_not(tmp_path: Path) -> None:
    dead = tmp_path / storage.SCRATCH / "dead"
    dead.mkdir(parents=True)
    (dead / "copy").write_bytes(b"x")
    leave_marked(dead)
    with storage.scratch(tmp_path) as first:
        (first / "copy").write_bytes(b"x")
        assert not dead.exists()
        with storage.scratch(tmp_path) as second:
            assert (first / "copy").exists()
            assert first != second
        assert (first / "copy").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_held_by_one_and_free_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUFFERLAB_LOCKS", str(tmp_path / "locks"))
    with device_lock(tmp_path, share=False) as name:
        assert name
        with pytest.raises(EnvironmentLackingError, match=f"process {os.getpid()}"), device_lock(tmp_path, share=False):
            pass
        with device_lock(tmp_path, share=True):
            pass
    with device_lock(tmp_path, share=False):
        pass


def test_a_device_in_use_is_waited_for_within_a_bound_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUFFERLAB_LOCKS", str(tmp_path / "locks"))
    said: list[str] = []
    with ExitStack() as first:
        first.enter_context(device_lock(tmp_path, share=False))
        short = Patience(0.05, said.append)
        with (
            pytest.raises(EnvironmentLackingError, match=r"also after 0\.\d+ s"),
            device_lock(tmp_path, share=False, patience=short),
        ):
            pass
        # At the first check the other still holds the lock.
        long = Patience(30.0, said.append, first.close)
        with device_lock(tmp_path, share=False, patience=long):
            pass
    assert len(said) == 2
    assert f"another sweep (process {os.getpid()}) is using the device" in said[0]
    assert said[1].endswith("waiting 30 s at most")


def test_two_volumes_on_one_disk_are_one_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUFFERLAB_LOCKS", str(tmp_path / "locks"))
    disks = {"one": ["sda"], "two": ["sda", "sdb"], "three": ["sdc"]}

    class Core:
        def resolve_device(self, path: str) -> str:
            volume = Path(path).name
            return json.dumps({"name": f"dm-{volume}", "disks": [{"name": name} for name in disks[volume]]})

    monkeypatch.setattr("bufferlab.execute.host.device_lock.native", Core)
    with device_lock(tmp_path / "one", share=False) as name:
        assert name == "dm-one"
        with pytest.raises(EnvironmentLackingError, match="device sda"), device_lock(tmp_path / "two", share=False):
            pass
        with device_lock(tmp_path / "three", share=False):
            pass


def test_a_lock_folder_of_someone_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "locks").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("BUFFERLAB_LOCKS", str(tmp_path / "locks"))
    with pytest.raises(EnvironmentLackingError, match="belongs to someone else"), device_lock(tmp_path, share=False):
        pass


@pytest.mark.parametrize("method", ["copy", "probed"])
def test_a_copy_is_identical_private_and_out_of_the_page_cache(tmp_path: Path, method: str) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(os.urandom(5 << 20))
    source.chmod(0o400)
    restore(source, target, probe_method(tmp_path, tmp_path) if method == "probed" else "copy", lambda: None)
    assert not _is_cached(target)
    assert target.stat().st_mode & 0o777 == 0o600
    assert target.read_bytes() == source.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"source", "target"}


def _is_cached(path: Path) -> bool:
    """Return whether the first page is in the page cache (preadv2(2), RWF_NOWAIT)."""
    with path.open("rb") as file:
        try:
            return os.preadv(file.fileno(), [bytearray(4096)], 0, os.RWF_NOWAIT) > 0
        except BlockingIOError:
            return False


def test_a_copy_can_be_given_up(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"x" * 100)

    def stop() -> None:
        raise Interrupted(2)

    with pytest.raises(Interrupted):
        restore(tmp_path / "source", tmp_path / "target", "copy", stop)


@pytest.mark.parametrize(("path", "kind"), [("/proc", "proc"), ("/dev/shm", "tmpfs"), ("/sys", "sysfs")])
def test_a_file_system_is_known_by_its_mount(path: str, kind: str) -> None:
    assert storage.filesystem_of(Path(path)) == kind


def test_a_file_system_is_known_also_below_a_mount_point_with_a_blank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "a disk" / "data"
    place.mkdir(parents=True)
    number = os.stat(place).st_dev
    device, point = f"{os.major(number)}:{os.minor(number)}", str(place.parent).replace(" ", "\\040")
    lines = [f"1 0 {device} / / rw - ext4 /dev/one rw", f"2 1 {device} / {point} rw - xfs /dev/two rw"]
    (tmp_path / "mountinfo").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(storage, "mounts", partial(mounts, tmp_path / "mountinfo"))
    assert storage.filesystem_of(place) == "xfs"
    assert storage.filesystem_of(tmp_path) == "ext4"


@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize("what", ["locks", "data", "servers"])
def test_a_file_or_a_link_in_the_place_of_a_folder_of_ours_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, link: bool
) -> None:
    place = tmp_path / "bufferlab"
    place.symlink_to(tmp_path) if link else place.touch()
    monkeypatch.setenv("BUFFERLAB_LOCKS", str(place))
    monkeypatch.setattr(reachable, "Path", lambda _: place)
    monkeypatch.setattr(user, "_ROOT_DIRECTORY", place)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    folder = {"locks": lock_directory, "data": reachable.shared_root, "servers": user.default_root}[what]
    with pytest.raises(EnvironmentLackingError) as refused:
        folder()
    assert refused.value.where == str(place)
    assert "remove it" in str(refused.value.hint)


def test_data_in_memory_are_refused() -> None:
    with pytest.raises(EnvironmentLackingError, match=r"memory \(tmpfs\)"):
        storage.require_disk(Path("/dev/shm"), "--data-dir")


def test_the_data_directory_is_the_flag_then_the_environment_then_that_of_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BUFFERLAB_DATA", raising=False)
    assert storage.data_directory(None, tmp_path) == tmp_path
    monkeypatch.setenv("BUFFERLAB_DATA", "/somewhere")
    assert storage.data_directory(None, tmp_path) == Path("/somewhere")
    assert storage.data_directory(Path("/flag"), tmp_path) == Path("/flag")


def test_rates_are_remembered_and_a_damaged_memory_is_no_error(tmp_path: Path) -> None:
    rates = KnownRates(tmp_path, "sqlite/tpcc", RATES)
    rates.observe("transactions_per_s", 2000, 1.0)
    rates.observe("transactions_per_s", 4000, 1.0)
    rates.observe("load_bytes_per_s", 5, 0.0)
    rates.observe("load_bytes_per_s", 100_000, 1.0)  # The load of such a small database does not show the rate.
    rates.save()
    again = KnownRates(tmp_path, "sqlite/tpcc", RATES)
    assert again.now.transactions_per_s == pytest.approx((0.9 * 2000 + 4000) / 1.9)
    assert again.now.load_bytes_per_s == RATES.load_bytes_per_s
    assert KnownRates(tmp_path, "other/tpcc", RATES).now == RATES
    for damage in ("", "{", "[]", '{"format_version": 2, "observed": {"sqlite/tpcc": {"transactions_per_s": "x"}}}'):
        (tmp_path / "rates.json").write_text(damage)
        assert KnownRates(tmp_path, "sqlite/tpcc", RATES).now == RATES


@pytest.mark.parametrize(
    ("error", "kind", "what"),
    [
        (NativeError("data", "page 3 is torn", "x.db", None), "data", "page 3 is torn"),
        (
            ValueError("data", "page 3 is torn", "x.db", None),
            "internal",
            "ValueError: ('data', 'page 3 is torn', 'x.db', None)",
        ),
        (EngineFailure("io", "read failed"), "io", "read failed"),
        (EnvironmentLackingError("no core"), "environment", "no core"),
        (OSError(28, "No space left on device", "x.db"), "full_disk", "No space left on device"),
        (OSError(5, "Input/output error"), "io", "Input/output error"),
        (ZeroDivisionError("planted"), "internal", "ZeroDivisionError: planted"),
    ],
)
def test_every_error_of_a_worker_becomes_a_kind_and_a_sentence(error: Exception, kind: str, what: str) -> None:
    described = worker.described(error)
    assert set(described) == {"kind", "what", "where", "hint", "causes"}
    assert (described["kind"], described["what"]) == (kind, what)


def test_every_kind_of_failure_of_the_core_is_one_of_the_vocabulary() -> None:
    source = (ROOT / "crates/bufferlab-drive/src/failure.rs").read_text()
    of_the_core = set(re.findall(r'FailureKind::\w+ => "(\w+)"', source))
    assert {"io", "usage", "internal"} <= of_the_core <= set(FAILURE_KINDS)


def test_the_documentation_has_the_vocabulary_of_failures() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", (ROOT / "docs/reliability.md").read_text(), re.MULTILINE)
    assert [row for row in rows if row[0] in FAILURE_KINDS] == list(FAILURE_KINDS.items())


def test_a_kind_that_nobody_knows_is_a_bug() -> None:
    assert Failure.told({"kind": "killed", "what": "no such kind"}).kind == "internal"


def test_a_workers_error_is_told_with_its_causes_and_without_passwords() -> None:
    try:
        try:
            raise ConnectionResetError("of mysql://me:secret@host/db")
        except OSError as reset:
            raise EngineFailure("io", "the server does not answer") from reset
    except EngineFailure as error:
        causes = worker.described(error)["causes"]
    assert causes is not None
    assert causes.index("ConnectionResetError: of mysql://me:…@host/db") < causes.index("the server does not answer")
    assert "direct cause" in causes
    assert "secret" not in causes


def job(database: Path, **knobs: Any) -> dict[str, Any]:
    return {
        "kind": "run",
        "engine": "fake",
        "parent_pid": os.getpid(),
        "job": {
            "database": str(database),
            "knobs": {"page_size": 4096, "pool_size": 8192, "behave": "ok", "pace_ms": 50, **knobs},
            "workload": {"name": "tpcc", "warehouses": 1, "load_seed": 1, "seed": 2},
            "warm_up": {"max_transactions": 10, "max_seconds": 10},
            "measure": {"transactions": 10_000_000, "max_seconds": 1e6},
            "sample_interval_ms": 1000,
        },
    }


def start_worker(tmp_path: Path, **knobs: Any) -> subprocess.Popen[str]:
    database = tmp_path / "x.db"
    database.write_bytes(json.dumps({"load_behave": "ok", "warehouses": 1}).encode().ljust(65536))
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "bufferlab.execute.run.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(job(database, **knobs)) + "\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["event"] == "phase"
    return process


def test_a_worker_dies_when_its_lifeline_is_cut(tmp_path: Path) -> None:
    with start_worker(tmp_path) as process:
        assert process.stdin is not None
        process.stdin.close()
        started = time.monotonic()
        process.wait(timeout=10)
        assert time.monotonic() - started < 2


@pytest.mark.parametrize("module", ["run.worker", "fleet.block", "fleet.courier"])
@pytest.mark.parametrize("sent", ["", '{"parent_pid": 1}\n'])
def test_a_process_whose_parent_died_before_it_sent_a_job_ends_without_a_word(module: str, sent: str) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", f"bufferlab.execute.{module}"],
        input=sent,
        text=True,
        capture_output=True,
        check=False,
        timeout=20,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


@pytest.mark.parametrize("module", ["run.worker", "fleet.block", "fleet.courier"])
def test_an_error_before_all_work_is_told_to_the_parent(module: str) -> None:
    envelope = {"kind": "dance", "engine": "fake", "job": {}, "parent_pid": os.getpid()}
    with subprocess.Popen(
        [sys.executable, "-P", "-m", f"bufferlab.execute.{module}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(envelope) + "\n")
        process.stdin.flush()
        (told,) = [event for event in map(json.loads, process.stdout) if event["event"] != "beat"]
        assert process.wait(timeout=20) == 1
    assert (told["event"], told["kind"], told["more"]) == ("error", "internal", [])


def test_a_worker_that_is_asked_to_stop_sends_what_it_has(tmp_path: Path) -> None:
    with start_worker(tmp_path) as process:
        assert process.stdout is not None
        process.terminate()
        last = next(event for event in map(json.loads, process.stdout) if event["event"] == "result")
        assert process.stdin is not None
        process.stdin.close()  # The worker gets no further job.
        assert process.wait(timeout=10) == 0
    assert last["result"]["status"] == "interrupted"


def test_a_stop_that_comes_before_the_run_begins_is_not_lost(tmp_path: Path) -> None:
    one = {**job(tmp_path / "x.db")["job"], "measure": {"transactions": 10, "max_seconds": 10}}
    Path(one["database"]).write_bytes(json.dumps({"load_behave": "ok", "warehouses": 1}).encode().ljust(65536))
    engine = FakeBehaviour()
    engine.cancel()
    assert engine.run(one, lambda event: None)["status"] == "interrupted"


def test_a_warm_up_that_was_cut_short_has_no_gate_and_is_not_stored_as_one() -> None:
    told = {"gate": None, "seconds": 0.4, "transactions": 120, "misses": 7}
    assert engine_backend._warm_up(told, 0) is None
    ended = engine_backend._warm_up({**told, "gate": "pool_turnover"}, 100)
    detail = {"misses": 7, "settle_transactions": 100}
    assert ended == WarmUp(gate="pool_turnover", seconds=0.4, transactions=120, detail=detail)


def test_two_sweeps_at_once_load_a_database_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench")
    experiment = bench.experiment(sweep='pool_size = ["5%"]', transactions=300, repetitions=1)
    both = [bench.start("run", experiment, "--out", bench.root / name, "--share-device") for name in ("one", "two")]
    ended = [wait(process) for process in both]
    assert [each.code for each in ended] == [0, 0], "\n".join(each.err for each in ended)
    assert sum("loaded" in each.err for each in ended) == 1


def test_a_sweep_waits_for_another_that_loads_and_can_be_interrupted_there(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench")
    experiment = bench.experiment(sweep='pool_size = ["5%"]', transactions=300, repetitions=1)
    assert bench.run(experiment).code == 0
    (lock,) = (bench.cache / "data").glob("*.lock")
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = bench.start("run", experiment, "--out", bench.out)
        wait_until(lambda: bool(list(bench.out.glob(".bufferlab-work"))), "the sweep to begin")
        time.sleep(0.5)
        process.terminate()
        ended = wait(process, 10)
    assert ended.code == 143
    assert "waiting for it" in ended.err


@pytest.mark.parametrize(
    ("name", "asked", "actual", "status"),
    [
        ("wal_autocheckpoint", 1 << 20, 15 * (65536 + 24), "passed"),
        ("pool_size", 64 * 65536, 64 * 65536 - 1, "passed"),
        ("pool_size", 64 * 65536, 62 * 65536, "failed"),
        ("page_size", 65536, 32768, "failed"),
        ("sectors", 100, 99, "passed"),
        ("sectors", 100, 90, "failed"),
    ],
)
def test_sizes_may_be_rounded_to_a_page_and_other_settings_hardly(
    name: str, asked: int, actual: int, status: str
) -> None:
    from bufferlab.execute.run.run_checks import _settings_applied
    from bufferlab.results.schema import StoredSetting

    unit = "" if name == "sectors" else "bytes"
    page = StoredSetting(asked="64KiB", planned=65536, actual=65536, unit="bytes")
    row = _settings_applied({"page_size": page, name: StoredSetting(planned=asked, actual=actual, unit=unit)})
    assert row.status == status


def test_a_worker_imports_nothing_that_reads_or_keeps_results() -> None:
    """Each run starts a worker: half a second of imports would be most of a small sweep."""
    imported = "import sys\nfrom bufferlab.execute.run import worker\n"
    asked = f"{imported}worker.engine_of({{'engine': 'fake'}}).cancel()\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    heavy = {"pydantic", "polars", "numpy", "bufferlab.results.store"}
    assert heavy & set(done.stdout.split()) == set()


def test_the_time_left_moves_inside_a_run_that_takes_longer_than_expected() -> None:
    pace = Pace(0.0, run_seconds=10.0, runs=5)
    later = [1, 2, 0, 1]
    assert pace.left(0, later, now_s=4.0, stage_left_s=0.0) == 6 + 4 * 10
    assert pace.left(0, later, now_s=30.0, stage_left_s=0.0) == 4 * 30, "no share is known yet"
    assert pace.left(0, later, now_s=30.0, stage_left_s=8.0) == 8 + 4 * 38
    pace.finish(0, 20.0)
    assert pace.left(1, [2, 0], now_s=25.0, stage_left_s=5.0) == 5 + 20 + 20, "of those something is known"


@pytest.mark.parametrize(
    ("share", "spent_s", "left_s"), [(0.0, 3.0, 0.0), (0.25, 3.0, 9.0), (0.001, 3.0, 597.0), (1.0, 3.0, 0.0)]
)
def test_a_window_needs_as_long_as_its_share_says_and_no_longer_than_its_cap(
    tmp_path: Path, share: float, spent_s: float, left_s: float
) -> None:
    from bufferlab.execute.run.engine_backend import _window_left_s

    experiment = Bench(tmp_path).experiment()
    assert _window_left_s(spec.load(experiment), share, spent_s) == pytest.approx(left_s)
    timed = experiment.read_text().replace("transactions = 3000\nmax_duration", "duration")
    experiment.write_text(timed)
    assert _window_left_s(spec.load(experiment), share, spent_s) == 597


def test_data_on_a_server_that_runs_already_are_said_to_lie_there_and_with_their_own_size(tmp_path: Path) -> None:
    from bufferlab.execute.data.datasets import _loaded_where

    note = Dataset("key", tmp_path / "key" / "database", 396, 5 << 20, "", None)
    assert _loaded_where(note, {"rows": 9, "place": "127.0.0.1:3306/lab"}) == (5 << 20, "127.0.0.1:3306/lab")
    assert _loaded_where(note, {"rows": 9}) == (396, str(tmp_path / "key"))
    server = Dataset("key", tmp_path / "key" / "database", 397 << 20, 165 << 20, "", None)
    assert server.in_words == "a database of 165 MiB (397 MiB of files, with logs and system tables)"
    assert replace(server, size_bytes=165 << 20).in_words == "165 MiB"


@pytest.mark.parametrize(
    ("seconds", "longest_s", "status"), [(16.9, 0.1, "passed"), (17.1, 0.1, "failed"), (39, 28, "passed")]
)
def test_a_window_may_exceed_its_time_by_five_seconds_or_by_one_transaction(
    tmp_path: Path, seconds: float, longest_s: float, status: str
) -> None:
    from bufferlab.execute.run.run_checks import _ran_through

    experiment = Bench(tmp_path).experiment()
    experiment.write_text(experiment.read_text().replace('max_duration = "600s"', 'max_duration = "12s"'))
    times = (("payment", "service", longest_s), ("payment", "response", 99), ("scan.read", "service", 99))
    latency = [{"transaction_type": name, "time": time, "max_us": 1e6 * max_s} for name, time, max_s in times]
    result = {"measured": {"seconds": seconds, "transactions": 9}, "phases": [], "latency": latency}
    row = _ran_through(spec.load(experiment), result, [], is_server=False)
    assert row.status == status
    assert (row.detail.startswith("the measured window lasted 17.1 s where 12 s were asked for")) == (
        status == "failed"
    )
