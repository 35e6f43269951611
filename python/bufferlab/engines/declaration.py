"""The declaration of an engine: its knobs with their units and limits, and its abilities.

It is pure data, so that `spec` can refuse unknown settings without touching an engine. Each engine's behaviour.py
finds, starts and drives it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from bufferlab.knob import Knob, Native, Setting, Value, Values, values_of
from bufferlab.units import MIB

if TYPE_CHECKING:
    from bufferlab.results.check_parts import EngineResults


@dataclass(frozen=True)
class DeclaredRates:
    """The speed of each stage on a modest machine. Speeds measured by earlier runs on this host replace them."""

    load_bytes_per_s: float
    restore_bytes_per_s: float
    warm_up_bytes_per_s: float
    """The speed of warming up: the database's bytes divided by the seconds until the pool, of any size, was warm."""
    transactions_per_s: float
    check_bytes_per_s: float
    runs_per_s: float = 1.0
    """Runs per second of their fixed work: starting and ending the engine, and writing the results."""
    predictions_per_s: float = 0.1
    """Sweeps per second of predicting: the time of the predictions before and after a sweep's runs."""


RATES_OF_SERVERS = DeclaredRates(
    load_bytes_per_s=20 * MIB,
    restore_bytes_per_s=250 * MIB,
    warm_up_bytes_per_s=15 * MIB,
    transactions_per_s=300.0,
    check_bytes_per_s=40 * MIB,
)
"""The rates assumed for every database server, measured on two shared cores and a fast virtual disk."""


@dataclass(frozen=True)
class EngineDeclaration:
    """The facts about an engine that `spec`, `plan`, `list` and the report need."""

    PRINTED: ClassVar = ("name", "meaning", "max_connections", "notes", "knobs")

    name: str
    meaning: str
    knobs: tuple[Knob, ...]
    rates: DeclaredRates
    max_connections: int
    connections_reason: str
    """The reason for the limit `max_connections`."""
    needs_disk: bool = True
    """Whether data on tmpfs are refused, because a run that reads no disk would measure nothing."""
    page_knob: str = "page_size"
    """The knob that sets the page size, to which percentages of the database are rounded down; "" for no pages."""
    min_frames: int = 1
    size_factor: float = 1.0
    """The factor by which a loaded database is larger than the workload's estimate."""
    base_bytes: int = 0
    """The bytes that a loaded database takes besides its data (logs, system tables). Percentages exclude them."""
    start_seconds: float = 0.5
    """The seconds from the start of a worker process until its database is open."""
    source: Literal["measured", "predicted"] = "measured"
    inputs: Literal["server", "given"] = "server"
    clock: Literal["wall", "virtual"] = "wall"
    results_in: str = ""
    """The module whose constant `RESULTS` is `results`; "" if the engine has none. Engines of one family share it."""
    chapters: str = ""
    """The module whose `CHAPTERS` the engine adds to a report; "" if the engine has none."""
    family: str = ""
    """The storage engine that several engines share, such as InnoDB.

    An experiment can set sizes for all of them by this name. "" if there is none.
    """
    data_kind: Literal["file", "directory"] = "file"
    """Whether a loaded database is one file on the disk or a directory."""
    is_server: bool = False
    """Whether the engine runs as a separate process that other programs can connect to."""
    needs_unprivileged_user: bool = False
    """Whether the server refuses to run as root. Then it runs as another user, who must be able to reach the data."""
    default_connections: int = 1
    rounds: tuple[str, ...] = ()
    """The size knobs that the engine may round to its own units. A report names the rounded value."""
    edge_rows: int = 0
    """For each leaf of a table, the number of rows in neighbouring leaves whose lookup by key also gets this leaf."""
    updates_move_rows: bool = False
    """Whether an update of a row that keeps its size may put it on another page."""
    data_frames: Callable[[Mapping[str, Value], int], int] | None = None
    """A function that returns how many of a pool's frames hold pages of data, from the settings; None if all do."""
    refused: Callable[[Values, str], tuple[str, str] | None] | None = None
    """A function that returns why settings cannot run the named workload, and a hint, or None if they can."""
    applies: Callable[[str, Values], bool] | None = None
    """A function that returns whether a knob applies to a point with these values; None if all always apply."""
    shares_refer_to: Mapping[str, Native] = field(default_factory=dict)
    """The knob values of the database to which percentages refer, where these differ from the point's own values."""
    pool_unit_bytes: int = 1
    """The size unit of the engine's pool in bytes.

    A pool given as a percentage is rounded down to it, so the engine need not round.
    """
    passes_through: str = ""
    """The prefix of knobs that set the engine's own variables, with values as written; "" if it has no such knobs."""
    data_is_read_only: bool = False
    """Whether no run writes to the data, so that they are used in place, not copied."""
    data_bytes: Callable[[Values], int] | None = None
    """A function that returns the bytes of the data from the knobs, if they determine it; None if the workload does."""
    workloads: tuple[str, ...] = ()
    """The only workloads that the engine can run; if empty, it runs every workload that needs no other engine."""
    changes_host: bool = False
    """Whether runs of the engine may change settings of the host. Its behaviour then restores them (`restore_host`)."""
    hidden: bool = False
    """Whether the engine exists only for tests, so that `bufferlab list` shows it only with --all."""
    notes: tuple[str, ...] = field(default=())

    @property
    def results(self) -> EngineResults:
        """Return the engine's metrics, formulas, checks and limits. The module is imported at the first call."""
        from bufferlab.results.check_parts import EngineResults

        return cast("EngineResults", import_module(self.results_in).RESULTS) if self.results_in else EngineResults()

    def knob(self, name: str) -> Knob | None:
        """Return the knob of that name; None if the engine has none."""
        return self.by_name().get(name)

    def by_name(self) -> Mapping[str, Knob]:
        """Return the engine's own knobs, without variables passed through, by the name that users write."""
        return {knob.name: knob for knob in self.knobs}

    def variable(self, name: str) -> Knob | None:
        """Return the knob that passes the variable `name`, such as var.sort_buffer_size, through to the engine.

        None if the name lacks the prefix of such knobs, or is not a letter and then letters, digits or underscores
        after the prefix.
        """
        prefix = self.passes_through
        if not prefix or not re.fullmatch(re.escape(prefix) + r"[a-zA-Z][a-zA-Z0-9_]*", name):
            return None
        return Knob.text(
            name,
            f"the engine's own variable {name.removeprefix(prefix)}, as it is written",
            pattern=r"[^\x00-\x1f\x7f]{1,200}",
            example="a value of that variable",
            default="",
            spelling=name.removeprefix(prefix),
        )

    def settings(self, asked: Mapping[str, Setting]) -> dict[str, Setting]:
        """Return from all given settings the engine's own: its knobs, then variables passed through."""
        variables = (name for name in asked if self.variable(name) is not None)
        return {name: asked[name] for name in (*self.by_name(), *variables)}

    def applying(self, settings: Mapping[str, Setting]) -> dict[str, Setting]:
        """Return those of the engine's settings that apply at a point."""
        values = values_of(settings)
        return {
            name: one for name, one in settings.items() if not self.applies or self.applies(one.knob.spelling, values)
        }

    def spelled(self, values: Values) -> dict[str, Native]:
        """Return the values by the names that the core's job uses, without the settings that the core does not know."""
        return {knob.spelling: values[knob.name] for knob in self.knobs if knob.spelling and knob.name in values}

    def named(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Return the core's values by the settings' names; values that are not settings keep the core's names."""
        names = {knob.spelling: knob.name for knob in self.knobs if knob.spelling}
        return {names.get(word, word): value for word, value in told.items()}

    def frames_of_data(self, values: Mapping[str, Value], frames: int) -> int:
        """Return how many of a pool's frames hold pages of data."""
        return self.data_frames(values, frames) if self.data_frames else frames

    def defaults(self) -> dict[str, Setting]:
        """Return the default of each of the engine's knobs, by the knob's name."""
        return {knob.name: knob.parse(knob.default) for knob in self.knobs}
