"""Engines hand in their part of the results before a run is read."""

from __future__ import annotations

import subprocess
import sys


def test_a_run_read_before_any_engine_has_handed_in_its_results_is_a_bug_that_says_so() -> None:
    code = "from bufferlab.results.check import results_of; results_of('mysql')"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "no engine has handed in its results" in done.stderr
