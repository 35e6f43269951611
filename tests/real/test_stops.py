"""A worker that is stopped for seconds of its window: the counts stay valid, and no claim about speed is made."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bufferlab.chapter.analysis import Analysis
from bufferlab.registry import open_sweep
from bufferlab.report import answer
from support import core
from support.fake import children

pytestmark = [pytest.mark.real, pytest.mark.slow]

EXPERIMENT = """\
format_version = 1
name = "stopped"
question = "How fast are hot rows?"
engine = "sqlite"

[workload]
name = "hot_rows"
rows = 20000
hot_rows = 500

[knobs]
pool_size = "4MiB"

[warm_up]
max_transactions = 20000
max_duration = "20s"
on_cap = "report"

[measure]
duration = "{seconds}s"

[design]
repetitions = 1
"""


@pytest.fixture
def out(disk: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    directory = disk / f"out-{request.node.callspec.id}"
    directory.mkdir()
    yield directory
    shutil.rmtree(directory)


@pytest.mark.parametrize(
    ("seconds", "stops", "stop_s"),
    [(5, 1, 3.0), (12, 5, 1.0)],
    ids=["one stop of 3 s", "five stops of 1 s"],
)
def test_stops_of_the_worker_are_seen_and_take_the_claim_on_throughput_and_leave_counts(
    seconds: int, stops: int, stop_s: float, disk: Path, out: Path
) -> None:
    toml = out / "stopped.toml"
    toml.write_text(EXPERIMENT.format(seconds=seconds))
    process = subprocess.Popen(
        [sys.executable, "-m", "bufferlab", "run", toml, "--out", out, "--share-device", "--json"],
        env=core.environment(disk), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    said = ""
    while "measuring" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    for _ in range(stops):
        workers = children(process.pid)
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(stop_s)
        for pid in workers:
            os.kill(pid, signal.SIGCONT)
        time.sleep(0.4)
    told, rest = process.communicate(timeout=60)
    assert process.returncode == 0, said + rest
    analysis = Analysis.of(open_sweep(Path(json.loads(told)["sweep"])))
    [(run, gaps)] = analysis.with_gaps()
    stopped_s = stops * stop_s
    # The pulse sees each stop except for the up to 0.1 s before the next beat is due; a busy host adds to it.
    assert 0.85 * stopped_s < gaps.sum_s < stopped_s + 0.3 * seconds
    assert gaps.longest_s > 0.85 * stop_s
    assert "gaps of" in (analysis.claim_blocked("transactions_per_s") or "")
    assert analysis.claim_blocked("reads_per_transaction") is None
    assert run.values["transactions"].value
    assert any("counts stand" in banner.text for banner in answer.banners(analysis))
