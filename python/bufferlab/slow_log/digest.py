"""Makes, from a statement's tokens, its digest (without literals) and its form (with placeholders for its values).

The digest follows MySQL's DIGEST_TEXT: `?` for a value, `(...)` for a list of values; NULL stays outside of lists.
tokens.py cuts a statement into tokens, named_tables.py finds the tables that it names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bufferlab.slow_log import named_tables
from bufferlab.slow_log.tokens import (
    FIXED_AFTER,
    FOLDED,
    KEYWORDS,
    LITERAL_AFTER,
    RESERVED,
    SPACED,
    TYPES_WITH_SIZES,
    Double,
    Hexadecimal,
    Token,
    UnreadableError,
    Value,
    name_of,
    tokens_of,
)

_MOST_PADDED = 512
"""The most values of an IN list that is padded. Padding gives lists of nearly the same length one form."""

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(slots=True)  # Slots save memory, as in LogEntry.
class SqlStatement:
    """A statement. `parts` are the texts before, between and after its values: one more than there are values."""

    digest: str
    parts: tuple[str, ...]
    values: tuple[Value, ...]
    schema: str = ""
    """The schema of the statement's tables; "" if the log lacks it."""
    why_not: str = ""
    """The reason why a script leaves the statement out: it is not the application's, or not of one schema; or ""."""


def digest(sql: str) -> str:
    """Return the digest of a statement.

    Raises UnreadableError if a quote or a comment in it has no end, or for a character that SQL does not have.

    >>> digest("select * from t -- all\\nwhere a in (1,2) and `b` = -0x1F or c is null limit 5")
    'SELECT * FROM t WHERE a IN (...) AND b = ? OR c IS NULL LIMIT ?'
    >>> digest("INSERT INTO t VALUES (1, 'it''s', NULL), (2, 'x', NULL)")
    'INSERT INTO t VALUES (...)'
    """
    return _digest(_signed(tokens_of(sql, False)))


def read_statement(sql: str, schema: str = "", ansi_quotes: bool = False) -> SqlStatement:
    """Return the statement with its digest, form and values. Names lose the qualifier that names its schema.

    `schema` is the connection's; if the statement qualifies all its tables with another schema, it belongs to that one.
    Raises UnreadableError if a quote or a comment has no end, for a character that SQL does not have, and if no script
    can contain the statement.
    """
    tokens = _signed(tokens_of(sql, ansi_quotes))
    named = named_tables.named_in(tokens)
    own, why_not = named_tables.schema_of(named, schema)
    tokens = named_tables.unqualified(tokens, named, own)
    _refuse(tokens)
    _fix(tokens)
    text = _digest(tokens)
    return _form(text, _ignoring(_padded(_wrapped(tokens))), own, why_not)


def _signed(tokens: list[Token]) -> list[Token]:
    """Return the tokens with each sign merged into the number after it."""
    kept: list[Token] = []
    for token in tokens:
        if token.kind == "literal":
            while kept and kept[-1].is_("-", "+") and (len(kept) == 1 or _before_sign(kept[-2])):
                if kept[-1].text == "-" and isinstance(token.value, bytes) and _number_of(token.value) is None:
                    # Keep the sign outside of bytes: the server converts the bytes to a number, and negates the number.
                    break
                if kept.pop().text == "-":
                    token.value = _negated(token.value)
        kept.append(token)
    return kept


def _before_sign(token: Token) -> bool:
    """Return whether a + or - after this token is the sign of a number, not an operator between two values."""
    return (token.kind == "operator" and token.text not in (")", "}", FOLDED)) or token.is_(*RESERVED)


def _negated(value: Value) -> Value:
    value = _number_of(value)
    match value:
        case Double():
            return Double(-value)
        case int() | float():
            return -value
        case str():
            return value[1:] if value.startswith("-") else f"-{value}"
        case _:
            return value


def _number_of(value: Value) -> Value:
    """Return the number that a literal 0x... stands for, None for other bytes, and any other value unchanged."""
    if isinstance(value, bytes):
        return value.number if isinstance(value, Hexadecimal) else None
    return value


def _refuse(tokens: Sequence[Token]) -> None:
    """Raise UnreadableError, with the reason, if no script can contain the statement."""
    words = [token for token in tokens if token.kind == "word"]
    for at, token in enumerate(tokens):
        if token.kind == "variable" and not token.text.startswith("@@"):
            raise UnreadableError("a session's own @variable")
        if token.kind == "literal" and token.is_text and token.value is None:
            raise UnreadableError("a placeholder in place of a value")
        if token.is_(";"):
            raise UnreadableError("several statements in one entry")
        if token.kind in ("quoted", "hint") and not token.text.isprintable():
            raise UnreadableError(f"a {'name' if token.kind == 'quoted' else 'hint'} that is not printable UTF-8")
        # A server also accepts a function's name in quotes (sql_yacc.yy, function_call_generic).
        why = _UNWANTED.get((name_of(token) or "").upper())
        if why and any(one.is_("(") for one in tokens[at + 1 : at + 2]):
            raise UnreadableError(why)
    if any(word.is_("OUTFILE", "DUMPFILE") for word in words):
        raise UnreadableError("a file of the server's")
    if sum(token.kind == "literal" for token in tokens) > 900:
        raise UnreadableError("more than 900 values")


_UNWANTED = {
    **dict.fromkeys(
        ("SLEEP", "BENCHMARK", "GET_LOCK", "MASTER_POS_WAIT", "WAIT_FOR_EXECUTED_GTID_SET"), "a function that waits"
    ),
    "LOAD_FILE": "a file of the server's",
}
"""Function that scripts must not call -> reason."""


def _fix(tokens: Sequence[Token]) -> None:
    """Mark the literals that must stay, because the server accepts no parameter there, or gives a parameter another
    meaning."""
    in_list_of_places = 0  # The depth of parentheses (from 1) around the current ORDER BY or GROUP BY, else 0.
    depth = 1
    for at, token in enumerate(tokens):
        before = tokens[at - 1] if at else None
        if token.is_("("):
            depth += 1
        elif token.is_(")"):
            depth -= 1
            in_list_of_places = min(in_list_of_places, depth)
        elif token.is_("BY"):
            in_list_of_places = depth
        elif token.is_("LIMIT", "HAVING", "FOR", "LOCK", "WITH", "UNION", "SEPARATOR", "ROWS", "RANGE", "ON"):
            in_list_of_places = 0 if in_list_of_places == depth else in_list_of_places
        if token.kind == "literal" and before is not None:
            is_place = in_list_of_places == depth and before.is_("BY", ",")
            is_number = isinstance(token.value, int)
            token.fixed = (
                before.is_(*FIXED_AFTER)
                or (token.is_text and _is_alias_behind(before))
                or (is_number and (is_place or (before.is_("(", ",") and _in_type(tokens, at))))
            )


def _is_alias_behind(before: Token) -> bool:
    """Return whether a text literal after this token is the name of a column: `SELECT count(*) 'n'`."""
    if before.kind == "word":
        return before.text not in KEYWORDS or before.text == "END"
    return before.kind in ("quoted", "literal") or before.is_(")")


def _in_type(tokens: Sequence[Token], at: int) -> bool:
    """Return whether the number at index `at` is the size of a type, as in DECIMAL(10, 2), or the digits of NOW(6)."""
    opening = at - 1 if tokens[at - 1].is_("(") else at - 3
    return opening > 0 and tokens[opening].is_("(") and tokens[opening - 1].is_(*TYPES_WITH_SIZES)


def _wrapped(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens with DATE('...') in place of DATE '...', because only the function DATE can have a
    parameter."""
    made: list[Token] = []
    for at, token in enumerate(tokens):
        is_typed = token.is_text and token.kind == "literal" and at and tokens[at - 1].is_(*LITERAL_AFTER)
        made += [Token("operator", "("), token, Token("operator", ")")] if is_typed else [token]
    return made


def _padded(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens with the last value of each IN list repeated until the list's length is a power of two.

    The padded list selects the same rows. A list of more than _MOST_PADDED values stays unchanged.
    """
    made: list[Token] = []
    at = 0
    while at < len(tokens):
        made.append(tokens[at])
        at += 1
        if tokens[at - 1].is_("IN") and (end := _list_end(tokens, at)):
            length = (end - at) // 2
            wanted = 1 << (length - 1).bit_length() if length <= _MOST_PADDED else length
            made += tokens[at:end]
            for _ in range(wanted - length):
                made += [Token("operator", ","), tokens[end - 1]]
            at = end
    return made


def _list_end(tokens: Sequence[Token], at: int) -> int:
    """Return the index of the `)` of a list of values whose `(` is at index `at`; 0 if no list begins there."""
    if at >= len(tokens) or not tokens[at].is_("("):
        return 0
    at += 1
    while at + 1 < len(tokens) and tokens[at].is_value:
        if tokens[at + 1].is_(")"):
            return at + 1
        if not tokens[at + 1].is_(","):
            return 0
        at += 2
    return 0


def _ignoring(tokens: list[Token]) -> list[Token]:
    """Return the tokens with IGNORE added to a writing statement, because a script may insert a key that already
    exists.

    A statement that has IGNORE or ON DUPLICATE KEY UPDATE stays unchanged.
    """
    first = tokens[0] if tokens else None
    if first is None or not first.is_("INSERT", "UPDATE", "DELETE") or any(token.is_("IGNORE") for token in tokens[:5]):
        return tokens
    if any(one.is_("ON") and other.is_("DUPLICATE") for one, other in pairwise(tokens)):
        return tokens
    at = 1
    while at < len(tokens) and tokens[at].is_("LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "QUICK"):
        at += 1
    return [*tokens[:at], Token("word", "IGNORE"), *tokens[at:]]


def _form(digest_: str, tokens: Sequence[Token], schema: str, why_not: str) -> SqlStatement:
    """Return the statement, split into texts and values at those literals that are not fixed."""
    parts, values, texts = [], [], _Texts()
    in_rows = _in_rows(tokens)
    for at, token in enumerate(tokens):
        is_value = (token.kind == "literal" and not token.fixed) or (at in in_rows and token.is_("NULL"))
        if is_value:
            parts.append(texts.taken(before_value=True))
            values.append(token.value)
        else:
            texts.add(token, written(token.value) if token.kind == "literal" else token.text)
    return SqlStatement(digest_, (*parts, texts.taken()), tuple(values), schema, why_not)


def _in_rows(tokens: Sequence[Token]) -> set[int]:
    """Return the indices of the tokens that are single values in the rows of VALUES and in lists of IN."""
    places: set[int] = set()
    closings = _closings(tokens)
    at = 0
    while at < len(tokens):
        at += 1
        if not tokens[at - 1].is_("VALUES", "VALUE", "IN"):
            continue
        while end := closings.get(at):
            places.update(_elements(tokens, at, end))
            at = end + 1
            if not (at + 1 < len(tokens) and tokens[at].is_(",") and tokens[at + 1].is_("(")):
                break
            at += 1
    return places


def _closings(tokens: Sequence[Token]) -> dict[int, int]:
    """Return index of a `(` -> index of the `)` that closes it."""
    opened: list[int] = []
    closings: dict[int, int] = {}
    for at, token in enumerate(tokens):
        if token.is_("("):
            opened.append(at)
        elif token.is_(")") and opened:
            closings[opened.pop()] = at
    return closings


def _elements(tokens: Sequence[Token], start: int, end: int) -> list[int]:
    """Return the indices of the tokens that stand alone between two commas of the row from `start` to `end`."""
    return [at for at in range(start + 1, end) if tokens[at - 1].is_("(", ",") and tokens[at + 1].is_(",", ")")]


class _Texts:
    """A text made of tokens, with a space between two tokens wherever the server needs or allows one."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.last: Token | None = None

    def add(self, token: Token, text: str) -> None:
        if self.last is not None and _spaced(self.last, token):
            self.texts.append(" ")
        self.texts.append(text)
        self.last = token

    def taken(self, before_value: bool = False) -> str:
        """Return the text since the last call; if a value follows, with the space before it."""
        if before_value:
            self.add(Token("literal", "?"), "")
        text = "".join(self.texts)
        self.texts = []
        return text


def _spaced(left: Token, right: Token) -> bool:
    if left.is_(".") or right.is_("."):
        return left.is_(".", FOLDED) and right.is_(".", FOLDED)
    if left.is_("(") or right.is_(")", ",", ";"):
        return False
    # Write no space between a function's name and its parenthesis: the server refuses "COUNT (*)".
    return not (right.is_("(") and left.kind == "word" and left.text not in SPACED)


def _digest(tokens: Sequence[Token]) -> str:
    joined: list[Token] = []
    for token in tokens:
        if token.kind == "literal":
            # A text after a value is the alias of a column. Leave it out, because a digest has no texts.
            if not (joined and joined[-1].kind == "literal"):
                joined.append(Token("literal", "?"))
        elif token.kind == "quoted" and _PLAIN.fullmatch(token.text[1:-1]) and token.text[1:-1].upper() not in KEYWORDS:
            joined.append(Token("word", token.text[1:-1]))
        elif token.kind != "hint":
            joined.append(token)
    texts = _Texts()
    for token in _folded(_signed(joined)):
        texts.add(token, token.text)
    return texts.taken()


def _folded(tokens: list[Token]) -> list[Token]:
    """Return a digest's tokens with `(...)` for each list of values, and one row for equal neighbouring rows."""
    made: list[Token] = []
    closings = _closings(tokens)
    at = 0
    while at < len(tokens):
        made.append(tokens[at])
        at += 1
        is_in = tokens[at - 1].is_("IN")
        if not is_in and not tokens[at - 1].is_("VALUES", "VALUE"):
            continue
        if is_in and not _list_end(tokens, at):
            continue
        last: list[str] = []
        while end := closings.get(at):
            row = _row(tokens, at, end)
            if (texts := [token.text for token in row]) != last:
                made += [*([Token("operator", ",")] if last else []), *row]
            last, at = texts, end + 1
            if is_in or not (at + 1 < len(tokens) and tokens[at].is_(",") and tokens[at + 1].is_("(")):
                break
            at += 1
    return made


def _row(tokens: Sequence[Token], at: int, end: int) -> list[Token]:
    if _list_end(tokens, at) == end:
        return [tokens[at], Token("operator", FOLDED), tokens[end]]
    alone = set(_elements(tokens, at, end))
    return [
        Token("literal", "?") if place in alone and tokens[place].is_("NULL", "DEFAULT") else tokens[place]
        for place in range(at, end + 1)
    ]


def written(value: Value) -> str:
    r"""Return a value as a literal that means the same to the server and to the reader of a script.

    A backslash has no meaning in a script, but begins an escape for the server.

    >>> print(written("it's\n" + chr(92)))
    'it''s\n\\'
    """
    match value:
        case None:
            return "NULL"
        case Hexadecimal():
            return f"0x{value.hex()}"
        case bytes():
            return f"x'{value.hex()}'"
        case str():
            text = value.replace("\\", "\\\\").replace("'", "''")
            for letter, escaped in (("\n", "\\n"), ("\r", "\\r"), ("\0", "\\0"), ("\x1a", "\\Z")):
                text = text.replace(letter, escaped)
            return f"'{text}'"
        case _:
            return repr(value)
