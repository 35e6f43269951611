"""The writes that a model predicts for a pool, as run.json stores them: part of the schema (page_traces.py)."""

from __future__ import annotations

from math import isqrt
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

WIDEST = 1.5
"""The largest ratio of a range's ends; a wider range is too vague to be a prediction."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, defer_build=True)


class WritesEnd(_Strict):
    """The pages that a model writes in the window, by reason: one end of a predicted range, or its only value."""

    ALSO_PRINTED: ClassVar = ("pages",)

    why: str
    """The condition under which this end holds, in words: a speed of the load, or a limit of pages' age."""
    age_bytes: int | None = Field(default=None, ge=0)
    """The maximum age of InnoDB's dirty pages in bytes of redo, as a mean over the window; None if it follows from the
    replay, and in other engines."""
    lru_writes: int = Field(default=0, ge=0)
    """Dirty pages that InnoDB's page cleaner or PostgreSQL's background writer wrote to free their frames."""
    flush_list_writes: int = Field(default=0, ge=0)
    """Dirty pages that InnoDB's page cleaner wrote because of their age, or because too many pages were dirty."""
    single_page_writes: int = Field(default=0, ge=0)
    """Dirty pages that an InnoDB thread or a PostgreSQL session wrote itself, because it needed the page's frame."""
    checkpoint_writes: int = Field(default=0, ge=0)
    """Dirty pages that a checkpoint wrote."""
    reads: int = Field(ge=0)
    """Pages read in the same replay."""
    redo_bytes: int | None = Field(default=None, ge=0)
    """Bytes written to the log at this end; None if they do not depend on the settings."""

    @property
    def pages(self) -> int:
        """Return all pages written."""
        return self.lru_writes + self.flush_list_writes + self.single_page_writes + self.checkpoint_writes


class WritesDoubt(_Strict):
    """A reason to doubt predicted writes, as a name for programs and a sentence."""

    name: Literal["own_writes", "device_decides", "few_checkpoints"]
    sentence: str


class PredictedWrites(_Strict):
    """The pages and bytes that a model predicts to be written in the window.

    The age that dirty pages reach in a larger pool depends on the speed of the load. So a larger pool has a range with
    two ends. PostgreSQL's checkpoints follow the clock, so each of its pools other than the traced one has a range.
    Without any run neither age nor speed is known, so that the pools of InnoDB and PostgreSQL have ranges.
    """

    ALSO_PRINTED: ClassVar = ("pages", "least_pages", "most_pages", "page_bytes", "copy_bytes", "waiting_share")

    ends: list[WritesEnd] = Field(max_length=2)
    """The ends of the range, the one with the slower load first. Empty if nothing is predicted."""
    why_not: str | None = None
    """The reason why the pages are not predicted; None if they are."""
    page_size_bytes: int = Field(gt=0)
    copies_per_page: float | None = Field(default=None, ge=0)
    """Copies in the doublewrite buffer for each page written: as counted in the traced run, or without a run by the
    setting. None if the run did not count them."""
    redo_bytes: int | None = Field(default=None, ge=0)
    """Bytes written to the redo log or WAL: those of the traced window, or the geometric mean of the two ends.

    None if the run did not count them, or, without a run, if the rules for them are not calibrated.
    """
    doubts: list[WritesDoubt] = []

    @property
    def least_pages(self) -> int | None:
        """Return the smaller number of pages of the two ends; None if nothing is predicted."""
        return min((end.pages for end in self.ends), default=None)

    @property
    def most_pages(self) -> int | None:
        """Return the larger number of pages of the two ends; None if nothing is predicted."""
        return max((end.pages for end in self.ends), default=None)

    @property
    def pages(self) -> int | None:
        """Return the predicted pages, with two ends their geometric mean; None if the ends are too far apart."""
        least, most = self.least_pages, self.most_pages
        if least is None or most is None or self.why_not:
            return None
        return least if least == most else isqrt(least * most)

    @property
    def page_bytes(self) -> int | None:
        """Return the bytes of the pages written to the data files."""
        return None if self.pages is None else self.pages * self.page_size_bytes

    @property
    def copy_bytes(self) -> int | None:
        """Return the bytes of the written pages' copies in the doublewrite buffer."""
        if self.page_bytes is None or self.copies_per_page is None:
            return None
        return round(self.page_bytes * self.copies_per_page)

    @property
    def bytes_of_ends(self) -> list[int]:
        """Return all bytes written at each end: pages, their copies, and the log; [] if a part is not known."""
        if self.pages is None or self.copies_per_page is None:
            return []
        each, found = self.page_size_bytes * (1 + self.copies_per_page), []
        for end in self.ends:
            log = self.redo_bytes if end.redo_bytes is None else end.redo_bytes
            if log is None:
                return []
            found.append(round(end.pages * each) + log)
        return found

    @property
    def waiting_share(self) -> float | None:
        """Return the share of reads that had to wait until a dirty page was written; of two ends, the larger share."""
        shares = [end.single_page_writes / end.reads for end in self.ends if end.reads]
        return None if self.pages is None else max(shares, default=0.0)
