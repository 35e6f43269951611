"""The tool that compares advice with measured pools: its looks, its measurements, and its counts."""

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


def answer(minutes: int | None) -> str:
    """Return an answer that asks for this many minutes to judge the largest size."""
    refused = {"why": "too short", "remedy": f"record for {minutes} min at least"} if minutes else None
    size = {"pool_size_bytes": 128 << 20, "cannot_say": refused}
    return json.dumps({"present": {"pool_size_bytes": 32 << 20}, "sizes": [size]})


@pytest.mark.parametrize(("minutes", "looks"), [(None, ["90s"]), (4, ["90s", "240s"]), (11, ["90s"])])
def test_a_size_that_needs_longer_is_looked_at_again_and_an_answer_that_is_there_stays(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minutes: int | None, looks: list[str]
) -> None:
    cell, did = tool.MISSES[0], []

    @contextmanager
    def running(folder: Path, cell: Any) -> Iterator[tuple[str, str]]:
        yield "mysql://x@localhost", "secret"

    def asked(command: list[str], **options: Any) -> Any:
        did.append(command[command.index("--within") + 1])
        refused = len(did) == 1
        return SimpleNamespace(returncode=3 if refused else 0, stdout="" if refused else answer(minutes), stderr="")

    monkeypatch.setattr(tool, "running", running)
    monkeypatch.setattr(subprocess, "run", asked)
    assert not tool.advised(tmp_path, cell)
    did[:] = ["refused"]
    assert tool.advised(tmp_path, cell)
    assert did == ["refused", *looks]
    assert tool.advised(tmp_path, cell)
    assert did == ["refused", *looks]


def test_each_server_has_two_loads_one_of_them_as_its_package_ships_it(tool: Any) -> None:
    by_server: dict[str, list[Any]] = {}
    for cell in tool.MISSES:
        if not cell.name.endswith("io_uring"):
            by_server.setdefault(cell.server, []).append(cell)
    assert len(by_server) == 8
    for cells in by_server.values():
        assert sorted(cell.settings for cell in cells) == ["as shipped", "laboratory"]
        assert len({cell.load[0] for cell in cells}) == 2
    assert len({cell.name for cell in (*tool.MISSES, *tool.FULL)}) == len(tool.MISSES) + len(tool.FULL)


def test_as_many_transactions_are_measured_as_a_look_sees_at_the_same_rate(tool: Any, tmp_path: Path) -> None:
    for cell in (tool.MISSES[0], tool.FULL[0]):
        (tmp_path / f"{cell.name}.json").write_text(json.dumps({"present": {"pool_size_bytes": 32 << 20}}))
        asked = tool.points(tmp_path, cell)
        assert str(cell.rate * 90) in asked
        assert (f"rate={cell.rate}" in asked) == (cell.tier == "misses")
        half = f"{16 << 20}B," if cell.tier == "full" else ""
        assert f"pool_size={half}{40 << 20}B,{48 << 20}B,{64 << 20}B,{128 << 20}B" in asked


def test_a_pool_has_turned_over_when_as_many_pages_were_read_as_it_has(tool: Any) -> None:
    told = {"present": {"pool_pages": 4_000}, "counted": {"reads": 12_000.0, "seconds": 600.0}}
    assert tool.turnover_s(told) == 200
    assert tool.turnover_s({**told, "counted": {"reads": 0.0, "seconds": 600.0}}) is None


def row(**more: Any) -> dict[str, Any]:
    return {"load": "x", "settings": "laboratory", "pool_bytes": 32 << 20, "look_s": 90, "turnover_s": 3.0,
            "tier": "full", "size": "half", "own": 10.0, "runs": [19.0, 21.0], "told": 21.0, "low": 18.0, "high": 22.0,
            "by": "full", "cannot_say": None, **more}  # fmt: skip


def test_the_table_has_a_cell_for_each_of_its_heads(tool: Any) -> None:
    head, rule, *rows = tool.table([row(), row(turnover_s=None, told=None, high=None)]).splitlines()[:4]
    assert {line.count("|") for line in (head, rule, *rows)} == {13}
    assert rows[0].startswith("| x | laboratory | 32 | 90 | 3 | half | 10.000 | 19.000, 21.000 | 21.000 |")


def test_the_summary_counts_large_errors_wrong_signs_and_bounds_that_miss(tool: Any) -> None:
    found = [row(), row(told=9.0, low=8.0, high=9.5), row(told=None, low=None, high=None, cannot_say="idle")]
    full, misses = tool.summary(found)
    assert "answers 2 of 3; mean error 30.0%, largest 55.0%, 1 above" in full
    assert "1 with the wrong sign; bounds hold 1 of 2," in full
    assert misses == "misses: answers none of 0"
    handed_on = [row(size="double", by="misses"), row(size="double", by="misses", told=None, cannot_say="too short")]
    full, misses = tool.summary([row(), *handed_on])
    assert full.startswith("full: answers 1 of 1;")
    assert misses.startswith("misses: answers 1 of 2;")


def test_a_bound_alone_is_an_answer_that_holds_when_the_truth_is_below_it(tool: Any) -> None:
    few = row(tier="misses", by="misses", size="4", told=None, low=0.0, high=0.5)
    *_, misses = tool.summary([row(tier="misses", by="misses"), {**few, "runs": [0.4]}, {**few, "runs": [0.6]}])
    assert "answers 3 of 3" in misses
    assert "bounds hold 2 of 3" in misses


def test_what_a_look_cost_stands_beside_what_was_foretold(tool: Any, tmp_path: Path) -> None:
    cell = tool.MISSES[0]
    cost = {"tier": "misses", "foretold_cores": 0.004, "by_events_cores": 0.0039, "server_cores": 0.005, "low": -0.001,
            "high": 0.011, "ours_cores": 0.007}  # fmt: skip
    short = {**cost, "server_cores": None, "low": None, "high": None}
    (tmp_path / f"{cell.name}.json").write_text(json.dumps({"cost": [cost, short]}))
    head, rule, *rows = tool.cost_table(tmp_path, [cell]).splitlines()
    assert head.count("|") == rule.count("|") == rows[0].count("|")
    assert rows == [
        f"| {cell.name} | misses | 0.40 | 0.39 | 0.50 (-0.10 to 1.10) | 0.70 |",
        f"| {cell.name} | misses | 0.40 | 0.39 | - | 0.70 |",
    ]
