"""`bufferlab history` as a command: what it prints, writes and refuses, and its exit codes."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from support.fake import Bench
from support.json_documents import DOCUMENTS
from support.synthetic import Sweep, Truth, build

#: From this sweep on the pool reads a fifth more.
CHANGED = 5


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root, found = tmp_path_factory.mktemp("history"), []
    for place in range(10):
        truth = Truth("10%", 12.0 if place < CHANGED else 14.4)
        sweep = Sweep((truth,), blocks=1, seed=place + 1, first_seed=100 * place, day=place + 1, block_noise=0.0)
        found.append(build(root / f"commit{place}", sweep).path)
    return found


def test_a_history_tells_its_change_in_text_json_csv_and_a_page(
    bench: Bench, folders: list[Path], tmp_path: Path
) -> None:
    page, order = tmp_path / "history.html", tmp_path / "order"
    order.write_text("".join(f"commit{place} what it did\n" for place in range(10)))
    rule = "reads_per_new_order worse 5%"
    ended = bench.bufferlab("history", *reversed(folders), "--order", order, "--fail-if", rule, "--html", page)
    assert ended.code == 4
    assert ended.out.startswith("1 change in 10 sweeps. From sweep 6 (commit5) on, reads per New-Order are ")
    assert f"{rule}: broken" in ended.out
    text = page.read_text()
    assert "<code>bufferlab history</code> makes it again" in text
    assert "commit5 what it did" in text
    told = bench.bufferlab("history", *folders, "--json").json
    DOCUMENTS["history"].model_validate(told)
    assert [change["place"] for change in told["events"]] == [5]
    rows = list(csv.DictReader(bench.bufferlab("history", *folders, "--format", "csv").out.splitlines()))
    assert {row["sweep"] for row in rows if row["change"]} == {"6"}


def test_what_is_no_history_is_refused_by_name(bench: Bench, folders: list[Path], tmp_path: Path) -> None:
    foreign, again = tmp_path / "foreign", tmp_path / "again"
    foreign.mkdir()
    shutil.copytree(folders[0], again)
    for arguments, code, says in (
        ([folders[0]], 2, "one sweep has no history"),
        ([folders[0], again], 2, "these folders hold the same runs"),
        ([f"a={folders[0]}", f"a={folders[1]}"], 2, 'two sweeps have the name "a"'),
        ([folders[0], foreign], 65, "plan.json"),
        ([folders[0], tmp_path / "nowhere"], 65, "there is no such sweep folder"),
    ):
        ended = bench.bufferlab("history", *arguments)
        assert (ended.code, ended.out) == (code, "")
        assert says in ended.err
        assert "hint:" in ended.err
