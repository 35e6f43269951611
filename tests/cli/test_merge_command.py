"""`run --blocks` and `merge` as a user types them: output, exit codes, and how `list runs` shows the folders."""

from __future__ import annotations

import shutil
from pathlib import Path

from bufferlab.execute.sweep import SweepOptions
from support.fake import Bench
from support.json_documents import DOCUMENTS


def test_blocks_are_run_merged_and_answered(bench: Bench) -> None:
    experiment = bench.experiment(repetitions=3)
    folders: list[Path] = []
    for blocks in ("1,3", "2"):
        ended = bench.run(experiment, "--blocks", blocks, "--json", out=bench.root / blocks)
        assert ended.code == 0, ended.err
        folders.append(Path(ended.json["sweep"]))
    planned = bench.run(experiment, "--blocks", "1,3", "--dry-run")
    assert "2 points x 2 of 3 repetitions (blocks 1, 3) = 4 runs" in planned.out
    document = bench.run(experiment, "--blocks", "1,3", "--dry-run", "--json").json
    DOCUMENTS["dry-run"].model_validate(document)
    assert (document["plan"]["blocks"], len(document["plan"]["runs"])) == ([0, 2], 6)
    out = bench.out / "merged"
    merged = bench.bufferlab("merge", *folders, "--out", out, "--json")
    assert merged.code == 0, merged.err
    DOCUMENTS["report"].model_validate(merged.json)
    assert merged.json["sweep"] == str(out)
    assert not any("missing" in warning for warning in merged.json["warnings"])
    reads = [row for point in merged.json["points"] for row in point["summaries"] if row["metric"] == "reads_per_s"]
    assert [row["n"] for row in reads] == [3, 3]
    assert (out / "report.html").is_file()
    _is_refused(bench, experiment, folders, out)


def _is_refused(bench: Bench, experiment: Path, folders: list[Path], out: Path) -> None:
    """Return whether `merge` refuses these folders: its exit code, and a message with what, where and a hint."""
    for arguments, code, what in (
        (
            ("run", experiment, "--blocks", "4", "--out", bench.out),
            2,
            "the plan has 3 blocks, and block 4 is beyond it",
        ),
        (("run", "--resume", folders[0], "--blocks", "1-2"), 2, "the folder is for blocks 1, 3, and blocks 1-2 were"),
        (("run", "--resume", out), 2, "this folder was merged"),
        (("merge", *folders, "--out", out), 2, "something is at this path already"),
        (("merge", folders[0], folders[0], "--out", out.with_name("new")), 2, "two folders are for blocks 1, 3"),
        (("merge", folders[0], bench.root, "--out", out.with_name("new")), 65, "this is not a sweep folder"),
        (("merge", *folders), 2, "--out"),
    ):
        ended = bench.bufferlab(*arguments)
        assert (ended.code, "Traceback" in ended.err) == (code, False), ended.err
        assert what in ended.err
        assert not out.with_name("new").exists()


def test_a_folder_that_lacks_a_run_is_merged_with_code_1(bench: Bench) -> None:
    folders = []
    for block in (0, 1):
        place = Bench(bench.root / str(block))
        folders.append(place.measure(place.experiment(), options=SweepOptions(blocks=(block,))).folder.path)
    shutil.rmtree(min((folders[1] / "runs").iterdir()))
    listed = bench.bufferlab("list", "runs", folders[1].parent)
    assert "1 of 2 " in listed.out
    merged = bench.bufferlab("merge", *folders, "--out", bench.out)
    assert merged.code == 1
    assert "warning: 1 of 2 runs of this folder are missing or failed" in merged.err
    assert f"where: {folders[1]}" in merged.err
