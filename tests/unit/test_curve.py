"""Curves from files: compared with other programs' counts, equal in both formats; refused files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bufferlab.errors import DataFileError
from bufferlab.traces import curve, files
from bufferlab.traces.page_trace import Accesses
from support.core import ROOT
from support.fake import Bench

TEN = ROOT / "tests/fixtures/traces/ten.csv"


def nobody_looks(_done: float) -> None:
    pass


def accesses(pages: NDArray[np.int64]) -> Accesses:
    dense = np.unique(pages, return_inverse=True)[1].astype(np.uint32)
    return Accesses(dense, np.zeros(len(dense), np.uint8), np.arange(len(dense)) / 1000)


def test_misses_are_those_that_libcachesim_counts() -> None:
    place = np.arange(30_000, dtype=np.int64)
    pages = np.minimum((place * place * 7 + place // 13) % 1009, (place * 31 + place**3) % 997)
    found = curve.curve(accesses(pages), None, nobody_looks)
    # LRU of libCacheSim 0.3.5 (PyPI libcachesim), process_trace on these accesses as oracleGeneral.
    golden = {1: 0.9988, 10: 0.9851666666666666, 50: 0.933, 200: 0.7401666666666666, 500: 0.3867333333333334,
              900: 0.041033333333333366}  # fmt: skip
    assert {size: int(found.misses[size]) for size in golden} == {
        size: round(ratio * 30_000) for size, ratio in golden.items()
    }


def test_ten_accesses_are_counted_by_hand() -> None:
    found = curve.curve(files.read(TEN), None, nobody_looks)
    # Nine gets, at distances 1, first, first, 3, 3, first, 2, 3, 4.
    assert list(found.misses) == [9, 8, 7, 4, 3]


def test_a_window_counts_its_own_misses_in_a_pool_that_is_warm() -> None:
    found = curve.curve(files.read(TEN), (0.4, 0.5), nobody_looks)
    assert list(found.misses) == [2, 2, 2, 0, 0]


def test_the_knee_is_where_more_memory_stops_to_help() -> None:
    # 100 pages in turn, and sometimes one of 1,000 other pages: LRU of about 101 pages keeps the loop.
    place = np.arange(50_000)
    found = curve.curve(
        accesses(np.where(place % 100 == 99, 100 + place // 100 % 500, place % 100)), None, nobody_looks
    )
    assert 99 <= found.knee_pages <= 101


def test_what_is_written_as_oraclegeneral_is_read_as_the_same_accesses(tmp_path: Path) -> None:
    path = tmp_path / "ten.oracleGeneral"
    written = files.read(TEN)
    with path.open("wb") as file:
        files.write_oracle_general(written, file)
    again = files.read(path)
    assert list(again.page) == list(written.page)
    assert path.stat().st_size == 10 * 24
    next_access = np.fromfile(path, np.dtype([("", "<u4"), ("", "<u8"), ("", "<u4"), ("next", "<i8")]))["next"]
    assert list(next_access) == [1, 4, 5, 9, 8, 7, -1, -1, -1, -1]


def test_the_file_that_is_read_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "ten.oracleGeneral"
    with path.open("wb") as file:
        files.write_oracle_general(files.read(TEN), file)
    before = path.read_bytes()
    ended = Bench(tmp_path / "bench").bufferlab("curve", path, "--to", "oraclegeneral", path)
    assert ended.code == 2
    assert "would replace the file that is read" in ended.err
    assert path.read_bytes() == before


def test_times_that_the_format_has_no_room_for_are_refused(tmp_path: Path) -> None:
    path, target = tmp_path / "times.csv", tmp_path / "out.oracleGeneral"
    path.write_text(f"time,page,op\n0,1,get\n{2**32},1,get\n")
    ended = Bench(tmp_path / "bench").bufferlab("curve", path, "--to", "oraclegeneral", target)
    assert (ended.code, target.exists()) == (2, False)
    assert "last longer than the 2^32 seconds" in ended.err


def test_the_working_set_is_the_pages_of_each_part() -> None:
    ends, pages = curve.working_set(files.read(TEN))
    assert len(ends) == len(pages) == 50
    assert pages.sum() == 10, "no page is touched twice within a fiftieth"
    assert ends[-1] == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("name", "content", "what", "line"),
    [
        ("a.csv", b"when,page,op\n", "does not name the columns", ":1"),
        ("a.csv", b"time,page,op\n1,a,get\nsoon,b,get\n", "the time is no number", ":3"),
        ("a.csv", b"time,page,op\n1,a,get\ninf,b,get\n", "the time is no number", ":3"),
        ("a.csv", b"time,page,op\n1,a,get\n2,,get\n", "no page is named", ":3"),
        ("a.csv", b"time,page,op\n1,a,get\n2,a,\n", "no operation is named", ":3"),
        ("a.csv", b"time,page,op\n2,a,get\n1,b,get\n", "time runs backwards", ":3"),
        ("a.csv", b"time,page,op\n1,a,create\n", "there is no get", ""),
        ("a.csv", b"time,page,op\n", "there is no get", ""),
        ("a.csv", b"time,page,op\n1,a,get,more,words\n", "not a table", ""),
        ("a.csv", b"time,page,op\n1,\xff\xfe,get\n", "not a table", ""),
        ("a.oracleGeneral", bytes(100), "ends inside a record", ", record 5"),
        ("a.oracleGeneral", b"\xff" * 24 + bytes(24), "time runs backwards", ":2"),
        ("a.oracleGeneral", b"", "there is no get", ""),
        ("a.gz", b"", "not a file of page accesses", ""),
    ],
)
def test_a_file_that_breaks_a_rule_is_named_with_its_line(
    tmp_path: Path, name: str, content: bytes, what: str, line: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataFileError) as refused:
        files.read(path)
    assert what in refused.value.what
    assert refused.value.where == f"{path}{line}"


@pytest.mark.figures
def test_the_command_answers_in_words_as_an_object_and_as_a_page(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench")
    page, figure = tmp_path / "curve.html", tmp_path / "curve.svg"
    asked = ("--page-size", "16KiB", "--sizes", "50%,48KiB", "--html", page, "--svg", figure)
    ended = bench.bufferlab("curve", TEN, *asked)
    assert ended.code == 0, ended.err
    assert "3 pages (48 KiB)" in ended.out
    assert "LRU is a guide" in ended.out
    assert "<svg" in page.read_text()
    assert figure.read_text().startswith("<?xml") or figure.read_text().startswith("<svg")
    document = bench.bufferlab("curve", TEN, "--sizes", "2pages,3pages", "--json").json
    assert document["curve"] == [
        {"pool_pages": 2, "lru_misses": 7},
        {"pool_pages": 3, "lru_misses": 4},
    ]
    assert document["lru"]["accesses"] == 9
    assert json.dumps(document["working_set"])


def test_a_pool_beyond_all_pages_is_answered_as_one_of_all_pages(tmp_path: Path) -> None:
    ended = Bench(tmp_path / "bench").bufferlab("curve", TEN, "--sizes", "2pages,101%,9pages")
    assert ended.code == 0
    assert "Larger than the 4 pages touched, so as good as a pool of 100 %: 101%, 9pages." in ended.out
    assert ended.out.count("100 %") == 2, "the sentence and one line"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--sizes", "0%"), "holds no page"),
        (("--sizes", "0pages"), "holds no page"),
        (("--sizes", "64KiB"), "does not tell the size of a page"),
        (("--sizes", "some"), "is not a size"),
        (("--page-size", "0"), "is no size of a page"),
        (("--page-size", "2GiB"), "is no size of a page"),
        (("--window", "2s,1s"), "ends before it begins"),
        (("--window", "2s"), "is not two times"),
        (("--window", "8s,9s"), "no get lies in the window"),
        (("--to", "csv", "x.csv"), "unknown format"),
    ],
)
def test_a_size_or_window_that_cannot_be_is_refused(tmp_path: Path, arguments: tuple[str, ...], what: str) -> None:
    ended = Bench(tmp_path / "bench").bufferlab("curve", TEN, *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert what in ended.err
    assert "hint:" in ended.err
