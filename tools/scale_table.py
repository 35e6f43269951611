"""Predicts the reads of TPC-C at many scales on three engines, and prints a Markdown table. See tools/scale-table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

SCALES = (1, 10, 100, 10_000)
POOLS = "10%,30%,50%"
ENGINES = ("mysql", "postgres", "sqlite")
WARM_UP_A_WAREHOUSE = 3_000
"""Transactions of warm-up per warehouse. With fewer, pools of half the data are not warm (docs/prediction.md, large
pools)."""
WINDOW = 20_000
WINDOW_A_WAREHOUSE = 200
"""Transactions of the window per warehouse. If only a part of the database is simulated, so is the window."""
_TOML = """\
format_version = 1
name = "scale-{engine}-{scale}"
question = "How much of TPC-C must be in memory?"
engine = "{engine}"
[workload]
name = "tpcc"
warehouses = {scale}
load_seed = 20260101
[knobs]
{knobs}
[reference]
page_size = "{page}"
[sweep]
pool_size = [{pools}]
[warm_up]
min_transactions = {warm_up}
max_transactions = {warm_up}
max_duration = "1h"
on_cap = "report"
[measure]
transactions = {window}
max_duration = "1h"
[design]
repetitions = 3
seed = 1
"""
_KNOBS = {
    # As in experiments/buffer-size. With these settings, reads depend only on the order of gets.
    "mysql": 'server = "mysql-5.7"\npage_size = "16k"\nlru_scan_depth = 100\nold_blocks_time = 0',
    "postgres": 'server = "postgres-17"\npage_size = "8k"',
    "sqlite": 'page_size = "4k"\npcache = "ours"\nio_mode = "direct"',
}
_PAGES = {"mysql": "16k", "postgres": "8k", "sqlite": "4k"}

_METRIC = "reads_per_new_order"


def main() -> None:
    """Predict what the folder lacks, and print the table."""
    command()


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--only", default=",".join(ENGINES), help="Engines, separated by commas.")
def command(folder: Path, only: str) -> None:
    """Predict what FOLDER lacks, and print the table."""
    folder.mkdir(parents=True, exist_ok=True)
    shares = POOLS.split(",")
    print(f"| engine | warehouses | database | {' | '.join(shares)} | simulated, error told |")
    print(f"|---|---:|---:|{'---:|' * len(shares)}---|")
    for engine in only.split(","):
        for scale in SCALES:
            print(row(engine, scale, predicted(folder, engine, scale)), flush=True)


def predicted(folder: Path, engine: str, scale: int) -> dict[str, Any]:
    """Return the object that `bufferlab predict --json` prints for one scale."""
    kept = folder / f"{engine}-{scale}.json"
    if not kept.exists():
        window = max(WINDOW, WINDOW_A_WAREHOUSE * scale)
        pools = ", ".join(f'"{share}"' for share in POOLS.split(","))
        values = {"engine": engine, "scale": scale, "knobs": _KNOBS[engine], "page": _PAGES[engine], "pools": pools}
        toml = folder / f"{engine}-{scale}.toml"
        toml.write_text(_TOML.format(**values, warm_up=max(60_000, WARM_UP_A_WAREHOUSE * scale), window=window))
        words = [sys.executable, "-m", "bufferlab", "predict", str(toml), "--out", str(folder / "runs"), "--json"]
        told = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout
        kept.write_bytes(told)
    told_object: dict[str, Any] = json.loads(kept.read_text())
    return told_object


def row(engine: str, scale: int, told: dict[str, Any]) -> str:
    """Return a row: mean reads per New-Order with each pool, and the part that was simulated."""
    summaries = [one for point in told["points"] for one in point["summaries"] if one["metric"] == _METRIC]
    means = [f"{mean['value']:.3g} ({mean['ci_low']:.3g}–{mean['ci_high']:.3g})" for mean in summaries]
    runs = [run["prediction"]["generated"] for run in told["predictions"]]
    first = runs[0]
    part = first["simulated"]
    errors = [run["simulated"]["error"] for run in runs if run["simulated"]["error"] is not None]
    whole = part["warehouses"] == scale and part["one_in"] == 1
    simulated = (
        "all" if whole else f"{part['warehouses']:,} warehouses, {100 * min(errors):.0f} to {100 * max(errors):.0f} %"
    )
    size = f"{first['database_bytes'] / (1 << 30):,.3g} GiB"
    return f"| {engine} | {scale:,} | {size} | {' | '.join(means)} | {simulated} |"


if __name__ == "__main__":
    main()
