"""`bufferlab list runs`: lists the sweeps in a folder, each with its answer.

A damaged sweep is listed with its problem.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from bufferlab.cli.output import columns
from bufferlab.errors import BufferlabError, DataFileError
from bufferlab.registry import open_sweep

_NEVER_WRAPPED = 1 << 20
#: Files of a sweep folder. A folder without any of them is not a sweep folder, not even a damaged one.
_MARKS = ("plan.json", "host.json", "experiment.toml")


@dataclass(frozen=True)
class Past:
    """One line of the list. For a damaged sweep it has only the folder and the problem."""

    ALSO_PRINTED: ClassVar = ("status",)

    folder: str
    experiment: str | None = None
    engine: str | None = None
    began_at: str | None = None
    runs_planned: int = 0
    runs_ok: int = 0
    runs_failed: int = 0
    answer: str | None = None
    problem: str | None = None

    @property
    def status(self) -> str:
        """Return in words how much of the sweep is done."""
        if self.problem:
            return "damaged"
        failed = f", {self.runs_failed} failed" if self.runs_failed else ""
        return f"{self.runs_ok} of {self.runs_planned} runs{failed}"


def past(parent: Path) -> list[Past]:
    """Return the sweeps in a folder, the oldest first. Raises DataFileError if the folder is missing."""
    if not parent.is_dir():
        hint = "give the folder of --out; sweeps go to runs/ where they were started"
        raise DataFileError("there is no such folder", str(parent), hint)
    return sorted(_found(parent), key=lambda sweep: (sweep.began_at or "", sweep.folder))


def as_text(sweeps: list[Past]) -> str:
    """Return the sweeps as a table, each with the first sentence of its answer."""
    rows = [
        [
            Path(sweep.folder).name,
            sweep.experiment or "-",
            sweep.engine or "-",
            f"{sweep.began_at:.16}".replace("T", " ") if sweep.began_at else "-",
            sweep.status.replace(" runs", ""),
            sweep.problem or _first_sentence(sweep.answer or "no run ended well"),
        ]
        for sweep in sweeps
    ]
    # Without a terminal, give each sweep a single line for programs that search lines.
    width = None if sys.stdout.isatty() else _NEVER_WRAPPED
    return columns(("folder", "experiment", "engine", "began (UTC)", "runs", "answer"), rows, width)


def _found(parent: Path) -> Iterator[Past]:
    for folder in parent.iterdir():
        try:
            if folder.is_dir() and any((folder / name).exists() for name in _MARKS):
                yield _past(folder)
        except BufferlabError as error:
            yield Past(str(folder), problem=error.problems[0].sentence())
        except OSError as error:
            yield Past(str(folder), problem=f"it cannot be read: {error.strerror}")


def _past(folder: Path) -> Past:
    from bufferlab.chapter.analysis import Analysis
    from bufferlab.report.answer import answer

    sweep = open_sweep(folder)
    records = sweep.runs()
    made_at = datetime.fromtimestamp((folder / "plan.json").stat().st_mtime, UTC).isoformat()
    return Past(
        folder=str(folder),
        experiment=sweep.experiment,
        engine=str(sweep.plan.get("engine") or "") or None,
        began_at=min((record.run.started_at for record in records), default=made_at),
        runs_planned=len(sweep.planned_cells or records),
        runs_ok=sum(record.ok for record in records),
        runs_failed=sum(record.run.status == "failed" for record in records),
        answer=answer(Analysis.of(sweep)) if any(record.ok for record in records) else None,
    )


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].removesuffix(".")
