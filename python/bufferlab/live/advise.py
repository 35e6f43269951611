"""Observes a running server and advises on its pool size: first without recorders, then with each recording tier.

A tier is a set of page accesses that the kernel records: `misses` or `full`. `prepare` attaches no recorder, and raises
an error if attaching is impossible. Then the command asks the user, and calls `advise`. All counts come from one
session of `observe`.

The sizes to judge are those of the option --sizes, or the tier's default sizes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from bufferlab.engines.servers.look import MISFITS, Facts, Lost, NotTold, Refused
from bufferlab.errors import EnvironmentLackingError, SpecError
from bufferlab.execute.progress import Progress
from bufferlab.live import constants, doubts, frames, live_trace, pool_contents, tiers
from bufferlab.live.attach import Attached, Attachments, MemoryLeft, left
from bufferlab.live.bounds import Counted, PoolFacts, SizeEstimate
from bufferlab.live.host_side import find
from bufferlab.live.live_trace import Ended, LivePlan, LiveTrace, Recorded, Tier, with_one_numbering
from bufferlab.live.look_result import Seen
from bufferlab.live.observation import Observation, Stop, unseen
from bufferlab.live.session import Session
from bufferlab.live.tiers import Foretold, Pace, Processors, Stage, TierCost
from bufferlab.live.window import LookWindow, SampledRow
from bufferlab.traces.page_trace import number_of
from bufferlab.units import MIB, TIB, UnitError, parse_size

if TYPE_CHECKING:
    from bufferlab.models.managers.declaration import BufferManager, Server


FIRST_LOOK_S = 5
ENOUGH_TURNOVERS = 10.0
"""The tier `misses` ends after this many evictions for each frame that the largest size adds to the pool."""
_SLACK_S = 60.0
"""The seconds that an observation may take beyond its stages, to read records and to query the pool's pages."""
_LISTS = 1 + len(constants.LIST_AT_SHARES)
_CHECKPOINTS = ("checkpoints_timed", "checkpoints_requested")
_LEAST_CHECKPOINTS = 2
"""The fewest checkpoints in an observation of PostgreSQL that includes a whole cycle from one checkpoint to the
next."""
_COUNTS_CREATIONS = 15
"""The last version of PostgreSQL that counts pages added to a relation as read (engines/postgres/look.py)."""

_ENDED_EARLY: Mapping[Ended, NotTold] = {
    "lost": NotTold("the kernel lost records, so that accesses are missing", "ask when the host is less busy"),
    "limit": NotTold(
        "the record was full before a second was seen", "free some space or memory, or use another disk (TMPDIR)"
    ),
    "rate": NotTold("it came to more events than --max-cpu allows before a second was seen", "a larger --max-cpu"),
}
"""For each way in which an attachment may end early, the reason why an answer is missing; the most serious one
first."""

Answer = Callable[
    [Sequence[Recorded], PoolFacts, Counted, Sequence[int], Sequence[int] | None], tuple[SizeEstimate, ...]
]


_LARGEST_BYTES = 1024 * TIB
"""The largest pool size that a user may request; the smallest is 1 MiB."""
_SHARES: Mapping[Tier, tuple[float, ...]] = {"misses": (1.25, 1.5, 2.0, 4.0), "full": (0.5, 0.75, 1.5, 2.0, 4.0)}
"""The pool sizes that each tier judges by default, as multiples of the pool's present size."""

SizeAsked = Callable[[int], int]
"""A function that returns a pool size in bytes, given the present pool's size."""


def parse_sizes(text: str | None) -> tuple[SizeAsked, ...]:
    """Return the sizes that the option --sizes lists; () without the option.

    Raises SpecError for a text that is not a size or percentage, and for a size that no pool can have.
    """
    return tuple(_size(part.strip()) for part in text.split(",")) if text else ()


def _size(part: str) -> SizeAsked:
    try:
        size = parse_size(part)
    except UnitError as error:
        raise SpecError(error.what, "--sizes", error.hint) from error
    ratio, size_bytes = size.ratio, size.size_bytes or 0
    if not (0 < ratio <= _LARGEST_BYTES / MIB if ratio is not None else MIB <= size_bytes <= _LARGEST_BYTES):
        hint = 'write sizes such as "256MiB,1GiB" or "50%,200%" of the present one'
        raise SpecError(f'"{part}" is no size of a pool', "--sizes", hint)
    return (lambda _: size_bytes) if ratio is None else partial(_share, float(ratio))


def sizes_of(asked: Sequence[SizeAsked], tier: Tier, present_bytes: int) -> tuple[int, ...]:
    """Return the sizes to judge in rising order, without the present one, unless it is the only one."""
    wanted = asked or tuple(partial(_share, ratio) for ratio in _SHARES[tier])
    return tuple(sorted({one(present_bytes) for one in wanted} - {present_bytes})) or (present_bytes,)


def _share(ratio: float, present_bytes: int) -> int:
    return int(ratio * present_bytes)


def require_told(tier: Tier, sizes: Sequence[int], present_bytes: int) -> None:
    """Raise SpecError if the options allow no answer: only the present size, or a smaller one with tier `misses`."""
    if sizes == (present_bytes,):
        raise SpecError("no other size than the present one is asked about", "--sizes", "name another, as in 50%,200%")
    if tier == "misses" and sizes[-1] < present_bytes:
        what = "what a pool reads and evicts tells nothing of smaller pools"
        raise SpecError(what, "--sizes", "add --tier full, which records all accesses, or name a larger size")


@dataclass(frozen=True)
class Asked:
    """The user's options."""

    within_s: float
    tier: Tier
    sizes: tuple[SizeAsked, ...]
    """The pool sizes that the user asks about; empty for the default sizes."""
    max_cores: float
    look_inside: bool = False


@dataclass(frozen=True)
class Ready:
    """The facts about the server and the plans of the tiers, before any recorder is attached."""

    session: Session
    facts: Facts
    pid: int
    asked: Asked
    planned: tuple[Stage, ...]
    plans: Mapping[Tier, LivePlan]
    foretold: tuple[Foretold, ...]
    manager: BufferManager | None
    settings: Mapping[str, int | str]
    idle: NotTold | None
    """The reason why no recorder will be attached; None if one will be."""
    pace: Pace
    inside: str
    """Words on when bufferlab queries which pages the pool holds, and on the cost of that; "" if it does not."""


@dataclass(frozen=True)
class Advice:
    """The result of `advise`."""

    PRINTED: ClassVar = (
        "seen.server", "seen.facts.engine", "seen.facts.version", "seen.window.seconds", "present", "counted",
        "present.read_us", "needs_restart", "reads_are", "memory_left", "sizes", "cannot_say", "not_looked_at",
        "attached", "cost", "seen.window.events",
    )  # fmt: skip

    seen: Seen
    present: PoolFacts
    counted: Counted
    sizes: tuple[SizeEstimate, ...]
    """The estimates by rising pool size, including the present size."""
    cannot_say: tuple[NotTold, ...]
    """Why no size except the present one was judged; empty if other sizes were judged."""
    attached: tuple[Attached, ...]
    cost: tuple[TierCost, ...]
    memory_left: MemoryLeft | None
    """The memory that the host or the server's cgroup has free besides the present pool; None if unknown."""

    @property
    def present_bytes(self) -> int:
        """Return the present size of the pool in bytes."""
        return self.seen.facts.pool_size_bytes

    @property
    def needs_restart(self) -> bool:
        """Whether changing the pool's size needs a restart of the server, as it does on PostgreSQL."""
        return self.seen.facts.flavour == "postgres"

    @property
    def reads_are(self) -> Literal["asked of the system", "device reads"]:
        """Whether pool reads are device reads (InnoDB with direct I/O), or requests to the system that its page cache
        may serve."""
        is_direct = "DIRECT" in self.seen.facts.settings.get("innodb_flush_method", "").upper()
        return "device reads" if is_direct else "asked of the system"

    @property
    def not_looked_at(self) -> tuple[NotTold, ...]:
        """The kinds of other work of the server that could not be queried, so that they are not among the doubts."""
        return self.seen.inside.confounds_not_told

    @property
    def largest_bytes(self) -> int | None:
        """Return the largest pool, in bytes, for which the host or the cgroup has memory; None if unknown."""
        return self.present_bytes + self.memory_left.size_bytes if self.memory_left else None

    @property
    def others(self) -> tuple[SizeEstimate, ...]:
        """Return the estimates of the sizes other than the present one."""
        return tuple(one for one in self.sizes if one.pool_size_bytes != self.present_bytes)

    @property
    def now(self) -> SizeEstimate:
        """Return the estimate for the present pool, as the server counted its reads."""
        return next(one for one in self.sizes if one.pool_size_bytes == self.present_bytes)


def prepare(
    session: Session,
    asked: Asked,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    server_pid: Callable[[Session, Facts], int | NotTold] = lambda session, facts: find(facts, session.peer),
) -> Ready:
    """Observe the server for a few seconds without recorders, and return the plan of the tiers.

    Raises SpecError if the options allow no answer, if a tier would cost too much, or if the tier `full` has no model
    or no probe sites for the server. Raises EnvironmentLackingError if the server cannot be observed, found on this
    host, or recorded. Tests replace `clock`, `sleep` and `server_pid`.
    """
    try:
        facts = session.facts()
        pid = server_pid(session, facts)
        if isinstance(pid, NotTold):
            hint = pid.remedy or "run it as root on the server's own host"
            raise EnvironmentLackingError(f"nothing can be attached: {pid.why}", session.address.server, hint)
        manager = _model_of(facts)
        settings = _settings_of(facts, manager)
        sizes = sizes_of(asked.sizes, asked.tier, facts.pool_size_bytes)
        require_told(asked.tier, sizes, facts.pool_size_bytes)
        rows = _first_look(session, facts, clock, sleep)
    except (Refused, Lost) as error:
        raise unseen(session, error) from error
    idle = doubts.idle(rows)
    full_s = tiers.full_s(rows, facts.pool_size_bytes / facts.page_size_bytes, asked.max_cores, facts.flavour)
    planned = (
        (Stage(None, tiers.BESIDE_S),)
        if idle
        else tiers.stages(asked.tier, asked.within_s, full_s, larger=sizes[-1] > facts.pool_size_bytes)
    )
    foretold = () if idle else tiers.foretell(planned, rows, facts.flavour)
    tiers.refuse_above(asked.max_cores, foretold)
    if asked.tier == "full" and not idle:
        _require_model(facts, manager, settings)
    plans = {one.tier: live_trace.plan(pid, facts, one.tier) for one in foretold}
    inside = _inside(facts, asked, is_full="full" in plans) if plans else ""
    wanted = ENOUGH_TURNOVERS * (sizes[-1] - facts.pool_size_bytes) / facts.page_size_bytes
    pace = tiers.pace(foretold, wanted, _evictions_per_s(rows))
    return Ready(session, facts, pid, asked, planned, plans, foretold, manager, settings, idle, pace, inside)


def _evictions_per_s(rows: Sequence[SampledRow]) -> float:
    """Return the evictions per second of a full pool. They equal the pages read or created."""
    pages = sum(row.counts.get("pages_read", 0.0) + row.counts.get("pages_created", 0.0) for row in rows)
    return pages / (sum(row.seconds for row in rows) or 1.0)


def _require_model(facts: Facts, manager: BufferManager | None, settings: Mapping[str, int | str]) -> None:
    """Raise SpecError if the server has no model, or has settings for which the model is not valid."""
    from bufferlab.models.predict import presumed_otherwise  # Import late: only the tier `full` replays.

    if manager is None:
        what = f"there is no model of {facts.engine} {facts.version}"
        raise SpecError(what, "--tier full", "--tier misses needs none")
    for one in presumed_otherwise(manager.presumes, settings.get):
        what = one.sentence.replace("the run had", "the server has")
        raise SpecError(
            what,
            "--tier full",
            "set it so on the server, if it may be, and look again; larger sizes need no model: --tier misses",
        )


def _model_of(facts: Facts) -> BufferManager | None:
    """Return the model of a server's buffer manager; None if there is none."""
    from bufferlab.models.predict import of_server  # Import late: `observe` needs no models.

    return of_server(_server_of(facts))


def _server_of(facts: Facts) -> Server:
    from bufferlab.models.managers.declaration import Server  # Import late too.

    return Server(facts.flavour, ".".join(map(str, facts.numbers)))


def _settings_of(facts: Facts, manager: BufferManager | None) -> dict[str, int | str]:
    """Return the server settings that a model uses or assumes, by the model's names, if the server has them."""
    names = (*manager.defaults, *manager.presumes, *manager.asks) if manager else ()
    prefix = "" if facts.flavour == "postgres" else "innodb_"
    told = {name: facts.settings.get(f"{prefix}{name}") for name in names}
    return {name: int(text) if text.isdecimal() else text for name, text in told.items() if text is not None}


def _pool_facts(
    facts: Facts, manager: BufferManager | None, settings: Mapping[str, int | str], rows: Sequence[SampledRow]
) -> PoolFacts:
    """Return the facts about the pool, from the rows of the window and the server's settings."""
    frames = _mean(rows, "pool_pages") or facts.pool_size_bytes / facts.page_size_bytes
    timed = [row for row in rows if "read_ms" in row.counts and row.counts.get("pages_read")]
    reads = sum(row.counts["pages_read"] for row in timed)
    return PoolFacts(
        engine=facts.flavour,
        model=manager.name if manager else "",
        settings=_numbers(manager, settings) if manager else {},
        page_size_bytes=facts.page_size_bytes,
        pool_pages=round(frames),
        data_pages=_mean(rows, "data_pages"),
        read_us=1000 * sum(row.counts["read_ms"] for row in timed) / reads if reads > 0 else None,
        version=".".join(map(str, facts.numbers)),
        pool_size_bytes=facts.pool_size_bytes,
        by_server=partial(manager.frames, _server_of(facts), facts.page_size_bytes) if manager else None,
    )


def _numbers(manager: BufferManager, settings: Mapping[str, int | str]) -> dict[str, int]:
    return {name: int(settings[name]) for name in (*manager.defaults, *manager.asks) if name in settings}


def _mean(rows: Sequence[SampledRow], level: str) -> float | None:
    told = [row.levels[level] for row in rows if level in row.levels]
    return sum(told) / len(told) if told else None


def advise(
    ready: Ready,
    answer: Answer,
    stop: Stop,
    shown: Progress,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Advice:
    """Attach the tiers one after another, and return the advice.

    If nothing was recorded, raise the error of attaching.
    """
    facts = ready.facts
    sizes = sizes_of(ready.asked.sizes, ready.asked.tier, facts.pool_size_bytes)
    held: list[pool_contents.Page] = []

    def before_full() -> None:
        # If the server refuses the query, or its answer cannot be read, estimate without knowing the pool's pages.
        with suppress(Refused, Lost, *MISFITS):
            found = pool_contents.pages(ready.session.query, facts, look_inside=ready.asked.look_inside)
            held.extend([] if isinstance(found, NotTold) else found)

    def list_buffers(trace: LiveTrace) -> None:
        with suppress(Refused, Lost, *MISFITS):
            found = frames.listed_buffers(ready.session.query, ready.pid)
            if not isinstance(found, NotTold):
                trace.name_frames(found)

    attachments = Attachments(
        ready.planned, ready.plans,
        max_cores=ready.asked.max_cores,
        pace=ready.pace,
        processors=Processors(ready.pid), stop=stop, shown=shown, clock=clock, before_full=before_full,
        list_buffers=list_buffers if _lists_buffers(facts, ready.asked) else None,
    )  # fmt: skip
    try:
        observation = Observation(ready.session, attachments, clock, sleep)
        seconds = sum(stage.seconds for stage in ready.planned) + _SLACK_S
        seen = observation.run(seconds, attachments)
    finally:
        attachments.close()
    if attachments.failed and not attachments.attached:
        raise attachments.failed
    return _advice(ready, seen, attachments, sizes, answer, held)


def _lists_buffers(facts: Facts, asked: Asked) -> bool:
    """Return whether to query which page each buffer holds, while the recorder follows the server's system calls.

    Only PostgreSQL is queried, and only if that is cheap enough.
    """
    return facts.flavour == "postgres" and bool(pool_contents.cost(facts, look_inside=asked.look_inside))


def _inside(facts: Facts, asked: Asked, *, is_full: bool) -> str:
    """Return words on when bufferlab queries which pages the pool holds, and on the cost of that; "" if it does not."""
    at_end = pool_contents.cost(facts, look_inside=False)
    before = pool_contents.cost(facts, look_inside=asked.look_inside) if is_full else ""
    meanwhile = pool_contents.cost(facts, look_inside=asked.look_inside) if _lists_buffers(facts, asked) else ""
    times = (("before full", before), (f"{_LISTS} times in misses", meanwhile), ("at the end", at_end))
    when = " and ".join(words for words, is_asked in times if is_asked)
    if not when:
        return ""
    how = before or meanwhile or at_end
    return f"{when[0].upper()}{when[1:]} we ask the server which pages its pool holds: {how}."


def _first_look(
    session: Session, facts: Facts, clock: Callable[[], float], sleep: Callable[[float], None]
) -> list[SampledRow]:
    """Return the rows of FIRST_LOOK_S seconds without recorders. Raises Refused and Lost."""
    window = LookWindow(lambda grown: session.look.derive(grown, facts), clock())
    window.connected(window.begun_s, facts.identity)
    for place in range(FIRST_LOOK_S + 1):
        if place:
            sleep(1.0)
        window.add(session.sample(facts, clock()))
    return window.rows


def _advice(
    ready: Ready,
    seen: Seen,
    attachments: Attachments,
    sizes: Sequence[int],
    answer: Answer,
    held: Sequence[pool_contents.Page],
) -> Advice:
    attached = tuple(attachments.attached)
    rows = [row for one in attached for row in _without_creations(one, seen.facts)] or seen.window.rows
    pool = _pool_facts(seen.facts, ready.manager, ready.settings, rows)
    counted = replace(count(rows), recorded_reads=_recorded_reads(attached, seen.window.begun_s))
    found = doubts.doubts(seen, is_away=attachments.is_away)
    if ready.idle and ready.idle not in found:
        found = (ready.idle, *found)
    present_bytes = seen.facts.pool_size_bytes
    others = [size for size in sizes if size != present_bytes]
    whole = [one.recorded for one in attached if one.rows and one.recorded.ended != "lost"]
    recorded = with_one_numbering(whole)
    if found or not recorded:
        why = found[0] if found else _unrecorded(attachments)
        estimates: tuple[SizeEstimate, ...] = tuple(
            SizeEstimate(size, None, None, None, ready.asked.tier, why) for size in others
        )
    else:
        full = next((one for one in recorded if one.tier == "full"), None)
        estimates = answer(
            recorded, pool, counted, others, pool_contents.keys(held, full.relations) if full and held else None
        )
    per_s = counted.reads / counted.seconds if counted.seconds else None
    writes_per_s = counted.writes / counted.seconds if counted.writes is not None and counted.seconds else None
    present = SizeEstimate(
        present_bytes, per_s, None, None, "counted", writes_low_per_s=writes_per_s, writes_high_per_s=writes_per_s
    )
    judged = sorted((*estimates, present), key=lambda one: one.pool_size_bytes)
    return Advice(
        seen=seen, present=pool, counted=counted, sizes=tuple(_timed(one, pool.read_us) for one in judged),
        cannot_say=found, attached=attached, cost=tuple(_costs(ready, attachments)), memory_left=left(ready.pid),
    )  # fmt: skip


def _timed(one: SizeEstimate, read_us: float | None) -> SizeEstimate:
    """Return an estimate with its reading time added, computed with the observed latency of a read."""
    if one.reads_per_s is None or read_us is None:
        return one
    return replace(one, read_ms_per_s=one.reads_per_s * read_us / 1000)


def _without_creations(one: Attached, facts: Facts) -> Sequence[SampledRow]:
    """Return the rows of an attachment, with created pages subtracted from reads if the server counts them as reads.

    Sessions of PostgreSQL report late, so the mean rate of creations is subtracted from each row, which may then be
    below zero.
    """
    recorded = one.recorded
    if facts.flavour != "postgres" or facts.numbers[0] > _COUNTS_CREATIONS or not recorded.seconds:
        return one.rows
    per_s = np.count_nonzero(recorded.columns["kind"] == number_of("create")) / recorded.seconds
    return [
        replace(row, counts={**row.counts, "pages_read": row.counts.get("pages_read", 0.0) - per_s * row.seconds})
        for row in one.rows
    ]


def _unrecorded(attachments: Attachments) -> NotTold:
    if attachments.failed:
        return NotTold(attachments.failed.what, attachments.failed.hint)
    ended = {one.recorded.ended for one in attachments.attached}
    told = next((told for how, told in _ENDED_EARLY.items() if how in ended), None)
    return told or NotTold("nothing was recorded for a whole second", "a longer --within")


def _recorded_reads(attached: Sequence[Attached], begun_s: float) -> float | None:
    """Return the number of reads recorded in the seconds that the attachments' rows cover.

    Return None unless all attachments recorded calls.
    """
    found = 0
    for one in attached:
        if one.recorded.read_s is None:
            return None
        ends_s = np.array([[row.t_s - row.seconds, row.t_s] for row in one.rows]) + begun_s
        found += int(np.diff(np.searchsorted(one.recorded.read_s, ends_s)).sum())
    return found if attached else None


def count(rows: Sequence[SampledRow]) -> Counted:
    """Return the sums of the counts of these rows.

    The unit of work is a transaction if any were counted, else a statement.
    """
    sums = {name: sum(row.counts.get(name, 0.0) for row in rows)
            for name in ("pages_read", "page_gets", "transactions", "statements")}  # fmt: skip
    unit: Literal["transaction", "statement"] = "transaction" if sums["transactions"] else "statement"
    reads = max(0.0, sums["pages_read"])
    written = [row.counts["pages_written"] for row in rows if "pages_written" in row.counts]
    # A checkpoint of PostgreSQL writes the pages that became dirty since the last one. So a window without a whole
    # cycle has no typical rate of writes.
    checkpoints = [row.counts[name] for row in rows for name in _CHECKPOINTS if name in row.counts]
    has_cycle = not checkpoints or sum(checkpoints) >= _LEAST_CHECKPOINTS
    writes = max(0.0, sum(written)) if rows and len(written) == len(rows) and has_cycle else None
    return Counted(sum(row.seconds for row in rows), reads, sums["page_gets"], sums[f"{unit}s"], unit, writes=writes)


def _costs(ready: Ready, attachments: Attachments) -> Iterator[TierCost]:
    for foretold in ready.foretold:
        if of_it := [one for one in attachments.attached if one.recorded.tier == foretold.tier]:
            events = sum(one.stops for one in of_it)
            seconds = sum(one.attached_s for one in of_it)
            yield tiers.cost(attachments.seconds, ready.facts.flavour, foretold.tier, seconds, events, foretold.cores)
