"""docs/schemas describes the output of the commands with --json, and docs/columns.md the contents of the Parquet files.

UPDATE_SNAPSHOTS=1 writes docs/schemas anew; a changed schema is a changed interface.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bufferlab.cli.app import COMMANDS
from bufferlab.results import schema as stored
from docs.documents import ROOT
from support.fake import Bench
from support.json_documents import DOCUMENTS, schema

SCHEMAS = ROOT / "docs/schemas"
SWEEPS = ROOT / "tests/fixtures/sweeps"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_schema_in_the_repository_is_that_of_the_types(name: str) -> None:
    file = SCHEMAS / f"{name}.json"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        file.write_text(schema(name), encoding="utf-8")
    assert file.read_text(encoding="utf-8") == schema(name)


def test_every_schema_is_of_a_document_and_every_command_has_one() -> None:
    assert {file.stem for file in SCHEMAS.glob("*.json")} == set(DOCUMENTS)
    shown = " ".join(one.__doc__ or "" for one in DOCUMENTS.values())
    assert [command for command in COMMANDS if f"`{command}" not in shown] == []


def _predicted(bench: Bench) -> Path:
    bench.bufferlab("predict", SWEEPS / "traced", "--sweep", "pool_size=10%,20%,40%", "--out", bench.out)
    return bench.sweep_path()


def _copied(bench: Bench) -> Path:
    """Return a copy of a sweep, into which a report may be written."""
    return Path(shutil.copytree(SWEEPS / "before", bench.out / "before"))


CALLS: dict[str, Callable[[Bench], tuple[str | Path, ...]]] = {
    "audit": lambda _: ("audit", ROOT / "tests/fixtures/audit/page-size.txt"),
    "cache-list": lambda _: ("cache", "list"),
    "cache-prune": lambda _: ("cache", "prune", "--dry-run"),
    "compare": lambda _: (
        "compare", SWEEPS / "before", SWEEPS / "after", "--fail-if", "reads_per_new_order worse 5%",
    ),
    "curve": lambda _: ("curve", SWEEPS / "traced", "--by", "table"),
    "doctor": lambda _: ("doctor",),
    "dry-run": lambda _: ("run", "buffer-size", "--dry-run"),
    "engines": lambda _: ("engines",),
    "error": lambda _: ("report", "nowhere"),
    "history": lambda _: (
        "history", SWEEPS / "before", SWEEPS / "after", "--fail-if", "reads_per_new_order worse 5%",
    ),
    "list": lambda _: ("list",),
    "list-runs": lambda _: ("list", "runs", SWEEPS),
    "predict": lambda bench: ("predict", SWEEPS / "traced", "--out", bench.out),
    "report": lambda bench: ("report", _copied(bench)),
    "script-from-slow-log": lambda bench: (
        "script-from-slow-log", ROOT / "tests/fixtures/slow-log/mysql-5.7.log", "-o", bench.root.parent / "mine.sql",
    ),
    "accuracy": lambda bench: ("accuracy", SWEEPS / "before", _predicted(bench)),
}  # fmt: skip


#: Commands that also draw the figures of a report.
SLOW = ("accuracy", "report")


#: Commands that need a server: tests/cli/test_observe_command.py, tests/cli/test_learn_command.py and
#: tests/unit/test_advise.py compare their output with its type.
OF_A_SERVER = ("advise", "learn", "learn-show", "observe")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name
        for name in DOCUMENTS
        if name not in OF_A_SERVER
    ],
)
def test_what_the_command_prints_fits_its_schema(name: str, bench: Bench) -> None:
    printed = bench.bufferlab(*CALLS[name](bench), "--json").json
    DOCUMENTS[name].model_validate(printed)


def test_a_key_that_no_schema_names_is_found(bench: Bench) -> None:
    printed = bench.bufferlab("report", "nowhere", "--json").json
    with pytest.raises(ValueError, match="surprise"):
        DOCUMENTS["error"].model_validate({**printed, "surprise": 1})


TABLES = {
    "samples.parquet": stored.SAMPLE_COLUMNS,
    "latency.parquet": stored.LATENCY_COLUMNS,
    "block-trace.parquet": stored.BLOCK_TRACE_COLUMNS,
    "page-trace.parquet": stored.page_trace_words().columns,
    "summary.parquet": stored.SUMMARY_COLUMNS,
}


def test_the_page_of_columns_has_every_column_of_every_file_with_its_type() -> None:
    page = (ROOT / "docs/columns.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## `([\w.-]+)`\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    told = {
        name: dict(re.findall(r"^\| `(\w+)` \| (\w+) \| .+ \|$", text, re.MULTILINE)) for name, text in sections.items()
    }
    assert told == TABLES
    assert f"format version {stored.FORMAT_VERSION}" in page
