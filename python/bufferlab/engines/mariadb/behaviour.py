"""Drives private MariaDB servers with the code of engines/innodb."""

from __future__ import annotations

from bufferlab.engines.innodb.innodb_behaviour import InnodbBehaviour

BEHAVIOUR = InnodbBehaviour("mariadb")
