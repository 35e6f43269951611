"""A node's side of a sweep on a cluster, without Ray: the process that does a block, and the files that it sends."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bufferlab import __version__, spec
from bufferlab.engines.native import native
from bufferlab.execute.fleet import node
from bufferlab.execute.fleet.dispatch import Gather
from bufferlab.execute.fleet.gathering import Gathering
from bufferlab.execute.fleet.node_options import NodeOptions
from bufferlab.execute.fleet.parcels import Item
from bufferlab.execute.fleet.receiver import Receiver
from bufferlab.execute.fleet.rounds import Node
from bufferlab.execute.host import fingerprint
from bufferlab.registry import open_sweep
from support.fake import Bench, wait_until
from support.fleet import StandIn, Told, runs_of
from support.ray_nodes import descendants

TOKEN = "a token that nobody else may see"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    bench = Bench(tmp_path)
    with bench.in_environment():
        yield bench


def _gathering(bench: Bench, **settings: Any) -> Gathering:
    experiment = spec.load(bench.experiment(repetitions=1, sweep='pool_size = ["5%", "80%"]', **settings))
    return Gathering.create(bench.out, experiment, [0], NodeOptions(share_device=True))


class Here(StandIn):
    """A cluster of one node, which is this process."""

    def nodes(self) -> list[Node]:
        return [Node("here", "here", 1)]

    def facts(self, nodes: Sequence[Node], order: Mapping[str, Any]) -> list[Any]:
        return [node.facts(order)]

    def begin(self, node_: Node, order: Mapping[str, Any]) -> Any:
        return node.do_block(order)

    def forget(self, nodes: Sequence[Node], sweep_id: str) -> None:
        node.forget(sweep_id)


def test_a_node_does_its_block_and_keeps_nothing_of_it(bench: Bench) -> None:
    gathering, told = _gathering(bench), Told()
    versions = {"bufferlab": __version__, "core": native().core_version()}
    assert Gather(Here([]), gathering, versions, told, lambda: False).do()["status"] == "whole"
    assert not list((bench.cache / "fleet").iterdir())
    merged, lacking = gathering.join()
    assert lacking == []
    assert {run[:2] for run in runs_of(merged.path)} == {(0, 0), (1, 0)}
    assert TOKEN not in "".join(path.read_text(errors="replace") for path in bench.root.rglob("*") if path.is_file())


def _order(gathering: Gathering) -> dict[str, Any]:
    state = gathering.state(0)
    return {
        "sweep_id": gathering.sweep_id,
        "experiment": spec.to_toml(gathering.experiment),
        "block": 0,
        "options": gathering.told_options,
        "device_wait_s": 5.0,
        "host": list(state.host) if state.host else None,
        "known": sorted(state.known),
        "done": sorted(state.done),
    }


def _take(receiver: Receiver, item: Item) -> bool:
    """Return whether a run has arrived completely."""
    if item["event"] == "begun":
        receiver.begun(resumed=item["resumed"])
    return item["event"] in ("parcel", "piece") and receiver.take(item) is not None


def test_a_block_that_is_cancelled_ends_its_processes_and_is_continued(bench: Bench) -> None:
    gathering = _gathering(bench, knobs="pace_ms = 300")
    task, receiver = node.do_block(_order(gathering)), Receiver(gathering, 0, "here")
    while not _take(receiver, next(task)):  # type: ignore[arg-type]
        pass

    def ours(module: bytes) -> list[int]:
        return [pid for pid in descendants(os.getpid()) if b"bufferlab.execute." + module in _read(pid, "cmdline")]

    wait_until(lambda: bool(ours(b"run.worker")), "a worker of the next run")
    environments = [_read(pid, "environ") for pid in ours(b"run.worker")]
    assert any(str(bench.cache).encode() in one for one in environments)
    assert not any(TOKEN.encode() in one for one in environments)
    with pytest.raises(KeyboardInterrupt):
        task.throw(KeyboardInterrupt)  # type: ignore[attr-defined]
    assert ours(b"") == []
    receiver.close()
    first = runs_of(gathering.part(0))
    assert len(first) == 1

    receiver, events = Receiver(gathering, 0, "here"), []
    for item in node.do_block(_order(gathering)):
        assert isinstance(item, dict)
        _take(receiver, item)
        events.append(item)
    assert events[0] == {"event": "begun", "resumed": True}
    assert events[-1] == {"event": "end", "failure": None}
    assert "sweep" not in [item["kind"] for item in events if item["event"] == "parcel"]
    assert first < runs_of(gathering.part(0))
    assert gathering.is_whole


def test_a_place_that_another_node_of_the_host_holds_is_waited_for_and_then_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    gathering = _gathering(bench)
    monkeypatch.setattr(node, "_HELD_S", 0.1)
    with node._room(_order(gathering)):
        (told,) = node.do_block(_order(gathering))
    assert told["event"] == "end"
    assert told["failure"]["kind"] == "environment"
    assert "another process is adding runs" in told["failure"]["what"]


def test_a_block_is_continued_by_the_booted_system_that_began_it_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a reboot, or if two nodes share a cache, the folder is another system's; the command may have its runs."""
    sweep = bench.measure(bench.experiment(repetitions=1)).folder
    room = bench.root / "room"
    (room / "out").mkdir(parents=True)
    done = node._BlockDone({"host": [sweep.host["host_id"], sweep.host["boot_key"]], "done": []}, room)
    begun = sweep.path.rename(room / "out" / sweep.path.name)
    assert done._continued() == begun
    monkeypatch.setattr(fingerprint, "boot_key", lambda: "another")
    assert done._continued() is None
    assert not begun.exists()


def test_a_folder_of_a_block_without_its_name_is_not_sent_nor_continued(tmp_path: Path) -> None:
    done = node._BlockDone({"host": None, "done": []}, tmp_path)
    unfinished = done.out / ".tmp-0123456789ab"
    unfinished.mkdir(parents=True)
    (unfinished / "plan.json").touch()
    assert done._folder() is None
    assert done._continued() is None
    assert not unfinished.exists()


def test_what_a_block_says_while_nobody_asks_is_dropped_but_for_the_end(tmp_path: Path) -> None:
    done = node._BlockDone({}, tmp_path)
    for number in range(3000):
        done._tell({"event": "said", "text": str(number)})
    done._tell({"event": "end", "failure": {"what": "x" * 5000, "where": None}})
    events = [done._next() for _ in range(1000)]
    assert (events[0]["text"], events[-1]["event"]) == ("2001", "end")
    assert len(events[-1]["failure"]["what"]) == 2000


def _read(pid: int, name: str) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""


def test_facts_are_those_of_a_sweep_here(bench: Bench) -> None:
    measured = open_sweep(bench.measure(bench.experiment(repetitions=1)).folder.path)
    gathering = _gathering(bench)
    found = node.facts(_order(gathering))
    assert found["versions"] == measured.plan["versions"]
    assert found["host"] == [measured.host["host_id"], measured.host["boot_key"]]
    assert {run.run.data_key for run in measured.runs()} == {*found["data_keys"]}
