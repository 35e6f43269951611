"""Mutators of bytes, lines of text and JSON values. Every choice comes from the random generator that is given."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Sequence
from typing import Any

NUMBERS = (
    "0", "-1", "1", "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "1e308",
    "1e-320", "1e400", "NaN", "nan", "inf", "-inf", "0x10", "1_000", "1,000", "1.", ".5", "1..2", "00", "+5", "٣", "5%",
    "100000%", "9" * 30, "9" * 5000, "1/0", "1e", "--1", "",
)  # fmt: skip
WORDS = (
    "", " ", "\x00", "\x1b[31m", "\x1b]0;title\x07", "\r", "\x85", "\u2028", "\u202e", "\ufeff", "'", '"', "\\", "\\x",
    "<script>alert(1)</script>", "[bold]x[/bold]", "[/]", "`", "|", "||||", "%s%n", "{}", "${x}", "../../etc/passwd",
    "/dev/zero", "a" * 5000, "é" * 300, "\U0001f600", "null", "true", "[]", "{}", ";", "--", "/*", "$$", "$1", ":x",
)  # fmt: skip
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_DEPTHS = (3, 50, 900, 2000, 100_000)


def mangle_bytes(data: bytes, rng: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """Return the data with one to eight bytes or spans changed."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randint(0, len(made))
        span = rng.choice((1, 1, 2, 4, 8, 64, 512))
        match rng.randrange(8):
            case 0 if at < len(made):
                made[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(made):
                made[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            case 2:
                del made[at : at + span]
            case 3:
                made[at:at] = made[at : at + span]
            case 4:
                made[at:at] = rng.randbytes(span)
            case 5:
                made[at : at + span] = bytes(span)
            case 6 if rng.random() < 0.3:
                del made[at:]
            case 7 if others:
                other = rng.choice(others)
                start = rng.randint(0, len(other))
                made[at : at + span] = other[start : start + span]
    return bytes(made)


def mangle_text(text: str, rng: random.Random, others: Sequence[str] = ()) -> str:
    """Return the text with one to twelve lines, numbers or words changed."""
    lines = text.split("\n")
    for _ in range(rng.choice((1, 1, 2, 3, 5, 12))):
        if not lines:
            break
        at = rng.randrange(len(lines))
        match rng.randrange(11):
            case 0:
                del lines[at : at + rng.choice((1, 1, 3, 20))]
            case 1:
                lines[at:at] = lines[at : at + rng.choice((1, 1, 5))] * rng.choice((1, 1, 2, 40))
            case 2:
                other = rng.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
            case 3 | 4:
                lines[at] = change_number(lines[at], rng)
            case 5:
                lines[at] = _insert(lines[at], rng.choice(WORDS), rng)
            case 6:
                lines[at] = _replace_word(lines[at], rng)
            case 7:
                lines[at] = lines[at][: rng.randint(0, len(lines[at]))]
            case 8 if others:
                more = rng.choice(others).split("\n")
                start = rng.randrange(len(more))
                lines[at:at] = more[start : start + rng.choice((1, 5, 30))]
            case 9:
                lines[at] = _insert(
                    lines[at], rng.choice("0123456789.,|:%/()[]<>=-\t {}\"'#;\\") * rng.choice((1, 1, 60)), rng
                )
            case 10:
                lines[at] = rng.choice(("\n", "\r", "")).join((lines[at], rng.choice(lines)))
    return "\n".join(lines)


def change_number(line: str, rng: random.Random) -> str:
    """Return the line with one of its numbers replaced by another number, or by something similar to a number."""
    found = list(_NUMBER.finditer(line))
    if not found:
        return line
    place = rng.choice(found)
    return line[: place.start()] + rng.choice(NUMBERS) + line[place.end() :]


def nested(rng: random.Random) -> str:
    """Return deeply nested arrays, objects or TOML keys; some are never closed."""
    depth = rng.choice(_DEPTHS)
    return rng.choice(
        (
            "[" * depth + "]" * depth,
            "[" * depth,
            '{"a":' * depth + "1" + "}" * depth,
            "{a=" * min(depth, 3000) + "1" + "}" * min(depth, 3000),
            "a" + ".a" * min(depth, 3000),
            "(" * depth + "1" + ")" * depth,
        )
    )


def mangle_json(document: Any, rng: random.Random) -> Any:
    """Return a copy with one to three of its values removed, doubled, of another type, or hostile."""
    made = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        holder, key = _somewhere(made, rng)
        if holder is None:
            continue
        match rng.randrange(6):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[rng.choice(WORDS) or "more"] = holder[key]
            case 1:
                holder.insert(key, holder[key])
            case 2:
                _, other = None, _value(made, rng)
                holder[key] = copy.deepcopy(other)
            case _:
                holder[key] = _hostile(holder[key], rng)
    return made


def _hostile(value: Any, rng: random.Random) -> Any:
    """Return a replacement for a value, often of the same type, because other types are refused at once."""
    if isinstance(value, bool) or rng.random() < 0.3:
        return rng.choice((None, True, False, 0, -1, 1.5, "", "x", [], {}, [None], {"": None}, [[]]))
    if isinstance(value, int | float):
        return rng.choice((0, -1, 1, 2, 1e-300, 1e300, 10**18, -(10**18), 2**63, 10**400, 0.5, value + 1, -value))
    if isinstance(value, str):
        return rng.choice(
            (rng.choice(WORDS), rng.choice(NUMBERS), value + rng.choice(WORDS), value[:-1], value.upper())
        )
    if isinstance(value, list):
        return rng.choice(([], value * 2, value[::-1], [value], value * 200))
    if isinstance(value, dict):
        return rng.choice(({}, {**value, "more": 1}, {"": value}, list(value)))
    return rng.choice((0, "", [], {}))


def _somewhere(document: Any, rng: random.Random) -> tuple[Any, Any]:
    """Return a random container and a key of it."""
    holder, key = None, None
    here = document
    while isinstance(here, dict | list) and here:
        holder, key = here, rng.choice(list(here) if isinstance(here, dict) else range(len(here)))
        here = holder[key]
        if rng.random() < 0.25:
            break
    return holder, key


def _value(document: Any, rng: random.Random) -> Any:
    holder, key = _somewhere(document, rng)
    return None if holder is None else holder[key]


def _insert(line: str, more: str, rng: random.Random) -> str:
    at = rng.randint(0, len(line))
    return line[:at] + more + line[at:]


def _replace_word(line: str, rng: random.Random) -> str:
    words = line.split(" ")
    words[rng.randrange(len(words))] = rng.choice(WORDS)
    return " ".join(words)
