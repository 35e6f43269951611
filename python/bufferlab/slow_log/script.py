"""Writes a script for `bufferlab run` from the kinds of transactions in a log. docs/scripts.md has the language.

Each kind is a section with a weight. Each execution of a section takes all its values from one transaction of the log:
`\\set seen random(1, N)` draws the transaction, and `choose(:seen, ...)` gives each of its values. A value that was
always the same stays in the statement.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bufferlab.slow_log.digest import written
from bufferlab.slow_log.tokens import Hexadecimal, Value
from bufferlab.slow_log.transactions import Kind

MOST_BYTES = (4 << 20) - (64 << 10)
"""The most bytes of a script's text, below the core's limit for scripts."""
_MOST_STEPS = 9_000
"""The most statements and \\set lines of a script, below the core's limit."""
_MOST_STATEMENTS = 400
"""The most statements of a script.

Each connection prepares all of them, and a server allows 16,382 in total (max_prepared_stmt_count).
"""
_MOST_SECTIONS = 100
_MOST_WEIGHT = 1_000_000
_SOME = 200
"""The number of a kind's transactions from which the size of all transactions' values is estimated."""
_VERBS = ("INSERT", "UPDATE", "DELETE", "REPLACE", "SELECT", "WITH")
_TABLE = re.compile(r"\b(?:FROM|INTO|UPDATE|IGNORE)\s+`?(\w+)", re.ASCII)


@dataclass(frozen=True)
class ScriptSection:
    """A kind of transactions as a section of the script."""

    name: str
    weight: int
    kind: Kind
    kept: int
    """The number of transactions whose values the section has; 0 if no value varies."""


@dataclass(frozen=True)
class Script:
    """A script: its text, which contains values from the log, and its sections, whose digests contain none."""

    text: str
    sections: tuple[ScriptSection, ...]


def write_script(kinds: Sequence[Kind], most_bytes: int = MOST_BYTES) -> Script:
    """Return the script of the most frequent kinds, with as many of their values as fit into `most_bytes`."""
    chosen = _chosen(sorted(kinds, key=lambda kind: -kind.count))
    fitting, wanted_bytes = _fitting(chosen), float(most_bytes)
    while True:
        most = fitting(wanted_bytes)
        script = _script(chosen, most)
        size = len(script.text.encode())
        if size <= most_bytes:
            return script
        wanted_bytes *= 0.999 * most_bytes / size
        if most <= 1:
            chosen.pop()  # Even without values the statements are too long, so leave out the rarest kind.
            fitting, wanted_bytes = _fitting(chosen), float(most_bytes)


def _fitting(kinds: Sequence[Kind]) -> Callable[[float], int]:
    """Return a function that estimates, for a script's size in bytes, how many transactions' values per kind fit.

    It measures only some values, because writing all would take longer than reading the log.
    """
    most = max((len(kind.samples) for kind in kinds), default=0)
    sizes = [[len(_section("", 1, kind, few).encode()) for few in (kind.samples[:1], _some(kind))] for kind in kinds]
    growths = [(some - one) / max(1, len(_some(kind)) - 1) for kind, (one, some) in zip(kinds, sizes, strict=True)]
    fixed = sum(one for one, _ in sizes)

    def size(count: int) -> float:
        return fixed + sum(growth * min(count, len(kind.samples)) for kind, growth in zip(kinds, growths, strict=True))

    return lambda size_bytes: max(1, bisect_right(range(1, most + 1), size_bytes, key=size))


def _some(kind: Kind) -> Sequence[tuple[Value, ...]]:
    return kind.samples if len(kind.samples) <= _SOME else _spread(kind.samples, _SOME)


def _chosen(kinds: Sequence[Kind]) -> list[Kind]:
    chosen: list[Kind] = []
    statements = steps = 0
    for kind in kinds:
        more = len(kind.statements) + (2 if kind.frame else 0)
        more_steps = more + 1 + sum(kind.varies)
        if statements + more > _MOST_STATEMENTS or steps + more_steps > _MOST_STEPS:
            continue
        if len(chosen) == _MOST_SECTIONS:
            break
        chosen.append(kind)
        statements, steps = statements + more, steps + more_steps
    return chosen


def _script(kinds: Sequence[Kind], most: int) -> Script:
    largest = max((kind.count for kind in kinds), default=1)
    sections, texts = [], [_HEAD]
    for number, kind in enumerate(kinds, 1):
        weight = kind.count if largest <= _MOST_WEIGHT else max(1, round(kind.count * _MOST_WEIGHT / largest))
        samples = kind.samples if len(kind.samples) <= most else _spread(kind.samples, most)
        name = _section_name(number, kind)
        sections.append(ScriptSection(name, weight, kind, len(samples) if any(kind.varies) else 0))
        texts.append(_section(name, weight, kind, samples))
    return Script("\n".join(texts), tuple(sections))


_HEAD = """\
-- Made by bufferlab script-from-slow-log. It holds values of the log: keep it as private as the log.
-- INSERT, UPDATE and DELETE have IGNORE, because values drawn again meet keys that the data has already.
"""


def _spread(samples: Sequence[tuple[Value, ...]], most: int) -> list[tuple[Value, ...]]:
    """Return `most` of the samples, evenly spread."""
    return [samples[at * len(samples) // most] for at in range(most)]


def _section(name: str, weight: int, kind: Kind, samples: Sequence[tuple[Value, ...]]) -> str:
    lines = [f"-- transaction: {name} weight={weight}"]
    columns = list(zip(*samples, strict=True))
    variables: dict[tuple[str, ...], str] = {}
    slots: list[str] = []
    for at, varies in enumerate(kind.varies):
        if not varies:
            slots.append(written(kind.first[at]))
            continue
        has_bytes = _is_of_bytes(columns[at])
        # Compare the values as texts: 1 and 1.0 are equal in Python, but have different types on the server.
        choices = tuple(_choice(value, has_bytes) for value in columns[at])
        if choices not in variables:
            variables[choices] = f"v{len(variables) + 1}"
        variable = f":{variables[choices]}"
        slots.append(f"UNHEX({variable})" if has_bytes else variable)
    if variables:
        lines.append(f"\\set seen random(1, {len(samples)})")
        lines += [f"\\set {variable} choose(:seen,{','.join(choices)})" for choices, variable in variables.items()]
    lines += ["BEGIN;"] if kind.frame else []
    used = 0
    for parts in kind.statements:
        values = slots[used : used + len(parts) - 1]
        used += len(values)
        lines.append(parts[0] + "".join(value + part for value, part in zip(values, parts[1:], strict=True)) + ";")
    lines += [f"{kind.frame};"] if kind.frame else []
    return "\n".join(lines) + "\n"


def _is_of_bytes(values: Sequence[Value]) -> bool:
    """Return whether the script passes these values of one parameter to the server as bytes.

    It does if a value was written as x'...'. It also does if a value was written as 0x... and either is longer than a
    number, as keys and hashes are, or another value is a text. The server treats a literal 0x... as a number or a text,
    but a parameter has one type.
    """
    if any(isinstance(value, bytes) and not isinstance(value, Hexadecimal) for value in values):
        return True
    numbers = [value.number for value in values if isinstance(value, Hexadecimal)]
    texts = [value for value in values if isinstance(value, str) and not value.lstrip("-").isdigit()]
    return bool(numbers) and (None in numbers or bool(texts))


def varies_as_number(kind: Kind) -> bool:
    """Return whether the kind's section has, as numbers, values that the log has as 0x...."""
    columns = list(zip(*kind.samples, strict=True))
    return any(
        varies and any(isinstance(value, Hexadecimal) for value in columns[at]) and not _is_of_bytes(columns[at])
        for at, varies in enumerate(kind.varies)
    )


def _choice(value: Value, as_hexadecimal: bool) -> str:
    """Return a value as an argument of `choose`; with `as_hexadecimal`, its bytes as a text of hexadecimal digits."""
    if as_hexadecimal and value is not None:
        data = value if isinstance(value, bytes) else str(value).encode()
        return f"'{data.hex()}'"
    if isinstance(value, Hexadecimal):
        return _choice(value.number, as_hexadecimal)
    if isinstance(value, float):
        return repr(float(value))  # The server treats any parameter with a decimal point as a double.
    if isinstance(value, str):
        # A \set line cannot contain a line's end, so write a text with control characters as bytes.
        return "'" + value.replace("'", "''") + "'" if value.isprintable() else f"x'{value.encode().hex()}'"
    return written(value)


def _section_name(number: int, kind: Kind) -> str:
    """Return a name, without any value, for the kind's section: number, verb and table, such as t1_update_stock."""
    verbs = [digest.split(" ", 1)[0] for digest in kind.digests]
    at = min(range(len(verbs)), key=lambda at: _VERBS.index(verbs[at]) if verbs[at] in _VERBS else len(_VERBS))
    verb = verbs[at].lower() if verbs[at] in _VERBS else "select"
    table = found[1].lower() if (found := _TABLE.search(kind.digests[at])) else ""
    return "_".join(filter(None, (f"t{number}", verb, table[:30])))
