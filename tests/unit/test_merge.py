"""Blocks of one plan in several folders: merged, they equal a sweep done at once; every folder that must not be merged
is refused."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bufferlab import spec
from bufferlab.errors import BufferlabError, SpecError
from bufferlab.execute import merge as merging
from bufferlab.execute import resume
from bufferlab.execute.host import fingerprint
from bufferlab.execute.merge import merge
from bufferlab.execute.sweep import SweepOptions, run_sweep
from bufferlab.registry import open_sweep
from bufferlab.report.build import build
from bufferlab.results import store
from bufferlab.results.blocks import in_words, parse_blocks
from bufferlab.results.page_traces import OtherPools
from bufferlab.results.store import SweepFolder
from support.fake import Bench
from support.synthetic import reseal

PLANNED = 3


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> SweepFolder:
    return _measured(tmp_path_factory.mktemp("whole"), None)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the folders of three equal hosts, each with one block of the plan; tests must not change them."""
    return [_measured(tmp_path_factory.mktemp("part"), (block,)).path for block in range(PLANNED)]


@pytest.fixture
def copies(parts: list[Path], tmp_path: Path) -> list[Path]:
    """Return copies of the same folders, which tests may change."""
    return [shutil.copytree(part, tmp_path / f"part-{number}") for number, part in enumerate(parts, 1)]


def _measured(root: Path, blocks: tuple[int, ...] | None) -> SweepFolder:
    bench = Bench(root)
    return bench.measure(bench.experiment(repetitions=PLANNED), options=SweepOptions(blocks=blocks)).folder


def _by_cell(folder: SweepFolder) -> dict[tuple[int, int], Any]:
    """Return the contents of each run without its name, its times and the hashes of its files."""
    own = {"run_id": True, "started_at": True, "ended_at": True, "files": True, "consistency": {"seconds"}}
    return {
        (record.run.point.index, record.run.block): (
            record.run.model_dump(exclude=own),
            record.samples().filter(record.samples()["edge"].is_not_null()).select("phase", "metric", "count").rows(),
            record.latency().rows(),
        )
        for record in folder.runs()
    }


def test_three_folders_merged_are_the_sweep_done_at_once_run_by_run(
    whole: SweepFolder, parts: list[Path], tmp_path: Path
) -> None:
    merged, lacking = merge([parts[2], parts[0], parts[1]], tmp_path / "merged")
    assert lacking == []
    assert merged.path == tmp_path / "merged"
    at_once, joined = _by_cell(whole), _by_cell(merged)
    assert joined.keys() == at_once.keys()
    counters = {"page_gets", "pages_read", "demand_misses", "transactions_committed"}
    for cell, (run, samples, latency) in joined.items():
        other, others_samples, others_latency = at_once[cell]
        assert run == other, cell
        assert _of(samples, counters) == _of(others_samples, counters) != []
        assert latency == others_latency
    assert merged.plan == {**whole.plan, "versions": merged.plan["versions"]}
    assert [one.blocks for one in merged.hosts] == [(0, 1, 2)], "one host measured all"
    assert build(merged).answer == build(whole).answer


def _of(rows: list[tuple[Any, ...]], names: set[str]) -> list[tuple[Any, ...]]:
    return [row for row in rows if row[1] in names]


def test_a_merged_folder_is_merged_with_the_blocks_that_it_lacks(parts: list[Path], tmp_path: Path) -> None:
    two, _ = merge(parts[::2], tmp_path / "two")
    assert two.plan["blocks"] == [0, 2]
    assert any("Only blocks 1, 3 of the plan's 3" in limit for limit in build(two).limits)
    three, lacking = merge([two.path, parts[1]], tmp_path / "three")
    assert lacking == []
    assert "blocks" not in three.plan
    assert len(three.runs()) == 2 * PLANNED


def test_each_host_keeps_its_own_facts_and_its_blocks(
    parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = fingerprint.fingerprint
    monkeypatch.setattr(fingerprint, "fingerprint", lambda place: {**ours(place), "boot_key": "another", "cores": 96})
    other = _measured(tmp_path / "other", (1,))
    merged, _ = merge([parts[0], other.path, parts[2]], tmp_path / "merged")
    assert [one.blocks for one in merged.hosts] == [(0, 2), (1,)]
    assert merged.hosts[0].host["host_id"] == merged.hosts[1].host["host_id"], "equal hosts are still two"
    assert (merged.hosts[1].host["cores"], merged.host["cores"]) == (96, merged.hosts[0].host["cores"])


def _edit(name: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """Return a function that changes a JSON document of a folder, or of its first run."""

    def edit(folder: Path) -> None:
        (path,) = sorted(folder.glob(name))[:1]
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    return edit


def _resealed(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    return lambda folder: reseal(open_sweep(folder), change)


def _flip(folder: Path) -> None:
    path = min(folder.glob("runs/*/samples.parquet"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _link_run(folder: Path) -> None:
    run = min(folder.glob("runs/*"))
    run.rename(folder.parent / run.name)
    run.symlink_to(folder.parent / run.name)


def _link_file(folder: Path) -> None:
    log = min(folder.glob("runs/*/worker.log"))
    log.rename(folder.parent / "elsewhere")
    log.symlink_to(folder.parent / "elsewhere")


def _pipe(folder: Path) -> None:
    os.mkfifo(min(folder.glob("runs/*")) / "pipe")


def _outside(folder: Path) -> None:
    sha256 = hashlib.sha256((folder / "host.json").read_bytes()).hexdigest()
    file = {"bytes": (folder / "host.json").stat().st_size, "sha256": sha256}
    reseal(open_sweep(folder), lambda run: run["files"].update({"../../host.json": file}))


ALTERED: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "run.json": (_edit("runs/*/run.json", lambda run: run.update(seed=1)), 65, "run.json was changed after it was"),
    "samples": (_flip, 65, "the file is damaged"),
    "no plan": (lambda folder: (folder / "plan.json").unlink(), 65, "this is not a sweep folder"),
    "huge": (
        lambda folder: os.truncate(min(folder.glob("runs/*/run.json")), 64 << 20), 65, "run.json has more than 32 MiB",
    ),
    "a linked run": (_link_run, 65, "this is a link or no plain file"),
    "a linked file": (_link_file, 65, "this is a link or no plain file"),
    "a pipe": (_pipe, 65, "this is a link or no plain file"),
    "a file outside": (_outside, 65, r"it names a file outside its folder: \.\./\.\./host\.json"),
    "other blocks": (
        _edit("plan.json", lambda plan: plan.update(blocks=[1])), 65, "it is of block 1, and the folder is for block 2",
    ),
    "no such block": (_edit("plan.json", lambda plan: plan.update(blocks=[7])), 65, "for blocks that the plan lacks"),
    "a run's seed": (_resealed(lambda run: run.update(seed=5)), 65, "it is not as plan.json has it: seed differ"),
    "another host": (_resealed(lambda run: run.update(host="b" * 12)), 65, "a block is one host's"),
    "another plan": (_edit("plan.json", lambda plan: plan.update(seed=8)), 2, "two plans: seed differ"),
    "other sizes": (_edit("plan.json", lambda plan: plan.update(database_bytes=1)), 2, "plans: database_bytes differ"),
    "another window": (
        lambda folder: (folder / "experiment.toml").write_text(
            (folder / "experiment.toml").read_text().replace("transactions = 3000", "transactions = 3001")
        ),
        2,
        "of two plans: measure of experiment.toml differ",
    ),
    "a predicted sweep": (
        _edit("plan.json", lambda plan: plan.update(predicted_from={})), 2, "the runs of this folder were predicted",
    ),
    "other data": (_resealed(lambda run: run.update(data_key="another")), 2, "the data_key differs at pool_size"),
    "another core": (
        _resealed(lambda run: run["versions"].update(core="0.0.1")), 2, "the version of core differs at pool_size",
    ),
}  # fmt: skip


@pytest.mark.parametrize("altered", ALTERED)
def test_a_folder_that_is_not_what_it_should_be_is_refused_and_nothing_is_written(
    copies: list[Path], tmp_path: Path, altered: str
) -> None:
    change, code, what = ALTERED[altered]
    change(copies[0])
    with pytest.raises(BufferlabError, match=what) as refused:
        merge(copies, tmp_path / "merged")
    assert refused.value.exit_code == code
    assert refused.value.hint
    assert str(copies[0]) in str(refused.value.where)
    assert not (tmp_path / "merged").exists()
    assert not list(tmp_path.glob(".tmp-*"))


def test_another_python_is_no_other_version(copies: list[Path], tmp_path: Path) -> None:
    _resealed(lambda run: run["versions"].update(python="3.99.0"))(copies[0])
    assert merge(copies, tmp_path / "merged")[1] == []


def test_a_run_that_is_there_twice_is_refused(copies: list[Path], tmp_path: Path) -> None:
    run = min((copies[0] / "runs").iterdir())
    again = shutil.copytree(run, run.with_name(run.name[::-1]))
    document = json.loads((again / "run.json").read_text())
    del document["seal"]
    document["run_id"] = again.name
    (again / "run.json").write_text(json.dumps({**document, "seal": store._seal(document)}))
    with pytest.raises(BufferlabError, match="another run of this folder is of the same point and block"):
        merge(copies, tmp_path / "merged")


def test_one_block_in_two_folders_is_refused(parts: list[Path], whole: SweepFolder, tmp_path: Path) -> None:
    for folders, what in (
        ([parts[1], parts[1]], "two folders are for block 2 of the plan"),
        ([*parts, whole.path], "two folders are for blocks? 1"),
    ):
        with pytest.raises(SpecError, match=what):
            merge(folders, tmp_path / "merged")


def test_one_folder_and_a_place_that_is_taken_are_refused(parts: list[Path], tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="one folder has no other"):
        merge(parts[:1], tmp_path / "merged")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    for taken in ("link", "empty"):
        with pytest.raises(SpecError, match="something is at this path already"):
            merge(parts, tmp_path / taken)


def _a_folder(taken: Path) -> None:
    taken.mkdir()
    (taken / "note").touch()


@pytest.mark.parametrize("appear", [_a_folder, Path.touch, lambda taken: taken.symlink_to("nowhere")])
def test_a_place_that_is_taken_while_runs_are_copied_is_refused_and_left_alone(
    parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, appear: Callable[[Path], object]
) -> None:
    copied = merging._copy_runs

    def copy_and_lose_the_place(*of: Any) -> None:
        copied(*of)
        appear(tmp_path / "merged")

    monkeypatch.setattr(merging, "_copy_runs", copy_and_lose_the_place)
    with pytest.raises(SpecError, match="something is at this path already") as refused:
        merge(parts, tmp_path / "merged")
    assert refused.value.where == str(tmp_path / "merged")
    assert [path.name for path in tmp_path.iterdir()] == ["merged"]


def test_a_name_that_no_file_system_takes_is_refused(parts: list[Path], tmp_path: Path) -> None:
    with pytest.raises(BufferlabError, match="the sweep folder cannot be written: File name too long") as refused:
        merge(parts, tmp_path / ("x" * 300))
    assert refused.value.exit_code == 3


def test_what_an_interrupted_folder_lacks_is_told_and_the_rest_is_merged(copies: list[Path], tmp_path: Path) -> None:
    gone = min((copies[1] / "runs").iterdir())
    point = json.loads((gone / "run.json").read_text())["point"]["label"]
    shutil.rmtree(gone)
    merged, (problem,) = merge(copies, tmp_path / "merged")
    assert problem.what == f"1 of 2 runs of this folder are missing or failed: {point} in block 2"
    assert problem.where == str(copies[1])
    assert "bufferlab run --resume" in str(problem.hint)
    assert len(merged.runs()) == 2 * PLANNED - 1
    (banner,) = (banner.text for banner in build(merged).banners if "Not whole" in banner.text)
    assert "1 of 6 runs are missing" in banner


def test_folders_whose_plans_name_no_points_lack_their_runs_in_words(copies: list[Path], tmp_path: Path) -> None:
    for copy in copies:
        _edit("plan.json", lambda plan: plan.pop("points"))(copy)
        shutil.rmtree(copy / "runs")
        (copy / "runs").mkdir()
    merged, lacking = merge(copies, tmp_path / "merged")
    assert merged.runs() == []
    assert "2 of 2 runs of this folder are missing or failed: 0 in block 1, 1 in block 1" in lacking[0].what


def test_a_merged_folder_has_its_predictions_before_it_has_its_name(
    copies: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill may come at any moment, and a merged folder cannot be resumed."""
    open_sweep(copies[1]).write_other_pools(OtherPools(of=[]))
    rename, seen = store.rename_to_free_name, []

    def renamed(temporary: Path, *more: Any) -> Path:
        seen.append((temporary / store.OTHER_POOLS_FILE).is_file())
        return rename(temporary, *more)

    monkeypatch.setattr(store, "rename_to_free_name", renamed)
    merged, _ = merge(copies, tmp_path / "merged")
    assert seen == [True]
    assert merged.other_pools() == OtherPools(of=[])


@pytest.mark.parametrize(
    ("hosts", "what"),
    [
        ([], "hosts.json is damaged at hosts"),
        ([{"host": {}, "blocks": [0]}, {"host": {}, "blocks": [1, 0]}], "two hosts measured the same block"),
        ([{"host": {}, "blocks": []}], "hosts.json is damaged at hosts.0.blocks"),
        ([{"host": {"host_id": 7}, "blocks": ["x"]}], "hosts.json is damaged"),
        ("all", "hosts.json is damaged at hosts"),
    ],
)
def test_a_merged_folder_whose_hosts_cannot_be_is_refused(
    copies: list[Path], tmp_path: Path, hosts: Any, what: str
) -> None:
    merged, _ = merge(copies, tmp_path / "merged")
    _edit("hosts.json", lambda told: told.update(hosts=hosts))(merged.path)
    with pytest.raises(BufferlabError, match=what) as refused:
        open_sweep(merged.path)
    assert refused.value.exit_code == 65


def test_a_merged_folder_is_not_resumed(parts: list[Path], tmp_path: Path) -> None:
    merged, _ = merge(parts[:2], tmp_path / "merged")
    with pytest.raises(SpecError, match="this folder was merged"):
        resume.open_for_resume(merged.path)


def test_a_resume_does_the_folders_own_blocks_and_refuses_others(copies: list[Path]) -> None:
    folder = open_sweep(copies[1])
    assert resume.blocks_to_do(folder, None) == resume.blocks_to_do(folder, (1,)) == (1,)
    for asked in ((0,), (1, 2), (0, 1, 2)):
        with pytest.raises(
            SpecError, match=f"the folder is for block 2, and blocks? {in_words(asked)}".replace(",", ".")
        ):
            resume.blocks_to_do(folder, asked)
    shutil.rmtree(min((copies[1] / "runs").iterdir()))
    bench = Bench(copies[1].parent / "bench")
    bench.root.mkdir()
    with bench.in_environment():
        outcome = run_sweep(spec.load(copies[1] / "experiment.toml"), bench.out, copies[1])
    assert (outcome.failed, sorted(record.run.block for record in outcome.folder.runs())) == (0, [1, 1])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("0", '"0" is no block'),
        ("", '"" is no block'),
        ("1,,2", '"" is no block'),
        ("-1", '"-1" is no block'),
        ("1-2-3", "is no block"),
        ("one", '"one" is no block'),
        ("٣", "is no block"),
        ("3-1", "blocks 3-1 end before they begin"),
        ("2,6", "the plan has 5 blocks, and block 6 is beyond it"),
        ("1-999999999", "block 999999999 is beyond it"),
    ],
)
def test_what_names_no_blocks_of_the_plan_is_refused(text: str, what: str) -> None:
    with pytest.raises(SpecError, match=what) as refused:
        parse_blocks(text, 5)
    assert refused.value.where == f"--blocks {text}"
    assert refused.value.hint
