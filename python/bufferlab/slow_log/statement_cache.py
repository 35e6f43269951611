"""Reads statements fast: of the statements that differ only in plain literals, it cuts only one into tokens.

A plain literal is a whole number, or a text in single quotes that has no backslash, no quote, and no byte that is not
UTF-8. The reader first replaces each plain literal by a mark that occurs in no statement, and reads the result. If
every mark becomes a value of the result, later statements of this form get their literals at the marks' places. If a
mark does not become a value (it was in a comment, a name, or another text), each such statement is cut into tokens.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from bufferlab.slow_log.digest import SqlStatement, read_statement
from bufferlab.slow_log.tokens import UnreadableError, Value

_MOST_FORMS = 2_000
_MOST_PLACES = 200_000
"""The most values that all kept forms together may have; each takes about 200 bytes."""
_MOST_BYTES = 4_000
"""The most characters of a statement that is read with marks. Longer statements rarely recur."""
_PLAIN = re.compile(r"(?<![\w$'])'([^'\\\ud800-\udfff]*+)'(?!')|(?<![\w$.@'\"`])([0-9]{1,17}+)(?![\w$.])", re.ASCII)
_FIRST_MARK = 918273645500000000
_MARK_DIGITS = "9182736455"
_TEXT_MARK = "\ue000"


@dataclass(frozen=True, slots=True)
class _Form:
    digest: str
    parts: tuple[str, ...]
    places: tuple[tuple[int, int] | None, ...]
    """For each value the index of its literal, and its sign (1 or -1); None for a value that stays the same."""
    values: tuple[Value, ...]
    schema: str
    why_not: str
    is_in_order: bool
    """Whether the values are the literals in the same order, with unchanged signs."""


class StatementReader:
    """A reader of statements with the results of `read_statement`. It caches the forms of recent statements."""

    def __init__(self, ansi_quotes: bool = False) -> None:
        self.ansi_quotes = ansi_quotes
        self._forms: OrderedDict[tuple[str | bool, ...], _Form | None] = OrderedDict()
        self._places = 0

    def read(self, sql: str, schema: str) -> SqlStatement:
        """Return the statement of a connection in `schema`. Raises the UnreadableError of `read_statement`."""
        if len(sql) > _MOST_BYTES or _TEXT_MARK in sql or _MARK_DIGITS in sql:
            return read_statement(sql, schema, self.ansi_quotes)
        # `pieces` are the texts between literals. Between two of them come two entries: the literal's quoted text, and
        # its digits.
        pieces = _PLAIN.split(sql)
        quoted = pieces[1::3]
        literals: list[Value] = [
            int(digits) if text is None else text for text, digits in zip(quoted, pieces[2::3], strict=True)
        ]
        key = (*pieces[::3], *[text is None for text in quoted], schema)
        if key in self._forms:
            form = self._forms[key]
            self._forms.move_to_end(key)
        else:
            form = self._forms[key] = self._form(pieces[::3], schema, literals)
            self._places += len(form.places) if form else 0
            while len(self._forms) > _MOST_FORMS or self._places > _MOST_PLACES:
                _, oldest = self._forms.popitem(last=False)
                self._places -= len(oldest.places) if oldest else 0
        if form is None:
            return read_statement(sql, schema, self.ansi_quotes)
        values = (
            tuple(literals)
            if form.is_in_order
            else tuple(
                value if place is None else _signed(literals[place[0]], place[1])
                for place, value in zip(form.places, form.values, strict=True)
            )
        )
        return SqlStatement(form.digest, form.parts, values, form.schema, form.why_not)

    def _form(self, texts: Sequence[str], schema: str, literals: Sequence[Value]) -> _Form | None:
        marks: dict[Value, tuple[int, int]] = {}
        marked = [texts[0]]
        for at, (literal, text) in enumerate(zip(literals, texts[1:], strict=True)):
            if isinstance(literal, str):
                marks[f"{_TEXT_MARK}{at}"] = (at, 1)
                marked += [f"'{_TEXT_MARK}{at}'", text]
            else:
                marks[_FIRST_MARK + at], marks[-_FIRST_MARK - at] = (at, 1), (at, -1)
                marked += [str(_FIRST_MARK + at), text]
        try:
            statement = read_statement("".join(marked), schema, self.ansi_quotes)
        except UnreadableError:
            return None
        places = tuple(marks.get(value) for value in statement.values)
        if len({place[0] for place in places if place is not None}) < len(literals):
            return None
        return _Form(
            statement.digest, statement.parts, places, statement.values, statement.schema, statement.why_not,
            is_in_order=places == tuple((at, 1) for at in range(len(literals))),
        )  # fmt: skip


def _signed(literal: Value, sign: int) -> Value:
    return sign * literal if isinstance(literal, int) else literal
