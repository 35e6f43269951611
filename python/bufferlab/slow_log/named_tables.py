"""Finds the tables and the stored functions that a statement names, and the schema to which the statement belongs.

It walks over a statement's tokens. It knows only where the grammar allows a table's name (MySQL Reference Manual,
"SELECT Statement", "JOIN Clause", and the chapters on INSERT, UPDATE and DELETE).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bufferlab.slow_log.tokens import BUILT_IN, KEYWORDS, RESERVED, SYSTEM_SCHEMAS, Token, name_of, words

OF_THE_CLIENT = "of the client, which name no table"
OF_ANOTHER_SCHEMA = "of another schema"
OF_SEVERAL_SCHEMAS = "of several schemas"

_ENDS_LIST = words("WHERE SET GROUP ORDER HAVING LIMIT WINDOW UNION VALUES FOR LOCK INTO RETURNING WITH")
_BEFORE_TABLE = words("LOW_PRIORITY HIGH_PRIORITY DELAYED QUICK IGNORE INTO LATERAL OJ")
_OF_SEQUENCES = words("NEXTVAL LASTVAL SETVAL")
_WRITING = words("INSERT REPLACE UPDATE DELETE")

_Places = list[tuple[int, str | None]]


@dataclass(slots=True)
class Named:
    """The names in a statement, each with the index of its first token, and its qualifying schema or None."""

    tables: _Places = field(default_factory=list)
    functions: _Places = field(default_factory=list)
    """The functions that are not built into the servers; most of them are stored functions."""
    others: _Places = field(default_factory=list)
    """Other names that a schema may qualify: columns, and the targets of a DELETE from several tables."""


@dataclass(slots=True)
class _Depth:
    """The state of the walk inside one pair of parentheses, or outside of all."""

    verb: str = ""
    """SELECT, or a writing verb; "" inside a function's parentheses, where FROM names no table."""
    lists: bool = False
    """Whether the name after a comma is the name of a table."""
    expects: bool = False
    """Whether the next name is the name of a table."""
    targets: bool = False
    """Whether names are the targets of a DELETE before its FROM, which may be aliases."""


def named_in(tokens: Sequence[Token]) -> Named:
    """Return the tables and stored functions that a statement names, and other names that a schema may qualify."""
    named, common = Named(), _common_tables(tokens)
    depths = [_Depth()]
    resume = 0
    for at, token in enumerate(tokens):
        here = depths[-1]
        if at < resume:
            continue
        if token.is_("("):
            is_sequence = at > 0 and (name_of(tokens[at - 1]) or "").upper() in _OF_SEQUENCES
            depths.append(_Depth(lists=here.expects, expects=here.expects or is_sequence))
            here.expects = False
        elif token.is_(")"):
            depths = depths[:-1] or [_Depth()]
        elif token.is_(","):
            here.expects = here.lists
        elif token.kind == "word" and _is_clause(tokens, at, here, is_outermost=len(depths) == 1):
            if token.is_("USING") and here.expects:
                # The tables between DELETE FROM and USING may be aliases of the tables after USING.
                named.others, named.tables = [*named.others, *named.tables], []
        elif (name := name_of(token)) is not None:
            schema, length = _qualified(tokens, at)
            is_called = any(one.is_("(") for one in tokens[at + length : at + length + 1])
            if here.expects and (not is_called or here.verb in ("INSERT", "REPLACE")):
                if length == 3 or (length == 1 and not _is_none(token, name, common)):
                    named.tables.append((at, schema))
            elif is_called and _is_stored(tokens, at, name, common, is_qualified=length > 1):
                named.functions.append((at, schema))
            elif length == 5 or (here.targets and length == 3):
                named.others.append((at, schema))
            here.expects = False
            resume = at + length
    return named


def schema_of(named: Named, schema: str) -> tuple[str, str]:
    """Return a statement's schema, and the reason why scripts leave it out ("" if they do not).

    `schema` is the connection's default schema, "" if the log lacks it.
    """
    sources = named.tables or named.functions
    if not sources:
        return schema, OF_THE_CLIENT
    schemas = {before or schema for _, before in sources} | {before for _, before in named.functions if before}
    if any(name.lower() in SYSTEM_SCHEMAS for name in schemas):
        return schema, OF_ANOTHER_SCHEMA
    # The log lacks the schema of some connections. Assume that their unqualified names are in the schema of the
    # qualified names.
    schemas -= {""}
    return (schema, OF_SEVERAL_SCHEMAS) if len(schemas) > 1 else (next(iter(schemas), schema), "")


def unqualified(tokens: Sequence[Token], named: Named, schema: str) -> list[Token]:
    """Return the tokens with names no longer qualified by this schema: `sale` for `shop.sale`."""
    places = {at for at, before in (*named.tables, *named.functions, *named.others) if schema and before == schema}
    return [token for at, token in enumerate(tokens) if at not in places and at - 1 not in places]


def _is_clause(tokens: Sequence[Token], at: int, here: _Depth, *, is_outermost: bool) -> bool:
    """Record in `here` how the word at index `at` affects the names after it. Return whether it is a keyword."""
    word = tokens[at].text.upper()
    before = tokens[at - 1] if at else None
    if here.expects and word in _BEFORE_TABLE:
        return True
    if word == "SELECT":
        here.verb, here.lists, here.expects = word, False, False
    elif word in _WRITING and (before is None or (is_outermost and tokens[0].is_("WITH") and before.is_(")"))):
        here.verb, here.lists, here.expects, here.targets = word, word == "UPDATE", word != "DELETE", word == "DELETE"
    elif word == "FROM" and here.verb:
        here.lists, here.expects, here.targets = True, True, False
    elif word == "USING" and here.verb == "DELETE" and not any(one.is_("(") for one in tokens[at + 1 : at + 2]):
        here.lists = here.expects = True
    elif word in ("JOIN", "STRAIGHT_JOIN"):
        here.expects = here.lists
    elif word in _ENDS_LIST:
        # The name after NEXT VALUE FOR is a sequence, which counts as a table.
        here.lists, here.expects = False, word == "FOR" and before is not None and before.is_("VALUE")
    else:
        return word in RESERVED
    return True


def _qualified(tokens: Sequence[Token], at: int) -> tuple[str | None, int]:
    """Return the schema that qualifies a name, if any, and the number of tokens of the whole name.

    `a` has 1 token, `a.b` 3, `a.b.c` and `a.b.*` have 5.
    """
    parts = 1
    while parts < 3 and at + 2 * parts < len(tokens) and tokens[at + 2 * parts - 1].is_("."):
        behind = tokens[at + 2 * parts]
        if name_of(behind) is None and not behind.is_("*"):
            break
        parts += 1
    return (name_of(tokens[at]) if parts > 1 else None), 2 * parts - 1


def _common_tables(tokens: Sequence[Token]) -> set[str]:
    """Return the names that WITH gives to queries, in small letters."""
    if not any(token.is_("WITH") for token in tokens):
        return set()
    return {
        name.lower()
        for at, token in enumerate(tokens[:-1])
        if (name := name_of(token)) is not None
        and at
        and (tokens[at - 1].is_("WITH", ",") or tokens[at - 1].text.upper() == "RECURSIVE")
        and tokens[at + 1].is_("AS", "(")
    }


def _is_none(token: Token, name: str, common: set[str]) -> bool:
    """Return whether an unqualified name in the place of a table is not a table: the name of a query of WITH, or
    DUAL."""
    return name.lower() in common or (token.kind == "word" and name.upper() == "DUAL")


def _is_stored(tokens: Sequence[Token], at: int, name: str, common: set[str], *, is_qualified: bool) -> bool:
    """Return whether the function called at index `at` is a stored one, judging by its name."""
    if is_qualified:
        return name.lower() not in SYSTEM_SCHEMAS
    before = tokens[at - 1] if at else None
    is_alias = before is not None and before.is_("AS", ")")
    return not (is_alias or name.upper() in BUILT_IN or name.upper() in KEYWORDS or name.lower() in common)
