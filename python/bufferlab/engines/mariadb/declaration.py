"""MariaDB as bufferlab sees it; everything it shares with the other is in engines/innodb. Pure data."""

from __future__ import annotations

from bufferlab.engines.innodb.declaration import declare

DECLARATION = declare("mariadb", "MariaDB")
