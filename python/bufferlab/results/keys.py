"""Makes the keys of points and data: SHA-256 over canonical JSON, so that equal settings have equal keys on any host.

A key covers settings as requested, as run, or as loaded. It never covers the host, the time, or how numbers were
obtained.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

#: A part of every key. Raise it when the meaning of a key's parts changes, so that old and new keys never agree.
KEY_SCHEMA = 1


def canonical_json(value: Any) -> str:
    """Return a value as canonical JSON, with one spelling for each value: keys sorted, no spaces, text unchanged.

    Raises ValueError for a NaN or an infinite number.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(kind: str, parts: Mapping[str, Any]) -> str:
    """Return the key of these parts. The `kind` is hashed too, so a point and its data never share a key."""
    text = canonical_json({"kind": kind, "schema": KEY_SCHEMA, **parts})
    return hashlib.sha256(text.encode()).hexdigest()


def point_key(*, experiment: str, engine: str, workload: Mapping[str, Any], knobs_asked: Mapping[str, str]) -> str:
    """Return the key of a point's settings as requested.

    It is the same on every host, for measured and predicted runs.
    """
    asked = {"experiment": experiment, "engine": engine, "workload": dict(workload), "knobs_asked": dict(knobs_asked)}
    return digest("point", asked)


def actual_key(
    *, engine: str, engine_version: str, workload: Mapping[str, Any], knobs_actual: Mapping[str, Any]
) -> str:
    """Return the key of a point's settings as they were read back from the engine."""
    ran = {"engine": engine, "engine_version": engine_version, "workload": dict(workload)}
    return digest("actual", {**ran, "knobs_actual": dict(knobs_actual)})


def data_key(recipe: Mapping[str, Any]) -> str:
    """Return the key of loaded data. The recipe has engine build, page size, schema, loader, order, scale and seed."""
    return digest("data", {"recipe": dict(recipe)})
