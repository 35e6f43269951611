"""Samples mutants of the pure code, runs each one's unit tests, and lists the mutants that survive. See tools/mutate.

cargo-mutants makes the mutants of Rust, cosmic-ray those of Python; both change a copy of the tree. A caught mutant is
tried again only after its file has changed; a survivor is tried again each time.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parents[1]
OWN = ROOT / "target/mutate"
LIMIT = 0.15
"""The largest share of mutants that may survive."""


@dataclass(frozen=True)
class Mutant:
    """One small change of a file, identified by its place and by its tool's name for it."""

    file: str
    line: int
    name: str
    handle: Any = field(compare=False)
    """The object from which the tool makes the mutant."""


class Mutants(Protocol):
    """The mutants of one language. The current folder is the copy of the tree."""

    def all(self) -> list[Mutant]:
        """Return all mutants."""

    def told(self, mutant: Mutant) -> str | None:
        """Return a description of the change, without its place; None if the result is clearly not a valid program."""

    def tests(self, mutant: Mutant) -> tuple[str, ...]:
        """Return the command that runs the tests of the mutant's file."""

    def is_caught(self, mutant: Mutant) -> bool | None:
        """Return whether a test fails with the mutant; None if it is not a valid program."""


class Rust:
    """The mutants of the simulators, in Rust."""

    package = "bufferlab-sim"
    timeout_s = 40

    def all(self) -> list[Mutant]:
        told = json.loads(self._mutants("--list", "--json"))
        return [Mutant(one["file"], one["span"]["start"]["line"], one["name"], None) for one in told]

    def told(self, mutant: Mutant) -> str:
        return mutant.name.partition(": ")[2]

    def tests(self, mutant: Mutant) -> tuple[str, ...]:
        return ("cargo", "test", "--quiet", "--package", self.package)

    def is_caught(self, mutant: Mutant) -> bool | None:
        how = ("--in-place", "--baseline", "skip", "--timeout", str(self.timeout_s), "--output", str(OWN))
        # Version 27 also tries to delete fields, even if --re does not match.
        others = () if "delete field" in mutant.name else ("--exclude-re", "delete field")
        self._mutants(*how, "--re", f"^{re.escape(mutant.name)}$", *others)
        told = json.loads((OWN / "mutants.out/outcomes.json").read_text(encoding="utf-8"))["outcomes"]
        words = [one["summary"] for one in told if one["scenario"]["Mutant"]["name"] == mutant.name]
        if len(words) != 1:
            sys.exit(f"cargo-mutants did not try {mutant.name}")
        return {"CaughtMutant": True, "Timeout": True, "MissedMutant": False, "Unviable": None}[words[0]]

    def _mutants(self, *arguments: str) -> str:
        # Both its exit code and its file show the mutant's outcome.
        command = ["cargo", "mutants", "--package", self.package, *arguments]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout


def _tests(*names: str) -> list[str]:
    return [f"tests/unit/test_{name}.py" for name in names]


#: The tests of stats, without those that simulate sweeps, which take more than a minute.
STATS = _tests(*(f"stats_{name}" for name in ("best", "fit", "knee", "series", "trend", "turn", "verdict")))
RESULTS = _tests(
    *(
        f"results_{name}"
        for name in (
            "derive",
            "formulas",
            "checks_of_every_engine",
            "metrics",
            "gaps",
            "standstill",
            "drift",
            "timeline",
        )
    )
)


class Python:
    """The mutants, in Python, of statistics, formulas of results, rules of audits, and plans."""

    tests_of: Mapping[str, Sequence[str]] = {
        "python/bufferlab/stats/*.py": STATS,
        "python/bufferlab/stats/comparison.py": _tests("stats_compare"),
        "python/bufferlab/stats/noise.py": _tests("noise"),
        "python/bufferlab/stats/factors.py": _tests("random_read_parts"),
        "python/bufferlab/stats/hosts.py": _tests("report_hosts"),
        **{f"python/bufferlab/stats/{name}.py": _tests("stats_changes") for name in ("changes", "levels")},
        **{
            f"python/bufferlab/results/{name}.py": RESULTS
            for name in ("drift", "metrics", "quantity", "registry", "gaps", "checks_of_every_engine", "window")
        },
        "python/bufferlab/engines/*/metrics.py": _tests("results_formulas", "results_innodb", "results_postgres"),
        "python/bufferlab/engines/file/results.py": _tests("results_formulas", "random_read_parts"),
        "python/bufferlab/audit/rules/*.py": _tests("audit_rules", "audit_planted", "audit_borders", "audit_load"),
        "python/bufferlab/plan/*.py": _tests("plan", "plan_settings"),
    }
    timeout_s = 600.0

    def __init__(self) -> None:
        found = ((str(file), tests) for pattern, tests in self.tests_of.items() for file in Path().glob(pattern))
        self._tests = dict(found)
        self._sources = {file: Path(file).read_text(encoding="utf-8") for file in self._tests}

    def all(self) -> list[Mutant]:
        from cosmic_ray.commands import init
        from cosmic_ray.work_db import WorkDB, use_db

        with use_db(OWN / "python.sqlite", WorkDB.Mode.create) as db:
            init([Path(file) for file in self._tests], db, {})
            made = [item.mutations[0] for item in db.work_items]
        unread = {file: list(_annotations(text)) for file, text in self._sources.items()}
        return [
            Mutant(str(one.module_path), one.start_pos[0], f"{one.start_pos} {one.operator_name} {one.occurrence}", one)
            for one in made
            if not any(start <= tuple(one.start_pos) < end for start, end in unread[str(one.module_path)])
        ]

    def told(self, mutant: Mutant) -> str | None:
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator

        operator = get_operator(mutant.handle.operator_name)(**mutant.handle.operator_args)
        source = self._sources[mutant.file]
        changed = mutate_code(source, operator, mutant.handle.occurrence)
        try:
            compile(changed, mutant.file, "exec")
        except SyntaxError:
            return None
        pairs = zip(source.splitlines(), changed.splitlines(), strict=False)
        return next((new.strip() for old, new in pairs if old != new), None)

    def tests(self, mutant: Mutant) -> tuple[str, ...]:
        return self._pytest(self._tests[mutant.file])

    def is_caught(self, mutant: Mutant) -> bool | None:
        from cosmic_ray.mutating import mutate_and_test
        from cosmic_ray.work_item import TestOutcome, WorkerOutcome

        # The tests named after the file catch most mutants, so they run first.
        stem = Path(mutant.file).stem
        tests = sorted(self._tests[mutant.file], key=lambda test: (stem not in test, test))
        result = mutate_and_test([mutant.handle], " ".join(self._pytest(tests)), self.timeout_s)
        return result.test_outcome == TestOutcome.KILLED if result.worker_outcome == WorkerOutcome.NORMAL else None

    def _pytest(self, tests: Sequence[str]) -> tuple[str, ...]:
        # Write no compiled modules: a file written twice in a second would be taken for the version compiled before.
        words = ("env", "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=python", os.environ["BUFFERLAB_TESTS_PYTHON"], "-P")
        return (*words, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests)


def _annotations(source: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield the places of annotations, which are never evaluated, as (line, column) of begin and end."""
    for node in ast.walk(ast.parse(source)):
        for one in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if one is not None:
                yield (one.lineno, one.col_offset), (one.end_lineno, one.end_col_offset)


def copy_to(tree: Path) -> None:
    """Update the copy from the tree, but keep what cargo built there."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")[:-1]
    names += [str(core.relative_to(ROOT)) for core in (ROOT / "python/bufferlab").glob("_native*.so")]
    for file in tree.rglob("*") if tree.exists() else ():
        name = str(file.relative_to(tree))
        if not name.startswith("target/") and not file.is_dir() and name not in names:
            file.unlink()
    for name in names:
        new, old = ROOT / name, tree / name
        if new.is_file() and not (old.is_file() and old.read_bytes() == new.read_bytes()):
            old.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(new, old)
        elif new.is_symlink() and not old.is_symlink():
            old.symlink_to(os.readlink(new))


class Kept:
    """The list of caught mutants, in a file. A line is valid only for one content of the mutant's source file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._caught = set(file.read_text(encoding="utf-8").splitlines()) if file.exists() else set()

    def has(self, mutant: Mutant) -> bool:
        """Return whether the mutant was caught."""
        return self._line(mutant) in self._caught

    def add(self, mutant: Mutant) -> None:
        """Note that the mutant was caught."""
        with self._file.open("a", encoding="utf-8") as file:
            file.write(self._line(mutant) + "\n")

    def _line(self, mutant: Mutant) -> str:
        content = sha256(Path(mutant.file).read_bytes()).hexdigest()[:16]
        return f"{content} {mutant.file} {mutant.name}"


def sampled(mutants: Sequence[Mutant], seed: int) -> list[Mutant]:
    """Return all mutants in the order in which a sample with this seed takes them.

    If a file changes, the order of other files' mutants stays the same.
    """
    return sorted(mutants, key=lambda one: sha256(f"{seed} {one.file} {one.line} {one.name}".encode()).digest())


def main() -> int:
    """Try a sample of mutants; return 1 if too many survive."""
    parser = argparse.ArgumentParser(prog="tools/mutate", description=__doc__)
    parser.add_argument("language", choices=("rust", "python"))
    parser.add_argument("--sample", type=int, default=100, metavar="N", help="try N mutants (100)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    given = parser.parse_args()
    tree = OWN / f"{given.language}-tree"
    copy_to(tree)
    os.chdir(tree)
    mutants: Mutants = Rust() if given.language == "rust" else Python()
    everyone = mutants.all()
    equivalent = {
        (one["file"], one["line"], one["mutant"])
        for one in tomllib.loads((ROOT / "tools/mutants.toml").read_text(encoding="utf-8"))["equivalent"]
    }
    kept = Kept(OWN / f"{given.language}.caught")
    order = sampled(everyone, given.seed)
    caught, survivors, left_out = 0, [], 0
    passing: set[tuple[str, ...]] = set()
    for mutant in order:
        if caught + len(survivors) == given.sample:
            break
        line, told = (
            Path(mutant.file).read_text(encoding="utf-8").splitlines()[mutant.line - 1].strip(),
            mutants.told(mutant),
        )
        if told is None:
            continue
        if (mutant.file, line, told) in equivalent:
            left_out += 1
            continue
        if not kept.has(mutant):
            if (tests := mutants.tests(mutant)) not in passing:
                if subprocess.run(tests, check=False, stdout=subprocess.DEVNULL).returncode != 0:
                    sys.exit(f"the tests fail without a mutant: {' '.join(tests)}")
                passing.add(tests)
            is_caught = mutants.is_caught(mutant)
            if is_caught is None:
                continue
            word = "caught" if is_caught else "SURVIVED"
            print(
                f"{caught + len(survivors) + 1:4} {word:8} {mutant.file}:{mutant.line}: {line}  ->  {told}", flush=True
            )
            if not is_caught:
                survivors.append(f"{mutant.file}:{mutant.line}\n    line   = {line!r}\n    mutant = {told!r}")
                continue
            kept.add(mutant)
        caught += 1
    tried = caught + len(survivors)
    print("\n".join(["", *survivors]))
    print(f"{given.language}: {tried} of {len(everyone):,} mutants, {caught} caught, {len(survivors)} survived "
          f"({len(survivors) / tried:.0%}), {left_out} equivalent ones left out")  # fmt: skip
    return int(len(survivors) > LIMIT * tried)


if __name__ == "__main__":
    sys.exit(main())
