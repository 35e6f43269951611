"""The results of observing a server: its counts, findings inside it and on its host, and the cost of observing.

`Seen` defines the keys of --json, and computes the rates that sentences and tables show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from bufferlab.engines.servers.look import DataSize, Facts, NotTold, PoolLevels, Unpublished
from bufferlab.live.confounds import Confound
from bufferlab.live.digests import Digests
from bufferlab.live.host_side import HostWork
from bufferlab.live.pool_contents import PoolContents
from bufferlab.live.window import LookWindow

UNASKED = NotTold("it was not asked how large the data are")


@dataclass(frozen=True)
class InsideFindings:
    """The findings inside the server, and on its host."""

    pool_contents: PoolContents | NotTold
    statements: Digests | NotTold
    confounds: tuple[Confound, ...]
    confounds_not_told: tuple[NotTold, ...]
    host: HostWork | NotTold
    data: tuple[DataSize, DataSize] | NotTold = UNASKED
    """The size of the data at both ends of the observation, or why it is unknown."""


@dataclass(frozen=True)
class LookCost:
    """The server's cost of being observed."""

    PRINTED: ClassVar = ("statements", "statement_s", "processor_s", "core_ratio")

    statements: int
    statement_s: float
    """The time that bufferlab waited for the answers to its statements, the network included."""
    processor_s: float | None
    """The processor seconds that the thread or process of bufferlab's session used on the server.

    None if they cannot be read from this host.
    """
    seconds: float

    @property
    def core_ratio(self) -> float | None:
        """The fraction of one core that bufferlab's session used; null if it is unknown."""
        return None if self.processor_s is None else self.processor_s / max(self.seconds, 1e-9)


@dataclass(frozen=True)
class TwiceThePool:
    """An upper bound of the misses of a pool of twice the size, once this pool is filled.

    It holds if the miss curve is convex.
    """

    pool_size_bytes: int
    """The bytes of twice the present pool."""
    data_size_bytes: int
    """The bytes of the data of all databases, which share the pool."""
    misses_ratio_at_most: float
    """The largest fraction of the observed misses that such a pool would still have.

    0 means that it holds all data, and misses only new pages.
    """
    misses_per_s_at_most: float


@dataclass(frozen=True)
class Seen:
    """The results of observing a server."""

    PRINTED: ClassVar = (
        "server", "facts.engine", "facts.version", "window.seconds", "per_second", "per_statement", "per_transaction",
        "transactions_are", "hit_ratio", "time_ratio", "ms_per_read", "no_time", "pool_begin", "pool_end", "not_told",
        "inside.host", "twice_the_pool", "inside.pool_contents", "inside.statements", "inside.confounds",
        "inside.confounds_not_told", "cost", "window.events", "window.rows",
    )  # fmt: skip

    server: str
    facts: Facts
    window: LookWindow
    begin: PoolLevels
    end: PoolLevels | None
    """The pool's levels at the end of the observation; None if the server could not be queried then."""
    ended: Literal["whole", "stopped", "lost"]
    cost: LookCost
    inside: InsideFindings
    unpublished: Unpublished = field(default_factory=Unpublished)
    twice_the_pool: TwiceThePool | NotTold = UNASKED
    """The upper bound of the misses of a pool of twice the size, or why there is none."""

    def rate(self, name: str) -> float | None:
        """Return a count per second, over the seconds in which it was known."""
        seconds = self.window.seconds_of.get(name, 0.0)
        return self.window.totals[name] / seconds if seconds else None

    def per(self, name: str, unit: str) -> float | None:
        """Return a count per statement or transaction; None if there were none, or they are not counted."""
        count, units = self.rate(name), self.rate(unit)
        return count / units if count is not None and units else None

    @property
    def per_second(self) -> Mapping[str, float | None]:
        """Each count per second."""
        return {name: self.rate(name) for name in self.window.totals}

    @property
    def per_statement(self) -> Mapping[str, float | None]:
        """Each count per statement; null if statements are not counted, or there were none."""
        return {name: self.per(name, "statements") for name in self.window.totals}

    @property
    def per_transaction(self) -> Mapping[str, float | None]:
        """Each count per transaction, or per explicit commit if only these are counted."""
        return {name: self.per(name, "transactions") for name in self.window.totals}

    @property
    def transactions_are(self) -> str:
        """The name of the counted transactions: "transactions" or "explicit commits"."""
        return f"{self.facts.transactions}s"

    @property
    def hit_ratio(self) -> float | None:
        """The fraction of gets that found their page in the pool."""
        missed = self.per("misses", "page_gets")
        return None if missed is None else 1 - missed

    @property
    def time_ratio(self) -> float | None:
        """The fraction of statement time that reads of data files take, 0 to 1; null if unknown.

        Background threads of the server may make the read time exceed the statement time: it is then 1.
        """
        ratio = self.per("read_ms", "statement_ms")
        return None if ratio is None else min(1.0, ratio)

    @property
    def ms_per_read(self) -> float | None:
        """The mean time of reading a page, in ms; null if reads are not timed, or none was read."""
        return self.per("read_ms", "pages_read")

    @property
    def no_time(self) -> str | None:
        """The reason why the time of reads is unknown; null if it is known."""
        return self.facts.no_time or None

    @property
    def pool_begin(self) -> Mapping[str, float]:
        """The state of the pool at the beginning."""
        return self.begin.values

    @property
    def pool_end(self) -> Mapping[str, float] | None:
        """The state of the pool at the end; null if the server was unreachable."""
        return self.end.values if self.end else None

    @property
    def not_told(self) -> Mapping[str, str]:
        """The reasons why values of the pool are unknown, by their names."""
        return {**self.begin.why_not, **(self.end.why_not if self.end else {})}
