"""What a killed command must not leave and must not change, checked without bufferlab: /proc, /sys, hashes of files."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def processes(mark: str, root: Path) -> dict[int, str]:
    """Return the number and command of living processes that inherited the mark or work below the folder."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            if state(int(entry.name)) in "ZX":
                continue
            command = (entry / "cmdline").read_bytes()
            # PostgreSQL's processes overwrite their environment with their state, but they still work in their folder.
            ours = mark.encode() in (entry / "environ").read_bytes() or os.fsencode(root) in command
            if ours or os.readlink(entry / "cwd").startswith(f"{root}/"):
                found[int(entry.name)] = command.replace(b"\0", b" ").decode("utf-8", "replace")[:120]
    return found


def state(pid: int) -> str:
    """Return the letter of a process's state in /proc/PID/stat. Raises OSError if the process has ended."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def groups() -> dict[str, str]:
    """Return bufferlab's cgroups that still hold processes although the process that made them is dead."""
    found = {}
    for path in _CGROUPS.glob("**/bufferlab-*"):
        maker = path.name.split("-")[2]  # The number follows that of the PID namespace.
        with suppress(OSError):
            held = (path / "cgroup.procs").read_text().split()
            if held and not Path(f"/proc/{maker}").exists():
                found[str(path)] = " ".join(held)
    return found


def loop_devices(root: Path) -> dict[str, str]:
    """Return loop devices on files below the folder: name and file."""
    found = {}
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            if (file := path.read_text().strip()).startswith(f"{root}/"):
                found[path.parts[3]] = file
    return found


def mounts(root: Path) -> dict[str, str]:
    """Return file systems mounted below the folder: mount point and device."""
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return {fields[1]: fields[0] for fields in lines if fields[1].startswith(f"{root}/")}


def shared_memory() -> dict[str, str]:
    """Return System V segments that no process has attached and whose maker is dead, and POSIX segments that no process
    maps."""
    rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    found = {row[1]: f"of process {row[4]}" for row in rows if row[6] == "0" and not Path(f"/proc/{row[4]}").exists()}
    files = {str(path) for path in Path("/dev/shm").iterdir() if path.is_file()}
    return found | dict.fromkeys(files - _mapped(), "in no process's map") if files else found


def _mapped() -> set[str]:
    found = set()
    for entry in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            found |= {line.split(maxsplit=5)[5] for line in entry.read_text().splitlines() if "/dev/shm/" in line}
    return found


def read_ahead(devices: Mapping[str, str]) -> dict[str, str]:
    """Return the read-ahead setting of these block devices."""
    return {name: Path(f"/sys/block/{name}/queue/read_ahead_kb").read_text().strip() for name in devices}


def hashes(root: Path) -> dict[str, str]:
    """Return every entry below a folder with the hash of its content, or the target of a link."""
    found = {}
    for path in sorted(root.rglob("*")):
        with suppress(FileNotFoundError):
            if path.is_symlink():
                found[str(path)] = f"-> {os.readlink(path)}"
            elif path.is_file():
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                found[str(path)] = "folder"
    return found


def differences(what: str, before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return a sentence for each entry that is gone or changed; ignore new entries."""
    return [
        f"{what}: {name} " + ("is gone" if name not in now else f"changed from {value} to {now[name]}")
        for name, value in before.items()
        if now.get(name) != value
    ]


def gone_within(seconds: float, look: Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
    """Return what is still seen after `seconds`; return earlier if nothing is seen."""
    ends = time.monotonic() + seconds
    while (found := look()) and time.monotonic() < ends:
        time.sleep(0.3)
    return found
