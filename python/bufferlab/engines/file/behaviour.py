"""Drives random reads through the native core: creates or finds the file, changes host settings, and restores them.

This module has no measuring loop. The measured file is never written: the core opens it for reading only, and loop
devices are read-only.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bufferlab import procfs
from bufferlab.engines import direct_io, host_settings
from bufferlab.engines.behaviour import Behaviour, EngineFailure, Found, HostCheck, NativeKnobs, OnEvent
from bufferlab.engines.file import loop_device
from bufferlab.engines.file.declaration import DECLARATION, OWN, OWN_BYTES
from bufferlab.engines.native import load_core, load_recipe, native, run_core
from bufferlab.engines.read_ahead_knob import AS_IS
from bufferlab.errors import BufferlabError, EnvironmentLackingError, SpecError
from bufferlab.units import format_bytes

_ADVICE = "advice = random (POSIX_FADV_RANDOM) needs no right"
_THE_CORES = ("warm_up", "measure", "sample_interval_ms", "probes")
"""The entries of a run's job that are passed to the core unchanged."""


@dataclass(frozen=True)
class _Ready:
    """The path that the core reads: the file, a loop device or a block device, with its size and read-ahead."""

    path: Path
    range_bytes: int
    below: tuple[Path, ...]
    read_ahead_kib: int | None
    read_ahead: str
    """The read-ahead that the kernel reported after it was set, in the form of the knob's values."""
    notes: tuple[str, ...] = ()


class FileBehaviour(Behaviour):
    """The behaviour of a file or block device, which the kernel reads in different ways."""

    makes_its_device = True

    def find(self) -> Found:
        """Return the kernel's release as the version, because the kernel does the reading."""
        return Found(os.uname().release, native().core_version(), "this kernel")

    def check_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Return a check of everything that a point needs from this user and host.

        Files that bufferlab creates are in this directory.
        """
        checks = [_readable(knobs)]
        if not checks[0].ok:
            return checks
        path = directory if knobs["path"] == OWN else Path(str(knobs["path"]))
        if knobs["device"] != AS_IS:
            checks.append(_loop(knobs))
        elif knobs["path"] == OWN and knobs["io_mode"] == "direct":
            checks.append(direct_io.check(directory, elsewhere="$BUFFERLAB_CACHE", instead="io_mode=buffered")[0])
        if knobs["read_ahead"] != AS_IS and knobs["device"] == AS_IS:
            checks.append(host_settings.settable(path, f"read_ahead = {knobs['read_ahead']}", _ADVICE))
        if knobs["backend"] == "io_uring":
            checks.append(_io_uring(needed=True))
        return checks

    def abilities(self, directory: Path) -> list[HostCheck]:
        reason = loop_device.why_not()
        return [
            _io_uring(needed=False),
            host_settings.settable(directory, "setting read_ahead", _ADVICE),
            HostCheck("loop devices", reason is None, reason or "can be made", "run as root" if reason else None),
        ]

    def restore_host(self) -> list[str]:
        return host_settings.restore()

    def data_in_place(self, knobs: NativeKnobs) -> tuple[Path, int] | None:
        if knobs["path"] == OWN:
            return None
        path = Path(str(knobs["path"]))
        return path, _range_bytes(path, _asked_bytes(knobs))

    def data_recipe(self, knobs: NativeKnobs, workload: Mapping[str, Any]) -> dict[str, Any]:
        """Return size, seed and generator version for a file that bufferlab creates; path and size for any other."""
        own = {"engine": "file", "workload": dict(workload)}
        outside = self.data_in_place(knobs)
        if outside:
            return {**own, "path": str(outside[0]), "bytes": outside[1]}
        size_bytes = _asked_bytes(knobs) or OWN_BYTES
        generator = load_recipe("file", {})["loader_version"]
        return {**own, "generator": generator, "bytes": size_bytes}

    def allocated_bytes(self, database: Path) -> int:
        """Return the bytes of the whole file or block device."""
        return _size_bytes(database)

    def load(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Create a file of random bytes, which no file system or device can compress; return the core's answer."""
        asked = {
            "path": job["database"],
            "bytes": _asked_bytes(job["knobs"]) or OWN_BYTES,
            "seed": int(job["workload"].get("load_seed", 0)),
        }
        return load_core("file", asked, on_event)

    def check(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Return no conditions: a run only reads the file, and the run itself checks that the file did not change."""
        return {"seconds": 0.0, "conditions": []}

    def run(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Change the host's settings, do one run through the core, and restore the settings.

        Raises EngineFailure for a job with phases or with an arrival rate.
        """
        knobs = job["knobs"]
        if job.get("phases"):
            raise EngineFailure("usage", "a file has no phases: scripts need a database", "phases", "leave them out")
        if job.get("load", {}).get("mode") == "open":
            what = "a rate is given, and random reads keep a fixed number in flight (queue_depth, threads)"
            raise EngineFailure("usage", what, "load", "leave the rate out")
        with _ready(Path(job["database"]), knobs) as ready:
            core_job = {
                "path": str(ready.path),
                "range_bytes": ready.range_bytes,
                "below": [str(path) for path in ready.below],
                **{name: knobs[name] for name in ("io_mode", "cache", "backend")},
                "advise_random": knobs["advice"] == "random",
                "reads": core_reads(job["workload"]),
                "read_ahead_kib": ready.read_ahead_kib,
                **{name: job[name] for name in _THE_CORES if name in job},
            }
            result = run_core("file", core_job, on_event)
        actual = result["actual"] = DECLARATION.named(result["actual"])
        actual |= {"path": knobs["path"], "device": knobs["device"], "read_ahead": ready.read_ahead}
        if ready.read_ahead_kib is not None:
            actual["read_ahead_run_kib"] = ready.read_ahead_kib
        refused = actual.get("backend_reason") if knobs["io_mode"] != "mmap" else None
        result["confounds"] = [
            *([f"{refused}; reads were made by threads with pread"] if refused else []),
            *ready.notes,
        ]
        return result


def core_reads(workload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry `reads` of the core's job: the size, offsets, depth and seed of a run's random reads."""
    alignment, offsets = workload["alignment"], workload["offsets"]
    return {
        **{name: workload[name] for name in ("io_size_bytes", "queue_depth", "threads", "seed")},
        "alignment_bytes": workload["io_size_bytes"] if alignment == "io_size" else int(alignment),
        "order": {"zipf": workload["zipf"]} if offsets == "zipf" else offsets,
    }


@contextmanager
def _ready(source: Path, knobs: NativeKnobs) -> Iterator[_Ready]:
    """Context manager for the path, or a loop device over it, with the requested read-ahead; leaving undoes all."""
    size_bytes = _range_bytes(source, _asked_bytes(knobs))
    with ExitStack() as stack:
        path = source
        below: tuple[Path, ...] = ()
        notes: tuple[str, ...] = ()
        if knobs["device"] == "loop":
            attached = stack.enter_context(loop_device.over(source, size_bytes))
            path, below = attached.path, (source,)
            notes = () if attached.direct_io else ("the loop device reads its file through the page cache",)
        elif knobs["device"] == "tmpfs_loop":
            path = stack.enter_context(loop_device.over_memory(source, size_bytes)).path
        asked = str(knobs["read_ahead"])
        kib = stack.enter_context(host_settings.read_ahead_changed(path, asked))
        yield _Ready(path, size_bytes, below, kib, asked if asked == AS_IS else str(kib), notes)


def _size_bytes(path: Path) -> int:
    """Return the bytes of a file or block device.

    Raise EnvironmentLackingError when it cannot be read, SpecError when it is neither.
    """
    try:
        kind = path.stat().st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISBLK(kind):
            raise SpecError("this is neither a file nor a block device", str(path), "name a file or a block device")
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        hint = "a block device needs root or the group disk; of a file, the right to read it"
        raise EnvironmentLackingError(f"it cannot be read: {error.strerror}", str(path), hint) from error
    try:
        return os.lseek(descriptor, 0, os.SEEK_END)
    finally:
        os.close(descriptor)


def _range_bytes(path: Path, asked_bytes: int | None) -> int:
    """Return how many bytes of a file or device are read: the number that the user gave, or all.

    Raise SpecError if it has fewer bytes, and the errors of `_size_bytes`.
    """
    has_bytes = _size_bytes(path)
    if asked_bytes is not None and asked_bytes > has_bytes:
        raise SpecError(
            f"file_size = {format_bytes(asked_bytes)}, and it has {format_bytes(has_bytes)}",
            str(path),
            "ask for less, or leave file_size = auto: all of it",
        )
    return has_bytes if asked_bytes is None else asked_bytes


def _asked_bytes(knobs: NativeKnobs) -> int | None:
    asked = knobs.get("file_size")
    return None if asked is None else int(asked)


def _readable(knobs: NativeKnobs) -> HostCheck:
    if knobs["path"] == OWN:
        return HostCheck("path", True, "a file of our own")
    path = Path(str(knobs["path"]))
    try:
        found_bytes = _range_bytes(path, _asked_bytes(knobs))
    except BufferlabError as error:
        return HostCheck("path", False, f"{path}: {error.what}", error.hint)
    return HostCheck("path", True, f"{path}: {format_bytes(found_bytes)} to read")


def _loop(knobs: NativeKnobs) -> HostCheck:
    asked, reason = f"device = {knobs['device']}", loop_device.why_not()
    if reason:
        return HostCheck("loop devices", False, f"{asked}: {reason}", "run as root, or leave device = as_is")
    need_bytes = _asked_bytes(knobs) or OWN_BYTES
    if knobs["device"] == "tmpfs_loop" and knobs["path"] != OWN:
        need_bytes = _range_bytes(Path(str(knobs["path"])), _asked_bytes(knobs))
    has_bytes = procfs.available_bytes() or 0
    if knobs["device"] == "tmpfs_loop" and need_bytes > has_bytes:
        what = (
            f"{asked}: a copy of {format_bytes(need_bytes)} in memory, of which {format_bytes(has_bytes)} are available"
        )
        return HostCheck("memory", False, what, "ask for a smaller file_size")
    return HostCheck("loop devices", True, f"{asked}: can be made")


def _io_uring(*, needed: bool) -> HostCheck:
    found = json.loads(native().check_io_uring())
    if found["available"]:
        return HostCheck("io_uring", True, "allowed")
    instead = "reads are made by threads with pread"
    hint = "use --set backend=threads, or allow it (sysctl kernel.io_uring_disabled, the container's profile)"
    return HostCheck("io_uring", False, f"refused: {found['reason']}" + ("" if needed else f"; {instead}"), hint)


BEHAVIOUR = FileBehaviour
