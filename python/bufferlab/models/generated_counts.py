"""Converts the core's answers on generated runs into the types of run.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bufferlab.results.page_traces import STRETCHES, ObjectTouches, Replayed, SimulatedPart, Touches
from bufferlab.results.schema import WarmUp


def warm_up(played: Mapping[str, Any]) -> WarmUp:
    """Return the simulated warm-up of a pool, with a duration of 0."""
    gate = played["gate"] if played["is_warm"] else "cap"
    return WarmUp(gate=gate, seconds=0.0, transactions=played["warm_up_transactions"])


def replayed(played: Mapping[str, Any]) -> Replayed:
    """Return the model's counts in the window of a pool."""
    counted = {name: played[name] for name in Replayed.model_fields if name in played}
    return Replayed(**counted, gets_if_in_pool=0)


def simulated(told: Mapping[str, Any]) -> SimulatedPart:
    """Return which part of the database the core simulated, and the error of the reads that follows from this."""
    way = told["way"]
    return SimulatedPart(warehouses=way["warehouses"], one_in=way["one_in"], error=told["pools"][0]["error"])


def touches(told: Mapping[str, Any]) -> list[ObjectTouches]:
    """Return the gets per transaction, and the distinct pages, of each table and index.

    The list is empty if only a part of the database was simulated.
    """
    counted = told["census"] if told["way"]["name"] == "exact" else []
    return [
        ObjectTouches(name=one["name"], **_wanted(one), interior=Touches(**_wanted(one["interior"]))) for one in counted
    ]


def _wanted(counted: Mapping[str, Any]) -> dict[str, Any]:
    pages = {stretch: mean for stretch, mean in zip(STRETCHES, counted["distinct"], strict=True) if mean is not None}
    return {"gets": counted["gets_per_transaction"], "pages": pages}
