"""The values by which the knob `server` names a server. Pure data, so that lists import no code that parses them."""

from __future__ import annotations

ON_PATH = "path"
"""The name of the first server of the flavour on $PATH or, if there is none, of the newest fetched one."""
PLACES = ("socket", "password_file")
WORDS = (*PLACES, "sslmode", "sslrootcert", "sslcert", "sslkey")
"""The options of every family's URLs."""
SWITCHES = ("get_server_public_key", "allow_unverified_password")
LOGIN_WORDS = ("server_public_key", *SWITCHES)
"""The URL options of MySQL and MariaDB for the RSA keys that a full login by caching_sha2_password may trust."""


def url_pattern(*schemes: str) -> str:
    """Return the regular expression of a URL, for a knob. It allows no password, because results contain the URL."""
    # `parse` reports unknown options. This expression only refuses options that look like a password's.
    word = rf"(?:{'|'.join((*WORDS, *LOGIN_WORDS))}|(?!\w*(?:pass|pw))\w{{1,40}})"
    label, option = "[A-Za-z0-9_-]{1,63}", rf"{word}=[^\s&=\x00-\x1f\x7f-\x9f]+"
    host = rf"(?:(?:{label}(?:\.{label}){{0,7}}|\[[0-9A-Fa-f:.]{{2,45}}\])(?::[0-9]{{1,5}})?)?"
    return (
        rf"(?:{'|'.join(schemes)})://[^\s:/@?#\[\]\x00-\x1f\x7f-\x9f]{{1,64}}@{host}"
        rf"/[A-Za-z0-9_]+(?:\?{option}(?:&{option})*)?"
    )
