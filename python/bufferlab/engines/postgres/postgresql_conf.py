"""The text of postgresql.conf: translates a run's knobs to its variables, and the answers of pg_settings back.

Pure text: it starts no server and asks none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.postgres.control import PORT
from bufferlab.engines.postgres.knobs import FLAVOUR, KNOBS, OFF
from bufferlab.knob import Knob, KnobKind, Native, Values
from bufferlab.units import canonical_duration, canonical_number
from bufferlab.versions import has

PREFIX = "var."
"""The prefix of variables that are passed through."""

Told = tuple[str, str | None]
"""A row of pg_settings: setting, unit."""

_BY_NAME = {knob.name: knob for knob in KNOBS}
_BYTES = {"B": 1, "kB": 1 << 10, "8kB": 8 << 10, "MB": 1 << 20, "16MB": 16 << 20, "GB": 1 << 30}
_SECONDS = {"us": Decimal("0.000001"), "ms": Decimal("0.001"), "s": Decimal(1), "min": Decimal(60)}


_OURS = frozenset(
    ("data_directory", "config_file", "hba_file", "ident_file", "external_pid_file", "listen_addresses", "port",
     "unix_socket_directories", "unix_socket_permissions", "unix_socket_group", "logging_collector", "log_destination",
     "log_directory", "shared_preload_libraries", "session_preload_libraries", "local_preload_libraries",
     "dynamic_library_path", "restart_after_crash", "max_wal_senders", "archive_command", "archive_library",
     "archive_mode", "restore_command", "ssl", "password_encryption", "dynamic_shared_memory_type",
     "shared_memory_type", "max_connections", "include", "include_dir", "include_if_exists")
)  # fmt: skip
"""The variables that a private server's safety, or a run's meaning, rests on; a user cannot pass them through."""


def configuration_file(
    data: Path, home: Path, socket_folder: Path, connections: int, settings: Mapping[str, str], *, own_ipc: bool
) -> str:
    """Return the text of postgresql.conf: what a private server needs, then what was asked. It holds no credentials."""
    for name, value in settings.items():
        if name.lower() in _OURS:
            raise EngineFailure("usage", f"{name} is bufferlab's to set", f"var.{name}", "leave it out")
        if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_.]*", name) or re.search(r"[\x00-\x1f\"'\\]", value):
            what = f"{name} = {value!r} does not fit into a configuration file"
            raise EngineFailure("usage", what, f"var.{name}", None)
    places = {"data_directory": data, "hba_file": home / "hba.conf", "ident_file": home / "ident.conf",
              "unix_socket_directories": socket_folder}  # fmt: skip
    lines = ["# Where things are. Listens on the socket alone."]
    lines += [f"{name} = {_quoted(str(place))}" for name, place in places.items()]
    lines += ["listen_addresses = ''", f"port = {PORT}", "unix_socket_permissions = 0700"]
    lines += ["logging_collector = off", "log_destination = 'stderr'", "log_timezone = 'GMT'", "timezone = 'GMT'"]
    lines += ["", "# It ends when one of its processes crashes, and its queries when we are gone."]
    lines += ["restart_after_crash = off", "client_connection_check_interval = '1s'"]
    # System V segments end with the namespace. Without one, POSIX segments would stay in /dev/shm when all is killed.
    lines += [f"dynamic_shared_memory_type = {'sysv' if own_ipc else 'mmap'}"]
    lines += ["", "# Nothing beside the workload: no replication."]
    lines += ["max_wal_senders = 0", "max_logical_replication_workers = 0", f"max_connections = {connections + 20}"]
    lines += ["", "# What was asked."]
    lines += [f"{name} = {_quoted(value)}" for name, value in settings.items()]
    return "\n".join(lines) + "\n"


def server_settings(version: str, knobs: Values) -> dict[str, str]:
    """Return the configuration file's variables with their values.

    What this version lacks is left out: it can only have come from "auto", an explicit value was refused at the start.

    >>> server_settings("17.2", {"pool_size": 8388608, "bgwriter_delay": 0.2, "debug_io_direct": "off"})
    {'shared_buffers': '8388608B', 'bgwriter_delay': '0.2s', 'debug_io_direct': ''}
    """
    settings: dict[str, str] = {}
    for name, value in knobs.items():
        behind, knob = variable(name), _BY_NAME.get(name)
        if behind and (knob is None or has(knob.versions, FLAVOUR, version)):
            settings[behind] = _written(name, value)
    return settings


def variable(name: str) -> str:
    """Return the server's variable behind a setting; "" for one of bufferlab itself."""
    if name.startswith(PREFIX):
        return name.removeprefix(PREFIX)
    return _BY_NAME[name].spelling if name in _BY_NAME else ""


def knob_of(variable_name: str) -> Knob | None:
    """Return the knob that sets a variable of the server; None when there is none."""
    return next((knob for knob in KNOBS if knob.spelling == variable_name), None)


def as_asked(name: str, asked: Native | None, told: Told) -> Native:
    """Return the answer of pg_settings in the form in which it was asked.

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
    """Return the bytes of a size."""
    return int(Decimal(told[0]) * _BYTES.get(told[1] or "B", 1))


def in_words(told: Told) -> str:
    """Return a setting with its unit, where it has one that can be written after it.

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
    """Return whether a passed-through value equals the told one: as text, switches, numbers, sizes and times."""
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
