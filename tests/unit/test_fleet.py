"""A sweep on a cluster, with a small stand-in for Ray: rounds, what comes home, and what is refused."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bufferlab import spec
from bufferlab.errors import BufferlabError, DataFileError, EnvironmentLackingError, Problem
from bufferlab.execute.fleet.cluster import Over
from bufferlab.execute.fleet.gather import Bounds, Gather
from bufferlab.execute.fleet.gathering import Gathering, host_of
from bufferlab.execute.fleet.parcels import PIECE_BYTES, SWEEP_FILES, Arriving, Item, packed
from bufferlab.execute.fleet.rounds import MOST_TRIES, Host, Node, Rounds
from bufferlab.execute.sweep import SweepOptions
from bufferlab.registry import open_sweep
from support.fake import Bench

BLOCKS = 3
VERSIONS = {"bufferlab": "1", "core": "2"}
FACTS = {"versions": {**VERSIONS, "python": "3.11", "sqlite": "3.50"}, "data_keys": ["k"]}
OPTIONS = {"page_trace": {"limit_bytes": None}}


# --- Rounds ------------------------------------------------------------------------------------------


@given(st.data())
def test_each_block_is_whole_in_the_end_or_was_tried_three_times_and_no_node_does_two(data: st.DataObject) -> None:
    nodes = [
        Node(str(number), str(number), 1, (str(number // 2), "")) for number in range(data.draw(st.integers(1, 4)))
    ]
    blocks = range(data.draw(st.integers(0, 6)))
    rounds, tried, whole = Rounds((block, None) for block in blocks), dict.fromkeys(blocks, 0), set[int]()
    running: dict[Node, int] = {}
    while rounds.waiting or running:
        for node in nodes:
            if node not in running and (block := rounds.begin(node, nodes)) is not None:
                assert block not in running.values()
                assert block not in whole
                running[node], tried[block] = block, tried[block] + 1
        assert running, "an idle cluster has nothing to do, and blocks wait"
        node = data.draw(st.sampled_from(sorted(running, key=lambda one: one.node_id)))
        block = running.pop(node)
        ends_well, has_runs = data.draw(st.booleans()), data.draw(st.booleans())
        again = rounds.end(block, node, whole=ends_well, host=node.host if has_runs else None)
        assert again == (not ends_well and tried[block] < MOST_TRIES)
        if ends_well:
            whole.add(block)
        if len(nodes) > 1 and data.draw(st.booleans()):
            nodes.remove(data.draw(st.sampled_from([one for one in nodes if one not in running] or nodes[:1])))
            running = {node: block for node, block in running.items() if node in nodes}
            for lost in [block for block in tried if block in rounds._begun and block not in running.values()]:
                rounds.end(lost, Node("gone", "gone", 1), whole=False, host=None)
    assert set(rounds.missing) == {block for block in blocks if block not in whole}
    assert all(tried[block] == MOST_TRIES for block in rounds.missing)


def test_runs_that_are_home_are_continued_by_their_host_once_and_then_by_another() -> None:
    here, there = Node("a", "a", 2, ("h", "1")), Node("b", "b", 2, ("h", "2"))
    rounds = Rounds([(0, here.host)])
    assert rounds.begin(there, [here, there]) is None, "its host is alive"
    assert rounds.begin(here, [here, there]) == 0
    assert rounds.end(0, here, whole=False, host=here.host)
    assert rounds.begin(there, [here, there]) is None
    assert rounds.begin(here, [here, there]) == 0
    assert rounds.end(0, here, whole=False, host=here.host)
    assert rounds.begin(here, [here, there]) is None, "it has failed there twice"
    assert rounds.begin(there, [here, there]) == 0
    assert not rounds.end(0, there, whole=False, host=None)
    assert (rounds.waiting, rounds.missing) == ([], [0])


def test_a_block_whose_host_is_gone_goes_to_any_node() -> None:
    other = Node("b", "b", 2, ("h", "2"))
    assert Rounds([(4, ("h", "1"))]).begin(other, [other]) == 4


# --- Parcels -----------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(sizes=st.lists(st.one_of(st.just(0), st.integers(0, 3 * PIECE_BYTES)), min_size=1, max_size=4))
def test_a_parcel_arrives_as_it_was_sent(sizes: list[int], tmp_path_factory: pytest.TempPathFactory) -> None:
    sent, arrived = tmp_path_factory.mktemp("sent"), tmp_path_factory.mktemp("arrived")
    for number, size in enumerate(sizes):
        (sent / f"file-{number}").write_bytes(os.urandom(size))
    header, *pieces = packed("run", "0" * 16, sent, sorted(os.listdir(sent)))
    arriving = Arriving(header, arrived, 0, "a node")
    assert arriving.bytes_left == sum(sizes)
    for piece in pieces:
        assert not arriving.is_whole
        arriving.take(piece["data"])
    assert arriving.is_whole
    assert {path.name: path.read_bytes() for path in sent.iterdir()} == {
        path.name: path.read_bytes() for path in arrived.iterdir()
    }


HEADER = {"event": "parcel", "kind": "run", "name": "0" * 16, "files": {"run.json": 3}}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"kind": "program"}, "none of a sweep"),
        ({"name": "../../etc"}, "a run with the name"),
        ({"name": None}, "a run with the name"),
        ({"files": {}}, "none of a sweep"),
        ({"files": {str(number): 1 for number in range(99)}}, "none of a sweep"),
        ({"files": {"../run.json": 1}}, "a file with the name"),
        ({"files": {".bufferlab-mark": 1}}, "a file with the name"),
        ({"files": {"run.json": 1 << 40}}, "run.json of"),
        ({"files": {"page-trace.parquet": 1 << 40}}, "page-trace.parquet of"),
        ({"files": {"run.json": -1}}, "run.json of"),
        ({"files": {"run.json": True}}, "run.json of"),
        ({"files": {"run.json": "3"}}, "run.json of"),
        ({"kind": "sweep"}, "files that a sweep folder does not have"),
    ],
)
def test_a_header_that_no_node_of_ours_would_send_is_refused(tmp_path: Path, change: dict[str, Any], what: str) -> None:
    with pytest.raises(DataFileError, match=what):
        Arriving({**HEADER, **change}, tmp_path, 1 << 30, "a node")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("data", [b"", b"four", "abc", None])
def test_a_piece_that_was_not_announced_is_refused(tmp_path: Path, data: object) -> None:
    arriving = Arriving(HEADER, tmp_path, 0, "a node")
    with pytest.raises(DataFileError, match="the node sent a piece of"):
        arriving.take(data)


def test_a_link_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "run.json").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic"):
        list(packed("run", "0" * 16, tmp_path, ["run.json"]))


# --- A sweep -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def experiment(bench: Bench) -> spec.Experiment:
    return spec.load(bench.experiment(repetitions=BLOCKS))


@pytest.fixture(scope="module")
def parts(bench: Bench, experiment: spec.Experiment) -> list[Path]:
    """What the nodes would have measured, a sweep folder for each block."""
    return [
        bench.measure(bench.experiment(repetitions=BLOCKS), options=SweepOptions(blocks=(block,))).folder.path
        for block in range(BLOCKS)
    ]


Says = Iterator[Item | Over]


@dataclass
class StandIn:
    """What `Gather` asks of Ray: tasks are iterators, and nodes send the folders that are there."""

    parts: Sequence[Path]
    names: list[str] = field(default_factory=lambda: ["one", "two"])
    told: Mapping[str, Any] = field(default_factory=dict)
    """Facts of single nodes, in place of the usual ones."""
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
        """A block, as a node of this host sends it that continues what was begun."""
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


@pytest.fixture
def gathering(experiment: spec.Experiment, tmp_path: Path) -> Gathering:
    return Gathering.create(tmp_path, experiment, range(BLOCKS), OPTIONS)


def gathered(
    gathering: Gathering, cluster: StandIn, stopped: Callable[[], bool] = lambda: False, **bounds: float
) -> tuple[dict[str, Any], Told]:
    told = Told()
    bounds = {"no_node": 0.0, "look": 0.0, **bounds}
    result = Gather(cluster, gathering, VERSIONS, told, stopped, Bounds(**bounds)).do()  # type: ignore[arg-type]
    assert not list(gathering.path.rglob(".tmp-*"))
    return result, told


def _runs(path: Path) -> set[tuple[int, int, str]]:
    return {(record.run.point.index, record.run.block, record.run_id) for record in open_sweep(path).runs()}


def test_two_nodes_do_three_blocks_and_home_merges_them(gathering: Gathering, parts: list[Path]) -> None:
    cluster = StandIn(parts)
    result, told = gathered(gathering, cluster)
    assert (result["status"], result["missing"]) == ("whole", [])
    assert {name for name, _ in cluster.orders} == {"one", "two"}
    assert "block 1 goes to one" in told.words
    assert "loading\\x1b[31m" in told.words
    merged, lacking = gathering.join()
    assert lacking == []
    assert _runs(merged.path) == set[Any]().union(*map(_runs, parts))
    assert merged.path == gathering.path.with_suffix("")
    assert not gathering.path.exists()
    assert cluster.forgotten == 1


def test_a_sweep_of_one_block_needs_no_merge(experiment: spec.Experiment, parts: list[Path], tmp_path: Path) -> None:
    gathering = Gathering.create(tmp_path, experiment, [1], OPTIONS)
    gathered(gathering, StandIn(parts))
    assert _runs(gathering.join()[0].path) == _runs(parts[1])


def _dies(after: int, times: int = 1) -> Callable[[StandIn, Node, Mapping[str, Any]], Says]:
    """The node of the first tasks dies after so many items."""
    left = [times]

    def work(cluster: StandIn, node: Node, order: Mapping[str, Any]) -> Says:
        dies = left[0] > 0 and order["block"] == 1
        left[0] -= dies
        for number, item in enumerate(cluster.does(node, order)):
            if dies and number == after:
                cluster.names.remove(node.name)
                yield Over(Problem("the node died"))
                return
            yield item

    return work


@pytest.mark.parametrize("after", range(0, 24, 4))
def test_a_node_that_dies_loses_no_run_and_no_run_is_counted_twice(
    gathering: Gathering, parts: list[Path], after: int
) -> None:
    cluster = StandIn(parts, work=_dies(after))
    result, told = gathered(gathering, cluster)
    assert result["status"] == "whole"
    if len(cluster.names) == 1:
        assert "block 2 " in told.words
        assert "it goes round again" in told.words
        assert "a node of the cluster is gone" in told.words
    assert _runs(gathering.join()[0].path) == set[Any]().union(*map(_runs, parts))


def test_a_block_that_fails_goes_round_twice_and_what_is_home_stays(gathering: Gathering, parts: list[Path]) -> None:
    def fails(cluster: StandIn, node: Node, order: Mapping[str, Any]) -> Says:
        yield from [] if order["block"] == 1 else cluster.does(node, order)
        yield {"event": "end", "failure": {"kind": "environment", "what": "the device is in use", "hint": "wait"}}

    cluster = StandIn(parts, work=fails)
    result, told = gathered(gathering, cluster)
    assert (result["status"], result["missing"]) == ("missing", [1])
    assert [order["block"] for _, order in cluster.orders].count(1) == MOST_TRIES
    assert result["problems"]["1"]["what"] == "the device is in use"
    assert "it has gone round often enough" in told.words
    again, _ = gathered(Gathering.open(gathering.path), StandIn(parts))
    assert again["status"] == "whole", "--resume does the rest"
    assert _runs(gathering.join()[0].path) == set[Any]().union(*map(_runs, parts))


def test_another_host_begins_a_block_anew_and_what_was_home_is_set_aside(
    gathering: Gathering, parts: list[Path]
) -> None:
    def begins_anew(cluster: StandIn, node: Node, order: Mapping[str, Any]) -> Says:
        items = cluster.does(node, {**order, "host": None, "known": []})
        for number, item in enumerate(items):
            if not order["host"] and order["block"] == 0 and number == 10:
                return
            yield item

    result, _ = gathered(gathering, StandIn(parts, work=begins_anew))
    assert result["status"] == "whole"
    aside = list((gathering.path / "superseded").iterdir())
    assert [path.name for path in aside] == ["block-1"]


def _piece_too_much(items: Says) -> Says:
    yield next(items)
    yield {"event": "piece", "data": b"more"}
    yield from items


def _altered(items: Says) -> Says:
    for item in items:
        if isinstance(item, dict) and item["event"] == "piece" and len(item["data"]) > 1000:
            item = {**item, "data": item["data"][:-1] + b"?"}
        yield item


def _no_sweep(items: Says) -> Says:
    return (item for item in items if not (isinstance(item, dict) and item.get("kind") == "sweep"))


def _another_block(items: Says) -> Says:
    for item in items:
        if isinstance(item, dict) and item["event"] == "piece" and b'"blocks": [\n  1' in item["data"]:
            item = {**item, "data": item["data"].replace(b'"blocks": [\n  1', b'"blocks": [\n  2')}
        yield item


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (_piece_too_much, "a piece of no parcel"),
        (_altered, "changed after it was written|is damaged|not what was written|truncated"),
        (_no_sweep, "before or after its time|piece of no parcel"),
        (_another_block, "plan of block 3"),
    ],
)
def test_what_no_node_of_ours_would_send_is_refused_and_does_not_count(
    gathering: Gathering, parts: list[Path], spoil: Callable[[Says], Says], what: str
) -> None:
    def work(cluster: StandIn, node: Node, order: Mapping[str, Any]) -> Says:
        items = cluster.does(node, order)
        return spoil(items) if node.name == "one" and order["block"] == 1 else items

    # One node alone does block 2 first, and a good one does what is missing.
    cluster = StandIn(parts, names=["one"], work=work)
    result, told = gathered(gathering, cluster)
    assert re.search(what, told.words), told.words
    for block in result["missing"]:
        assert gathering.state(block).missing
    result, _ = gathered(gathering, StandIn(parts, names=["good"]))
    assert result["status"] == "whole"
    assert _runs(gathering.join()[0].path) == set[Any]().union(*map(_runs, parts))


def test_a_node_that_says_nothing_is_ended_and_its_block_goes_to_another(
    gathering: Gathering, parts: list[Path]
) -> None:
    def silent(cluster: StandIn, node: Node, order: Mapping[str, Any]) -> Says:
        return _Silence() if node.name == "one" else cluster.does(node, order)  # type: ignore[return-value]

    cluster = StandIn(parts, work=silent)
    cluster.poll = lambda tasks, seconds: [  # type: ignore[method-assign]
        (task, next(task, Over())) for task in tasks if not isinstance(task, _Silence)
    ]
    result, told = gathered(gathering, cluster, begin=0.0)
    assert result["status"] == "whole"
    assert True in cluster.cancelled
    assert "it did not begin: its CPUs may be another program's" in told.words


class _Silence:
    def close(self) -> None:
        pass


def test_a_stop_ends_the_tasks_and_keeps_what_is_home(gathering: Gathering, parts: list[Path]) -> None:
    asked = iter([False] * 12)
    result, _ = gathered(gathering, StandIn(parts), lambda: next(asked, True))
    assert result["status"] == "interrupted"
    assert result["missing"] == [0, 1, 2]
    assert any(gathering.part(block).exists() for block in range(BLOCKS))
    assert gathered(gathering, StandIn(parts))[0]["status"] == "whole"


def test_no_node_left_ends_the_sweep(gathering: Gathering, parts: list[Path]) -> None:
    cluster = StandIn(parts, names=["one"], work=_dies(8))
    result, _ = gathered(gathering, cluster)
    assert (result["status"], result["missing"]) == ("missing", [1, 2])


@pytest.mark.parametrize(
    ("told", "what"),
    [
        ({"versions": {**FACTS["versions"], "core": "3"}}, "it has core 3, and .* 2"),  # type: ignore[dict-item]
        ({"versions": {**FACTS["versions"], "bufferlab": "9"}}, "it has bufferlab 9, and .* 1"),  # type: ignore[dict-item]
        ({"versions": {**FACTS["versions"], "sqlite": "3.51"}}, "it has sqlite 3.51, and node one has 3.50"),  # type: ignore[dict-item]
        ({"versions": VERSIONS}, "it has sqlite none, and node one has 3.50"),
        ({"data_keys": ["other"]}, "its data would be other data: data_key other, and node one has k"),
        ({"host": None}, "it does not tell its facts"),
        ({"versions": None}, "it does not tell its facts"),
    ],
)
def test_a_node_that_differs_is_refused_by_name(
    gathering: Gathering, parts: list[Path], told: dict[str, Any], what: str
) -> None:
    cluster = StandIn(parts)
    cluster.told = {"two": {**FACTS, "host": list(cluster.host), **told}}
    with pytest.raises(EnvironmentLackingError, match=what) as refused:
        gathered(gathering, cluster)
    assert str(refused.value.where).startswith("node two")
    assert cluster.orders == []


def test_another_python_is_no_other_version(gathering: Gathering, parts: list[Path]) -> None:
    cluster = StandIn(parts)
    versions = {**FACTS["versions"], "python": "3.99"}  # type: ignore[dict-item]
    cluster.told = {"two": {**FACTS, "host": list(cluster.host), "versions": versions}}
    assert gathered(gathering, cluster)[0]["status"] == "whole"


def test_a_node_without_bufferlab_and_a_cluster_without_nodes_are_refused(
    gathering: Gathering, parts: list[Path]
) -> None:
    lacking = Problem("its Python has no such bufferlab", None, "install it")
    for cluster, what in (
        (StandIn(parts, told={"one": lacking}), "no such bufferlab"),
        (StandIn(parts, names=[]), "no node"),
    ):
        with pytest.raises(EnvironmentLackingError, match=what) as refused:
            gathered(gathering, cluster)
        assert refused.value.hint


def test_an_altered_block_is_done_anew(gathering: Gathering, parts: list[Path]) -> None:
    gathered(gathering, StandIn(parts))
    sample = min(gathering.part(1).glob("runs/*/samples.parquet"))
    sample.write_bytes(b"?" + sample.read_bytes()[1:])
    result, told = gathered(gathering, StandIn(parts))
    assert result["status"] == "whole"
    assert "block 2 is done anew" in told.words
    assert _runs(gathering.join()[0].path) == set[Any]().union(*map(_runs, parts))


def test_a_part_is_not_taken_twice(gathering: Gathering, parts: list[Path]) -> None:
    gathered(gathering, StandIn(parts))
    shutil.copytree(parts[0], gathering.part(0), dirs_exist_ok=True)
    result, _ = gathered(gathering, StandIn(parts))
    assert result["status"] == "whole"


@pytest.mark.parametrize(
    "told",
    ["{}", '{"format": "bufferlab-fleet", "format_version": 1, "sweep_id": "../x", "blocks": [0], "options": {}}', "["],
)
def test_a_folder_that_was_altered_is_refused(gathering: Gathering, told: str) -> None:
    (gathering.path / "fleet.json").write_text(told)
    with pytest.raises(BufferlabError, match=r"fleet\.json") as refused:
        Gathering.open(gathering.path)
    assert refused.value.exit_code == 65
