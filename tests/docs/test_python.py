"""The examples of docs/python.md and docs/notebook.ipynb run, and give the shown results."""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

from docs.documents import ROOT

PAGE = ROOT / "docs/python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("POLARS_TABLE_WIDTH", "120")


def test_the_examples_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path))
    shown = [block for block in BLOCKS if block.startswith(">>>")]
    test = doctest.DocTestParser().get_doctest("\n".join(shown), {}, PAGE.name, str(PAGE), 0)
    said = io.StringIO()
    with contextlib.redirect_stderr(io.StringIO()):
        done = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.write)
    assert len(shown) >= 7
    assert done.attempted >= 15
    assert done.failed == 0, said.getvalue()


@pytest.mark.slow
@pytest.mark.real
def test_the_example_that_measures_measures(tmp_path: Path) -> None:
    (measures,) = [block for block in BLOCKS if not block.startswith(">>>")]
    found: dict[str, Any] = {}
    exec(measures.replace('out="runs"', f"out={str(tmp_path)!r}"), found)
    assert found["sweep"].points["status"].to_list() == ["ok", "ok"]


@pytest.mark.slow
def test_the_cells_of_the_notebook_run_and_print_what_it_holds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without Jupyter: a cell is lines of Python, whose last value is printed; figures are drawn but not shown."""
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path))
    monkeypatch.chdir(ROOT / "docs")
    mpl.use("Agg")
    cells = json.loads((ROOT / "docs/notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {}
    for cell in [cell for cell in cells if cell["cell_type"] == "code"]:
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
            exec("".join(cell["source"]), names)
        held = "".join(line for one in cell["outputs"] if one.get("name") == "stdout" for line in one["text"])
        assert said.getvalue() == held, "".join(cell["source"])
