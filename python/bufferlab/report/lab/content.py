"""The lab report as data: blocks in the order of reading, with their final words, without markup and files."""

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
    """The id of the report's section that the heading begins; "" for the lab report's own headings."""


@dataclass(frozen=True)
class Paragraph:
    """A paragraph. The look "lead" is for the answer. `goes_on` keeps it on one page with the next block."""

    text: str
    look: Literal["plain", "lead", "note"] = "plain"
    goes_on: bool = False


@dataclass(frozen=True)
class Items:
    """A list of sentences in a lab report."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Pair:
    """A row of two figures, each half the page wide. The last row of an odd number of figures has only one."""

    figures: tuple[Figure, ...]


Block = Heading | Paragraph | Items | Banner | Table | Figure | Pair


@dataclass(frozen=True)
class Submission:
    """The authors, course and date for the title block of a report that is handed in. Empty ones are not shown."""

    authors: tuple[str, ...] = ()
    course: str = ""
    date: str = ""

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return the names and values for the title block."""
        whose = "Author" if len(self.authors) == 1 else "Authors"
        told = ((whose, "; ".join(self.authors)), ("Course", self.course), ("Date", self.date))
        return tuple((name, value) for name, value in told if value)


@dataclass(frozen=True)
class LabReport:
    """A lab report: its title block, and the blocks below it."""

    title: str
    facts: tuple[tuple[str, str], ...]
    """The names and values in the title block."""
    blocks: tuple[Block, ...]
    date: str
    """The day on which the first run started, as 2026-01-31; "" without a run."""
    extras: tuple[Block, ...] = ()
    """The chapters that other formats fold. They end the appendix, if there is room."""
    authors: tuple[str, ...] = ()
    last: Paragraph | None = None
    """The last paragraph, which says where the samples are and names the omissions."""

    @property
    def whole(self) -> tuple[Block, ...]:
        """Return all blocks in their order."""
        return (*self.blocks, *self.extras, *((self.last,) if self.last else ()))
