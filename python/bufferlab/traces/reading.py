"""A description of how a foreign file was read: the role of each column, whether it has a header, and skipped rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TakenColumn:
    """A column that was used: its role, its name or number, and the unit of its numbers."""

    role: str
    name: str
    unit: str | None
    """The unit: s, ms, us, ns or 100ns for times; bytes, sectors or pages for pages and sizes; else None."""

    @property
    def sentence(self) -> str:
        """Return the column in words, such as "ts as time in ms"."""
        if self.role == "op":
            return f"{self.name} as get or create"
        unit = f" in {self.unit}" if self.unit and self.unit != f"{self.role}s" else ""
        return f"{self.name} as {self.role}{unit}"


@dataclass(frozen=True)
class TraceReading:
    """How a foreign file was read: its format, columns, header and doubtful points."""

    format: str
    """The format in words: "MSR Cambridge", "a table"."""
    columns: tuple[TakenColumn, ...] = ()
    has_head: bool | None = None
    """Whether the first line names the columns; None for a format without header lines."""
    notes: tuple[str, ...] = ()
    """Further remarks on how the file was read, in sentences."""

    def sentence(self, first_s: float, last_s: float) -> str:
        """Return a sentence on how the file was read; the arguments are the times of its first and last touch."""
        parts = [f"Read as {self.format}" + (": " if self.columns else "")]
        parts[0] += ", ".join(column.sentence for column in self.columns)
        if self.has_head is not None:
            parts.append("the first line names columns" if self.has_head else "no line of names")
        if self.columns and not any(column.role == "time" for column in self.columns):
            parts.append("without a time the n-th access is at n s")
        parts.append(f"times from {_seconds(first_s)} to {_seconds(last_s)} s")
        return "; ".join(parts) + "."


def _seconds(time_s: float) -> str:
    """Return a time in seconds as text, with at most six decimals."""
    return f"{time_s:.6f}".rstrip("0").rstrip(".")
