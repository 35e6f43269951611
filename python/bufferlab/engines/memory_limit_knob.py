"""The memory limit of a server, as a knob of engines whose reads may use the page cache. Pure data."""

from __future__ import annotations

from bufferlab.knob import Knob
from bufferlab.units import MIB, TIB

NAME = "memory_limit"
OFF = "off"
POOL = "pool"
"""The value that limits a server to the memory it takes when idle plus `pool_size`."""


def memory_limit(*words: str, versions: str = "", meaning: str = "") -> Knob:
    """Return the knob. It accepts a size, or one of `words`."""
    return Knob.size_or_share(
        NAME,
        "what the server, its pool and the page cache of its files may take together, by a cgroup; off: the page cache "
        f"takes what the host has free{meaning}",
        choices=(OFF, *words),
        default=OFF,
        spelling="",
        minimum=16 * MIB,
        maximum=16 * TIB,
        versions=versions,
    )
