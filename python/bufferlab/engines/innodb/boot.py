"""One MySQL or MariaDB process and its option file. This file knows no data, no accounts and no workload.

A private server listens on a Unix socket in a folder that only its user may enter, and on nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb.failure import failure
from bufferlab.engines.servers.boot import ServerProcess
from bufferlab.engines.servers.builds import Build

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
    lines += ["skip_log_bin", "performance_schema = OFF", "skip_ssl"]
    if build.flavour == "mysql" and build.numbers >= (5, 7):
        keys = ("sha256_password", "caching_sha2_password")
        lines += ["loose_auto_generate_certs = OFF"]
        lines += [f"loose_{plugin}_auto_generate_rsa_keys = OFF" for plugin in keys]
    lines += [f"max_connections = {connections + 20}", "", "# The pool begins empty, whatever was in it before."]
    lines += [f"innodb_buffer_pool_{what} = OFF" for what in ("dump_at_shutdown", "load_at_startup")]
    lines += ["", "# What was asked."]
    lines += [f'{name} = "{value}"' for name, value in settings.items()]
    return "\n".join(lines) + "\n"


class InnodbProcess(ServerProcess):
    """The process of a running server."""

    socket_name = "mysqld.sock"
    failure = staticmethod(failure)

    def configuration(self, connections: int, settings: Mapping[str, str]) -> str:
        return option_file(self.build, self.data, self.home, self.socket, connections, settings)

    def command(self, conf: Path) -> list[str]:
        return [str(self.build.binary), f"--defaults-file={conf}"]
