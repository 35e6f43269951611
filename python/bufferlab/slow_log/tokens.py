"""Cuts a statement of MySQL or MariaDB into tokens, as the servers' lexer does. It knows no grammar.

It follows the MySQL Reference Manual ("Literal Values", "Comments"), and the servers' rules of conversion for the types
of parameters. digest.py makes digests and forms from the tokens, named_tables.py finds the tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from bufferlab.slow_log.keywords import KEYWORDS

_LARGEST_INT = 2**63 - 1
_NUMBER_BYTES = 8


class Hexadecimal(bytes):
    """The bytes of a literal 0x..., which a server treats as a number next to another number, and else as bytes."""

    @property
    def number(self) -> int | str | None:
        """Return the number, as a text if it needs more than 63 bits; None if it has more than _NUMBER_BYTES bytes."""
        return whole(int.from_bytes(self)) if len(self) <= _NUMBER_BYTES else None


class Double(float):
    """A number written with an exponent.

    A server treats it as a double, but 1.1, which has no exponent, as a decimal.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the number as a text with an exponent."""
        text = float.__repr__(self)
        return text if "e" in text else f"{text}e0"


Value = int | float | str | bytes | None
"""The value of a literal: bytes for a hexadecimal literal or a text that is not UTF-8, None for NULL."""

_TOKEN = re.compile(
    r"""
    (?P<skip>\s+|--(?=[\s\x00-\x1f]|\Z)[^\n]*|\#[^\n]*|/\*(?![!+]|M!).*?\*/|/\*M?![0-9]*)
    |(?P<hint>/\*\+.*?\*/)
    |(?P<hex>[xX]'(?:[0-9A-Fa-f]{2})*'|0x[0-9A-Fa-f]++(?![\w$]))
    |(?P<bits>[bB]'[01]*'|0b[01]++(?![\w$]))
    |(?P<string>[nN]?'(?:[^'\\]++|\\.|'')*+'(?!'))
    |(?P<double>"(?:[^"\\]++|\\.|"")*+"(?!"))
    |(?P<quoted>`(?:[^`]++|``)*+`(?!`))
    |(?P<number>(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?(?![\w$]))
    |(?P<word>[\w$]+)
    |(?P<variable>@@?[\w.]*)
    |(?P<place>\?)
    |(?P<operator>\.\.\.|<=>|->>|->|<<|>>|<>|!=|<=|>=|:=|\|\||&&|[-+*/%=<>!&|^~(),.;:{}])
    |(?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = {"'": re.compile(r"\\(.)|''", re.DOTALL), '"': re.compile(r'\\(.)|""', re.DOTALL)}
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
FOLDED = "..."
"""The placeholder for the values of a list in a digest."""


class UnreadableError(ValueError):
    """The error for a statement that a script cannot contain. Its message has the reason, but no part of it."""


@dataclass(slots=True)
class Token:
    """A token. Its `kind` is word, quoted (a name), literal, operator, variable or hint; scripts write its `text`."""

    kind: str
    text: str
    value: Value = None
    fixed: bool = False
    """Whether the literal stays in the text, because the server takes no parameter in its place."""
    is_text: bool = False

    def is_(self, *texts: str) -> bool:
        """Return whether the token is one of these words or operators; False for a quoted name."""
        return self.kind in ("word", "operator") and self.text in texts

    @property
    def is_value(self) -> bool:
        """Return whether the token stands for one value, or for the values of a list."""
        return self.kind == "literal" or self.is_("NULL", "DEFAULT", FOLDED)


def tokens_of(sql: str, ansi_quotes: bool) -> list[Token]:
    """Return the tokens of a statement; with `ansi_quotes`, "..." is a name, not a text.

    Raises UnreadableError for a quote or a comment without an end, and for a character that SQL does not have.
    """
    tokens: list[Token] = []
    inside = 0
    at = 0
    while match := _TOKEN.match(sql, at):
        kind, text, at = match.lastgroup or "other", match[0], match.end()
        if kind == "skip":
            # The server executes the text between /*! and */.
            inside += text.startswith(("/*!", "/*M!"))
        elif inside and text == "*" and sql.startswith("/", at):
            inside, at = inside - 1, at + 1
        elif text == "/" and sql.startswith("*", at):
            raise UnreadableError("a comment without an end")
        elif kind == "string" and tokens and tokens[-1].is_text and tokens[-1].value is not None:
            # The server joins neighbouring texts.
            tokens[-1].value = _joined(tokens[-1].value, _token(kind, text, ansi_quotes, []).value)
        else:
            tokens.append(_token(kind, text, ansi_quotes, tokens))
    while tokens and tokens[-1].is_(";"):
        tokens.pop()
    return tokens


def _token(kind: str, text: str, ansi_quotes: bool, before: list[Token]) -> Token:
    match kind:
        case "word":
            upper = text.upper() if text.isascii() else text
            if upper in KEYWORDS:
                return Token("word", upper)
            return Token("quoted", f"`{text}`") if "$" in text else Token("word", text)
        case "quoted":
            return Token("quoted", text)
        case "number":
            return Token("literal", "?", _number(text))
        case "place":
            return Token("literal", "?", None, is_text=True)
        case "hex":
            digits = text[2:-1] if text[1] == "'" else text[2:]
            data = bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
            # If a character set precedes the literal, the server treats it as a text, never as a number.
            is_hybrid = text[0] == "0" and not (_drop_introducer(before) or _is_before_text(before))
            return Token("literal", "?", Hexadecimal(data) if is_hybrid else data)
        case "bits":
            bits = text[2:-1] if text[1] == "'" else text[2:]
            number = int(bits or "0", 2)
            # A literal with more bits than a number is a binary string.
            is_number = number <= _LARGEST_INT
            return Token("literal", "?", number if is_number else number.to_bytes((len(bits) + 7) // 8))
        case "double" if ansi_quotes:
            return Token("quoted", "`" + text[1:-1].replace('""', '"').replace("`", "``") + "`")
        case "string" | "double":
            content = _ESCAPE[text[-1]].sub(_unescaped, text[text.index(text[-1]) + 1 : -1])
            is_binary = _drop_introducer(before) == "_binary" or not _decodable(content)
            value = content.encode("utf-8", "surrogateescape") if is_binary else content
            return Token("literal", "?", value, is_text=True)
        case "hint":
            return Token(kind, " ".join(text.split()))
        case "operator" | "variable":
            return Token(kind, text)
        case _:
            why = "a quote without an end" if text in "'\"`" else "a character that SQL has not"
            raise UnreadableError(why)


def name_of(token: Token) -> str | None:
    """Return the token's name if it is a name, quoted or not, else None. SQL's words count as names."""
    if token.kind == "quoted":
        return token.text[1:-1].replace("``", "`")
    return token.text if token.kind == "word" else None


def _joined(one: Value, other: Value) -> Value:
    """Return two texts joined; the result is bytes if one of them is not UTF-8."""
    if isinstance(one, bytes) or isinstance(other, bytes):
        return b"".join(part if isinstance(part, bytes) else str(part).encode() for part in (one, other))
    return f"{one}{other}"


def _decodable(text: str) -> bool:
    """Return whether a text was UTF-8: it has no surrogate, which would stand for a byte that could not be decoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _drop_introducer(before: list[Token]) -> str:
    """Remove the character set before a literal (`_utf8mb4'x'`), and return it; "" if there is none."""
    if before and before[-1].kind == "word" and before[-1].text.startswith("_"):
        return before.pop().text.lower()
    return ""


def _is_before_text(before: list[Token]) -> bool:
    return bool(before) and before[-1].is_("LIKE", "REGEXP", "RLIKE")


def _unescaped(match: re.Match[str]) -> str:
    return match[0][0] if match[1] is None else _ESCAPED.get(match[1], match[1])


def _number(text: str) -> Value:
    if text.isdigit():
        return whole(int(text)) if len(text) < 30 else text
    # A decimal with more digits than a double stays a text, which the server converts exactly.
    kind = Double if "e" in text.lower() else float
    return kind(text) if len(text) <= 15 and abs(float(text)) < 1e300 else text


def whole(number: int) -> int | str:
    """Return a whole number, as a text if it does not fit into a signed BIGINT."""
    return number if abs(number) <= _LARGEST_INT else str(number)
