"""Makes a candidate entry from the core's proposals, and drops proposed evictions that are none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bufferlab.engines.native import ask_host, native
from bufferlab.engines.servers import learnt
from bufferlab.engines.servers.lesson import Lesson
from bufferlab.errors import EnvironmentLackingError

_OF_ENTRY = ("at", "kinds", "offset", "byte", "fetch")
_HASH_INDEX = "btr_search_guess_on_hash"
_UNKNOWN = "this build cannot be learnt"


def proposed(binary: Path, original: Path, lesson: Lesson) -> dict[str, Any]:
    """Return the settings of a candidate entry; of evictions it may have too many.

    `binary` is the copy of `original`, which errors name. A site whose page is in an unknown place has question marks.
    Raises EnvironmentLackingError when no place was found for a kind of access, or where a value is not known.
    """
    told = json.loads(ask_host(_UNKNOWN, lambda: native().page_site_proposals(str(binary))))
    sites = []
    for site in told["sites"]:
        inside = {"inside": site["inside"]} if site["inside"] else {}
        hashed = {"hash_index": True} if site["at"] == _HASH_INDEX else {}
        tries = {"tries": site["tries"]} if "?" in site["fetch"] else {}
        uncounted = {"uncounted": True} if site["uncounted"] else {}
        sites.append({**{name: site[name] for name in _OF_ENTRY}, **inside, **hashed, **tries, **uncounted})
    # A read is a get too on PostgreSQL, and what all other gets pass is a site of its own.
    kinds = {tuple(site["kinds"]) for site in sites}
    if lacking := [" and ".join(needed) for needed in learnt.kinds_of(told["fields"]) if needed not in kinds]:
        what = f"{_UNKNOWN}: its names and counters do not lead to a place of the kind {lacking[0]}"
        raise EnvironmentLackingError(what, str(original), "use another build of this version")
    if not lesson.makes_resident_pages and (unknown := [site["at"] for site in sites if is_unknown(site)]):
        what = f"{_UNKNOWN}: where {unknown[0]} keeps a value is not known"
        raise EnvironmentLackingError(what, str(original), "use another build of this version")
    modes = {"modes_if_in_pool": told["modes_if_in_pool"]} if told["modes_if_in_pool"] else {}
    return {"fields": told["fields"], **modes, "cost_shown": False, "site": sites}


def is_unknown(site: Mapping[str, Any]) -> bool:
    """Return whether it is not known where a site keeps a value."""
    return "?" in site["fetch"]


def without_unknown(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without the sites that keep a value where it is not known."""
    return {**settings, "site": [site for site in settings["site"] if not is_unknown(site)]}


def without_hash_index(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without the gets through the adaptive hash index."""
    return {**settings, "site": [site for site in settings["site"] if not site.get("hash_index")]}


def with_evictions(settings: Mapping[str, Any], victims: set[int]) -> dict[str, Any]:
    """Return settings without the evictions whose number is not in `victims`."""
    kept = [site for number, site in enumerate(settings["site"]) if site["kinds"] != ["evict"] or number in victims]
    return {**settings, "site": kept}
