"""Predictions from made-up traces: the accesses that most of these tests use, and the JSON that `predict` prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bufferlab.execute.predicted_sweep import predict_sweep
from bufferlab.report.build import build
from bufferlab.report.document import as_json
from bufferlab.results.store import SweepFolder
from bufferlab.spec import Overrides
from support.fake import Bench, Ended
from support.traced import GET, Access

LOOP: list[Access] = [(page, GET) for page in range(65)]
"""A loop over one page more than the frames of SQLite's smallest pool."""
SERVER: dict[str, Any] = {"engine": "mysql", "version": "5.7.22", "page_size": "16KiB"}
SERVER |= {"sweep": 'pool_size = ["16MiB"]', "connections": 8, "knobs": 'old_blocks_time = "0"'}


def predict(bench: Bench, path: Path, *arguments: str) -> Ended:
    return bench.bufferlab("predict", path, "--out", bench.out, *arguments)


def told(bench: Bench, path: Path, *arguments: str) -> dict[str, Any]:
    """Return what --json prints, without the report's figures."""
    pairs = list(zip(arguments[::2], arguments[1::2], strict=True))
    split = [(flag, *text.split("=", 1)) for flag, text in pairs]
    overrides = Overrides(
        set_knobs=tuple((name, value) for flag, name, value in split if flag == "--set"),
        sweep=tuple((name, tuple(values.split(","))) for flag, name, values in split if flag == "--sweep"),
    )
    with bench.in_environment():
        return told_of(predict_sweep(path, overrides, bench.out).folder)


def told_of(folder: SweepFolder) -> dict[str, Any]:
    """Return what --json prints for a predicted sweep, in the form of `flat`."""
    return flat(as_json(build(folder)))


def flat(document: dict[str, Any]) -> dict[str, Any]:
    """Return the printed object with each prediction merged into its run's row."""
    return {**document, "predictions": [{**row, **row["prediction"]} for row in document["predictions"]]}


def means(document: dict[str, Any], metric: str = "reads_per_new_order") -> list[dict[str, Any]]:
    """Return the mean of a metric at each point."""
    return [one for point in document["points"] for one in point["summaries"] if one["metric"] == metric]


def names(verdicts: Sequence[dict[str, str]]) -> list[str]:
    return [one["name"] for one in verdicts]
