"""`bufferlab learn`: finds where an unknown build's code gets, reads, makes, evicts and writes pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bufferlab.cli.options import OutputFile, common
from bufferlab.cli.output import beginning, columns, print_json, put, say
from bufferlab.errors import BufferlabError, SpecError

if TYPE_CHECKING:
    from bufferlab.engines.servers.builds import Build
    from bufferlab.engines.servers.learnt import LearntEntry
    from bufferlab.learn.learning import Learnt
    from bufferlab.learn.written import Written

_REFUSED = 1


@click.command("learn")
@click.argument("binary", type=click.Path(path_type=Path), metavar="[BINARY]", required=False)
@click.option(
    "--pid", type=click.IntRange(min=1), metavar="N",
    help="Learn the build of the server whose first process is N, in place of BINARY.",
)  # fmt: skip
@click.option("--save", type=OutputFile(), metavar="FILE", help="Write what was learnt into this file, too.")
@click.option(
    "--from", "source", type=click.Path(path_type=Path), metavar="FILE",
    help="Take what another host learnt of the same build, from its --save.",
)  # fmt: skip
@click.option("--show", "shows", is_flag=True, help="Print what is known of the build, as page_sites.toml has it.")
@common
def command(
    binary: Path | None, pid: int | None, save: Path | None, source: Path | None, shows: bool, as_json: bool
) -> int:
    """Learn where a build of a server gets, reads, makes, evicts and writes pages, so that it can be traced.

    BINARY is the program `postgres`, `mysqld` or `mariadbd`, or its folder. A copy of it runs privately
    for some seconds, a minute at most, as an unprivileged user and at idle priority, in less than
    512 MiB of memory and 1 GiB of disk. A MariaDB that names no function takes minutes, and root. The
    recorded accesses must equal the server's own counters, and the pool that follows from them must be
    the one that the server lists; else nothing is kept, and the exit code is 1. On PostgreSQL the
    recorded changes and writes of pages are checked, too; if they disagree, the build is learnt
    without them, with the reason, and predictions of it have no writes. A server in use is
    never touched: of the process of --pid bufferlab only copies the program, even if another file
    has the program's path by now.

    Afterwards `run --probe page-trace` and `predict` work with this build. As root the sites are also
    proved by the kernel's own probes, and `advise --tier full` takes them.

    \b
      bufferlab learn /usr/lib/postgresql/17/bin/postgres
      sudo bufferlab learn --pid "$(pgrep -xo mariadbd)"
      sudo bufferlab learn /usr/lib/postgresql/17/bin/postgres --save postgres-17.json
      sudo bufferlab learn /usr/lib/postgresql/17/bin/postgres --from postgres-17.json
    """
    if (binary is None) == (pid is None):
        what = "learn takes BINARY or --pid N, and not both" if pid else "learn needs BINARY, or --pid N"
        raise SpecError(what, "learn", "bufferlab learn --help")
    with _build(binary, pid) as (build, program):
        if shows or source:
            return _known(build, program, source, save, shows=shows, as_json=as_json)
        return _learn(build, program, save, as_json=as_json)


def _known(
    build: Build, program: Path | None, source: Path | None, save: Path | None, *, shows: bool, as_json: bool
) -> int:
    """Import the sites of a build from the file `source`, if given, and show the build's known sites."""
    from bufferlab.learn import learning

    entry = learning.taken(build, source, program) if source else learning.kept(build, program)
    if save:
        learning.keep(entry, save)
    if as_json:
        print_json(json.loads(entry.text()))
    else:
        by = " and ".join(entry.proof["by"])
        put(_toml(entry).rstrip() if shows else f"{entry.server}: taken from {source}; proved by {by}")
    return 0


def _learn(build: Build, program: Path | None, save: Path | None, *, as_json: bool) -> int:
    """Learn a build, store and show the outcome, and return the exit code."""
    from bufferlab.learn import learning, private_copy

    private_copy.idle_priority()
    outcome = learning.learn(build, say, program)
    unkept: BufferlabError | None = None
    if not outcome.wrong:
        try:
            learning.keep(outcome.entry, save)
        except BufferlabError as error:
            unkept = error
    if as_json:
        print_json(learning.told(outcome))
    else:
        put(_text(outcome, program, is_kept=unkept is None))
    if unkept:
        raise unkept
    return _REFUSED if outcome.wrong else 0


@contextmanager
def _build(binary: Path | None, pid: int | None) -> Iterator[tuple[Build, Path | None]]:
    """Context manager for the build to learn, and the file of its program if another file is at the program's path
    now."""
    with beginning("reading the program"):
        from bufferlab.learn import learning, of_process

    if pid is None:
        assert binary
        yield learning.build_of(binary), None
        return
    with of_process.opened(pid) as found:
        yield found


def _text(outcome: Learnt, program: Path | None, *, is_kept: bool) -> str:
    from bufferlab.chapter.words import listing
    from bufferlab.engines.postgres import look, programs
    from bufferlab.learn import learning

    rows = [
        [proof.by, one.window, one.kind, f"{one.recorded:,}", f"{one.counted:,}"]
        for proof in outcome.proofs
        for one in proof.compared
    ]
    rows += [
        [proof.by, one.window, _written_by(proof.written), f"{one.recorded:,}", f"{one.counted:,}"]
        for proof in outcome.proofs
        if proof.written
        for one in proof.written.compared
    ]
    rows += [
        [
            proof.by,
            "at the end",
            "resident pages",
            f"{proof.resident_pages.foretold:,}",
            f"{proof.resident_pages.listed:,}",
        ]
        for proof in outcome.proofs
    ]
    table = columns(("recorder", "window", "pages", "by the trace", "by the server"), rows)
    name = outcome.entry.server
    if outcome.wrong:
        return f"{table}\n\n{name} was not learnt; nothing is kept:\n" + "\n".join(f"  {one}" for one in outcome.wrong)
    numbers, of_postgres = outcome.build.numbers, outcome.build.flavour == "postgres"
    uses = ["run --probe page-trace", "predict"] if numbers >= programs.OLDEST_MEASURED or not of_postgres else []
    if learning.is_replaced(outcome, program):  # `run` starts the file that is now at this path.
        uses = []
    if (numbers >= (look.OLDEST,) or not of_postgres) and learning.serves_root(outcome, program):
        uses.append("root's advise --tier full")
    found = f"{table}\n\n{name} was learnt in {outcome.seconds:.0f} s"
    found += " and is known on this host." if is_kept else "."
    if outcome.without_writes:
        lacking = "Its traces hold no changed and no written pages, so predictions of it have no writes"
        found += f"\n{lacking}: {outcome.without_writes}."
    return found + (f"\nIt serves {listing(uses)}." if uses and is_kept else "")


def _written_by(written: Written) -> str:
    return "written by checkpoints" if written.of_checkpoints_alone else "written"


def _toml(entry: LearntEntry) -> str:
    """Return the entry in the form of page_sites.toml; JSON's strings are also valid in TOML."""

    def value(one: object) -> str:
        if isinstance(one, dict):
            return "{ " + ", ".join(f"{key} = {value(inner)}" for key, inner in one.items()) + " }"
        return hex(one) if isinstance(one, int) and not isinstance(one, bool) else json.dumps(one)

    head = {"server": entry.server, "text_sha256": entry.text_sha256, "cost_shown": False,
            **{name: one for name, one in entry.settings.items() if name not in ("site", "cost_shown")}}  # fmt: skip
    lines = [f"{name} = {value(one)}" for name, one in head.items()]
    sites = [f"  {value(site)}," for site in entry.settings["site"]]
    return "\n".join(["[[build]]", *lines, "site = [", *sites, "]", ""])
