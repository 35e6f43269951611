"""`bufferlab curve`: computes the misses of an LRU pool of each size, from the page accesses of a run or in a file."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bufferlab.cli.options import Grouped, OutputFile, common, html_page, parsed
from bufferlab.cli.output import answering, beginning, show, try_place, write, write_figure, write_page
from bufferlab.cli.progress import progress
from bufferlab.errors import SpecError
from bufferlab.units import UnitError, parse_duration, parse_size

if TYPE_CHECKING:
    from bufferlab.traces.page_trace import Accesses

_SHARES = "1%,2%,5%,10%,20%,30%,40%,50%,60%,80%,100%"
_PAGES = re.compile(r"\s*([0-9]{1,12})\s*pages?\s*")
_HINT = 'write sizes such as "10%", "64MiB" or "5000pages", separated by commas'
_SILENT_S = 2.0

_SECTIONS = {
    "Reading the accesses": ("page_size", "columns", "window"),
    "Pools and models": ("sizes", "model", "settings", "by"),
    "Files to write": ("html", "svg", "to"),
}
"""Heading of a section of the help -> names of the parameters whose options the section lists."""


@click.command("curve", cls=Grouped, sections=_SECTIONS)
@click.argument("file", type=click.Path(path_type=Path), metavar="RUN|FILE")
@click.option("--sizes", default=_SHARES, metavar="A,B,C", help="Pools to list: 10% of the pages, 64MiB, 5000pages.")
@click.option("--page-size", metavar="SIZE", help="The bytes of a page, where the file does not tell.")
@click.option("--columns", metavar="page=B[:UNIT],...", help="A table's columns, by name or number.")
@click.option("--window", metavar="FROM,TO", help="Count misses between these times alone; what is before only warms.")
@click.option(
    "--model",
    type=click.Choice(["innodb57", "innodb1011", "postgres"]),
    metavar="NAME",
    help="Play a FILE to a model too: innodb57, innodb1011 or postgres.",
)
@click.option("--set", "settings", multiple=True, metavar="NAME=N", help="A setting of the model. Repeatable.")
@click.option("--by", type=click.Choice(["table"]), help="Of a run: the misses of each table and index too.")
@html_page("Write a page with the figure too.")
@click.option("--svg", type=OutputFile(), metavar="FILE", help="Write the figure alone too.")
@click.option("--to", nargs=2, metavar="oraclegeneral FILE", help="Write the accesses for libCacheSim too.")
@common
def command(
    file: Path,
    sizes: str,
    page_size: str | None,
    columns: str | None,
    window: str | None,
    model: str | None,
    settings: tuple[str, ...],
    by: str | None,
    html: Path | None,
    svg: Path | None,
    to: tuple[str, str] | None,
    as_json: bool,
) -> int:
    """Tell what LRU buffer pools of every size would miss, exactly and from one pass over page accesses.

    RUN is the folder of a run that was recorded with --probe page-trace, or of a sweep with such
    runs; misses count in the measured window of one. FILE is a CSV whose first line is time,page,op
    (seconds, any name, get or create), or what others record: libCacheSim's CSV, oracleGeneral
    (.oracleGeneral, .bin) and .lcs, block traces of MSR Cambridge, SYSTOR '17, Alibaba and Tencent
    (.csv), SPC (.spc), MQSim (.trace) and CloudPhysics (.vscsi), a page a line (.txt), each also
    with .zst, .gz, .xz or .bz2 behind it.

    --columns takes time, page, size and file, the disk or tablespace of the page. A unit behind the
    column says what it counts: page=3:bytes, :sectors or :pages; time=1:ms, :us or :ns.

    \b
      bufferlab curve runs/buffer-size-20260101-120000/runs/0123456789abcdef --by table
      bufferlab curve accesses.csv --page-size 16KiB --sizes 10%,64MiB
      bufferlab curve w92.oracleGeneral.bin.zst --page-size 4KiB
      bufferlab curve reads.csv --columns time=ts:ms,page=block
      bufferlab curve disks.csv --columns file=1,page=2:bytes,size=3,time=4 --page-size 8KiB
      bufferlab curve accesses.csv --model innodb57 --set lru_scan_depth=100
      bufferlab curve accesses.csv --html curve.html --to oraclegeneral accesses.oracleGeneral
    """
    with beginning("reading the accesses"):
        from bufferlab.report import curve_page
        from bufferlab.traces import files, page_trace
        from bufferlab.traces.curve import curve, misses_of_objects
        from bufferlab.traces.options import parse_columns, parse_page_size

    window_s = _window(window)
    given_bytes = parse_page_size(page_size)
    target = _target(to, file)
    named, asked = parse_columns(columns), _settings(settings, model)
    if model and file.is_dir():
        raise SpecError("a run is played to its own server's model", f"--model {model}", f"bufferlab predict {file}")
    trace = page_trace.read(file) if file.is_dir() else None
    accesses = trace.accesses() if trace else files.read(file, named, given_bytes)
    if by and not accesses.objects:
        raise SpecError("a file does not tell of tables", f"--by {by}", "give the folder of a run")
    if window_s:
        # The run's own misses are those of its measured window, so they cannot be compared with those of another
        # window.
        accesses = replace(accesses, measured=None)
    window_s = window_s or accesses.window_s
    page_size_bytes, note = accesses.page_size(given_bytes)
    pools, beyond = _pools(sizes, accesses.pages, page_size_bytes, note)
    how = curve_page.how_read(accesses, trace.choice if trace else None, note, beyond)
    with _told("counting misses") as tell:
        found = curve(accesses, window_s, tell)
    if not found.accesses:
        time_s = accesses.touches.time_s
        span = f"{time_s[0]:g} s to {time_s[-1]:g} s"
        raise SpecError("no get lies in the window", "--window", f"the file has {span}")
    if target:
        _require_short(accesses, target)
    objects = None
    if by:
        with _told("counting misses by table") as tell:
            objects = misses_of_objects(accesses, window_s, pools, tell)
    played = None
    if model:
        from bufferlab.models.foreign_trace import play

        with _told(f"playing to {model}") as tell:
            played = play(accesses, model, asked, pools, window_s, tell)
    report = curve_page.as_report(file.resolve().name, accesses, found, pools, page_size_bytes, objects, played, how)
    page = partial(write_page, html, report, str(file), "bufferlab curve")
    with answering(page, partial(write_figure, svg, report), partial(_write_accesses, accesses, target)):
        show(report, as_json)
    return 0


def _settings(settings: tuple[str, ...], model: str | None) -> dict[str, str]:
    if settings and not model:
        raise SpecError("a setting of no model", f"--set {settings[0]}", "add --model innodb57")
    asked = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise SpecError(f'"{text}" sets nothing', "--set", "write --set lru_scan_depth=100")
        asked[name.strip()] = value.strip()
    return asked


def _window(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        first, last = (parse_duration(part) for part in text.split(",", 1))
    except (UnitError, ValueError) as error:
        raise SpecError(f'"{text}" is not two times', "--window", "write --window 10s,60s") from error
    if first > last:
        raise SpecError(f'"{text}" ends before it begins', "--window", "write --window 10s,60s")
    return first, last


def _pools(text: str, pages: int, page_size_bytes: int | None, note: str | None) -> tuple[list[int], str | None]:
    """Return the requested pool sizes, in pages, ascending, and a sentence on sizes larger than all `pages` (or None).

    A larger pool is replaced by one of all pages. Raises SpecError for a text that is not a size, for a size in bytes
    if the page size is unknown, and for a size below one page.
    """
    sizes = {part.strip(): _pool(part.strip(), pages, page_size_bytes, note) for part in text.split(",")}
    if small := [part for part, size in sizes.items() if size < 1]:
        raise SpecError(f'"{small[0]}" holds no page', "--sizes", _HINT)
    beyond = ", ".join(part for part, size in sizes.items() if size > pages)
    told = f"Larger than the {pages:,} pages touched, so as good as a pool of 100 %: {beyond}." if beyond else None
    return sorted({min(size, pages) for size in sizes.values()}), told


def _pool(part: str, pages: int, page_size_bytes: int | None, note: str | None) -> int:
    if match := _PAGES.fullmatch(part):
        return int(match[1])
    size = parsed(parse_size, part, "--sizes", _HINT)
    if size.ratio is not None:
        # A small share is at least one page. "101%" must be more than all pages, even if there are few.
        rounded = math.floor if size.ratio <= 1 else math.ceil
        return max(1, rounded(size.ratio * pages)) if size.ratio > 0 else 0
    if page_size_bytes is None and note:
        raise SpecError(f'"{part}" is in bytes. {note}', "--sizes", 'write sizes such as "10%" or "5000pages"')
    if page_size_bytes is None:
        raise SpecError(
            f'"{part}" is in bytes, and the file does not tell the size of a page', "--sizes", "add --page-size 16KiB"
        )
    return (size.size_bytes or 0) // page_size_bytes


@contextmanager
def _told(what: str) -> Iterator[Callable[[float], None]]:
    """Context manager for a function that gets the completed fraction of the work, and shows it after _SILENT_S
    seconds."""
    from bufferlab.execute.progress import SweepStatus

    start_s = time.monotonic()
    with progress() as shown:

        def tell(done: float) -> None:
            took_s = time.monotonic() - start_s
            if took_s > _SILENT_S and 0 < done < 1:
                shown.show(SweepStatus(what, 0, 0, "", done, took_s / done * (1 - done)))

        yield tell


def _target(to: tuple[str, str] | None, source: Path) -> Path | None:
    """Return the file that --to names; None without --to.

    Raises SpecError for an unknown format, or if the file is the one that is read; EnvironmentLackingError if it cannot
    be written.
    """
    if to is None:
        return None
    if to[0].lower() != "oraclegeneral":
        raise SpecError(f'unknown format "{to[0]}"', "--to", "write --to oraclegeneral FILE")
    target = Path(to[1])
    if target.exists() and source.exists() and target.samefile(source):
        raise SpecError("this would replace the file that is read", f"--to oraclegeneral {target}", "choose another")
    try_place(target, "--to")
    return target


def _require_short(accesses: Accesses, target: Path) -> None:
    time_s = accesses.touches.time_s
    if time_s[-1] - time_s[0] >= 1 << 32:
        what = "the accesses last longer than the 2^32 seconds that the format has room for"
        raise SpecError(what, f"--to oraclegeneral {target}", "give times in seconds")


def _write_accesses(accesses: Accesses, target: Path | None) -> None:
    from bufferlab.traces.files import write_oracle_general

    if target:
        write(target, "--to", partial(write_oracle_general, accesses))
