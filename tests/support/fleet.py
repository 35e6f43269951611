"""A small stand-in for Ray: nodes that send ready-made sweep folders, and the events that a gathering reports about
them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bufferlab import spec
from bufferlab.execute.fleet.dispatch import Bounds, Gather
from bufferlab.execute.fleet.gathering import Gathering, host_of
from bufferlab.execute.fleet.parcels import SWEEP_FILES, Item, packed
from bufferlab.execute.fleet.ray_cluster import Over
from bufferlab.execute.fleet.rounds import Host, Node
from bufferlab.execute.sweep import SweepOptions
from bufferlab.registry import open_sweep
from support.fake import Bench

BLOCKS = 3
VERSIONS = {"bufferlab": "1", "core": "2"}
FACTS = {"versions": {**VERSIONS, "python": "3.11", "sqlite": "3.50"}, "data_keys": ["k"]}


def measured_parts(bench: Bench) -> list[Path]:
    """Measure a sweep folder for each block, as the nodes would."""
    return [
        bench.measure(bench.experiment(repetitions=BLOCKS), options=SweepOptions(blocks=(block,))).folder.path
        for block in range(BLOCKS)
    ]


Says = Iterator[Item | Over]


@dataclass
class StandIn:
    """The methods that `Gather` calls on Ray: tasks are iterators, and nodes send the folders `parts`."""

    parts: Sequence[Path]
    names: list[str] = field(default_factory=lambda: ["one", "two"])
    told: Mapping[str, Any] = field(default_factory=dict)
    """Facts of single nodes, by name, in place of the usual facts."""
    work: Callable[[StandIn, Node, Mapping[str, Any]], Iterator[Item | Over]] | None = None
    orders: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    cancelled: list[bool] = field(default_factory=list)
    forgotten: int = 0

    @property
    def host(self) -> Host:
        return host_of(open_sweep(self.parts[0]).host)

    def nodes(self) -> list[Node]:
        return [Node(name, name, 2) for name in self.names]

    def facts(self, nodes: Sequence[Node], order: Mapping[str, Any]) -> list[Any]:
        assert spec.loads(order["experiment"], "order")
        return [self.told.get(node.name, {**FACTS, "host": list(self.host)}) for node in nodes]

    def begin(self, node: Node, order: Mapping[str, Any]) -> Any:
        self.orders.append((node.name, order))
        return (self.work or StandIn.does)(self, node, order)

    def does(self, node: Node, order: Mapping[str, Any]) -> Says:
        """Yield what a node of this host sends for a block; if the host is the same, it continues the begun block."""
        part = self.parts[order["block"]]
        resumed = order["host"] == list(self.host)
        yield {"event": "begun", "resumed": resumed}
        yield {"event": "said", "text": "loading\x1b[31m"}
        yield {"event": "status", "done": 0.5, "seconds_left": float("nan")}
        if not resumed:
            yield from packed("sweep", "", part, SWEEP_FILES)
        for run in sorted((part / "runs").iterdir()):
            if run.name not in order["known"]:
                yield from packed("run", run.name, run, sorted(os.listdir(run)))
        yield {"event": "end", "failure": None}

    def poll(self, tasks: Sequence[Any], seconds: float) -> list[Any]:
        return [(task, next(task, Over())) for task in tasks]

    def cancel(self, task: Any, *, hard: bool) -> None:
        self.cancelled.append(hard)
        task.close()

    def forget(self, nodes: Sequence[Node], sweep_id: str) -> None:
        self.forgotten += 1


@dataclass
class Told:
    events: list[Mapping[str, Any]] = field(default_factory=list)

    def __call__(self, event: Mapping[str, Any]) -> None:
        self.events.append(event)

    @property
    def words(self) -> str:
        return "\n".join(str(event.get("text") or event.get("what") or "") for event in self.events)


def gathered(
    gathering: Gathering,
    cluster: StandIn,
    stopped: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
    **bounds: float,
) -> tuple[dict[str, Any], Told]:
    """Do a gathering; return its result and the reported events. Asserts that no temporary folder is left."""
    told = Told()
    bounds = {"no_node": 0.0, "look": 0.0, **bounds}
    result = Gather(cluster, gathering, VERSIONS, told, stopped, Bounds(**bounds), clock).do()  # type: ignore[arg-type]
    assert not list(gathering.path.rglob(".tmp-*"))
    return result, told


def runs_of(path: Path) -> set[tuple[int, int, str]]:
    return {(record.run.point.index, record.run.block, record.run_id) for record in open_sweep(path).runs()}
