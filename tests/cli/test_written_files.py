"""Files that commands write: a command checks the file's folder before any work, and prints the answer in any case."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bufferlab.cli.output import answering
from support.core import ROOT
from support.fake import Bench
from support.fake_disks import fill, read_only, tiny_disk
from support.fake_mysql import FakeMysql
from support.synthetic import BUFFER_SIZE, Sweep, build

AUDITED = ROOT / "tests/fixtures/audit/clean.txt"
TRACED = ROOT / "tests/fixtures/traces/ten.csv"
SLOW_LOG = next((ROOT / "tests/fixtures/slow-log").glob("*.log"))
SWEEP = Sweep(truths=BUFFER_SIZE[:2], blocks=2)


@pytest.fixture(scope="module")
def sweeps(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    root = tmp_path_factory.mktemp("sweeps")
    made = build(root / "a", SWEEP), build(root / "b", replace(SWEEP, seed=2, first_seed=5000, day=2))
    return [str(sweep.path) for sweep in made]


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder of a disk that holds an old page and has no room for another one."""
    with tiny_disk(tmp_path / "full", size_kib=64) as disk:
        (disk / "page.html").write_text("the old page")
        fill(disk / "filler")
        yield disk


@pytest.mark.parametrize(
    "command",
    [
        ["observe", "{url}", "--html"],
        ["observe", "{url}", "--prometheus"],
        ["advise", "{url}", "--yes", "--html"],
    ],
)
def test_a_look_whose_file_cannot_be_written_is_refused_before_it_connects(
    command: list[str], bench: Bench, tmp_path: Path
) -> None:
    with FakeMysql() as server, read_only(tmp_path / "read-only") as disk:
        typed = [part.format(url=server.url) for part in command]
        for place in (tmp_path / "missing" / "x", tmp_path, "/proc/x", disk / "x"):
            ended = bench.bufferlab(*typed, place, "--json")
            assert (ended.code, ended.json["kind"]) == (3, "environment")
            assert "the file cannot be written: " in ended.err
            assert f"where: {place}" in ended.err
            assert f"choose another with {command[-1]}" in ended.err
        assert server.logins == 0
    assert list(tmp_path.iterdir()) == [tmp_path / "read-only"]


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (["compare", "{a}", "{b}"], ["--md"]),
        (["history", "{a}", "{b}"], ["--html"]),
        (["audit", str(AUDITED)], ["--html", "--markdown"]),
        (["curve", str(TRACED)], ["--html", "--svg", "--to oraclegeneral"]),
        (["script-from-slow-log", str(SLOW_LOG)], ["-o"]),
    ],
)
def test_a_file_that_cannot_be_written_is_told_first_and_what_fills_the_disk_after_the_answer(
    command: list[str], flags: list[str], bench: Bench, sweeps: list[str], full: Path, tmp_path: Path
) -> None:
    typed = [part.format(a=sweeps[0], b=sweeps[1]) for part in command]
    for flag in flags:
        words = flag.split()
        ended = bench.bufferlab(*typed, *words, tmp_path / "missing" / "x.sql", "--json")
        assert (ended.code, ended.json["status"]) == (3, "error"), "nothing was done, so there is no answer"
        assert f"choose another with {words[0]}" in ended.err
        target = full / "made.sql" if flag == "-o" else full / "page.html"
        ended = bench.bufferlab(*typed, *words, target, "--json")
        assert (ended.code, ended.json.get("status") == "error") == (3, False), "the answer is the one object"
        assert "cannot be written: No space left on device" in ended.err
        assert f"where: {target}" in ended.err
        assert "Traceback" not in ended.err
        assert sorted(one.name for one in full.iterdir()) == ["filler", "page.html"]
        assert (full / "page.html").read_text() == "the old page"


def test_a_look_is_told_where_its_page_finds_the_disk_full(bench: Bench, full: Path) -> None:
    with FakeMysql() as server:
        ended = bench.bufferlab("observe", server.url, "--duration", "2s", "--html", full / "page.html")
    assert ended.code == 3
    assert "The pool misses" in ended.out
    assert "error: the file cannot be written: No space left on device" in ended.err
    assert (full / "page.html").read_text() == "the old page"


def test_all_files_are_tried_and_each_that_fails_is_named(bench: Bench, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ended = bench.bufferlab("audit", AUDITED, "--html", "/dev/full", "--markdown", page)
    assert ended.code == 3
    assert page.exists()
    ended = bench.bufferlab("audit", AUDITED, "--html", "/dev/full", "--markdown", "/dev/full")
    assert ended.err.count("where: /dev/full") == 2


def test_files_are_written_where_nobody_reads_the_answer() -> None:
    written: list[str] = []
    with pytest.raises(BrokenPipeError), answering(lambda: written.append("page")):
        raise BrokenPipeError
    assert written == ["page"]


def test_an_option_that_is_completed_tries_no_place(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_BUFFERLAB_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"bufferlab observe --html {tmp_path / 'missing' / 'x'} --dur")
    monkeypatch.setenv("COMP_CWORD", "4")
    assert "--duration" in bench.bufferlab().out
