"""Parts of ./test --all: every test is in one part, and an interrupted part continues where it stopped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import parts
from support.core import ROOT


@given(st.dictionaries(st.text("abc", min_size=1), st.floats(0, 1000), max_size=40), st.integers(1, 7))
def test_every_test_is_in_one_part_and_no_part_is_longer_than_the_others_by_more_than_a_test(
    costs: dict[str, float], of: int
) -> None:
    found = parts.divided(costs, of)
    assert found.keys() == costs.keys()
    assert set(found.values()) <= set(range(1, of + 1))
    sums = [sum(costs[name] for name, part in found.items() if part == number) for number in range(1, of + 1)]
    assert max(sums) - min(sums) <= max(costs.values(), default=0.0) + 1e-6
    assert parts.divided(dict(reversed(costs.items())), of) == found, "the order of the tests is no matter"


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/2/3", "-1/2", "01/2"])
def test_a_text_that_names_no_part_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no part"):
        parts.parsed(text)


def test_the_durations_are_of_tests_that_exist() -> None:
    known = parts.durations(parts.DURATIONS.read_text(encoding="utf-8"))
    gone = [name for name in known if not (ROOT / name.partition("::")[0]).is_file()]
    assert gone == []


TESTS = """\
import os, pathlib, pytest

def test_one(): pass
def test_two(): pytest.skip("no such disk")
def test_three(): assert pathlib.Path("good").exists()
def test_four():
    if not pathlib.Path("alive").exists(): os._exit(9)
@pytest.mark.alone
def test_five(): pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_project.py").write_text(TESTS)
    (tmp_path / "tests/conftest.py").write_text('pytest_plugins = ["support.parts"]\n')
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\nmarkers =\n    alone\n")
    return tmp_path


def run(project: Path, part: str, *arguments: str) -> tuple[int, str]:
    """Return exit code and summary of a part, and the tests that ran in it."""
    # The same lines as in ./test.
    script = f"ROOT={project}; . {ROOT}/tools/steps.sh; tree_state() {{ echo kept; }}; keep_outcomes {part}"
    script += "; echo ${KEPT[@]}"
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()
    command = [sys.executable, "-m", "pytest", "-p", "xdist", *said, "-v", *arguments]
    # Without hypothesis, whose import takes as long as these tests.
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def ran(text: str) -> set[str]:
    """Return the tests in the list of -v: one process prints the outcome after the name, lanes print it before."""
    listed = re.findall(r"(?:^|(?:PASSED|SKIPPED|FAILED) )tests/test_project\.py::(test_\w+) ", text, re.MULTILINE)
    return set(listed)


def test_an_interrupted_part_goes_on_where_it_stopped_and_failed_tests_run_again(project: Path) -> None:
    run(project, "1/1")
    kept = parts.Outcomes(project / "target/test-parts/kept")
    assert {name.split("::")[1]: one.word for name, one in kept.ended().items()} == {
        "test_one": "passed", "test_two": "skipped", "test_three": "failed",
    }  # fmt: skip
    (project / "alive").touch()
    (project / "good").touch()
    code, text = run(project, "1/1")
    assert code == 0
    assert ran(text) == {"test_three", "test_four", "test_five"}
    code, text = run(project, "1/1")
    assert (code, ran(text)) == (0, set())
    assert parts.summary(kept, 1).splitlines() == [
        "on this state of the tree: 4 passed, 1 skipped, 0 failed, 0 not run",
        "  skipped: 1 tests: no such disk",
    ]


def test_the_parts_run_every_test_once_and_what_did_not_run_is_told(project: Path) -> None:
    (project / "alive").touch()
    kept = parts.Outcomes(project / "target/test-parts/kept")
    # The test marked `alone` counts three times, for three lanes, so its part has only one other test.
    assert ran(run(project, "1/2", "-m", "not alone")[1]) == {"test_two"}
    assert parts.summary(kept, 2).splitlines() == [
        "on this state of the tree: 0 passed, 1 skipped, 0 failed, 4 not run",
        "  not run: 1 tests: ./test --all --part 1/2",
        "  not run: 3 tests: ./test --all --part 2/2",
        "  skipped: 1 tests: no such disk",
    ]
    assert ran(run(project, "1/2", "-m", "alone")[1]) == {"test_five"}
    assert ran(run(project, "2/2", "-n", "2", "-m", "not alone")[1]) == {"test_one", "test_three", "test_four"}
    assert run(project, "2/2", "-m", "alone")[0] == 0, "a part may have no test of a kind"
    assert run(project, "2/2", "-n", "2", "-m", "alone")[0] == 0
    assert parts.summary(kept, 2).splitlines()[:2] == [
        "on this state of the tree: 3 passed, 1 skipped, 1 failed, 0 not run",
        "  failed: tests/test_project.py::test_three",
    ]


def test_a_part_that_cannot_be_is_refused_before_anything_is_set_up() -> None:
    for words in (["--part", "3/2"], ["--part"], ["--part", "1"], ["1/2"]):
        done = subprocess.run([ROOT / "test", "--all", *words], capture_output=True, text=True, timeout=20, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("usage: ./test")


def test_outcomes_belong_to_one_state_of_the_tree(tmp_path: Path) -> None:
    def state() -> str:
        script = f"ROOT={tmp_path}; . {ROOT}/tools/steps.sh; tree_state"
        alone = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=alone, capture_output=True, text=True, check=True
        )
        return done.stdout

    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("*.so\n")
    (tmp_path / "a").write_text("1")
    before = state()
    (tmp_path / "core.so").write_text("built")
    assert state() == before
    (tmp_path / "a").write_text("2")
    assert state() != before
