"""Makes a candidate entry from the core's proposals, and drops proposed evictions that are none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bufferlab.engines.native import ask_host, native
from bufferlab.engines.servers import learnt
from bufferlab.errors import EnvironmentLackingError

_OF_ENTRY = ("at", "kinds", "offset", "byte", "fetch")
_UNKNOWN = "this build cannot be learnt"


def proposed(binary: Path, original: Path) -> dict[str, Any]:
    """Return `fields`, `site` and `cost_shown` of a candidate entry of a PostgreSQL; of evictions it has too many.

    `binary` is the copy of `original`, which errors name.

    Raises EnvironmentLackingError when no place was found for a kind of access, or a value's place is not known.
    """
    told = json.loads(ask_host(_UNKNOWN, lambda: native().page_site_proposals(str(binary))))
    sites = []
    for site in told["sites"]:
        inside = {"inside": site["inside"]} if site["inside"] else {}
        sites.append({**{name: site[name] for name in _OF_ENTRY}, **inside})
    # A read is a get too, and what all other gets pass is a site of its own.
    kinds = {tuple(site["kinds"]) for site in sites}
    if lacking := [" and ".join(needed) for needed in learnt.KINDS if needed not in kinds]:
        what = f"{_UNKNOWN}: its names and counters do not lead to a place of the kind {lacking[0]}"
        raise EnvironmentLackingError(what, str(original), "use another build of this version")
    if unknown := [site["at"] for site in sites if "?" in site["fetch"]]:
        what = f"{_UNKNOWN}: where {unknown[0]} keeps a value is not known"
        raise EnvironmentLackingError(what, str(original), "use another build of this version")
    return {"fields": told["fields"], "cost_shown": False, "site": sites}


def with_evictions(settings: Mapping[str, Any], victims: set[int]) -> dict[str, Any]:
    """Return settings without the evictions whose number is not in `victims`."""
    kept = [site for number, site in enumerate(settings["site"]) if site["kinds"] != ["evict"] or number in victims]
    return {**settings, "site": kept}
