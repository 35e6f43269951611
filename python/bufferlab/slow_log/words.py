"""The words of SQL that decide how a literal beside them is read. Pure data.

From the MySQL Reference Manual ("Keywords and Reserved Words", "Date and Time Literals") and MariaDB's.
"""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


RESERVED = words(
    "ALL AND BETWEEN BY CASE DISTINCT DIV ELSE EXISTS FROM GROUP HAVING IN INTERVAL INTO IS LIKE LIMIT MOD NOT ON OR "
    "ORDER REGEXP RLIKE SELECT SET THEN UPDATE VALUES WHEN WHERE XOR"
)
"""Reserved words, which are no names: a + or - behind one is a sign, and a text is no column's name."""

LITERAL_AFTER = words("DATE TIME TIMESTAMP")
"""Words that make a text behind them a date or a time."""

FIXED_AFTER = words("AS COLLATE SEPARATOR ESCAPE PATH WAIT CHARSET -> ->>")
"""Words and operators behind which the server takes no parameter."""

TYPES_WITH_SIZES = words(
    "BINARY CHAR CURRENT_TIME CURRENT_TIMESTAMP CURTIME DATETIME DEC DECIMAL DOUBLE FLOAT LOCALTIME LOCALTIMESTAMP "
    "NCHAR NOW NUMERIC SIGNED SYSDATE UNSIGNED UTC_TIME UTC_TIMESTAMP VARBINARY VARCHAR"
)
"""Types and functions in whose parentheses a number must be written out."""

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
"""The words that a digest writes in capitals."""

SPACED = RESERVED | words("AS INDEX JOIN OVER UNION USING VALUE")
"""The words with a space before a parenthesis."""
