"""`bufferlab observe`: watches a running server, and says whether misses of its buffer pool slow it."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bufferlab.cli.options import (
    CSV,
    Grouped,
    OutputFile,
    common,
    html_page,
    look_seconds,
    may_look_inside,
    refuse_password,
    require_one_format,
    text_or_csv,
)
from bufferlab.cli.output import answering, say, show, write_page
from bufferlab.errors import EnvironmentLackingError, SpecError, interrupted_exit_code
from bufferlab.texts import printable

if TYPE_CHECKING:
    from bufferlab.engines.servers.look import Facts
    from bufferlab.live.observation import Observation
    from bufferlab.live.window import LookWindow, SampledRow, ServerEvent

_SHORTEST_S = 2.0
_SECTIONS = {"What to look at": ("duration", "watch", "look_inside"), "Files to write": ("html", "prometheus", "form")}
"""Heading of a section of the help -> names of the parameters whose options the section lists."""


@click.command("observe", cls=Grouped, sections=_SECTIONS)
@click.argument("url", metavar="URL")
@click.option("--duration", metavar="TIME", help="How long to look: 90s, 10m, 1h.  [default: 60s]")
@click.option("--watch", is_flag=True, help="Look until Ctrl-C, if no --duration ends it.")
@may_look_inside("Ask also a large pool who fills it, once its cost was confirmed.")
@html_page("Write a page with figures too.")
@click.option(
    "--prometheus",
    type=OutputFile(),
    metavar="FILE",
    help="Write FILE anew each second, for node_exporter's textfile collector.",
)
@text_or_csv("csv: print every second as CSV in place of the answer.")
@common
def command(
    url: str,
    duration: str | None,
    watch: bool,
    look_inside: bool,
    html: Path | None,
    prometheus: Path | None,
    form: str,
    as_json: bool,
) -> int:
    """Look at a MySQL, MariaDB or PostgreSQL server that runs: what its buffer pool misses, and whether that slows it.

    Nothing is changed and no load is made. The account needs no right on data: PROCESS (and SELECT
    on performance_schema for times) on MySQL and MariaDB, pg_monitor on PostgreSQL; with fewer
    rights fewer figures are told. The password stands in BUFFERLAB_PASSWORD or ?password_file=.
    Ctrl-C ends with the report of what was seen. A terminal shows the figures of each second in
    place, other outputs get a line for every ten. docs/observe.md explains every figure.

    \b
      bufferlab observe mysql://monitor@db.example --duration 10m
      bufferlab observe mysql://monitor@db.example --watch
      bufferlab observe "postgres://monitor@localhost/shop?socket=/run/postgresql" --html seen.html
    """
    from bufferlab.execute.stop import StopRequest
    from bufferlab.live import observe_page as reports
    from bufferlab.live.observation import Observation
    from bufferlab.live.session import Session, address_of, family_of

    refuse_password(url, "URL")
    require_one_format(form, as_json)
    is_endless = watch and duration is None
    seconds = math.inf if is_endless else look_seconds(duration or "60s", "--duration", _SHORTEST_S)
    family = family_of(url)
    with Session(family, address_of(url, family)) as session:
        shown = _Shown(prometheus, session.address.server)
        observation = Observation(session, shown, asks_pool=prometheus is not None)
        shown.begin(observation)
        if observation.facts.no_time:
            say(f"reads are counted, but not timed: {observation.facts.no_time}")
        look_inside = look_inside and _confirmed(observation.facts)
        with StopRequest() as stop, shown.redrawn():
            seen = observation.run(seconds, stop, look_inside=look_inside, asks_data=True)
    if is_endless and seen.ended == "stopped":
        seen = replace(seen, ended="whole")
    report = reports.as_report(seen)
    footer = f"Made by bufferlab observe from the counters of {seen.server}; samples were not kept."
    with answering(lambda: write_page(html, report, footer=footer)):
        show(report, as_json, reports.seconds_table(seen) if form == CSV else None)
    if stop.signal_number is not None and not is_endless:
        return interrupted_exit_code(stop.signal_number)
    return 1 if seen.ended == "lost" or not seen.window.rows else 0


def _confirmed(facts: Facts) -> bool:
    """Print the cost of querying which tables fill the pool, and return whether the user agrees.

    A small cost needs no consent. Raises SpecError if the query would take longer than a statement may, or if there is
    no terminal on which to ask the user.
    """
    from bufferlab.engines.servers.look import STATEMENT_SECONDS
    from bufferlab.live.pool_contents import foretell

    foretold = foretell(facts.flavour, facts.pool_size_bytes // facts.page_size_bytes)
    if foretold.within_limit:
        return True
    if foretold.seconds > STATEMENT_SECONDS:
        limit = f"a statement of ours may take {STATEMENT_SECONDS} s"
        raise SpecError(f"{foretold.sentence}, and {limit}", "--look-inside", "leave it out")
    if not sys.stdin.isatty():
        raise SpecError(f"{foretold.sentence}, and nobody can confirm it", "--look-inside", "use it on a terminal")
    return click.confirm(f"{foretold.sentence}. Ask it once, at the end?", err=True)


_LINE_S = 10.0
"""The seconds that one line covers if the output is not a terminal."""
_HALF_A_ROW_S = 0.5


class _Shown:
    """A display of each observed second: on standard error, and in the file for Prometheus, if there is one."""

    def __init__(self, prometheus: Path | None, server: str) -> None:
        self._prometheus, self._server = prometheus, server
        self._live: Any = None
        self._observation: Observation | None = None
        self._refused = ""
        self._unsaid: SampledRow | None = None
        self._has_said = False

    def begin(self, observation: Observation) -> None:
        """Prepare for the observation that begins.

        Raises EnvironmentLackingError if the Prometheus file cannot be written.
        """
        self._observation = observation
        self._write(observation.window, None)
        if self._refused:
            hint = "choose another with --prometheus"
            raise EnvironmentLackingError(f"the file cannot be written: {self._refused}", str(self._prometheus), hint)

    @contextmanager
    def redrawn(self) -> Iterator[None]:
        """Context manager during which a terminal redraws a panel in place. Other outputs get lines."""
        if not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True, highlight=False)
        with Live(console=console, transient=True, auto_refresh=False, vertical_overflow="crop") as self._live:
            yield

    def row(self, row: SampledRow, window: LookWindow) -> None:
        assert self._observation
        facts = self._observation.facts
        if self._live:
            from bufferlab.live import observe_page
            from bufferlab.report.terminal import drawn

            self._live.update(drawn(observe_page.panel(window, facts, self._server)), refresh=True)
        else:
            self._say(row, facts.transactions)
        self._write(window, row)

    def _say(self, row: SampledRow, transactions: str) -> None:
        """Write a line about every _LINE_S seconds, and one about the observation's first row."""
        from bufferlab.live.observe_page import line
        from bufferlab.live.window import joined

        self._unsaid = joined(self._unsaid, row) if self._unsaid else row
        if not self._has_said or self._unsaid.seconds > _LINE_S - _HALF_A_ROW_S:
            say(line(self._unsaid, transactions))
            self._unsaid, self._has_said = None, True

    def event(self, event: ServerEvent) -> None:
        text = f"{event.t_s:.0f} s  {event.what}"
        if self._live:
            self._live.console.print(printable(text), highlight=False, markup=False)
        else:
            say(text)
        if event.kind in ("lost", "refused") and self._observation:
            self._write(self._observation.window, None)

    def _write(self, window: LookWindow, row: SampledRow | None) -> None:
        """Write the file for Prometheus, if there is one. If that fails, print a message and go on."""
        if self._prometheus is None or self._observation is None:
            return
        from bufferlab.live import prometheus

        try:
            seen = self._observation
            content = prometheus.text(self._server, seen.facts, window, row, seen.levels, seen.contents)
            prometheus.write(self._prometheus, content)
            self._refused = ""
        except OSError as error:
            said = error.strerror or str(error)
            if said != self._refused and row:
                say(f"{self._prometheus} cannot be written: {said}")
            self._refused = said
