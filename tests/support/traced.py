"""Sweep folders with one traced run whose accesses the test itself lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from bufferlab import plan, spec
from bufferlab.registry import open_sweep, registry
from bufferlab.results import store
from bufferlab.results.files import write_parquet
from bufferlab.results.schema import Run
from bufferlab.results.store import SweepFolder
from bufferlab.results.trace_words import page_trace_words
from bufferlab.units import KIB

GET, IF_IN_POOL, CREATE, READ, PREFETCH, EVICT, DROP, DIRTY, WRITE = range(9)
DATABASE_BYTES = 4096 * KIB
_EXPERIMENT = """\
format_version = 1
name = "traced"
question = "What would other pools have read?"
engine = "{engine}"

[workload]
name = "tpcc"
connections = {connections}

[knobs]
{knobs}

[sweep]
{sweep}

[warm_up]
max_transactions = 100
max_duration = "5s"

[measure]
transactions = {transactions}
max_duration = "5s"

[design]
repetitions = 1
"""
START_NS = 1_000_000_000
START_S = 10.0
"""The second of the window's start in the samples."""

Access = tuple[int, int]
"""A page number and the kind of the access."""


def build(
    parent: Path,
    warm_up: Sequence[Access],
    window: Sequence[Access],
    *,
    engine: str = "sqlite",
    version: str = "3.50.4",
    sweep: str = 'pool_size = ["256KiB"]',
    knobs: str = "",
    page_size: str = "4KiB",
    connections: int = 1,
    transactions: int = 10,
    frames: int | None = None,
    reads: int = 0,
    step_us: int = 1000,
    warm_up_step_us: int | None = None,
    actual: Mapping[str, Any] | None = None,
    counters: Mapping[str, int] | None = None,
    trace: Mapping[str, Any] | None = None,
    gauges: Mapping[str, tuple[float, float]] | None = None,
    new_orders: int = 4,
    latch: int = 0,
    idle_until_us: int | None = None,
) -> SweepFolder:
    """Write a sweep whose first point has a traced run. Each event takes `step_us`, and the window begins between two
    events.

    An event before the window takes `warm_up_step_us`.

    `reads` is the engine's own count, `counters` are further counts in the window, `gauges` the levels at its two
    edges. `trace` changes the page trace's entry in run.json. All events have the same `latch`. No transaction has
    ended before the event at `idle_until_us`.
    """
    if "page_size" not in sweep:
        knobs = f'page_size = "{page_size}"\n{knobs}'
    text = _EXPERIMENT.format(
        engine=engine, connections=connections, knobs=knobs, sweep=sweep, transactions=transactions
    )
    experiment = spec.loads(text, "traced.toml")
    made = plan.make(experiment, lambda _: plan.DataFacts(DATABASE_BYTES))
    folder = SweepFolder.create(parent, registry(), spec.to_toml(experiment), made.as_dict(), {})
    point = made.points[0]
    settings = {name: one.model_dump() | {"actual": one.planned} for name, one in point.stored().items()}
    for name, value in (actual or {}).items():
        settings[name] = {**settings.get(name, {}), "actual": value}
    events = [*warm_up, *window]
    kinds = [kind for _, kind in events]
    before_us = warm_up_step_us or step_us
    steps_us = [0, *[before_us] * (len(warm_up) - 1), *[step_us] * len(window)][: len(events)]
    first_us = sum(steps_us[: len(warm_up)]) + step_us // 2 if warm_up else 0
    last_us = sum(steps_us)
    stored: dict[str, Any] = {
        "status": "ok",
        "page_size_bytes": spec_bytes(page_size),
        "start_ns": START_NS,
        "window_start_ns": START_NS + first_us * 1000,
        "window_end_ns": START_NS + last_us * 1000,
        "events": {
            name: kinds.count(number) for number, name in enumerate(page_trace_words().kinds) if number in kinds
        },
        "counts": [{"kind": "read", "recorded": reads, "counter": "pages_read", "counted": reads}],
        **(trace or {}),
    }
    pool_bytes = settings["pool_size"]["actual"]
    tables = {"page-trace.parquet": _table(parent / "page-trace.parquet", events, steps_us, latch)}
    run: dict[str, Any] = {
        "run_id": "0123456789abcdef",
        "experiment": "traced",
        "point_key": point.point_key,
        "engine": engine,
        "engine_version": version,
        "workload": {"name": "tpcc", "connections": connections, "warehouses": 1},
        "settings": settings,
        "point": {"index": 0, "label": point.label, "swept": point.swept},
        "repetition": 0,
        "block": 0,
        "order": 0,
        "seed": 1,
        "measured": {"seconds": 1.0, "transactions": transactions},
        "database": {"bytes_loaded": DATABASE_BYTES},
        "page_trace": stored,
        "status": "ok",
        "started_at": "2026-01-05T10:00:00Z",
        "ended_at": "2026-01-05T10:00:09Z",
    }
    frames = frames or pool_bytes // spec_bytes(page_size)
    rows = _samples(frames, {"pages_read": reads, **(counters or {})}, new_orders, gauges)
    if idle_until_us is not None:
        idle_s = START_S - (first_us - idle_until_us) / 1e6
        row = {**rows[-1], "phase": "warm_up", "edge": None, "metric": "transactions_committed", "subject": "new_order"}
        rows.insert(0, {**row, "t_s": idle_s, "count": 0, "value": None})
    folder.publish_run(Run(**run), rows, [], "", tables=tables if stored["status"] == "ok" else {})
    return open_sweep(folder.path)


def repeat(
    folder: SweepFolder,
    reads: Sequence[Sequence[int]],
    *,
    new_orders: int = 4,
    gauges: Mapping[str, tuple[float, float]] | None = None,
    page_size: str = "4KiB",
    transactions: int = 10,
) -> SweepFolder:
    """Add measured runs without a trace to a sweep of `build`: for each point, the reads of each further run.

    A point's runs are in consecutive blocks; the traced run is block 0 of the first point.
    """
    first = folder.runs()[0].run
    kept = first.model_dump(mode="json", exclude={"page_trace", "files", "format_version"})
    for index, of_point in enumerate(reads):
        planned = folder.plan["points"][index]
        settings = {name: one | {"actual": one["planned"]} for name, one in planned["settings"].items()}
        for block, count in enumerate(of_point, start=index == 0):
            run = kept | {
                "run_id": f"{index:04x}{block:012x}",
                "point_key": planned["point_key"],
                "point": {"index": index, "label": planned["label"], "swept": planned["swept"]},
                "settings": settings,
                "block": block,
                "repetition": block,
                "seed": block + 1,
                "measured": {"seconds": 1.0, "transactions": transactions},
            }
            frames = settings["pool_size"]["actual"] // spec_bytes(page_size)
            rows = _samples(frames, {"pages_read": count, "db_other_reads": 0}, new_orders, gauges)
            folder.publish_run(Run(**run), rows, [], "")
    return open_sweep(folder.path)


def spec_bytes(page_size: str) -> int:
    """Return the bytes of a text such as "4KiB"."""
    return int(page_size.removesuffix("KiB")) * KIB


def _table(path: Path, events: Sequence[Access], steps_us: Sequence[int], latch: int) -> Path:
    types = {"u8": pl.UInt8, "u16": pl.UInt16, "u32": pl.UInt32}
    columns = {
        "page": [page for page, _ in events],
        "kind": [kind for _, kind in events],
        "latch": [latch] * len(events),
        "thread": [0] * len(events),
        "delta_us": steps_us,
    }
    schema = {name: types[kind] for name, kind in page_trace_words().columns.items()}
    write_parquet(path, pl.DataFrame(columns, schema=schema), store._VERSION)
    return path


def _samples(
    frames: int,
    counters: Mapping[str, int],
    new_orders: int,
    gauges: Mapping[str, tuple[float, float]] | None = None,
) -> list[dict[str, Any]]:
    def row(edge: str, metric: str, *, subject: str = "", count: int | None = None, value: float | None = None) -> Any:
        t_s = START_S + (edge == "end")
        return {"t_s": t_s, "phase": "measure", "edge": edge, "metric": metric, "subject": subject,
                "count": count, "value": value, "reason": None, "probe": "engine"}  # fmt: skip

    levels = {"pool_frames": (frames, frames), **(gauges or {})}
    edges = ("start", "end")
    rows = [row(edge, name, value=float(levels[name][at])) for name in levels for at, edge in enumerate(edges)]
    types = {"transactions_committed": new_orders, "transactions_rolled_back": 0}
    for edge in ("start", "end"):
        rows += [row(edge, name, count=counted if edge == "end" else 0) for name, counted in counters.items()]
        before = 1000  # The transactions of the warm-up.
        rows += [row(edge, name, subject="new_order", count=before + n * (edge == "end")) for name, n in types.items()]
    return sorted(rows, key=lambda one: str(one["edge"]), reverse=True)
