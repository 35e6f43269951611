"""What one look at a server that runs already tells: plain data, asked by statements that change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Facts:
    """The facts of one server, as the account of a URL sees them."""

    version: str
    """The version in the server's words."""
    tls: str | None
    """The version of TLS and the cipher of our connection; None: it is not encrypted."""
    variables: Mapping[str, str]
    """Every variable with the server's value in words."""
    page_bytes: int
    pool_bytes: int
    schema_bytes: int | None
    """The bytes of the URL's schema; None: there is none of that name."""
    missing: Mapping[str, str]
    """The rights that a run needs and the account lacks, each with the statement that grants it."""
    read_only: str = ""
    """Why nobody, or not this account, may write."""
    unguarded: str = ""
    """Why whoever reaches the server may do everything; "": it asks for a password and for rights."""
    roles: tuple[str, ...] = ()
    """Sentences on the server's place among others: replica, primary, cluster."""
    proxy: str = ""
    """What stands between us and the server."""
    managed: str = ""
    """The service that runs the server for its owner."""
    nulls: tuple[str, ...] = ()
    """Sentences on figures that a run on this server will not have, each with the reason."""
    data_folder: str | None = None
    """The server's data directory, as its host names it; None: the account may not know."""
    is_here: bool | None = None
    """Whether the server is on this host; None: its address is, and a tunnel or a container may be behind it."""
