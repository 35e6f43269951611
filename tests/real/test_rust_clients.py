"""The Rust tests of the clients and loaders, with the server that `cargo test` by itself does not have."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support import innodb, postgres
from support.core import ROOT

pytestmark = [pytest.mark.real, pytest.mark.slow]


def passes(family: str, socket: Path, user: str, password: str) -> None:
    """Run every test program of the family against the server; none may fail, and none may say that it was skipped."""
    server = {"SOCKET": str(socket), "USER": user, "PASSWORD": password}
    programs = ["cargo", "test", "--release", "--quiet", "--locked", "-p", "bufferlab-drive", "--test", f"{family}_*"]
    done = subprocess.run(
        [*programs, "--", "--show-output", "--test-threads", "1"],
        cwd=ROOT,
        env={**os.environ, **{f"BUFFERLAB_TEST_{family.upper()}_{name}": value for name, value in server.items()}},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test result: ok" in done.stdout
    assert "skipped:" not in done.stdout


@pytest.mark.parametrize("name", ["mysql-5.7", "mysql-8.0", "mariadb-10.11"])
def test_the_client_of_mysql_and_mariadb_passes_its_tests_on_a_server(name: str) -> None:
    with innodb.folder() as root:
        place = innodb.Place(innodb.build(name), root).initialise()
        with place.server(settings={"local_infile": "ON"}) as server:
            passes("mysql", server.socket, "root", "")


@pytest.mark.parametrize("name", ["postgres-15", "postgres-17"])
def test_the_client_of_postgresql_passes_its_tests_on_a_server(name: str) -> None:
    with postgres.folder() as root:
        place = postgres.Place(postgres.build(name), root).initialise()
        with place.server() as server:
            passes("postgres", server.socket, place.identity.user, place.identity.password)
