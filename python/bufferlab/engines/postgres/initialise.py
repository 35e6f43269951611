"""Makes a new cluster with initdb: one user, with a password, in locale C and UTF8."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from bufferlab.engines.postgres.failure import failure
from bufferlab.engines.postgres.find_postgres import initdb
from bufferlab.engines.servers import child_process
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.identity import Identity
from bufferlab.engines.servers.private_server import make_data, make_home
from bufferlab.engines.servers.signs_of_life import OnWait
from bufferlab.engines.servers.user import give, write_for

_CHECKSUMS_BY_DEFAULT = (18,)


def initialise(
    build: Build,
    data: Path,
    home: Path,
    user: tuple[int, int] | None,
    identity: Identity,
    on_wait: OnWait,
    *,
    checksums: bool = False,
) -> None:
    """Make `data`, which must not exist, with the identity's user as its superuser and no other account.

    Raises EngineFailure with the end of initdb's words when it could not be made.
    """
    make_home(home, user)
    data.mkdir(mode=0o700)
    give(data, user)
    secret = home / "initialise.password"
    try:
        write_for(secret, identity.password + "\n", user)
        command = [str(initdb(build)), *_arguments(build, data, secret, identity, checksums)]
        make_data(command, build, home, user, failure, on_wait, own_ipc=child_process.can_own_ipc(user))
    finally:
        with suppress(FileNotFoundError):
            secret.unlink()


def _arguments(build: Build, data: Path, secret: Path, identity: Identity, checksums: bool) -> list[str]:
    # Text is compared by bytes, as on the other engines: names sort alike everywhere. What is made is synced once.
    words = ["-D", str(data), "-U", identity.user, f"--pwfile={secret}", "--auth=scram-sha-256", "--locale=C",
             "--encoding=UTF8", "--no-sync", "--no-instructions"]  # fmt: skip
    if checksums:
        words.append("--data-checksums")
    elif build.numbers >= _CHECKSUMS_BY_DEFAULT:
        words.append("--no-data-checksums")
    return words
