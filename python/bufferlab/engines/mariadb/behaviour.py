"""Drives MariaDB servers with the code of engines/innodb."""

from __future__ import annotations

from bufferlab.engines.innodb.family import InnodbFamily
from bufferlab.engines.servers.server_behaviour import ServerBehaviour

BEHAVIOUR = ServerBehaviour(InnodbFamily("mariadb"))
