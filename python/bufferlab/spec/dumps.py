"""Finds and checks the dump that an experiment restores; refuses one that the engine or the script cannot use.

A user's TOML names a dump by a path relative to the TOML. The experiment.toml of a sweep folder has the file's absolute
path, its size and its SHA-256, which is a part of `data_key`. Afterwards only the server's worker reads the dump again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.engines.dump_contents import has_rows
from bufferlab.engines.servers.builds import Flavour
from bufferlab.engines.servers.dump_head import DumpHead, misfit, read_head, sha256_of
from bufferlab.errors import Problem, SpecError
from bufferlab.spec.profiles import Merged
from bufferlab.spec.settings import Judged

_FLAVOURS: Mapping[str, Flavour] = {"mysql": "mysql", "mariadb": "mariadb", "postgres": "postgres"}
_NAMED = re.compile(r"(mysql|mariadb|postgres)-([0-9][0-9.]*)")
_QUIET = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)
_FILLS = re.compile(r"\b(?:INSERT|REPLACE|CALL|LOAD)\b", re.IGNORECASE)
"""Matches SQL keywords by which a script may insert rows into empty tables."""
_APART = "a dump is restored into a server that bufferlab starts for it, apart from every other"


def read_dump(
    merged: Merged,
    engine: EngineDeclaration,
    judged: Judged,
    script: Mapping[str, str] | None,
    problems: list[Problem],
) -> dict[str, Any] | None:
    """Return {path, sha256, size_bytes} of the named dump. Return None and add a problem if the dump cannot be used.

    Return None without a problem if no dump is named and none is needed. If the value is already such a table, as in
    the experiment.toml of a sweep folder, return it unchanged.
    """
    table = next((name for name in ("knobs", "workload") if "dump" in _table(merged, name)), None)
    data = judged.parameters.get("data")
    if table is None:
        if data is not None and data.asked == "dump":
            hint = "name it: bufferlab run my.sql --load DUMP"
            problems.append(Problem("data = dump, and no dump is named", merged.where(("workload", "data")), hint))
        return None
    path = (table, "dump")
    where, value = merged.where(path), _table(merged, table)["dump"]
    if data is not None and data.asked != "dump":
        hint = 'write data = "dump", or leave the dump out'
        problems.append(Problem(f"a dump is named, and data = {data}", where, hint))
        return None
    if problem := _impossible(merged, engine, judged, where):
        problems.append(problem)
        return None
    if isinstance(value, dict):
        return value
    return _read(merged, engine, path, value, script, problems)


def require_servers_for(path: str, head: DumpHead, servers: Iterable[str]) -> None:
    """Raise SpecError if a server that the user named is of another family than the dump, or older than its server."""
    for server in servers:
        named = _NAMED.fullmatch(server)
        if named and (wrong := misfit(head, _FLAVOURS[named[1]], named[2])):
            raise SpecError(wrong[0], f"--load {path} --server {server}", wrong[1])


def refuse_setup(told: Mapping[str, Any], source: str, problems: list[Problem]) -> None:
    """Add a problem if a script has a setup section, because all data come from the dump."""
    if told.get("setup_statements"):
        what = "a script that works on a dump has no setup section: the dump brings all its data"
        hint = "do it on your server before the dump, or leave --load out"
        problems.append(Problem(what, source, hint))


def _table(merged: Merged, name: str) -> Mapping[str, Any]:
    table = merged.document.get(name)
    return table if isinstance(table, dict) else {}


def _impossible(merged: Merged, engine: EngineDeclaration, judged: Judged, where: str) -> Problem | None:
    """Return the problem if the engine cannot restore dumps, or the server is given by the URL of a running one."""
    if not engine.is_server:
        hint = "choose --engine mysql, mariadb or postgres"
        return Problem(f"{engine.name} has no dumps: {_APART}", where, hint)
    servers = judged.sweep.get("server") or tuple(filter(None, [judged.knobs.get("server")]))
    if any("://" in server.asked for server in servers):
        return Problem(f"{_APART}, and the server given runs already", where, "leave the server's URL out")
    return None


def _read(
    merged: Merged,
    engine: EngineDeclaration,
    path: tuple[str, str],
    value: Any,
    script: Mapping[str, str] | None,
    problems: list[Problem],
) -> dict[str, Any] | None:
    where = merged.where(path)
    if not isinstance(value, str) or not value.strip():
        problems.append(Problem(f"dump = {value} is not the path of a file", where, "write the path of a dump"))
        return None
    file = (Path(value) if path in merged.flags else merged.folder / value).absolute()
    try:
        head = read_head(file)
        if head.flavour != engine.name:
            hint = f"choose --engine {head.flavour}"
            problems.append(Problem(f"the dump is of a {head.flavour} server, version {head.version}", where, hint))
            return None
        if not has_rows(file, head) and script is not None and not _FILLS.search(_QUIET.sub(" ", script["text"])):
            what = "the dump holds no rows, and the script inserts none"
            problems.append(Problem(what, where, "dump the rows too, without --no-data and --schema-only"))
            return None
        return {"path": str(file), "sha256": sha256_of(file), "size_bytes": file.stat().st_size}
    except SpecError as error:
        problems += error.problems
    except OSError as error:
        problems.append(Problem(f"the dump cannot be read: {error.strerror}", where, "give the path of a dump"))
    return None
