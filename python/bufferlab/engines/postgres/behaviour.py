"""Drives private PostgreSQL servers with the code of drive.py."""

from __future__ import annotations

from bufferlab.engines.postgres.drive import PostgresBehaviour

BEHAVIOUR = PostgresBehaviour()
