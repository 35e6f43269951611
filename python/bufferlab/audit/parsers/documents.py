"""Finds the JSON documents of known programs in a text, between any other lines.

A document begins at a line that starts with a brace or bracket, and is recognised by a key in its first lines. All
other lines are passed on unchanged. The numbers in a document stay texts, so that their printed digits are known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bufferlab.audit.parsers.captions import MAX_DOCUMENT_BYTES, MAX_LINE_BYTES, Line

#: Program -> pattern of a key that only this program's JSON documents have.
_KEYS = {
    "fio": re.compile(r'"fio version"\s*:'),
    "iostat": re.compile(r'"sysstat"\s*:'),
    "BenchBase": re.compile(r'"(?:Throughput|Goodput) \(requests/second\)"\s*:'),
    "HammerDB": re.compile(r'"(?:(?i:neword|payment|delivery|slev|ostat)|[\w ]{2,30} tpm)"\s*:\s*\{'),
}
#: The most lines of a possible JSON document to hold back while no key has identified its program.
_MOST_HEAD_LINES = 60
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_DEEPEST = 32
#: Matches the beginning of a line that no JSON document has: a word that is not true, false or null.
_OTHER_TEXT = re.compile(r"(?!true|false|null)[A-Za-z]")
_LIST = re.compile(r'\[\s*(?:$|[\[{"])')


@dataclass(frozen=True)
class Document:
    """A JSON document of a known program: the number of its first line, and its value, or None if it cannot be read."""

    program: str
    number: int
    lines: int
    """The number of the document's lines that are not blank."""
    value: Any
    problem: str
    """The reason why the document cannot be read; "" if it can."""


def with_documents(lines: Iterable[Line]) -> Iterator[Line | Document]:
    """Yield the lines of a text in their order, and a Document in place of the lines of each known document."""
    held: list[Line] = []
    program, depth, size = "", 0, 0
    for line in lines:
        text = line.text
        if held and _OTHER_TEXT.match(text):  # The document is incomplete: other text follows.
            yield from _made(held, program)
            held = []
        if not held:
            if not text.startswith(("{", "[")) or (text[0] == "[" and not _LIST.match(text)):
                yield line
                continue
            program, depth, size = "", 0, 0
        held.append(line)
        size += len(text)
        program = program or next((name for name, key in _KEYS.items() if key.search(text)), "")
        depth += _depth(text)
        if depth <= 0 or size > MAX_DOCUMENT_BYTES or (not program and len(held) >= _MOST_HEAD_LINES):
            yield from _made(held, program)
            held = []
    yield from _made(held, program)


def _depth(text: str) -> int:
    bare = _TEXT.sub("", text)
    return bare.count("{") + bare.count("[") - bare.count("}") - bare.count("]")


def _made(held: list[Line], program: str) -> Iterator[Line | Document]:
    if not held or not program:
        yield from (Line(line.number, line.text[:MAX_LINE_BYTES]) for line in held)
        return
    value, problem = _read("\n".join(line.text for line in held))
    yield Document(program, held[0].number, sum(not line.text.isspace() for line in held), value, problem)


def _read(text: str) -> tuple[Any, str]:
    if len(text) > MAX_DOCUMENT_BYTES:
        return None, f"it has more than {MAX_DOCUMENT_BYTES >> 20} MiB"
    try:
        value = json.loads(text, parse_float=str, parse_int=str, parse_constant=str)
    except RecursionError:
        return None, "it is nested too deep"
    except ValueError as error:
        at = error.lineno if isinstance(error, json.JSONDecodeError) else 1
        return None, f"it breaks off, or is no JSON, in its line {at}"
    return (None, "it is nested too deep") if _is_deep(value) else (value, "")


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        inside = (one for parent in level for one in (parent.values() if isinstance(parent, dict) else parent))
        level = [one for one in inside if isinstance(one, dict | list)]
        if not level:
            return False
    return True


def part(value: Any, *names: str) -> Any:
    """Return the value at the end of this path of names; None if a name is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def parts(value: Any, *names: str) -> list[dict[str, Any]]:
    """Return the objects in the list at the end of this path of names; [] without a list."""
    found = part(value, *names)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def number(value: Any, *names: str) -> float | None:
    """Return the number at the end of this path of names; None if it is missing, or is not a number below 1e18."""
    found = part(value, *names)
    if not isinstance(found, str) or len(found) > 40:
        return None
    try:
        made = float(found)
    except ValueError:
        return None
    return made if abs(made) < 1e18 else None
