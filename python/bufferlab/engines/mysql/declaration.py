"""The declaration of MySQL. engines/innodb holds what it shares with MariaDB. Pure data."""

from __future__ import annotations

from bufferlab.engines.innodb.declaration import declare

DECLARATION = declare("mysql", "MySQL")
