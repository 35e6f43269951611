"""Compares simulations of a part of TPC-C with exact ones, and prints a Markdown table. See tools/scale-errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

SHARES = (0.1, 0.3, 0.5)
"""The sizes of the pools, as shares of the data."""
WARM_UP_A_WAREHOUSE = 3_000
"""Transactions of warm-up per warehouse. With fewer, pools of half the data are not warm (docs/prediction.md, large
pools)."""
WINDOW = 20_000
SEEDS = (1, 2, 3)
"""The seeds of exact runs. A simulation of fewer warehouses has the same (crates/bufferlab-generate/src/scale.rs)."""
_CORE = "import sys; from bufferlab.engines.native import native; print(native().generate(sys.stdin.read()))"
_INNODB = {
    "old_blocks_pct": 37,
    "old_blocks_time": 0,
    "lru_scan_depth": 100,
    "flush_neighbors": 1,
    "wakes_cleaner": True,
}


@dataclass(frozen=True)
class Engine:
    """An engine by the core's name for it, with its model and settings."""

    name: str
    page_size_bytes: int
    connections: int
    model: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class Way:
    """A way to simulate a scale: with this many warehouses, and one page in `one_in`."""

    warehouses: int
    one_in: int = 1

    def told(self, scale: int) -> str:
        """Return the way in words."""
        if self.warehouses < scale:
            return f"{self.warehouses:,} for {scale:,}"
        return f"one in {self.one_in}" if self.one_in > 1 else "exact"


@dataclass(frozen=True)
class Done:
    """An answer of the core, with its processor time and memory."""

    told: dict[str, Any]
    cpu_s: float
    memory_bytes: int

    @property
    def reads(self) -> list[float]:
        """Return the reads per New-Order with each pool."""
        return [(pool["misses"] + pool["prefetch_reads"]) / pool["new_orders"] for pool in self.told["pools"]]


_ENGINES = {
    "innodb": Engine("innodb", 16384, 8, "innodb57", _INNODB),
    "postgres": Engine("postgres", 8192, 8, "postgres", {"large_tables": [], "ring_buffers": 32}),
    "sqlite": Engine("sqlite", 4096, 1, "sqlite", {}),
}
_SAMPLED = {20: [Way(20, 8), Way(20, 16)], 100: [Way(100, 8), Way(100, 16)]}
_ALL_THAT_FITS = {**_SAMPLED, 100: [*_SAMPLED[100], Way(50)], 10_000: [Way(100)]}
_PARTS = {
    "innodb": {**_SAMPLED, 400: [Way(400, 16), Way(400, 32), Way(100)], 10_000: [Way(100)]},
    "postgres": _ALL_THAT_FITS,
    "sqlite": _ALL_THAT_FITS,
}
"""Engine -> scale -> ways to simulate. Exact runs of 400 warehouses need too much memory on PostgreSQL, and SQLite's
rules end at 102."""
_MOST_EXACT = 400


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--only", default=",".join(_ENGINES), help="Engines, separated by commas.")
def main(folder: Path, only: str) -> None:
    """Simulate what FOLDER lacks, and print the table."""
    folder.mkdir(parents=True, exist_ok=True)
    print("| scale | way | reads | difference | told | CPU | memory |\n|---|---|---|---|---|---:|---:|")
    for name in only.split(","):
        for scale, parts in _PARTS[name].items():
            for line in rows(folder, _ENGINES[name], scale, parts):
                print(line, flush=True)


def rows(folder: Path, engine: Engine, scale: int, parts: Sequence[Way]) -> Iterator[str]:
    """Yield the table's rows for a scale: its exact runs, and its simulations of a part."""
    loaded = simulated(folder, engine, scale, None, SEEDS[0], [])
    frames = [round(share * loaded.told["database_bytes"] / engine.page_size_bytes) for share in SHARES]
    exact = [simulated(folder, engine, scale, Way(scale), seed, frames) for seed in SEEDS if scale <= _MOST_EXACT]
    name = f"{engine.name}, {scale:,} warehouses"
    means = [sum(reads) / len(exact) for reads in zip(*(one.reads for one in exact), strict=True)]
    if exact:
        yield row(name, "exact, mean of 3 seeds", means, "", "", exact[0])
    for way in parts:
        done = simulated(folder, engine, scale, way, SEEDS[0], frames)
        # A sample of pages has the transactions of one exact run. A simulation of fewer warehouses has other
        # transactions, and three seeds, so it is compared with the mean of the exact runs.
        against = exact[0].reads if exact and way.warehouses == scale else means
        pairs = zip(done.reads, against, strict=True) if exact else ()
        off = [f"{round(100 * (own / whole - 1), 1) + 0.0:+.1f}" for own, whole in pairs]
        told = ", ".join(f"{100 * pool['error']:.1f}" for pool in done.told["pools"]) + " %"
        yield row(name, way.told(scale), done.reads, ", ".join(off) + " %" if off else "no exact run", told, done)


def row(name: str, way: str, reads: Sequence[float], off: str, told: str, done: Done) -> str:
    """Return a row of the table."""
    cells = [name, way, ", ".join(f"{one:.4g}" for one in reads), off, told]
    return f"| {' | '.join(cells)} | {done.cpu_s:.1f} s | {done.memory_bytes / 1e6:.0f} MB |"


def simulated(folder: Path, engine: Engine, scale: int, way: Way | None, seed: int, frames: Sequence[int]) -> Done:
    """Return a simulation of these pools, from the folder if it is stored there; without `way`, only the loaded
    database."""
    asked = {"simulated_warehouses": way.warehouses, "one_in": way.one_in} if way else {}
    job = {
        "engine": engine.name,
        "page_size_bytes": engine.page_size_bytes,
        "workload": {"warehouses": scale, "load_seed": 20260101, "seed": seed, "skew": "spec"},
        "connections": engine.connections,
        "prefill": bool(frames),
        "pools": [{"model": engine.model, "settings": engine.settings, "frames": count} for count in frames],
        "warm_up": {"transactions": WARM_UP_A_WAREHOUSE * scale if frames else 0},
        "window_transactions": WINDOW if frames else 1,
        **asked,
    }
    part = f"{way.warehouses}-{way.one_in}" if way else "loaded"
    kept = folder / f"{engine.name}-{scale}-{part}-{seed}.json"
    if not kept.exists():
        child = subprocess.Popen([sys.executable, "-c", _CORE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdin
        assert child.stdout
        with child.stdin:
            child.stdin.write(json.dumps(job).encode())
        told = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise SystemExit(f"the core did not simulate {kept.stem}")
        cost = {"cpu_s": used.ru_utime + used.ru_stime, "memory_bytes": used.ru_maxrss * 1024}
        kept.write_text(json.dumps({"told": json.loads(told), **cost}))
    return Done(**json.loads(kept.read_text()))


if __name__ == "__main__":
    main()
