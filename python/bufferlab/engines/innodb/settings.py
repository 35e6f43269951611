"""Translates a run's native knobs to the variables of a server's option file, and the server's answers back.

Pure text: it starts no server and asks none.
"""

from __future__ import annotations

from collections.abc import Mapping

from bufferlab.engines.innodb.knobs import INNODB_KNOBS
from bufferlab.engines.read_ahead_knob import NAME as READ_AHEAD
from bufferlab.knob import KnobKind
from bufferlab.units import MIB
from bufferlab.versions import has

PREFIX = "var."
"""The prefix of variables that are passed through."""

_RENAMED = {"page_size_bytes": "innodb_page_size", "pool_size_bytes": "innodb_buffer_pool_size"}
_NOT_THE_SERVERS = ("server", "statements", READ_AHEAD)
_CHUNK = "innodb_buffer_pool_chunk_size"
_BY_NATIVE_NAME = {knob.native_name: knob for knob in INNODB_KNOBS}


def server_settings(flavour: str, version: str, knobs: Mapping[str, int | str]) -> dict[str, str]:
    """Return the option file's variables with their values.

    Knobs that this version lacks are left out. Their value can only be "auto": the start of the sweep refused explicit
    values.
    """
    settings: dict[str, str] = {}
    for name, value in knobs.items():
        knob = _BY_NATIVE_NAME.get(name)
        if name in _NOT_THE_SERVERS or (knob is not None and not has(knob.versions, flavour, version)):
            continue
        settings[_RENAMED.get(name, name.removeprefix(PREFIX))] = str(value)
    return settings


def with_one_chunk(flavour: str, version: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the same settings, with a chunk for each instance of the pool where no other chunk was asked for.

    A chunk larger than an instance becomes as large as that (ha_innodb.cc, innodb_init_params), so nothing is rounded.
    The server's own chunk of 128 MiB makes 256 MiB of 210. In chunks of 1 MiB, each chunk whose memory does not begin
    at a whole page has one page of 16 KiB in 64 less (buf0buf.cc, buf_chunk_init): all of them or none, by chance.
    """
    pool = int(settings.get("innodb_buffer_pool_size", 0))
    if not pool or not has(_BY_NATIVE_NAME[_CHUNK].versions, flavour, version):
        return dict(settings)
    return {_CHUNK: str(-(-pool // MIB) * MIB), **settings}


def variable(native_name: str) -> str | None:
    """Return the server's variable behind a native name; None for a knob of bufferlab itself."""
    if native_name in _NOT_THE_SERVERS:
        return None
    return _RENAMED.get(native_name, native_name.removeprefix(PREFIX))


def as_asked(native_name: str, told: str) -> int | str:
    """Return the server's answer (SHOW GLOBAL VARIABLES) in the form in which it was asked.

    >>> as_asked("innodb_adaptive_hash_index", "OFF"), as_asked("innodb_lru_scan_depth", "1024")
    ('off', 1024)
    """
    knob = _BY_NATIVE_NAME.get(native_name)
    if knob is None:
        return told
    if knob.kind is KnobKind.CHOICE:
        switches = {"1": "on", "0": "off"} if "on" in knob.choices else {}
        text = switches.get(told, told)
        return next((choice for choice in knob.choices if choice.lower() == text.lower()), told)
    try:
        return int(float(told))  # The server tells a per cent as 75.000000.
    except ValueError:
        return told
