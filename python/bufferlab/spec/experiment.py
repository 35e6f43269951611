"""The typed Experiment: types and limits of everything in a TOML except the settings (settings.py).

The Experiment is frozen: the validated values are the ones that run. This module reads no files and does not know the
TOML's line numbers: load.py adds those. `to_toml` writes the experiment.toml of a sweep folder: it contains all values,
defaults included, and reading it back gives an equal Experiment.
"""

from __future__ import annotations

import hashlib
import json
from math import prod
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    PlainValidator,
    ValidationInfo,
    field_validator,
    model_validator,
)

from bufferlab.knob import AUTO, CONNECTIONS, Setting
from bufferlab.stats.stopping import FIRST_LOOK_BLOCKS
from bufferlab.units import UnitError, canonical_bytes, parse_bytes, parse_duration, parse_percent

FORMAT_VERSION = 1
_MOST_POINTS = 10_000
_MOST_BLOCKS = 1000
_MOST = 2**53 - 1
"""The largest number of transactions: no disk does more in its lifetime, and JSON readers keep integers of 53 bits."""
MAX_SEED = 2**53 - 1
"""The largest seed: seeds pass through JSON, whose readers keep integers of 53 bits."""


def _seconds(value: Any) -> float:
    if not isinstance(value, str | int | float):
        raise ValueError('not a duration; write one such as "90s" or "5min"')
    try:
        return parse_duration(value)
    except UnitError as error:
        raise ValueError(f"{error.what}; {error.hint}") from error


def _bytes(value: Any) -> int:
    if not isinstance(value, str | int):
        raise ValueError('not a size; write one such as "4k"')
    try:
        return parse_bytes(value)
    except UnitError as error:
        raise ValueError(f"{error.what}; {error.hint}") from error


def _share(value: Any) -> float:
    if isinstance(value, float):
        return value
    if not isinstance(value, str):
        raise ValueError('not a share; write one such as "5%"')
    try:
        return float(parse_percent(value))
    except UnitError as error:
        raise ValueError(f"{error.what}; {error.hint}") from error


def _repetitions(value: Any) -> int | Literal["auto"]:
    if value == AUTO:
        return AUTO
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST_BLOCKS:
        raise ValueError(f'not a number of repetitions; write one from 1 to {_MOST_BLOCKS:,}, or "{AUTO}"')
    return value


def _reference_page(value: Any) -> int | str:
    return value if value == OWN else _bytes(value)


OWN: Literal["own"] = "own"
"""Value of `Reference.page_size`: percentages refer to the database at each point's own page size."""

Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=7 * 86400)]
ReferencePage = Annotated[int | Literal["own"], BeforeValidator(_reference_page)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=60)]


class TomlTable(BaseModel):
    """A table of the TOML. Unknown keys are refused, and values do not change after validation."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ScriptFile(TomlTable):
    """A script with its text, so that a run does not depend on a file that may change."""

    source: str = Field(min_length=1, max_length=255)
    """The file's name, for messages."""
    text: str

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of the script's text, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()


class DumpFile(TomlTable):
    """A dump of a user's own data. Only its server reads it again, and checks that it is still the same file."""

    path: str = Field(min_length=1, max_length=4096)
    """The file's absolute path."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size_bytes: int = Field(ge=0)


class Workload(TomlTable):
    """The workload of an experiment: its name, its script or dump, and the parameters that are not swept."""

    name: str
    parameters: dict[str, InstanceOf[Setting]] = {}
    script: ScriptFile | None = None
    dump: DumpFile | None = None


class Reference(TomlTable):
    """The page size of the database that percentages refer to: one size for all points, or each point's own.

    With one size, "20 %" is the same number of bytes at all page sizes. With "own", it is 20 % of each point's
    database.
    """

    page_size: ReferencePage = 4096


class AskedWarmUp(TomlTable):
    """The bounds of the warm-up.

    Between them the gate, a test for a steady miss rate, decides when the warm-up ends.
    """

    min_transactions: int = Field(default=0, ge=0, le=_MOST)
    """The least transactions of a warm-up: the gate may end it only after them.

    Other caches, such as the page cache, may need them.
    """
    turnover_within: int = Field(default=0, ge=0, le=1000)
    """The gate waits for a turnover only if it is expected within this many times the transactions of the first flat
    misses.

    At a turnover, reads have filled the pool and replaced all its pages; before it a pool reads more than later. With 0
    the gate does not wait.
    """
    max_transactions: int = Field(ge=0, le=_MOST)
    """The cap of the warm-up, in transactions.

    With 0 the warm-up is skipped: measuring begins with the pool as opened.
    """
    max_duration: Seconds
    on_cap: Literal["fail", "report"] = "fail"
    """What happens to a run whose warm-up hits the cap: it fails, or it is kept and reported with a failed check."""

    @model_validator(mode="after")
    def _in_order(self) -> AskedWarmUp:
        if self.min_transactions > self.max_transactions:
            raise ValueError("min_transactions is more than max_transactions")
        return self


class Measure(TomlTable):
    """The length of the measured window: a fixed number of transactions (with a time cap), or a duration."""

    transactions: int | None = Field(default=None, ge=1, le=_MOST)
    duration: Seconds | None = None
    max_duration: Seconds | None = None
    sample_interval: Seconds = 1.0

    @model_validator(mode="after")
    def _one_of(self) -> Measure:
        if (self.transactions is None) == (self.duration is None):
            raise ValueError("give either transactions (the rule) or duration")
        if self.transactions is not None and self.max_duration is None:
            raise ValueError("transactions needs a max_duration, so that a slow device ends too")
        if self.duration is not None and self.max_duration is not None:
            raise ValueError("max_duration belongs to transactions; with duration leave it out")
        return self

    @property
    def max_seconds(self) -> float:
        """Return the seconds after which the measured window ends at the latest: its duration, or its time cap."""
        return self.duration or self.max_duration or 0.0


class Phase(TomlTable):
    """A script that runs on the warm database after the main window, with its own measured window."""

    name: str
    script: ScriptFile
    transactions: int = Field(ge=1, le=_MOST)
    max_duration: Seconds


Repetitions = Annotated[int | Literal["auto"], PlainValidator(_repetitions)]
Share = Annotated[float, BeforeValidator(_share), Field(gt=0, lt=1)]


AIM = ("at_most", "smallest_effect", "precision")
"""The keys of [design] that control when "auto" stops. They are refused with a fixed number of repetitions."""


class Design(TomlTable):
    """The number of repetitions. Each is a block that runs every point once, in an order randomised from one seed."""

    repetitions: Repetitions = 3
    at_most: int = Field(default=5, ge=FIRST_LOOK_BLOCKS, le=_MOST_BLOCKS)
    """The maximum number of repetitions if `repetitions` is "auto"."""
    smallest_effect: Share = 0.05
    """The smallest relative change of the headline metric between points that matters to the user.

    "auto" stops when each step is resolved or shown to be smaller.
    """
    precision: Share | None = None
    """The relative half-width of each mean's confidence interval at which "auto" stops; None for any width."""
    seed: int = Field(default=1, ge=0, le=MAX_SEED)

    @field_validator(*AIM)
    @classmethod
    def _needs_auto(cls, value: Any, others: ValidationInfo) -> Any:
        if others.data.get("repetitions", AUTO) != AUTO:
            raise ValueError(f'it belongs to repetitions = "{AUTO}"; leave it out, or ask for that')
        return value

    @property
    def most(self) -> int:
        """Return the number of blocks in the plan; if it is "auto", the maximum."""
        return self.at_most if self.repetitions == AUTO else self.repetitions


class Limits(TomlTable):
    """The time limits after which a run is given up."""

    worker_silent: Seconds = 120.0
    """Seconds of silence after which a worker is killed and its run fails."""


class Experiment(TomlTable):
    """One experiment: the question, the points, and how to measure them."""

    format_version: Literal[1]
    name: Name
    question: str = Field(min_length=1)
    engine: str
    workload: Workload
    reference: Reference = Reference()
    knobs: dict[str, InstanceOf[Setting]]
    """Every knob of the engine and the load that is not swept, the connections too; defaults filled in."""
    sweep: dict[str, tuple[InstanceOf[Setting], ...]]
    """The swept settings of engine, workload and load, in the order written."""
    warm_up: AskedWarmUp
    measure: Measure
    phases: tuple[Phase, ...] = ()
    """The phases, which run in this order after each window."""
    design: Design = Design()
    limits: Limits = Limits()
    profile: Literal["default", "quick", "full", "smoke"] = "default"
    """The profile of the TOML that was applied."""

    @model_validator(mode="after")
    def _can_be_planned(self) -> Experiment:
        points = prod(len(values) for values in self.sweep.values())
        if points > _MOST_POINTS:
            raise ValueError(f"the sweep has {points:,} points; sweep fewer values: at most {_MOST_POINTS:,} points")
        return self

    @property
    def asked(self) -> dict[str, Setting]:
        """Return every setting that is not swept, of engine, load and workload, by its name."""
        return {**self.workload.parameters, **self.knobs}

    @property
    def with_fixed_blocks(self) -> Experiment:
        """Return the experiment with a fixed number of blocks: if the number is "auto", its maximum."""
        return self.model_copy(update={"design": Design(repetitions=self.design.most, seed=self.design.seed)})

    def same_work(self, other: Experiment) -> list[str]:
        """Return the top-level keys in which two experiments differ; an empty list if they request the same work."""
        return [key for key in type(self).model_fields if getattr(self, key) != getattr(other, key)]


def to_toml(experiment: Experiment) -> str:
    """Return the experiment as the text of experiment.toml, with every default spelt out."""
    top = {
        "format_version": experiment.format_version,
        "name": experiment.name,
        "question": experiment.question,
        "engine": experiment.engine,
        "profile": experiment.profile,
    }
    workload, reference, knobs = experiment.workload, experiment.reference.page_size, dict(experiment.knobs)
    stops_itself = experiment.design.repetitions == AUTO
    # In the TOML, the number of connections belongs to [workload].
    connections = {name: knobs.pop(name).number for name in (CONNECTIONS.name,) if name in knobs}
    tables: dict[str, dict[str, Any]] = {
        "workload": {"name": workload.name, **connections, **workload.parameters},
        **({"workload.script": _script(workload.script)} if workload.script else {}),
        **({"workload.dump": workload.dump.model_dump()} if workload.dump else {}),
        "reference": {"page_size": reference if isinstance(reference, str) else canonical_bytes(reference)},
        "knobs": knobs,
        "sweep": {name: list(values) for name, values in experiment.sweep.items()},
        "warm_up": experiment.warm_up.model_dump(),
        "measure": experiment.measure.model_dump(exclude_none=True),
    }
    for phase in experiment.phases:
        tables[f"phases.{phase.name}"] = {"transactions": phase.transactions, "max_duration": phase.max_duration}
        tables[f"phases.{phase.name}.script"] = _script(phase.script)
    design = experiment.design.model_dump(exclude_none=True, exclude=None if stops_itself else {*AIM})
    tables |= {"design": design, "limits": experiment.limits.model_dump()}
    lines = ["# The experiment as it was run: profile and flags applied, defaults spelt out.", *_pairs(top)]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *_pairs(table)]
    return "\n".join(lines) + "\n"


def _script(script: ScriptFile) -> dict[str, Any]:
    return {"source": script.source, "text": _LongText(script.text)}


class _LongText(str):
    """A text of many lines, such as a script, which is written as a multi-line string of TOML."""


def _pairs(table: dict[str, Any]) -> list[str]:
    # A variable's name, such as var.innodb_x, contains a dot. Unquoted, TOML reads it as a table; profiles.py flattens
    # it.
    return [f"{key} = {_value(value)}" for key, value in table.items()]


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, _LongText):
        return _long_text(value)
    if isinstance(value, Setting):
        value = value.asked
    # JSON strings, numbers and booleans are also valid TOML.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _long_text(text: str) -> str:
    """Return a text as a multi-line basic string of TOML. All control characters but line feeds are escaped."""
    lines = [json.dumps(line, ensure_ascii=False)[1:-1].replace("\x7f", "\\u007f") for line in text.split("\n")]
    # Quotes without escapes are easier to read. A quote needs an escape where three would be adjacent, or at the
    # string's end.
    body = "\n".join(line.replace('\\"', '"') if _may_bare(line) else line for line in lines)
    return f'"""\n{body}"""'


def _may_bare(line: str) -> bool:
    return "\\\\" not in line and '\\"\\"' not in line and not line.endswith('\\"')
