"""Translates a run's knobs into a server's option file, and reads the variables back after the start.

The server may change the requested values. It rounds a pool up to whole chunks, reduces the instances of a small pool,
and allows at most one cleaner for each instance (buf0buf.cc srv_buf_pool_size, ha_innodb.cc innodb_init_params). This
module starts no server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb import control, programs, redo_log, storage_engines
from bufferlab.engines.innodb.declaration import INNODB_KNOBS
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.family import ReadBack
from bufferlab.knob import KnobKind, Native, Values, Variables
from bufferlab.units import MIB, format_bytes
from bufferlab.versions import has

_WITH_SSL = "mysql < 8.4; mariadb"
VARIABLES = Variables({knob.name: knob for knob in INNODB_KNOBS})
_POOL, _CHUNK = VARIABLES.knobs["pool_size"], VARIABLES.knobs["buffer_pool_chunk_size"]


_OURS = frozenset(
    ("datadir", "socket", "port", "bind_address", "skip_networking", "user", "pid_file", "log_error", "init_file",
     "plugin_load", "plugin_load_add", "tmpdir", "basedir", "skip_grant_tables", "mysqlx", "admin_address",
     "secure_file_priv", "plugin_dir", "innodb_data_home_dir", "innodb_log_group_home_dir", "innodb_undo_directory")
)  # fmt: skip
"""The variables on which a private server's safety depends; a user cannot set them through `var.`."""


def option_file(
    build: Build, data: Path, home: Path, socket: Path, connections: int, settings: Mapping[str, str], *,
    own_ipc: bool = False,
) -> str:  # fmt: skip
    """Return the text of the option file: a private server's settings, then the requested ones. It has no credentials.

    Raises EngineFailure for a variable that only bufferlab sets, and for a value that an option file cannot express.
    """
    settings = {name.lower().replace("-", "_"): value for name, value in settings.items()}
    for name, value in settings.items():
        if name.removeprefix("loose_") in _OURS:
            raise EngineFailure("usage", f"{name} is bufferlab's to set", f"var.{name}", "leave it out")
        if not re.fullmatch(r"[a-z0-9_.]+", name) or re.search(r"[\x00-\x1f\"\\]", value):
            raise EngineFailure("usage", f"{name} = {value!r} does not fit into an option file", f"var.{name}", None)
    lines = ["# Where things are. Listens on the socket alone.", "[mysqld]"]
    places: dict[str, Path | str] = {
        "datadir": data, "socket": socket, "pid_file": home / "mysqld.pid", "tmpdir": home / "tmp",
        "secure_file_priv": home / "tmp",
    }  # fmt: skip
    engine = storage_engines.of({storage_engines.KNOB: settings.get("default_storage_engine", "")})
    if engine is not None and engine.plugin:
        places |= {"plugin_dir": programs.plugins(build, engine.plugin), "plugin_load_add": engine.plugin}
    if build.share is not None:
        places |= {"lc_messages_dir": build.share, "character_sets_dir": build.share / "charsets"}
    lines += [f'{name} = "{place}"' for name, place in places.items()]
    lines += ["skip_networking", "skip_name_resolve"]
    if build.flavour == "mysql" and build.numbers >= (8, 0, 11):
        lines.append("mysqlx = OFF")
    lines += ["", "# Nothing beside InnoDB and the workload: no binary log, no instruments, no keys made at the start."]
    # MySQL 8.4 removed --ssl. Since then a server has no TLS if the list of its TLS versions is empty.
    without_tls = "skip_ssl" if has(_WITH_SSL, build.flavour, build.version) else 'tls_version = ""'
    lines += ["skip_log_bin", "performance_schema = OFF", without_tls]
    if build.flavour == "mysql" and build.numbers >= (5, 7):
        keys = ("sha256_password", "caching_sha2_password")
        lines += ["loose_auto_generate_certs = OFF"]
        lines += [f"loose_{plugin}_auto_generate_rsa_keys = OFF" for plugin in keys]
    # The limit of statements is high because each connection prepares every statement, and with batched calls one for
    # each batch size.
    lines += [f"max_connections = {connections + 20}", "max_prepared_stmt_count = 1048576"]
    lines += ["", "# The pool begins empty, whatever was in it before."]
    lines += [f"innodb_buffer_pool_{what} = OFF" for what in ("dump_at_shutdown", "load_at_startup")]
    lines += ["", "# What was asked."]
    lines += [f'{name} = "{value}"' for name, value in settings.items()]
    return "\n".join(lines) + "\n"


def server_settings(flavour: str, version: str, knobs: Values) -> dict[str, str]:
    """Return the option file's variables with their values, without the knobs that this version lacks.

    Raises EngineFailure for knobs that set the same variable.
    """
    asked = redo_log.spelled(
        flavour, version, VARIABLES.settings(flavour, version, knobs, lambda name, value: str(value))
    )
    engine = storage_engines.of(knobs)
    if engine is not None:
        return storage_engines.settings(engine, knobs, asked)
    if storage_engines.is_whole(knobs):
        asked[_POOL.spelling] = str(int(asked[_POOL.spelling]) - storage_engines.BESIDE_CACHE_BYTES)
    return asked


def with_one_chunk(flavour: str, version: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings, with one chunk for each pool instance added unless the user set the chunk size.

    The server reduces a chunk larger than an instance to the instance's size (ha_innodb.cc, innodb_init_params), so
    nothing is rounded. With the server's own chunk of 128 MiB, 210 MiB become 256 MiB. With chunks of 1 MiB, a chunk
    whose memory does not begin at a whole page lacks one of its 64 pages of 16 KiB (buf0buf.cc, buf_chunk_init). Chance
    decides whether all chunks lack a page, or none does.
    """
    pool = int(settings.get(_POOL.spelling, 0))
    if not pool or not has(_CHUNK.versions, flavour, version):
        return dict(settings)
    return {_CHUNK.spelling: str(-(-pool // MIB) * MIB), **settings}


def chosen(settings: Mapping[str, str], knobs: Values) -> dict[str, str]:
    """Return by name a note on each setting of a private server whose value bufferlab chose."""
    if _CHUNK.spelling in settings and knobs.get(_CHUNK.name) is None:
        return {
            _CHUNK.name: "set by bufferlab: one chunk for each instance, so that the server does not round the pool"
        }
    return {}


def as_asked(name: str, told: str) -> int | str:
    """Return a value of SHOW GLOBAL VARIABLES in the form in which users write it.

    >>> as_asked("adaptive_hash_index", "OFF"), as_asked("lru_scan_depth", "1024")
    ('off', 1024)
    """
    knob = VARIABLES.knobs.get(name)
    if knob is None:
        return told
    if knob.kind is KnobKind.CHOICE:
        switches = {"1": "on", "0": "off"} if "on" in knob.choices else {}
        text = switches.get(told, told)
        return next((choice for choice in knob.choices if choice.lower() == text.lower()), told)
    try:
        return int(float(told))  # The server shows percentages as 75.000000.
    except (ValueError, OverflowError):  # An unusual server may return "inf".
        return told


_ALWAYS = (
    "buffer_pool_instances", "buffer_pool_chunk_size", "page_cleaners", "lru_scan_depth", "adaptive_hash_index",
    "change_buffering", "flush_method", "doublewrite",
)  # fmt: skip
"""The settings that every run records, whether set or not, if the version has them."""
_ALSO = ("innodb_use_native_aio", "version", "version_comment")
"""Variables without a knob that every run records too."""

_GIB = 1 << 30


def read_back(connection: Client, build: Build, knobs: Values, limit_bytes: int | None = None) -> ReadBack:
    """Return the settings that the server reports.

    Raises EngineFailure if it does not report how many pages its pool has.
    """
    told = control.variables(connection)
    if "innodb_buffer_pool_instances" in told:
        # In 5.6 the variable shows the requested number of instances; the pool's statistics show the actual one.
        ((instances,),) = connection.rows("SELECT count(*) FROM information_schema.INNODB_BUFFER_POOL_STATS")
        told["innodb_buffer_pool_instances"] = str(instances or told["innodb_buffer_pool_instances"])
    actual: dict[str, Native] = {name: told[name] for name in _ALSO if name in told}
    for name in dict.fromkeys((*knobs, *_ALWAYS)):
        behind = VARIABLES.of(name).lower()
        if not behind:
            actual[name] = knobs[name]
        elif behind in told:
            actual[name] = as_asked(name, told[behind])
    if capacity := redo_log.capacity_bytes(told):
        actual[redo_log.CAPACITY] = capacity
    if engine := storage_engines.of(knobs):
        cache, block = int(told[engine.cache]), int(told[engine.blocks[0]])
        actual |= {"pool_size": cache, "page_size": block}
        return ReadBack(actual, cache // block, [], storage_engines.notes(engine, knobs))
    pages = control.status(connection, "Innodb_buffer_pool_pages_total").get("innodb_buffer_pool_pages_total", "")
    if not pages.isdigit() or int(pages) == 0:
        raise EngineFailure("engine", "the server does not tell the pages of its pool", None, "is InnoDB switched off?")
    wanted = server_settings(build.flavour, build.version, knobs)
    notes = {other.name: other.why for other in _others(wanted, told)} | storage_engines.notes(None, knobs)
    return ReadBack(actual, int(pages), confounds(wanted, told), notes, _standing(told))


def confounds(asked: Mapping[str, str], told: Mapping[str, str]) -> list[str]:
    """Return sentences on server values that would distort a comparison, given requested and reported variables.

    >>> confounds({"innodb_buffer_pool_instances": "8"}, {"innodb_buffer_pool_instances": "1"})
    ['innodb_buffer_pool_instances is 1 where 8 were asked for: pools below 1 GiB have one instance']
    """
    said = [f"{other.said}{': ' if other.why else ''}{other.why}" for other in _others(asked, told)]
    return [*said, *_standing(told).values()]


def _standing(told: Mapping[str, str]) -> dict[str, str]:
    """Return sentences, by setting, on server values that distort a comparison even if no value was requested."""
    said = {}
    if told.get("innodb_adaptive_hash_index", "OFF") == "ON":
        said["adaptive_hash_index"] = (
            "the adaptive hash index is on: page gets per transaction change with the size of the pool"
        )
    if told.get("innodb_change_buffering", "none") != "none":
        said["change_buffering"] = (
            "the change buffer is on: some reads of index pages are put off, and counted later or not at all"
        )
    return said


@dataclass(frozen=True)
class _Other:
    """A pool setting whose value differs from the requested one, with both values in words."""

    name: str
    said: str
    why: str


def _others(asked: Mapping[str, str], told: Mapping[str, str]) -> Iterator[_Other]:
    """Yield the pool settings that the server changed, each with the server's rule if it is known."""
    pool, instances = _number(told, "innodb_buffer_pool_size"), _number(told, "innodb_buffer_pool_instances")
    chunk, cleaners = _number(told, "innodb_buffer_pool_chunk_size"), _number(told, "innodb_page_cleaners")
    asked_pool = _number(asked, "innodb_buffer_pool_size")
    if pool and asked_pool and pool != asked_pool:
        why = f"sizes are rounded up to chunks of {format_bytes(chunk)} times {instances or 1}" if chunk else ""
        said = f"the pool is {format_bytes(pool)} where {format_bytes(asked_pool)} were asked for"
        yield _Other("pool_size", said, why)
    asked_instances = _number(asked, "innodb_buffer_pool_instances")
    if instances and asked_instances and instances != asked_instances:
        why = "pools below 1 GiB have one instance" if pool is None or pool < _GIB else ""
        said = f"innodb_buffer_pool_instances is {instances} where {asked_instances} were asked for"
        yield _Other("buffer_pool_instances", said, why)
    asked_cleaners = _number(asked, "innodb_page_cleaners")
    if cleaners and asked_cleaners and cleaners != asked_cleaners:
        said = f"innodb_page_cleaners is {cleaners} where {asked_cleaners} were asked for"
        yield _Other("page_cleaners", said, f"there are no more cleaners than instances ({instances or 1})")


def _number(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name, "")
    return int(text) if text.isdigit() else None
