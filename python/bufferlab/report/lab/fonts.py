"""Chooses fonts for a PDF that have the letters of its texts, and finds letters that no font has.

Two fonts exist on every host: Libertinus Serif is part of Typst, and DejaVu Sans comes with matplotlib, which draws
the figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

TEXT, FALLBACK = "Libertinus Serif", "DejaVu Sans"
#: Invisible characters, which need no font.
_NO_PICTURE = frozenset("\t\n\r\u00a0\u00ad\u200b\u200c\u200d\u2060\ufe0f\ufeff")


class Installed(Protocol):
    """A font file that is installed on this host, as Typst lists it."""

    family: str
    path: str | None


@dataclass(frozen=True)
class Chosen:
    """The font families of a report, in the order in which Typst looks for a letter, and letters that none has."""

    families: tuple[str, ...]
    missing: frozenset[str] = frozenset()

    @property
    def is_of_every_host(self) -> bool:
        """Return whether the texts need only the two fonts that every host has."""
        return self.families == (TEXT, FALLBACK)


def choose(texts: Iterable[str], installed: Sequence[Installed]) -> Chosen:
    """Return the font families for these texts. `installed` are the fonts of this host."""
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
    """Return a text in which each letter that no font has (`missing`) is replaced by its code point.

    >>> without_missing("a한b", frozenset("한"))
    'a[U+D55C]b'
    """
    if missing.isdisjoint(text):
        return text
    return "".join(f"[U+{ord(letter):04X}]" if letter in missing else letter for letter in text)


def folder() -> Path:
    """Return the folder with matplotlib's fonts, among them DejaVu Sans."""
    import matplotlib as mpl

    return Path(mpl.get_data_path(), "fonts", "ttf")


@cache
def _letters(path: str) -> frozenset[str]:
    """Return the letters of a font file; none if the file cannot be read."""
    from matplotlib.ft2font import FT2Font

    with suppress(RuntimeError, OSError, ValueError):
        return frozenset(map(chr, FT2Font(path).get_charmap()))
    return frozenset()
