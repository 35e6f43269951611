"""Passwords with odd characters, and mistyped addresses of a server that contain such a password.

Each password begins and ends with a unique word, so that a test also finds a half of a password in an output.
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
    """Return an address for each password and each way of mistyping. If a password contains @ and the address has no
    host, the password's rest would be parsed as the host."""
    forms = ((spelling, password) for spelling in SPELLINGS for password in PASSWORDS)
    return [
        spelling.format(scheme=scheme, password=password)
        for spelling, password in forms
        if not (spelling.endswith("monitor:{password}") and "@" in password)
    ]
