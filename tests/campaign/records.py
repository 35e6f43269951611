"""The campaign's state: one JSON line per trial in one file per family, and the totals computed from them.

A killed campaign loses the trial in progress; the next call continues after the last complete line.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Finding:
    """A promise that a trial found broken."""

    what: str
    seed: str
    evidence: str = ""
    """The folder with the trial's files, below the state folder."""


@dataclass(frozen=True)
class Record:
    """One trial; for hostile inputs a batch of trials with consecutive seeds."""

    family: str
    seed: str
    trials: int
    counts: Mapping[str, int] = field(default_factory=dict)
    """Other counts than trials: exit codes, phases that a kill hit."""
    findings: Sequence[Finding] = ()


@dataclass
class Total:
    """The sums over all records of one family."""

    trials: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


class State:
    """The folder in which a campaign keeps its records and its evidence."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, record: Record) -> None:
        """Append one record and print its findings."""
        with self._file(record.family).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(record), ensure_ascii=True) + "\n")
        for finding in record.findings:
            print(f"FINDING {record.family} seed {finding.seed}: {finding.what}  [{finding.evidence}]", flush=True)

    def total(self, family: str) -> Total:
        """Return the sums over the family's records, without a last line that a kill cut short."""
        total = Total()
        with suppress(FileNotFoundError):
            for line in self._file(family).read_text(encoding="utf-8").splitlines():
                with suppress(json.JSONDecodeError):
                    _add(total, json.loads(line))
        return total

    def families(self) -> list[str]:
        """Return the families that have records."""
        return sorted(path.stem.replace("-", ":", 1) for path in self.folder.glob("*.jsonl"))

    def keep(self, family: str, seed: str, files: Mapping[str, bytes | Path]) -> str:
        """Copy a finding's evidence into a separate folder; return the folder's name in the state folder."""
        name = f"findings/{family.replace(':', '-')}-{seed.replace('/', '-')}"
        target = self.folder / name
        target.mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            if isinstance(content, bytes):
                (target / file).write_bytes(content)
            elif content.is_dir():
                shutil.copytree(content, target / file, symlinks=True, dirs_exist_ok=True)
            elif content.is_file():
                shutil.copyfile(content, target / file)
        return name

    def _file(self, family: str) -> Path:
        return self.folder / f"{family.replace(':', '-', 1)}.jsonl"


def table(state: State, goals: Mapping[str, int]) -> str:
    """Return the totals of every family as a Markdown table."""
    rows = ["| family | trials | goal | counted | findings |", "|---|---:|---:|---|---:|"]
    for family in sorted({*goals, *state.families()}):
        total = state.total(family)
        counted = ", ".join(f"{name} {number:,}" for name, number in sorted(total.counts.items()))
        goal = goals.get(family, 0)
        rows.append(f"| {family} | {total.trials:,} | {goal:,} | {counted} | {len(total.findings)} |")
    return "\n".join(rows)


def _add(total: Total, line: Mapping[str, Any]) -> None:
    total.trials += line["trials"]
    total.counts.update(line["counts"])
    total.findings += [Finding(**finding) for finding in line["findings"]]
