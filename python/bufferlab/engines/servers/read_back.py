"""The settings of a running server: the variables behind a family's knobs, and what the server tells of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bufferlab.knob import Knob, Native, Values
from bufferlab.versions import has

PREFIX = "var."
"""The prefix of variables that are passed through."""


@dataclass(frozen=True)
class Variables:
    """The variables behind one family's knobs, as its declaration spells them."""

    knobs: Mapping[str, Knob]
    """The family's knobs by name."""

    def of(self, name: str) -> str:
        """Return the server's variable behind a setting; "" for one of bufferlab itself."""
        if name.startswith(PREFIX):
            return name.removeprefix(PREFIX)
        return self.knobs[name].spelling if name in self.knobs else ""

    def knob(self, variable: str) -> Knob | None:
        """Return the knob that sets a variable of the server; None when there is none."""
        return next((knob for knob in self.knobs.values() if knob.spelling == variable), None)

    def settings(
        self, flavour: str, version: str, values: Values, written: Callable[[str, Native], str]
    ) -> dict[str, str]:
        """Return the variables with their values as `written` puts those, by the settings' names.

        What this version lacks is left out: it can only have come from "auto", an explicit value was refused at the
        start of the sweep.
        """
        known = {name: value for name, value in values.items() if self.of(name)}
        return {
            self.of(name): written(name, value)
            for name, value in known.items()
            if name not in self.knobs or has(self.knobs[name].versions, flavour, version)
        }


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
