"""Reads back the settings of a started server, and names those that differ from what was asked.

Asked is not actual: a pool is rounded up to whole chunks, instances need a large pool, cleaners need instances
(buf0buf.cc srv_buf_pool_size, ha_innodb.cc innodb_init_params).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb import control
from bufferlab.engines.innodb.option_file import as_asked, server_settings, variable
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.family import ReadBack
from bufferlab.units import format_bytes

_ALWAYS = (
    "innodb_buffer_pool_instances", "innodb_buffer_pool_chunk_size", "innodb_page_cleaners", "innodb_lru_scan_depth",
    "innodb_adaptive_hash_index", "innodb_change_buffering", "innodb_flush_method", "innodb_doublewrite",
    "innodb_use_native_aio", "version", "version_comment",
)  # fmt: skip
"""The variables that every run tells, asked or not, where the version has them."""

_GIB = 1 << 30


def read_back(connection: Any, build: Build, knobs: Mapping[str, int | str]) -> ReadBack:
    """Ask the server for its settings. Raises EngineFailure when it does not tell its pool's size."""
    told = control.variables(connection)
    if "innodb_buffer_pool_instances" in told:
        # In 5.6 the variable tells what was asked for; the pool tells its real number of instances.
        ((instances,),) = control.rows(connection, "SELECT count(*) FROM information_schema.INNODB_BUFFER_POOL_STATS")
        told["innodb_buffer_pool_instances"] = str(instances or told["innodb_buffer_pool_instances"])
    actual: dict[str, int | str] = {}
    for name, asked in knobs.items():
        behind = variable(name)
        if behind is None:
            actual[name] = asked
        elif behind.lower() in told:
            actual[name] = as_asked(name, told[behind.lower()])
    for name in _ALWAYS:
        if name in told and name not in actual:
            actual[name] = as_asked(name, told[name])
    pages = control.status(connection, "Innodb_buffer_pool_pages_total").get("innodb_buffer_pool_pages_total", "")
    if not pages.isdigit() or int(pages) == 0:
        raise EngineFailure("engine", "the server does not tell the pages of its pool", None, "is InnoDB switched off?")
    wanted = server_settings(build.flavour, build.version, knobs)
    notes = {other.native_name: other.why for other in _others(wanted, told)}
    return ReadBack(actual, int(pages), confounds(wanted, told), notes)


def confounds(asked: Mapping[str, str], told: Mapping[str, str]) -> list[str]:
    """Return the confounds in sentences, from the variables asked for and those the server tells.

    >>> confounds({"innodb_buffer_pool_instances": "8"}, {"innodb_buffer_pool_instances": "1"})
    ['innodb_buffer_pool_instances is 1 where 8 were asked for: pools below 1 GiB have one instance']
    """
    said = [f"{other.said}{': ' if other.why else ''}{other.why}" for other in _others(asked, told)]
    if told.get("innodb_adaptive_hash_index", "OFF") == "ON":
        said.append("the adaptive hash index is on: page gets per transaction change with the size of the pool")
    if told.get("innodb_change_buffering", "none") != "none":
        said.append("the change buffer is on: some reads of index pages are put off, and counted later or not at all")
    return said


@dataclass(frozen=True)
class _Other:
    """A setting that runs with another value than the one asked for."""

    native_name: str
    said: str
    why: str


def _others(asked: Mapping[str, str], told: Mapping[str, str]) -> Iterator[_Other]:
    """Yield the settings of the pool that the server changed, each with its rule where that is known."""
    pool, instances = _number(told, "innodb_buffer_pool_size"), _number(told, "innodb_buffer_pool_instances")
    chunk, cleaners = _number(told, "innodb_buffer_pool_chunk_size"), _number(told, "innodb_page_cleaners")
    asked_pool = _number(asked, "innodb_buffer_pool_size")
    if pool and asked_pool and pool != asked_pool:
        why = f"sizes are rounded up to chunks of {format_bytes(chunk)} times {instances or 1}" if chunk else ""
        said = f"the pool is {format_bytes(pool)} where {format_bytes(asked_pool)} were asked for"
        yield _Other("pool_size_bytes", said, why)
    asked_instances = _number(asked, "innodb_buffer_pool_instances")
    if instances and asked_instances and instances != asked_instances:
        why = "pools below 1 GiB have one instance" if pool is None or pool < _GIB else ""
        said = f"innodb_buffer_pool_instances is {instances} where {asked_instances} were asked for"
        yield _Other("innodb_buffer_pool_instances", said, why)
    asked_cleaners = _number(asked, "innodb_page_cleaners")
    if cleaners and asked_cleaners and cleaners != asked_cleaners:
        said = f"innodb_page_cleaners is {cleaners} where {asked_cleaners} were asked for"
        yield _Other("innodb_page_cleaners", said, f"there are no more cleaners than instances ({instances or 1})")


def _number(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name, "")
    return int(text) if text.isdigit() else None
