"""Attaches and detaches recorders by a plan of stages, while an observation samples the server once a second.

`Attachments` gets each sample of the observation, and may request its end. A tier is attached and detached right after
a sample, so that the rows between are the tier's window. Between samples it asks the recorder whether it is still
attached.

The free memory limits the recorder's file and the pool sizes that fit. It is the least of the host's MemAvailable
(proc(5)) and, for each cgroup that contains the server, its limit minus its use. Use excludes file pages that the
kernel reclaims first (inactive_file: admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst).
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, ClassVar, Literal

from bufferlab import procfs
from bufferlab.engines.servers.memory_limit import groups_of
from bufferlab.errors import BufferlabError, EnvironmentLackingError
from bufferlab.execute.progress import Progress, SweepStatus
from bufferlab.live import constants, live_trace
from bufferlab.live.doubts import BROKEN
from bufferlab.live.live_trace import LivePlan, LiveTrace, Recorded, Tier
from bufferlab.live.observation import Stop
from bufferlab.live.tiers import LEAST_MISSES_S, Pace, Processors, Second, Stage
from bufferlab.live.window import LookWindow, SampledRow, ServerEvent

_FILES = {1: ("memory.limit_in_bytes", "memory.usage_in_bytes"), 2: ("memory.max", "memory.current")}
_GIVEN_BACK = {1: "total_inactive_file", 2: "inactive_file"}


@dataclass(frozen=True)
class MemoryLeft:
    """The free memory, and whether the host or a cgroup limits it."""

    size_bytes: int
    by: Literal["host", "cgroup"]


def left(pid: int) -> MemoryLeft | None:
    """Return the memory that a server may still take, and what limits it; None if unknown."""
    return least(Path("/proc/meminfo"), groups_of(pid))


def least(meminfo_file: Path, groups: Iterable[tuple[Literal[1, 2], Path]]) -> MemoryLeft | None:
    """Return the smallest free memory among the host and the cgroups.

    `groups` has the version and folder of each cgroup.
    """
    host_bytes = procfs.available_bytes(meminfo_file)
    found = [] if host_bytes is None else [MemoryLeft(host_bytes, "host")]
    for version, folder in groups:
        limit, used = _FILES[version]
        with suppress(OSError, ValueError):  # A cgroup without a limit has "max"; the root cgroup has no such file.
            kept = int((folder / used).read_text()) - _given_back(folder, _GIVEN_BACK[version])
            found.append(MemoryLeft(max(0, int((folder / limit).read_text()) - max(0, kept)), "cgroup"))
    return min(found, key=lambda one: one.size_bytes, default=None)


def _given_back(folder: Path, name: str) -> int:
    told = dict(line.split(" ", 1) for line in (folder / "memory.stat").read_text().splitlines())
    return int(told.get(name, 0))


_PATIENCE_S = 3.0
"""If no sample comes, a stage is prolonged by at most this many seconds."""
_OF_DISK, _OF_MEMORY, _MOST_BYTES = 4, 8, 1 << 30
"""Limits of the recorder's file: a quarter of its disk's free space, an eighth of the free memory, and 1 GiB.

Evaluating the file takes memory of about twice its size, on the server's host.
"""
_UNEVEN_S = 0.3
"""A row's processor time is ignored if the row's length and the time since the last row differ by more than this."""


@dataclass(frozen=True)
class Attached:
    """One attachment: its record, and the rows of the seconds within it."""

    PRINTED: ClassVar = ("recorded.tier", "recorded.seconds", "recorded.ended", "stops", "events")

    recorded: Recorded
    rows: tuple[SampledRow, ...]
    stops: int
    """The number of probe stops or calls of the server that were recorded during the attachment."""
    attached_s: float
    """The seconds from attaching to detaching. The window whose rows count may begin later."""
    events: Mapping[str, int]
    """The number of recorded events by kind; docs/page-trace.md lists the kinds."""


@dataclass(eq=False)
class Attachments:
    """The attachments of one observation, one after another. `close` detaches the one that is attached."""

    planned: tuple[Stage, ...]
    plans: Mapping[Tier, LivePlan]
    max_cores: float
    """The most processor cores that a tier may take from the server."""
    pace: Pace
    """The lengths of the stages, and the evictions after which `misses` ends."""
    processors: Processors | None
    stop: Stop
    shown: Progress
    clock: Callable[[], float]
    before_full: Callable[[], None] | None
    """A function that is called once, right before the first attachment of the tier `full`; None afterwards."""
    list_buffers: Callable[[LiveTrace], None] | None = None
    """A function that is called a few times while `misses` is attached; None if the buffers cannot be listed."""
    is_over: bool = False
    is_away: bool = False
    """Whether the recorder has noticed that the server ended."""
    failed: BufferlabError | None = None
    """The error of a tier that could not be attached or read; None if there was none."""
    attached: list[Attached] = field(default_factory=list)
    seconds: list[Second] = field(default_factory=list)
    _begun_s: float | None = None
    """The time by `clock` at which the first stage began; None before the first row."""
    _place: int = 0
    _limit: int = 0
    # Infinite until the first row, because the first stage begins after the queries at the observation's beginning.
    _due_s: float = math.inf
    _last_s: float | None = None
    _trace: LiveTrace | None = None
    _file: IO[bytes] | None = None
    """The recorder's file during an attachment. It is unnamed, so that killing this process leaves no file."""
    _rows: list[SampledRow] = field(default_factory=list)
    _lists_due_s: list[float] = field(default_factory=list)
    """The times at which to query the server's buffers, in order."""
    _is_fresh: bool = False
    """Whether no row has come since the tier was attached."""
    _attached_s: float = 0.0
    """The time by `clock` at which the trace was attached."""

    def row(self, row: SampledRow, window: LookWindow) -> None:
        """Store the row, and go on to the next stage if this one has ended."""
        self._keep(row)
        now_s = self.clock()
        if self._trace and self.list_buffers and self._lists_due_s and now_s >= self._lists_due_s[0]:
            self._lists_due_s.pop(0)
            self.list_buffers(self._trace)
        if math.isinf(self._due_s):
            self._begun_s = now_s - row.seconds
            self._due_s = self._begun_s + self.planned[0].seconds
        if now_s >= self._due_s or self._has_enough():
            self._next()
        self._show()

    def _show(self) -> None:
        now_s, place = self.clock(), len(self.planned) if self.is_over else self._place
        stage = self.planned[min(place, len(self.planned) - 1)]
        evicted = int(self._trace.told()["events"].get("evict", 0)) if self._trace and stage.tier == "misses" else None
        left_s = self.pace.left_s(self.planned, place, now_s - (self._due_s - stage.seconds), evicted)
        spent_s = now_s - (self._begun_s or now_s)
        what = f"recording ({stage.tier})" if self._trace else "evaluating" if self.is_over else "nothing attached"
        self.shown.show(SweepStatus(what, 0, 0, "", spent_s / (spent_s + left_s), left_s))

    def event(self, event: ServerEvent) -> None:
        """Show an event of the server. If no answer is possible after it, detach and end the observation."""
        self.shown.say(f"{event.t_s:.0f} s  {event.what}")
        if event.kind in BROKEN:
            self.is_over = True
            self.close()

    @property
    def requested(self) -> bool:
        """Return whether the observation must end. First check the recorder, and end a stage that is overdue."""
        if self._trace:
            state = str(self._trace.told()["state"])
            if state != "attached" or self.stop.requested or self.clock() > self._due_s + _PATIENCE_S:
                self._detach(state)
        elif self.clock() > self._due_s + _PATIENCE_S:
            self._next()
        return self.is_over or self.stop.requested

    def close(self) -> None:
        """Detach the recorder if it is still attached."""
        if self._trace:
            self._detach(str(self._trace.told()["state"]))

    def _keep(self, row: SampledRow) -> None:
        now_s, last_s = self.clock(), self._last_s
        self._last_s = now_s
        stage = self.planned[min(self._place, len(self.planned) - 1)]
        # The second in which a tier was attached or detached counts for no stage.
        is_whole, self._is_fresh = (self._trace is not None) == (stage.tier is not None) and not self._is_fresh, False
        if self._trace and is_whole:
            self._rows.append(row)
        if self.processors is None:
            return
        server_s, ours_s = self.processors.grown()
        if is_whole and last_s is not None and abs(now_s - last_s - row.seconds) < _UNEVEN_S:
            gets = row.counts.get("page_gets", 0.0)
            self.seconds.append(Second(stage.tier, row.seconds, gets, server_s, ours_s))

    def _has_enough(self) -> bool:
        stage = self.planned[min(self._place, len(self.planned) - 1)]
        if self._trace is None or stage.tier != "misses" or self.clock() < self._due_s - stage.seconds + LEAST_MISSES_S:
            return False
        return int(self._trace.told()["events"].get("evict", 0)) >= self.pace.pages_wanted > 0

    def _next(self) -> None:
        if self._trace:
            self._detach()
        if self.is_over:
            return
        self._place += 1
        if self._place >= len(self.planned):
            self.is_over = True
            return
        stage = self.planned[self._place]
        if stage.tier:
            self._attach(stage.tier)
        # The stage's time starts now, because reading a record, querying pages and attaching may take seconds.
        now_s = self.clock()
        self._due_s = now_s + stage.seconds
        after_s = (constants.LIST_AT_S, *(share * stage.seconds for share in constants.LIST_AT_SHARES))
        self._lists_due_s = [now_s + one for one in after_s if stage.tier == "misses"]

    def _attach(self, tier: Tier) -> None:
        if tier == "full" and self.before_full:
            self.before_full()
            self.before_full = None
        try:
            plan = self.plans[tier]
            self._limit = max(1, int(1e6 * self.max_cores / plan.stop_us))
            self._file = _nameless()
            self._trace = live_trace.attach(
                plan,
                Path(f"/proc/self/fd/{self._file.fileno()}"),
                events_per_s_max=self._limit,
                limit_bytes=_limit_bytes(Path(tempfile.gettempdir())),
            )
        except BufferlabError as error:
            # Do not raise the error here: the observation would treat it as a refusal by the server.
            self.failed, self.is_over = error, True
            if self._file:
                self._file.close()
            return
        self._rows, self._is_fresh, self._attached_s = [], True, self.clock()

    def _detach(self, state: str = "attached") -> None:
        trace, self._trace = self._trace, None
        assert trace
        assert self._file
        told = trace.finish()
        if told["other_stops"]:
            others = ", ".join(map(str, told["other_processes"]))
            what = f"the probes stopped other processes of the same binary too, {told['other_stops']:,} times"
            self.shown.say(f"{what} (process {others}): give that server a copy of the binary")
        try:
            recorded = live_trace.recorded(trace, stopped=self.stop.requested)
        except BufferlabError as error:
            self.failed, self.is_over = error, True
            return
        finally:
            # Close the file at once, because the next attachment's file may need the space.
            self._file.close()
        attached_s = self.clock() - self._attached_s
        found = Attached(recorded, tuple(self._rows), told["stops"], attached_s, told["events"])
        self.attached.append(found)
        if state == "gone":
            self.is_away = self.is_over = True
        if state != "attached":
            self._due_s = self.clock()
        if state == "rate":
            self._give_up(found.recorded.tier, attached_s)

    def _give_up(self, tier: Tier, attached_s: float) -> None:
        """Report that a tier had too many events; if this happened before, cancel the tier's remaining windows.

        The first burst ends only its window; a second one ends the tier. A burst of a fifth of a second suffices.
        """
        later = self.planned[self._place + 1 :]
        is_first = sum(one.recorded.tier == tier and one.recorded.ended == "rate" for one in self.attached) == 1
        ends = self.is_over or self.stop.requested
        if is_first and not ends and any(one.tier == tier for one in later):
            then = "The next window is recorded all the same"
        else:
            smaller = "; smaller pools can hardly be judged now" if tier == "full" else ""
            then = f"A larger one would let it go on{smaller}"
            self.planned = (*self.planned[: self._place + 1], *(one for one in later if one.tier != tier))
        self.shown.say(
            f"detached after {attached_s:.0f} s: more than {self._limit:,} events a second for 0.2 s, the limit of "
            f"--max-cpu. {then}"
        )


def _nameless() -> IO[bytes]:
    """Return a new unnamed file below TMPDIR. Raises EnvironmentLackingError if it cannot be created."""
    try:
        return tempfile.TemporaryFile(buffering=0)
    except OSError as error:
        what = f"the record's file cannot be made: {error.strerror or error}"
        raise EnvironmentLackingError(what, "TMPDIR", "name a folder of a disk with free space by TMPDIR") from error


def _limit_bytes(folder: Path) -> int:
    """Return the size limit of the recorder's file in a folder, by free disk space and free memory."""
    free = left(os.getpid())
    of_memory = free.size_bytes // _OF_MEMORY if free else _MOST_BYTES
    return max(1, min(_MOST_BYTES, shutil.disk_usage(folder).free // _OF_DISK, of_memory))
