"""Reads the documents: their console blocks, the paths that they name, their links. Judges nothing."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
_TOP_LEVEL = re.compile(
    r"[A-Z]+\.md$|LICENSE$|(Cargo|pyproject|rustfmt|clippy)\.toml$|requirements.*\.lock$|Makefile$|Cargo\.lock$"
)


def documents() -> list[Path]:
    """Return the documents that a reader opens: at the root, under docs/ and next to each experiment."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("experiments/*/*.md")])


def console_commands(document: Path) -> list[str]:
    """Return the commands (lines that start with `$ `) of the document's console blocks, without comments."""
    return [
        line.removeprefix("$ ").split("  #")[0].strip()
        for language, body in _FENCE.findall(document.read_text(encoding="utf-8"))
        if language == "console"
        for line in body.splitlines()
        if line.startswith("$ ")
    ]


def fence_languages(document: Path) -> list[str]:
    """Return the languages of the document's fenced blocks; empty for a block without one."""
    return [language for language, _ in _FENCE.findall(document.read_text(encoding="utf-8"))]


def named_paths(document: Path) -> list[str]:
    """Return the paths of this repository that the document has in code spans or links, without placeholders."""
    text = _FENCE.sub("", document.read_text(encoding="utf-8"))
    links = [link for link in _LINK.findall(text) if "://" not in link]
    return sorted({*paths_in(text), *links})


def paths_in(text: str) -> set[str]:
    """Return the paths of this repository in the code spans of a text."""
    return {span for span in _CODE.findall(text) if _is_path(span)}


def headed(document: Path) -> dict[str, str]:
    """Return the document's sections by their headings of the second level."""
    parts = re.split(r"^## (.*)$", document.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def tree_paths(document: Path) -> list[str]:
    """Return the paths that `text` or unlabelled blocks draw as a tree: indented names below the folder above them."""
    paths = []
    for language, body in _FENCE.findall(document.read_text(encoding="utf-8")):
        if language in ("", "text"):
            paths += _paths_of_tree(body)
    return paths


def _paths_of_tree(body: str) -> list[str]:
    paths: list[str] = []
    folders: list[tuple[int, str]] = []
    for line in body.splitlines():
        # Descriptions follow the name after two spaces; several names may share a line.
        names = re.split(r"\s{2,}", line.strip())[0].split()
        if not names or not all(_is_tree_name(name) for name in names):
            continue
        indent = len(line) - len(line.lstrip())
        folders = [(depth, path) for depth, path in folders if depth < indent]
        above = folders[-1][1] if folders else ""
        paths += [above + name for name in names]
        if len(names) == 1 and names[0].endswith("/"):
            folders.append((indent, above + names[0]))
    return paths


def _is_tree_name(word: str) -> bool:
    return bool(re.fullmatch(r"\.?[\w.-]+(/[\w.-]+)*/?", word)) and (word.endswith("/") or bool(_TOP_LEVEL.match(word)))


def _is_path(span: str) -> bool:
    if re.search(r"[\s<>*=:$(){}\"']|\.\.\.|~", span) or span.startswith(("-", "/")):
        return False
    first = span.removeprefix("./").split("/")[0]
    return ("/" in span.removeprefix("./") and (ROOT / first).exists()) or bool(_TOP_LEVEL.fullmatch(span))
