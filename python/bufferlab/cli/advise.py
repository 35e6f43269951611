"""`bufferlab advise`: estimates the reads of a running server with a larger or a smaller buffer pool."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bufferlab.cli.options import (
    CSV,
    Grouped,
    common,
    html_page,
    look_seconds,
    may_look_inside,
    refuse_password,
    require_one_format,
    text_or_csv,
)
from bufferlab.cli.output import answering, beginning, say, show, write_page
from bufferlab.errors import SpecError, interrupted_exit_code
from bufferlab.units import UnitError, parse_percent

if TYPE_CHECKING:
    from bufferlab.live.advise import Ready
    from bufferlab.live.live_trace import Tier

_SHORTEST_S = 30.0
_SECTIONS = {
    "What to look at": ("within", "sizes", "tier", "look_inside"),
    "What it may cost": ("max_cpu", "yes"),
    "Files to write": ("html", "form"),
}
"""Heading of a section of the help -> names of the parameters whose options the section lists."""


@click.command("advise", cls=Grouped, sections=_SECTIONS)
@click.argument("url", metavar="URL")
@click.option("--within", default="10m", show_default=True, metavar="TIME", help="How long to look: 2m, 1h.")
@click.option("--sizes", metavar="A,B,C", help="Sizes to judge: 256MiB, 1GiB, 200% of the present one.")
@click.option(
    "--tier",
    type=click.Choice(["misses", "full"]),
    default="misses",
    show_default=True,
    metavar="TIER",
    help="misses: record reads and evictions, for larger sizes. full: every access for short windows too, for smaller "
    "ones.",
)
@may_look_inside("Ask also a large pool which pages it holds, for --tier full.")
@click.option(
    "--max-cpu",
    default="25%",
    show_default=True,
    metavar="SHARE",
    help="The most of one processor that recording may take; 200% are two.",
)
@click.option("--yes", is_flag=True, help="Attach without asking.")
@html_page("Write a page with the figure too.")
@text_or_csv("csv: print the sizes as CSV in place of the answer.")
@common
def command(
    url: str,
    within: str,
    sizes: str | None,
    tier: str,
    look_inside: bool,
    max_cpu: str,
    yes: bool,
    html: Path | None,
    form: str,
    as_json: bool,
) -> int:
    """Tell what a MySQL, MariaDB or PostgreSQL server that runs would read with a larger or a smaller buffer pool.

    Run it as root on the server's host. For larger pools the kernel notes the read and write calls of the
    server, on any build (BPF); --tier full records each access, on known builds (uprobes). Nothing is
    injected, restarted or loaded, and nothing stays. It says first what that costs, and asks. The account
    and its password are those of `bufferlab observe`. Ctrl-C detaches, and ends with what was seen. It
    ends with code 1 where no other size can be judged.

    \b
      bufferlab advise mysql://monitor@localhost/?socket=/run/mysqld/mysqld.sock
      bufferlab advise "postgres://monitor@localhost/shop?socket=/run/postgresql" --sizes 256MiB,1GiB
      bufferlab advise mysql://monitor@127.0.0.1 --tier full --max-cpu 50% --html advice.html
    """
    from bufferlab.cli.progress import progress
    from bufferlab.execute.stop import StopRequest
    from bufferlab.live import advise
    from bufferlab.live import advise_page as reports
    from bufferlab.live.advise import parse_sizes
    from bufferlab.live.session import Session, address_of, family_of

    refuse_password(url, "URL")
    require_one_format(form, as_json)
    within_s = look_seconds(within, "--within", _SHORTEST_S)
    kind: Tier = "full" if tier == "full" else "misses"
    asked = advise.Asked(within_s, kind, parse_sizes(sizes), _cores(max_cpu), look_inside)
    family = family_of(url)
    with Session(family, address_of(url, family)) as session:
        with beginning(f"watching the counters for {advise.FIRST_LOOK_S} s, with nothing attached"):
            ready = advise.prepare(session, asked)
        _consent(ready, yes)
        # Imported late, because it loads the models: after the user has consented, before anything is attached.
        from bufferlab.live.size_estimates import answer

        # If Ctrl-Z stopped bufferlab, the probes would stay in the server, and nothing would watch their rate.
        with StopRequest(ignored=[signal.SIGTSTP]) as stop, progress() as shown:
            advice = advise.advise(ready, answer, stop, shown)
    report = reports.as_report(advice, is_interrupted=stop.signal_number is not None)
    footer = f"Made by bufferlab advise from what {advice.seen.server} did; what was recorded was not kept."
    with answering(lambda: write_page(html, report, footer=footer)):
        show(report, as_json, reports.sizes_table(advice, with_reasons=True) if form == CSV else None)
    if stop.signal_number is not None:
        return interrupted_exit_code(stop.signal_number)
    return 0 if any(one.cannot_say is None for one in advice.others) else 1


def _consent(ready: Ready, yes: bool) -> None:
    """Print the plan, the cost and the time of each tier, and ask the user for consent, unless `yes`.

    Does nothing if no tier is to be attached. Raises SpecError without a terminal to ask on, click.Abort if the user
    refuses.
    """
    from bufferlab.live.tiers import sentence, time_sentence

    if not ready.plans:
        return
    for one in ready.foretold:
        say(f"{ready.plans[one.tier].sentence} {sentence(one)}\n")
    if ready.inside:
        say(f"{ready.inside}\n")
    say(time_sentence(ready.planned, ready.pace))
    if yes:
        return
    if not sys.stdin.isatty():
        raise SpecError("nobody can be asked whether to attach", "standard input is no terminal", "add --yes")
    click.confirm("Attach?", abort=True, err=True)


def _cores(text: str) -> float:
    try:
        ratio = float(parse_percent(text))
    except UnitError as error:
        raise SpecError(error.what, "--max-cpu", error.hint) from error
    if not ratio > 0:
        raise SpecError(f'"{text}" lets nothing be recorded', "--max-cpu", 'write a share such as "25%"')
    return ratio
