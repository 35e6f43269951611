"""Every example in a docstring of the package runs and gives the stated result."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import bufferlab

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(bufferlab.__path__, "bufferlab.")
    if module.name not in {"bufferlab.__main__", "bufferlab._native"}
)


def test_the_examples_in_docstrings_are_true() -> None:
    found = [test for name in MODULES for test in doctest.DocTestFinder().find(import_module(name), name)]
    runner = doctest.DocTestRunner()
    # Running a docstring reads its module's file; skipping those without an example saves most of the time.
    outcomes = {test.name: runner.run(test) for test in found if test.examples}
    assert sum(outcome.attempted for outcome in outcomes.values()) >= 50
    assert [name for name, outcome in outcomes.items() if outcome.failed] == []
