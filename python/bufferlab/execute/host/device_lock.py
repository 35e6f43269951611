"""Locks a device for one sweep: the load of a second sweep would disturb the first.

The lock is advisory (flock), and separate for each host and user.

A second sweep is refused at once, or waits for as long as its user allows.

The kernel releases the lock when its owner ends, for any reason. The lock file stays and contains the last owner's PID.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bufferlab.engines.native import native
from bufferlab.errors import EnvironmentLackingError
from bufferlab.marked import takes
from bufferlab.units import format_duration

_POLL_S = 0.2


@dataclass(frozen=True)
class Patience:
    """The seconds to wait for a device that another sweep holds, and the functions that are called during the wait."""

    seconds: float = 0.0
    say: Callable[[str], None] = lambda text: None
    check: Callable[[], None] = lambda: None
    """A function that is called during the wait. It raises when the user wants to stop."""


NONE = Patience()


@contextmanager
def device_lock(directory: Path, *, share: bool, patience: Patience = NONE) -> Iterator[str]:
    """Context manager that locks the device under `directory`, and every disk below it; yields the device's name.

    The disks are locked because two logical volumes on one disk disturb each other. Raises EnvironmentLackingError if
    another sweep holds any of them for longer than `patience`, unless `share` is set.
    """
    names = device_names(directory)
    deadline = time.monotonic() + patience.seconds
    with ExitStack() as stack:
        # All sweeps lock devices in the same order, so that no deadlock occurs.
        for name in sorted({*names}):
            stack.enter_context(_locked(name, directory, deadline, share=share, patience=patience))
        yield names[0]


@contextmanager
def _locked(name: str, directory: Path, deadline: float, *, share: bool, patience: Patience) -> Iterator[None]:
    file = lock_directory() / f"device-{name.replace('/', '!')}.lock"
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        has_it = takes(descriptor)
        if not has_it and not share:
            owner = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            if patience.seconds:
                limit = format_duration(patience.seconds)
                patience.say(f"another sweep (process {owner}) is using the device {name}; waiting {limit} at most")
            while not has_it and time.monotonic() < deadline:
                patience.check()
                time.sleep(_POLL_S)
                has_it = takes(descriptor)
            if not has_it:
                waited = f", also after {format_duration(patience.seconds)}" if patience.seconds else ""
                raise EnvironmentLackingError(
                    f"another sweep is using the device {name}{waited}, and each would measure the other",
                    f"device of {directory}, in use by process {owner}",
                    f"{'wait longer' if patience.seconds else '--wait 30min waits for it'}; --share-device runs both: "
                    "reads are counted right; writes and times are not",
                )
        if has_it:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def device_names(directory: Path) -> list[str]:
    """Return the name of the whole device of the directory, then those of the disks below it if it is stacked.

    If no name is found, the list has only the device number.
    """
    try:
        found = json.loads(native().resolve_device(str(directory)))
        if found.get("name"):
            return [str(found["name"]), *(str(disk["name"]) for disk in found.get("disks", []))]
    except EnvironmentLackingError:
        pass  # Without the core only test engines run; the device number is enough to separate two of them.
    device = os.stat(directory).st_dev
    return [f"{os.major(device)}-{os.minor(device)}"]


def lock_directory() -> Path:
    """Create and return the folder for locks: $BUFFERLAB_LOCKS, one in the user's runtime folder, or one in /tmp.

    Raises EnvironmentLackingError if it belongs to another user, or is not a folder.
    """
    own = os.environ.get("BUFFERLAB_LOCKS")
    runtime = Path(f"/run/user/{os.getuid()}")
    if own:
        folder = Path(own)
    elif os.access(runtime, os.W_OK):
        folder = runtime / "bufferlab"
    else:
        folder = Path(f"/tmp/bufferlab-{os.getuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise EnvironmentLackingError(
            "the folder for locks belongs to someone else", str(folder), "remove it, or set BUFFERLAB_LOCKS"
        )
    return folder
