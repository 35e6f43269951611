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

#: "Reads (pages)": a word with a unit.
_WITH_UNIT = re.compile(r"(?P<word>.+) \((?P<unit>[^()]+)\)")


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
    fonts: tuple[str, ...] = ()
    """Families with the letters of this language, the best first; none where every host has them."""
    letters: str = ""
    """Some letters that such a font must have."""
    package: str = ""
    """Debian's package of such a font."""

    def word(self, english: str) -> str:
        """Return a word of a table in this language: it and its unit each by itself, or the English one.

        >>> catalogue("ko").word("Reads (pages)"), catalogue("ko").word("Glyphs")
        ('읽기 (페이지)', 'Glyphs')
        """
        if english in self.words:
            return self.words[english]
        found = _WITH_UNIT.fullmatch(english)
        if found and found["word"] in self.words:
            return f"{self.words[found['word']]} ({self.words.get(found['unit'], found['unit'])})"
        return english

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
        tuple(font.get("families", ())),
        font.get("letters", ""),
        font.get("package", ""),
    )
