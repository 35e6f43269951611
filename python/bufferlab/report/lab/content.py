"""The lab report as data: blocks in the order of reading, already in words, with no markup and no files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bufferlab.chapter.elements import Banner, Figure, Table


@dataclass(frozen=True)
class Heading:
    """The heading of a chapter (level 1), of a part of it (level 2), or of a section in a part (level 3)."""

    text: str
    level: Literal[1, 2, 3] = 1
    id: str = ""
    """The chapter of the report that it begins."""


@dataclass(frozen=True)
class Paragraph:
    """Sentences. A `lead` is the answer; a paragraph that `goes_on` stands on one page with the next block."""

    text: str
    look: Literal["plain", "lead", "note"] = "plain"
    goes_on: bool = False


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Pair:
    """Figures of half the page's width: two in a row, or the last of an odd number."""

    figures: tuple[Figure, ...]


Block = Heading | Paragraph | Items | Banner | Table | Figure | Pair


@dataclass(frozen=True)
class LabReport:
    """A lab report: the title block, then everything below it."""

    title: str
    facts: tuple[tuple[str, str], ...]
    """The title block: names and values."""
    blocks: tuple[Block, ...]
    date: str
    """The day on which the first run started, as 2026-01-31; "" where no run is known."""
    extras: tuple[Block, ...] = ()
    """Chapters that other reports fold: they end the appendix if they fit."""
    last: Paragraph | None = None
    """Where the samples are."""

    @property
    def whole(self) -> tuple[Block, ...]:
        """Return all blocks in their order."""
        return (*self.blocks, *self.extras, *((self.last,) if self.last else ()))
