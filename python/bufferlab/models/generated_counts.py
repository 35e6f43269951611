"""Converts the core's answers on generated runs into the types of run.json, and finds reasons to doubt their reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any

from bufferlab.models.access_rules import AccessRules
from bufferlab.models.managers.declaration import Server
from bufferlab.models.predict import UNFILLED_LIMIT
from bufferlab.results.page_traces import (
    STRETCHES,
    GeneratedRun,
    ObjectTouches,
    Replayed,
    SimulatedPart,
    Touches,
    Verdict,
)
from bufferlab.results.schema import WarmUp
from bufferlab.units import format_bytes, format_count
from bufferlab.versions import in_words


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


def uncalibrated(server: Server, rules: AccessRules, run: GeneratedRun) -> Iterable[Verdict]:
    """Yield a doubt if the rules were never compared with traces of this server, or of pages as small as the run's."""
    if not server.is_in(rules.calibrated):
        sentence = (
            f"the rules of access were set beside traces of {in_words(rules.calibrated)}, and of no "
            f"{server.engine} {server.version}"
        )
        yield Verdict(name="not_calibrated", sentence=sentence)
    elif run.page_size_bytes < rules.calibrated_page_bytes:
        sentence = (
            f"the rules of access were set beside traces, table by table, with pages of "
            f"{format_bytes(rules.calibrated_page_bytes)} and more, and these have "
            f"{format_bytes(run.page_size_bytes)}"
        )
        yield Verdict(name="not_calibrated", sentence=sentence)


def unfilled(
    played: Mapping[str, Any], found: Replayed, windows: float, frames: int, pages: int, needs: float
) -> Iterable[Verdict]:
    """Yield a doubt if the pool holds the whole database, or if the warm-up was too short to fill it.

    `played` is the core's answer for the pool. `found` has its counts, summed over `windows` windows. `pages` is the
    number of the database's pages. `needs` is how often the pool must be filled before the window.
    """
    before = (found.brought_in_since_start - found.brought_in) / frames
    inside = found.brought_in / frames / windows
    if frames >= pages:
        sentence = f"the pool holds all {format_count(pages)} pages of the database"
        yield Verdict(name="holds_all", sentence=sentence)
    elif not played["is_warm"]:
        sentence = (
            f"the warm-up ended at its cap of {played['warm_up_transactions']:,} transactions, before the pool was "
            "warm: first reads of pages weigh too much"
        )
        yield Verdict(name="short_warm_up", sentence=sentence)
    elif needs and needs - before > UNFILLED_LIMIT * inside:
        times = "once" if needs == 1 else f"{needs:g} times"
        sentence = (
            f"the warm-up fills this pool less than {times}, so that what was in it at first "
            "weighs too much: a measured run reads as many pages after such a warm-up, and fewer after a longer one"
        )
        yield Verdict(name="short_warm_up", sentence=sentence)


def part_simulated(part: SimulatedPart, warehouses: int) -> Iterable[Verdict]:
    """Yield a doubt if only a part of the database was simulated."""
    told = [f"{part.warehouses:,} warehouses stand for {warehouses:,}"] if part.warehouses < warehouses else []
    told += [f"one page in {part.one_in} stands for all"] if part.one_in > 1 else []
    if told:
        error = "" if part.error is None else f": misses may be off by {max(1, ceil(part.error * 100))} % for that"
        yield Verdict(name="part_simulated", sentence=", and ".join(told) + error)
