"""The end of a sweep on a cluster: refused settings, a lost head, and kills while its blocks are merged."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from bufferlab import spec
from bufferlab.errors import BufferlabError, EnvironmentLackingError, Failure, RunFailed
from bufferlab.execute.fleet import fleet_sweep
from bufferlab.execute.fleet import gathering as module
from bufferlab.execute.fleet.fleet_sweep import resume_on_cluster
from bufferlab.execute.fleet.gathering import Gathering
from bufferlab.execute.fleet.node_options import NodeOptions
from bufferlab.execute.host import storage
from bufferlab.execute.progress import Silent
from bufferlab.execute.run.supervise import Outcome
from bufferlab.execute.sweep import SweepOptions
from support.fake import Bench
from support.fleet import BLOCKS, StandIn, gathered, measured_parts, runs_of


class Killed(BaseException):
    """The exception that a test raises in place of a kill of the process."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def parts(bench: Bench) -> list[Path]:
    return measured_parts(bench)


def whole(bench: Bench, parts: list[Path], out: Path, blocks: range) -> Gathering:
    """Return a sweep of these blocks, whose files have all arrived."""
    gathering = Gathering.create(out, spec.load(bench.experiment(repetitions=BLOCKS)), blocks, NodeOptions())
    assert gathered(gathering, StandIn(parts))[0]["status"] == "whole"
    return gathering


def killed(*_: Any, **__: Any) -> None:
    raise Killed


@pytest.mark.parametrize("moment", ["_keep_superseded", "remove"])
def test_a_resume_after_a_kill_takes_the_folder_that_was_merged(
    bench: Bench, parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    gathering = whole(bench, parts, tmp_path, range(BLOCKS))
    stem = gathering.path.stem
    (tmp_path / stem).mkdir()  # Another user's folder has the name, so the sweep gets a number.
    with monkeypatch.context() as patch:
        patch.setattr(Gathering, moment, killed)
        with pytest.raises(Killed):
            gathering.join()
    merged, lacking = Gathering.open(gathering.path).join()
    assert lacking == []
    assert merged.path == tmp_path / f"{stem}-2"
    assert runs_of(merged.path) == set[Any]().union(*map(runs_of, parts))
    assert {path.name for path in tmp_path.iterdir()} == {stem, f"{stem}-2"}


def test_a_folder_with_other_runs_is_not_taken_for_the_merged_one(
    bench: Bench, parts: list[Path], tmp_path: Path
) -> None:
    gathering = whole(bench, parts, tmp_path, range(BLOCKS))
    other = shutil.copytree(parts[0], tmp_path / gathering.path.stem)
    merged, _ = gathering.join()
    assert merged.path != other
    assert runs_of(merged.path) == set[Any]().union(*map(runs_of, parts))


def test_a_sweep_of_one_block_is_not_to_be_resumed_once_it_has_its_name(
    bench: Bench, parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gathering = whole(bench, parts, tmp_path, range(1, 2))
    with monkeypatch.context() as patch:
        patch.setattr(module, "open_sweep", killed)
        with pytest.raises(Killed):
            gathering.join()
    assert [path.name for path in tmp_path.iterdir()] == [gathering.path.stem]
    assert runs_of(tmp_path / gathering.path.stem) == runs_of(parts[1])


def test_a_kill_while_the_folder_is_removed_leaves_nothing_to_resume_and_the_next_sweep_removes_it(
    bench: Bench, parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gathering = whole(bench, parts, tmp_path, range(BLOCKS))
    with monkeypatch.context() as patch:
        patch.setattr(module.marked, "remove", killed)
        with pytest.raises(Killed):
            gathering.join()
    assert not gathering.path.exists()
    with storage.locked(tmp_path):
        storage.clean_temporaries(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [gathering.path.stem]


def test_nodes_keep_nothing_of_a_sweep_that_ends_with_refused_settings(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench")
    experiment = bench.experiment(sweep='behave = ["other_setting", "ok"]', repetitions=2)
    parts = [
        bench.measure(experiment, options=SweepOptions(blocks=(block,)), failing=1).folder.path for block in range(2)
    ]
    gathering = Gathering.create(tmp_path / "out", spec.load(experiment), range(2), NodeOptions())
    cluster = StandIn(parts)
    result, _ = gathered(gathering, cluster)
    assert (result["status"], result["missing"]) == ("missing", [0, 1])
    assert cluster.forgotten == 1
    assert len(gathering.join()[1]) == 2


@pytest.mark.parametrize("arrived", [True, False])
def test_runs_that_were_set_aside_outlive_the_head_of_the_cluster(
    bench: Bench, parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    """A second host had begun the block again, but none of its files has arrived. A folder without runs is removed."""
    experiment = spec.load(bench.experiment(repetitions=BLOCKS))
    gathering = Gathering.create(tmp_path, experiment, range(BLOCKS), NodeOptions())

    def dies(*_: Any, **__: Any) -> Outcome:
        if arrived:
            shutil.copytree(parts[0], gathering.part(0))
            gathering.set_aside(0)
        return Outcome(None, Failure("the worker was ended by SIGKILL", kind="crash"), "")

    monkeypatch.setattr(fleet_sweep, "require_cluster", lambda address: [])
    monkeypatch.setattr(fleet_sweep, "supervise", dies)
    with pytest.raises(BufferlabError, match="the connection with the cluster was lost") as lost:
        resume_on_cluster(gathering.path, "h:1", Silent())
    assert isinstance(lost.value, RunFailed if arrived else EnvironmentLackingError)
    assert gathering.path.exists() == arrived
    if arrived:
        assert runs_of(gathering.path / "superseded" / "block-1") == runs_of(parts[0])
