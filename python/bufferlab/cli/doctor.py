"""`bufferlab doctor`: lists what this host can measure, what not, and the reasons and remedies.

It makes the folders of data, cache and locks if they are missing, and writes and removes a probe file in them. It also
undoes the changes of killed runs: it restores settings of the host, and removes instances in tracefs. It changes
nothing else.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from bufferlab import __version__, catalog
from bufferlab.cli.options import common, data_dir, refuse_password
from bufferlab.cli.output import columns, print_json, put
from bufferlab.engines import registry as engines
from bufferlab.engines.behaviour import Behaviour, HostCheck, NativeKnobs
from bufferlab.engines.native import ask_host, native
from bufferlab.engines.servers import memory_limit
from bufferlab.errors import BufferlabError, runnable
from bufferlab.execute.host import storage
from bufferlab.execute.host.device_lock import lock_directory
from bufferlab.execute.host.restore_host import clean_tracefs, restore_host
from bufferlab.knob import values_of
from bufferlab.units import format_bytes

_ENOUGH_BYTES = 2 << 30
"""The disk space, in bytes, that a default sweep's databases, copy and results need, with a margin."""
_WIDTHS = (len("ok"), len("engine postgres"), len("page-trace mariadb-10.11"))
"""The widths of the columns before the finding. They are fixed because lines are printed one by one."""


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's answer."""

    subject: str
    name: str
    ok: bool
    detail: str
    hint: str | None = None
    needed: bool = True
    """Whether the default experiment can run only if this finding is ok."""


@click.command("doctor")
@data_dir
@click.option(
    "--server",
    metavar="URL",
    help="Do this alone: look at a server that runs already (docs/existing-server.md). Nothing is changed, there or "
    "here.",
)
@common
def command(data_dir: Path | None, server: str | None, as_json: bool) -> int:
    """Tell what this host can measure, and why it cannot measure the rest.

    Exit code 3 when the default experiment cannot run, or no run on the server of --server.
    """
    if server is not None:
        return _look_at(server, as_json=as_json)
    directory = storage.data_directory(data_dir, Path.cwd())
    each = _findings(directory)
    findings = list(each if as_json else _told(each))
    lacking = [finding for finding in findings if finding.needed and not finding.ok]
    if as_json:
        print_json(_document(findings, data_directory=str(directory)))
    else:
        put(runnable(f"\n{_conclusion(lacking)}"))
    return 3 if lacking else 0


def _document(findings: list[Finding], **subject: str) -> dict[str, Any]:
    """Return the JSON object of the answer on `subject`: this host and data directory, or a server and its engine."""
    lacking = any(finding.needed and not finding.ok for finding in findings)
    return {
        "status": "lacking" if lacking else "ok",
        **dict.fromkeys(("data_directory", "server", "engine")),
        **subject,
        "findings": findings,
    }


def _look_at(url: str, *, as_json: bool) -> int:
    from bufferlab.cli.plan_text import checks_text  # Imported late, because `doctor --help` needs no schema.
    from bufferlab.execute import preflight

    refuse_password(url)
    engine, checks = preflight.look_at(url)
    is_usable = all(check.ok or not check.refuses for check in checks)
    if as_json:
        findings = [Finding("server", one.name, one.ok, one.detail, one.hint, bool(one.refuses)) for one in checks]
        print_json(_document(findings, server=url, engine=engine))
    else:
        verdict = "Runs can work there: bufferlab run" if is_usable else "No run can work there (NO says why)"
        how = f" hot-rows --engine {engine} --server '{url}' --dry-run" if is_usable else ""
        put(runnable(f"{checks_text(checks)}\n\n{verdict}{how}"))
    return 0 if is_usable else 3


def _findings(directory: Path) -> Iterable[Finding]:
    yield from _host()
    yield from _left_changed()
    yield from _directories(directory)
    yield from _left_over(directory)
    yield from _device(directory)
    yield from _engines(directory)
    yield from _probes(directory)


def _told(findings: Iterable[Finding]) -> Iterable[Finding]:
    """Print each finding at once, because examining servers takes seconds, and yield it."""
    put(_line("", "what", "", "found"))
    for finding in findings:
        state = "ok" if finding.ok else ("NO" if finding.needed else "no")
        detail = finding.detail + (f" -> {finding.hint}" if finding.hint else "")
        put(runnable(_line(state, finding.subject, finding.name, detail)))
        yield finding


def _line(*cells: str) -> str:
    return columns([*(cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=False)), cells[-1]], ())


def _host() -> Iterable[Finding]:
    cores = os.cpu_count() or 1
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    yield Finding("host", "bufferlab", True, f"{__version__}, Python {platform.python_version()}")
    yield _experiments()
    yield Finding("host", "kernel", True, f"{platform.system()} {platform.release()} on {platform.machine()}")
    yield Finding(
        "host",
        "cores",
        cores >= 2,
        f"{cores}",
        "the sampler and the driver share one core: times are noisier, counts are not" if cores < 2 else None,
        needed=False,
    )
    yield Finding("host", "memory", True, format_bytes(memory_bytes))
    yield _try("host", "memory limit", lambda: str(memory_limit.usable()), needed=False)


def _experiments() -> Finding:
    found = len(catalog.builtin_experiments())
    hint = None if found else "the installation is damaged: install bufferlab again"
    return Finding("host", "experiments", found > 0, f"{found or 'none'} in {catalog.EXPERIMENTS}", hint)


def _directories(directory: Path) -> Iterable[Finding]:
    yield _try("data directory", "writable", lambda: _written(directory, "--data-dir"))
    yield _try("data directory", "on a disk", lambda: _on_disk(directory))
    if directory.is_dir():
        free_bytes = shutil.disk_usage(directory).free
        yield Finding(
            "data directory",
            "space",
            free_bytes >= _ENOUGH_BYTES,
            f"{format_bytes(free_bytes)} free",
            f"the default sweep wants about {format_bytes(_ENOUGH_BYTES)}" if free_bytes < _ENOUGH_BYTES else None,
        )
    yield _try("cache", "writable", lambda: _written(storage.cache_root(), "$BUFFERLAB_CACHE"))
    yield _try("locks", "writable", lambda: str(lock_directory()))


def _left_over(directory: Path) -> Iterable[Finding]:
    """Yield a finding for each folder that a killed run or load left; `bufferlab cache prune` removes these folders."""
    from bufferlab.execute.data import leftovers  # Imported late, because `doctor --help` needs no schema.

    for entry in leftovers.left_over(directory):
        detail = f"{entry.path}: {entry.name}, {format_bytes(entry.size_bytes)}"
        yield Finding("cache", "left over", False, detail, "remove it: bufferlab cache prune", needed=False)


def _device(directory: Path) -> Iterable[Finding]:
    def look() -> str:
        return _device_text(json.loads(native().resolve_device(str(directory))))

    yield _try("device", "found", look, needed=False)


def _engines(directory: Path) -> Iterable[Finding]:
    for name in engines.names():
        declaration, behaviour = engines.declaration(name), engines.behaviour(name)
        subject = f"engine {name}"
        # The default experiment runs on the embedded engine, so it needs no server.
        needed = not declaration.needs_unprivileged_user and not declaration.workloads
        found = _try(subject, "found", partial(_version_of, behaviour), needed=needed)
        yield found
        if found.ok and directory.is_dir():
            knobs = values_of(declaration.defaults(), 1 << 30)
            for check in _checks(behaviour, directory, knobs):
                yield Finding(subject, check.name, check.ok, check.detail, check.hint, needed)
            for check in behaviour.abilities(directory):
                yield Finding(subject, check.name, check.ok, check.detail, check.hint, needed=False)


def _left_changed() -> Iterable[Finding]:
    """Restore the host's settings that killed runs left changed; yield a finding for each."""
    for said in restore_host():
        yield Finding("host", "restored", True, said)


def _checks(behaviour: Behaviour, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
    try:
        return behaviour.check_directory(directory, knobs)
    except BufferlabError as error:
        return [HostCheck("directory", False, error.what, error.hint)]


def _probes(directory: Path) -> Iterable[Finding]:
    for name, path in (
        ("device counters", "/proc/diskstats"),
        ("CPU per core", "/proc/stat"),
        ("memory", "/proc/meminfo"),
        ("paging", "/proc/vmstat"),
        ("own I/O", "/proc/self/io"),
    ):
        yield _try("probe", name, partial(_readable, path), needed=False)
    yield _try("probe", "block-trace", partial(_traceable, directory), needed=False)
    yield _try("probe", "server calls", _followed, needed=False)
    yield _try("probe", "server pages", _recorded, needed=False)


def _try(subject: str, name: str, look: Callable[[], str], *, needed: bool = True) -> Finding:
    """Call `look`; return its answer as a finding, or its error as a failed finding."""
    try:
        return Finding(subject, name, True, look(), needed=needed)
    except BufferlabError as error:
        where = f" ({error.where})" if error.where else ""
        return Finding(subject, name, False, f"{error.what}{where}", error.hint, needed)
    except OSError as error:
        return Finding(subject, name, False, str(error), None, needed)


def _written(directory: Path, flag: str) -> str:
    storage.require_directory(directory, "data", flag)
    return str(directory)


def _on_disk(directory: Path) -> str:
    storage.require_disk(directory, "--data-dir")
    return storage.filesystem_of(directory) or "unknown file system"


def _readable(path: str) -> str:
    Path(path).read_bytes()
    return path


def _traceable(directory: Path) -> str:
    from bufferlab.execute.probes import block_trace_probe  # Imported late, because `doctor --help` needs no schema.

    left = clean_tracefs()
    found = f"requests of {block_trace_probe.check(directory)} can be traced"
    return found + (f"; removed what a killed run left: {', '.join(left)}" if left else "")


def _followed() -> str:
    ask_host("the calls of servers cannot be followed", native().call_trace_check)
    return "reads and writes of any running server can be followed, for advise"


def _recorded() -> str:
    ask_host("page accesses of servers cannot be recorded", native().live_trace_check)
    return "page accesses of a running server whose build is known can be recorded, for advise --tier full"


def _version_of(behaviour: Behaviour) -> str:
    found = behaviour.find()
    return f"{found.version}, core {found.core_version} ({found.where})"


def _device_text(device: dict[str, Any]) -> str:
    if not device.get("name"):
        raise BufferlabError(
            f"not resolved: {device.get('reason') or 'no reason given'}",
            None,
            "device counters will be null, with this reason",
        )
    parts = [device["name"], device.get("model"), device.get("scheduler")]
    text = ", ".join(str(part) for part in parts if part)
    layers = device.get("layers") or []
    if not layers:
        return text
    disks = ", ".join(disk["name"] for disk in device["disks"]) or "no disk that can be seen"
    return f"{text}; {' on '.join(layers)} on {disks}"


def _conclusion(lacking: list[Finding]) -> str:
    if not lacking:
        return "This host can run: bufferlab run buffer-size"
    names = ", ".join(f"{finding.subject} {finding.name}" for finding in lacking)
    return f"This host cannot run the default experiment; lacking: {names}"
