"""What a server that answers says its settings are: the form in which every family tells it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ReadBack:
    """A server's settings as it runs with them."""

    actual: dict[str, int | str]
    """By native name: every knob that was asked for and can be read, and a few more."""
    frames: int
    """Pages in the pool."""
    confounds: list[str]
    """Where the server did something else, or does something beside it, that a reader must know."""
    notes: dict[str, str] = field(default_factory=dict)
    """By native name: the reason why another value runs than was asked for."""
