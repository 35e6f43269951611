"""Tells the facts of a server's pool that its model needs, and which of its settings the model takes otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bufferlab.advise.recorded import PoolFacts
from bufferlab.engines.servers.questions import NotTold
from bufferlab.models.managers.declaration import BufferManager, Server
from bufferlab.models.managers.registry import of_server
from bufferlab.models.predict import presumed_otherwise
from bufferlab.observe.looker import Facts, Query, Refused
from bufferlab.observe.window import Row

_PREFIX = "innodb_"


def model_of(facts: Facts) -> BufferManager | None:
    """Return the model of a server; None where there is none."""
    return of_server(Server(facts.flavour, ".".join(map(str, facts.numbers))))


def settings_of(query: Query, facts: Facts, manager: BufferManager | None) -> dict[str, int | str]:
    """Return the settings that a model obeys or presumes, by its names; those that the server does not have are left
    out.
    """
    if manager is None or facts.flavour == "postgres":
        return {}
    names = (*manager.defaults, *manager.presumes)
    listed = ", ".join(f"'{_PREFIX}{name}'" for name in names)
    try:
        rows = query(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({listed})")
        told = {str(row["variable_name"]).lower().removeprefix(_PREFIX): str(row["value"]) for row in rows}
    except (Refused, LookupError):
        return {}
    return {name: int(told[name]) if told[name].isdecimal() else told[name] for name in names if name in told}


def pool_facts(
    facts: Facts, manager: BufferManager | None, settings: Mapping[str, int | str], rows: Sequence[Row]
) -> PoolFacts:
    """Return the pool as the rows of the window and the server's settings tell it."""
    frames = _mean(rows, "pool_pages") or facts.pool_size_bytes / facts.page_size_bytes
    timed = [row for row in rows if "read_ms" in row.counts and row.counts.get("pages_read")]
    reads = sum(row.counts["pages_read"] for row in timed)
    return PoolFacts(
        engine=facts.flavour,
        model=manager.name if manager else "",
        settings={name: int(settings[name]) for name in manager.defaults if name in settings} if manager else {},
        page_size_bytes=facts.page_size_bytes,
        pool_pages=round(frames),
        data_pages=_mean(rows, "data_pages"),
        read_us=1000 * sum(row.counts["read_ms"] for row in timed) / reads if reads > 0 else None,
        version=".".join(map(str, facts.numbers)),
        pool_bytes=facts.pool_size_bytes,
    )


def presumed(manager: BufferManager, settings: Mapping[str, int | str]) -> NotTold | None:
    """Return why the model must not be believed with a server's settings; None where it may."""
    for one in presumed_otherwise(manager.presumes, settings.get):
        return NotTold(
            one.sentence.replace("the run had", "the server has"), "larger sizes need no model: --tier misses"
        )
    return None


def _mean(rows: Sequence[Row], level: str) -> float | None:
    told = [row.levels[level] for row in rows if level in row.levels]
    return sum(told) / len(told) if told else None
