"""What an experiment asks for, as texts that a test can compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bufferlab.knob import Setting


def texts(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The canonical texts of settings by name; of a sweep, tuples of them."""
    return {name: _text(one) for name, one in asked.items()}


def _text(asked: Setting | Iterable[Setting]) -> str | tuple[str, ...]:
    return asked.asked if isinstance(asked, Setting) else tuple(map(str, asked))
