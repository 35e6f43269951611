"""Words that are hard for a stranger stay rare in docstrings, Rust docs and documents. Code and messages are not
judged."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from docs.documents import ROOT, documents

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_RUST_DOC = re.compile(r"^\s*//[/!] ?(.*)$", re.MULTILINE)
_SHOWN_HITS = 12


@dataclass(frozen=True)
class Word:
    """A word to avoid, with the most occurrences allowed in each place: lower these numbers, and never raise them."""

    pattern: str
    instead: str
    documents: int
    python: int
    rust: int


WORDS = {
    "so many": Word(r"so (?:many|much)", "the number's name: `rows` rows, that many rows, one page in N", 0, 0, 0),
    "nobody": Word(r"(?:no|some)body", "the agent: a user, a thread; or the passive: is not measured", 1, 3, 0),
    "whoever": Word(r"who(?:ever|soever)", "the agent: the caller, a user who, the thread that", 0, 0, 0),
    "whatever": Word(r"what(?:ever|soever)", "any: at any size, for every reason, even if", 0, 0, 0),
    "beside": Word(r"beside", "with, and, next to, compared with, during, in addition to", 1, 5, 0),
    "told": Word(r"told|tells?|telling", "says, reports, records, shows, returns, separates", 5, 13, 0),
    "what is": Word(
        r"what (?:is|are|was|were|it)", "the thing's name: the loaded pages, the message, the cost", 6, 7, 0
    ),
    "is no": Word(r"(?:is|are|was) no(?! (?:longer|more))", "is not a; without; lacks", 0, 0, 0),
    "of its own": Word(r"of (?:its|their|his|our) own", "its own NAME, another NAME, a separate NAME", 0, 0, 0),
}


@pytest.mark.parametrize("place", ["documents", "python", "rust"])
@pytest.mark.parametrize("name", WORDS)
def test_words_that_stop_a_stranger_do_not_come_back(name: str, place: str) -> None:
    word, pattern = WORDS[name], re.compile(rf"\b(?:{WORDS[name].pattern})\b", re.IGNORECASE)
    hits = [
        f"{file.relative_to(ROOT)}:{line}: {text.strip()}"
        for file, line, text in _lines(place)
        for _ in pattern.findall(text)
    ]
    most = getattr(word, place)
    shown = "\n  ".join(hits[:_SHOWN_HITS])
    assert len(hits) <= most, (
        f'"{name}" stands {len(hits)} times in the prose of {place}, and at most {most} are allowed.\n'
        f"Write instead: {word.instead}.\nNew ones: git diff main | grep -iwP '{word.pattern}'\nSome of all:\n  {shown}"
    )


def test_the_search_reads_docstrings_of_every_kind_and_no_code() -> None:
    source = (
        '"""A head."""\nx = "a value"  # a comment\n"""An attribute."""\ndef f():\n    """First.\n\n    Second."""\n'
    )
    assert [(line, text.strip()) for line, text in _of_python(source)] == [
        (1, "A head."),
        (3, "An attribute."),
        (5, "First."),
        (6, ""),
        (7, "Second."),
    ]


def test_the_search_reads_rust_docs_and_sentences_outside_fenced_blocks() -> None:
    rust = '//! A head.\nlet x = "a value"; // a comment\n    /// An item.\n'
    assert list(_of_rust(rust)) == [(1, "A head."), (3, "An item.")]
    page = "# Title\n\n```console\n$ a command\n```\n\nA sentence.\n"
    assert [(line, text) for line, text in _of_markdown(page) if text] == [(1, "# Title"), (7, "A sentence.")]


@cache
def _lines(place: str) -> list[tuple[Path, int, str]]:
    """Return the lines of prose of a place, each with its file and line number."""
    files, read = {
        "documents": ([path for path in documents() if path.name != "CHANGELOG.md"], _of_markdown),
        "python": ((ROOT / "python/bufferlab").rglob("*.py"), _of_python),
        "rust": ((ROOT / "crates").rglob("*.rs"), _of_rust),
    }[place]
    return [(file, *line) for file in sorted(files) for line in read(file.read_text(encoding="utf-8"))]


def _of_python(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of docstrings, including those of attributes."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield from enumerate(text.split("\n"), node.lineno)


def _of_rust(source: str) -> Iterator[tuple[int, str]]:
    for found in _RUST_DOC.finditer(source):
        yield source.count("\n", 0, found.start(1)) + 1, found[1]


def _of_markdown(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside of fenced blocks, which hold commands and their output."""
    blank = _FENCE.sub(lambda block: "\n" * block[0].count("\n"), source)
    yield from enumerate(blank.split("\n"), 1)
