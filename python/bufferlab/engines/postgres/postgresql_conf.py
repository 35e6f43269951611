"""Translates a run's knobs into postgresql.conf, and reads the values back from a started server's pg_settings.

This module starts no server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.postgres import control
from bufferlab.engines.postgres.control import PORT
from bufferlab.engines.postgres.declaration import FLAVOUR, KNOBS, OFF, PAGE_BYTES
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.family import ReadBack
from bufferlab.knob import KnobKind, Native, Values, Variables
from bufferlab.units import canonical_duration, canonical_number, format_bytes

Told = tuple[str, str | None]
"""A row of pg_settings: setting, unit."""

VARIABLES = Variables({knob.name: knob for knob in KNOBS})
_BY_NAME = VARIABLES.knobs
_BYTES = {"B": 1, "kB": 1 << 10, "8kB": 8 << 10, "MB": 1 << 20, "16MB": 16 << 20, "GB": 1 << 30}
_SECONDS = {"us": Decimal("0.000001"), "ms": Decimal("0.001"), "s": Decimal(1), "min": Decimal(60)}


_FIRST_WITH_CHECK = (14,)
"""The first version that has client_connection_check_interval."""
_OURS = frozenset(
    ("data_directory", "config_file", "hba_file", "ident_file", "external_pid_file", "listen_addresses", "port",
     "unix_socket_directories", "unix_socket_permissions", "unix_socket_group", "logging_collector", "log_destination",
     "log_directory", "shared_preload_libraries", "session_preload_libraries", "local_preload_libraries",
     "dynamic_library_path", "restart_after_crash", "max_wal_senders", "archive_command", "archive_library",
     "archive_mode", "restore_command", "ssl", "password_encryption", "dynamic_shared_memory_type",
     "shared_memory_type", "max_connections", "include", "include_dir", "include_if_exists")
)  # fmt: skip
"""The variables on which a private server's safety or a run's meaning depends; a user cannot set them by `var.`."""


def configuration_file(
    build: Build, data: Path, home: Path, socket: Path, connections: int, settings: Mapping[str, str], *, own_ipc: bool
) -> str:
    """Return the text of postgresql.conf: a private server's settings, then the requested ones. It has no credentials.

    Raises EngineFailure for a variable that only bufferlab sets, and for a value that the file cannot express.
    """
    for name, value in settings.items():
        if name.lower() in _OURS:
            raise EngineFailure("usage", f"{name} is bufferlab's to set", f"var.{name}", "leave it out")
        if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_.]*", name) or re.search(r"[\x00-\x1f\"'\\]", value):
            what = f"{name} = {value!r} does not fit into a configuration file"
            raise EngineFailure("usage", what, f"var.{name}", None)
    places = {"data_directory": data, "hba_file": home / "hba.conf", "ident_file": home / "ident.conf",
              "unix_socket_directories": socket.parent}  # fmt: skip
    lines = ["# Where things are. Listens on the socket alone."]
    lines += [f"{name} = {_quoted(str(place))}" for name, place in places.items()]
    lines += ["listen_addresses = ''", f"port = {PORT}", "unix_socket_permissions = 0700"]
    lines += ["logging_collector = off", "log_destination = 'stderr'", "log_timezone = 'GMT'", "timezone = 'GMT'"]
    lines += ["", "# It ends when one of its processes crashes, and its queries when we are gone."]
    lines += ["restart_after_crash = off"]
    if build.numbers >= _FIRST_WITH_CHECK:
        lines += ["client_connection_check_interval = '1s'"]
    # System V segments disappear with the IPC namespace. Without such a namespace, use mmap, which needs no segments:
    # POSIX segments would stay in /dev/shm after all processes are killed.
    lines += [f"dynamic_shared_memory_type = {'sysv' if own_ipc else 'mmap'}"]
    lines += ["", "# Nothing beside the workload: no replication."]
    lines += ["max_wal_senders = 0", "max_logical_replication_workers = 0", f"max_connections = {connections + 20}"]
    lines += ["", "# What was asked."]
    lines += [f"{name} = {_quoted(value)}" for name, value in settings.items()]
    return "\n".join(lines) + "\n"


def server_settings(version: str, knobs: Values) -> dict[str, str]:
    """Return the configuration file's variables with their values.

    >>> server_settings("17.2", {"pool_size": 8388608, "bgwriter_delay": 0.2, "debug_io_direct": "off"})
    {'shared_buffers': '8388608B', 'bgwriter_delay': '0.2s', 'debug_io_direct': ''}
    """
    return VARIABLES.settings(FLAVOUR, version, knobs, _written)


def as_asked(name: str, asked: Native | None, told: Told) -> Native:
    """Return a value of pg_settings in the form in which users write it.

    >>> as_asked("pool_size", 8388608, ("1024", "8kB")), as_asked("bgwriter_delay", 0.2, ("200", "ms"))
    (8388608, 0.2)
    """
    setting, unit = told
    knob = _BY_NAME.get(name)
    if knob is None:
        return str(asked) if asked is not None and _same(str(asked), told) else in_words(told)
    match knob.kind:
        case KnobKind.SIZE | KnobKind.SIZE_OR_SHARE:
            return bytes_of(told)
        case KnobKind.DURATION:
            return float(Decimal(setting) * _SECONDS.get(unit or "s", Decimal(1)))
        case KnobKind.COUNT:
            return int(Decimal(setting))
        case KnobKind.NUMBER:
            return float(Decimal(setting))
    return OFF if setting == "" and OFF in knob.choices else setting.replace(" ", "")


def bytes_of(told: Told) -> int:
    """Return the bytes of a size that pg_settings shows as a number and a unit, such as 8kB."""
    return int(Decimal(told[0]) * _BYTES.get(told[1] or "B", 1))


def in_words(told: Told) -> str:
    """Return a setting with its unit, if that can be written after the number.

    >>> in_words(("4096", "kB")), in_words(("1024", "8kB")), in_words(("-1", "8kB"))
    ('4096kB', '8192kB', '-1')
    """
    setting, unit = told
    if unit in _BYTES and not setting.startswith("-"):
        size = bytes_of(told)
        return f"{size // 1024}kB" if size % 1024 == 0 else f"{size}B"
    return f"{setting}{unit}" if unit in _SECONDS and not setting.startswith("-") else setting


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def text_of(name: str, value: Native) -> str:
    """Return a setting's value as text: times with their unit, sizes as a number of bytes."""
    if not isinstance(value, float):
        return str(value)
    is_time = _BY_NAME[name].kind is KnobKind.DURATION
    return canonical_duration(value) if is_time else canonical_number(Decimal(repr(value)))


def _written(name: str, value: Native) -> str:
    if name in _BY_NAME and _BY_NAME[name].kind in (KnobKind.SIZE, KnobKind.SIZE_OR_SHARE):
        return f"{value}B"
    return "" if name == "debug_io_direct" and value == OFF else text_of(name, value)


def _same(asked: str, told: Told) -> bool:
    """Return whether a passed-through value equals the server's; they are compared as text, switch, number, size and
    time."""
    switches = {"true": "on", "yes": "on", "1": "on", "false": "off", "no": "off", "0": "off"}
    setting, unit = told
    if asked.lower() == setting.lower() or (setting in ("on", "off") and switches.get(asked.lower()) == setting):
        return True
    number = asked.rstrip("BkMGTmsuinhd ")
    suffix = asked[len(number) :].strip()
    try:
        units: dict[str, int | Decimal] = {**_BYTES, **_SECONDS, "TB": 1 << 40, "h": Decimal(3600), "d": Decimal(86400)}
        factor = Decimal(units.get(suffix or unit or "", 1))
        return Decimal(number) * factor == Decimal(setting) * Decimal(units.get(unit or "", 1))
    except InvalidOperation:
        return False


_ALWAYS = tuple(knob.name for knob in KNOBS if knob.spelling)
"""The settings that every run records, whether set or not, if the version has them."""
_ALSO = (
    "server_version",
    "wal_level",
    "huge_pages_status",
    "shared_memory_type",
    "max_connections",
    "autovacuum_worker_slots",
    "max_worker_processes",
    "max_wal_senders",
    "io_max_concurrency",
)


def read_back(connection: Client, build: Build, knobs: Values, limit_bytes: int | None = None) -> ReadBack:
    """Return the settings that the server reports; `limit_bytes` is the memory limit in force, None if there is none.

    Raises EngineFailure if it does not report its pool's size.
    """
    told = control.settings(connection)
    if "shared_buffers" not in told:
        raise EngineFailure("engine", "the server does not tell its shared_buffers", None, "is this PostgreSQL?")
    frames = bytes_of(told["shared_buffers"]) // PAGE_BYTES
    return ReadBack(
        actual_of(knobs, told, limit_bytes),
        frames,
        confounds(server_settings(build.version, knobs), knobs, told, limit_bytes),
        standing=_standing(told),
    )


def actual_of(knobs: Values, told: Mapping[str, Told], limit_bytes: int | None) -> dict[str, Native]:
    """Return every knob's value in force, from pg_settings."""
    actual: dict[str, Native] = {}
    for name in dict.fromkeys((*knobs, *_ALWAYS)):
        behind = VARIABLES.of(name)
        if behind in told:
            actual[name] = as_asked(name, knobs.get(name), told[behind])
        elif not behind:
            actual[name] = knobs[name]
    actual["page_size"] = bytes_of(told["block_size"]) if "block_size" in told else PAGE_BYTES
    if "data_checksums" in told:
        actual["data_checksums"] = told["data_checksums"][0]
    actual["memory_limit"] = OFF if limit_bytes is None else limit_bytes
    return actual | {name: as_asked(f"var.{name}", None, told[name]) for name in _ALSO if name in told}


def confounds(
    asked: Mapping[str, str],
    knobs: Values,
    told: Mapping[str, Told],
    limit_bytes: int | None,
) -> list[str]:
    """Return sentences on server values that would distort a comparison.

    They are derived from the requested variables, the knobs, and the server's values.

    >>> confounds({}, {"pool_size": 8192000}, {"shared_buffers": ("1024", "8kB")}, None)
    ['the pool is 8 MiB where 7.81 MiB were asked for']
    """
    said = []
    pool, asked_pool = bytes_of(told["shared_buffers"]), knobs.get("pool_size")
    if isinstance(asked_pool, int) and pool != asked_pool:
        said.append(f"the pool is {format_bytes(pool)} where {format_bytes(asked_pool)} were asked for")
    for name in knobs:
        behind = VARIABLES.of(name)
        if behind in asked and behind in told and name != "pool_size":
            actual = as_asked(name, knobs[name], told[behind])
            if actual != knobs[name]:
                said.append(f"{behind} is {text_of(name, actual)} where {text_of(name, knobs[name])} was asked for")
    said += _capped(told)
    said += _standing(told).values()
    if told.get("huge_pages_status", ("off", None))[0] == "on" and limit_bytes is not None:
        said.append("shared buffers are in huge pages, which the memory limit does not count")
    if told.get("track_counts", ("on", None))[0] == "off":
        said.append("track_counts is off: the server counts nothing")
    return said


def _capped(told: Mapping[str, Told]) -> list[str]:
    """Return a sentence if the server reads fewer pages at once than io_combine_limit says (bufmgr.c, from 18 on)."""
    asked, most = (told.get(name) for name in ("io_combine_limit", "io_max_combine_limit"))
    if asked is None or most is None or bytes_of(asked) <= bytes_of(most):
        return []
    return [
        f"io_combine_limit is shown as {format_bytes(bytes_of(asked))}, and the server reads at most "
        f"{format_bytes(bytes_of(most))} at once, its io_max_combine_limit"
    ]


def _standing(told: Mapping[str, Told]) -> dict[str, str]:
    """Return sentences, by setting, on server values that distort a comparison even if no value was requested."""
    if told.get("autovacuum", ("off", None))[0] == "on":
        return {"autovacuum": "autovacuum is on: it reads and writes in some windows and not in others"}
    return {}
