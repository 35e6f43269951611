"""tools/mutate: a seed gives the same sample; which changes it leaves out, and which it need not try again."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from support.core import ROOT


@pytest.fixture
def mutate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return import_module("mutate")


def test_a_seed_takes_the_same_mutants_in_whatever_order_they_are_listed(mutate: ModuleType) -> None:
    mutants = [mutate.Mutant("a.py", line, name, None) for line in range(30) for name in "xy"]
    taken = mutate.sampled(mutants, 1)
    assert mutate.sampled(list(reversed(mutants)), 1) == taken
    assert sorted(taken, key=lambda one: (one.line, one.name)) == mutants
    assert mutate.sampled(mutants, 2) != taken
    more = [*mutants, mutate.Mutant("b.py", 1, "z", None)]
    assert [one for one in mutate.sampled(more, 1) if one.file == "a.py"] == taken, "other files change nothing"


def test_annotations_are_never_evaluated_and_so_never_changed(mutate: ModuleType) -> None:
    source = "def f(a: int | None, b=1 | 2) -> str | None:\n    c: int = 3 | 4\n"
    places = sorted(mutate._annotations(source))
    lines = source.splitlines()
    assert [lines[row - 1][column:end] for (row, column), (_, end) in places] == ["int | None", "str | None", "int"]


def test_what_was_caught_is_not_tried_again_until_its_file_changes(
    mutate: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("x = 1\n")
    mutant = mutate.Mutant("a.py", 1, "x = 2", None)
    mutate.Kept(tmp_path / "caught").add(mutant)
    assert mutate.Kept(tmp_path / "caught").has(mutant)
    assert not mutate.Kept(tmp_path / "caught").has(mutate.Mutant("a.py", 1, "x = 3", None))
    (tmp_path / "a.py").write_text("x = 1  # more\n")
    assert not mutate.Kept(tmp_path / "caught").has(mutant)


def test_every_equivalent_mutant_is_of_a_line_that_exists_and_has_a_reason() -> None:
    for one in tomllib.loads((ROOT / "tools/mutants.toml").read_text(encoding="utf-8"))["equivalent"]:
        lines = {line.strip() for line in (ROOT / one["file"]).read_text(encoding="utf-8").splitlines()}
        assert one["line"] in lines, one
        assert one["mutant"] != one["line"]
        assert one["reason"].endswith("."), one


def test_the_files_that_are_changed_and_their_tests_exist(mutate: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for pattern, tests in mutate.Python.tests_of.items():
        assert list(ROOT.glob(pattern)), pattern
        assert [test for test in tests if not (ROOT / test).exists()] == []
