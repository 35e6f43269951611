"""Counts lines of code for each part of the product: of `python/`, `crates/` and `experiments/`. Called by count-lines.

Python is read with `tokenize` and `ast`, templates with Jinja's own lexer, Rust with the small lexer below. In TOML and
SQL a line counts as a comment if it begins as one. JSON has no comments. Tests, benches, examples, tools, docs and lock
files are not counted.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from jinja2 import Environment

ROOTS = ("python", "crates", "experiments")
ROOT_FILES = ("pyproject.toml", "Cargo.toml")
NOT_COUNTED = {"tests", "benches", "examples", "testdata", "docs"}


def python_lines(text: str) -> int:
    """Return the number of lines of a Python file that have a token of code."""
    documented = {
        (node.lineno, _column(text, node))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    silent |= {tokenize.ENCODING, tokenize.ENDMARKER}
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent and token.start not in documented:
            code.update(range(token.start[0], token.end[0] + 1))
    return _not_blank(text, code)


def _column(text: str, node: ast.Expr) -> int:
    """Return the node's column in characters, which `ast` gives in bytes."""
    return len(text.splitlines()[node.lineno - 1].encode()[: node.col_offset].decode())


_RUST_TOKEN = re.compile(
    r"""
    (?P<comment> // [^\n]* )
  | (?P<block> /\* )
  | (?P<string> b?c?r(?P<hashes>\#*) " .*? " (?P=hashes) | [bc]? " (?: \\. | [^"\\] )* " )
  | (?P<char> b?' (?: \\ (?: x[0-9a-fA-F]{2} | u\{[^}]*\} | . ) | [^'\\\n] ) ' )
  | (?P<space> \s+ )
  | (?P<word> r\#\w+ | '\w+ | \w+ )
  | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_BLOCK_EDGE = re.compile(r"/\*|\*/")


def _rust_tokens(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each token that is code, as (text, first line, last line)."""
    at, line = 0, 1
    while at < len(text):
        found = _RUST_TOKEN.match(text, at)
        assert found is not None  # every character matches at least as a sign
        end = _block_end(text, at) if found["block"] else found.end()
        token = text[at:end]
        last = line + token.count("\n")
        if not (found["comment"] or found["block"] or found["space"]):
            yield token, line, last
        at, line = end, last


def _block_end(text: str, at: int) -> int:
    """Return the index of the end of the block comment that begins at `at`. Such comments nest."""
    depth = 0
    for edge in _BLOCK_EDGE.finditer(text, at):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(text)


_FOR_TESTS = (["#", "[", "cfg", "(", "test", ")", "]"], ["#", "[", "cfg", "(", "all", "(", "test", ","])
"""The first tokens of an attribute that marks an item as being only for tests."""


def _rust_items(text: str) -> Iterator[tuple[bool, list[tuple[str, int, int]]]]:
    """Yield sequences of tokens, each with whether `#[cfg(test)]` or `#[cfg(all(test, ...))]` precedes it."""
    tokens = list(_rust_tokens(text))
    start = at = 0
    while at < len(tokens):
        # Compare the first sign alone first, which decides for most tokens: comparing whole marks at every token took
        # seconds.
        if tokens[at][0] != "#" or not any(
            [token for token, _, _ in tokens[at : at + len(mark)]] == mark for mark in _FOR_TESTS
        ):
            at += 1
            continue
        yield False, tokens[start:at]
        end = _item_end(tokens, _closed(tokens, at + 1))
        yield True, tokens[at:end]
        start = at = end
    yield False, tokens[start:]


def _closed(tokens: list[tuple[str, int, int]], at: int) -> int:
    """Return the index after the bracket that closes the bracket at index `at`."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += (tokens[place][0] == "[") - (tokens[place][0] == "]")
        if depth == 0:
            return place + 1
    return len(tokens)


def _item_end(tokens: list[tuple[str, int, int]], at: int) -> int:
    """Return the index of the end of the item after an attribute: after its `;` or its closing brace."""
    depth = 0
    for place in range(at, len(tokens)):
        sign = tokens[place][0]
        depth += (sign in "([{") - (sign in ")]}") if len(sign) == 1 else 0
        if depth == 0 and (sign == ";" or (sign == "}" and not _ends(tokens, place + 1))):
            return place + 1
    return len(tokens)


def _ends(tokens: list[tuple[str, int, int]], at: int) -> bool:
    return at < len(tokens) and tokens[at][0] == ";"


def rust_code(text: str) -> list[str]:
    """Return the tokens of a Rust file outside of items for tests."""
    return [token for tested, tokens in _rust_items(text) if not tested for token, _, _ in tokens]


def rust_lines(text: str) -> int:
    """Return the number of lines of a Rust file that have code outside of items for tests."""
    code: set[int] = set()
    for tested, tokens in _rust_items(text):
        if not tested:
            for _, first, last in tokens:
                code.update(range(first, last + 1))
    return _not_blank(text, code)


def rust_test_files(path: PurePosixPath, text: str) -> Iterator[PurePosixPath]:
    """Yield the files, without `.rs`, of the modules that a Rust file declares only for tests."""
    folder = path.parent if path.stem in {"lib", "main", "mod"} else path.with_suffix("")
    for tested, tokens in _rust_items(text):
        words = [token for token, _, _ in tokens]
        if tested and words[-1] == ";" and "mod" in words:
            named = next((words[at + 2] for at, word in enumerate(words) if word == "path"), None)
            name = words[words.index("mod") + 1]
            yield (path.parent / named.strip('"')).with_suffix("") if named else folder / name


def template_lines(text: str) -> int:
    """Return the number of lines of a Jinja template that are neither blank nor a Jinja comment."""
    code: set[int] = set()
    commented = False
    for line, kind, token in Environment(autoescape=True).lex(text):
        commented = kind == "comment_begin" or (commented and kind != "comment_end")
        if not commented and kind != "comment_end":
            code.update(at for at, part in enumerate(token.split("\n"), line) if part.strip())
    return _not_blank(text, code)


def _without_comments(mark: str) -> Callable[[str], int]:
    return lambda text: sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith(mark))


def _not_blank(text: str, code: set[int]) -> int:
    return sum(1 for at, line in enumerate(text.split("\n"), 1) if at in code and line.strip())


KINDS: dict[str, tuple[str, Callable[[str], int]]] = {
    ".py": ("Python", python_lines),
    ".rs": ("Rust", rust_lines),
    ".sql": ("SQL", _without_comments("--")),
    ".toml": ("TOML", _without_comments("#")),
    ".json": ("JSON", lambda text: sum(1 for line in text.splitlines() if line.strip())),
    ".j2": ("templates", template_lines),
    ".html": ("templates", template_lines),
}


def counted(files: Mapping[str, str]) -> Counter[tuple[str, str]]:
    """Return (part, kind) -> number of lines of code; `files` has path -> text."""
    for_tests = {
        stem
        for name, text in files.items()
        if name.endswith(".rs")
        for stem in rust_test_files(PurePosixPath(name), text)
    }
    lines: Counter[tuple[str, str]] = Counter()
    for name, text in files.items():
        path = PurePosixPath(name)
        if is_counted(path) and not for_tests & {path.with_suffix(""), *path.parents}:
            kind, count = KINDS[path.suffix]
            lines[part_of(path), kind] += count(text)
    return lines


def is_counted(path: PurePosixPath) -> bool:
    """Return whether the file is source code of the product."""
    ours = path.parts[0] in ROOTS or str(path) in ROOT_FILES
    return ours and path.suffix in KINDS and not NOT_COUNTED & set(path.parts)


def part_of(path: PurePosixPath) -> str:
    """Return the part to which a file belongs: a crate, a subpackage, or "experiments"."""
    if path.parts[0] == "python":
        return "/".join(path.parts[1:3]) if len(path.parts) > 3 else "bufferlab"
    return "/".join(path.parts[:2]) if path.parts[0] == "crates" else path.parts[0] if len(path.parts) > 1 else "root"


def of_tree() -> dict[str, str]:
    """Return path -> text of the sources in the working tree, including uncommitted files."""
    listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").decode().split("\0")
    names = [name for name in listed if name and is_counted(PurePosixPath(name)) and Path(name).is_file()]
    return {name: Path(name).read_text() for name in names}


def of_commit(commit: str) -> dict[str, str]:
    """Return path -> text of the sources in a commit."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", commit))) as archive:
        members = [each for each in archive if each.isfile() and is_counted(PurePosixPath(each.name))]
        found = {each.name: archive.extractfile(each) for each in members}
        return {name: file.read().decode() for name, file in found.items() if file}


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], check=True, stdout=subprocess.PIPE).stdout


def table(lines: Counter[tuple[str, str]]) -> str:
    """Return the table to print: a row per part, a column per kind, with sums."""
    kinds = list(dict.fromkeys(kind for kind, _ in KINDS.values()))
    parts = sorted({part for part, _ in lines})
    rows = [(part, [lines[part, kind] for kind in kinds]) for part in parts]
    rows.append(("total", [sum(lines[part, kind] for part in parts) for kind in kinds]))
    head = f"{'part':26}" + "".join(f"{kind:>11}" for kind in (*kinds, "total"))
    return "\n".join(
        [head, *(f"{part:26}" + "".join(f"{n:>11,}" for n in (*found, sum(found))) for part, found in rows)]
    )


def main() -> int:
    """Print the table for the working tree, or for the commit that is named."""
    parser = argparse.ArgumentParser(prog="tools/count-lines", description=__doc__)
    parser.add_argument("commit", nargs="?", help="a commit of this repository (default: the working tree)")
    commit = parser.parse_args().commit
    print(table(counted(of_commit(commit) if commit else of_tree())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
