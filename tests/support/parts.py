"""A plug-in of pytest for `./test --all`: runs one part of the tests, and stores the outcome of each test.

By the durations in tests/durations.txt all parts take equally long. Outcomes go to a folder for the present state of
the tree: a test that passed or was skipped in this state does not run again. `python -m support.parts` lists the tests
that did not run, and why; with --durations it prints what tests/durations.txt should hold.
"""

from __future__ import annotations

import argparse
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

DURATIONS = Path(__file__).parents[1] / "durations.txt"
#: Assumed seconds of a test without a recorded duration, without and with the mark slow.
_UNKNOWN_S, _UNKNOWN_SLOW_S = 0.5, 30.0
#: The shortest test that tests/durations.txt lists.
_LISTED_S = 3.0
#: ./test runs this many lanes at once. A test with the mark alone runs without another lane.
_LANES = 3
_DONE = ("passed", "skipped")


def parsed(text: str) -> tuple[int, int]:
    """Return N and M of "N/M"; ValueError for other texts."""
    found = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if not found or int(found[1]) > int(found[2]):
        raise ValueError(f"{text!r} is no part: N/M with N from 1 to M, such as 2/4")
    return int(found[1]), int(found[2])


def divided(costs: Mapping[str, float], parts: int) -> dict[str, int]:
    """Return the part of each test, from 1 on: the longest test goes first, and each test goes to the part with the
    least time so far."""
    sums = [0.0] * parts
    found = {}
    for name in sorted(costs, key=lambda name: (-costs[name], name)):
        part = sums.index(min(sums))
        sums[part] += costs[name]
        found[name] = part + 1
    return found


def durations(text: str) -> dict[str, float]:
    """Return seconds by test, from lines with both; lines that begin with # are left out."""
    lines = (line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(seconds) for seconds, name in lines}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a test: passed, failed or skipped, and why it was skipped."""

    word: str
    seconds: float
    reason: str = ""


@dataclass(frozen=True)
class Outcomes:
    """The folder of outcomes: a line for each finished test, the part of each test, and the tests not to run again."""

    folder: Path

    def add(self, name: str, outcome: Outcome) -> None:
        """Add the outcome of a test."""
        words = (outcome.word, f"{outcome.seconds:.1f}", name, " ".join(outcome.reason.split()))
        with (self.folder / "outcomes").open("a", encoding="utf-8") as file:
            file.write("\t".join(words) + "\n")

    def ended(self) -> dict[str, Outcome]:
        """Return the last outcome of each finished test."""
        lines = (line.split("\t") for line in self._lines("outcomes"))
        # A killed process may have left half a line.
        return {words[2]: Outcome(words[0], float(words[1]), words[3]) for words in lines if len(words) == 4}

    def begin(self) -> None:
        """Store the list of finished tests: a lane that starts later must collect the same tests."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write("done", (name for name, outcome in self.ended().items() if outcome.word in _DONE))

    def done(self) -> set[str]:
        """Return the tests that were finished when this call of ./test began."""
        return set(self._lines("done"))

    def divide(self, part_of: Mapping[str, int]) -> None:
        """Store the part of each test."""
        self._write("parts", (f"{part}\t{name}" for name, part in part_of.items()))

    def part_of(self) -> dict[str, int]:
        """Return the part of each test."""
        return {name: int(part) for part, name in (line.split("\t") for line in self._lines("parts"))}

    def _lines(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    def _write(self, name: str, lines: Iterable[str]) -> None:
        new = self.folder / f"{name}.{os.getpid()}"
        new.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        new.replace(self.folder / name)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options that ./test --all passes."""
    group = parser.getgroup("parts")
    group.addoption("--part", metavar="N/M", default="1/1", help="of --outcomes: run one of M parts of the tests")
    group.addoption("--outcomes", metavar="DIR", help="keep outcomes in a folder; run only what it has no outcome of")


def pytest_configure(config: pytest.Config) -> None:
    """Store outcomes if the options ask for it."""
    if config.getoption("outcomes"):
        config.pluginmanager.register(_Parts(config))


class _Parts:
    def __init__(self, config: pytest.Config) -> None:
        self.outcomes = Outcomes(Path(config.getoption("outcomes")))
        self.number, self.of = parsed(config.getoption("part"))
        self.heard: dict[str, list[pytest.TestReport]] = {}
        self.lane = getattr(config, "workerinput", {}).get("workerid")
        if not self.lane:
            self.outcomes.begin()

    # This hook runs first, so that it also divides the tests that other options deselect.
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        known = durations(DURATIONS.read_text(encoding="utf-8"))
        part_of = divided({item.nodeid: _cost(item, known) for item in items}, self.of)
        if self.lane in (None, "gw0"):
            self.outcomes.divide(part_of)
        done = self.outcomes.done()
        chosen = [item for item in items if part_of[item.nodeid] == self.number and item.nodeid not in done]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
        items[:] = chosen

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reports = self.heard.setdefault(report.nodeid, [])
        reports.append(report)
        if report.when == "teardown" and not self.lane:
            self.outcomes.add(report.nodeid, _outcome(self.heard.pop(report.nodeid)))

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        # A part may have no test of some kind.
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK


def _cost(item: pytest.Item, known: Mapping[str, float]) -> float:
    unknown = _UNKNOWN_SLOW_S if item.get_closest_marker("slow") else _UNKNOWN_S
    return known.get(item.nodeid, unknown) * (_LANES if item.get_closest_marker("alone") else 1)


def _outcome(reports: list[pytest.TestReport]) -> Outcome:
    seconds = sum(report.duration for report in reports)
    if any(report.failed for report in reports):
        return Outcome("failed", seconds)
    skipped = [report.longrepr for report in reports if report.skipped]
    if skipped:
        told = skipped[0]
        return Outcome("skipped", seconds, str(told[2] if isinstance(told, tuple) else told).removeprefix("Skipped: "))
    return Outcome("passed", seconds)


def summary(outcomes: Outcomes, parts: int) -> str:
    """Return a summary of all tests in this state of the tree: those that did not run, with the reasons."""
    ended, part_of = outcomes.ended(), outcomes.part_of()
    words = Counter(ended[name].word if name in ended else "not run" for name in part_of)
    lines = [
        "on this state of the tree: " + ", ".join(f"{words[word]:,} {word}" for word in (*_DONE, "failed", "not run"))
    ]
    lines += [f"  failed: {name}" for name in part_of if name in ended and ended[name].word == "failed"]
    missing = Counter(part for name, part in part_of.items() if name not in ended)
    lines += [
        f"  not run: {count:,} tests: ./test --all --part {part}/{parts}" for part, count in sorted(missing.items())
    ]
    reasons = Counter(ended[name].reason for name in part_of if name in ended and ended[name].word == "skipped")
    lines += [f"  skipped: {count} tests: {reason}" for reason, count in sorted(reasons.items())]
    return "\n".join(lines)


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", default="1/1", type=parsed)
    parser.add_argument("--durations", action="store_true")
    given = parser.parse_args()
    if given.durations:
        known = durations(DURATIONS.read_text(encoding="utf-8"))
        known.update(
            (name, one.seconds) for name, one in Outcomes(given.folder).ended().items() if one.word == "passed"
        )
        listed = sorted((name, seconds) for name, seconds in known.items() if seconds >= _LISTED_S)
        print("\n".join(f"{seconds:6.0f} {name}" for name, seconds in listed))
    else:
        print(summary(Outcomes(given.folder), given.part[1]))


if __name__ == "__main__":
    _main()
