"""One sweep per device: a second one would measure the first. Advisory, by flock, per host and user.

The lock goes with its owner, however that ends; the file stays and holds the last owner's number.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bufferlab.engines.native import native
from bufferlab.errors import EnvironmentLackingError


@contextmanager
def device_lock(directory: Path, *, share: bool) -> Iterator[str]:
    """Hold the device under `directory`, and every disk below it; yields the device's name.

    Two logical volumes on one disk are one device to whoever measures. EnvironmentLackingError if another sweep
    has any of them.
    """
    names = device_names(directory)
    with ExitStack() as stack:
        # In one order for everybody, so that two sweeps cannot each hold what the other wants.
        for name in sorted({*names}):
            stack.enter_context(_locked(name, directory, share=share))
        yield names[0]


@contextmanager
def _locked(name: str, directory: Path, *, share: bool) -> Iterator[None]:
    file = lock_directory() / f"device-{name.replace('/', '!')}.lock"
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if not share:
                owner = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
                raise EnvironmentLackingError(
                    f"another sweep is using the device {name}, and each would measure the other",
                    f"process {owner}, device of {directory}",
                    "wait for it, or run both all the same with --share-device",
                ) from None
        else:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def device_names(directory: Path) -> list[str]:
    """The whole device that holds the directory, then the disks below it if it is stacked.

    Its device number alone where no name can be found.
    """
    try:
        found = json.loads(native().resolve_device(str(directory)))
        if found.get("name"):
            return [str(found["name"]), *(str(disk["name"]) for disk in found.get("disks", []))]
    except EnvironmentLackingError:
        pass  # Without the core only the fake engine runs; the number is enough to keep two of them apart.
    device = os.stat(directory).st_dev
    return [f"{os.major(device)}-{os.minor(device)}"]


def lock_directory() -> Path:
    """$BUFFERLAB_LOCKS, the user's runtime folder, or a private one in /tmp."""
    own = os.environ.get("BUFFERLAB_LOCKS")
    runtime = Path(f"/run/user/{os.getuid()}")
    if own:
        folder = Path(own)
    elif os.access(runtime, os.W_OK):
        folder = runtime / "bufferlab"
    else:
        folder = Path(f"/tmp/bufferlab-{os.getuid()}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise EnvironmentLackingError(
            "the folder for locks belongs to someone else", str(folder), "remove it, or set BUFFERLAB_LOCKS"
        )
    return folder
