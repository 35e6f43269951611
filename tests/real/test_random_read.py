"""Random reads on a real device: counts that must agree with the offsets, and a host that stays as it was."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines import host_settings, registry
from bufferlab.engines.file import loop_device
from bufferlab.engines.native import native
from support import core, random_read
from support.random_read import Read

# The tests check loop devices and read-ahead on the whole host.
pytestmark = [pytest.mark.real, pytest.mark.alone]

SIZE_BYTES = 64 << 20
IO_URING = json.loads(native().check_io_uring())["available"]
needs_io_uring = pytest.mark.skipif(not IO_URING, reason="io_uring is refused here")
needs_loop = pytest.mark.skipif(loop_device.why_not() is not None, reason=f"{loop_device.why_not()}")


@pytest.fixture(scope="module")
def file(disk: Path) -> Path:
    """Return a file of random bytes on the disk; tests must not change it."""
    return random_read.make(disk / "random-read", SIZE_BYTES)


@pytest.fixture
def left_alone(file: Path) -> Iterator[None]:
    """Require that no loop device of ours is left, and that the host's read-ahead is as before."""
    before = read_aheads()
    yield
    deadline = time.monotonic() + 10
    while ours(file) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ours(file) == []
    after = read_aheads()
    assert {name: after[name] for name in before if name in after} == {
        name: before[name] for name in before if name in after
    }
    assert not list(host_settings.JOURNAL.glob("*.json"))


def over() -> dict[str, str]:
    """Return the backing files of the host's loop devices, by their names."""
    found = {}
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            found[path.parts[3]] = path.read_text().strip()
    return found


def ours(file: Path) -> list[str]:
    """Return the loop devices over our file, or over a copy in memory."""
    return [name for name, backing in over().items() if backing == str(file) or "bufferlab-copy" in backing]


def read_aheads() -> dict[str, str]:
    """Return the read-ahead of every device, except for loop devices that others use meanwhile."""
    busy = over()
    files = Path("/sys/block").glob("*/queue/read_ahead_kb")
    return {path.parts[3]: path.read_text() for path in files if path.parts[3] not in busy}


def reads_of(device: Path) -> int:
    """Return the read requests that a block device has completed, from the kernel itself."""
    return int((Path("/sys/block") / device.name / "stat").read_text().split()[0])


def undisturbed(run: Callable[[], Any], is_whole: Callable[[Read], bool]) -> Read:
    """Return a run in which the host took no page back from the cache, or hardly any. The third run is taken in any
    case."""
    for _ in range(3):
        done = run()
        assert isinstance(done, Read), done
        if is_whole(done):
            break
    return done


def read_once(job: dict[str, Any], at_most: float) -> Read:
    """Do a run of the engine whose pages the host left in the cache: a page that it takes back is read twice."""
    return undisturbed(
        lambda: random_read.run_engine(job),
        lambda run: run.delta("device_reads") <= at_most * run.delta("requests_expected"),
    )


@needs_loop
@pytest.mark.parametrize("io_size", [4096, 8192, 16384])
def test_without_read_ahead_requests_are_what_a_replay_of_the_offsets_says(
    file: Path, left_alone: None, io_size: int
) -> None:
    job = random_read.engine_job(file, device="loop", read_ahead="0", of={"io_size_bytes": io_size})
    run = read_once(job, 1.01)
    assert run.answer["actual"]["read_ahead"] == "0"
    assert run.delta("logical_reads") == 2000
    # Each page comes by a read.
    assert 0.995 <= run.delta("device_reads") / run.delta("requests_expected") <= 1.01
    # The model does not know which offsets were drawn; 2,000 draws scatter around it.
    pages = run.delta("pages_touched") / 2000
    assert pages == pytest.approx(io_size / 4096 + 1 - 1 / 8, rel=0.02)
    assert run.delta("pages_first_touched") < run.delta("pages_touched")


@needs_loop
@pytest.mark.parametrize("of", [{}, {"queue_depth": 16, "threads": 2}, {"alignment": "io_size"}, {"offsets": "zipf"}])
def test_a_direct_read_is_exactly_one_request(file: Path, left_alone: None, of: dict[str, object]) -> None:
    with loop_device.over(file, SIZE_BYTES) as attached:
        job = random_read.core_job(attached.path, SIZE_BYTES)
        job["reads"] = random_read.reads(**of)
        run = random_read.run_core(job)
    assert run.delta("logical_reads") == run.delta("device_reads") == run.delta("requests_expected") == 2000
    assert run.delta("device_read_bytes") == run.delta("logical_read_bytes") == 2000 * 8192
    (latency,) = run.answer["latency"]
    assert sum(count for _, _, count in latency["buckets"]) == 2000
    assert run.answer["actual"]["backend_run"] == ("io_uring" if IO_URING else "threads")


@needs_loop
def test_the_devices_own_counter_agrees_with_the_drivers(file: Path, left_alone: None) -> None:
    with loop_device.over(file, SIZE_BYTES) as attached:
        before = reads_of(attached.path)
        job = random_read.core_job(attached.path, SIZE_BYTES, reads=500)
        run = random_read.run_core(job)
        # Warm-up and window, and the two reads that check that direct I/O works.
        assert reads_of(attached.path) - before == 500 + run.answer["warm_up"]["transactions"] + 2


@needs_loop
@pytest.mark.parametrize("io_mode", ["buffered", "mmap"])
def test_a_mapping_misses_the_pages_that_buffered_reads_miss(file: Path, left_alone: None, io_mode: str) -> None:
    run = read_once(random_read.engine_job(file, device="loop", read_ahead="0", io_mode=io_mode), 1.01)
    assert 0.995 <= run.delta("device_reads") / run.delta("requests_expected") <= 1.01
    assert run.start["resident_pages"] == 0
    # Other programs may have needed a few pages' memory; no page came in that was not touched.
    touched = run.delta("pages_first_touched")
    assert 0.9 * touched <= run.end["resident_pages"] <= touched


@needs_loop
def test_with_read_ahead_an_aligned_read_is_one_request_whatever_is_advised(file: Path, left_alone: None) -> None:
    for advice in ("none", "random"):
        job = random_read.engine_job(file, device="loop", read_ahead="128", advice=advice, of={"alignment": "io_size"})
        run = random_read.run_engine(job)
        assert isinstance(run, Read), run
        # Reads of pages that an earlier read brought make no request.
        assert 0.75 < run.delta("device_reads") / 2000 <= 1.0


@needs_loop
def test_a_copy_in_memory_is_read_alike_and_leaves_nothing(file: Path, left_alone: None) -> None:
    job = random_read.engine_job(file, device="tmpfs_loop", read_ahead="0", file_size=1 << 24)
    run = read_once(job, 1.005)
    assert run.delta("device_reads") == pytest.approx(run.delta("requests_expected"), rel=0.005)


def test_a_warm_cache_is_read_without_the_device(file: Path) -> None:
    job = random_read.core_job(file, SIZE_BYTES, io_mode="buffered", cache="warm")
    pages = SIZE_BYTES // 4096
    # Once, the host had taken 103 pages back when the window began.
    run = undisturbed(lambda: random_read.run_core(job), lambda run: run.start["resident_pages"] == pages)
    assert run.start["resident_pages"] == pages
    assert run.delta("requests_expected") == run.delta("pages_first_touched") == 0
    assert run.delta("process_read_bytes") == 0


def test_latencies_of_reads_in_flight_add_up_to_the_time_of_the_window(file: Path) -> None:
    job = random_read.core_job(file, SIZE_BYTES, reads=20_000)
    job["reads"] = random_read.reads(queue_depth=8, threads=2, alignment="io_size")
    run = random_read.run_core(job)
    (latency,) = run.answer["latency"]
    inside = latency["mean_us"] * 20_000 / 1e6 / run.answer["measured"]["seconds"]
    assert inside == pytest.approx(16, rel=0.05)


def test_a_window_of_time_ends_in_time_and_seeds_decide_the_offsets(file: Path) -> None:
    pages = []
    for seed in (1, 1, 2):
        job = random_read.core_job(file, SIZE_BYTES, reads=500)
        job["reads"] = random_read.reads(seed=seed)
        pages.append(random_read.run_core(job).delta("pages_touched"))
    assert pages[0] == pages[1] != pages[2]
    job = random_read.core_job(file, SIZE_BYTES, reads=2**53 - 1)
    job["measure"]["max_seconds"] = 0.5
    run = random_read.run_core(job)
    assert run.answer["measured"]["seconds"] == pytest.approx(0.5, abs=0.2)
    assert run.answer["status"] == "ok"
    assert run.answer["warm_up"]["gate"] == "fixed"


def test_where_io_uring_is_refused_threads_read_and_the_run_says_so(file: Path) -> None:
    job = random_read.engine_job(file, io_mode="direct", of={"queue_depth": 4})
    run = random_read.run_engine(job, without_io_uring=True)
    assert isinstance(run, Read), run
    assert run.answer["actual"]["backend_run"] == "threads"
    (said,) = run.answer["confounds"]
    assert "the kernel refuses io_uring" in said
    assert run.delta("logical_reads") == 2000
    insisted = random_read.engine_job(file, io_mode="direct", backend="io_uring")
    error = random_read.run_engine(insisted, without_io_uring=True)
    assert error[0] == "NativeError"
    assert "environment" in error


@needs_io_uring
def test_threads_read_what_io_uring_reads(file: Path) -> None:
    found = {}
    for backend in ("io_uring", "threads"):
        run = random_read.run_core(random_read.core_job(file, SIZE_BYTES, backend=backend))
        found[backend] = run.delta("pages_touched"), run.delta("logical_read_bytes"), run.delta("process_read_bytes")
        assert run.answer["actual"]["backend_run"] == backend
    assert found["io_uring"] == found["threads"]


def test_a_file_shorter_than_it_was_is_an_error_that_says_so(file: Path, disk: Path) -> None:
    short = disk / "short"
    with short.open("wb") as made:
        made.truncate(1 << 20)
    with pytest.raises(core.CoreError) as refused:
        random_read.run_core(random_read.core_job(short, SIZE_BYTES))
    assert refused.value.kind == "data"
    assert "1048576 bytes" in refused.value.what


def test_a_file_cut_while_it_is_read_is_an_error_with_the_offset(disk: Path) -> None:
    path = random_read.make(disk / "cut", SIZE_BYTES)
    job = random_read.engine_job(path, reads=2**53 - 1, io_mode="direct", of={"alignment": "io_size"})
    with subprocess.Popen(
        random_read.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=random_read.environment(), text=True
    ) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(job))
        process.stdin.close()
        assert process.stdout is not None
        time.sleep(1.0)
        os.truncate(path, 4096)
        error = json.loads(process.stdout.read())["error"]
    assert "data" in error
    assert any("at offset" in part or "shorter" in part for part in error), error
    path.unlink()


@needs_loop
def test_read_ahead_is_put_back_after_a_failed_run(file: Path, left_alone: None) -> None:
    job = random_read.engine_job(file, device="loop", read_ahead="0", io_mode="direct", of={"io_size_bytes": 513})
    assert not isinstance(random_read.run_engine(job), Read)


@pytest.mark.alone
@needs_loop
def test_what_a_killed_run_left_is_put_back_by_the_next_start_and_its_loop_device_is_gone(
    file: Path, left_alone: None
) -> None:
    device = host_settings.read_ahead_of(file).file
    if device is None:
        pytest.skip("the disk's read-ahead cannot be set")
    before = device.read_text()
    other = "96" if before.strip() != "96" else "64"
    job = random_read.engine_job(file, reads=2**53 - 1, read_ahead=other)
    for name, begun in (("as_is", lambda: device.read_text().strip() == other), ("loop", lambda: ours(file))):
        job["knobs"]["device"] = name
        process = subprocess.Popen(
            random_read.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=random_read.environment(),
            text=True,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(json.dumps(job))
        process.stdin.close()
        wait_for(begun)
        time.sleep(0.3)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        if name == "as_is":
            assert device.read_text().strip() == other, "it was changed, and nobody could put it back"
        registry.behaviour("file").restore_host()  # type: ignore[attr-defined]
        assert device.read_text() == before
    assert not list(host_settings.JOURNAL.glob("*.json"))


def as_nobody(*command: str) -> tuple[str, ...]:
    """Return the command as the user nobody, if this user may do that."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv")
    return ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command)


def test_an_ordinary_user_is_refused_what_needs_root_before_anything_starts(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    asks = """
import json, sys
from pathlib import Path
from bufferlab.engines import registry
from bufferlab.knob import values_of
engine, declared = registry.behaviour("file"), registry.declaration("file")
for asked in ({}, {"read_ahead": "0"}, {"device": "loop"}, {"device": "tmpfs_loop"}, {"path": "/dev/vda"}):
    given = {name: declared.by_name()[name].parse(text) for name, text in {"io_mode": "buffered", **asked}.items()}
    knobs = values_of({**declared.defaults(), **given})
    found = engine.check_directory(Path("/var/tmp"), knobs)
    print(json.dumps([[check.ok, check.detail, check.hint] for check in found]))
print(json.dumps([[check.ok, check.detail, check.hint] for check in engine.abilities(Path("/"))]))
"""
    readable = Path(core.ROOT / "python")
    if any(not parent.stat().st_mode & 0o001 for parent in readable.parents):
        pytest.skip("the checkout is closed to other users")
    done = subprocess.run(
        as_nobody(*random_read.command()[:1], "-c", asks),
        env=random_read.environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if "Permission denied" in done.stderr:
        pytest.skip("the interpreter is closed to other users")
    assert done.returncode == 0, done.stderr
    default, read_ahead, loop, memory, disk, abilities = map(json.loads, done.stdout.splitlines())
    assert all(ok for ok, _, _ in default)
    for asked, refused in (("read_ahead = 0", read_ahead), ("device = loop", loop), ("device = tmpfs_loop", memory)):
        ((what, hint),) = [(detail, hint) for ok, detail, hint in refused if not ok]
        assert asked in what
        assert "root" in what
        assert hint
    if Path("/dev/vda").exists():
        assert not disk[0][0]
        assert "root" in disk[0][2]
    # `doctor` says the same about this user's rights.
    assert [ok for ok, detail, _ in abilities if "read-ahead" in detail or "loop" in detail] == [False, False]


def sweep(bench: Path, value: str) -> subprocess.Popen[str]:
    """Start the command in a separate process: one point after the other on the disk itself, each for minutes."""
    options = (
        "--set", "device=as_is", "--set", "file_size=8MiB", "--sweep", f"read_ahead={value}", "--sweep",
        "alignment=512", "--sweep", "io_size=8k", "--sweep", "io_mode=direct", "--transactions", "1000000000",
        "--repetitions", "1", "--out", str(bench / "runs"), "--share-device",
    )  # fmt: skip
    environment = {**random_read.environment(), "BUFFERLAB_CACHE": str(bench / "cache")}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "bufferlab", "run", "random-read", *options],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for(what: Callable[[], object], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def workers_of(pid: int) -> list[int]:
    """Return the worker processes of a sweep."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parts[2]))
    return found


@pytest.mark.alone
@needs_loop
@pytest.mark.parametrize("how", ["ctrl-c", "worker killed"])
def test_a_sweep_that_is_stopped_or_loses_its_worker_leaves_the_host_as_it_was(
    file: Path, disk: Path, left_alone: None, how: str
) -> None:
    setting = host_settings.read_ahead_of(file).file
    if setting is None:
        pytest.skip("the disk's read-ahead cannot be set")
    before = setting.read_text()
    other = "96" if before.strip() != "96" else "64"
    bench = disk / how.replace(" ", "-")
    bench.mkdir()
    process = sweep(bench, other)
    wait_for(lambda: setting.read_text().strip() == other or process.poll() is not None)
    assert process.poll() is None, process.communicate()[1]
    if how == "ctrl-c":
        process.send_signal(signal.SIGINT)
    else:
        for worker in workers_of(process.pid):
            os.kill(worker, signal.SIGKILL)
    _, said = process.communicate(timeout=120)
    assert process.returncode == (130 if how == "ctrl-c" else 1), said
    assert setting.read_text() == before
