"""Drives private MySQL servers with the code of engines/innodb."""

from __future__ import annotations

from bufferlab.engines.innodb.drive import InnodbBehaviour

BEHAVIOUR = InnodbBehaviour("mysql")
