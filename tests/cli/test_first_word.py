"""Tests that a command prints its first words before it loads the modules that only its work needs. The tests count
modules, and measure no time."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from bufferlab import catalog
from bufferlab.cli.app import COMMANDS
from bufferlab.spec import load
from support.core import ROOT

#: Importing each of these takes a tenth of a second of processor time or more.
_HEAVY = ("polars", "numpy", "scipy", "pydantic", "matplotlib", "psycopg", "pymysql")
#: Libraries and modules that some commands do not need. The last ones are bufferlab's own: each loads many others.
_COUNTED = (
    *_HEAVY,
    *("jinja2", "rich", "ssl", "asyncio", "tomllib", "logging", "tempfile", "statistics"),
    *("bufferlab.results.metrics", "bufferlab.results.schema", "bufferlab.models.predict"),
)
_ASK = """
import sys
from bufferlab.cli.app import run
code = run(sys.argv[2:])
print("code", code, "loaded", *sorted(set(sys.argv[1].split(",")) & set(sys.modules)))
"""
#: Both outputs are terminals here, and note which modules were loaded at the first write to either.
_ASK_AT_FIRST = """
import sys
from bufferlab.cli.app import run
from io import StringIO
first = []
class Terminal(StringIO):
    def isatty(self):
        return True
    def write(self, text):
        if not first:
            first.append(sorted(set(sys.argv[1].split(",")) & set(sys.modules)))
        return super().write(text)
sys.stdout, sys.stderr = Terminal(), Terminal()
run(sys.argv[2:])
words = sys.stderr.getvalue()
print("loaded", *first[0], file=sys.__stdout__)
print(words, end="", file=sys.__stderr__)
"""


def _ask(program: str, *arguments: str, counted: tuple[str, ...] = _HEAVY) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, ",".join(counted), *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )


def _loaded(*arguments: str) -> str:
    return _ask(_ASK, *arguments).stdout.splitlines()[-1]


#: Runs all commands in turn in one process, so a module that one command loads also shows in all later ones.
_ASK_OF_ALL = """
import sys
from bufferlab.cli.app import run
for command in sys.argv[2:]:
    for option in ("--help", "--nonsense"):
        code = run([command, option])
        print("of", command, option, code, *sorted(set(sys.argv[1].split(",")) & set(sys.modules)))
"""


def test_help_and_wrong_usage_load_no_heavy_library() -> None:
    told = [line for line in _ask(_ASK_OF_ALL, *COMMANDS).stdout.splitlines() if line.startswith("of ")]
    expected = [(command, *ends) for command in COMMANDS for ends in (("--help", 0), ("--nonsense", 2))]
    assert told == [f"of {command} {option} {code}" for command, option, code in expected]


@pytest.mark.parametrize("kind", [[], ["experiments"], ["engines"], ["workloads"], ["load"], ["metrics"]])
def test_declarations_are_listed_without_a_heavy_library(kind: list[str]) -> None:
    assert _loaded("list", *kind) == "code 0 loaded"


def _work_loads(*arguments: str, more: tuple[str, ...] = ()) -> list[str]:
    """Return a command's exit code, then the names of the counted modules, and of `more`, that it loaded."""
    _, code, _, *loaded = _ask(_ASK, *arguments, counted=(*_COUNTED, *more)).stdout.splitlines()[-1].split()
    return [code, *loaded]


def test_help_of_all_loads_none_of_the_counted_modules() -> None:
    assert _work_loads("--help") == ["0"]


def test_a_list_loads_declarations_alone() -> None:
    more = ("shutil", "bufferlab.results.check_parts", "bufferlab.engines.servers.existing.address")
    assert _work_loads("list", more=more) == ["0", "tomllib"]


@pytest.mark.parametrize("file", ["page-size.txt", "clean.txt"])
def test_an_audit_loads_no_library_of_arrays_and_no_metric(file: str) -> None:
    assert _work_loads("audit", f"tests/fixtures/audit/{file}") == ["0", "rich", "statistics"]


@pytest.mark.parametrize("command", ["observe", "advise"])
@pytest.mark.parametrize("scheme", ["mysql", "postgres"])
def test_a_look_that_reaches_no_server_loads_no_table_no_schema_and_no_other_client(command: str, scheme: str) -> None:
    loaded = _work_loads(command, f"{scheme}://somebody@127.0.0.1:1/lab")
    assert loaded[0] == "3"
    assert not {*loaded} & ({*_HEAVY, "ssl", "asyncio", "rich", "jinja2"} - {"numpy"})
    assert "bufferlab.results.schema" not in loaded
    assert "bufferlab.models.predict" not in loaded


def test_a_curve_of_records_loads_arrays_and_neither_tables_nor_a_schema(tmp_path: Path) -> None:
    file = tmp_path / "trace.oracleGeneral"
    file.write_bytes(b"".join(struct.pack("<IQIq", second, second % 3, 4096, -1) for second in range(9)))
    loaded = _work_loads("curve", str(file))
    assert loaded[0] == "0"
    assert {*loaded} & {*_HEAVY} == {"numpy"}
    assert "bufferlab.results.schema" not in loaded


def test_tables_of_a_sweep_load_neither_figures_nor_pages(tmp_path: Path) -> None:
    sweep = shutil.copytree(ROOT / "tests/fixtures/sweeps/after", tmp_path / "sweep")
    pages = ("bufferlab.report.html", "bufferlab.report.markdown", "bufferlab.report.figures.svg")
    code, *loaded = _work_loads("report", str(sweep), "--format", "csv", more=pages)
    assert code == "0"
    assert not {*loaded} & {"matplotlib", "jinja2", "psycopg", "pymysql", "rich", "ssl", "asyncio", *pages}


def test_a_listed_experiment_is_the_one_that_runs() -> None:
    for head in catalog.heads():
        experiment = load(head.name)
        assert head == catalog.Head(
            experiment.name,
            experiment.question,
            experiment.engine,
            experiment.workload.name,
            tuple(experiment.sweep),
        )


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "no-such-experiment"],
        ["predict", "no-such-run"],
        ["compare", "no-such-a", "no-such-b"],
        ["accuracy", "no-such-a", "no-such-b"],
        ["report", "no-such-run"],
        ["curve", "no-such-file.csv"],
        ["audit", "no-such-file.log"],
        ["doctor"],
        ["engines"],
    ],
    ids=lambda arguments: str(arguments[0]),
)
def test_the_first_words_come_before_any_heavy_library(arguments: list[str]) -> None:
    assert _ask(_ASK_AT_FIRST, *arguments).stdout == "loaded\n"


def test_words_of_the_beginning_give_way_to_those_that_follow() -> None:
    words = _ask(_ASK_AT_FIRST, "run", "no-such-experiment").stderr
    begun, blank, error = words.split("\n", 2)  # Each carriage return counts as a line break here.
    assert begun == "reading the experiment ..."
    assert blank == " " * len(begun)
    assert error.startswith('error: no experiment "no-such-experiment"')


def test_a_log_has_no_words_of_the_beginning() -> None:
    assert _ask(_ASK, "run", "no-such-experiment").stderr.startswith("error:")
