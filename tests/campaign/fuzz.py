"""Hostile inputs: a child process calls the command line with them in-process; the parent watches it and keeps records.

The child writes the number of each input before it begins, so that the parent can name the input that killed it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from campaign import judge
from campaign.family import Family
from campaign.inputs import FAMILIES, ROOT, evidence
from campaign.records import Finding, Record, State

BATCH = 100
SILENT_SECONDS = 120.0
"""If a child is silent for longer, its input hangs at a place where no alarm is handled. On a busy machine a whole
batch may take so long."""
KEPT_OF_A_KIND = 3
_BEGUN = "begun"


def rng_of(family: str, seed: int, number: int) -> random.Random:
    """Return the generator of one input: the same for the same family, base seed and number."""
    return random.Random(f"{family}/{seed}/{number}")


def run(state: State, name: str, *, seed: int, seconds: float, goal: int, corpus: Sequence[Path]) -> None:
    """Try inputs of one family for `seconds`, after those that have records; end early if the goal is reached."""
    family = f"fuzz:{name}"
    kinds = Counter(finding.what for finding in state.total(family).findings)
    ends = time.monotonic() + seconds
    while (left := goal - (first := state.total(family).trials)) > 0 and time.monotonic() < ends:
        with tempfile.TemporaryDirectory(prefix="bufferlab-campaign-") as folder:
            for record in _child(Path(folder), name, seed, first, left, ends, corpus):
                state.add(_kept(state, record, Path(folder), kinds))


def _kept(state: State, record: Record, folder: Path, kinds: Counter[str]) -> Record:
    """Return the record; keep evidence of the first findings of each kind."""
    findings = []
    for finding in record.findings:
        kinds[finding.what] += 1
        kept = ""
        if kinds[finding.what] <= KEPT_OF_A_KIND:
            source = folder / finding.evidence if finding.evidence else folder / "work"
            files = {path.name: path for path in source.iterdir()} if source.is_dir() else {}
            kept = state.keep(record.family, finding.seed, files)
        findings.append(Finding(finding.what, finding.seed, kept))
    return Record(record.family, record.seed, record.trials, record.counts, findings)


def _child(
    folder: Path, name: str, seed: int, first: int, count: int, ends: float, corpus: Sequence[Path]
) -> Iterator[Record]:
    """Yield the records of a child process that tries inputs in the folder until its time is over."""
    seconds = max(1.0, ends - time.monotonic())
    arguments = [name, folder, seed, first, count, seconds, *corpus]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'tests'}",
        "POLARS_MAX_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "TMPDIR": str(folder),
        "BUFFERLAB_CACHE": str(folder / "cache"),
    }
    command = [sys.executable, "-m", "campaign.fuzz", *map(str, arguments)]
    return watch(command, environment, folder, f"fuzz:{name}", seed, first)


def watch(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, family: str, seed: int, first: int
) -> Iterator[Record]:
    """Yield the records that a child prints, and a further record for an input that killed or stopped it."""
    done, last_begun = first, -1
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=ROOT) as child:
        assert child.stdout is not None
        stuck = False
        # Read raw lines: select does not see data that a buffer has read already.
        try:
            for line in _lines(child.stdout.fileno()):
                if line is None:
                    if (begun := _begun(folder)) != last_begun:
                        last_begun = begun
                        continue
                    stuck = True
                    child.kill()
                    break
                record = _record(json.loads(line))
                done += record.trials
                yield record
        except BaseException:  # The campaign is stopped, so stop its child too.
            child.kill()
            raise
        code = child.wait()
    if stuck or code != 0:
        at = max(done, _begun(folder))
        what = f"did not end within {SILENT_SECONDS:g} s" if stuck else f"ended the process: {_end(code)}"
        finding = Finding(what, f"{seed}/{at}")
        yield Record(family, f"{seed}/{done}", at + 1 - done, {"process ended": 1}, [finding])


def _lines(descriptor: int) -> Iterator[bytes | None]:
    """Yield the lines of a pipe as they come, and None if no line came for too long."""
    rest = b""
    while True:
        if not select.select([descriptor], [], [], SILENT_SECONDS)[0]:
            yield None
            continue
        read = os.read(descriptor, 1 << 16)
        if not read:
            return
        *lines, rest = (rest + read).split(b"\n")
        yield from lines


def _begun(folder: Path) -> int:
    text = (folder / _BEGUN).read_text() if (folder / _BEGUN).exists() else ""
    return int(text or -1)


def _end(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit {code}"


def _record(line: dict[str, Any]) -> Record:
    return Record(**{**line, "findings": [Finding(**finding) for finding in line["findings"]]})


@dataclass
class Batch:
    """Inputs of one family, tried one after the other in this process."""

    name: str
    family: Family
    seed: int
    folder: Path
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def attempt(self, number: int) -> judge.Outcome:
        """Try one input, count how it ended, and keep faults."""
        arguments = self.family.make(rng_of(self.name, self.seed, number))
        outcome = judge.call(arguments)
        self.counts[f"exit {outcome.code}" if outcome.code is not None else "exception"] += 1
        leaks = ["a password was shown"] if self.family.secret and self.family.secret in outcome.detail else []
        for what in (*outcome.wrong, *leaks):
            self.kinds[what] += 1
            kept = f"kept/{number}" if self.kinds[what] <= KEPT_OF_A_KIND else ""
            if kept:
                self._keep(self.folder / kept, arguments, outcome)
            self.findings.append(Finding(what, f"{self.seed}/{number}", kept))
        self.family.clear()
        return outcome

    def _keep(self, folder: Path, arguments: list[str], outcome: judge.Outcome) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "outcome.txt").write_text(f"{arguments}\n{outcome}\n", encoding="utf-8", errors="replace")
        (folder / "detail.txt").write_text(outcome.detail, encoding="utf-8", errors="replace")
        for name, path in evidence(self.family.folder).items():
            copy = ["cp", "-r", "--no-dereference", str(path), str(folder / name)]
            subprocess.run(copy, check=False)


def main() -> None:
    """Try inputs and print one record per batch; called by `_child`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("folder", type=Path)
    parser.add_argument("seed", type=int)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("corpus", type=Path, nargs="*")
    given = parser.parse_args()
    work = given.folder / "work"
    work.mkdir()
    family = FAMILIES[given.name](work, given.corpus)
    batch = Batch(given.name, family, given.seed, given.folder)
    batch.family.make(rng_of(given.name, given.seed, -1))
    family.clear()
    judge.limit_memory()
    ends = time.monotonic() + given.seconds
    begun, start = os.open(given.folder / _BEGUN, os.O_WRONLY | os.O_CREAT), given.first
    for number in range(given.first, given.first + given.count):
        os.pwrite(begun, f"{number:<20}".encode(), 0)
        batch.attempt(number)
        over = time.monotonic() > ends
        if number + 1 - start >= BATCH or over or number + 1 == given.first + given.count:
            _print(batch, start, number + 1 - start)
            start = number + 1
        if over:
            break


def _print(batch: Batch, first: int, trials: int) -> None:
    record = {
        "family": f"fuzz:{batch.name}",
        "seed": f"{batch.seed}/{first}",
        "trials": trials,
        "counts": dict(batch.counts),
        "findings": [vars(finding) for finding in batch.findings],
    }
    os.write(1, json.dumps(record).encode() + b"\n")
    batch.counts.clear()
    batch.findings.clear()


if __name__ == "__main__":
    main()
