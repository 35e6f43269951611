"""Finds the fonts of a PDF that have the letters of a report, and says which letters none has.

Every host has two: Libertinus Serif is inside Typst, and DejaVu Sans comes with matplotlib, which draws the figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

TEXT, FALLBACK = "Libertinus Serif", "DejaVu Sans"
#: Characters that have no picture, and need none.
_NO_PICTURE = frozenset("\t\n\r\u00a0\u00ad\u200b\u200c\u200d\u2060\ufe0f\ufeff")


class Installed(Protocol):
    """A face of an installed font, as Typst lists it."""

    family: str
    path: str | None


@dataclass(frozen=True)
class Chosen:
    """The families that a report is set in, in the order in which a letter is looked for, and what none of them has."""

    families: tuple[str, ...]
    missing: frozenset[str] = frozenset()

    @property
    def is_of_every_host(self) -> bool:
        """Return whether no font of this host is needed."""
        return self.families == (TEXT, FALLBACK)


def choose(texts: Iterable[str], installed: Sequence[Installed]) -> Chosen:
    """Return the families for these texts. `installed` are the fonts of this host."""
    needed = {letter for text in texts for letter in text} - _NO_PICTURE
    needed -= _letters(str(folder() / "DejaVuSans.ttf"))
    families = []
    for family, letters in _helping(needed, installed):
        families.append(family)
        needed -= letters
    return Chosen((TEXT, FALLBACK, *families), frozenset(needed))


def _helping(needed: set[str], installed: Sequence[Installed]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the installed families that have needed letters, in the order of their names, until all are found."""
    left = set(needed)
    seen: set[str] = {FALLBACK}
    for one in sorted(installed, key=lambda one: (one.family, one.path or "")):
        if not left:
            return
        if one.path is None or one.family in seen or "LastResort" in one.path:
            continue
        seen.add(one.family)
        if one.path and (found := left & _letters(one.path)):
            left -= found
            yield one.family, frozenset(found)


def without_missing(text: str, missing: frozenset[str]) -> str:
    """Return a text with the number of a letter in place of each that no font has.

    >>> without_missing("a한b", frozenset("한"))
    'a[U+D55C]b'
    """
    if missing.isdisjoint(text):
        return text
    return "".join(f"[U+{ord(letter):04X}]" if letter in missing else letter for letter in text)


def folder() -> Path:
    """Return the folder of matplotlib's fonts, which has DejaVu Sans."""
    import matplotlib as mpl

    return Path(mpl.get_data_path(), "fonts", "ttf")


@cache
def _letters(path: str) -> frozenset[str]:
    """Return the letters of a font file; none where it cannot be read."""
    from matplotlib.ft2font import FT2Font

    with suppress(RuntimeError, OSError, ValueError):
        return frozenset(map(chr, FT2Font(path).get_charmap()))
    return frozenset()
