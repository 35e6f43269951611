"""Finds which files of a Rust crate import which: it follows paths in `use` and in code through re-exports to the file
that defines the item.

It reads tokens and knows no types: calls of methods and uses of fields count as no import.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

_DEFINE = {"fn", "struct", "enum", "trait", "type", "const", "static", "union", "mod", "macro_rules"}
_NO_NAME = {"!", "fn", "mut", "unsafe", "extern"}
"""Tokens that may stand between a keyword such as `mod` or `fn` and the name."""

Module = tuple[str, ...]


@dataclass
class _File:
    path: str
    defined: set[str] = field(default_factory=set)
    """Names that this file defines at any depth, including those in inline modules."""
    used: dict[str, list[str]] = field(default_factory=dict)
    """Names that `use` brings in: the name in this file -> its path."""
    only_passed_on: set[str] = field(default_factory=set)
    paths: list[list[str]] = field(default_factory=list)


def imports(sources: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    """Return the files that each file of a crate imports; `sources` has each file's tokens by its path below `src`."""
    crate = {_module(path): _read(path, tokens) for path, tokens in sources.items()}
    return {file.path: set(_imported(crate, module)) - {file.path} for module, file in crate.items()}


def _module(path: str) -> Module:
    stem = PurePosixPath(path).with_suffix("")
    return stem.parts[:-1] if stem.name in {"lib", "main", "mod"} else stem.parts


def _read(path: str, tokens: Sequence[str]) -> _File:
    file = _File(path)
    words: set[str] = set()
    at = 0
    while at < len(tokens):
        if tokens[at] == "use":
            end = tokens.index(";", at)
            is_public = at > 0 and tokens[at - 1] in {"pub", ")"}
            for one in _uses(tokens[at + 1 : end]):
                file.used[one[-1]] = one[:-1]
                file.only_passed_on |= {one[-1]} if is_public else set()
            at = end
        elif tokens[at] in _DEFINE:
            at += 1
            while at < len(tokens) and tokens[at] in _NO_NAME:
                at += 1
            is_file = tokens[at - 1] == "mod" and tokens[at + 1] == ";"
            file.defined |= set() if is_file else {tokens[at]}
        else:
            found = _path(tokens, at)
            words.add(tokens[at])
            file.paths += [found] if len(found) > 1 else []
            at += 3 * len(found) - 3 if found else 0
        at += 1
    file.only_passed_on -= words
    return file


def _path(tokens: Sequence[str], at: int) -> list[str]:
    """Return the words joined by `::` that begin at this token."""
    path: list[str] = []
    while at < len(tokens) and tokens[at].isidentifier():
        path.append(tokens[at])
        if list(tokens[at + 1 : at + 3]) != [":", ":"]:
            break
        at += 3
    return path


def _uses(tokens: Sequence[str]) -> Iterator[list[str]]:
    """Yield each path of a `use`, with its name in this file as last element; a glob has the name `*`."""
    depth, start, parts = 0, 0, list[Sequence[str]]()
    for at, token in enumerate(tokens):
        depth += (token == "{") - (token == "}")
        if token == "," and depth == 0:
            parts.append(tokens[start:at])
            start = at + 1
    for part in [*parts, tokens[start:]]:
        path = [token for token in part if token != ":"]
        if "{" in path:
            opened = part.index("{")
            before = [token for token in part[:opened] if token != ":"]
            for one in _uses(part[opened + 1 : -1]):
                yield [*before, *one[:-2], before[-1]] if one[-2] == "self" else [*before, *one]
        elif "as" in path:
            yield [*path[: path.index("as")], path[-1]]
        elif path:
            yield [*path, path[-1]]


def _imported(crate: Mapping[Module, _File], module: Module) -> Iterator[str]:
    file = crate[module]
    named = [path for name, path in file.used.items() if name not in file.only_passed_on]
    for path in named + file.paths:
        found, is_item = _found(crate, module, path, set())
        if found is not None and is_item:
            yield crate[found].path


def _found(
    crate: Mapping[Module, _File], start: Module, path: Sequence[str], seen: set[tuple[Module, str]]
) -> tuple[Module | None, bool]:
    """Return the module to which a path leads, and whether the path names an item of it; nothing for other crates."""
    module = start
    for place, name in enumerate(path):
        if name in {"crate", "self", "super"}:
            module = {"crate": (), "self": module, "super": module[:-1]}[name]
        elif (*module, name) in crate:
            module = (*module, name)
        elif name in crate[module].defined or name == "*":
            return module, True
        else:
            target, is_item = _brought_in(crate, module, name, seen)
            if target is None or is_item:
                return target, is_item
            module = target
        if place == 0 and module not in crate:
            return None, False
    return module, False


def _brought_in(
    crate: Mapping[Module, _File], module: Module, name: str, seen: set[tuple[Module, str]]
) -> tuple[Module | None, bool]:
    if (module, name) in seen:
        return None, False
    seen.add((module, name))
    used = crate[module].used
    if name in used:
        return _found(crate, module, used[name], seen) if used[name] != [name] else (None, False)
    if "*" in used:
        behind = _found(crate, module, used["*"][:-1], seen)[0]
        return _found(crate, behind, [name], seen) if behind is not None else (None, False)
    return None, False
