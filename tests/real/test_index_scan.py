"""Q1 by both plans on the real engine, end to end: plans in its words, answers, the figures of a query."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bufferlab.results import derive
from bufferlab.results.store import SweepFolder
from support import core

pytestmark = pytest.mark.real


def test_the_smoke_size_tells_plans_answers_and_what_a_query_costs(disk: Path) -> None:
    out = disk / "index-scan"
    arguments = ["index-scan", "--smoke", "--share-device", "--json", "--out", str(out)]
    ended = subprocess.run(
        [sys.executable, "-m", "bufferlab", "run", *arguments],
        env={**os.environ, "PYTHONPATH": str(core.ROOT / "python"), "BUFFERLAB_CACHE": str(disk / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)
    (folder,) = out.glob("index-scan-*")
    reads: dict[str, list[float]] = {"index_scan": [], "sequential": []}
    words = {"index_scan": "SEARCH lineitem USING INDEX lineitem_by_shipdate", "sequential": "SCAN lineitem"}
    for record in SweepFolder.open(folder).runs():
        run = record.run
        assert run["status"] == "ok", run["reason"]
        assert run["warm_up"]["gate"] == "cold"
        plan, drawn = run["workload"]["plan"], run["workload"]["drawn"]
        assert drawn["plan"] == plan
        assert words[plan] in drawn["plan_text"]
        assert drawn["answers_checked"] == 2
        assert 1_000 < drawn["rows_in_range"] < 4_000, "a quarter of a year at scale factor 0.01"
        assert [row["passed"] for row in run["consistency"]["conditions"]] == [True, True, True]
        figures = derive.run_figures(record)
        assert (figures["seconds_per_transaction"].value or 0) > 0
        reads[plan].append(figures["reads_per_transaction"].value or 0)
    assert all(len(of) == 2 for of in reads.values())
    pages_of_table = min(reads["sequential"])
    assert pages_of_table > 500, "the whole table, past a pool of 16 %"
    assert max(reads["index_scan"]) > 0.5 * 2_200, "nearly a page for each row"
