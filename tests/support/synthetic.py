"""Builds complete sweep folders whose true values are known, in well under a second.

They are for tests of the store, the figures and the report. The builder runs no database and shares no formula with
`derive`: it chooses counters that give the wanted figures, so a test that compares them can fail.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from bufferlab.engines import registry as engines
from bufferlab.registry import open_sweep, registry
from bufferlab.results import keys, store
from bufferlab.results.metrics import Metric, values_in
from bufferlab.results.schema import Run
from bufferlab.results.store import RunRecord, SweepFolder
from bufferlab.results.window import MEASURE, Value, Window

MIB = 1024**2
#: The deck of 23 of TPC-C's mix.
MIX = {"new_order": 10, "payment": 10, "order_status": 1, "delivery": 1, "stock_level": 1}


@dataclass(frozen=True)
class Truth:
    """The true values of one point, before noise."""

    pool: str
    reads_per_new_order: float
    writes_per_new_order: float = 3.0
    page_gets_per_transaction: float = 300.0


class Kind:
    """The engine's parts of a synthetic sweep: its settings, counters and gauges. This class is SQLite."""

    version: str = "3.50.4"

    def swept(self, truth: Truth) -> dict[str, str]:
        """Return the swept settings of a point."""
        return {"pool_size": truth.pool}

    def workload(self, truth: Truth) -> dict[str, Any]:
        """Return the entries of run.json's workload that belong to this point."""
        return {}

    def seconds(self, sweep: Sweep, truth: Truth, factor: float) -> float | None:
        """Return the seconds of a run's window; None to compute them for one connection without pauses."""
        return None

    def settings(self, sweep: Sweep, truth: Truth) -> tuple[dict[str, str], dict[str, Any]]:
        """Return the settings as asked for and as read back."""
        return _knobs(sweep, truth.pool)

    def notes(self) -> dict[str, str]:
        """Return the engine's notes on settings that differ from what was asked for."""
        return {}

    def emits(self, name: str) -> bool:
        """Return whether such an engine emits this metric."""
        return not name.startswith(("innodb_", "com_", "server_", "postgres_")) and name != "questions"

    def missing(self, name: str) -> str | None:
        """Return the reason why the server lacks this metric; None if it has it."""
        return None

    def changes(self, sweep: Sweep, truth: Truth, common: Mapping[str, float]) -> dict[str, float]:
        """Return the changes of the engine's own counters over the window, in addition to those of every engine."""
        return {}

    def level(self, sweep: Sweep, truth: Truth, name: str, t_s: float) -> float | None:
        """Return the value of one of the engine's own gauges."""
        return None


#: The shape of the sweep buffer-size: reads fall steeply, writes hardly fall.
BUFFER_SIZE = (
    Truth("5%", 31.2, 6.2),
    Truth("10%", 19.5, 5.9),
    Truth("20%", 9.7, 5.6),
    Truth("40%", 3.1, 5.5),
    Truth("80%", 0.9, 5.4),
)


@dataclass(frozen=True)
class Sweep:
    """The plan of a synthetic sweep; each field's default is that of an ordinary sweep without faults."""

    truths: Sequence[Truth] = BUFFER_SIZE
    blocks: int = 3
    noise: float = 0.015
    noise_at: Mapping[int, float] = field(default_factory=dict)
    """Noise of single points: point -> noise."""
    block_noise: float = 0.02
    seed: int = 1
    kind: Kind = field(default_factory=Kind)
    experiment: str = "buffer-size"
    question: str = "How does the size of the buffer pool change what the database reads and writes?"
    engine: str = "sqlite"
    source: str = "measured"
    io_mode: str = "direct"
    warehouses: int = 2
    database_bytes: int = 170 * MIB
    page_size_bytes: int = 4096
    transactions: int = 11_500
    throughput_noise: float = 0.03
    warm_up_seconds: int = 8
    warm_up_transactions: int = 4600
    warm_up_misses: int | None = None
    """The misses of the warm-up; None if the runs do not record them."""
    settle_transactions: int = 0
    """The transactions that updates needed to move most rows."""
    statuses: Mapping[tuple[int, int], tuple[str, str]] = field(default_factory=dict)
    """(point, block) -> (status, reason) of the runs that failed or were interrupted."""
    gate: str = "pool_turnover"
    profile: str = "default"
    device_reason: str | None = None
    host: Mapping[str, Any] = field(default_factory=dict)
    scale: Mapping[str, float] = field(default_factory=dict)
    """Raw counter -> factor. This field and the next ones are faults, each for one check to find."""
    add: Mapping[str, float] = field(default_factory=dict)
    """Raw counter -> number added to its change."""
    backwards: str = ""
    """The name of a counter that falls."""
    unscheduled: bool = False
    """True if the kernel does not count how long threads wait for a processor."""
    silent: Collection[int] = ()
    """The seconds of every window that have no sample."""
    interval_s: int = 1
    """The seconds between two samples: long windows have as many samples as short ones."""
    latency_scale: float = 1.0
    lost_latencies: int = 0
    data_keys: int = 1
    first_seed: int = 1000
    """The seed of the first block; the others follow it."""
    load: int = 0
    """The number of the loaded data: another number means other data."""
    versions: Mapping[str, str] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)
    """Entries of run.json's workload that replace or extend the usual ones."""
    measure: str = ""
    """The lines of [measure] in the experiment."""
    day: int = 5
    """The day of January 2026 on which the sweep ran."""
    condition_fails: int | None = None
    growth_bytes: int = 5 * MIB
    """The bytes by which the database grows in the measured window."""


HOST = {
    "host_id": "0123456789ab",
    "os": "Debian GNU/Linux 12 (bookworm)",
    "kernel": "6.1.0-18-amd64",
    "architecture": "x86_64",
    "cpu_model": "An ordinary processor at 2.60GHz",
    "cores": 2,
    "memory_total_bytes": 24 * 1024**3,
    "virtualisation": "kvm",
    "filesystem": {"type": "ext4", "mount_point": "/", "options": "rw,relatime"},
    "device": {
        "name": "vda",
        "major_minor": "254:0",
        "partition": "vda1",
        "model": "virtio",
        "logical_block_size_bytes": 512,
        "rotational": False,
        "scheduler": "none",
        "read_ahead_bytes": 131072,
        "reason": None,
    },
}


def build(parent: Path, sweep: Sweep | None = None) -> SweepFolder:
    """Write a whole sweep folder below `parent` and return it opened; copy it if the same sweep was built before."""
    path = shared(sweep).path
    name, number = path.name, 1
    while (parent / name).exists():
        number += 1
        name = f"{path.name}-{number}"
    return open_sweep(shutil.copytree(path, parent / name))


def shared(sweep: Sweep | None = None) -> SweepFolder:
    """Return the folder that `build` copies, opened: for tests that change nothing in it. Its tables are read once."""
    sweep = sweep or Sweep()
    kind = sweep.kind
    # Equal sweeps are equal byte by byte.
    key = hashlib.sha256(repr({**vars(sweep), "kind": (type(kind), vars(kind))}).encode()).hexdigest()
    first = _built() / key
    if not first.is_dir():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", lambda descriptor: None)  # No file here must survive a power cut.
            _build(first.with_suffix(".building"), sweep)
        first.with_suffix(".building").rename(first)
    (path,) = first.iterdir()
    return open_sweep(path)


@cache
def _built() -> Path:
    """Return this process's folder for the sweeps that it has built."""
    folder = tempfile.mkdtemp(prefix="bufferlab-built-")
    atexit.register(shutil.rmtree, folder)
    return Path(folder)


def _build(parent: Path, sweep: Sweep) -> SweepFolder:
    rng = np.random.default_rng(sweep.seed)
    start = datetime(2026, 1, sweep.day, 10, 0, 0, tzinfo=UTC)
    points = [_point(sweep, index) for index in range(len(sweep.truths))]
    order = [(point, block) for block in range(sweep.blocks) for point in rng.permutation(len(points))]
    plan = {
        "experiment": sweep.experiment,
        "engine": sweep.engine,
        "database_bytes": sweep.database_bytes,
        "seed": sweep.seed,
        "points": points,
        "runs": [
            {"order": place, "point": int(point), "block": block, "repetition": block, "seed": sweep.first_seed + block}
            for place, (point, block) in enumerate(order)
        ],
    }
    folder = SweepFolder.create(parent, registry(), _toml(sweep), plan, {**HOST, **sweep.host}, now=start)
    block_effects = rng.normal(0, sweep.block_noise, sweep.blocks)
    for place, (point, block) in enumerate(order):
        factor = math.exp(block_effects[block] + rng.normal(0, sweep.noise_at.get(int(point), sweep.noise)))
        began = start + timedelta(seconds=40 * place)
        _publish(folder, sweep, points[point], block, place, factor, began, rng)
    return folder


def derived_values(samples: pl.DataFrame, phase: str = MEASURE) -> dict[str, Value]:
    """Return every derived value of a window in these samples."""
    return values_in(Window.of(samples, phase, registry().courses), registry().derived)


def reseal(folder: SweepFolder, change: Callable[[dict[str, Any]], object]) -> SweepFolder:
    """Change the run.json of every run as an attacker would, with matching hashes. Return the folder."""
    for path in folder.path.glob("runs/*/run.json"):
        document = json.loads(path.read_text())
        del document["seal"]
        change(document)
        path.write_text(json.dumps({**document, "seal": store._seal(document)}))
    return folder


def _toml(sweep: Sweep) -> str:
    swept = [sweep.kind.swept(truth) for truth in sweep.truths]
    axes = "".join(f"{name} = {json.dumps([one[name] for one in swept])}\n" for name in swept[0])
    question = sweep.question.replace("\\", "\\\\").replace('"', '\\"')
    return (
        f'format_version = 1\nname = "{sweep.experiment}"\nquestion = "{question}"\nengine = "{sweep.engine}"\n'
        f'profile = "{sweep.profile}"\n\n'
        f"[sweep]\n{axes}" + (f"\n[measure]\n{sweep.measure}\n" if sweep.measure else "")
    )


def _pool_bytes(sweep: Sweep, pool: str) -> int:
    share = float(pool.rstrip("%")) / 100
    return int(share * sweep.database_bytes) // sweep.page_size_bytes * sweep.page_size_bytes


def _workload(sweep: Sweep, truth: Truth) -> dict[str, Any]:
    whole = {"name": "tpcc", "version": 1, "connections": 1, "warehouses": sweep.warehouses, "load_seed": 20260101}
    return {**whole, **sweep.workload, **sweep.kind.workload(truth)}


def _knobs(sweep: Sweep, pool: str) -> tuple[dict[str, str], dict[str, Any]]:
    asked = {
        "page_size": f"{sweep.page_size_bytes // 1024}KiB",
        "pool_size": pool,
        "io_mode": sweep.io_mode,
        "pcache": "ours",
        "synchronous": "off",
        "wal_autocheckpoint": "4MiB",
        "locking_mode": "exclusive",
    }
    actual = {
        "page_size": sweep.page_size_bytes,
        "pool_size": _pool_bytes(sweep, pool),
        "io_mode": sweep.io_mode,
        "pcache": "ours",
        "synchronous": "off",
        "wal_autocheckpoint": 4 * MIB,
        "locking_mode": "exclusive",
    }
    return asked, actual


def stored_settings(sweep: Sweep, truth: Truth, *, ran: bool) -> dict[str, Any]:
    """Return settings in the form of plan.json, or of run.json with `ran`; "auto" is left to the engine."""
    asked, actual = sweep.kind.settings(sweep, truth)
    notes, found = sweep.kind.notes(), {}
    for name in {**asked, **actual}:
        text, ran_as = asked.get(name), actual.get(name)
        knob = engines.declaration(sweep.engine).knob(name)
        planned = None if text in (None, "auto") else ran_as
        if knob and text not in (None, "auto") and (setting := knob.parse(text)).ratio is None:
            planned = setting.value
        found[name] = {"asked": text, "planned": planned, "unit": knob.unit if knob else ""}
        if ran:
            found[name] |= {"actual": ran_as, "note": notes.get(name, "") if ran_as != planned else ""}
    return found


def _point(sweep: Sweep, index: int) -> dict[str, Any]:
    truth = sweep.truths[index]
    asked, _ = sweep.kind.settings(sweep, truth)
    swept = sweep.kind.swept(truth)
    return {
        "index": index,
        "label": ", ".join(f"{name} {value}" for name, value in swept.items()),
        "point_key": keys.point_key(
            experiment=sweep.experiment, engine=sweep.engine, workload=_workload(sweep, truth), knobs_asked=asked
        ),
        "swept": swept,
        "settings": stored_settings(sweep, truth, ran=False),
    }


def _publish(
    folder: SweepFolder,
    sweep: Sweep,
    point: dict[str, Any],
    block: int,
    order: int,
    factor: float,
    began: datetime,
    rng: np.random.Generator,
) -> RunRecord:
    status, reason = sweep.statuses.get((point["index"], block), ("ok", None))
    truth = sweep.truths[point["index"]]
    _, actual = sweep.kind.settings(sweep, truth)
    seconds = _seconds(sweep, truth, factor) * math.exp(rng.normal(0, sweep.throughput_noise))
    ended = began + timedelta(seconds=sweep.warm_up_seconds + seconds + 2)
    whole = status == "ok"
    run: dict[str, Any] = {
        "run_id": f"{order + 1:016x}",
        "experiment": sweep.experiment,
        "point_key": point["point_key"],
        "actual_key": keys.actual_key(
            engine=sweep.engine,
            engine_version=sweep.kind.version,
            workload=_workload(sweep, truth),
            knobs_actual=actual,
        ),
        "data_key": keys.data_key(
            {"page_size_bytes": sweep.page_size_bytes, "load": sweep.load + block % sweep.data_keys}
        ),
        "engine": sweep.engine,
        "source": sweep.source,
        "engine_version": sweep.kind.version,
        "workload": _workload(sweep, truth),
        "settings": stored_settings(sweep, truth, ran=whole),
        "point": {key: point[key] for key in ("index", "label", "swept")},
        "repetition": block,
        "block": block,
        "order": order,
        "seed": sweep.first_seed + block,
        "host": HOST["host_id"],
        "versions": {"bufferlab": "0.1.0", "core": "0.1.0", "python": "3.11.2", **sweep.versions},
        "warm_up": {
            "gate": sweep.gate,
            "seconds": float(sweep.warm_up_seconds),
            "transactions": sweep.warm_up_transactions,
            "detail": ({"misses": sweep.warm_up_misses} if sweep.warm_up_misses else {})
            | ({"settle_transactions": sweep.settle_transactions} if sweep.settle_transactions else {})
            or None,
        }
        if whole
        else None,
        "measured": {"seconds": seconds, "transactions": sweep.transactions} if whole else None,
        "database": {
            "bytes_loaded": sweep.database_bytes,
            "bytes_start": sweep.database_bytes + 2 * MIB,
            "bytes_end": sweep.database_bytes + 2 * MIB + sweep.growth_bytes,
        }
        if whole
        else None,
        "consistency": _consistency(sweep) if whole else None,
        "status": status,
        "failure": {"kind": "engine", "what": reason} if reason else None,
        "started_at": began.isoformat().replace("+00:00", "Z"),
        "ended_at": ended.isoformat().replace("+00:00", "Z"),
    }
    samples = _samples(sweep, truth, actual["pool_size"], factor, seconds, rng) if whole else []
    latency = _latency(sweep, truth, seconds) if whole else []
    return folder.publish_run(Run(**run), samples, latency, f"worker log of run {order}\n")


def _seconds(sweep: Sweep, truth: Truth, factor: float) -> float:
    """Return the window's seconds: a transaction first takes its CPU time and then its reads."""
    if (told := sweep.kind.seconds(sweep, truth, factor)) is not None:
        return told
    reads = truth.reads_per_new_order * factor * MIX["new_order"] / sum(MIX.values())
    return sweep.transactions * (400 + 95 * reads) / 1e6


def _consistency(sweep: Sweep) -> dict[str, Any]:
    return {
        "seconds": 1.4,
        "conditions": [
            {
                "condition": number,
                "name": f"condition {number} of clause 3.3.2",
                "passed": number != sweep.condition_fails,
                "violations": 3 if number == sweep.condition_fails else 0,
            }
            for number in range(1, 13)
        ],
    }


def _rates(sweep: Sweep, truth: Truth, factor: float, seconds: float) -> dict[str, float]:
    """Return raw counter -> change over the measured window; by subject if the counter has subjects."""
    new_orders = sweep.transactions * MIX["new_order"] / sum(MIX.values())
    reads = truth.reads_per_new_order * factor * new_orders
    writes = truth.writes_per_new_order * new_orders
    gets = truth.page_gets_per_transaction * sweep.transactions
    page = sweep.page_size_bytes
    direct = sweep.io_mode == "direct"
    changes: dict[str, float] = dict.fromkeys(
        (name for name, metric in registry().raw.items() if metric.kind == "counter"), 0.0
    )
    changes |= {
        "page_gets": gets,
        "demand_misses": reads * 1.02,
        "pages_read": reads,
        "pages_written": writes,
        "pages_created": 1200,
        "db_read_bytes": round(reads) * page,
        "db_write_bytes": round(writes) * page,
        "wal_writes": 3 * sweep.transactions,
        "wal_write_bytes": 3 * sweep.transactions * (page + 24),
        "db_read_ns": reads * 95_000,
        "db_write_ns": writes * 40_000,
        "pool_fetches": gets * 1.01,
        "pool_hits": gets * 1.01 - reads,
        "pool_evictions": reads * 0.98,
        "process_user_us": sweep.transactions * 310,
        "process_system_us": sweep.transactions * 90,
        "driver_cpu_us": sweep.transactions * 380,
        "process_read_bytes": round(reads) * page if direct else 0,
        "process_write_bytes": round(writes) * page,
        "process_minor_faults": 900,
        "device_reads": reads * 1.001 + 5,
        "device_read_bytes": round(reads * 1.001 + 5) * page,
        "device_read_ms": reads * 0.09,
        "device_writes": writes,
        "device_write_bytes": round(writes) * page,
        "device_write_ms": writes * 0.2,
        "device_busy_ms": min(0.95 * seconds * 1000, reads * 0.09),
        "device_queue_ms": reads * 0.09 + writes * 0.2,
        "device_flushes": 40,
        "device_flush_ms": 60,
        "context_switches": 52_000,
        "sched_cpu_ns": sweep.transactions * 310_000,
        "sched_wait_ns": sweep.transactions * 30_000,
        "interrupts": 31_000,
        "paged_in_bytes": reads * page,
        "paged_out_bytes": writes * page,
    }
    changes |= sweep.kind.changes(sweep, truth, changes)
    faulty = {name: change * sweep.scale.get(name, 1.0) + sweep.add.get(name, 0.0) for name, change in changes.items()}
    return {**faulty, sweep.backwards: -5.0} if sweep.backwards else faulty


def _samples(
    sweep: Sweep, truth: Truth, pool_bytes: int, factor: float, seconds: float, rng: np.random.Generator
) -> list[dict[str, Any]]:
    changes = _rates(sweep, truth, factor, seconds)
    warm, whole = sweep.warm_up_seconds, math.ceil(seconds)
    # The share of the window's work that is done by each time; the warm-up goes at the same pace, with negative shares.
    pace = rng.normal(1.0, 0.04, warm + whole).clip(0.7)
    done = np.concatenate([[0.0], np.cumsum(pace)])
    done = (done - done[warm]) / (done[-1] - done[warm])
    rows: list[dict[str, Any]] = []
    kind = sweep.kind
    emitted = [(name, of, kind.missing(name)) for name, of in registry().raw.items() if kind.emits(name)]
    for second in range(warm + whole + 1):
        edge = {warm: "start", warm + whole: "end"}.get(second)
        phase = "warm_up" if second < warm else "measure"
        share = float(done[second])
        if not edge and (second - warm in sweep.silent or (second - warm) % sweep.interval_s):
            continue
        t_s = warm + seconds if edge == "end" else float(second)
        rows += _sample(sweep, truth, emitted, t_s, phase, edge, share, changes, pool_bytes, seconds)
    return rows


def _sample(
    sweep: Sweep,
    truth: Truth,
    emitted: Sequence[tuple[str, Metric, str | None]],
    t_s: float,
    phase: str,
    edge: str | None,
    share: float,
    changes: Mapping[str, float],
    pool_bytes: int,
    seconds: float,
) -> list[dict[str, Any]]:
    def row(name: str, subject: str, count: float | None, value: float | None, reason: str | None) -> dict[str, Any]:
        return {
            "t_s": t_s,
            "phase": phase,
            "edge": edge,
            "metric": name,
            "subject": subject,
            "count": None if count is None else round(count),
            "value": value,
            "reason": reason,
            "probe": registry().raw[name].probe,
        }

    rows = []
    for name, metric, why in emitted:
        if why:
            rows.append(row(name, "", None, None, why))
        elif metric.probe == "sched" and sweep.unscheduled:
            rows.append(row(name, "worker", None, None, "this kernel counts nothing in schedstat"))
        elif metric.kind == "latency":
            rows += [row(name, kind, None, 700.0, None) for kind in MIX]
        elif name.startswith("transactions_"):
            for kind, weight in MIX.items():
                completed = sweep.transactions * weight / 23 * share
                rolled_back = 0.01 * completed if kind == "new_order" else 0.0
                committed = round(completed) - round(rolled_back)
                count = committed if name.endswith("committed") else round(rolled_back)
                rows.append(row(name, kind, 1_000_000 + count, None, None))
        elif metric.probe == "cpu":
            column = name.removeprefix("cpu_").removesuffix("_us")
            weights = {"usr": 0.22, "sys": 0.06, "iowait": 0.2, "soft": 0.01, "steal": 0.01, "idle": 0.5}
            busy_us = share * seconds * 1e6 * weights.get(column, 0.0) * sweep.scale.get(name, 1.0)
            rows += [row(name, subject, 1e9 + times * busy_us, None, None) for subject, times in _CORES]
        elif metric.probe == "device" and sweep.device_reason is not None:
            rows.append(row(name, "", None, None, sweep.device_reason))
        elif metric.kind == "counter":
            subject = "vda" if metric.probe == "device" else ""
            rows.append(row(name, subject, 1_000_000_000 + round(changes[name] * share), None, None))
        else:
            subject = "vda" if metric.probe == "device" else ""
            own = sweep.kind.level(sweep, truth, name, t_s)
            rows.append(row(name, subject, None, _gauge(sweep, name, pool_bytes) if own is None else own, None))
    return rows


_CORES = (("all", 2), ("cpu0", 1), ("cpu1", 1))


def _gauge(sweep: Sweep, name: str, pool_bytes: int) -> float:
    frames = pool_bytes / sweep.page_size_bytes
    levels = {
        "pool_frames": frames,
        "pool_frames_used": frames,
        "db_bytes": sweep.database_bytes + 5.0 * MIB,
        "wal_bytes": 3.1 * MIB,
        "resident_bytes": 60.0 * MIB + 1.02 * pool_bytes * sweep.scale.get("resident_bytes", 1.0),
        "memory_total_bytes": 24.0 * 1024**3,
    }
    return levels.get(name, 0.0)


def _latency(sweep: Sweep, truth: Truth, seconds: float) -> list[dict[str, Any]]:
    """Return histograms that obey Little's law for ten terminals a warehouse and count exactly the measured
    transactions."""
    terminals = 10 * sweep.warehouses
    per_transaction_us = terminals * seconds * 1e6 / sweep.transactions
    service_us = _workload(sweep, truth)["connections"] * seconds * 1e6 / sweep.transactions
    rows = []
    left = sweep.transactions - sweep.lost_latencies
    for place, (kind, weight) in enumerate(MIX.items()):
        count = left if place == len(MIX) - 1 else round(sweep.transactions * weight / 23)
        left -= count
        for time, mean_us in (("service", service_us), ("queue", per_transaction_us - service_us)):
            rows += _histogram(kind, time, sweep.latency_scale * mean_us, count)
    return rows


def _histogram(kind: str, time: str, mean_us: float, count: int) -> list[dict[str, Any]]:
    """Return a histogram with this mean: most transactions lie below the mean, a few far above it."""
    found = [_bucket(kind, time, share * mean_us, round(part * count)) for share, part in _BODY]
    rest = count - sum(row["count"] for row in found)
    spent = sum((row["low_us"] + row["high_us"]) / 2 * row["count"] for row in found)
    found.append(_bucket(kind, time, (mean_us * count - spent) / max(1, rest), rest))
    return [row for row in found if row["count"]]


_BODY = ((0.4, 0.3), (0.9, 0.5), (1.7, 0.17))


def _bucket(kind: str, time: str, us: float, count: int) -> dict[str, Any]:
    """Return the bucket that holds a time; buckets of a fixed grid are one per cent wide."""
    place = math.floor(math.log(max(1.0, us)) / math.log(1.01))
    return {
        "transaction_type": kind,
        "time": time,
        "low_us": 1.01**place,
        "high_us": 1.01 ** (place + 1),
        "count": count,
    }
