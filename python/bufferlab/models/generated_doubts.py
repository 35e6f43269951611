"""The reasons to doubt the reads of a generated run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any

from bufferlab.models.access_rules import AccessRules
from bufferlab.models.managers.declaration import Server
from bufferlab.models.predict import UNFILLED_LIMIT
from bufferlab.results.page_traces import GeneratedRun, Replayed, SimulatedPart, Verdict
from bufferlab.units import format_bytes, format_count
from bufferlab.versions import in_words


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
