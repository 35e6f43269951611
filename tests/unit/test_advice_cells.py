"""The tool that sets advice beside what was measured: what it looks at, what it measures, and what it counts."""

from __future__ import annotations

import importlib
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support.core import ROOT


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("advice_cells")


def test_each_tier_looks_at_a_server_of_its_own_and_an_answer_that_is_there_stays(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell, did = tool.CELLS[0], []

    @contextmanager
    def running(folder: Path, cell: Any) -> Iterator[tuple[str, str]]:
        did.append("server")
        yield "mysql://x@localhost", "secret"

    def asked(command: list[str], **options: Any) -> Any:
        did.append(command[command.index("--tier") + 1])
        assert command[command.index("--within") + 1] == "90s"
        refused = did[-1] == "full" and "late" not in did
        return SimpleNamespace(returncode=3 if refused else 0, stdout="" if refused else "{}", stderr="")

    monkeypatch.setattr(tool, "running", running)
    monkeypatch.setattr(subprocess, "run", asked)
    assert not tool.advised(tmp_path, cell)
    assert did == ["server", "misses", "server", "full"]
    did[:] = ["late"]
    assert tool.advised(tmp_path, cell)
    assert did == ["late", "server", "full"]


def test_as_many_transactions_are_measured_as_a_look_sees(tool: Any) -> None:
    assert {(cell.rate, cell.within_s): cell.transactions for cell in (*tool.CELLS, *tool.OTHERS)} == {
        (100, 90): 9_000, (2000, 90): 180_000, (2, 600): 1_200, (5, 600): 3_000,
    }  # fmt: skip


def test_a_pool_has_turned_over_when_as_many_pages_were_read_as_it_has(tool: Any) -> None:
    told = {"present": {"pool_pages": 4_000}, "counted": {"reads": 12_000.0, "seconds": 600.0}}
    assert tool.turnover_s(told) == 200
    assert tool.turnover_s({**told, "counted": {"reads": 0.0, "seconds": 600.0}}) is None


def test_the_truth_of_servers_whose_purge_revisits_rows_is_of_the_looks_rate(tool: Any, tmp_path: Path) -> None:
    for cell, is_at_rate in ((tool.CELLS[0], False), (tool.OTHERS[0], True)):
        told = {"present": {"pool_size_bytes": 32 << 20}}
        (tmp_path / f"{cell.name}-misses.json").write_text(json.dumps(told))
        asked = tool.points(tmp_path, cell)
        assert (f"rate={cell.rate}" in asked) == is_at_rate
        assert f"pool_size={16 << 20}B,{40 << 20}B,{48 << 20}B,{64 << 20}B,{128 << 20}B" in asked


def row(**more: Any) -> dict[str, Any]:
    return {"load": "x", "turnover_s": 3.0, "tier": "full", "size": "half", "own": 10.0, "truth": 20.0, "n": 2,
            "told": 21.0, "low": 18.0, "high": 22.0, "by": "full", "cannot_say": None, **more}  # fmt: skip


def test_the_table_has_a_cell_for_each_of_its_heads(tool: Any) -> None:
    head, rule, *rows = tool.table([row(), row(turnover_s=None, told=None, high=None)]).splitlines()[:4]
    assert {line.count("|") for line in (head, rule, *rows)} == {11}
    assert rows[0].startswith("| x | 3 | full | half | 10.000 |")


def test_the_summary_counts_large_errors_wrong_signs_and_bounds_that_miss(tool: Any) -> None:
    found = [row(), row(told=9.0, low=8.0, high=9.5), row(told=None, low=None, high=None, cannot_say="idle")]
    full, misses = tool.summary(found)
    assert "answers 2 of 3; mean error 30.0%, largest 55.0%, 1 above" in full
    assert "1 with the wrong sign; bounds hold 1," in full
    assert misses == "misses: answers none of 0"
    handed_on = [row(size="double", by="misses"), row(size="double", by="misses", told=None, cannot_say="too short")]
    full, misses = tool.summary([row(), *handed_on, row(tier="misses", by="misses", told=None)])
    assert full.startswith("full: answers 1 of 1;")
    assert misses.startswith("misses: answers 1 of 2;"), "one of half is none of its cells"


def test_what_a_look_cost_stands_beside_what_was_foretold(tool: Any, tmp_path: Path) -> None:
    cell = tool.CELLS[0]
    cost = {"tier": "misses", "foretold_cores": 0.004, "by_events_cores": 0.0039, "server_cores": 0.005, "low": -0.001,
            "high": 0.011, "ours_cores": 0.007}  # fmt: skip
    short = {**cost, "server_cores": None, "low": None, "high": None}
    (tmp_path / f"{cell.name}-full.json").write_text(json.dumps({"cost": [cost, short]}))
    head, rule, *rows = tool.cost_table(tmp_path, [cell]).splitlines()
    assert head.count("|") == rule.count("|") == rows[0].count("|")
    assert rows == [
        f"| {cell.name} | full | misses | 0.40 | 0.39 | 0.50 (-0.10 to 1.10) | 0.70 |",
        f"| {cell.name} | full | misses | 0.40 | 0.39 | - | 0.70 |",
    ]
