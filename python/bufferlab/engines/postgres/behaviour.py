"""Drives private PostgreSQL servers: drive.py does."""

from __future__ import annotations

from bufferlab.engines.postgres.drive import PostgresBehaviour

BEHAVIOUR = PostgresBehaviour()
