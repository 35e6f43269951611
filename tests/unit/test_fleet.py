"""A sweep on a cluster, with a small stand-in for Ray: the runs that arrive, the refusals, and the events that end
it."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from bufferlab import spec
from bufferlab.errors import DataFileError, EnvironmentLackingError, Problem
from bufferlab.execute.fleet.fleet_sweep import resume_on_cluster
from bufferlab.execute.fleet.gathering import Gathering
from bufferlab.execute.fleet.node_options import NodeOptions
from bufferlab.execute.fleet.parcels import Arriving, Item
from bufferlab.execute.fleet.ray_cluster import Over
from bufferlab.execute.fleet.rounds import MOST_TRIES, Node
from bufferlab.execute.probes.block_trace_probe import BlockTraceAsked
from bufferlab.execute.probes.page_trace_probe import TraceWish
from bufferlab.execute.progress import Silent
from bufferlab.execute.sweep import SweepOptions
from support.fake import Bench
from support.fleet import BLOCKS, FACTS, VERSIONS, Says, StandIn, gathered, measured_parts, runs_of


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def experiment(bench: Bench) -> spec.Experiment:
    return spec.load(bench.experiment(repetitions=BLOCKS))


@pytest.fixture(scope="module")
def parts(bench: Bench, experiment: spec.Experiment) -> list[Path]:
    return measured_parts(bench)


@pytest.fixture
def gathering(experiment: spec.Experiment, tmp_path: Path) -> Gathering:
    return Gathering.create(tmp_path, experiment, range(BLOCKS), NodeOptions())


def test_two_nodes_do_three_blocks_and_home_merges_them(gathering: Gathering, parts: list[Path]) -> None:
    cluster = StandIn(parts)
    result, told = gathered(gathering, cluster)
    assert (result["status"], result["missing"]) == ("whole", [])
    assert {name for name, _ in cluster.orders} == {"one", "two"}
    assert "block 1 goes to one" in told.words
    assert "loading\\x1b[31m" in told.words
    merged, lacking = gathering.join()
    assert lacking == []
    assert runs_of(merged.path) == set[Any]().union(*map(runs_of, parts))
    assert merged.path == gathering.path.with_suffix("")
    assert not gathering.path.exists()
    assert cluster.forgotten == 1


def test_a_sweep_of_one_block_needs_no_merge(experiment: spec.Experiment, parts: list[Path], tmp_path: Path) -> None:
    gathering = Gathering.create(tmp_path, experiment, [1], NodeOptions())
    gathered(gathering, StandIn(parts))
    assert runs_of(gathering.join()[0].path) == runs_of(parts[1])


def _dies(after: int, times: int = 1) -> Callable[[StandIn, Node, Mapping[str, Any]], Says]:
    """Return a task in which the node of the first tasks dies after this many items."""
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
    assert runs_of(gathering.join()[0].path) == set[Any]().union(*map(runs_of, parts))


def test_a_block_that_fails_goes_round_twice_and_what_is_home_stays(gathering: Gathering, parts: list[Path]) -> None:
    def fails(cluster: StandIn, node: Node, order: Mapping[str, Any]) -> Says:
        yield from [] if order["block"] == 1 else cluster.does(node, order)
        yield {"event": "end", "failure": {"kind": "environment", "what": "the device is in use", "hint": "wait"}}

    cluster = StandIn(parts, work=fails)
    result, told = gathered(gathering, cluster)
    assert (result["status"], result["missing"]) == ("missing", [1])
    assert [order["block"] for _, order in cluster.orders].count(1) == MOST_TRIES
    assert result["problems"]["1"]["what"] == "the device is in use"
    assert cluster.forgotten == 0, "the nodes keep what --resume goes on with"
    assert "it has gone round often enough" in told.words
    again, _ = gathered(Gathering.open(gathering.path), StandIn(parts))
    assert again["status"] == "whole", "--resume does the rest"
    assert runs_of(gathering.join()[0].path) == set[Any]().union(*map(runs_of, parts))


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
    return _changed(items, rb'("blocks": \[\n  )1', rb"\g<1>2")


def _other_data(items: Says) -> Says:
    return _changed(items, rb'("database_bytes": )\d', rb"\g<1>9")


def _changed(items: Says, pattern: bytes, to: bytes) -> Says:
    """Yield the same items with some bytes replaced by as many other bytes."""
    for item in items:
        if isinstance(item, dict) and item["event"] == "piece":
            item = {**item, "data": re.sub(pattern, to, item["data"])}
        yield item


def _begins_twice(items: Says) -> Says:
    yield {"event": "begun", "resumed": True}
    yield from items


def _never_begins(items: Says) -> Says:
    next(items)
    yield from items


def _files_without_name(items: Says) -> Says:
    for item in items:
        is_run = isinstance(item, dict) and item.get("kind") == "run"
        yield {**item, "files": {**item["files"], "zz": 0}} if isinstance(item, dict) and is_run else item


def _a_run_again_and_again(items: Says) -> Says:
    run: list[Item] = []
    for item in items:
        if isinstance(item, dict) and item["event"] in ("parcel", "piece"):
            run = [] if item["event"] == "parcel" else run
            run.append(item)
        if item == {"event": "end", "failure": None}:
            for _ in range(99):
                yield from run
        yield item


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (_piece_too_much, "a piece of no parcel"),
        (_altered, "changed after it was written|is damaged|not what was written|truncated"),
        (_no_sweep, "before or after its time|piece of no parcel"),
        (_another_block, "plan of block 3"),
        (_other_data, "the plan of this node is not that of block 1: .* database_bytes, points differ"),
        (_begins_twice, "a second beginning of its block"),
        (_never_begins, "a parcel before its block had begun"),
        (_files_without_name, "other files than run.json names"),
        (_a_run_again_and_again, "more runs than its block has"),
    ],
)
def test_what_no_node_of_ours_would_send_is_refused_and_does_not_count(
    gathering: Gathering, parts: list[Path], spoil: Callable[[Says], Says], what: str
) -> None:
    def work(cluster: StandIn, node: Node, order: Mapping[str, Any]) -> Says:
        items = cluster.does(node, order)
        return spoil(items) if node.name == "one" and order["block"] == 1 else items

    # The only node does block 2 first; then a good node does the missing blocks.
    cluster = StandIn(parts, names=["one"], work=work)
    result, told = gathered(gathering, cluster)
    assert re.search(what, told.words), told.words
    for block in result["missing"]:
        assert gathering.state(block).missing
    result, _ = gathered(gathering, StandIn(parts, names=["good"]))
    assert result["status"] == "whole"
    assert runs_of(gathering.join()[0].path) == set[Any]().union(*map(runs_of, parts))


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


@pytest.mark.parametrize("listens", [True, False])
def test_a_node_is_silent_only_while_home_listens(
    gathering: Gathering, parts: list[Path], monkeypatch: pytest.MonkeyPatch, listens: bool
) -> None:
    """The command may check a large trace for minutes; messages that arrive meanwhile wait."""
    now, cluster, check = [0.0], StandIn(parts), Gathering.check

    def poll(tasks: Sequence[Any], seconds: float) -> list[Any]:
        now[0] += 1000 * listens
        heard = tasks[1:] if listens and now[0] < 3000 else tasks
        return [(task, next(task, Over())) for task in heard]

    def slow_check(self: Gathering, block: int) -> None:
        now[0] += 1000
        check(self, block)

    monkeypatch.setattr(Gathering, "check", slow_check)
    cluster.poll = poll  # type: ignore[method-assign]
    result, told = gathered(gathering, cluster, clock=lambda: now[0])
    assert result["status"] == "whole"
    assert ("it did not begin" in told.words) == listens


def test_a_node_that_is_refused_and_goes_on_is_ended(gathering: Gathering, parts: list[Path]) -> None:
    def babbles(cluster: StandIn, node: Node, order: Mapping[str, Any]) -> Any:
        return _Babble(order) if node.name == "one" else cluster.does(node, order)

    cluster = StandIn(parts, work=babbles)
    result, told = gathered(gathering, cluster, stop=0.0)
    assert result["status"] == "whole"
    assert True in cluster.cancelled
    assert "a piece of no parcel" in told.words


class _Babble:
    """A task that does not end on request."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self._items = iter([{"event": "begun", "resumed": bool(order["host"])}])

    def __iter__(self) -> _Babble:
        return self

    def __next__(self) -> Item:
        return next(self._items, {"event": "piece", "data": b"more"})

    def close(self) -> None:
        pass


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
        ({"host": ["a", "b", "c"]}, "it does not tell its facts"),
        ({"data_keys": "k"}, "it does not tell its facts"),
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
    assert runs_of(gathering.join()[0].path) == set[Any]().union(*map(runs_of, parts))


def test_a_run_that_is_sent_again_is_taken_once(gathering: Gathering, parts: list[Path]) -> None:
    """The node's host continues its block and ignores the list of runs that the command has already."""

    def sends_all(cluster: StandIn, node: Node, order: Mapping[str, Any]) -> Says:
        runs = 0
        for item in cluster.does(node, {**order, "known": []}):
            runs += isinstance(item, dict) and item.get("kind") == "run"
            if order["block"] == 1 and not order["known"] and runs == 2:
                return
            yield item

    result, told = gathered(gathering, StandIn(parts, work=sends_all))
    assert result["status"] == "whole"
    assert told.words.count(" is home") == len(set[Any]().union(*map(runs_of, parts)))
    assert runs_of(gathering.join()[0].path) == set[Any]().union(*map(runs_of, parts))


STORED = {
    "format": "bufferlab-fleet",
    "format_version": 1,
    "sweep_id": "0123456789ab",
    "blocks": [0],
    "options": {},
}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (None, "fleet.json is truncated or damaged"),
        ({"format": "bufferlab-sweep"}, "fleet.json is damaged at format"),
        ({"format_version": 2}, "fleet.json is damaged at format_version"),
        ({"sweep_id": "../x"}, "fleet.json is damaged at sweep_id"),
        ({"blocks": []}, "fleet.json is damaged at blocks"),
        ({"blocks": [-1]}, "fleet.json is damaged at blocks"),
        ({"blocks": [7, 0]}, "fleet.json has blocks 1, 8, which the plan lacks"),
        ({"options": {"share_device": "so"}}, "fleet.json is damaged at options"),
        ({"options": {"page_trace": {"limit_bytes": "all"}}}, "fleet.json is damaged at options"),
        ({"options": {"page_trace": {"unwanted": True, "limit_bytes": 1}}}, "fleet.json is damaged at options"),
    ],
)
def test_a_folder_that_was_altered_is_refused(gathering: Gathering, change: dict[str, Any] | None, what: str) -> None:
    (gathering.path / "fleet.json").write_text(json.dumps({**STORED, **change}) if change else "[")
    with pytest.raises(DataFileError, match=what):
        Gathering.open(gathering.path)


def test_a_folder_with_a_link_is_refused(gathering: Gathering, parts: list[Path]) -> None:
    gathering.part(0).symlink_to(parts[0])
    with pytest.raises(DataFileError, match="this is a link"):
        Gathering.open(gathering.path)


@given(
    options=st.builds(
        SweepOptions,
        data_dir=st.none() | st.just(Path("/data")),
        share_device=st.booleans(),
        keeps_restored=st.booleans(),
        probes=st.just(()) | st.tuples(st.builds(BlockTraceAsked, st.integers(1, 1 << 30), st.booleans())),
        page_trace=st.builds(
            TraceWish,
            by_name=st.booleans(),
            limit_bytes=st.none() | st.integers(1, 1 << 40),
            keep=st.sampled_from([None, "one", "all"]),
        ),
    )
)
def test_options_of_a_command_come_to_its_nodes_as_they_are(options: SweepOptions) -> None:
    told = json.loads(json.dumps(asdict(NodeOptions.of(options))))
    arrived = TypeAdapter(NodeOptions).validate_python(told)
    assert arrived.for_block(2, 60.0) == replace(options, blocks=(2,), device_wait_s=60.0)


@pytest.mark.parametrize("foreseen", [True, False])
def test_a_full_disk_at_home_ends_the_sweep_and_what_is_home_is_kept(
    gathering: Gathering, parts: list[Path], monkeypatch: pytest.MonkeyPatch, foreseen: bool
) -> None:
    """The command is refused before a parcel comes, or ends when the disk refuses a piece."""
    taken, real = [0], Arriving.take

    def take(self: Arriving, data: object) -> None:
        taken[0] += 1
        if taken[0] > 20 and not foreseen:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(self, data)

    def disk_usage(path: Path) -> Any:
        return _usage(1, 1, 0 if taken[0] > 20 and foreseen else 1 << 40)

    with monkeypatch.context() as patch:
        patch.setattr(Arriving, "take", take)
        patch.setattr(shutil, "disk_usage", disk_usage)
        cluster = StandIn(parts)
        with pytest.raises(EnvironmentLackingError, match="cannot be written: No space left on device") as refused:
            gathered(gathering, cluster)
    assert refused.value.hint == (f"the runs that are home are kept; free some space, then: {gathering.resume_command}")
    assert cluster.cancelled, "the nodes are asked to end"
    assert not list(gathering.path.rglob(".tmp-*"))
    assert any(gathering.state(block).done for block in range(BLOCKS))
    assert gathered(gathering, StandIn(parts))[0]["status"] == "whole"


_usage = namedtuple("_usage", ["total", "used", "free"])


def test_what_is_whole_is_merged_without_a_cluster(gathering: Gathering, parts: list[Path]) -> None:
    """The command may have been killed before it merged the complete blocks."""
    gathered(gathering, StandIn(parts))
    merged, lacking = resume_on_cluster(gathering.path, "nobody.invalid:1", Silent())
    assert lacking == []
    assert runs_of(merged.path) == set[Any]().union(*map(runs_of, parts))


def test_lists_that_may_be_data_are_kept_from_others_at_home_too(
    gathering: Gathering, parts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bufferlab.execute.fleet.receiver.experiment_mode", lambda text: 0o600)
    gathered(gathering, StandIn(parts))
    modes = {stat.S_IMODE((gathering.part(block) / "experiment.toml").stat().st_mode) for block in range(BLOCKS)}
    assert modes == {0o600}
