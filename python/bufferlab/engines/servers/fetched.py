"""Finds the fetched servers in their cache, by the manifests that fetch.py wrote."""

from __future__ import annotations

import json
import os
from pathlib import Path

from bufferlab.engines.servers.builds import Build, Flavour
from bufferlab.engines.servers.user import default_root
from bufferlab.errors import EnvironmentLackingError

MANIFEST = "manifest.json"


def servers_root() -> Path:
    """Return the folder of all fetched servers. The user that servers run as must be able to reach it."""
    if own := os.environ.get("BUFFERLAB_CACHE"):
        return Path(own).absolute() / "servers"
    if root := default_root():
        return root / "cache" / "servers"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bufferlab" / "servers"


def folder(name: str) -> Path:
    """Return the folder into which the server of that name is fetched."""
    return servers_root() / name


def fetched(name: str) -> Build | None:
    """Return the fetched server of that name, from its manifest; None if it was not fetched.

    Raise EnvironmentLackingError if the manifest cannot be read.
    """
    kept = folder(name)
    try:
        told = json.loads((kept / MANIFEST).read_text())
        return Build(
            name,
            told["flavour"],
            told["version"],
            kept / told["binary"],
            kept / told["share"] if told["share"] else None,
            kept / told["libraries"] if told.get("libraries") else None,
            kept / told["system_tables"] if told.get("system_tables") else None,
            told.get("tried"),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EnvironmentLackingError(
            f"the fetched server cannot be used: {error}", str(kept), f"remove it and: bufferlab engines fetch {name}"
        ) from error


def of_binary(flavour: Flavour, binary: Path) -> Build | None:
    """Return the fetched server to which this binary belongs, because it may need the libraries fetched with it; else
    None.

    Raise EnvironmentLackingError for an unreadable manifest.
    """
    if not binary.is_relative_to(servers_root()):
        return None
    return next((build for build in all_fetched(flavour) if build.binary == binary), None)


def newest_fetched(flavour: Flavour) -> Build | None:
    """Return the newest fetched server of a flavour; None when none was fetched."""
    return max(all_fetched(flavour), key=lambda build: build.numbers, default=None)


def all_fetched(flavour: Flavour) -> list[Build]:
    """Return every server of a flavour that was fetched. Raise EnvironmentLackingError for an unreadable manifest."""
    there = [fetched(file.parent.name) for file in sorted(servers_root().glob(f"{flavour}-*/{MANIFEST}"))]
    return [build for build in there if build is not None]
