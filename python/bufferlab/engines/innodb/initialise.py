"""Creates a new data directory for a page size, and explains why a server's process failed.

MySQL from 5.7.6 on creates the directory itself (--initialize-insecure). MariaDB runs the SQL of its system tables
(--bootstrap), as mariadb-install-db does, without the help texts. For older MySQL, the system tables are copied from
its package; they are MyISAM. accounts.py creates the accounts. The cause of a failure is derived from the process's
exit code and the end of its log.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from subprocess import DEVNULL
from typing import IO, Any

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb.option_file import option_file
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.child_process import failed
from bufferlab.engines.servers.data_folder import Identity
from bufferlab.engines.servers.private_server import make_data, make_home
from bufferlab.engines.servers.signs_of_life import OnWait
from bufferlab.engines.servers.user import give, write_for
from bufferlab.errors import EnvironmentLackingError
from bufferlab.knob import Values

_UNKNOWN = re.compile(r"unknown (?:variable|option) '([^']*)'")
_BAD_VALUE = re.compile(
    r"(?:[Ee]rror while setting value '[^']*' to|used for variable|[Vv]alue .*of variable) '([^']*)'"
)


def refused_setting(log_text: str) -> EngineFailure | None:
    """Return the failure of a server that refused a variable, in the server's words; None if it failed for another
    reason.

    A variable without a knob is named as users write it, var.NAME. Warnings on optional variables (loose_) are not
    failures.
    """
    for line in log_text.splitlines():
        if "[ERROR]" not in line:
            continue
        said = line.split("[ERROR]", 1)[1].strip()
        if found := _UNKNOWN.search(line):
            name = found[1].split("=")[0].replace("-", "_").lstrip("_")
            what, hint = (
                "does not know",
                "look it up in the manual of this version; `bufferlab list engines` shows knobs",
            )
        elif found := _BAD_VALUE.search(line):
            name = found[1].replace("-", "_")
            what, hint = "refuses the value of", "look up in the manual which values this version takes"
        else:
            continue
        return EngineFailure("usage", f"the server {what} the variable {name}: it says: {said}", f"var.{name}", hint)
    return None


failure = partial(
    failed,
    refused=lambda text, what, place: refused_setting(text),
    disk_full=("errno: 28", "No space left", "Disk is full", "OS error number 28"),
    grave=r"\[ERROR\]|\[FATAL\]|cannot be run|Assertion",
    beside=r"\[Warning\]",
)
"""A function that returns the failure of a server's process, given its exit status and the end of its log."""


_SYSTEM_SQL = ("system_tables", "performance_tables", "system_tables_data")
#: The five system tables of MySQL 5.6 that are in InnoDB. They are not copied, because InnoDB's own dictionary is not
#: copied either. The server needs two of them (5.6's scripts/mysql_system_tables.sql).
_INNODB_TABLES = (
    "innodb_table_stats", "innodb_index_stats", "slave_relay_log_info", "slave_master_info", "slave_worker_info"
)  # fmt: skip
STATISTICS_TABLES_OF_5_6 = (
    """
    CREATE TABLE mysql.innodb_table_stats (
      database_name VARCHAR(64) NOT NULL, table_name VARCHAR(64) NOT NULL,
      last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
      n_rows BIGINT UNSIGNED NOT NULL, clustered_index_size BIGINT UNSIGNED NOT NULL,
      sum_of_other_index_sizes BIGINT UNSIGNED NOT NULL, PRIMARY KEY (database_name, table_name)
    ) ENGINE = InnoDB DEFAULT CHARACTER SET utf8 COLLATE utf8_bin STATS_PERSISTENT = 0
    """,
    """
    CREATE TABLE mysql.innodb_index_stats (
      database_name VARCHAR(64) NOT NULL, table_name VARCHAR(64) NOT NULL, index_name VARCHAR(64) NOT NULL,
      last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
      stat_name VARCHAR(64) NOT NULL, stat_value BIGINT UNSIGNED NOT NULL, sample_size BIGINT UNSIGNED,
      stat_description VARCHAR(1024) NOT NULL, PRIMARY KEY (database_name, table_name, index_name, stat_name)
    ) ENGINE = InnoDB DEFAULT CHARACTER SET utf8 COLLATE utf8_bin STATS_PERSISTENT = 0
    """,
)
"""The statements to run once, after the first start of a 5.6 server."""


def make(
    build: Build, database: Path, identity: Identity, knobs: Values, settings: Mapping[str, str],
    owner: tuple[int, int] | None, on_wait: OnWait,
) -> tuple[str, str]:  # fmt: skip
    """Create `database`/data, which must not exist, for servers of this build; `settings` has innodb_page_size.

    Return the login of root, who needs no password until the accounts are created. Raises EngineFailure with the end of
    the server's log if the directory could not be created.
    """
    data, home, user = database / "data", database.parent / "server", owner
    make_home(home, user)
    data.mkdir(mode=0o700)
    give(data, user)
    if build.flavour == "mysql" and build.numbers >= (5, 7, 6):
        _run(build, data, home, user, settings, ["--initialize-insecure"], DEVNULL, on_wait)
    elif build.flavour == "mysql":
        _copy_system_tables(build, data, user)
    else:
        with tempfile.TemporaryFile() as sql:
            sql.write(_mariadb_sql(build))
            sql.seek(0)
            folder = data / "mysql"
            folder.mkdir(mode=0o700)
            give(folder, user)
            bootstrap = ["--bootstrap", "--log-warnings=0", "--enforce-storage-engine="]
            _run(build, data, home, user, settings, bootstrap, sql, on_wait)
    return ("root", "")


def _run(
    build: Build,
    data: Path,
    home: Path,
    user: tuple[int, int] | None,
    settings: Mapping[str, str],
    arguments: list[str],
    stdin: IO[Any] | int,
    on_wait: OnWait,
) -> None:
    conf = home / "initialise.conf"
    write_for(conf, option_file(build, data, home, home / "initialise.sock", 1, settings), user)
    command = [str(build.binary), f"--defaults-file={conf}", f"--datadir={data}", *arguments]
    make_data(command, build, home, user, failure, on_wait, stdin=stdin)
    # A bootstrap that gets a wrong statement reports it but still exits with success.
    if not (data / "mysql").is_dir():
        raise failure("the data directory has no system tables", 0, home / "initialise.log")


def _mariadb_sql(build: Build) -> bytes:
    """Return the SQL that creates MariaDB's system tables, from files whose names differ between versions.

    Raises EnvironmentLackingError if the server's package lacks one of the files.
    """
    folder = build.share
    files = []
    for name in _SYSTEM_SQL:
        names = (f"mariadb_{name}.sql", f"mysql_{name}.sql")
        found = next((folder / file for file in names if folder and (folder / file).is_file()), None)
        if found is None:
            raise EnvironmentLackingError(
                f"the server has no {names[0]}: its system tables cannot be made",
                str(folder or build.binary),
                "install the whole server package (Debian: mariadb-server-core)",
            )
        files.append(found)
    head = b"USE mysql;\nSET @skip_auth_root_nopasswd=NULL;\nSET @auth_root_socket=NULL;\nSET @skip_auth_anonymous=1;\n"
    return head + b"\n".join(file.read_bytes() for file in files)


def _copy_system_tables(build: Build, data: Path, user: tuple[int, int] | None) -> None:
    source = build.system_tables
    if source is None:
        tried = [build.binary.parent.parent / "data", build.binary.parent / "data/mysql", Path("/var/lib/mysql")]
        source = next((folder for folder in tried if (folder / "mysql" / "user.MYD").is_file()), None)
    if source is None:
        raise EngineFailure(
            "environment",
            f"MySQL {build.version} needs system tables to copy, and there are none beside it",
            str(build.binary),
            "bufferlab engines fetch mysql-5.6",
        )
    for name in ("mysql", "performance_schema"):
        if not (source / name).is_dir():
            continue
        folder = data / name
        folder.mkdir(mode=0o700)
        give(folder, user)
        for file in sorted((source / name).iterdir()):
            if file.stem in _INNODB_TABLES:
                continue
            _copy(file, folder / file.name, user)


def _copy(source: Path, to: Path, user: tuple[int, int] | None) -> None:
    """Copy a file into a folder of the server's user.

    Links are not followed, because that user may have put one there.
    """
    descriptor = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as copy, source.open("rb") as original:
        shutil.copyfileobj(original, copy)
        if user is not None:
            os.fchown(descriptor, *user)
