"""Tests that a command speaks before it loads what only its work needs. Modules are counted; nothing is timed."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest

from bufferlab.cli.app import COMMANDS
from bufferlab.cli.run import KEPT
from bufferlab.results.page_traces import KeepTraces
from support.core import ROOT

#: Each takes a tenth of a second of a processor or more to import.
_HEAVY = ("polars", "numpy", "scipy", "pydantic", "matplotlib")
_ASK = """
import sys
from bufferlab.cli.app import run
code = run(sys.argv[2:])
print("code", code, "loaded", *sorted(set(sys.argv[1].split(",")) & set(sys.modules)))
"""


def _loaded(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _ASK, ",".join(_HEAVY), *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_and_wrong_usage_load_no_heavy_library(command: str) -> None:
    assert _loaded(command, "--help") == "code 0 loaded"
    assert _loaded(command, "--nonsense") == "code 2 loaded"


@pytest.mark.parametrize("kind", ["engines", "workloads", "load", "metrics"])
def test_declarations_are_listed_without_a_heavy_library(kind: str) -> None:
    assert _loaded("list", kind) == "code 0 loaded"


def test_kept_traces_are_those_of_the_schema() -> None:
    assert get_args(KeepTraces) == KEPT
