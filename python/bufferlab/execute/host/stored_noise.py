"""Stores the noise floor of this host after an A/A sweep, and adds it to host.json of every later sweep.

An A/A sweep varies only `arm`, a label. Floors are stored in $XDG_STATE_HOME/bufferlab/noise (by default
~/.local/state/bufferlab/noise), one file per host, engine and workload. An error here never fails a sweep: it warns.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bufferlab.errors import Problem
from bufferlab.execute.progress import Progress, Silent
from bufferlab.results.store import RunRecord, SweepFolder
from bufferlab.stats.noise import Scatter, noise
from bufferlab.workloads import registry as workloads

FORMAT = "bufferlab-noise-floor"
FORMAT_VERSION = 1
ARM = "arm"
#: With fewer blocks the confidence interval of the noise is wider than a factor of two.
MIN_BLOCKS = 10
#: Hosts change: after this age, a new floor replaces the stored one even if the new one has shorter windows.
OLD = timedelta(days=30)
_HINT = "the sweep is not touched by this; `bufferlab run noise` measures the floor again"


def state_directory() -> Path:
    """Return the folder for facts measured on this host: $XDG_STATE_HOME/bufferlab, or ~/.local/state/bufferlab."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "bufferlab"


def keep(folder: SweepFolder, progress: Progress | None = None) -> Path | None:
    """Store the noise floor that an A/A sweep measured, and return its file.

    Return None for any other sweep, for one of fewer than 10 blocks, if the stored floor is the better one, and on an
    error.
    """
    progress = progress or Silent()
    try:
        records = [record for record in folder.runs() if record.ok]
        if not _is_a_a(folder) or not records:
            return None
        found = _floor(folder, records)
        if found["blocks"] < MIN_BLOCKS:
            progress.say(f"the noise floor was not kept: it takes {MIN_BLOCKS} blocks, the sweep has {found['blocks']}")
            return None
        path = _directory() / f"{found['host_id']}-{found['engine']}-{found['workload']}.json"
        if (why := _stays(path, found)) is not None:
            progress.say(f"the noise floor kept before stays: {why}")
            return None
        _write(path, found)
        progress.say(f"noise floor kept: {path}")
        return path
    except Exception as error:  # The sweep has been measured, so no error here may fail it.
        progress.warn(Problem(f"the noise floor could not be kept: {error}", str(folder.path), _HINT))
        return None


def attach(host: Mapping[str, Any], progress: Progress | None = None) -> dict[str, Any]:
    """Return the host's facts with its known noise floors added: `noise` maps "<engine>-<workload>" to a floor."""
    progress = progress or Silent()
    host_id, floors = str(host.get("host_id", "")), {}
    try:
        for path in sorted(_directory().glob(f"{host_id}-*.json")) if host_id else ():
            found = _read(path)
            if found is None:
                progress.warn(Problem("this file is not a noise floor that bufferlab kept", str(path), _HINT))
            else:
                floors[f"{found['engine']}-{found['workload']}"] = found
    except Exception as error:  # A missing noise floor must not fail the sweep.
        progress.warn(Problem(f"the noise floor could not be read: {error}", None, _HINT))
    return {**host, "noise": floors} if floors else dict(host)


def _directory() -> Path:
    return state_directory() / "noise"


def _is_a_a(folder: SweepFolder) -> bool:
    points = folder.plan.get("points", [])
    return len(points) > 1 and all(set(point["swept"]) == {ARM} for point in points)


def _floor(folder: SweepFolder, records: list[RunRecord]) -> dict[str, Any]:
    run = records[0].run
    blocks = {record.run.block for record in records}
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "host_id": folder.host["host_id"],
        "engine": run.engine,
        "workload": run.workload["name"],
        "sweep": folder.path.name,
        "measured_at": max(record.run.ended_at for record in records),
        "versions": {**run.versions, run.engine: run.engine_version},
        "settings": {name: one.asked for name, one in run.settings.items() if one.asked is not None and name != ARM},
        "transactions": run.measured.transactions if run.measured else 0,
        "window_seconds": min(record.run.measured.seconds for record in records if record.run.measured),
        "blocks": len(blocks),
        "figures": _figures(records),
    }


def _figures(records: list[RunRecord]) -> list[dict[str, Any]]:
    """Return an A/A sweep's noise, within and across blocks, for each metric that the workload compares."""
    declared = workloads.declaration(records[0].run.workload["name"])
    values = [(record, record.values()) for record in records]
    figures = []
    for metric in dict.fromkeys([declared.headline, *declared.compared]):
        cells = [
            (record.run.point.index, record.run.block, value.value)
            for record, of_run in values
            if (value := of_run.get(metric)) is not None and value.value is not None
        ]
        if cells:
            found = noise(cells)
            figures.append({"metric": metric, "within": _stored(found.within), "across": _stored(found.across)})
    return figures


def _stored(found: Scatter | None) -> dict[str, Any] | None:
    return asdict(found) if found else None


def _stays(path: Path, new: Mapping[str, Any]) -> str | None:
    """Return why the stored floor is not replaced: its windows have more transactions than those of the new one.

    Return None if they have not, if the stored floor is old or of other versions, or if there is none.
    """
    old = _read(path) if path.exists() else None
    if old is None or old["versions"] != new["versions"]:
        return None
    if datetime.now(UTC) - datetime.fromisoformat(old["measured_at"]) > OLD:
        return None
    if old["transactions"] > new["transactions"]:
        return f"its windows are {old['transactions']:,} transactions, these {new['transactions']:,}"
    return None


def _read(path: Path) -> dict[str, Any] | None:
    """Return the noise floor in a file; None if the file has other content."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] == FORMAT and document["format_version"] == FORMAT_VERSION:
            return dict(document)
    return None


def _write(path: Path, document: Mapping[str, Any]) -> None:
    """Write a floor, completely or not at all. It needs no fsync: a floor can be measured again in minutes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # If the process is killed here, the next writer of this floor overwrites the file.
    temporary = path.with_name(f".tmp-{path.name}")
    try:
        temporary.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
