"""What `observe` prints of a server that runs."""

from __future__ import annotations

from typing import Literal

from support.json_documents.base import Document, Number, Printed


class ObservedCost(Document):
    statements: int
    statement_s: float
    """The time in our statements as we waited for them."""
    processor_s: Number
    """Of our session's thread at the server; null where it cannot be read from here."""
    core_ratio: Number


class ObservedEvent(Document):
    t_s: float
    kind: Literal["lost", "refused", "back", "restart", "failover", "reset", "wrap", "right"]
    what: str


class ObservedSecond(Document):
    t_s: float
    seconds: float
    counts: dict[str, float]
    """docs/observe.md says what each count is; a count that the server does not tell is missing."""
    levels: dict[str, float]


class ObservedNotTold(Document):
    why: str
    remedy: str | None
    refusal: Literal["rights", "missing", "slow"] | None


class ObservedHost(Document):
    """What the server and its device did, where the server is on this host."""

    seconds: float
    processor_cores: Number
    read_bytes: int | None
    device_read_bytes: int | None
    device_write_bytes: int | None
    page_cache_ratio: Number
    device: dict[str, int] | None
    why: str | None


class ObservedObject(Document):
    table: str
    index: str | None
    pages: int
    share_ratio: float
    dirty_pages: int
    old_pages: int | None
    cold_pages: int | None


class ObservedPool(Document):
    pages: int
    seconds_foretold: float
    objects: list[ObservedObject]


class ObservedStatement(Document):
    place: str | None
    text: str
    calls: int
    seconds: float
    rows_examined: int | None
    rows_returned: int
    hit_pages: int | None
    read_pages: int | None
    read_seconds: Number


class ObservedStatements(Document):
    statements: list[ObservedStatement]
    calls: int
    seconds: float
    utility_calls: int
    utility_seconds: float
    monitoring_calls: int
    monitoring_seconds: float
    notes: list[str]


class ObservedConfound(Document):
    kind: str
    sentence: str
    seconds: Number


class Observed(Printed):
    """`observe`."""

    status: Literal["ok", "interrupted", "lost"]
    server: str
    engine: str
    version: str
    answer: str
    seconds: float
    per_second: dict[str, Number]
    per_statement: dict[str, Number]
    """Null where statements are not counted, or there were none."""
    per_transaction: dict[str, Number]
    transactions_are: Literal["transactions", "explicit commits"]
    hit_ratio: Number
    time_ratio: Number
    """The share of statement time that reads take; null where it cannot be told."""
    no_time: str | None
    pool_begin: dict[str, float]
    pool_end: dict[str, float] | None
    not_told: dict[str, str]
    host: ObservedHost | ObservedNotTold
    pool_contents: ObservedPool | ObservedNotTold
    statements: ObservedStatements | ObservedNotTold
    confounds: list[ObservedConfound]
    confounds_not_told: list[ObservedNotTold]
    cost: ObservedCost
    events: list[ObservedEvent]
    rows: list[ObservedSecond]
