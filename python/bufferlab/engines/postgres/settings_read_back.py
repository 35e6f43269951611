"""Reads back the settings of a started server, and names those that differ from what was asked."""

from __future__ import annotations

from collections.abc import Mapping

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.postgres import control
from bufferlab.engines.postgres.knobs import KNOBS, OFF, PAGE_BYTES
from bufferlab.engines.postgres.postgresql_conf import Told, as_asked, bytes_of, server_settings, variable
from bufferlab.engines.servers.family import ReadBack
from bufferlab.units import format_bytes

_ALWAYS = tuple(knob.native_name for knob in KNOBS if variable(knob.native_name))
"""The settings that every run tells, asked or not, where the version has them."""
_ALSO = (
    "server_version",
    "wal_level",
    "huge_pages_status",
    "shared_memory_type",
    "max_connections",
    "io_max_concurrency",
)


def read_back(
    connection: control.Connection, version: str, knobs: Mapping[str, int | str], limit_bytes: int | None
) -> ReadBack:
    """Ask the server for its settings; `limit_bytes` is the memory limit in force.

    Raises EngineFailure when it does not tell its pool's size.
    """
    told = control.settings(connection)
    if "shared_buffers" not in told:
        raise EngineFailure("engine", "the server does not tell its shared_buffers", None, "is this PostgreSQL?")
    frames = bytes_of(told["shared_buffers"]) // PAGE_BYTES
    return ReadBack(
        actual_of(knobs, told, limit_bytes),
        frames,
        confounds(server_settings(version, knobs), knobs, told, limit_bytes),
    )


def actual_of(
    knobs: Mapping[str, int | str], told: Mapping[str, Told], limit_bytes: int | None
) -> dict[str, int | str]:
    """Return every knob's value in force, from pg_settings."""
    actual: dict[str, int | str] = {}
    for name in dict.fromkeys((*knobs, *_ALWAYS)):
        behind = variable(name)
        if behind is not None and behind in told:
            actual[name] = as_asked(name, knobs.get(name), told[behind])
        elif behind is None and name in knobs:
            actual[name] = knobs[name]
    actual["page_size_bytes"] = bytes_of(told["block_size"]) if "block_size" in told else PAGE_BYTES
    if "data_checksums" in told:
        actual["data_checksums"] = told["data_checksums"][0]
    actual["memory_limit_bytes"] = OFF if limit_bytes is None else limit_bytes
    return actual | {name: as_asked(f"var.{name}", None, told[name]) for name in _ALSO if name in told}


def confounds(
    asked: Mapping[str, str],
    knobs: Mapping[str, int | str],
    told: Mapping[str, Told],
    limit_bytes: int | None,
) -> list[str]:
    """Return the confounds in sentences, from the variables asked for, the knobs, and what the server tells.

    >>> confounds({}, {"pool_size_bytes": 8192000}, {"shared_buffers": ("1024", "8kB")}, None)
    ['the pool is 8 MiB where 7.81 MiB were asked for']
    """
    said = []
    pool, asked_pool = bytes_of(told["shared_buffers"]), knobs.get("pool_size_bytes")
    if isinstance(asked_pool, int) and pool != asked_pool:
        said.append(f"the pool is {format_bytes(pool)} where {format_bytes(asked_pool)} were asked for")
    for name in knobs:
        behind = variable(name)
        if behind is not None and behind in asked and behind in told and name != "pool_size_bytes":
            actual = as_asked(name, knobs[name], told[behind])
            if actual != knobs[name]:
                said.append(f"{behind} is {actual} where {knobs[name]} was asked for")
    if told.get("autovacuum", ("off", None))[0] == "on":
        said.append("autovacuum is on: it reads and writes in some windows and not in others")
    if told.get("huge_pages_status", ("off", None))[0] == "on" and limit_bytes is not None:
        said.append("shared buffers are in huge pages, which the memory limit does not count")
    if told.get("track_counts", ("on", None))[0] == "off":
        said.append("track_counts is off: the server counts nothing")
    return said
