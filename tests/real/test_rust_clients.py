"""The Rust tests of the clients and loaders, with the server that `cargo test` alone does not have."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bufferlab.engines.servers import user as server_user
from support import existing, innodb, postgres
from support.certificates import Authority
from support.core import ROOT

pytestmark = [pytest.mark.real, pytest.mark.slow]


def passes(family: str, path: Path, user: str, password: str, programs_named: str = "*", **more: str) -> None:
    """Run the family's test programs against the server; none may fail, and none may report that it was skipped."""
    server = {"SOCKET": str(path), "USER": user, "PASSWORD": password, **more}
    named = f"{family}_{programs_named}"
    programs = ["cargo", "test", "--release", "--quiet", "--locked", "-p", "bufferlab-drive", "--test", named]
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


def certificate(place: Path) -> tuple[Path, Path, Path]:
    """Make an authority and a certificate for localhost. Return the files of the authority, certificate and key."""
    place.mkdir(mode=0o755)
    authority = Authority(place, "root")
    cert, key = authority.server("server")
    server_user.give(key, server_user.server_user())
    return authority.file, cert, key


@pytest.mark.parametrize(
    ("name", "tls_on"), [("mysql-9", {"tls_version": "TLSv1.2,TLSv1.3"}), ("mariadb-11.8", {"ssl": "ON"})]
)
def test_the_client_of_mysql_and_mariadb_loads_and_reads_over_tls(name: str, tls_on: dict[str, str]) -> None:
    with innodb.folder() as root:
        place = innodb.Place(innodb.build(name), root).initialise()
        signer, cert, key = certificate(root / "certificates")
        settings = {"local_infile": "ON", "ssl_cert": str(cert), "ssl_key": str(key), "ssl_ca": str(signer), **tls_on}
        with place.server(settings=settings) as server, existing.relay(server.socket) as port:
            tls = {"TLS_PORT": str(port), "ROOT_CERT": str(signer)}
            passes("mysql", server.socket, "root", "", "server", **tls)


def test_the_client_of_postgresql_loads_and_reads_over_tls() -> None:
    with postgres.folder() as root:
        place = postgres.Place(postgres.build("postgres-17"), root).initialise()
        signer, cert, key = certificate(root / "certificates")
        rules = "hostssl all all 127.0.0.1/32 scram-sha-256\n"
        files = {"ssl_cert_file": str(cert), "ssl_key_file": str(key)}
        with postgres.listening(place, rules, ssl="on", **files) as (port, _):
            tls = {"TLS_PORT": str(port), "ROOT_CERT": str(signer)}
            passes("postgres", Path("unused"), place.identity.user, place.identity.password, "server", **tls)
