"""A second folder of a fetched server's programs, in which a script starts the server by its own dynamic loader.

A server of another Debian release runs by the dynamic loader that was fetched with it. But initdb starts the program
`postgres` in its folder by its path, and the kernel would use this machine's loader. PostgreSQL finds its files
relative to its program (port/path.c, find_my_exec and make_relative_path), so the second folder has the same depth as
the first.
"""

from __future__ import annotations

import shutil
from pathlib import Path

_FOLDER = "started"
"""The folder inside the server's `usr` for the second programs. Links in it lead to the other files."""


def made(server: Path, binary: str, others: tuple[str, ...], loader: Path) -> None:
    """Create the second folder in a server's folder; `binary` and `loader` are the server's program and dynamic loader.

    `others` are the programs of its folder that start the server. Raises OSError.
    """
    program = server / binary
    usr = server / Path(binary).parts[0]
    place = beside(program, len(program.relative_to(usr).parts))
    place.mkdir(parents=True)
    up = "/.." * (len(place.relative_to(usr).parts))
    script = place / program.name
    script.write_text(
        f'#!/bin/sh\nusr="${{0%/*}}{up}"\nlibs="$usr/../{loader.parent.relative_to(server)}"\n'
        f'exec "$libs/{loader.name}" --library-path "$libs" "$usr/{program.relative_to(usr)}" "$@"\n'
    )
    script.chmod(0o755)
    for name in others:
        # A program resolves links in its own path, so a link would not do: it must be a copy.
        shutil.copy2(program.with_name(name), place / name)
    for folder in usr.iterdir():
        if folder.name not in (_FOLDER, program.relative_to(usr).parts[0]):
            (usr / _FOLDER / folder.name).symlink_to(f"../{folder.name}")


def beside(program: Path, depth: int = 5) -> Path:
    """Return the second folder for a program `depth` names deep in `usr`, such as lib/postgresql/19/bin/postgres."""
    usr = program.parents[min(depth, len(program.parents)) - 1]
    return usr / _FOLDER / program.parent.relative_to(usr)
