"""Block traces of real devices: equal to the reads, failed if events are lost, and nothing left behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from bufferlab.engines.native import native
from bufferlab.execute.host.restore_host import clean_tracefs
from bufferlab.execute.probes.block_trace_probe import BlockTraceAsked, in_pid_namespace, keep
from bufferlab.registry import open_sweep
from bufferlab.results.block_requests import counters, match, spans
from support import core, prepared
from support.block_traces import SECTOR, Traced, instances, loop_device, read_direct, require_tracing

# The tests check bufferlab's tracefs instances on the whole host.
pytestmark = [pytest.mark.real, pytest.mark.alone]

SIZE = 64 << 20


@pytest.fixture(scope="module", autouse=True)
def commands() -> None:
    """Start the process that runs commands while the first tests run, which a busy processor does not disturb."""
    prepared.begin()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Require before and after a test that bufferlab has no instance."""
    require_tracing()
    clean_tracefs()
    assert instances() == []
    yield
    assert instances() == []


@pytest.fixture
def loop(disk: Path) -> Iterator[str]:
    with loop_device(disk / "loop.img", SIZE) as device:
        yield device


def offsets_of(count: int, size_bytes: int, seed: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange((SIZE - size_bytes) // SECTOR) * SECTOR for _ in range(count)]


@pytest.mark.parametrize(("size_bytes", "every_step"), [(4096, False), (4096, True), (8192, False), (16384, False)])
def test_every_direct_read_is_one_event_queued_and_one_completed_with_its_sectors(
    loop: str, tmp_path: Path, size_bytes: int, every_step: bool
) -> None:
    offsets = offsets_of(2000, size_bytes, seed=size_bytes)
    with Traced(loop, tmp_path, every_step=every_step) as traced:
        assert read_direct(loop, offsets, size_bytes) == 2000
    table = traced.table()
    assert not any(traced.told["lost"].values())
    assert traced.decoded["events_read"] == traced.told["events_read"]
    queued = table.filter(action="Q")
    assert queued["sector"].to_list() == [offset // SECTOR for offset in offsets]
    assert set(queued["sectors"].to_list()) == {size_bytes // SECTOR}
    pids = set(queued["pid"].to_list())
    # In a PID namespace the kernel's number of our only process differs from the number that we see.
    assert len(pids) == 1 if in_pid_namespace() else pids == {os.getpid()}
    assert all(flags.startswith("R") for flags in queued["flags"].unique().to_list())
    # The step G is recorded only if every step was asked for.
    assert table.filter(action="G").height == (2000 if every_step else 0)
    completed = table.filter(action="C")
    assert Counter(completed["sector"].to_list()) == Counter(offset // SECTOR for offset in offsets)
    assert set(completed["error"].to_list()) == {0}
    # The reads follow one another, so each one completes before the next is queued.
    matched = match(spans(table, {}, "QDRC"), "Q")
    assert (len(matched.latency_ns), matched.unfinished, matched.unopened) == (2000, 0, 0)
    window_ns = traced.told["window_end_ns"] - traced.told["window_start_ns"]
    assert 0 < sum(matched.latency_ns.values()) < window_ns
    assert table["t_ns"].is_sorted()
    assert table["t_ns"].min() >= 0  # type: ignore[operator]
    assert table["t_ns"].max() <= window_ns  # type: ignore[operator]
    # The processor time is that of the thread that moved the pages.
    assert 0 < traced.told["reader_cpu_ns"] < window_ns
    print(f"reader: {traced.told['reader_cpu_ns'] / 2000:.0f} ns of CPU a read, {traced.told['pages']} pages")


def test_large_reads_are_split_and_their_parts_complete_them(loop: str, tmp_path: Path) -> None:
    limit = int(Path(f"/sys/block/{Path(loop).name}/queue/max_sectors_kb").read_text()) * 1024
    size_bytes = 1 << (3 * limit - 1).bit_length()
    if size_bytes > SIZE // 4:
        pytest.skip(f"requests of {limit} bytes are not split by reads that fit into the device")
    with Traced(loop, tmp_path) as traced:
        read_direct(loop, [0, size_bytes], size_bytes)
    table = traced.table()
    (counted,) = counters(table, {})
    assert counted.read.completed_sectors == 2 * size_bytes // SECTOR
    matched = match(spans(table, {}, "QDRC"), "Q")
    assert (matched.unfinished, matched.unopened) == (0, 0)
    assert counted.splits > 0 or counted.read.queued > 2


@pytest.mark.parametrize("every_step", [False, True])
def test_buffered_writes_are_matched_through_their_merges(loop: str, tmp_path: Path, every_step: bool) -> None:
    with Traced(loop, tmp_path, every_step=every_step) as traced, open(loop, "wb") as file:
        file.write(os.urandom(4 << 20))
        file.flush()
        os.fsync(file.fileno())
    table = traced.table()
    (counted,) = counters(table, {})
    assert counted.write.queued_sectors == counted.write.completed_sectors == (4 << 20) // SECTOR
    matched = match(spans(table, {}, "QDRC"), "Q")
    with_data = table.filter((pl.col("action") == "Q") & (pl.col("sectors") > 0)).height
    assert (len(matched.latency_ns), matched.unfinished, matched.unopened) == (with_data, 0, 0)
    # fsync adds a flush, which has no sectors.
    assert counted.write.queued - with_data <= 1


def test_a_tiny_buffer_loses_events_which_fail_the_trace(loop: str, tmp_path: Path) -> None:
    # Only one thread runs at a time here: the reader sleeps while a hundred reads fill two pages. On an idle machine it
    # may keep up nevertheless.
    for attempt in range(5):
        (tmp_path / str(attempt)).mkdir()
        with Traced(loop, tmp_path / str(attempt), buffer_kib=8) as traced:
            read_direct(loop, offsets_of(20_000, 512, seed=1), 512)
        if sum(traced.told["lost"].values()):
            break
    assert sum(traced.told["lost"].values()) > 0
    stored, table = keep(BlockTraceAsked(8192), {"recorded": {"block_trace": traced.told}}, tmp_path)
    assert table is None
    assert stored.status == "failed"
    assert f"dropped events {traced.told['lost']['dropped_events']:,}" in str(stored.reason)
    assert "--trace-buffer" in str(stored.hint)


def test_other_devices_are_not_in_the_trace(loop: str, disk: Path, tmp_path: Path) -> None:
    with loop_device(disk / "other.img", SIZE) as other, Traced(loop, tmp_path) as traced:
        read_direct(other, offsets_of(200, 4096, seed=2), 4096)
        read_direct(loop, offsets_of(50, 4096, seed=3), 4096)
    table = traced.table()
    assert table.filter(action="Q").height == 50
    numbers = Path(f"/sys/block/{Path(loop).name}/dev").read_text().strip()
    assert table["device"].unique().to_list() == [numbers]


KILLED = """
import json, os, signal, sys
from bufferlab.engines.native import native
trace = native().block_trace(sys.argv[1], json.dumps({"spool": sys.argv[2], "buffer_kib_per_cpu": 64}))
trace.begin()
print("on", flush=True)
signal.pause()
"""


def test_after_sigkill_the_instance_is_there_until_the_next_start_removes_it(loop: str, tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", KILLED, loop, str(tmp_path / "spool")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        (name,) = instances()
        assert name.startswith(f"bufferlab-{process.pid}-")
        # A living process keeps its instance.
        assert clean_tracefs() == []
        process.kill()
    assert instances() == [name]
    with Traced(loop, tmp_path) as traced:
        read_direct(loop, [0], 4096)
    assert traced.table().filter(action="Q").height == 1
    assert instances() == []


def _ended(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return prepared.run(arguments, os.environ, 600)


def _cli(*arguments: object) -> list[str]:
    return [sys.executable, "-P", "-m", "bufferlab", *map(str, arguments)]


def test_a_run_has_a_trace_that_agrees_with_the_engines_own_counts(disk: Path) -> None:
    out = disk / "traced"
    ended = _ended(
        "run", "buffer-size", "--smoke", "--sweep", "pool_size=20%", "--repetitions", "1", "--probe",
        "block-trace", "--out", out, "--share-device",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    (sweep,) = out.glob("buffer-size-*")
    runs = open_sweep(sweep).runs()
    assert len(runs) == 1
    for record in runs:
        told, table = record.run.block_trace, record.block_trace()
        assert told is not None
        assert told.status == "ok", told
        assert table is not None
        assert dict(table["action"].value_counts().iter_rows()) == told.actions
        edges = record.samples().filter((pl.col("phase") == "measure") & pl.col("edge").is_not_null())
        counts = {row["edge"]: row["count"] for row in edges.filter(metric="pages_read").iter_rows(named=True)}
        pages = counts["end"] - counts["start"]
        reads = table.filter((pl.col("action") == "Q") & pl.col("flags").str.starts_with("R"))
        driver = reads.group_by("pid").len().sort("len")["len"].to_list()
        # Direct reads of one page are one request each. Other programs may read from this disk too, and more than the
        # driver.
        assert pages > 0
        assert pages in driver
    text = _ended("report", sweep, "--format", "blkparse")
    assert text.returncode == 0, text.stderr
    assert " Reads Queued:" in text.stdout
    page = (sweep / "report.html").read_text()
    assert "Block requests" in page


def test_random_reads_past_the_page_cache_are_one_request_each_as_the_driver_counts_them(disk: Path) -> None:
    out = disk / "random"
    axes = (
        "--set",
        "device=loop",
        "--sweep",
        "io_mode=direct",
        "--sweep",
        "io_size=8k",
        "--sweep",
        "alignment=io_size,512",
    )
    ended = _ended(
        "run", "random-read", "--smoke", *axes, "--sweep", "read_ahead=0", "--probe", "block-trace", "--out", out,
        "--share-device",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    (sweep,) = out.glob("random-read-*")
    runs = open_sweep(sweep).runs()
    assert len(runs) >= 2
    for record in runs:
        table = record.block_trace()
        assert table is not None, record.run.block_trace
        assert record.run.block_trace.names[record.run.block_trace.device].startswith("loop")
        reads = table.filter(pl.col("flags").str.starts_with("R"))
        done = record.run.measured.transactions
        assert done > 0
        for action in "QDC":
            found = reads.filter(action=action)
            assert (found.height, set(found["sectors"].to_list())) == (done, {16})


def test_a_run_that_is_interrupted_leaves_no_instance(disk: Path) -> None:
    long = ("run", "buffer-size", "--smoke", "--duration", "60s", "--share-device", "--out", disk / "stopped")
    process = subprocess.Popen(_cli(*long, "--probe", "block-trace"), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    try:
        # Wait for the worker's instance: the command itself makes one for a moment to check its rights. A command
        # started in the background of a shell would ignore an interrupt at that time, as shells tell it to.
        while all(name.startswith(f"bufferlab-{process.pid}-") for name in instances()):
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            assert time.monotonic() < deadline
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert instances() == []


WITHOUT_RIGHTS = """
import ctypes, sys
from pathlib import Path
from bufferlab.cli.app import run
from bufferlab.engines import native
native.native()
# Everything but the right to administer: what a root in a container has, or an ordinary user.
PR_CAPBSET_DROP, CAP_SYS_ADMIN = 24, 21
libc = ctypes.CDLL(None, use_errno=True)
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
assert libc.capset(header, (ctypes.c_uint32 * 6)()) == 0
sys.exit(run(sys.argv[1:]))
"""


def test_somebody_without_rights_is_refused_before_anything_starts_and_doctor_agrees(disk: Path) -> None:
    out = disk / "refused"

    def ended(*arguments: object) -> subprocess.CompletedProcess[str]:
        # Where tracefs is mounted, root owns its files and needs no capability to open them.
        unmounted = ["unshare", "--mount", "sh", "-c", 'umount -a -t tracefs,debugfs; exec "$@"', "sh"]
        command = [*unmounted, sys.executable, "-P", "-c", WITHOUT_RIGHTS, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=disk)

    refused = ended("run", "buffer-size", "--quick", "--probe", "block-trace", "--out", out)
    assert refused.returncode == 3, refused.stderr
    assert "block requests cannot be traced: this user may not trace" in refused.stderr
    assert "run as root" in refused.stderr
    assert not out.exists() or list(out.iterdir()) == []
    (row,) = (line for line in ended("doctor").stdout.splitlines() if "block-trace" in line)
    assert row.startswith("no ")
    assert "this user may not trace" in row


def test_the_decoder_reads_pages_recorded_on_another_day(tmp_path: Path) -> None:
    recorded = core.ROOT / "crates" / "bufferlab-probe" / "testdata" / "block-trace"
    decoded = json.loads(native().block_trace_decode(str(recorded), str(tmp_path / "records")))
    assert decoded["events"] > 0
