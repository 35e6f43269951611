"""Finds, by trial, the register that holds a page's address: the page at the address must always be in the pool.

A compiler may keep a value in any register, and function names do not show which. The core lists instructions around a
site, and the registers that surely hold an address there. Each pair of both is tried for a moment. Its instruction must
be executed as often as the site, and the pages at its addresses must be in the server's list of resident pages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.learn import candidates, recording, windows
from bufferlab.learn.private_copy import PrivateCopy

_STATEMENTS = 120
_LEAST_RECORDS = 20
_FREED, _LEAST_FREED = ["get_if_in_pool"], 5
"""The access kinds of a site that frees pages; and the least number of records for it, because a load rarely frees
pages."""
_RESIDENT = 0.97
"""At least this fraction of records must have a page that the server lists before or after the load.

Wrong registers match only by chance.
"""
REGISTERS = ("di", "si", "ax", "bx", "cx", "dx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15")
"""The registers that may hold a page's number itself, if a page is identified by one number."""
_AS_OFTEN = 0.002
"""The largest relative difference between the executions of an instruction and those of its site."""


class _Try(NamedTuple):
    """An instruction and a register to try.

    Tries with a lower `rank` are preferred: those at the site itself, and those of registers that calls preserve.
    """

    site: int
    rank: tuple[int, int]
    is_named: bool
    """Whether the try records a register; if not, only the executions of its instruction are counted."""
    settings: dict[str, Any]


def found(place: PrivateCopy, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the registers that hold page numbers.

    Sites without such a register, or that no load executes, are left out. Raises EnvironmentLackingError if the records
    are incomplete.
    """
    named: list[tuple[int, _Try]] = []
    with place.server(place.lesson.settings(place.build)) as server:
        windows.mixed(server, place.lesson, 1, _STATEMENTS)
        for number, tries in enumerate(_rounds(settings)):
            tried = _tried(place, server, settings, tries, number)
            passed = {one.site: count for one, count, _ in tried if one.rank[0] == 0}
            for one, count, share in tried:
                differ = abs(count - passed[one.site])
                as_often = differ <= _AS_OFTEN * count + 1
                least = _LEAST_FREED if settings["site"][one.site]["kinds"] == _FREED else _LEAST_RECORDS
                if one.is_named and as_often and count >= least and share >= _RESIDENT:
                    named.append((differ, one))
    sites = [dict(site) for site in settings["site"]]
    for _, one in sorted(named, key=lambda row: (row[0], row[1].rank), reverse=True):
        sites[one.site] |= one.settings
    known = candidates.without_unknown({**settings, "site": sites})
    for site in known["site"]:
        site.pop("tries", None)
    return known


def _rounds(settings: Mapping[str, Any]) -> list[list[_Try]]:
    """Return the tries of each round of recording: one register for each instruction.

    Every round includes the site itself.
    """
    rounds: list[list[_Try]] = []
    for number, site in enumerate(settings["site"]):
        places = {one["offset"]: one for one in site.get("tries", ())} if candidates.is_unknown(site) else {}
        if not places and not (candidates.is_unknown(site) and _has_one_number(site)):
            continue
        places = {site["offset"]: {**site, "registers": []}, **places}
        for rank, (offset, one) in enumerate(places.items()):
            pages = [_by_address(site, register) for register in one["registers"]]
            if rank == 0 and _has_one_number(site):
                # If one number identifies a page, a register may hold this number itself instead of an address.
                pages += [[f"%{register}"] for register in REGISTERS]
            for turn in range(max(len(pages), 1)):
                if turn == len(rounds):
                    rounds.append([])
                rest = [each for each in site["fetch"] if each != "?"]
                fetch = [*pages[turn], *rest] if pages else ["\\0"] * len(site["fetch"])
                at = {"offset": offset, "byte": one["byte"], "fetch": fetch}
                rounds[turn].append(_Try(number, (rank, turn), bool(pages), at))
        # Add the site itself to every round.
        for turn, tries in enumerate(rounds):
            if any(one.site == number for one in tries) and not any(
                one.site == number and one.rank[0] == 0 for one in tries
            ):
                counted = {"offset": site["offset"], "byte": site["byte"], "fetch": ["\\0"] * len(site["fetch"])}
                tries.insert(0, _Try(number, (0, turn), False, counted))
    return rounds


def _has_one_number(site: Mapping[str, Any]) -> bool:
    return bool(site["fetch"].count("?") == 1)


def _by_address(site: Mapping[str, Any], register: str) -> list[str]:
    return [f"+0({register})", *([] if _has_one_number(site) else [f"+4({register})"])]


def _tried(
    place: PrivateCopy, server: PrivateServer, settings: Mapping[str, Any], tries: list[_Try], number: int
) -> list[tuple[_Try, int, float]]:
    """Return for each try how often its instruction was executed, and the fraction of records with resident pages."""
    sites = [{name: one for name, one in settings["site"][each.site].items() if name != "tries"} | each.settings
             for each in tries]  # fmt: skip
    spool = place.folder / f"registers-{number}"
    tried = {**settings, "site": sites}
    with recording.attached(place, server, tried, spool) as trace:
        pages = windows.resident(server, place.lesson)
        windows.mixed(server, place.lesson, 2 + number, _STATEMENTS)
        if any(each["kinds"] == _FREED for each in sites):
            windows.edge(server, place)  # Wait at the end: purge frees pages after the load.
        pages |= windows.resident(server, place.lesson)
        records = recording.recorded(spool, trace, tried)
    hits: dict[int, list[bool]] = defaultdict(list)
    # A freed page need not be in the pool, so its tablespace is checked. Tablespace 0 does not count, because small
    # numbers look like its pages.
    anywhere = [each["kinds"] == _FREED for each in sites]
    spaces = {page[0] for page in pages}
    for site, page in zip(records.records["site"].tolist(), records.pages(records.records), strict=True):
        hits[site].append(page in pages or (anywhere[site] and page[0] in spaces - {0}))
    return [(one, len(hits[site]), sum(hits[site]) / max(len(hits[site]), 1)) for site, one in enumerate(tries)]
