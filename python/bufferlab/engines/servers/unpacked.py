"""Records the files of a fetched server when it is unpacked, and compares them before every use.

A use compares the names, modes, sizes and times of all files with those of the last look (lstat(2)), which takes
milliseconds; no program can set the time of a file's last change (ctime). If anything differs, or `fetch` asks for the
server again, all contents are hashed.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bufferlab import marked
from bufferlab.errors import EnvironmentLackingError

_RECORD = "files.json"
_FORMAT_VERSION = 1
_in_use: dict[Path, int] = {}


def record(server: Path) -> None:
    """Write every file's mode and SHA-256, and every link's target, into the server's folder."""
    _write(server, _contents(server))


def require_unaltered(server: Path, *, hashed: bool = False) -> None:
    """Raise EnvironmentLackingError, which names it, for the first file that is not as it was unpacked.

    `hashed` hashes all contents in any case. A server without a record (an earlier version of bufferlab fetched it)
    is recorded as it is now.
    """
    file = server / _RECORD
    try:
        told = json.loads(file.read_text())
        recorded, look = dict(told["files"]), told["look"]
    except FileNotFoundError:
        return record(server)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _altered(server, f"{_RECORD} cannot be read ({error})") from error
    if look == _look(server) and not hashed:
        return None
    found = _contents(server)
    for name in sorted({*recorded, *found}):
        if name not in found:
            raise _altered(server, f"{name} is missing")
        if recorded.get(name) != found[name]:
            raise _altered(server, f"{name} was changed" if name in recorded else f"{name} was added")
    return _write(server, recorded)


def hold(server: Path) -> None:
    """Keep a server from being removed while this process lives, and note its use."""
    if server not in _in_use and (held := marked.use(server)) is not None:
        _in_use[server] = held


def _altered(server: Path, how: str) -> EnvironmentLackingError:
    return EnvironmentLackingError(
        f"the fetched server was altered: {how}", str(server), f"fetch it again: bufferlab engines fetch {server.name}"
    )


def _write(server: Path, files: dict[str, str]) -> None:
    """Write the record if possible; without it the next use only takes the time of the hashes."""
    beside = server / f"{_RECORD}.new"
    with suppress(OSError):
        beside.write_text(json.dumps({"format_version": _FORMAT_VERSION, "look": _look(server), "files": files}))
        beside.rename(server / _RECORD)


def _contents(server: Path) -> dict[str, str]:
    return {str(path.relative_to(server)): _content(path) for path in _files(server)}


def _content(path: Path) -> str:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"link to {os.readlink(path)}"
    if not stat.S_ISREG(mode):
        return "no file"
    with path.open("rb") as file:
        return f"{stat.S_IMODE(mode):o} {hashlib.file_digest(file, 'sha256').hexdigest()}"


def _look(server: Path) -> str:
    """Return a digest of what lstat tells of all files."""
    digest = hashlib.sha256()
    for path in _files(server):
        found = path.lstat()
        told = (found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
        digest.update(f"{path.relative_to(server)} {told}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _files(server: Path) -> Iterator[Path]:
    """Yield every file and link in the folder, in a fixed order, except our record and our mark."""
    ours = {server / name for name in (_RECORD, f"{_RECORD}.new", marked.MARK)}
    for folder, names, files in os.walk(server):
        names.sort()
        links = [name for name in names if (Path(folder) / name).is_symlink()]
        yield from (path for name in sorted([*files, *links]) if (path := Path(folder) / name) not in ours)
