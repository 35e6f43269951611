"""The tool that compares predicted with measured writes: which windows are steady, and which rows meet their
criterion."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.core import ROOT


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("write_cells")


def samples(counts: list[tuple[float, int, int]]) -> pl.DataFrame:
    """Return the samples of the counters of written pages and transactions; the first and last are the edges."""
    edges = ["start", *[None] * (len(counts) - 2), "end"]
    rows = [
        {"t_s": t_s, "count": count, "edge": edge, "metric": metric, "phase": "measure"}
        for (t_s, *both), edge in zip(counts, edges, strict=True)
        for count, metric in zip(both, ("pages_written", "transactions_committed"), strict=True)
    ]
    return pl.DataFrame([*rows, *({**row, "phase": "warm_up", "edge": None, "count": 0} for row in rows[:2])])


def test_a_window_is_steady_if_its_halves_write_alike_a_transaction(tool: Any) -> None:
    def of(*counts: tuple[float, int, int]) -> Any:
        return tool.halves(samples(list(counts)))

    slower = of((10.0, 100, 0), (70.0, 1100, 100), (130.0, 1900, 182))
    assert slower.seconds == 120.0
    assert slower.per_second == pytest.approx(-0.2)
    assert slower.per_transaction == pytest.approx(0.8 / 0.82 - 1)
    assert slower.steady, "the device was slower in the second half, and a transaction wrote as much"
    assert not of((10.0, 100, 0), (70.0, 1100, 100), (130.0, 2160, 200)).steady, "6 % more"
    assert not of((10.0, 100, 0), (70.0, 1160, 100), (130.0, 2160, 200)).steady, "6 % more in the first half"
    assert not of((10.0, 100, 0), (60.0, 1100, 100), (110.0, 2100, 200)).steady, "too short"
    assert of((10.0, 100, 0), (130.0, 100, 5)) is None
    assert tool.halves(samples([(10.0, 100, 0), (130.0, 900, 5)]).filter(pl.col("phase") == "warm_up")) is None
    seldom = of((0.0, 0, 0), (50.0, 500, 50), (130.0, 1300, 130))
    assert (seldom.per_transaction, seldom.per_second) == pytest.approx((0, 0)), "parts of unequal length have rates"


@pytest.mark.parametrize(
    ("pool", "error", "inside", "steady", "expected"),
    [
        ("own", 0.049, None, True, "kept"),
        ("own", -0.051, False, True, "missed"),
        ("own", 0.2, True, True, "kept"),
        ("half", -0.09, False, True, "kept"),
        ("double", 0.0, None, True, "kept"),
        ("double", 0.01, False, True, "missed"),
        ("double", None, None, True, "not predicted"),
        ("own", 0.0, True, False, "not steady"),
    ],
)
def test_a_row_keeps_the_rule_of_its_pool(
    tool: Any, pool: str, error: float | None, inside: bool | None, steady: bool, expected: str
) -> None:
    assert tool.verdict(pool, {"error": error, "inside": inside}, steady=steady) == expected


def test_a_line_tells_each_cell(tool: Any, tmp_path: Path) -> None:
    load = tool.LOADS[0]
    sweep = tmp_path / load.name / "write-cells-20260101-000000"
    for place, status in enumerate(("ok", "failed")):
        run = sweep / "runs" / str(place)
        run.mkdir(parents=True)
        run.joinpath("run.json").write_text(json.dumps({"status": status, "point": {"swept": {"pool_size": "30%"}}}))
        samples([(10.0, 0, 0), (70.0, 1000, 100), (130.0, 2010, 200)]).write_parquet(run / "samples.parquet")
    (sweep / "plan.json").write_text("{}")
    measured = {"value": 2.0, "ci_low": 1.9, "ci_high": 2.1, "n": 1}
    row = {"label": "30 %", "measured": measured, "least": 2.06, "most": 2.06, "error": 0.03, "inside": True}
    (tmp_path / f"{load.name}.json").write_text(json.dumps({"writes": [row]}))
    assert list(tool.rows(tmp_path, load)) == [
        "mysql57 own: measured 2 (1.9 to 2.1), n = 1, predicted 2.06, +3.0%, "
        "halves +1.0% a transaction (+1.0% a second): kept"
    ]
