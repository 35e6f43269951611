"""The text of a server's option file: translates a run's knobs to its variables, and the server's answers back.

Pure text: it starts no server and asks none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb.knobs import INNODB_KNOBS
from bufferlab.engines.servers.builds import Build
from bufferlab.knob import Knob, KnobKind, Values
from bufferlab.units import MIB
from bufferlab.versions import has

PREFIX = "var."
"""The prefix of variables that are passed through."""

_WITH_SSL = "mysql < 8.4; mariadb"
_BY_NAME = {knob.name: knob for knob in INNODB_KNOBS}
_POOL, _CHUNK = _BY_NAME["pool_size"], _BY_NAME["buffer_pool_chunk_size"]


_OURS = frozenset(
    ("datadir", "socket", "port", "bind_address", "skip_networking", "user", "pid_file", "log_error", "init_file",
     "plugin_load", "plugin_load_add", "tmpdir", "basedir", "skip_grant_tables", "mysqlx", "admin_address",
     "secure_file_priv", "plugin_dir", "innodb_data_home_dir", "innodb_log_group_home_dir", "innodb_undo_directory")
)  # fmt: skip
"""The variables that a private server's safety rests on; a user cannot pass them through."""


def option_file(
    build: Build, data: Path, home: Path, socket: Path, connections: int, settings: Mapping[str, str]
) -> str:
    """Return the text of the option file: what a private server needs, then what was asked. It holds no credentials."""
    settings = {name.lower().replace("-", "_"): value for name, value in settings.items()}
    for name, value in settings.items():
        if name.removeprefix("loose_") in _OURS:
            raise EngineFailure("usage", f"{name} is bufferlab's to set", f"var.{name}", "leave it out")
        if not re.fullmatch(r"[a-z0-9_.]+", name) or re.search(r"[\x00-\x1f\"\\]", value):
            raise EngineFailure("usage", f"{name} = {value!r} does not fit into an option file", f"var.{name}", None)
    lines = ["# Where things are. Listens on the socket alone.", "[mysqld]"]
    places = {"datadir": data, "socket": socket, "pid_file": home / "mysqld.pid", "tmpdir": home / "tmp",
              "secure_file_priv": home / "tmp"}  # fmt: skip
    if build.share is not None:
        places |= {"lc_messages_dir": build.share, "character_sets_dir": build.share / "charsets"}
    lines += [f'{name} = "{place}"' for name, place in places.items()]
    lines += ["skip_networking", "skip_name_resolve"]
    if build.flavour == "mysql" and build.numbers >= (8, 0, 11):
        lines.append("mysqlx = OFF")
    lines += ["", "# Nothing beside InnoDB and the workload: no binary log, no instruments, no keys made at the start."]
    # MySQL 8.4 removed --ssl; from then on a server that may speak no version of TLS speaks none.
    without_tls = "skip_ssl" if has(_WITH_SSL, build.flavour, build.version) else 'tls_version = ""'
    lines += ["skip_log_bin", "performance_schema = OFF", without_tls]
    if build.flavour == "mysql" and build.numbers >= (5, 7):
        keys = ("sha256_password", "caching_sha2_password")
        lines += ["loose_auto_generate_certs = OFF"]
        lines += [f"loose_{plugin}_auto_generate_rsa_keys = OFF" for plugin in keys]
    lines += [f"max_connections = {connections + 20}", "", "# The pool begins empty, whatever was in it before."]
    lines += [f"innodb_buffer_pool_{what} = OFF" for what in ("dump_at_shutdown", "load_at_startup")]
    lines += ["", "# What was asked."]
    lines += [f'{name} = "{value}"' for name, value in settings.items()]
    return "\n".join(lines) + "\n"


def server_settings(flavour: str, version: str, knobs: Values) -> dict[str, str]:
    """Return the option file's variables with their values.

    Knobs that this version lacks are left out. Their value can only be "auto": the start of the sweep refused explicit
    values.
    """
    settings: dict[str, str] = {}
    for name, value in knobs.items():
        behind, knob = variable(name), _BY_NAME.get(name)
        if behind and (knob is None or has(knob.versions, flavour, version)):
            settings[behind] = str(value)
    return settings


def with_one_chunk(flavour: str, version: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the same settings, with a chunk for each instance of the pool where no other chunk was asked for.

    A chunk larger than an instance becomes as large as that (ha_innodb.cc, innodb_init_params), so nothing is rounded.
    The server's own chunk of 128 MiB makes 256 MiB of 210. In chunks of 1 MiB, each chunk whose memory does not begin
    at a whole page has one page of 16 KiB in 64 less (buf0buf.cc, buf_chunk_init): all of them or none, by chance.
    """
    pool = int(settings.get(_POOL.spelling, 0))
    if not pool or not has(_CHUNK.versions, flavour, version):
        return dict(settings)
    return {_CHUNK.spelling: str(-(-pool // MIB) * MIB), **settings}


def variable(name: str) -> str:
    """Return the server's variable behind a setting; "" for one of bufferlab itself."""
    if name.startswith(PREFIX):
        return name.removeprefix(PREFIX)
    return _BY_NAME[name].spelling if name in _BY_NAME else ""


def knob_of(variable_name: str) -> Knob | None:
    """Return the knob that sets a variable of the server; None when there is none."""
    return next((knob for knob in INNODB_KNOBS if knob.spelling == variable_name), None)


def as_asked(name: str, told: str) -> int | str:
    """Return the server's answer (SHOW GLOBAL VARIABLES) in the form in which it was asked.

    >>> as_asked("adaptive_hash_index", "OFF"), as_asked("lru_scan_depth", "1024")
    ('off', 1024)
    """
    knob = _BY_NAME.get(name)
    if knob is None:
        return told
    if knob.kind is KnobKind.CHOICE:
        switches = {"1": "on", "0": "off"} if "on" in knob.choices else {}
        text = switches.get(told, told)
        return next((choice for choice in knob.choices if choice.lower() == text.lower()), told)
    try:
        return int(float(told))  # The server tells a per cent as 75.000000.
    except ValueError:
        return told
