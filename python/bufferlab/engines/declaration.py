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
    """The database's bytes divided by the seconds until its pool was warm; one value for all sizes of the pool."""
    transactions_per_s: float
    check_bytes_per_s: float
    runs_per_s: float = 1.0
    """Runs divided by the seconds of their other stages: to start and end the engine, and to keep the results."""
    predictions_per_s: float = 0.1
    """Sweeps divided by the seconds of the predictions before and after their runs."""


RATES_OF_SERVERS = DeclaredRates(
    load_bytes_per_s=20 * MIB,
    restore_bytes_per_s=250 * MIB,
    warm_up_bytes_per_s=15 * MIB,
    transactions_per_s=300.0,
    check_bytes_per_s=40 * MIB,
)
"""The rates of every database server, seen on two shared cores and a fast virtual disk."""


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
    """The reason why there may not be more connections than `max_connections`."""
    needs_disk: bool = True
    """Whether data in memory (tmpfs) are refused, because a run on them would measure nothing."""
    page_knob: str = "page_size"
    """The knob for the bytes of a page: shares of the database are rounded down to whole pages; "": no pages."""
    min_frames: int = 1
    size_factor: float = 1.0
    """The bytes of a loaded database divided by the workload's estimate."""
    base_bytes: int = 0
    """The bytes that a loaded database takes besides its data (logs, system tables). Percentages leave them out."""
    start_seconds: float = 0.5
    """The seconds from the start of a worker process until its database is open."""
    source: Literal["measured", "predicted"] = "measured"
    inputs: Literal["server", "given"] = "server"
    clock: Literal["wall", "virtual"] = "wall"
    results_in: str = ""
    """The module whose constant `RESULTS` is `results`; "": the engine has none. Engines of one family share it."""
    chapters: str = ""
    """The module whose `CHAPTERS` the engine adds to a report; "": none."""
    family: str = ""
    """The storage engine that several engines share, by whose name an experiment sets sizes for all; "": none."""
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
    """For each leaf of a table, the number of rows of its neighbours that a lookup by key reaches through this leaf."""
    updates_move_rows: bool = False
    """Whether an update of a row that keeps its size may put it on another page."""
    data_frames: Callable[[Mapping[str, Value], int], int] | None = None
    """Returns how many of a pool's frames hold pages of data, from the settings' values; None: all of them."""
    refused: Callable[[Values, str], tuple[str, str] | None] | None = None
    """Returns why settings cannot run the workload of that name, and what to ask for; None: they can."""
    applies: Callable[[str, Values], bool] | None = None
    """Returns whether the knob of that spelling applies to a point with these values; None: each applies to all."""
    shares_refer_to: Mapping[str, Native] = field(default_factory=dict)
    """The knobs' values of the database to which shares refer, where a point's own database has others."""
    pool_unit_bytes: int = 1
    """A pool that is a share of the database is rounded down to whole units, so that the engine need not round."""
    passes_through: str = ""
    """The prefix of knobs that set the engine's own variables, with values as written; "": the engine takes none."""
    data_is_read_only: bool = False
    """Whether no run writes to the data, so that they are used in place, not copied."""
    data_bytes: Callable[[Values], int] | None = None
    """Returns the bytes of the data from the knobs' values, if the engine decides them; None: the workload does."""
    workloads: tuple[str, ...] = ()
    """The only workloads that can drive the engine; empty: any that does not need another engine."""
    changes_host: bool = False
    """Whether runs of the engine may change settings of the host. Its behaviour then restores them (`restore_host`)."""
    hidden: bool = False
    """Whether `bufferlab list` shows the engine with --all only, because it exists for tests."""
    notes: tuple[str, ...] = field(default=())

    @property
    def results(self) -> EngineResults:
        """Return the engine's metrics, formulas, checks and limits, imported as late as possible."""
        from bufferlab.results.check_parts import EngineResults

        return cast(EngineResults, import_module(self.results_in).RESULTS) if self.results_in else EngineResults()

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
        """Return the engine's own settings among all that were asked for: its knobs, then variables passed through."""
        variables = (name for name in asked if self.variable(name) is not None)
        return {name: asked[name] for name in (*self.by_name(), *variables)}

    def applying(self, settings: Mapping[str, Setting]) -> dict[str, Setting]:
        """Return those of the engine's settings at a point that apply to it."""
        values = values_of(settings)
        return {
            name: one for name, one in settings.items() if not self.applies or self.applies(one.knob.spelling, values)
        }

    def spelled(self, values: Values) -> dict[str, Native]:
        """Return the values as the core's job names them, without the settings that the core does not know."""
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
