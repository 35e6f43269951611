"""The words of lab reports in each language: headings and the words of tables. A translation is a file in words/.

words/en.toml lists every word that is translated; another language has the same keys. A word that no catalogue has
stays English, as sentences and figures do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from bufferlab.chapter.blocks import Table
from bufferlab.report.lab.languages import FOLDER
from bufferlab.texts import parse_toml

#: "Reads per New-Order": a count, and the unit of work or of time that it is told per.
_PER = re.compile(r"(?P<what>.+) per (?P<per>.+)")
#: "Reads (pages)": a word with a unit.
_WITH_UNIT = re.compile(r"(?P<word>.+) \((?P<unit>[^()]+)\)")
#: "Hit ratio, start": of the first part of a window.
_START = ", start"


@dataclass(frozen=True)
class Catalogue:
    """The words of one language."""

    code: str
    name: str
    """The language's own name."""
    headings: Mapping[str, str]
    """By a key: headings, and the few sentences about the translation itself."""
    words: Mapping[str, str]
    """By the English word: titles of chapters and tables, heads of columns, cells that are words."""
    per: str = "{what} per {per}"
    """How a count is told per unit of work."""
    fonts: tuple[str, ...] = ()
    """Families with the letters of this language, the best first; none where every host has them."""
    letters: str = ""
    """Some letters that such a font must have."""
    package: str = ""
    """Debian's package of such a font."""

    def word(self, english: str) -> str:
        """Return a word of a table in this language, or the English one; parts of a word are looked for by themselves.

        >>> catalogue("ko").word("Reads per New-Order (pages)"), catalogue("ko").word("Glyphs")
        ('New-Order당 읽기 (페이지)', 'Glyphs')
        """
        return self._found(english) or english

    def _found(self, english: str) -> str | None:
        if english in self.words:
            return self.words[english]
        if found := _WITH_UNIT.fullmatch(english):
            word = self._found(found["word"])
            return f"{word} ({self.words.get(found['unit'], found['unit'])})" if word else None
        if english.endswith(_START):
            word = self._found(english.removesuffix(_START))
            return f"{word}, {self.words.get('start', 'start')}" if word else None
        if found := _PER.fullmatch(english):
            what, per = self._found(found["what"]), self.words.get(found["per"])
            return self.per.format(what=what, per=per) if what and per else None
        return None

    def table(self, table: Table) -> Table:
        """Return a table with its title, its heads and the cells that are words in this language."""
        return replace(
            table,
            title=self.word(table.title),
            columns=tuple(replace(column, title=self.word(column.title)) for column in table.columns),
            rows=tuple(replace(row, cells=tuple(map(self.word, row.cells))) for row in table.rows),
        )


@cache
def catalogue(code: str) -> Catalogue:
    """Return the words of a language. `code` is one of `languages`."""
    told = parse_toml((FOLDER / f"{code}.toml").read_text("utf-8"))
    font = told.get("font", {})
    return Catalogue(
        code,
        told["name"],
        told["headings"],
        told["words"],
        told.get("per", "{what} per {per}"),
        tuple(font.get("families", ())),
        font.get("letters", ""),
        font.get("package", ""),
    )
