"""Gives the results of a sweep as polars frames: the numbers that its report shows, from the same analysis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from bufferlab.api.plots import Plot, chosen, plots_of
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.registry import open_sweep
from bufferlab.report.build import build, comparisons, summaries
from bufferlab.report.predicted import predictions
from bufferlab.results.metrics import qualified
from bufferlab.results.schema import LATENCY_COLUMNS, SAMPLE_COLUMNS
from bufferlab.results.store import RunRecord, SweepFolder, polars_schema

_WHERE = {"run": pl.String, "point": pl.Int32}
_POINT = {"point": pl.Int32, "label": pl.String}
_INTERVAL = {"ci_low": pl.Float64, "ci_high": pl.Float64, "n": pl.Int32}
_STATUS = {"status": pl.String, "reason": pl.String}
_SETTINGS = {**_POINT, "setting": pl.String, "asked": pl.String, "ran": pl.String, "number": pl.Float64,
             "unit": pl.String, "note": pl.String}  # fmt: skip
_RUNS: dict[str, Any] = {**_WHERE, "label": pl.String, "block": pl.Int32, "order": pl.Int32, "seed": pl.UInt64,
         **_STATUS, "source": pl.String, "engine": pl.String, "version": pl.String,
         "started_at": pl.Datetime("us", "UTC")}  # fmt: skip
_FIGURES = {**_POINT, "metric": pl.String, "title": pl.String, "mean": pl.Float64, **_INTERVAL, "unit": pl.String,
            "source": pl.String}  # fmt: skip
_STEPS = {"from": pl.String, "to": pl.String, "metric": pl.String, "direction": pl.String, "contrast": pl.String,
          "change": pl.Float64, **_INTERVAL, "verdict": pl.String}  # fmt: skip
_PREDICTIONS: dict[str, Any] = {
    "label": pl.String,
    "pool_frames": pl.Int64,
    **dict.fromkeys(("reads", "reads_low", "reads_high", "lru_reads", "opt_reads", "transactions"), pl.Int64),
    "is_traced_point": pl.Boolean,
    "doubts": pl.List(pl.String),
}
_CHECKS = dict.fromkeys(("check", "title", "status", "detail"), pl.String)
_METRICS = dict.fromkeys(("metric", "title", "unit", "kind", "better", "meaning"), pl.String)


def read(folder: Path | str) -> Sweep:
    """Return the results of a sweep folder. For an interrupted sweep they are those of its finished runs.

    Raises a BufferlabError, which names the fault, its place and a remedy, for a folder that is not a sweep's, cannot
    be read, is damaged, or has another version of the format.
    """
    return Sweep(open_sweep(folder))


class Sweep:
    """The results of one sweep. Each frame is computed from the stored samples on first use."""

    def __init__(self, folder: SweepFolder) -> None:
        self._folder = folder

    def __repr__(self) -> str:
        """Return the folder, and the number of points that ended well."""
        done = sum(point.status == "ok" for point in self._analysis.points)
        return f"<Sweep {self._folder.path}: {done} of {len(self._analysis.points)} points>"

    @property
    def path(self) -> Path:
        """Return the sweep's folder."""
        return self._folder.path

    @property
    def headline(self) -> str:
        """Return the name of the metric that answers the sweep's question."""
        return self._analysis.headline

    def plot(self, name: str | None = None) -> Plot:
        """Return the report's figure of this name; for None, the figure that answers the sweep's question.

        `plots` has the names. Raises SpecError for a name that no figure has, and if the sweep has no figures.
        """
        return chosen(self.plots, name)

    @cached_property
    def plots(self) -> dict[str, Plot]:
        """Return name -> figure of the report, the figure that answers the question first."""
        return plots_of(build(self._folder))

    @cached_property
    def _analysis(self) -> Analysis:
        return Analysis.of(self._folder)

    @cached_property
    def _records(self) -> list[tuple[PointRuns, RunRecord]]:
        return [(point, record) for point in self._analysis.points for record in point.records]

    @cached_property
    def points(self) -> pl.DataFrame:
        """Return a row for each point: its label, status, number of good runs, and the swept settings as they ran.

        The column of a setting with a unit has the unit at the end of its name: `pool_size_bytes`.
        """
        points = self._analysis.points
        columns: dict[str, list[Any]] = {
            "point": [point.index for point in points],
            "label": [point.label for point in points],
            "status": [point.status for point in points],
            "reason": [point.reason for point in points],
            "n": [len(point.ok) for point in points],
        }
        known = pl.DataFrame(columns, schema={**_POINT, **_STATUS, "n": pl.Int32})
        names = dict.fromkeys(name for point in points for name in point.swept)
        return known.with_columns(_as_run(name, points) for name in names)

    @cached_property
    def settings(self) -> pl.DataFrame:
        """Return a row for each setting of each point: the requested and the actual value, the number, the unit, and a
        note."""
        rows = []
        for point in self._analysis.points:
            for name, one in point.settings.items():
                value = one.value
                number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
                ran = None if value is None else str(value)
                rows.append((point.index, point.label, name, one.asked, ran, number, one.unit, one.note))
        return pl.DataFrame(rows, schema=_SETTINGS, orient="row")

    @cached_property
    def runs(self) -> pl.DataFrame:
        """Return a row for each run, including failed ones, with a column for each metric that any run has.

        A column of a phase is named PHASE.METRIC. `metrics` has the units.
        """
        values = {
            run.run.run_id: {
                **{name: found.value for name, found in run.values.items()},
                **{
                    qualified(phase, name): found.value
                    for phase, of in run.phases.items()
                    for name, found in of.items()
                },
            }
            for run in self._analysis.runs
        }
        seen = {name for of in values.values() for name, value in of.items() if value is not None}
        known = [name for name in dict.fromkeys(name for of in values.values() for name in of) if name in seen]
        rows = [
            {
                **_run(point, record),
                **{name: values.get(record.run_id, {}).get(name) for name in known},
            }
            for point, record in self._records
        ]
        return pl.DataFrame(rows, schema={**_RUNS, **dict.fromkeys(known, pl.Float64)})

    @cached_property
    def figures(self) -> pl.DataFrame:
        """Return a row for each metric of each point: the mean of its runs, its 95 % interval, n and the unit.

        Without an interval, as with a single run, both of its ends are null. `source` is "measured" or "predicted".
        """
        source = {point.index: run.run.source for point in self._analysis.points for run in point.ok}
        rows = [
            (one.point_index, one.point_label, one.metric, self._analysis.metric(one.metric).label, one.value,
             one.ci_low, one.ci_high, one.n, one.unit, source[one.point_index])
            for one in summaries(self._analysis)
            if one.statistic == "mean"
        ]  # fmt: skip
        return pl.DataFrame(rows, schema=_FIGURES, orient="row")

    @cached_property
    def steps(self) -> pl.DataFrame:
        """Return a row for each change between two points that the report judges, with its interval.

        `change` is the second value divided by the first if `contrast` is "ratio", and the second minus the first if it
        is "difference".
        """
        rows = [
            (one.a, one.b, one.metric, one.direction, one.contrast, found.value, found.ci_low, found.ci_high, found.n,
             one.verdict)
            for one in comparisons(self._analysis) if (found := one.estimate)
        ]  # fmt: skip
        return pl.DataFrame(rows, schema=_STEPS, orient="row")

    @cached_property
    def samples(self) -> pl.DataFrame:
        """Return the stored samples of every run, with the metrics' units; counters are raw and cumulative."""
        units = {name: metric.unit for name, metric in self._folder.registry.raw.items()}
        found = self._of_runs(SAMPLE_COLUMNS, lambda record: record.samples())
        return found.with_columns(pl.col("metric").replace_strict(units, return_dtype=pl.String).alias("unit"))

    @cached_property
    def latency(self) -> pl.DataFrame:
        """Return the latency histograms of every run: how many transactions of each type are in each bucket of time."""
        return self._of_runs(LATENCY_COLUMNS, lambda record: record.latency())

    @cached_property
    def predictions(self) -> pl.DataFrame:
        """Return a row for each predicted run: the pages that a model reads in the window, and the doubts about them.

        `reads` is null if the number depends on the speed of the run. Then `reads_low` and `reads_high` have the least
        and the most reads of the replays at several speeds, which are not bounds. `lru_reads` and `opt_reads` are the
        reads of an LRU pool and of the best possible pool; a prediction without a traced run lacks the latter. A
        measured sweep has no rows.
        """
        rows = []
        for point, prediction in predictions(self._analysis):
            replays = [one.reads for one in prediction.replays.values()] if prediction.found is None else []
            found = prediction.found.reads if prediction.found else None
            verdicts = [verdict.sentence for verdict in prediction.verdicts]
            rows.append(
                (point, prediction.pool_frames, found, min(replays, default=None),
                 max(replays, default=None), prediction.lru.reads, prediction.opt.reads if prediction.opt else None,
                 prediction.work["transaction"], prediction.is_traced_point, verdicts)
            )  # fmt: skip
        return pl.DataFrame(rows, schema=_PREDICTIONS, orient="row")

    @cached_property
    def checks(self) -> pl.DataFrame:
        """Return a row for each integrity check.

        If a check failed, the kinds of numbers in its column `touches` are in doubt.
        """
        rows = [(check.name, check.title, check.status, check.detail) for check in self._analysis.checks]
        return pl.DataFrame(rows, schema=_CHECKS, orient="row")

    @cached_property
    def metrics(self) -> pl.DataFrame:
        """Return a row for each metric of `figures`: title, unit, kind, the better direction, and meaning."""
        names = dict.fromkeys(self.figures["metric"])
        found = [self._analysis.metric(name) for name in names]
        rows = [
            (name, one.label, one.unit, one.kind, one.better, one.meaning)
            for name, one in zip(names, found, strict=True)
        ]
        return pl.DataFrame(rows, schema=_METRICS, orient="row")

    def _of_runs(self, columns: Mapping[str, str], table: Callable[[RunRecord], pl.DataFrame]) -> pl.DataFrame:
        where = [pl.lit(None, dtype=dtype).alias(name) for name, dtype in _WHERE.items()]
        empty = pl.DataFrame(schema=polars_schema(columns)).select(*where, pl.all())
        return pl.concat(
            [
                empty,
                *(
                    table(record).select(
                        pl.lit(record.run_id).alias("run"), pl.lit(point.index, pl.Int32).alias("point"), pl.all()
                    )
                    for point, record in self._records
                ),
            ]
        )


def _as_run(name: str, points: Sequence[PointRuns]) -> pl.Series:
    """Return the column of a swept setting, with one value per point: words, or numbers with the unit in the name."""
    values = [point.value(name) for point in points]
    units = {point.settings[name].unit for point in points if name in point.settings}
    if any(isinstance(value, bool | str) for value in values):
        return pl.Series(name, [None if value is None else str(value) for value in values], pl.String)
    unit = units.pop() if len(units) == 1 else ""
    whole = all(isinstance(value, int) for value in values if value is not None)
    return pl.Series(f"{name}_{unit}" if unit else name, values, pl.Int64 if whole else pl.Float64)


def _run(point: PointRuns, record: RunRecord) -> dict[str, Any]:
    run = record.run
    return {
        "run": record.run_id,
        "point": point.index,
        "label": point.label,
        "block": run.block,
        "order": run.order,
        "seed": run.seed,
        "status": run.status,
        "reason": record.reason,
        "source": run.source,
        "engine": run.engine,
        "version": run.engine_version,
        "started_at": datetime.fromisoformat(run.started_at),
    }
