"""Makes a candidate entry from the probe sites that the core proposes, and drops eviction sites that do not make
room."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bufferlab.engines.native import ask_host, native
from bufferlab.engines.servers import learnt
from bufferlab.engines.servers.lesson import Lesson
from bufferlab.engines.servers.page_sites import WRITES
from bufferlab.errors import EnvironmentLackingError

_OF_ENTRY = ("at", "kinds", "offset", "byte", "fetch")
_HASH_INDEX = "btr_search_guess_on_hash"
_UNKNOWN = "this build cannot be learnt"
WITHOUT_WRITES = "without_writes"
"""The key of the reason why a candidate has no sites of changed and written pages."""


def proposed(binary: Path, original: Path, lesson: Lesson) -> dict[str, Any]:
    """Return the settings of a candidate entry; it may contain too many eviction sites.

    `binary` is the copy of `original`, which errors name. A site has question marks if the register of its page number
    is unknown. If a build of PostgreSQL shows no sites of changed and written pages, the key `without_writes` has the
    reason. Raises EnvironmentLackingError if no site was found for another kind of access, or if the register of
    another value is unknown.
    """
    told = json.loads(ask_host(_UNKNOWN, lambda: native().page_site_proposals(str(binary))))
    sites = []
    for site in told["sites"]:
        inside = {"inside": site["inside"]} if site["inside"] else {}
        hashed = {"hash_index": True} if site["at"] == _HASH_INDEX else {}
        tries = {"tries": site["tries"]} if "?" in site["fetch"] else {}
        uncounted = {"uncounted": True} if site["uncounted"] else {}
        sites.append({**{name: site[name] for name in _OF_ENTRY}, **inside, **hashed, **tries, **uncounted})
    # On PostgreSQL a read is also a get; all other gets have a separate site.
    kinds = {tuple(site["kinds"]) for site in sites}
    if lacking := [" and ".join(needed) for needed in learnt.kinds_of(told["fields"]) if needed not in kinds]:
        what = f"{_UNKNOWN}: its names and counters do not lead to a place of the kind {lacking[0]}"
        raise EnvironmentLackingError(what, str(original), "use another build of this version")
    if not lesson.makes_resident_pages and (unknown := [site["at"] for site in sites if is_unknown(site)]):
        what = f"{_UNKNOWN}: where {unknown[0]} keeps a value is not known"
        raise EnvironmentLackingError(what, str(original), "use another build of this version")
    modes = {"modes_if_in_pool": told["modes_if_in_pool"]} if told["modes_if_in_pool"] else {}
    why = {WITHOUT_WRITES: told["without_writes"]} if told["without_writes"] else {}
    return {"fields": told["fields"], **modes, "cost_shown": False, "site": sites, **why}


def is_unknown(site: Mapping[str, Any]) -> bool:
    """Return whether the register of one of the site's values is unknown."""
    return "?" in site["fetch"]


def without_unknown(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without the sites that have a value in an unknown register."""
    return {**settings, "site": [site for site in settings["site"] if not is_unknown(site)]}


def without_hash_index(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without the probe sites of gets through the adaptive hash index."""
    return {**settings, "site": [site for site in settings["site"] if not site.get("hash_index")]}


def without_writes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without the probe sites of changed and written pages."""
    return {**settings, "site": [site for site in settings["site"] if not WRITES & {*site["kinds"]}]}


def with_evictions(settings: Mapping[str, Any], victims: set[int]) -> dict[str, Any]:
    """Return settings without the eviction sites whose number is not in `victims`."""
    kept = [site for number, site in enumerate(settings["site"]) if site["kinds"] != ["evict"] or number in victims]
    return {**settings, "site": kept}
