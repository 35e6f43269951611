"""Experiments of a few hundred transactions, and their predictions without any run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bufferlab.models import generated
from bufferlab.results.page_traces import Prediction
from bufferlab.spec import Overrides, load

EXPERIMENT = """\
format_version = 1
name = "nothing-run"
question = "What would these pools read?"
engine = "{engine}"

[workload]
name = "tpcc"
warehouses = 1

[reference]
page_size = "{page_size}"

[knobs]
page_size = "{page_size}"
{knobs}

[sweep]
{sweep}

[warm_up]
max_transactions = 500
max_duration = "5s"
on_cap = "{on_cap}"

[measure]
{measure}

[design]
repetitions = {repetitions}
seed = 1
"""
SQLITE = {"engine": "sqlite", "page_size": "4KiB", "sweep": 'pool_size = ["10%", "40%"]'}
MYSQL = {"engine": "mysql", "page_size": "16KiB", "sweep": 'pool_size = ["8MiB"]'}
POSTGRES = {"engine": "postgres", "page_size": "8KiB", "sweep": 'pool_size = ["10%", "40%"]'}
POSTGRES |= {"knobs": 'server = "postgres-17"'}
MYSQL |= {"knobs": 'server = "mysql-5.7"\nlru_scan_depth = 100\nold_blocks_time = 0'}


def written(folder: Path, **told: Any) -> Path:
    """Write an experiment of a few hundred transactions; return its path."""
    usual = {"knobs": "", "on_cap": "report", "measure": 'transactions = 300\nmax_duration = "5s"', "repetitions": 3}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "nothing-run.toml"
    path.write_text(EXPERIMENT.format_map({**usual, **told}))
    return path


_of_core = generated._generated


@cache
def _generated_once(job: str) -> Mapping[str, Any]:
    """What the core answers: versions of a server that one model stands for ask it the same."""
    return _of_core(json.loads(job), lambda stage, done: True)


def predictions(path: Path, server: generated.Server) -> dict[tuple[str, ...], Prediction]:
    """Return the first run of each point, by its swept settings."""
    experiment = load(path)
    target = generated.generated(experiment, server, Overrides(), experiment)
    runs = target.plan.runs[: len(target.plan.points)]
    points = {run: target.plan.points[run.point] for run in runs}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generated, "_generated", lambda job, watch: _generated_once(json.dumps(job)))
        told = {run: target.predicted(run, point, lambda stage, share: None) for run, point in points.items()}
    return {tuple(points[run].swept.values()): one.prediction for run, one in told.items()}
