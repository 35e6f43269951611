"""Passwords of odd characters, and the ways in which people mistype the address of a server that holds one.

Each password begins and ends with a word of its own, so that half of one that is shown is found too.
"""

from __future__ import annotations

BEGINS, ENDS = "s3crB", "s3crE"
ODD = (
    "-", '"', "'", "`", " ", "  ", "\t", "\n", "\r", "\u00a0", "\u200b", "🔑", "é", "%", "%40", "\\", "\\n", "/", "//",
    "://", ";", ",", "&", "?", "#", "@", "@@", ":", "::", "=", "$(x)", "[", "]{", "<>", "|!", "~^*+", " @ : ",
    "x" * 200,
)  # fmt: skip
PASSWORDS = tuple(f"{BEGINS}{odd}{ENDS}" for odd in ODD)
SPELLINGS = (
    "{scheme}://monitor:{password}@localhost/lab",
    "{scheme}://monitor@corp:{password}@localhost:3306/lab",
    "{scheme}:/monitor:{password}@localhost/lab",
    "{scheme}//monitor:{password}@localhost/lab",
    "monitor:{password}@localhost/lab",
    "monitor:{password}@localhost",
    "host=localhost user=monitor password={password} dbname=lab",
    "user = monitor password = {password}",
    "{scheme}://monitor@localhost/lab?password={password}",
    "jdbc:{scheme}://localhost/lab?user=monitor&pwd={password}",
    "{scheme}://monitor:{password}",
    "mysql -h localhost -u monitor -p{password} lab",
)


def addresses(scheme: str) -> list[str]:
    """Every password in every spelling. Behind the @ of a password and without a host, the rest would be the host."""
    forms = ((spelling, password) for spelling in SPELLINGS for password in PASSWORDS)
    return [
        spelling.format(scheme=scheme, password=password)
        for spelling, password in forms
        if not (spelling.endswith("monitor:{password}") and "@" in password)
    ]
