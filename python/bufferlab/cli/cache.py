"""`bufferlab cache`: lists the folders that bufferlab keeps or that killed runs left, and removes unused ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from bufferlab.cli.options import common, data_dir
from bufferlab.cli.output import columns, print_json, put, say
from bufferlab.errors import EnvironmentLackingError, Problem
from bufferlab.execute.data import leftovers
from bufferlab.execute.data.leftovers import Leftover
from bufferlab.execute.host import storage
from bufferlab.units import format_bytes


@click.group("cache", no_args_is_help=False)
def command() -> None:
    """List loaded databases, fetched servers, and what killed runs left; remove those that nobody uses.

    \b
      bufferlab cache list
      bufferlab cache prune --dry-run
      bufferlab cache prune --unused-days 30
    """


@command.command("list")
@data_dir
@common
def list_(data_dir: Path | None, as_json: bool) -> int:
    """List what is kept and what was left, each with its size and its last use."""
    entries = [*leftovers.kept(), *_left_over(data_dir)]
    total_bytes = sum(entry.size_bytes for entry in entries)
    if as_json:
        print_json({"entries": entries, "size_bytes": total_bytes})
    else:
        put(_text(entries))
        say(f"folders: {len(entries)}, {format_bytes(total_bytes)}")
    return 0


@command.command("prune")
@click.option(
    "--unused-days",
    type=click.IntRange(min=1),
    metavar="N",
    help="Also remove databases and servers that were not used for N days.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed; remove nothing.")
@data_dir
@common
def prune(unused_days: int | None, dry_run: bool, data_dir: Path | None, as_json: bool) -> int:
    """Remove what killed runs, loads and fetches left. Nothing that a living process uses is touched.

    Exit code 3 when a folder cannot be removed.
    """
    entries = [*_left_over(data_dir), *(leftovers.unused(unused_days) if unused_days else ())]
    stayed = {} if dry_run else leftovers.remove(entries)
    gone = [entry for entry in entries if entry not in stayed]
    size_bytes = sum(entry.size_bytes for entry in gone)
    if not as_json:
        put(_text(gone))
        say(f"{'would be removed' if dry_run else 'removed'}: {len(gone)}, {format_bytes(size_bytes)}")
    if stayed:
        first, *more = [Problem(f"the folder was not removed: {why}", str(entry.path)) for entry, why in stayed.items()]
        raise EnvironmentLackingError(first.what, first.where, first.hint, more=more)
    if as_json:
        print_json({"dry_run": dry_run, "removed": gone, "size_bytes": size_bytes})
    return 0


def _left_over(data_dir: Path | None) -> list[Leftover]:
    return leftovers.left_over(storage.data_directory(data_dir, Path.cwd()), *(() if data_dir else (Path.cwd(),)))


def _text(entries: Sequence[Leftover]) -> str:
    rows = [
        [
            entry.kind,
            entry.name,
            format_bytes(entry.size_bytes),
            "now" if entry.in_use else f"{entry.last_used_at:%Y-%m-%d %H:%M}",
            str(entry.path),
        ]
        for entry in entries
    ]
    return columns(("kind", "what", "size", "last use (UTC)", "where"), rows)
