"""Settings of the host that a dead worker left changed: put back by whoever comes next, through the engines."""

from __future__ import annotations

from typing import Protocol, cast

from bufferlab.engines import registry as engines
from bufferlab.errors import EnvironmentLackingError


class ChangesHost(Protocol):
    """What the behaviour of an engine offers whose runs change settings of the host."""

    def restore_host(self) -> list[str]:
        """Put back what is left changed by processes that are dead; a sentence for each setting."""
        ...


def restore_host() -> list[str]:
    """A sentence for each setting that was put back; nothing where this installation cannot have changed any."""
    said: list[str] = []
    for name in engines.names():
        if engines.declaration(name).changes_host:
            try:
                said += cast(ChangesHost, engines.behaviour(name)).restore_host()
            except EnvironmentLackingError:
                continue
    return said
