"""The settings that an experiment asks for, as texts that a test can compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bufferlab.knob import Setting


def texts(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the canonical texts of settings by name; for a swept setting a tuple of them."""
    return {name: _text(one) for name, one in asked.items()}


def _text(asked: Setting | Iterable[Setting]) -> str | tuple[str, ...]:
    return asked.asked if isinstance(asked, Setting) else tuple(map(str, asked))
