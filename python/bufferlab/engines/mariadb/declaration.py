"""The declaration of MariaDB. engines/innodb holds what it shares with MySQL. Pure data."""

from __future__ import annotations

from bufferlab.engines.innodb.declaration import declare

DECLARATION = declare("mariadb", "MariaDB")
