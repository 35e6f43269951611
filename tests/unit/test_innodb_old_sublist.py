"""A report says when pages leave InnoDB's old sublist too soon to become young."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bufferlab.engines.innodb.chapters import CHAPTERS
from bufferlab.results.check_parts import MeasuredRun
from bufferlab.results.window import Value

SETTINGS = {"old_blocks_time": ("auto", None), "old_blocks_pct": ("auto", None), "server": ("mysql-8.0", "mysql-8.0")}


def said(reads: float, source: str = "measured", **settings: tuple[str, Any]) -> list[str]:
    """Return the sentences on a run of one second with 1,000 frames."""
    found = {name: SimpleNamespace(asked=asked, actual=told) for name, (asked, told) in (SETTINGS | settings).items()}
    window = SimpleNamespace(level=lambda _: Value(1000.0), change=lambda _: Value(reads), seconds=1.0)
    run = SimpleNamespace(source=source, point=SimpleNamespace(label="24 MiB"))
    knob = lambda name: getattr(found.get(name), "actual", None)  # noqa: E731
    fake = SimpleNamespace(run=run, settings=found, window=window, knob=knob)
    return [text for text in CHAPTERS.limits([cast("MeasuredRun", fake)]) if "old sublist" in text]


def test_pages_that_leave_the_old_sublist_within_its_time_are_named() -> None:
    (text,) = said(370.0 * 20)
    assert text.startswith("Pages leave the old sublist after about 50.0 ms (24 MiB), and innodb_old_blocks_time lets")
    assert "before 1,000 ms" in text


@pytest.mark.parametrize(
    ("reads", "more"),
    [
        (369.0, {}),
        (0.0, {}),
        (7400.0, {"old_blocks_time": ("0", 0)}),
        (7400.0, {"old_blocks_time": ("40", 40)}),
        (7400.0, {"server": ("mysql://h", "mysql://h")}),
        (7400.0, {"source": "predicted"}),
    ],
    ids=["they stay longer", "no reads", "no time", "a shorter time", "a server of others", "a prediction"],
)
def test_no_other_run_is_named(reads: float, more: dict[str, Any]) -> None:
    assert said(reads, **more) == []
