"""`bufferlab compare` as a command: what it prints, writes and refuses, and its exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bufferlab.results.store import SweepFolder
from support.fake import Bench
from support.synthetic import BUFFER_SIZE, Sweep, build

SMALL = Sweep(truths=BUFFER_SIZE[:2], blocks=3)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[SweepFolder, SweepFolder]:
    root = tmp_path_factory.mktemp("compare")
    return build(root / "a", SMALL), build(root / "b", replace(SMALL, seed=2, first_seed=5000))


def test_two_folders_give_a_sentence_first_and_then_the_table(
    bench: Bench, folders: tuple[SweepFolder, SweepFolder]
) -> None:
    ended = bench.bufferlab("compare", folders[0].path, folders[1].path)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("Not distinguishable at all 2 settings")
    assert "Reads per New-Order" in ended.out
    assert "Welch's test" in ended.out


def test_different_sides_end_with_exit_code_0_and_one_object(
    bench: Bench, folders: tuple[SweepFolder, SweepFolder]
) -> None:
    ended = bench.bufferlab("compare", folders[0].path, "--between", "pool_size=5%", "pool_size=10%", "--json")
    assert ended.code == 0
    document = json.loads(ended.out)
    assert document["format_version"] == 3
    assert document["figures"][0]["outcome"] == "different"


def test_pages_are_written_where_asked(bench: Bench, folders: tuple[SweepFolder, SweepFolder], tmp_path: Path) -> None:
    page, text = tmp_path / "c.html", tmp_path / "c.md"
    ended = bench.bufferlab("compare", folders[0].path, folders[1].path, "--html", page, "--md", text)
    assert ended.code == 0
    assert "Not distinguishable" in page.read_text()
    assert "<code>bufferlab compare</code> makes it again" in page.read_text()
    assert "| Reads per New-Order (pages) |" in text.read_text()
    unwritable = bench.bufferlab("compare", folders[0].path, folders[1].path, "--html", tmp_path / "no" / "c.html")
    assert unwritable.code == 3
    assert "--html" in unwritable.err


def test_neither_a_sweep_is_changed_nor_anything_written_beside_it(
    bench: Bench, folders: tuple[SweepFolder, SweepFolder]
) -> None:
    before = [sorted(path.rglob("*")) for path in (folders[0].path, folders[1].path)]
    bench.bufferlab("compare", folders[0].path, folders[1].path)
    assert [sorted(path.rglob("*")) for path in (folders[0].path, folders[1].path)] == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Missing argument 'A'"),
        (["{a}"], "two sweep folders, or one and --between"),
        (["{a}", "{b}", "--between", "x=1", "x=2"], "two sweep folders, or one and --between"),
        (["{a}", "--between", "pool_sise=5%", "pool_size=10%"], "pool_sise was not swept"),
    ],
)
def test_wrong_usage_ends_with_2_and_a_hint(
    bench: Bench, folders: tuple[SweepFolder, SweepFolder], arguments: list[str], says: str
) -> None:
    filled = [argument.format(a=folders[0].path, b=folders[1].path) for argument in arguments]
    ended = bench.bufferlab("compare", *filled)
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err
    assert "hint:" in ended.err


def test_other_data_are_refused_with_2_and_compared_with_force(
    bench: Bench, folders: tuple[SweepFolder, SweepFolder], tmp_path: Path
) -> None:
    other = build(tmp_path, replace(SMALL, load=3))
    refused = bench.bufferlab("compare", folders[0].path, other.path)
    assert refused.code == 2
    assert "--force" in refused.err
    forced = bench.bufferlab("compare", folders[0].path, other.path, "--force")
    assert forced.code == 0
    assert "!! Compared by --force although" in forced.out


def test_a_corrupt_or_foreign_folder_ends_with_65_and_names_the_file(
    bench: Bench, folders: tuple[SweepFolder, SweepFolder], tmp_path: Path
) -> None:
    broken = build(tmp_path / "broken", SMALL)
    samples = next((broken.path / "runs").iterdir()) / "samples.parquet"
    samples.write_bytes(samples.read_bytes()[:-20])
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "plan.json").write_text('{"made": "elsewhere"}')
    no_folder = folders[0].path / "plan.json"
    for second, named in ((broken.path, "samples.parquet"), (foreign, "plan.json"), (no_folder, "no such sweep")):
        ended = bench.bufferlab("compare", folders[0].path, second)
        assert ended.code == 65
        assert named in ended.err
        assert "hint:" in ended.err
