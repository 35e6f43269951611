"""Cuts a statement of MySQL or MariaDB into tokens, as the servers' lexer does. It knows no grammar.

It follows the MySQL Reference Manual ("Literal Values", "Comments"), and the servers' rules of conversion for the types
of parameters. digest.py makes digests and forms from the tokens, named_tables.py finds the tables.

Some SQL words decide how a literal next to them is read. Their list and that of built-in functions come from the
reference manuals of MySQL and MariaDB ("Keywords and Reserved Words", "Date and Time Literals", "Built-In Function and
Operator Reference"). MariaDB's functions are those of its information_schema.SQL_FUNCTIONS.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


def words(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


RESERVED = words(
    "ALL AND BETWEEN BY CASE DISTINCT DIV ELSE EXISTS FROM GROUP HAVING IN INTERVAL INTO IS LIKE LIMIT MOD NOT ON OR "
    "ORDER REGEXP RLIKE SELECT SET THEN UPDATE VALUES WHEN WHERE XOR"
)
"""The reserved words. They cannot be names: so a + or - after one is a sign, and a text after one is not a name."""

LITERAL_AFTER = words("DATE TIME TIMESTAMP")
"""The words that make the text after them a date or a time."""

FIXED_AFTER = words("AS COLLATE SEPARATOR ESCAPE PATH WAIT CHARSET -> ->>")
"""The words and operators after which the server takes no parameter."""

TYPES_WITH_SIZES = words(
    "BINARY CHAR CURRENT_TIME CURRENT_TIMESTAMP CURTIME DATETIME DEC DECIMAL DOUBLE FLOAT LOCALTIME LOCALTIMESTAMP "
    "NCHAR NOW NUMERIC SIGNED SYSDATE UNSIGNED UTC_TIME UTC_TIMESTAMP VARBINARY VARCHAR"
)
"""The types and functions in whose parentheses a number cannot be a parameter."""

KEYWORDS = (
    RESERVED
    | LITERAL_AFTER
    | TYPES_WITH_SIZES
    | words(
        "AGAINST AS ASC BEGIN BOTH CAST CHARSET COLLATE COMMIT CONVERT CROSS DEFAULT DELAYED DELETE DESC DUMPFILE "
        "DUPLICATE END ESCAPE FALSE FOR FORCE HIGH_PRIORITY IGNORE INDEX INNER INSERT JOIN KEY LEADING LEFT LOCK "
        "LOCKED LOW_PRIORITY MATCH MODE NATURAL NOWAIT NULL OFFSET OUTER OUTFILE OVER PARTITION PATH QUICK RANGE "
        "RELEASE REPLACE RETURNING RIGHT ROLLBACK ROW ROWS SAVEPOINT SEPARATOR SHARE SKIP SOUNDS SQL_CALC_FOUND_ROWS "
        "SQL_NO_CACHE START STRAIGHT_JOIN TABLE TO TRAILING TRANSACTION TRUE UNION USE USING VALUE WAIT WINDOW WITH "
        "WORK"
    )
)
"""The words that digests have in capitals."""

SPACED = RESERVED | words("AS INDEX JOIN OVER UNION USING VALUE")
"""The words that are written with a space before a parenthesis."""

SYSTEM_SCHEMAS = words("information_schema mysql performance_schema sys")
"""The server's own schemas, in small letters."""

BUILT_IN = words(
    # Functions of comparison, control, aggregates and windows.
    "ANY_VALUE AVG BIT_AND BIT_OR BIT_XOR COALESCE COUNT CUME_DIST DECODE DECODE_ORACLE DEFAULT DENSE_RANK FIRST_VALUE "
    "GREATEST GROUPING GROUP_CONCAT IF IFNULL INTERVAL ISNULL JSON_ARRAYAGG JSON_OBJECTAGG LAG LAST_VALUE LEAD LEAST "
    "MAX MEDIAN MIN NTH_VALUE NTILE NULLIF NVL NVL2 PERCENTILE_CONT PERCENTILE_DISC PERCENT_RANK RANK ROW_NUMBER "
    "ST_COLLECT STD STDDEV STDDEV_POP STDDEV_SAMP SUM VARIANCE VAR_POP VAR_SAMP "
    # Functions of numbers.
    "ABS ACOS ASIN ATAN ATAN2 BIN BIT_COUNT CEIL CEILING CONV COS COT CRC32 CRC32C DEGREES EXP FLOOR LN LOG LOG10 LOG2 "
    "MOD OCT PI POW POWER RADIANS RAND ROUND SIGN SIN SQRT TAN TRUNCATE "
    # Functions of texts and bytes.
    "ASCII BIT_LENGTH CHAR CHARACTER_LENGTH CHAR_LENGTH CHR CONCAT CONCAT_OPERATOR_ORACLE CONCAT_WS ELT EXPORT_SET "
    "EXTRACTVALUE FIELD FIND_IN_SET FORMAT FORMAT_BYTES FORMAT_PICO_TIME FROM_BASE64 HEX INSERT INSTR LCASE LEFT "
    "LENGTH LENGTHB LOAD_FILE LOCATE LOWER LPAD LPAD_ORACLE LTRIM LTRIM_ORACLE MAKE_SET MATCH MID NATURAL_SORT_KEY "
    "OCTET_LENGTH ORD POSITION QUOTE REGEXP_INSTR REGEXP_LIKE REGEXP_REPLACE REGEXP_SUBSTR REPEAT REPLACE "
    "REPLACE_ORACLE REVERSE RIGHT RPAD RPAD_ORACLE RTRIM RTRIM_ORACLE SFORMAT SOUNDEX SPACE STRCMP SUBSTR SUBSTRING "
    "SUBSTRING_INDEX SUBSTR_ORACLE TO_BASE64 TO_CHAR TO_NUMBER TRIM TRIM_ORACLE UCASE UNHEX UPDATEXML UPPER "
    "WEIGHT_STRING "
    # Functions of dates and times.
    "ADDDATE ADDTIME ADD_MONTHS CONVERT_TZ CURDATE CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURTIME DATE DATEDIFF "
    "DATE_ADD DATE_FORMAT DATE_SUB DAY DAYNAME DAYOFMONTH DAYOFWEEK DAYOFYEAR EXTRACT FROM_DAYS FROM_UNIXTIME "
    "GET_FORMAT HOUR LAST_DAY LOCALTIME LOCALTIMESTAMP MAKEDATE MAKETIME MICROSECOND MINUTE MONTH MONTHNAME "
    "MONTHS_BETWEEN NOW PERIOD_ADD PERIOD_DIFF QUARTER SECOND SEC_TO_TIME STR_TO_DATE SUBDATE SUBTIME SYSDATE TIME "
    "TIMEDIFF TIMESTAMP TIMESTAMPADD TIMESTAMPDIFF TIME_FORMAT TIME_TO_SEC TO_DAYS TO_SECONDS TRUNC UNIX_TIMESTAMP "
    "UTC_DATE UTC_TIME UTC_TIMESTAMP WEEK WEEKDAY WEEKOFYEAR YEAR YEARWEEK "
    # Functions that convert types.
    "BINARY CAST CONVERT VECTOR "
    # Functions of keys, hashes and addresses.
    "AES_DECRYPT AES_ENCRYPT ASYMMETRIC_DECRYPT ASYMMETRIC_DERIVE ASYMMETRIC_ENCRYPT ASYMMETRIC_SIGN ASYMMETRIC_VERIFY "
    "BIN_TO_UUID COMPRESS CREATE_ASYMMETRIC_PRIV_KEY CREATE_ASYMMETRIC_PUB_KEY CREATE_DH_PARAMETERS CREATE_DIGEST "
    "DES_DECRYPT DES_ENCRYPT ENCODE ENCRYPT INET6_ATON INET6_NTOA INET_ATON INET_NTOA IS_IPV4 IS_IPV4_COMPAT "
    "IS_IPV4_MAPPED IS_IPV6 IS_UUID KDF MD5 OLD_PASSWORD PASSWORD RANDOM_BYTES SHA SHA1 SHA2 SYS_GUID UNCOMPRESS "
    "UNCOMPRESSED_LENGTH UUID UUID_SHORT UUID_TO_BIN UUID_V4 UUID_V7 VALIDATE_PASSWORD_STRENGTH "
    # Functions of the session and the server.
    "BENCHMARK BINLOG_GTID_POS CHARSET COERCIBILITY COLLATION CONNECTION_ID CURRENT_ROLE CURRENT_USER DATABASE "
    "DECODE_HISTOGRAM FOUND_ROWS GET_LOCK GTID_SUBSET GTID_SUBTRACT ICU_VERSION IS_FREE_LOCK IS_USED_LOCK "
    "LAST_INSERT_ID MASTER_GTID_WAIT MASTER_POS_WAIT NAME_CONST PS_CURRENT_THREAD_ID PS_THREAD_ID RELEASE_ALL_LOCKS "
    "RELEASE_LOCK ROLES_GRAPHML ROWNUM ROW_COUNT SCHEMA SCHEMAS SESSION_USER SLEEP SOURCE_POS_WAIT STATEMENT_DIGEST "
    "STATEMENT_DIGEST_TEXT SYSTEM_USER USER VERSION WAIT_FOR_EXECUTED_GTID_SET WAIT_UNTIL_SQL_THREAD_AFTER_GTIDS "
    "WSREP_LAST_SEEN_GTID WSREP_LAST_WRITTEN_GTID WSREP_SYNC_WAIT_UPTO_GTID "
    # Functions of JSON, dynamic columns and vectors.
    "COLUMN_ADD COLUMN_CHECK COLUMN_CREATE COLUMN_DELETE COLUMN_EXISTS COLUMN_GET COLUMN_JSON COLUMN_LIST COLUMNS "
    "FROM_VECTOR JSON_ARRAY JSON_ARRAY_APPEND JSON_ARRAY_INSERT JSON_ARRAY_INTERSECT JSON_COMPACT JSON_CONTAINS "
    "JSON_CONTAINS_PATH JSON_DEPTH JSON_DETAILED JSON_EQUALS JSON_EXISTS JSON_EXTRACT JSON_INSERT JSON_KEYS "
    "JSON_KEY_VALUE JSON_LENGTH JSON_LOOSE JSON_MERGE JSON_MERGE_PATCH JSON_MERGE_PRESERVE JSON_NORMALIZE "
    "JSON_OBJECT JSON_OBJECT_FILTER_KEYS JSON_OBJECT_TO_ARRAY JSON_OVERLAPS JSON_PRETTY JSON_QUERY JSON_QUOTE "
    "JSON_REMOVE JSON_REPLACE JSON_SCHEMA_VALID JSON_SCHEMA_VALIDATION_REPORT JSON_SEARCH JSON_SET JSON_STORAGE_FREE "
    "JSON_STORAGE_SIZE JSON_TABLE JSON_TYPE JSON_UNQUOTE JSON_VALID JSON_VALUE STRING_TO_VECTOR TO_VECTOR VECTOR_DIM "
    "VECTOR_TO_STRING VEC_DISTANCE VEC_DISTANCE_COSINE VEC_DISTANCE_EUCLIDEAN VEC_FROMTEXT VEC_TOTEXT "
    # Functions of geometry.
    "DISTANCE GEOMCOLLECTION GEOMETRYCOLLECTION LINESTRING MBRCONTAINS MBRCOVEREDBY MBRCOVERS MBRDISJOINT MBREQUAL "
    "MBREQUALS MBRINTERSECTS MBROVERLAPS MBRTOUCHES MBRWITHIN MULTILINESTRING MULTIPOINT MULTIPOLYGON POINT POLYGON "
    "ST_AREA ST_ASBINARY ST_ASGEOJSON ST_ASTEXT ST_ASWKB ST_ASWKT ST_BUFFER ST_BUFFER_STRATEGY ST_CENTROID ST_CONTAINS "
    "ST_CONVEXHULL ST_CROSSES ST_DIFFERENCE ST_DIMENSION ST_DISJOINT ST_DISTANCE ST_DISTANCE_SPHERE ST_ENDPOINT "
    "ST_ENVELOPE ST_EQUALS ST_EXTERIORRING ST_GEOHASH ST_GEOMCOLLFROMTEXT ST_GEOMETRYFROMTEXT ST_GEOMETRYN "
    "ST_GEOMETRYTYPE ST_GEOMFROMGEOJSON ST_GEOMFROMTEXT ST_GEOMFROMWKB ST_INTERIORRINGN ST_INTERSECTION ST_INTERSECTS "
    "ST_ISCLOSED ST_ISEMPTY ST_ISSIMPLE ST_ISVALID ST_LATFROMGEOHASH ST_LATITUDE ST_LENGTH ST_LINEFROMTEXT "
    "ST_LONGFROMGEOHASH ST_LONGITUDE ST_NUMGEOMETRIES ST_NUMINTERIORRINGS ST_NUMPOINTS ST_OVERLAPS "
    "ST_POINTFROMGEOHASH ST_POINTFROMTEXT ST_POINTN ST_POLYFROMTEXT ST_SIMPLIFY ST_SRID ST_STARTPOINT ST_SWAPXY "
    "ST_SYMDIFFERENCE ST_TOUCHES ST_TRANSFORM ST_UNION ST_VALIDATE ST_WITHIN ST_X ST_Y "
    # Words before a parenthesis that are not functions.
    "EXCEPT INTERSECT LATERAL MINUS NESTED RECURSIVE"
)
"""The servers' functions, and other words that a parenthesis may follow. Any other name that is called is a stored
function."""


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
