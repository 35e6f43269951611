"""Completes the names of experiments, engines, settings and servers for the shell.

click itself completes commands, options and their fixed choices. This module starts no engine. Every command's options
refer to its functions, so the functions import what they need only when a shell asks for completion.
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
    """Return the built-in experiments whose names begin with `typed`, and an item to complete files too."""
    from bufferlab.catalog import builtin_experiments

    return [*_beginning(builtin_experiments(), typed), CompletionItem(typed, type="file")]


def engine_names(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the engines whose names begin with `typed`."""
    from bufferlab.engines import registry as engines

    return _beginning(engines.names(), typed)


def servers(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the fetchable servers whose names begin with `typed`, and an item that makes the shell complete paths."""
    return [*fetchable(context, parameter, typed), CompletionItem(typed, type="file")]


def fetchable(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the fetchable servers whose names begin with `typed`."""
    from bufferlab.engines import registry

    return _beginning(registry.fetchable_servers(), typed)


def settings(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the settings that begin with `typed`; if it has an equals sign, the words that the setting takes."""
    name, equals, value = typed.partition("=")
    # While an option lacks its value, click does not parse the arguments. So assume that the first one is the
    # experiment.
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
            pass  # The command reports a mistake in the experiment when it runs.
    for name in [engine] if engine in engines.names(hidden=True) else engines.names():
        yield from engines.declaration(name).knobs
    for name in [workload] if workload else workloads.names():
        yield from workloads.declaration(name).parameters
    yield from (*LOAD_KNOBS, CONNECTIONS)
