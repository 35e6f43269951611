"""The operations on a cluster during a sweep: list its nodes, start a task on one, read the tasks' reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bufferlab.errors import Problem
from bufferlab.execute.fleet.parcels import Item
from bufferlab.execute.fleet.rounds import Node


@dataclass(frozen=True)
class Over:
    """The report that a task has ended. A task that ends without a problem has sent everything."""

    problem: Problem | None = None


class Task(Protocol):
    """The cluster's handle for the task in which a node does a block."""


class Cluster(Protocol):
    """The nodes of a cluster. No call takes longer than its time limit, or than a minute."""

    def nodes(self) -> Sequence[Node]:
        """Return the live nodes with at least one CPU; their hosts are not known yet."""

    def facts(self, nodes: Sequence[Node], order: Mapping[str, Any]) -> list[dict[str, Any] | Problem]:
        """Return for each node the result of `node.facts` there, or the problem that occurred."""

    def begin(self, node: Node, order: Mapping[str, Any]) -> Task:
        """Start a block on a node, on all its CPUs; return its task."""

    def poll(self, tasks: Sequence[Task], seconds: float) -> list[tuple[Task, Item | Over]]:
        """Return the next reports of tasks; an empty list if none comes within the time."""

    def cancel(self, task: Task, *, hard: bool) -> None:
        """Ask a task to end; with `hard`, kill its process on the node."""

    def forget(self, nodes: Sequence[Node], sweep_id: str) -> None:
        """Remove a sweep's data on nodes, as far as they can be reached."""
