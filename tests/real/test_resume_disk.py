"""Sweeps that are killed and resumed with results and data on two file systems: the data stay on theirs."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from campaign.place import Place, place

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a disk"),
]
KILLS = 10
_SWEEP = ("run", "buffer-size", "--quick", "--warehouses", "1", "--sweep", "pool_size=5%,20%", "--no-page-trace")


@pytest.fixture
def two_disks() -> Iterator[Place]:
    with place(disk_mib=900) as found:
        yield found


def copies(found: Place, until: subprocess.Popen[bytes]) -> set[Path]:
    """Return the folders of copies that are seen while a command runs, below results and data."""
    seen: set[Path] = set()
    while until.poll() is None:
        for root in (found.root / "out", found.data):
            seen |= {root for _ in (root / ".bufferlab-work").glob("*/*")}
        time.sleep(0.02)
    return seen


def test_the_copies_of_a_resumed_sweep_lie_where_the_first_ones_lay(two_disks: Place) -> None:
    found, out = two_disks, two_disks.root / "out"
    out.mkdir()
    environment = found.environment()
    rng, whole = random.Random(1), 0
    for number in range(KILLS):
        log = found.root / "log"
        command = found.start([*_SWEEP, "--out", out, "--data-dir", found.data], log, environment)
        until_s = time.monotonic() + 120
        while not list(out.glob("buffer-size-*/runs/*/run.json")) and time.monotonic() < until_s:
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 2))
        command.send_signal(signal.SIGKILL)
        command.wait()
        (folder,) = out.glob("buffer-size-*")
        again = found.start(["run", "--resume", folder], log, environment)
        assert copies(found, again) <= {found.data}, number
        assert again.returncode == 0, log.read_text()
        whole += len(list((folder / "runs").glob("*/run.json"))) == 2
        if number == KILLS - 1:
            subprocess.run(["umount", found.root / "disk"], check=True)
            log_text = refused(found, folder, log)
            subprocess.run(["mount", "-o", "loop", found.root / "disk.img", found.root / "disk"], check=True)
            assert re.search("is gone|its rest would be measured on", log_text)
        subprocess.run(["rm", "-rf", folder], check=True)
    assert whole == KILLS


def refused(found: Place, folder: Path, log: Path) -> str:
    """Return the error of a resume that ends with 2 or 3."""
    done = found.start(["run", "--resume", folder], log, found.environment())
    assert done.wait() in (2, 3)
    return log.read_text()
