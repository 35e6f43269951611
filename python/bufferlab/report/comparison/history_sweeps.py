"""Reads the sweeps of a history, orders them, and excludes those that differ from most. It judges no number.

The order is that of the dates in the folders, or of a file with a name on each line, as `git rev-list --reverse` prints
it. bufferlab cannot know which commit of a server or an application was measured, so the user names the commit: as
NAME=FOLDER, by the folder's own name, or by the name of the folder above it. Of each sweep only the values of its runs
are kept in memory, not their samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Literal

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.errors import SpecError
from bufferlab.registry import open_sweep
from bufferlab.report.comparison.compare_metrics import told_metrics
from bufferlab.report.comparison.guard import flat, host_facts, versions_of, workload_text
from bufferlab.report.comparison.sides import asked_of
from bufferlab.units import format_bytes, readable

#: The setting that names the measured build. In a history it may differ from sweep to sweep.
SERVER = "server"
#: Facts about a host that may change with updates or at each boot. A report lists such changes, but they exclude no
#: sweep from the history.
_SOFT = ("kernel", "os", "device name", "device major minor", "filesystem source", "filesystem mount point")
_MEMORY = "memory total bytes"
_LEAST_OF_A_COMMIT = 7
_LARGEST_ORDER_BYTES = 16 << 20
_MOST_NAMED = 5


@dataclass(frozen=True)
class PointTold:
    """A point of a sweep: its requested settings, and the values of its runs by metric."""

    asked: Mapping[str, str]
    swept: Mapping[str, str]
    data_keys: frozenset[str | None]
    values: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class SweepTold:
    """The parts of a sweep that a history needs."""

    PRINTED: ClassVar = ("name", "line", "path", "began_at", "runs", "failed_runs", "failed_checks")

    name: str
    path: Path
    began_at: datetime | None
    """The start of the sweep's first successful run; None if there is none."""
    headline: str
    metrics: tuple[str, ...]
    points: tuple[PointTold, ...]
    run_ids: frozenset[str]
    failed_runs: int
    failed_checks: tuple[str, ...]
    """The titles of the checks that failed."""
    blocked: Mapping[str, str]
    """Metric -> reason why this sweep allows no claim on it."""
    like: Mapping[str, str]
    """Properties that must be the same in all sweeps: experiment, engine, workload, host. Settings are in `points`."""
    beside: Mapping[str, str]
    """Properties that may differ from sweep to sweep, and are named with a change: versions, kernel, server."""
    line: str = ""
    """The text after the sweep's name in the file of --order; "" if there is none."""

    @property
    def runs(self) -> int:
        """Return the runs that ended well."""
        return len(self.run_ids)


@dataclass(frozen=True)
class Apart:
    """A sweep that is excluded from the history, and why."""

    PRINTED: ClassVar = ("sweep", "differs", "reason")

    sweep: SweepTold
    differs: Mapping[str, tuple[str, str]]
    """Differing property or setting -> (this sweep's value, the others'); empty if none of its runs ended well."""

    @property
    def reason(self) -> str:
        """Return the reason in words: "engine postgres, not sqlite"."""
        if not self.differs:
            return "no run ended well"
        said = [f"{name} {own}, not {others}" for name, (own, others) in self.differs.items()]
        more = [f"{len(said) - _MOST_NAMED} more"] if len(said) > _MOST_NAMED else []
        return words.listing([*said[:_MOST_NAMED], *more])


@dataclass(frozen=True)
class Sweeps:
    """The sweeps of a history in order, and the excluded ones."""

    kept: tuple[SweepTold, ...]
    apart: tuple[Apart, ...]
    order: Literal["dates", "file"]

    @property
    def swept(self) -> tuple[str, ...]:
        """Return the settings that at least one of the kept sweeps swept."""
        return swept_names(self.kept)

    def place_of(self, name: str, flag: str) -> int:
        """Return the place, from 0, of the kept sweep with this name, or an abbreviated commit of it.

        Raises SpecError, which names the option `flag`, if no kept sweep has the name.
        """
        for place, sweep in enumerate(self.kept):
            if _same_name(sweep.name, name):
                return place
        set_apart = next((one for one in self.apart if _same_name(one.sweep.name, name)), None)
        what = f"this sweep is set apart: {set_apart.reason}" if set_apart else "no sweep of the history has this name"
        raise SpecError(what, f"{flag} {name}", f"the first is {self.kept[0].name}, the last {self.kept[-1].name}")


def named(arguments: Sequence[str]) -> list[tuple[str, Path]]:
    """Return, for each argument FOLDER or NAME=FOLDER, the name ("" if none is given) and the folder.

    An argument that is an existing path is a FOLDER, even with "=" in it. Raises SpecError for an empty name or folder
    around "=", and for a name given twice.
    """
    found = []
    for argument in arguments:
        name, equals, folder = argument.partition("=")
        if not equals or Path(argument).exists():
            found.append(("", Path(argument)))
        elif name.strip() and folder:
            found.append((name.strip(), Path(folder)))
        else:
            raise SpecError(
                f'"{argument}" is neither FOLDER nor NAME=FOLDER', "arguments FOLDER...", "3f2a91c=runs/one"
            )
    _require_once([(name, path) for name, path in found if name])
    return found


def read_sweeps(folders: Sequence[tuple[str, Path]], order: Path | None, also: Iterable[str] = ()) -> Sweeps:
    """Read the sweeps, order them, and exclude those that differ from most.

    `also` names metrics that are needed in addition to those of the workload. Raises SpecError for fewer than two
    sweeps, for two sweeps of one name, for a sweep given twice, if no run of any sweep ended well, and for a file
    `order` that cannot be read, has a name twice, or does not have exactly one name for each sweep. Raises
    DataFileError for a folder that is not a sweep, or is damaged.
    """
    if len(folders) < 2:
        where = str(folders[0][1]) if folders else "arguments FOLDER..."
        hint = "name the folders of all sweeps, such as runs/buffer-size-*; `bufferlab report` shows one sweep"
        raise SpecError("one sweep has no history", where, hint)
    lines = _lines(order) if order else {}
    sweeps = _with_names([(name, told_of(path, tuple(also))) for name, path in folders], lines)
    _require_other_runs(sweeps)
    if order:
        places = {name: place for place, name in enumerate(lines)}
        sweeps.sort(key=lambda sweep: places[sweep.name])
        sweeps = [replace(sweep, line=lines[sweep.name]) for sweep in sweeps]
    else:
        sweeps.sort(key=lambda sweep: sweep.began_at or datetime.max.replace(tzinfo=UTC))
    kept, apart = _sorted_out(sweeps)
    return Sweeps(kept, apart, "file" if order else "dates")


def swept_names(sweeps: Iterable[SweepTold]) -> tuple[str, ...]:
    """Return the settings that at least one of the sweeps swept, in the order of the sweeps and points."""
    return tuple(dict.fromkeys(name for sweep in sweeps for point in sweep.points for name in point.swept))


def told_of(path: Path, also: tuple[str, ...]) -> SweepTold:
    """Read a sweep folder; return the parts that a history needs."""
    analysis = Analysis.of(open_sweep(path))
    ran = [point for point in analysis.points if point.ok]
    metrics = (*told_metrics(analysis, analysis.phases, lambda one: any(point.values(one) for point in ran)), *also)
    began = [datetime.fromisoformat(str(run.run.started_at)) for run in analysis.runs]
    return SweepTold(
        name=path.resolve().name,
        path=path,
        began_at=min(began, default=None),
        headline=analysis.headline,
        metrics=tuple(dict.fromkeys(metrics)),
        points=tuple(_point(point, metrics) for point in ran),
        run_ids=frozenset(f"{run.run.run_id} {run.run.started_at}" for run in analysis.runs),
        failed_runs=sum(len(point.failures) for point in analysis.points),
        failed_checks=tuple(check.title for check in analysis.checks if check.status == "failed") if ran else (),
        blocked={metric: why for metric in metrics if ran and (why := analysis.claim_blocked(metric))},
        like=_like(analysis),
        beside=_beside(analysis),
    )


def _point(point: PointRuns, metrics: Iterable[str]) -> PointTold:
    values = {metric: tuple(value for _, _, value in point.values(metric)) for metric in metrics}
    keys = frozenset(run.run.data_key for run in point.ok)
    return PointTold(asked_of(point), point.swept, keys, {name: found for name, found in values.items() if found})


def _like(analysis: Analysis) -> dict[str, str]:
    """Return the properties that must agree for two sweeps to be in one history."""
    found = {"experiment": analysis.sweep.experiment}
    runs = [run.run for run in analysis.runs]
    told: dict[str, set[str]] = {
        "source": {run.source for run in runs},
        "engine": {run.engine for run in runs},
        "workload": {workload_text(run.workload) for run in runs},
    }
    found |= {name: ", ".join(sorted(values)) for name, values in told.items() if values}
    for table in ("reference", "warm_up", "measure"):
        asked = analysis.sweep.asked.get(table)
        found |= flat(asked, f"{table} ") if isinstance(asked, Mapping) else {}
    for name, value in _facts(analysis).items():
        if name not in _SOFT:
            found[f"host {name}"] = format_bytes(float(value)) if name == _MEMORY and value.isdecimal() else value
    return found


def _facts(analysis: Analysis) -> dict[str, str]:
    """Return the facts of all hosts of a sweep; different values of one fact are joined by commas."""
    facts = [host_facts(one.host) for one in analysis.sweep.hosts]
    names = dict.fromkeys(name for one in facts for name in one)
    return {name: ", ".join(sorted({one[name] for one in facts if name in one})) for name in names}


def _beside(analysis: Analysis) -> dict[str, str]:
    facts = _facts(analysis)
    servers = {asked for point in analysis.points if point.ok and (asked := asked_of(point).get(SERVER))}
    found = {name: facts[name] for name in _SOFT if name in facts} | versions_of(analysis.runs)
    return found | ({SERVER: ", ".join(sorted(servers))} if servers else {})


def _lines(order: Path) -> dict[str, str]:
    """Return the names in a file of --order, the oldest first, each with the rest of its line.

    Raises SpecError if the file cannot be read, is too large, or has no name or a name twice.
    """
    try:
        if order.stat().st_size > _LARGEST_ORDER_BYTES:
            raise SpecError("the file is too large to be an order", f"--order {order}", "write a name on each line")
        text = order.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        hint = "write a name on each line, the oldest first: git rev-list --reverse HEAD"
        raise SpecError(f"the order cannot be read: {why}", f"--order {order}", hint) from error
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        name, _, rest = line.strip().partition(" ")
        if name in found:
            raise SpecError(f'the name "{name}" is there twice', f"{order}:{number}", "leave one of the lines out")
        if name:
            found[name] = rest.strip()
    if not found:
        hint = "write a name on each line, the oldest first: git rev-list --reverse HEAD"
        raise SpecError("the order has no name", f"--order {order}", hint)
    return found


def _same_name(a: str, b: str) -> bool:
    """Return whether two names are the same, or one is a commit and the other its abbreviation."""
    short, long = sorted((a, b), key=len)
    return a == b or (
        len(short) >= _LEAST_OF_A_COMMIT
        and long.startswith(short)
        and all(letter in "0123456789abcdef" for letter in long)
    )


def _with_names(sweeps: Sequence[tuple[str, SweepTold]], lines: Mapping[str, str]) -> list[SweepTold]:
    """Return the sweeps with their names: those in the file of --order, else the user's, else those of the folders."""
    if lines:
        found = [replace(sweep, name=_line_of(name, sweep.path, lines)) for name, sweep in sweeps]
    else:
        twice = Counter(sweep.name for _, sweep in sweeps)
        found = [
            replace(sweep, name=name or (_with_parent(sweep.path) if twice[sweep.name] > 1 else sweep.name))
            for name, sweep in sweeps
        ]
    _require_other_runs(found)
    _require_once([(sweep.name, sweep.path) for sweep in found])
    return found


def _with_parent(path: Path) -> str:
    return "/".join(path.resolve().parts[-2:])


def _line_of(name: str, path: Path, lines: Mapping[str, str]) -> str:
    """Return the name in the file of --order that belongs to a sweep. Raises SpecError unless exactly one does."""
    own = [name] if name else [*reversed(path.resolve().parts[-2:])]
    for one in own:
        found = [line for line in lines if _same_name(one, line)]
        if len(found) == 1:
            return found[0]
        if found:
            what = f'"{one}" stands for several names of the order: {", ".join(found[:_MOST_NAMED])}'
            raise SpecError(what, str(path), "write more of its letters")
    what = f"the order lacks this sweep: no line begins with {' or '.join(own)}"
    raise SpecError(what, str(path), "give it a name of the file: NAME=FOLDER")


def _require_once(names: Iterable[tuple[str, Path]]) -> None:
    """Raise SpecError if two sweeps have the same name, which would be the same commit."""
    seen: dict[str, Path] = {}
    for name, path in names:
        if name in seen:
            where = f"{seen[name]} and {path}"
            raise SpecError(f'two sweeps have the name "{name}"', where, "leave one out, or give each another name")
        seen[name] = path


def _require_other_runs(sweeps: Iterable[SweepTold]) -> None:
    """Raise SpecError if two folders hold the same run: a copied sweep would look like a repetition."""
    owners: dict[str, Path] = {}
    for sweep in sweeps:
        for run in sorted(sweep.run_ids):
            if run in owners:
                raise SpecError("these folders hold the same runs", f"{owners[run]} and {sweep.path}", "leave one out")
            owners[run] = sweep.path


def _sorted_out(sweeps: Sequence[SweepTold]) -> tuple[tuple[SweepTold, ...], tuple[Apart, ...]]:
    """Return the sweeps that match a chosen sweep, and the others.

    The chosen sweep is the one that matches the most sweeps; of several, the newest.


    Raises SpecError if no run of any sweep ended well.
    """
    ran = [sweep for sweep in sweeps if sweep.runs]
    if not ran:
        hint = "look at their reports for the reasons"
        raise SpecError("no run of these sweeps ended well", f"{sweeps[0].path} and others", hint)
    apart_of = _differences(ran)
    # Sweeps with equal properties match the same others, so only one sweep of each such kind is compared with all.
    kinds = {tuple(sorted(sweep.like.items())) + tuple(sweep.points[0].asked.items()): sweep for sweep in ran}
    counted = [(sum(not apart_of(sweep, other) for other in ran), ran.index(sweep), sweep) for sweep in kinds.values()]
    like = max(counted, key=lambda one: one[:2])[2]
    found = {id(sweep): apart_of(sweep, like) for sweep in ran}
    kept = tuple(sweep for sweep in ran if not found[id(sweep)])
    return kept, tuple(Apart(one, found.get(id(one), {})) for one in sweeps if found.get(id(one), {}) or not one.runs)


def _differences(sweeps: Sequence[SweepTold]) -> Callable[[SweepTold, SweepTold], dict[str, tuple[str, str]]]:
    """Return a function that finds the properties and settings in which two sweeps differ.

    The function ignores settings that at least one of `sweeps` swept, and the setting `server`.
    """
    free = {SERVER, *swept_names(sweeps)}

    def differences(own: SweepTold, other: SweepTold) -> dict[str, tuple[str, str]]:
        a, b = own.like, other.like
        # If experiments or engines differ, almost everything else does too, so only these are named.
        if a["experiment"] != b["experiment"] or a["engine"] != b["engine"]:
            names = [name for name in ("experiment", "engine") if a[name] != b[name]]
            return {name: (a[name], b[name]) for name in names}
        found = {name: (a[name], b[name]) for name in a if name in b and a[name] != b[name]}
        asked = own.points[0].asked, other.points[0].asked
        # A setting that only one sweep records did not exist in the bufferlab that made the other one.
        for name in asked[0].keys() & asked[1].keys() - free:
            if asked[0][name] != asked[1][name]:
                found[name.replace("_", " ")] = (readable(asked[0][name]), readable(asked[1][name]))
        return found or _other_data(own, other)

    return differences


def _other_data(own: SweepTold, other: SweepTold) -> dict[str, tuple[str, str]]:
    """Return the keys of the loaded data if they differ although the engine's version is the same; else {}."""
    engine = own.like["engine"]
    if own.beside.get(engine) != other.beside.get(engine):
        return {}
    theirs = {tuple(sorted(point.swept.items())): point.data_keys for point in other.points}
    for point in own.points:
        keys = theirs.get(tuple(sorted(point.swept.items())), point.data_keys)
        if keys != point.data_keys and None not in keys | point.data_keys:
            first, second = (", ".join(sorted(str(key)[:12] for key in found)) for found in (point.data_keys, keys))
            return {"loaded data": (first, second)}
    return {}


def changed_beside(sweeps: Sequence[SweepTold]) -> list[dict[str, tuple[str, str]]]:
    """Return for each sweep the versions, server and host facts that changed since the one before, with both values."""
    found: list[dict[str, tuple[str, str]]] = [{}]
    for one, other in pairwise(sweeps):
        names = [name for name in one.beside if name in other.beside and one.beside[name] != other.beside[name]]
        found.append({name: (one.beside[name], other.beside[name]) for name in names})
    return found
