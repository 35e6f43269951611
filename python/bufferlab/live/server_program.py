"""Finds the program of a server's process: the file that the process runs, even if its path leads to another file by
now.

The kernel names the file in /proc/PID/exe (proc_pid_exe(5)). If a dynamic loader started the process, the file is the
one whose code is mapped. A process may see another file system than bufferlab, as in a container. A service of systemd
has its own mount namespace, but may see the same files as bufferlab (systemd.exec(5), PrivateTmp). So folders are
compared, not namespaces.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bufferlab.engines.servers import page_sites

PROGRAMS = ("mysqld", "mariadbd", "postgres")
"""The names of servers' programs."""
_DELETED = " (deleted)"


@dataclass(frozen=True)
class ServerProgram:
    """The program of a server's process."""

    file: Path
    """The path by which the kernel finds it, even in a container or after its file was replaced."""
    path: str
    """Its path, as the process sees it."""
    elsewhere: bool
    """Whether the process sees other files at this path than bufferlab does, because it is in a container or a
    chroot."""

    @property
    def is_replaced(self) -> bool:
        """Return whether its path now leads to another file, or to none."""
        return _identity(Path(self.path)) != _identity(self.file)


def of_process(process: Path) -> ServerProgram:
    """Return the program of a process, which need not be a server; `process` is its folder in /proc.

    Raises PermissionError for a process that this user may not examine, and FileNotFoundError for one that has ended.
    """
    exe = process / "exe"
    if page_sites.is_loader(exe):
        for code in page_sites.mapped_code(process):
            path = code.path.removesuffix(_DELETED)
            if Path(path).name in PROGRAMS:
                # If the path leads to another file by now, root can still open the mapped file (proc_pid_map_files(5)).
                replaced = process / "map_files" / code.addresses
                file = Path(f"{process}/root{path}") if path == code.path else replaced
                return ServerProgram(file, path, _elsewhere(process, path))
    path = os.readlink(exe).removesuffix(_DELETED)
    return ServerProgram(exe, path, _elsewhere(process, path))


def _elsewhere(process: Path, path: str) -> bool:
    root = (process / "root").stat()
    folder = Path(path).parent
    is_ours = os.path.samestat(root, Path("/").stat())
    return not is_ours or _identity(Path(f"{process}/root{folder}")) != _identity(folder)


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the device and the inode of a file; None if this user finds no file there."""
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None
