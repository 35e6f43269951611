"""Makes identities of points and data: SHA-256 over canonical JSON, so equal settings have equal keys on any host.

A key covers the settings asked, run or loaded; it never contains the host, the time or the source of the numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

#: Raise this when the meaning of a key's parts changes, so that old and new keys never meet by accident.
KEY_SCHEMA = 1


def canonical_json(value: Any) -> str:
    """Return the one spelling of a value: keys sorted, no spaces, no NaN, text unchanged."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(kind: str, parts: Mapping[str, Any]) -> str:
    """Return the key of a kind of thing; the kind is part of it, so a point and its data never share a key."""
    text = canonical_json({"kind": kind, "schema": KEY_SCHEMA, **parts})
    return hashlib.sha256(text.encode()).hexdigest()


def point_key(*, experiment: str, engine: str, workload: Mapping[str, Any], knobs_asked: Mapping[str, str]) -> str:
    """Return the key of the asked settings: the same on every host, and for measured and predicted alike."""
    asked = {"experiment": experiment, "engine": engine, "workload": dict(workload), "knobs_asked": dict(knobs_asked)}
    return digest("point", asked)


def actual_key(
    *, engine: str, engine_version: str, workload: Mapping[str, Any], knobs_actual: Mapping[str, Any]
) -> str:
    """Return the key of what ran: the settings read back from the engine."""
    ran = {"engine": engine, "engine_version": engine_version, "workload": dict(workload)}
    return digest("actual", {**ran, "knobs_actual": dict(knobs_actual)})


def data_key(recipe: Mapping[str, Any]) -> str:
    """Return the key of a load recipe: engine build, page size, schema, loader version and order, scale, seed."""
    return digest("data", {"recipe": dict(recipe)})
