"""The nodes of a Ray cluster. Only this file imports Ray, in the courier's process, which may be killed at any time.

Ray only places tasks. A block is one task on all CPUs of one node, and Ray does not repeat it by itself. Each call has
a time limit. Private names of Ray are not used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bufferlab.errors import EnvironmentLackingError, Problem
from bufferlab.execute.fleet import node as node_side
from bufferlab.execute.fleet.parcels import Item
from bufferlab.execute.fleet.rounds import Node

_CALL_S = 120.0
"""The longest wait, in seconds, for a small task: Ray may first have to start a Python process for it."""
_ITEM_S = 30.0
"""The longest wait, in seconds, for an item that a node has sent."""
_AHEAD = 8
"""The most items that a node may send before this process reads them."""
_MOST_TEXT = 300

_KNOWN: dict[str, tuple[str, str | None]] = {
    "TaskCancelledError": ("its task was cancelled", None),
    "NodeDiedError": ("the node died", "start it again; a node that joins while the sweep runs is used"),
    "OutOfMemoryError": (
        "Ray ended the task: the node's memory is nearly full",
        "see RAY_memory_usage_threshold",
    ),
    "WorkerCrashedError": (
        "the task's process ended",
        "the kernel may have run out of memory: see dmesg there",
    ),
    "TaskUnschedulableError": ("the node took no task", "see whether it lives: ray status"),
    "ObjectStoreFullError": (
        "the node's object store is full",
        "end what fills it, or start with a larger one",
    ),
    "OutOfDiskError": ("the node's object store is full, and so is its disk", "free some space there"),
    "GetTimeoutError": ("what it said did not arrive in time", "look at the network"),
}
"""For each name of an error of Ray, the error in words and a hint; the most specific errors first."""


Task = Any
"""Ray's handle for the task in which a node does a block."""


@dataclass(frozen=True)
class Over:
    """The report that a task has ended. A task that ends without a problem has sent everything."""

    problem: Problem | None = None


class RayCluster:
    """The nodes of a Ray cluster. One object per process: Ray keeps its connection in the module.

    No call takes longer than its time limit, or than two minutes. Ray is imported only here: it is an optional
    dependency, and its import takes a second.
    """

    def __init__(self, address: str) -> None:
        """Connect to the head. Ray 2.60 has no time limit here: if it takes too long, the parent kills this process.

        Raises EnvironmentLackingError if Ray refuses.
        """
        import ray
        from ray import exceptions

        self._ray = ray
        self._errors: tuple[type[Exception], ...] = (exceptions.RayError, TimeoutError)
        self._lost: tuple[type[Exception], ...] = (ConnectionError, RuntimeError, *self._errors)
        self._known = {getattr(exceptions, name): told for name, told in _KNOWN.items()}
        try:
            ray.init(address=address, namespace="bufferlab", log_to_driver=False, configure_logging=False)
        except (ConnectionError, RuntimeError, ValueError, exceptions.RayError) as error:
            hint = "the host of this command must be a node of the cluster: ray start --address there (docs/fleet.md)"
            raise EnvironmentLackingError(self._problem(error).what, f"--ray {address}", hint) from error

    def nodes(self) -> list[Node]:
        """Return the live nodes with at least one CPU, in the order of their names.

        Raises EnvironmentLackingError if the head does not answer any more.
        """
        try:
            told_of = self._ray.nodes()
        except self._lost as error:
            what = f"the cluster's head does not answer any more: {self._problem(error).what}"
            raise EnvironmentLackingError(what, "--ray", "look whether it lives, and start it again") from error
        found = [
            Node(str(told["NodeID"]), str(told["NodeManagerAddress"]), float(told["Resources"].get("CPU", 0)))
            for told in told_of
            if told["Alive"]
        ]
        names = [node.name for node in found]
        told_apart = [
            Node(
                node.node_id,
                f"{node.name} ({node.node_id[:6]})" if names.count(node.name) > 1 else node.name,
                node.cpus,
            )
            for node in found
            if node.cpus
        ]
        return sorted(told_apart, key=lambda node: node.name)

    def facts(self, nodes: Sequence[Node], order: Mapping[str, Any]) -> list[dict[str, Any] | Problem]:
        """Return for each node the result of `node.facts` there, or the problem that occurred."""
        return self._on_each(nodes, _facts(), order)

    def forget(self, nodes: Sequence[Node], sweep_id: str) -> None:
        """Remove a sweep's remaining data on these nodes, as far as they can be reached."""
        self._on_each(nodes, _forget(), sweep_id)

    def begin(self, node: Node, order: Mapping[str, Any]) -> Task:
        """Start the task that does a block on all CPUs of a node; return it."""
        more = {"num_returns": "streaming", "_generator_backpressure_num_objects": _AHEAD}
        task = self._on(node, node_side.do_block, node.cpus, **more)
        return task.remote(dict(order))

    def poll(self, tasks: Sequence[Task], seconds: float) -> list[tuple[Task, Item | Over]]:
        """Return the next item of each task that has one; wait for the first item, at most `seconds`."""
        generators = list(tasks)
        if not generators:
            time.sleep(seconds)
            return []
        ray = self._ray
        ready, _ = ray.wait(generators, num_returns=1, timeout=seconds, fetch_local=False)
        if not ready:
            return []
        others = [generator for generator in generators if generator not in ready]
        if others:
            ready += ray.wait(others, num_returns=len(others), timeout=0, fetch_local=False)[0]
        return [(generator, self._next(generator)) for generator in ready]

    def cancel(self, task: Task, *, hard: bool) -> None:
        """Ask a task to end; with `hard`, have Ray kill its process on the node."""
        self._ray.cancel(task, force=hard, recursive=False)

    def _on_each(self, nodes: Sequence[Node], function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call a function on each node, even if its CPUs are busy. Return for each node the value, or a Problem."""
        ray = self._ray
        references = [self._on(node, function, 0).remote(*arguments) for node in nodes]
        ready, late = ray.wait(references, num_returns=len(references), timeout=_CALL_S)
        for reference in late:
            ray.cancel(reference, force=True)
        silent = Problem(f"it did not answer within {_CALL_S:g} s", None, "look at its load, and at its logs")
        # A ready value is on this host, so reading it does not wait.
        return [self._value(reference) if reference in ready else silent for reference in references]

    def _value(self, reference: Any) -> Any:
        """Return the value of a small task that is ready, or the problem that occurred."""
        try:
            value = self._ray.get(reference, timeout=_ITEM_S)
        except self._errors as error:
            return self._problem(error)
        told = value.get("problem") if isinstance(value, dict) else None
        if not isinstance(told, dict):
            return value
        what, where, hint = (told.get(name) and str(told[name])[:_MOST_TEXT] for name in ("what", "where", "hint"))
        return Problem(what or "it has a problem that it does not tell", where, hint)

    def _on(self, node: Node, function: Callable[..., Any], cpus: float, **more: Any) -> Any:
        """Return a task for one node. Its process ends with it, and Ray does not repeat it."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        there = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
        options = {"num_cpus": cpus, "max_retries": 0, "scheduling_strategy": there, **more}
        return self._ray.remote(max_calls=1)(function).options(**options)

    def _next(self, generator: Any) -> Item | Over:
        """Return the next report of a ready task, or how it ended."""
        try:
            reference = next(generator)
        except StopIteration:
            return Over()
        except self._errors as error:
            return Over(self._problem(error))
        try:
            item = self._ray.get(reference, timeout=_ITEM_S)
        except self._errors as error:
            return Over(self._problem(error))
        return item if isinstance(item, dict) else {"event": "beat"}

    def _problem(self, error: Exception) -> Problem:
        """Return Ray's error as one sentence: Ray's own messages are pages long."""
        for kind, (what, hint) in self._known.items():
            if isinstance(error, kind):
                return Problem(what, None, hint)
        cause = getattr(error, "cause", None) or error
        lines = [line for line in str(cause).splitlines() if line.strip()] or [""]
        return Problem(f"{type(cause).__name__}: {lines[0][:_MOST_TEXT]}", None, "see Ray's logs on the node")


def _facts() -> Callable[..., Any]:
    """Return a function that Ray sends to a node as code: the node may lack bufferlab, or have another version."""

    def facts(order: Mapping[str, Any]) -> dict[str, Any]:
        try:
            from bufferlab.errors import BufferlabError
            from bufferlab.execute.fleet import node
        except ImportError as error:
            hint = "install the same bufferlab on every node, for the Python that `ray start` uses there"
            return {"problem": {"what": f"its Python has no such bufferlab: {error}", "hint": hint}}
        try:
            return node.facts(order)
        except BufferlabError as error:
            return {"problem": error.problems[0].as_dict()}

    return facts


def _forget() -> Callable[..., Any]:
    def forget(sweep_id: str) -> None:
        from bufferlab.execute.fleet import node

        node.forget(sweep_id)

    return forget
