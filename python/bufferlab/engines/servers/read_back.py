"""The settings that a running server tells, in the form that every family returns."""

from __future__ import annotations

from dataclasses import dataclass, field

from bufferlab.knob import Native


@dataclass(frozen=True)
class ReadBack:
    """The settings that a server runs with."""

    actual: dict[str, Native]
    """The value by the setting's name: of every knob that was asked for and can be read, and of a few more."""
    frames: int
    """The number of page frames in the pool."""
    confounds: list[str]
    """Sentences for the reader: where the server deviates from what was asked for, or does other work besides."""
    notes: dict[str, str] = field(default_factory=dict)
    """By the setting's name, the reason why the server runs with another value than was asked for."""
