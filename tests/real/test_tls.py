"""TLS and logins on servers by URL, in sessions that Python asks the core for."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bufferlab.engines.behaviour import failure_of
from bufferlab.engines.innodb.family import InnodbFamily
from bufferlab.engines.postgres.family import PostgresFamily
from bufferlab.engines.servers import user as server_user
from bufferlab.engines.servers.existing import address as addresses
from bufferlab.engines.servers.family import Family
from support import existing, innodb, postgres
from support.certificates import DAY, NOW, Authority

pytestmark = pytest.mark.real

SECRET = "a-good-secret"
CASES = {
    # certificate, words of the URL, host, message; None: accepted
    "required": ("good", "sslmode=require", "localhost", None),
    "the authority": ("good", "sslmode=verify-ca&sslrootcert={ours}", "localhost", None),
    "the name too": ("good", "sslmode=verify-full&sslrootcert={ours}", "localhost", None),
    "an address": ("good", "sslmode=verify-full&sslrootcert={ours}", "127.0.0.1", None),
    "required and another authority": (
        "good", "sslmode=require&sslrootcert={other}", "localhost",
        "the server's certificate is not signed by a certificate of {other}",
    ),
    "another authority": (
        "good", "sslmode=verify-ca&sslrootcert={other}", "localhost",
        "the server's certificate is not signed by a certificate of {other}",
    ),
    "another name, unasked": ("named", "sslmode=verify-ca&sslrootcert={ours}", "localhost", None),
    "another name": (
        "named", "sslmode=verify-full&sslrootcert={ours}", "localhost",
        "the server's certificate is for db.example, not for localhost",
    ),
    "a name in CN alone": (
        "common", "sslmode=verify-full&sslrootcert={ours}", "localhost",
        "the server's certificate names localhost in its CN alone, which is no name",
    ),
    "expired": (
        "expired", "sslmode=verify-ca&sslrootcert={ours}", "localhost",
        f"the server's certificate expired on {NOW - DAY:%Y-%m-%d}",
    ),
    "expired, unverified": ("expired", "sslmode=require", "localhost", None),
}  # fmt: skip


class Served:
    """A server with TLS, on a port of the loopback."""

    def __init__(
        self,
        family: Family,
        engine: str,
        folder: Path,
        port: int,
        use: Callable[[str], None],
        forget: Callable[[], None] = lambda: None,
    ) -> None:
        self.family, self.engine, self.folder, self.port, self._use = family, engine, folder, port, use
        self.forget = forget
        """Makes the server forget the passwords that it has seen."""
        self._certificate = "good"

    def use(self, certificate: str) -> None:
        """Make the server use another certificate from now on."""
        if certificate != self._certificate:
            self._use(certificate)
            self._certificate = certificate

    def attempt(self, user: str, host: str, words: str) -> str | None:
        """Return the error for a URL; None if the login succeeded."""
        return self.said(self.url(user, host, words))

    def url(self, user: str, host: str, words: str) -> str:
        return f"{self.family.form.schemes[0]}://{user}@{host}:{self.port}/lab?{words}"

    def said(self, url: str) -> str | None:
        try:
            self.family.connect(addresses.parse(url, self.family.form)).close()
        except Exception as error:
            return failure_of(error).what
        return None


def certificates(folder: Path) -> None:
    """Make all certificates of the cases, and the files that the server reads."""
    folder.mkdir(mode=0o755)
    ours, _ = Authority(folder, "ours"), Authority(folder, "other")
    ours.server("good")
    ours.server("named", names=("db.example",))
    ours.server("common", common="localhost", names=())
    ours.server("expired", valid=(NOW - 3 * DAY, NOW - DAY))
    show(folder, "good")


def show(folder: Path, certificate: str) -> None:
    for kind in ("pem", "key"):
        file = folder / f"shown.{kind}"
        shutil.copyfile(folder / f"{certificate}.{kind}", file)
        file.chmod(0o600)
        server_user.give(file, server_user.server_user())


@contextmanager
def innodb_served(name: str, root: Path) -> Iterator[Served]:
    place = innodb.Place(innodb.build(name), root).initialise()
    folder = root / "certificates"
    certificates(folder)
    flavour = place.build.flavour
    settings = {"ssl_cert": str(folder / "shown.pem"), "ssl_key": str(folder / "shown.key")}
    if flavour == "mysql":
        settings |= {"tls_version": "TLSv1.2,TLSv1.3", "ssl_ca": str(folder / "ours.pem")}
    with place.server(settings=settings, connections=20) as server, existing.relay(server.socket) as port:

        def ask(*statements: str) -> None:
            with closing(server.connect()) as connection:
                for statement in statements:
                    connection.rows(statement)

        def use(certificate: str) -> None:
            show(folder, certificate)
            ask("FLUSH SSL" if flavour == "mariadb" else "ALTER INSTANCE RELOAD TLS")

        ask("CREATE DATABASE lab")
        plugins = {"native": "mysql_native_password"} if flavour == "mariadb" else {"sha2": "caching_sha2_password"}
        for user, plugin in plugins.items():
            how = f"VIA {plugin} USING PASSWORD('{SECRET}')" if flavour == "mariadb" else f"WITH {plugin} BY '{SECRET}'"
            ask(f"CREATE USER {user}@localhost IDENTIFIED {how}", f"GRANT ALL ON lab.* TO {user}@localhost")
        forget = partial(ask, "FLUSH PRIVILEGES")
        yield Served(InnodbFamily(flavour), "mysql", folder, port, use, forget)  # type: ignore[arg-type]


@contextmanager
def postgres_served(name: str, root: Path) -> Iterator[Served]:
    place = postgres.Place(postgres.build(name), root).initialise()
    folder = root / "certificates"
    certificates(folder)
    with place.server() as server, closing(server.connect("postgres")) as connection:
        connection.ask("CREATE DATABASE lab")
        for user, kept in (("scram", "scram-sha-256"), ("md5", "md5")):
            connection.ask(f"SET password_encryption = '{kept}'")
            connection.ask(f"CREATE ROLE {user} LOGIN PASSWORD '{SECRET}'")
    rules = "hostssl lab scram 127.0.0.1/32 scram-sha-256\nhost lab md5 127.0.0.1/32 md5\n"
    rules += "host all plain 127.0.0.1/32 password\n"
    files = {"ssl_cert_file": str(folder / "shown.pem"), "ssl_key_file": str(folder / "shown.key")}
    with postgres.listening(place, rules, ssl="on", **files) as (port, running):

        def use(certificate: str) -> None:
            show(folder, certificate)
            running.send_signal(signal.SIGHUP)
            time.sleep(0.5)

        yield Served(PostgresFamily(), "postgres", folder, port, use)


SLOW = pytest.mark.slow
BUILDS = [
    "mariadb-10.11", "postgres-17",
    *(pytest.param(name, marks=SLOW) for name in ("mysql-9", "mariadb-11.4", "mariadb-11.8", "postgres-15")),
]  # fmt: skip


@pytest.fixture(scope="module", params=BUILDS)
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    family, start = (postgres, postgres_served) if request.param.startswith("postgres") else (innodb, innodb_served)
    with family.folder() as root, start(request.param, root) as server:
        yield server


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUFFERLAB_PASSWORD", SECRET)


def user_of(served: Served) -> str:
    if served.engine == "postgres":
        return "scram"
    return "native" if served.family.flavour == "mariadb" else "sha2"


@pytest.mark.parametrize("name", CASES)
def test_certificates_are_accepted_and_refused_in_these_words(served: Served, name: str) -> None:
    certificate, words, host, said = CASES[name]
    if certificate == "expired" and user_of(served) == "sha2":
        pytest.skip("MySQL loads no certificate that has expired")
    served.use(certificate)
    files = {name: str(served.folder / f"{name}.pem") for name in ("ours", "other")}
    heard = served.attempt(user_of(served), host, words.format(**files))
    if said is None:
        assert heard is None
    else:
        assert heard is not None
        assert re.search(re.escape(said.format(**files)), heard), heard


def test_a_wrong_password_and_a_password_in_clear_text_are_refused(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.use("good")
    monkeypatch.setenv("BUFFERLAB_PASSWORD", "wrong")
    heard = served.attempt(user_of(served), "localhost", "sslmode=require")
    assert heard is not None
    assert "wrong" not in heard
    if served.engine == "postgres":
        heard = served.attempt("plain", "localhost", "sslmode=require")
        assert heard is not None
        assert "asks for the password in clear text, which is refused" in heard


def test_an_account_logs_in_by_each_way_that_is_known(served: Served) -> None:
    served.use("good")
    if served.engine == "postgres":
        assert served.attempt("md5", "localhost", "sslmode=disable") is None
        # pg_hba.conf accepts this account only over TLS.
        heard = served.attempt("scram", "localhost", "sslmode=disable")
        assert heard is not None
        assert "no encryption" in heard
    assert served.attempt(user_of(served), "localhost", "sslmode=prefer") is None


@pytest.mark.parametrize("served", [pytest.param("mysql-9", marks=SLOW)], indirect=True)
def test_a_full_login_by_caching_sha2_password_on_a_cold_cache(served: Served) -> None:
    # For the server the relay is its Unix socket, over which it asks for the password itself; below the same without
    # TLS.
    for words in ("sslmode=require", "sslmode=prefer"):
        served.forget()
        assert served.attempt("sha2", "localhost", words) is None


@pytest.mark.slow
@pytest.mark.servers
def test_a_full_login_without_tls_hides_the_password_by_the_servers_key(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    port = innodb.listen(monkeypatch)
    with innodb.folder() as root:
        place = innodb.Place(innodb.build("mysql-9"), root).initialise()
        keys = {"caching_sha2_password_auto_generate_rsa_keys": "ON"}
        with place.server(settings=keys, connections=20) as server, recording(port, seen) as relayed:

            def ask(*statements: str) -> None:
                with closing(server.connect()) as connection:
                    for statement in statements:
                        connection.rows(statement)

            how = f"IDENTIFIED WITH caching_sha2_password BY '{SECRET}'"
            ask("CREATE DATABASE lab", f"CREATE USER sha2@'%' {how}", "GRANT ALL ON lab.* TO sha2@'%'")
            served = Served(InnodbFamily("mysql"), "mysql", root, relayed, lambda certificate: None)
            another = root / "another.pem"
            public = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
            of_public = serialization.PublicFormat.SubjectPublicKeyInfo
            another.write_bytes(public.public_bytes(serialization.Encoding.PEM, of_public))
            for words, is_asked, is_in in (
                (f"server_public_key={place.data / 'public_key.pem'}", False, True),
                (f"server_public_key={another}", False, False),
                ("get_server_public_key=true", True, True),
                ("get_server_public_key=false", True, True),  # On the loopback the client asks for the key anyway.
            ):
                url = served.url("sha2", "127.0.0.1", f"sslmode=disable&{words}")
                ask("FLUSH PRIVILEGES")  # The server forgets the password: a proof alone no longer suffices.
                seen.clear()
                heard = served.said(url)
                assert (heard is None) is is_in, (words, heard)
                assert (b"BEGIN PUBLIC KEY" in b"".join(seen)) is is_asked, words
                assert SECRET.encode() not in b"".join(seen)


def test_a_server_without_tls_is_refused_where_tls_is_required() -> None:
    with innodb.folder() as root:
        place = innodb.Place(innodb.build("mariadb-10.11"), root).initialise()
        with place.server(settings={"skip_ssl": "ON"}) as server, existing.relay(server.socket) as port:
            served = Served(InnodbFamily("mariadb"), "mysql", root, port, lambda certificate: None)
            heard = served.attempt("root", "localhost", "sslmode=require")
            assert heard is not None
            assert "the server does not offer TLS, and sslmode=require requires it" in heard


def test_a_relay_between_sees_no_byte_of_a_statement_after_the_handshake() -> None:
    seen: list[bytes] = []
    with innodb.folder() as root:
        place = innodb.Place(innodb.build("mariadb-10.11"), root).initialise()
        certificates(root / "certificates")
        files = {"ssl_cert": str(root / "certificates/shown.pem"), "ssl_key": str(root / "certificates/shown.key")}
        with place.server(settings=files, connections=20) as server, recording(server.socket, seen) as port:
            family: Any = InnodbFamily("mariadb")
            with closing(server.connect()) as connection:
                connection.rows("CREATE DATABASE lab")
                connection.rows(f"CREATE USER me@localhost IDENTIFIED BY '{SECRET}'")
                connection.rows("GRANT ALL ON lab.* TO me@localhost")
            for mode, is_plain in (("disable", True), ("require", False)):
                seen.clear()
                address = addresses.parse(f"mysql://me@localhost:{port}/lab?sslmode={mode}", family.form)
                with closing(family.connect(address)) as connection:
                    assert connection.rows("SELECT 'mango', 7 * 6") == [("mango", 42)]
                assert (b"mango" in b"".join(seen)) is is_plain
                # The login contains the account's name; with TLS it comes after the handshake.
                assert (b"me\0" in b"".join(seen)) is is_plain


@contextmanager
def recording(place: Path | int, seen: list[bytes]) -> Iterator[int]:
    """Yield a relay to a socket or a port, which keeps the bytes that pass."""
    kept = socket.socket.recv

    class Tapped(socket.socket):
        def recv(self, *arguments: int) -> bytes:
            data = kept(self, *arguments)
            seen.append(data)
            return data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(existing.socket, "socket", Tapped)
        with existing.relay(place) as port:
            yield port
