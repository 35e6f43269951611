"""Drives private MySQL servers; all of it is InnoDB's, in engines/innodb."""

from __future__ import annotations

from bufferlab.engines.innodb.drive import InnodbBehaviour

BEHAVIOUR = InnodbBehaviour("mysql")
