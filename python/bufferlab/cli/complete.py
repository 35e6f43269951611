"""Completes the names of experiments, engines, settings and servers for the shell.

click itself completes commands, options and their fixed choices. This module starts no engine. Options of commands name
its functions, so the functions import what they need only when a shell asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from bufferlab.errors import BufferlabError

if TYPE_CHECKING:
    from bufferlab.knob import Knob


def experiments(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the built-in experiments whose names begin with `typed`, and an item by which files are completed too."""
    from bufferlab.catalog import builtin_experiments

    return [*_beginning(builtin_experiments(), typed), CompletionItem(typed, type="file")]


def engine_names(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the engines whose names begin with `typed`."""
    from bufferlab.engines import registry as engines

    return _beginning(engines.names(), typed)


def servers(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the servers that can be fetched and begin with `typed`, and an item by which paths are completed too."""
    return [*fetchable(context, parameter, typed), CompletionItem(typed, type="file")]


def fetchable(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the servers that can be fetched and whose names begin with `typed`."""
    from bufferlab.engines import families

    return _beginning(families.names(), typed)


def settings(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the settings that begin with `typed`, or, after its equals sign, the words that the setting takes."""
    name, equals, value = typed.partition("=")
    # While an option lacks its value, click does not separate the arguments, so take the first as the experiment.
    experiment = context.params.get("experiment") or next(iter(context.args), None)
    knobs = {knob.name: knob for knob in _knobs(context.params.get("engine"), experiment)}
    if not equals:
        return [CompletionItem(f"{knob.name}=", help=knob.meaning) for knob in knobs.values() if _fits(knob.name, name)]
    words = knobs[name].choices if name in knobs else ()
    return [CompletionItem(f"{name}={word}") for word in words if _fits(word, value)]


def _beginning(names: Iterable[str], typed: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if _fits(name, typed)]


def _fits(name: str, typed: str) -> bool:
    return name.startswith(typed)


def _knobs(engine: str | None, experiment: str | None) -> Iterator[Knob]:
    """Yield the settings of the engine and workload on the command line, or of all if these are not known."""
    from bufferlab.engines import registry as engines
    from bufferlab.knob import CONNECTIONS, LOAD_KNOBS
    from bufferlab.spec import load
    from bufferlab.workloads import registry as workloads

    workload = None
    if experiment:
        try:
            asked = load(experiment)
            engine, workload = engine or asked.engine, asked.workload.name
        except BufferlabError:
            pass  # A mistake in the experiment is reported when the command runs.
    for name in [engine] if engine in engines.names(hidden=True) else engines.names():
        yield from engines.declaration(name).knobs
    for name in [workload] if workload else workloads.names():
        yield from workloads.declaration(name).parameters
    yield from (*LOAD_KNOBS, CONNECTIONS)
