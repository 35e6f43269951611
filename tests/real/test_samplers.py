"""The samplers compared with sysstat's iostat and mpstat, whose separate code reads the same counters of the kernel."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bufferlab.engines.file import loop_device
from support import random_read

pytestmark = [
    pytest.mark.real,
    pytest.mark.alone,
    pytest.mark.skipif(
        shutil.which("iostat") is None or shutil.which("mpstat") is None, reason="NOT TESTED: needs sysstat"
    ),
]

SIZE_BYTES = 64 << 20
WINDOW_SECONDS = 6
READING_SECONDS = 4
TRIALS = 2
COLUMNS = ("usr", "nice", "sys", "iowait", "irq", "soft", "steal", "guest", "gnice", "idle")

#: Runs a job of the core from the standard input, with mpstat over the same seconds: mpstat starts at the first edge.
_BESIDE_MPSTAT = """
import json, subprocess, sys
from bufferlab import _native
events, beside = [], []
def hear(text):
    events.append(text)
    if '"edge":"start"' in text and not beside:
        beside.append(subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True))
answer = json.loads(_native.run("file", sys.stdin.read(), hear))
said = beside[0].communicate()[0]
print(json.dumps({"answer": answer, "events": [json.loads(event) for event in events], "mpstat": json.loads(said)}))
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = random_read.make(tmp_path_factory.mktemp("samplers") / "file", SIZE_BYTES)
    yield path
    path.unlink()


@pytest.mark.skipif(loop_device.why_not() is not None, reason=f"NOT TESTED: {loop_device.why_not()}")
@pytest.mark.parametrize("io_size_bytes", [pytest.param(4096, marks=pytest.mark.slow), 16384])
def test_iostat_counts_the_same_reads_and_bytes_of_a_device_that_rests_before_and_after(
    file: Path, io_size_bytes: int
) -> None:
    with loop_device.over(file, SIZE_BYTES) as attached:
        device = attached.path.name
        job = random_read.core_job(attached.path, SIZE_BYTES, reads=3000)
        job["reads"] = random_read.reads(io_size_bytes=io_size_bytes)
        with subprocess.Popen(
            ["iostat", "-y", "-d", "-o", "JSON", device, str(READING_SECONDS), "1"], stdout=subprocess.PIPE, text=True
        ) as iostat:
            time.sleep(0.5)
            started = time.monotonic()
            run = random_read.run_core(job)
            assert time.monotonic() - started < READING_SECONDS - 1, "the reads must end before iostat looks again"
            said = json.loads(iostat.communicate()[0])
    (told,) = said["sysstat"]["hosts"][0]["statistics"][0]["disk"]
    assert told["disk_device"] == device
    # Rates have two decimals, KiB are whole: their quotient gives the seconds by which iostat divided.
    seconds = told["kB_read"] / told["kB_read/s"]
    warm_up = run.answer["warm_up"]["transactions"]
    # Before the window come the warm-up, and two reads that check whether direct I/O works.
    assert round(told["tps"] * seconds) == run.delta("device_reads") + warm_up + TRIALS
    assert told["kB_read"] * 1024 == run.delta("device_read_bytes") + (warm_up + TRIALS) * io_size_bytes


def test_mpstat_tells_the_same_shares_of_the_processors_time(file: Path) -> None:
    job = random_read.core_job(file, SIZE_BYTES)
    job["measure"] = {"transactions": 2**53 - 1, "max_seconds": float(WINDOW_SECONDS)}
    # Make a load to measure: at least half a processor's time in user mode, and reads with waits.
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            done = subprocess.run(
                [sys.executable, "-c", _BESIDE_MPSTAT, "mpstat", "-o", "JSON", str(WINDOW_SECONDS), "1"],
                input=json.dumps(job), env=random_read.environment(), capture_output=True, text=True, timeout=60,
                check=False,
            )  # fmt: skip
        finally:
            busy.kill()
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    run = random_read.of_events(told["answer"], told["events"])
    ours = shares(run)
    (theirs,) = told["mpstat"]["sysstat"]["hosts"][0]["statistics"][0]["cpu-load"]
    assert ours["usr"] > 15, "the busy process shows"
    assert {name: abs(ours[name] - theirs[name]) <= 0.5 for name in COLUMNS} == dict.fromkeys(COLUMNS, True), (
        ours,
        theirs,
    )


def shares(run: random_read.Read) -> dict[str, float]:
    """Return the per cent of all processors' time in the window, by mpstat's columns."""
    spent = {name: run.delta(f"cpu_{name}_us") for name in COLUMNS}
    total = sum(spent.values())
    return {name: 100 * us / total for name, us in spent.items()}
