"""Does the blocks of a sweep on a cluster: gives each idle node a block, reads reports, and retries failed blocks.

It uses Ray only through `RayCluster`. It runs in the courier process, whose parent shows the reports.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bufferlab.errors import DataFileError, EnvironmentLackingError, Failure, Problem, SpecError
from bufferlab.execute.fleet.gathering import Gathering
from bufferlab.execute.fleet.parcels import Item
from bufferlab.execute.fleet.ray_cluster import Over, RayCluster, Task
from bufferlab.execute.fleet.receiver import Receiver
from bufferlab.execute.fleet.rounds import Host, Node, Rounds
from bufferlab.results.blocks import said
from bufferlab.spec import to_toml
from bufferlab.texts import printable
from bufferlab.units import format_duration

_NO_MATTER = ("python",)
"""The components whose versions may differ between nodes, because no number depends on them (as in `merge`)."""
_SHOWN_S = 0.5


@dataclass(frozen=True)
class Bounds:
    """The longest waits for nodes and their tasks, in seconds."""

    device: float = 3600.0
    """Seconds to wait for the lock of a node's device."""
    begin: float = 600.0
    """Seconds until a task starts on its node, whose CPUs another program of the cluster may use."""
    silent: float = 150.0
    """Seconds that a started task may be silent while this process listens."""
    no_node: float = 60.0
    """Seconds to wait for a node if none is alive."""
    stop: float = 25.0
    """Seconds that tasks get to end after a request to stop."""
    look: float = 2.0
    """Seconds between two queries of the list of nodes."""


@dataclass
class _Running:
    """A block that a node is doing."""

    task: Task
    node: Node
    block: int
    receiver: Receiver
    started_s: float
    silent_s: float = 0.0
    """Seconds that this process has listened since the task's last report."""
    begun: bool = False
    problem: Problem | None = None
    refused: bool = False
    """Whether the node sent data that no genuine node would send."""
    done: float = 0.0
    seconds_left: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.node.name}, {said([self.block])}"


@dataclass(frozen=True)
class _Facts:
    """The validated answer of `node.facts`."""

    versions: dict[str, str]
    data_keys: list[str]
    host: Host

    @classmethod
    def told(cls, told: object) -> _Facts | Problem:
        """Return a node's facts, or a Problem if its answer is malformed."""
        match told:
            case {"versions": dict(versions), "data_keys": list(keys), "host": [host_id, boot_key]}:
                named = {_text(name): _text(version) for name, version in versions.items()}
                return cls(named, sorted(map(_text, keys)), (_text(host_id), _text(boot_key)))
        what = "it does not tell its facts as this bufferlab does"
        return Problem(what, None, "install one version on all nodes")


@dataclass
class Gather:
    """The work of one command: the blocks of a sweep on a cluster."""

    cluster: RayCluster
    gathering: Gathering
    versions: Mapping[str, str]
    """The versions of bufferlab and its core on this host."""
    send: Callable[[Mapping[str, Any]], None]
    stopped: Callable[[], bool]
    bounds: Bounds = field(default_factory=Bounds)
    clock: Callable[[], float] = time.monotonic
    _nodes: dict[str, Node] = field(default_factory=dict)
    _left_out: set[str] = field(default_factory=set)
    _running: list[_Running] = field(default_factory=list)
    _last: dict[int, Problem] = field(default_factory=dict)
    _home: int = 0
    _shown_s: float = -math.inf
    _facts: dict[str, str] = field(default_factory=dict)
    _keys: list[str] = field(default_factory=list)

    def do(self) -> dict[str, Any]:
        """Do the blocks. Return how the work ended ("whole", "missing" or "interrupted"), and the missing blocks.

        Raises EnvironmentLackingError if a node differs from another or cannot do the experiment, if the head is gone,
        and if this host's disk cannot store the received data. Before it raises, it asks the tasks to end.
        """
        rounds = Rounds(self._to_do())
        if rounds.missing:
            self._admit_first()
        try:
            self._do(rounds)
            interrupted = bool(rounds.missing) and self.stopped()
        finally:
            self._stop()
        # Remove the nodes' data also if every missing block failed for good (a refused setting): no --resume can
        # complete it.
        over = not interrupted and all(self.gathering.state(block).lasting for block in rounds.missing)
        if over and self._nodes:
            self.cluster.forget(list(self._nodes.values()), self.gathering.sweep_id)
        status = "interrupted" if interrupted else "missing" if rounds.missing else "whole"
        problems = {str(block): self._last[block].as_dict() for block in rounds.missing if block in self._last}
        return {"status": status, "missing": rounds.missing, "problems": problems}

    def _do(self, rounds: Rounds) -> None:
        """Do blocks until none is missing, none can be done, or a stop is requested."""
        started = looked = seen = self.clock()
        while rounds.missing and not self.stopped():
            now = self.clock()
            if now - looked >= self.bounds.look:
                self._look()
                looked = now
            seen = now if self._nodes else seen
            self._begin(rounds)
            if not self._running and (not rounds.waiting or now - seen > self.bounds.no_node):
                break
            self._hear(rounds)
            self._end_silent(rounds)
            self._show(rounds, started)

    def _to_do(self) -> Iterable[tuple[int, Any]]:
        """Yield the incomplete blocks, each with the host of its received runs."""
        for block in self.gathering.blocks:
            try:
                state = self.gathering.state(block)
            except DataFileError as error:
                self._warn(replace(error.problems[0], what=f"{said([block])} is done anew: {error.what}"))
                self.gathering.set_aside(block)
                state = self.gathering.state(block)
            self._home += len(state.done)
            if not state.is_whole:
                yield block, state.host

    # --- Nodes ---------------------------------------------------------------------------------------

    def _admit_first(self) -> None:
        nodes = self.cluster.nodes()
        if not nodes:
            hint = "start nodes with ray start (docs/fleet.md); one with --num-cpus=0 does no block"
            raise EnvironmentLackingError("no node of the cluster has a CPU", "--ray", hint)
        problems = self._admit(nodes)
        if problems:
            first, *more = problems
            raise EnvironmentLackingError(first.what, first.where, first.hint, more=more)
        names = ", ".join(node.name for node in self._nodes.values())
        self._say(f"{len(self._nodes)} {'node' if len(self._nodes) == 1 else 'nodes'}: {names}")

    def _look(self) -> None:
        """Update the list of live nodes, and admit new ones whose versions and data match."""
        alive = {node.node_id: node for node in self.cluster.nodes()}
        for node_id in [node_id for node_id in self._nodes if node_id not in alive]:
            node = self._nodes.pop(node_id)
            self._warn(Problem("a node of the cluster is gone", node.name, "its blocks go to the others"))
        new = [node for node_id, node in alive.items() if node_id not in self._nodes and node_id not in self._left_out]
        for problem in self._admit(new) if new else []:
            self._warn(replace(problem, what=f"a node that came is left out: {problem.what}"))

    def _admit(self, nodes: Sequence[Node]) -> list[Problem]:
        """Admit nodes whose versions and data equal this host's and each other's.

        Return a problem for each node that differs.
        """
        order = {"experiment": to_toml(self.gathering.experiment), "options": self.gathering.told_options}
        problems = []
        for node, told in zip(nodes, self.cluster.facts(nodes, order), strict=True):
            found = told if isinstance(told, Problem) else _Facts.told(told)
            problem = found if isinstance(found, Problem) else self._differs(found)
            if isinstance(found, _Facts) and problem is None:
                self._nodes[node.node_id] = replace(node, host=found.host)
            elif problem is not None:
                where = f"node {node.name}" + (f": {problem.where}" if problem.where else "")
                problems.append(replace(problem, where=where))
                self._left_out.add(node.node_id)
        return problems

    def _differs(self, found: _Facts) -> Problem | None:
        """Return how a node differs from this host, or from the nodes admitted before; None if it does not."""
        facts = {name: version for name, version in found.versions.items() if name not in _NO_MATTER}
        known = self._facts or {**self.versions, **{name: facts[name] for name in facts if name not in self.versions}}
        for name in sorted({*facts, *known}):
            if facts.get(name) != known.get(name):
                what = f"it has {name} {facts.get(name, 'none')}, and {self._others()} {known.get(name, 'none')}"
                return Problem(what, None, "a sweep's runs must be of one version: install the same on all nodes")
        if self._keys and found.data_keys != self._keys:
            its, known_keys = ", ".join(found.data_keys), ", ".join(self._keys)
            what = f"its data would be other data: data_key {its}, and {self._others()} {known_keys}"
            return Problem(what, None, "scripts, dumps and servers must be the same on all nodes")
        self._facts, self._keys = known, found.data_keys
        return None

    def _others(self) -> str:
        first = next(iter(self._nodes.values()), None)
        return f"node {first.name} has" if first and self._facts else "this host has"

    # --- Blocks --------------------------------------------------------------------------------------

    def _begin(self, rounds: Rounds) -> None:
        """Give each idle node a waiting block, if there is a block that it may do."""
        busy = {running.node.node_id for running in self._running}
        for node in [node for node in self._nodes.values() if node.node_id not in busy]:
            block = rounds.begin(node, list(self._nodes.values()))
            if block is None:
                continue
            state = self.gathering.state(block)
            order = {
                "sweep_id": self.gathering.sweep_id,
                "experiment": to_toml(self.gathering.experiment),
                "block": block,
                "options": self.gathering.told_options,
                "device_wait_s": self.bounds.device,
                "host": list(state.host) if state.host else None,
                "known": sorted(state.known),
                "done": sorted(state.done),
            }
            receiver = Receiver(self.gathering, block, f"node {node.name}")
            self._running.append(_Running(self.cluster.begin(node, order), node, block, receiver, self.clock()))
            self._say(f"{said([block])} goes to {node.name}")

    def _hear(self, rounds: Rounds) -> None:
        """Process the tasks' reports, for at most a second."""
        asked = self.clock()
        said_now = self.cluster.poll([running.task for running in self._running], 1.0)
        listened = self.clock() - asked
        by_task = {id(running.task): running for running in self._running}
        for running in self._running:
            running.silent_s += listened
        for task, item in said_now:
            running = by_task[id(task)]
            if not running.refused:  # A task that was asked to end must end, even if it still reports.
                running.silent_s = 0.0
            if isinstance(item, Over):
                self._over(rounds, running, item.problem)
            elif not running.refused:
                self._take(running, item)

    def _take(self, running: _Running, item: Item) -> None:
        try:
            self._understand(running, item)
        except DataFileError as error:
            running.problem, running.refused, running.silent_s = error.problems[0], True, 0.0
            running.receiver.close()
            self.cluster.cancel(running.task, hard=False)

    def _understand(self, running: _Running, item: Item) -> None:
        match item.get("event"):
            case "begun":
                running.receiver.begun(resumed=bool(item.get("resumed")))
                running.begun = True
            case "parcel" | "piece":
                if (record := running.receiver.take(item)) is not None:
                    self._home += record.ok
                    self._say(f"{running.name}: {record.run.point.label} is home")
            case "said":
                self._say(f"{running.name}: {_text(item.get('text'))}")
            case "warned":
                where = f"{running.name}" + (f": {_text(item['where'])}" if item.get("where") else "")
                hint = _text(item["hint"]) if item.get("hint") else None
                self._warn(Problem(_text(item.get("what")), where, hint))
            case "status":
                running.done = min(1.0, _number(item.get("done")))
                running.seconds_left = min(1e7, _number(item.get("seconds_left")))
            case "end" if isinstance(failure := item.get("failure"), dict):
                told = Failure.told({str(name): _text(value) for name, value in failure.items() if value})
                running.problem = Problem(told.what, told.where, told.hint)
            case _:
                pass  # A heartbeat: the task is alive.

    def _over(self, rounds: Rounds, running: _Running, problem: Problem | None) -> None:
        """Record that a task has ended, and check its block's received runs: an incomplete block is retried."""
        running.receiver.close()
        self._running.remove(running)
        problem, block = running.problem or problem, running.block
        try:
            self.gathering.check(block)
            state = self.gathering.state(block)
        except (DataFileError, SpecError) as error:
            problem, state = error.problems[0], self.gathering.state(block)
        again = rounds.end(block, running.node, whole=state.is_whole, host=state.host)
        if state.is_whole:
            self._say(f"{said([block])} is whole, by {running.node.name}")
            if running.refused and problem is not None:
                self._warn(problem)
            return
        if state.lasting:
            rounds.give_up(block)
            again = False
        why = problem or Problem("some of its runs failed")
        self._last[block] = why
        then = "it goes round again" if again else "it has gone round often enough"
        where = f"node {running.node.name}" + (f": {why.where}" if why.where else "")
        what = f"{said([block])} is not whole: {why.what}; {state.missing} of its runs are missing; {then}"
        self._warn(
            Problem(what if state.host else f"{said([block])} did not begin: {why.what}; {then}", where, why.hint)
        )

    def _end_silent(self, rounds: Rounds) -> None:
        """End tasks that are silent for too long, or that do not start."""
        for running in list(self._running):
            bound = self.bounds.silent if running.begun else self.bounds.begin
            if running.silent_s > (self.bounds.stop if running.refused else bound):
                self.cluster.cancel(running.task, hard=True)
                what = "it said nothing" if running.begun else "it did not begin: its CPUs may be another program's"
                self._over(rounds, running, Problem(f"{what} for {format_duration(bound)}"))

    def _stop(self) -> None:
        """Ask the running tasks to end, and wait a while for it. Their reports are ignored."""
        for running in self._running:
            running.receiver.close()
            self.cluster.cancel(running.task, hard=False)
        deadline = self.clock() + self.bounds.stop
        while self._running and self.clock() < deadline:
            by_task = {id(running.task): running for running in self._running}
            for task, item in self.cluster.poll([running.task for running in self._running], 1.0):
                if isinstance(item, Over):
                    self._running.remove(by_task[id(task)])
            self.send({"event": "beat"})
        for running in self._running:
            self.cluster.cancel(running.task, hard=True)

    # --- The display and messages --------------------------------------------------------------------

    def _show(self, rounds: Rounds, started_s: float) -> None:
        """Report the sweep's state twice a second: finished blocks, and the completed share of each running block."""
        if self.clock() - self._shown_s < _SHOWN_S:
            return
        self._shown_s = self.clock()
        whole = len(self.gathering.blocks) - len(rounds.missing)
        running = sum(one.done for one in self._running)
        each = max((one.seconds_left + (self.clock() - one.started_s) for one in self._running), default=0.0)
        turns = math.ceil(len(rounds.waiting) / max(1, len(self._nodes)))
        left = max((one.seconds_left for one in self._running), default=0.0) + turns * each
        done = (whole + running) / len(self.gathering.blocks)
        self.send({"event": "status", "home": self._home, "busy": len(self._running), "done": done, "left_s": left})

    def _say(self, text: str) -> None:
        self.send({"event": "said", "text": text})

    def _warn(self, problem: Problem) -> None:
        self.send({"event": "warned", **problem.as_dict()})


_MOST_TEXT = 2000


def _text(told: object) -> str:
    return printable(str(told)[:_MOST_TEXT])


def _number(told: object) -> float:
    """Return a number from a node's report, at least 0; 0 if it is not a number."""
    try:
        number = float(told) if isinstance(told, int | float) else 0.0
    except OverflowError:
        return 0.0
    return max(0.0, number) if math.isfinite(number) else 0.0
