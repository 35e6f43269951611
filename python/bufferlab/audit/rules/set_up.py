"""Rules about the set-up: whether pool, page size, instances and load were as a text states them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median_low

from bufferlab.audit.evidence import PAGE_SIZES, AuditFinding, Case, Judges, RunEvidence
from bufferlab.audit.parsers.captions import Place
from bufferlab.audit.parsers.innodb_status import StatusDump
from bufferlab.audit.parsers.read import FileEvidence
from bufferlab.audit.parsers.stated import PoolStated, Stated, parse_lenient_bytes
from bufferlab.audit.parsers.tables import ResultTable
from bufferlab.chapter.words import plural
from bufferlab.units import GIB, MIB, format_bytes, format_percent

#: A pool within 3 % of the requested size may have been rounded.
_TOLERANCE = 0.03
#: The same tolerance for MariaDB, which puts the descriptors of pages into the pool: with small pages they take 6 % of
#: it.
_DESCRIPTORS = 0.07


def pool_asked(case: Case) -> Iterator[AuditFinding]:
    """Find pools whose size, computed from the pages in the status text, differs from the requested one.

    InnoDB rounds up to a multiple of chunk size (128 MiB unless set) x instances: `buf_pool_size_align` in MySQL 5.7.5
    and later.

    Yield one finding for each requested size, with every run whose pool has another size.
    """
    for runs in case.runs_by_file.values():
        stated = _stated(runs[0])
        differing: dict[int, list[RunEvidence]] = {}
        for run in runs:
            asked = pool_said(run)
            if asked and _is_another(run, asked):
                differing.setdefault(asked, []).append(run)
        for asked, found in differing.items():
            yield _pool_asked_finding(asked, stated, found)


def _is_another(run: RunEvidence, asked: int) -> bool:
    """Return whether a run's pool differs from the requested bytes.

    If the page size is unknown, the pool must differ at every possible page size.
    """
    dump = run.pool_dump
    if dump is None:
        return False
    pages, tolerance = dump.fields["pool_pages"], _TOLERANCE if dump.family != "mariadb" else _DESCRIPTORS
    is_known = run.page_bytes_said or run.page_bytes_shown or dump.family != "mariadb"
    sizes = (run.page_bytes,) if is_known else PAGE_SIZES
    return all(abs(pages * size / asked - 1) > tolerance for size in sizes)


def pool_said(run: RunEvidence) -> int | None:
    """Return the stated size of the pool, by the caption or else by the set-up; None if neither states one."""
    name, _, value = run.label.partition(" = ")
    if name.endswith(("pool size", "buffer size", "buffer pool")):
        return parse_lenient_bytes(value)
    stated = _stated(run)
    return stated.sizes_bytes[0] if stated else None


def _stated(run: RunEvidence) -> PoolStated | None:
    return next((pool for pool in run.stated.pools if not pool.listed), None)


def _pool_asked_finding(asked: int, stated: PoolStated | None, runs: list[RunEvidence]) -> AuditFinding:
    shown = {}
    for run in runs:
        if pages := run.pool_dump:
            shown[run.name] = (int(pages.fields["pool_pages"]), run.page_bytes, run.pool_bytes or 0, pages.place)
    run_bytes = next(iter(shown.values()))[2]
    products = ", ".join(f"{pages} x {page // 1024} KiB ({name})" for name, (pages, page, _, _) in shown.items())
    corrected = f"{format_bytes(run_bytes)}"
    share = stated.shares[0] if stated and stated.sizes_bytes[0] == asked else None
    if share:
        corrected += f" = {format_percent(share * run_bytes / asked)} of the database, not {format_percent(share)}"
    return AuditFinding(
        stated.place if stated else next(iter(shown.values()))[3],
        f"the pool asked for is {format_bytes(asked)}, the status text shows {products} = {format_bytes(run_bytes)}",
        f"the pool was {format_percent(abs(run_bytes / asked - 1))}"
        f" {'larger' if run_bytes > asked else 'smaller'} than said;"
        " every share of the database is wrong by as much",
        corrected,
        {
            "asked_mib": asked / MIB,
            "run_mib": run_bytes / MIB,
            "pages": {name: pages for name, (pages, _, _, _) in shown.items()},
            "share_asked": share,
            "share_run": share * run_bytes / asked if share else None,
        },
    )


def page_size_ran(case: Case) -> Iterator[AuditFinding]:
    """Compare the stated page size with memory per page, bytes per read and the size of iostat's reads.

    Yield a finding for each run whose outputs agree on another page size than the stated one.
    """
    for run in case.runs:
        if (said := run.page_bytes_said) and (ran := run.page_bytes_ran):
            yield _page_size_ran_finding(run, said, ran)


def _page_size_ran_finding(run: RunEvidence, said: int, ran: int) -> AuditFinding:
    shown = run.page_bytes_shown
    pages = next((int(dump.fields["pool_pages"]) for dump in run.dumps if "pool_pages" in dump.fields), None)
    places = [*(dump.place for dump in run.dumps), *(report.place for report in run.reports)]
    place = (run.stated.page_size_place if not run.label else None) or places[0]
    pool = f": a pool of {pages:,} pages is {format_bytes(pages * ran)}" if pages else ""
    return AuditFinding(
        place,
        f"pages of {said // 1024} KiB said, and {' and '.join(shown)} of {run.name} show {ran // 1024} KiB",
        f"sizes made from pages are {_times(said, ran)}; the setting that is named did not run",
        f"innodb_page_size = {ran}{pool}",
        {"page_bytes_said": said, "page_bytes_run": ran, "shown_by": list(shown), "pool_pages": pages},
    )


def _times(said: int, ran: int) -> str:
    return f"{said / ran:g} times too large" if said > ran else f"{ran / said:g} times too small"


def instances_ran(case: Case) -> Iterator[AuditFinding]:
    """Compare the stated number of buffer pool instances with the number of their sections in the status text.

    MySQL has one instance in a pool below 1 GiB, even if more are requested, and by default eight in larger pools.
    MariaDB has one from 10.5 on.

    Yield a finding for each run whose status text has another number of instances than is stated.
    """
    for run in case.runs:
        said = _said(run)
        shown = [(count, dump) for dump in run.dumps if (count := _shown(dump, said)) is not None]
        if said and shown and all(count != said for count, _ in shown):
            yield _instances_ran_finding(run, said, *shown[0])


def has_instances(run: RunEvidence) -> bool:
    """Return whether a text states the number of instances, and a printout shows the actual number."""
    said = _said(run)
    return bool(said) and any(_shown(dump, said) is not None for dump in run.dumps)


def _said(run: RunEvidence) -> int | None:
    name, _, value = run.label.partition(" = ")
    if name.endswith("instances") and value.isdigit():
        return int(value)
    return run.stated.instances


def _shown(dump: StatusDump, said: int | None) -> int | None:
    """Return the number of instances in a printout; None if it is cut off and does not contradict `said`."""
    sections = len(dump.instances)
    if dump.whole and "pool_pages" in dump.fields:
        return max(sections, 1)
    return sections if said is not None and sections > said else None


def _instances_ran_finding(run: RunEvidence, said: int, ran: int, dump: StatusDump) -> AuditFinding:
    pages = int(dump.fields.get("pool_pages", 0))
    each = f", {pages // ran:,} of {pages:,} pages each" if pages else ""
    return AuditFinding(
        run.stated.instances_place or dump.place,
        f"{plural(said, 'buffer pool instance')} said, the status text of {run.name} shows {ran}{each}",
        f"scan depth and page cleaning work on each instance: the server cleaned {ran / said:.3g} times the pages said",
        f"innodb_buffer_pool_instances = {ran}",
        {"instances_said": said, "instances_run": ran, "pages": pages},
    )


_Said = tuple[str, dict[int, Place], int, str]
"""(parameter's name, stated number -> place of the statement, actual number, place in the output that shows it)."""


#: A load generator waits for its last transactions. So the printed time may differ from the requested time by 5 % plus
#: 2 s.
_CLOCKS, _SLOW_END_S = 0.05, 2.0


def set_up_said(case: Case) -> Iterator[AuditFinding]:
    """Yield a finding for each run whose load program printed other parameters than the text states.

    The parameters are warehouses, connections and seconds. A text may state the settings of several runs. It
    contradicts a run if none of the stated numbers is the run's.
    """
    for run in case.runs:
        wrong = [one for one in parameters(run) if one[1] and one[2] not in one[1]]
        if wrong:
            yield _set_up_said_finding(run, wrong)


def parameters(run: RunEvidence) -> Iterator[_Said]:
    """Yield each parameter that the programs of a run printed, with the numbers that texts state for it."""
    name, value = run.setting
    swept = {int(value): Place(run.file, 0)} if value.isdigit() else {}
    stated = run.stated
    connections = swept if name.endswith(("connections", "clients", "threads")) and swept else stated.connections
    warehouses = swept if name.endswith("warehouses") and swept else stated.warehouses
    for log in run.logs:
        given, shown = log.parameters, f"{log.place}"
        if "warehouse" in given:
            yield "warehouses", warehouses, given["warehouse"], shown
        if "connection" in given:
            yield "connections", connections, given["connection"], shown
        if (seconds := given.get("measure")) is not None:
            # People may state the time of the measurement, or the whole time with the ramp-up.
            whole = seconds + given.get("rampup", 0)
            yield "seconds", stated.runtimes_s, whole if whole in stated.runtimes_s else seconds, shown
    for load in run.loads:
        if load.clients and load.tool != "fio":
            yield "connections", connections, load.clients, f"{load.place}"
    yield from _seconds_of_loads(run)


def _seconds_of_loads(run: RunEvidence) -> Iterator[_Said]:
    """Yield the seconds of a load generator that ran for a stated time, else of the longest run; other runs may be
    warm-ups."""
    said = run.stated.runtimes_s
    ran = sorted(((load.seconds, load) for load in run.loads if load.seconds and not load.cut), key=lambda one: -one[0])
    alike = [(one, load) for seconds, load in ran for one in said if abs(seconds - one) <= _CLOCKS * one + _SLOW_END_S]
    for seconds, load in [*alike, *ran][:1]:
        yield "seconds", said, round(seconds), f"{load.place}"


def _set_up_said_finding(run: RunEvidence, wrong: list[_Said]) -> AuditFinding:
    said = "; ".join(
        f"{', '.join(map(str, sorted(numbers)))} {what} said, {ran} in the output of {run.name} ({shown})"
        for what, numbers, ran, shown in wrong
    )
    place = next(iter(wrong[0][1].values()))
    return AuditFinding(
        place if place.line else (run.logs or run.loads)[0].place,
        said,
        "the set-up that is described is not the one that ran, or the output is of another run",
        "; ".join(f"{ran} {what}" for what, _, ran, _ in wrong),
        {
            "what": [one[0] for one in wrong],
            "said": [sorted(one[1]) for one in wrong],
            "ran": [one[2] for one in wrong],
        },
    )


CHUNK_BYTES = 128 * MIB
_INSTANCES_FROM_1_GIB = 8


@dataclass(frozen=True)
class Ran:
    """A pool's size as requested, and as the server rounds it up."""

    asked_bytes: int
    run_bytes: int
    instances: int
    share: float | None
    """The rounded size as a share of the database; None if the text states no share."""


def rounded_sizes(case: Case) -> Iterator[AuditFinding]:
    """Find pool sizes in a table that a server with chunks rounds up, so that rows ran with other pools than named.

    Source: `buf_pool_size_align` and `innodb_buffer_pool_instances` in MySQL 5.7 to 8.0 (MariaDB 10.2 to 10.7). Sizes
    are multiples of chunk size (128 MiB) x instances. A pool below 1 GiB has one instance, a larger pool by default
    eight. Each instance has its own page cleaner and scan depth.

    Yield one finding for each list of sizes of which the server rounds at least one.
    """
    for evidence in case.files:
        for place, ran in size_lists(evidence):
            if any(one.run_bytes != one.asked_bytes for one in ran):
                yield _rounded_sizes_finding(place, ran)


def size_lists(evidence: FileEvidence) -> Iterator[tuple[Place, list[Ran]]]:
    """Yield the pool sizes that name a table's rows, else the set-up's list, each with its place.

    It yields nothing if a status text shows the real sizes.
    """
    if any("pool_pages" in dump.fields for dump in evidence.dumps):
        return
    stated = next(iter(evidence.stated.pools), None)
    for table in evidence.results:
        if named_by_pools(evidence, table):
            sizes = [parse_lenient_bytes(row.setting) for row in table.rows]
            whole = tuple(size for size in sizes if size and size >= 5 * MIB)
            if whole:
                yield table.place, sizes_run(whole, stated, evidence.stated)
                return
    if stated is not None and _rounds(evidence, stated.place.line):
        yield stated.place, sizes_run(stated.sizes_bytes, stated, evidence.stated)


def named_by_pools(evidence: FileEvidence, table: ResultTable) -> bool:
    """Return whether a table's rows are named by pool sizes that its server rounds up to chunks."""
    name = table.setting_name.lower()
    is_pool = "pool" in name or ("buffer" in name and "shared" not in name)
    return is_pool and _rounds(evidence, table.place.line)


def _rounds(evidence: FileEvidence, line: int) -> bool:
    """Return whether the server that a line is about rounds pools up to chunks; True if no server is named."""
    stated = evidence.stated
    if (stated.shared_buffers_bytes and not stated.pools) or stated.is_postgres(line):
        return False
    if not stated.servers and any(load.tool == "pgbench" for load in evidence.loads):
        return False
    if stated.version is None:
        return True
    name, version = stated.version
    if name == "mysql":  # From 8.4 on the default number of instances depends on size and processors.
        return version >= (5, 7) and (version < (8, 4) or stated.instances is not None)
    return (10, 2) <= version < (10, 8)


def sizes_run(asked: tuple[int, ...], stated: PoolStated | None, setup: Stated) -> list[Ran]:
    """Return each pool size as the server would run it."""
    whole = _whole_bytes(stated, asked)
    found = []
    for size in asked:
        several = size >= GIB and not _has_one_instance(setup)
        instances = (setup.instances or _INSTANCES_FROM_1_GIB) if several else 1
        # A pool smaller than a chunk is a single chunk of that size.
        unit = min(setup.chunk_bytes or CHUNK_BYTES, max(size // instances, MIB)) * instances
        run = -(-size // unit) * unit
        found.append(Ran(size, run, instances, run / whole if whole else None))
    return found


def _whole_bytes(stated: PoolStated | None, asked: tuple[int, ...]) -> float | None:
    """Return the database's size, from the shares of it that the text states for pool sizes; None if there are none.

    Sizes and shares are round numbers, so each pair implies another database size (200 MB at 10 %, 1 GB at 50 %). All
    rows have the same database, so return the median.
    """
    shares = dict(zip(stated.sizes_bytes, stated.shares, strict=True)) if stated else {}
    wholes = [size / share for size in asked if (share := shares.get(size))]
    return median_low(wholes) if wholes else None


def _has_one_instance(setup: Stated) -> bool:
    """Return whether the server ignores the number of instances and has one: MariaDB from 10.5 on (MDEV-15058)."""
    return setup.version is not None and setup.version[0] == "mariadb" and setup.version[1] >= (10, 5)


def _rounded_sizes_finding(place: Place, ran: list[Ran]) -> AuditFinding:
    changed = [one for one in ran if one.run_bytes != one.asked_bytes]
    said = ", ".join(format_bytes(one.asked_bytes) for one in changed)
    right = ", ".join(
        format_bytes(one.run_bytes) + (f" ({format_percent(one.share)})" if one.share else "") for one in ran
    )
    consequence = "rows are named by pools that did not run; shares of the database are wrong"
    counts = sorted({one.instances for one in ran})
    if len(counts) > 1:
        consequence += (
            f"; the pools of 1 GiB and more had {counts[-1]} instances, each with its own page cleaning and scan depth,"
            " the smaller ones 1: comparing them mixes two settings"
        )
    return AuditFinding(
        place,
        f"a server with chunks of 128 MiB (MySQL 5.7 and 8.0, MariaDB 10.2 to 10.7) rounds up {said}",
        consequence,
        f"{right}; the server's innodb_buffer_pool_size says what ran",
        {
            "asked_mib": [one.asked_bytes / MIB for one in ran],
            "run_mib": [one.run_bytes / MIB for one in ran],
            "instances": [one.instances for one in ran],
            "share_run": [one.share for one in ran],
        },
    )


JUDGES: Judges = {
    "pool-asked": lambda case: any(run.pool_dump and pool_said(run) for run in case.runs),
    "page-size-ran": lambda case: any(run.page_bytes_said and run.page_bytes_shown for run in case.runs),
    "instances-ran": lambda case: any(map(has_instances, case.runs)),
    "set-up-said": lambda case: any(said for run in case.runs for _, said, *_ in parameters(run)),
    "rounded-sizes": lambda case: any(True for one in case.files for _ in size_lists(one)),
}
