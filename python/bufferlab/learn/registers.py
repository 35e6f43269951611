"""Finds the register with the address of a page where names do not tell it: there it names resident pages alone.

A compiler keeps what a function looks up in any register. Each is tried for a moment, and the server's list of resident
pages decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from bufferlab.engines.servers.data_folder import DATABASE
from bufferlab.learn import candidates, proof, recording
from bufferlab.learn.private_copy import PrivateCopy

_REGISTERS = ("%bx", "%r12", "%r13", "%r14", "%r15", "%ax", "%cx", "%dx", "%si", "%di", "%r8", "%r9", "%r10", "%r11")
"""Those that functions keep come first: they hold a value over calls."""
_STATEMENTS = 120
_LEAST_RECORDS = 20
_RESIDENT = 0.99
"""The least share of records whose page is resident; another register names pages by chance, or one page always."""


def found(place: PrivateCopy, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the registers that name pages; sites without one, or that no load passes, are left out.

    Raises EnvironmentLackingError if the records are not whole.
    """
    unknown = [number for number, site in enumerate(settings["site"]) if candidates.is_unknown(site)]
    fetches: dict[int, list[str]] = {}
    with place.server(place.lesson.settings(place.build)) as server:
        proof.mixed(server, place.lesson, 1, _STATEMENTS)
        for register in _REGISTERS:
            tried = candidates.by_register(settings, register)
            spool = place.folder / f"register-{register.lstrip('%')}"
            with recording.attached(place, server, tried, spool) as trace:
                pages = _resident(place, server)
                proof.mixed(server, place.lesson, 2, _STATEMENTS)
                pages |= _resident(place, server)
                records = recording.recorded(spool, trace)
            named = defaultdict(list)
            for site, page in zip(records.records["site"].tolist(), records.pages(records.records), strict=True):
                named[site].append(page in pages)
            for site, hits in named.items():
                if len(hits) >= _LEAST_RECORDS and sum(hits) >= _RESIDENT * len(hits):
                    fetches.setdefault(unknown[site], tried["site"][site]["fetch"])
            if len(fetches) == len(unknown):
                break
    sites = [{**site, "fetch": fetches.get(number, site["fetch"])} for number, site in enumerate(settings["site"])]
    return candidates.without_unknown({**settings, "site": sites})


def _resident(place: PrivateCopy, server: Any) -> set[Any]:
    with closing(server.connect(DATABASE, patient=True)) as connection:
        connection.allow_bytes(64 << 20)
        return set(place.lesson.resident(connection))
