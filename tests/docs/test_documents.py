"""Statements of the documents are true: commands run, paths exist, links lead to a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.commands import EXCUSED, RUN
from docs.documents import ROOT, console_commands, documents, fence_languages, named_paths, tree_paths

pytestmark = pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))


def test_every_console_command_is_run_here_or_excused(document: Path) -> None:
    unknown = [command for command in console_commands(document) if command not in RUN and command not in EXCUSED]
    assert unknown == [], "add them to RUN or, with a reason, to EXCUSED in tests/docs/commands.py"


def test_every_path_that_a_document_names_exists(document: Path) -> None:
    def found(path: str) -> bool:
        # A link is relative to its document; a path in the text is usually relative to the root or to the package.
        places = (document.parent, ROOT, ROOT / "python/bufferlab")
        return any((place / path).exists() for place in places)

    named = [*named_paths(document), *tree_paths(document)]
    assert [path for path in named if not found(path)] == []


def test_every_fenced_block_says_what_it_is(document: Path) -> None:
    known = {"console", "text", "toml", "sql", "python", "rust", "json"}
    assert [language for language in fence_languages(document) if language not in known] == []


def test_a_document_has_one_title_on_its_first_line(document: Path) -> None:
    lines = document.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
