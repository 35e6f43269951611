"""Tables of page accesses: the column of pages, its unit, the column of files, and the unit of times.

The tests compare each answer with a small program that replays the original rows with single pools.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from pathlib import Path

import pytest

from bufferlab.errors import DataFileError, SpecError
from bufferlab.traces import curve, files
from bufferlab.traces.column_names import time_unit
from bufferlab.traces.options import parse_columns
from bufferlab.traces.page_trace import Accesses
from support.core import ROOT
from support.fake import Bench

FIXTURES = ROOT / "tests/fixtures/traces"
Request = tuple[Hashable, int, int]
"""A disk, the offset of a request in bytes, and its number of bytes."""


def misses_of(pages: Sequence[Hashable], frames: int) -> int:
    """Return the misses of one LRU pool, computed page by page."""
    pool: OrderedDict[Hashable, None] = OrderedDict()
    misses = 0
    for page in pages:
        misses += page not in pool
        pool[page] = None
        pool.move_to_end(page)
        if len(pool) > frames:
            pool.popitem(last=False)
    return misses


def pages_of(requests: Sequence[Request], page_bytes: int) -> list[Hashable]:
    """Return each page that the requests cover, in order."""
    return [
        (disk, page)
        for disk, first, size in requests
        for page in range(first // page_bytes, (first + max(size, 1) - 1) // page_bytes + 1)
    ]


def read(path: Path, columns: str | None = None, page_bytes: int | None = None) -> Accesses:
    return files.read(path, parse_columns(columns), page_bytes)


def all_misses(accesses: Accesses) -> list[int]:
    return [int(count) for count in curve.curve(accesses, None, lambda _: None).misses]


def assert_same(accesses: Accesses, pages: Sequence[Hashable]) -> None:
    assert accesses.gets == len(pages)
    assert accesses.pages == len(set(pages))
    assert all_misses(accesses)[1:] == [misses_of(pages, frames) for frames in range(1, len(set(pages)) + 1)]


def made(rng: random.Random, unit: int = 4096, count: int = 200, disks: Sequence[Hashable] = (0, 3)) -> list[Request]:
    """Return requests of several sizes on a few disks, some of them at the same offsets."""
    return [
        (rng.choice(disks), rng.randrange(40) * unit, rng.choice((1, 1, 2, 5)) * unit + rng.choice((0, 0, unit // 2)))
        for _ in range(count)
    ]


def written(path: Path, rows: Sequence[Sequence[object]], head: str = "", separator: str = ",") -> Path:
    lines = [head] * bool(head) + [separator.join(map(str, row)) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


# The unit of the column of pages.


@pytest.mark.parametrize(
    ("name", "columns", "page_bytes", "gets", "pages", "frames", "misses"),
    [
        ("alibaba.csv", None, 4096, 325, 150, 10, 305),
        ("alibaba.csv", "time=5,page=3,size=4", 4096, 325, 150, 10, 305),
        ("systor.csv", None, 8192, 380, 26, 10, 247),
        ("systor.csv", "time=Timestamp,page=Offset,size=Size", 8192, 380, 26, 10, 247),
        ("addresses.csv", "page=addr", 4096, 150, 12, 6, 67),
        ("msr-six.csv", None, None, 88, 22, 5, 59),
    ],
)
def test_bytes_become_pages_where_the_format_or_the_name_tells(
    name: str, columns: str | None, page_bytes: int | None, gets: int, pages: int, frames: int, misses: int
) -> None:
    found = read(FIXTURES / name, columns, page_bytes)
    assert (found.gets, found.pages, all_misses(found)[frames]) == (gets, pages, misses)


OF_FORMATS = {
    "MSR Cambridge": lambda at, disk, first, size: (10**17 + at * 10**6, "usr", disk, "Read", first, size, 9),
    "MSR Cambridge of six columns": lambda at, disk, first, size: (10**17 + at, "h", disk, "Write", first, size),
    "SYSTOR '17": lambda at, disk, first, size: (f"{1455592200 + at}.022", "0.1", "RW"[at % 2], disk, first, size),
    "SYSTOR '17 without a response": lambda at, disk, first, size: (f"{at}.5", "", "W", disk, first, size),
    "Alibaba": lambda at, disk, first, size: (disk, "RW"[at % 2], first, size, 1577808000000046 + at),
    "Tencent": lambda at, disk, first, size: (1538323199 + at // 3, first // 512, size // 512, at % 2, disk),
    "SPC": lambda at, disk, first, size: (disk, first // 512, size, "rRwW"[at % 4], f"{at / 8:.6f}"),
    "MQSim": lambda at, disk, first, size: (4851300 + at * 7000, disk, first // 512, size // 512, at % 2),
}  # fmt: skip


@pytest.mark.parametrize("page_bytes", [None, 16384, 1024])
@pytest.mark.parametrize("name", OF_FORMATS)
def test_a_published_format_is_known_by_the_form_of_its_rows(tmp_path: Path, name: str, page_bytes: int | None) -> None:
    requests = made(random.Random(name))
    rows = [OF_FORMATS[name](at, *request) for at, request in enumerate(requests)]
    path = written(tmp_path / "t.trace", rows, separator=" " if name == "MQSim" else ",")
    found = read(path, None, page_bytes)
    assert_same(found, pages_of(requests, page_bytes or 4096))
    assert found.page_size_bytes == (page_bytes or 4096)
    assert found.time_s[0] == 0
    assert found.reading is not None
    assert name.startswith(found.reading.format)


@pytest.mark.parametrize(
    ("head", "order"),
    [
        ("Timestamp,Offset,Size,IOType,VolumeID", (3, 1, 2, 4, 0)),
        ("version,time,op,size,lbn", (4, 3, 4, 2, 1)),
        ("device_id,opcode,offset,length,timestamp", (0, 4, 1, 2, 3)),
        ('"Timestamp","Response","IOType","LUN","Offset","Size"', (3, 4, 4, 0, 1, 2)),
        ("timestamp, hostname, disknumber, type, offset, size, responsetime", (3, 0, 0, 4, 1, 2, 3)),
    ],
)
def test_a_published_format_is_known_by_its_head(tmp_path: Path, head: str, order: tuple[int, ...]) -> None:
    requests = made(random.Random(head), unit=4096)
    if head.endswith("lbn"):
        requests = [(0, first, size) for _, first, size in requests]
    unit = 512 if head.endswith(("VolumeID", "lbn")) else 1
    size_unit = 512 if head.endswith("VolumeID") else 1
    cells = [(disk, first // unit, size // size_unit, at, 1) for at, (disk, first, size) in enumerate(requests)]
    path = written(tmp_path / "t.csv", [[row[place] for place in order] for row in cells], head)
    assert_same(read(path), pages_of(requests, 4096))
    # An option changes which column is the page, not its unit.
    by_number = read(path, f"page={order.index(1) + 1}")
    assert all_misses(by_number) == all_misses(read(path))


def test_four_requests_of_three_formats_are_the_same_accesses(tmp_path: Path) -> None:
    requests = [("6", 0, 16384), ("6", 4096, 4096), ("2", 0, 4096), ("6", 8192, 4096)]
    for name in ("SYSTOR '17", "Alibaba", "Tencent"):
        rows = [OF_FORMATS[name](at, *request) for at, request in enumerate(requests)]
        found = read(written(tmp_path / "t.csv", rows))
        assert (found.gets, found.pages, all_misses(found)[-1]) == (7, 5, 5)
        assert_same(found, pages_of(requests, 4096))


@pytest.mark.parametrize(
    ("head", "page", "unit"),
    [
        ("ts,lba,size_bytes", "lba", 512),
        ("ts,Sector,bytes", "Sector", 512),
        ("time_ms,LBN,sectors", "LBN", 512),
        ("time,byte_offset,length", "byte_offset", 1),
        ("clock_time,Address,len", "Address", 1),
        ("time,offset,size", "offset", 1),
    ],
)
def test_a_name_tells_what_a_column_counts(tmp_path: Path, head: str, page: str, unit: int) -> None:
    requests = made(random.Random(head), disks=(0,))
    size_unit = 512 if "sectors" in head else 1
    rows = [(at, first // unit, size // size_unit) for at, (_, first, size) in enumerate(requests)]
    path = written(tmp_path / "t.csv", rows, head)
    assert_same(read(path, None, 8192), pages_of(requests, 8192))
    assert_same(read(path, f"page={page}", 8192), pages_of(requests, 8192))
    # An option beats the column's name.
    numbers = [row[1] for row in rows]
    assert_same(read(path, f"page={page}:pages"), numbers)


@pytest.mark.parametrize("unit", [1, 512])
def test_an_option_tells_what_a_column_counts(tmp_path: Path, unit: int) -> None:
    name = {1: "bytes", 512: "sectors"}[unit]
    requests = made(random.Random(unit), unit=8192, disks=("a", "b"))
    rows = [(size, "R", first // unit, disk, at) for at, (disk, first, size) in enumerate(requests)]
    path = written(tmp_path / "t.csv", rows, separator=";")
    found = read(path, f"page=3:{name},size=1:bytes,file=4,time=5:ms", 8192)
    assert_same(found, pages_of(requests, 8192))
    assert found.time_s[-1] == pytest.approx((len(rows) - 1) / 1000)


def test_requests_of_a_device_without_names_are_named_in_the_hint(tmp_path: Path) -> None:
    rows = [(9, 0, 24576, 10), (9, 16384, 24576, 11), (9, 0, 24576, 12), (9, 4096, 24576, 13), (9, 16384, 24576, 14),
            (9, 32768, 24576, 15)]  # fmt: skip
    path = written(tmp_path / "disk.csv", rows)
    with pytest.raises(DataFileError, match="column 1 has one value and is no time") as refused:
        read(path)
    assert refused.value.hint is not None
    asked = refused.value.hint.split("--columns ")[1]
    assert asked == "file=1,page=2:bytes,size=3,time=4"
    found = read(path, asked, 8192)
    assert_same(found, pages_of([(disk, first, size) for disk, first, size, _ in rows], 8192))
    assert (found.gets, found.pages, all_misses(found)[2]) == (19, 7, 15)


@pytest.mark.parametrize(
    ("rows", "columns", "what", "hint"),
    [
        ([(1, 7, 4096), (2, 8, 8192), (3, 7, 512)], "time=1,page=2,size=3", "more than one size", "page=2:sectors"),
        ([(7, 1.5, 3), (8, 2.5, 4)], "page=1,size=3", "more than one size", "page=1:bytes,size=3"),
        ([(0, 8192, 512), (1, 4096, 1024)], None, "multiple of 512", "time=1,page=2:bytes,size=3"),
        ([(1, 8, 512), (2, 16, 1024)], "time=1,page=2:sectors,size=3", "in bytes or sectors", "size=3:bytes"),
        ([(1, 100, 512), (2, 101, 512), (3, 102, 512)], None, "only counts the rows", "time=1,page=2,size=3"),
        ([(1, 9, 0), (2, 9, 4096), (3, 9, 512)], None, "column 2 has one value", "time=1,page=2,size=3"),
        ([(0, 9, 0, 24576), (1, 9, 16384, 24576)], None, "does not name", "time=1,file=2,page=3:bytes,size=4"),
        ([("s", "s", "t"), (1, 2, 3), (2, 2, 4)], "page=s", "2 columns have the name s", "number the one: 1"),
        ([(1, 7), (1, 8), (1, 7)], "time=1,page=2", "column 1 has one value and is no time", "leave time out"),
    ],
)
def test_what_only_the_owner_knows_is_refused_with_the_commands_to_choose_from(
    tmp_path: Path, rows: list[tuple[object, ...]], columns: str | None, what: str, hint: str
) -> None:
    with pytest.raises(DataFileError, match=what) as refused:
        read(written(tmp_path / "t.csv", rows), columns)
    assert hint in (refused.value.hint or "")


@pytest.mark.parametrize("name", ["blkno", "BLKNO", "block_number"])
def test_a_name_that_stands_for_sectors_and_for_pages_is_asked(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / "t.csv", [(0, 8), (1, 16), (2, 8)], f"time,{name}")
    with pytest.raises(DataFileError, match="may count sectors or pages") as refused:
        read(path)
    assert f"--columns time=time,page={name}:pages" in (refused.value.hint or "")
    assert f"page={name}:sectors" in (refused.value.hint or "")
    assert read(path, f"page={name}:pages").pages == 2
    assert read(path, f"page={name}:sectors", 16384).pages == 1


def test_requests_of_several_pages_that_count_in_pages_touch_each(tmp_path: Path) -> None:
    rows = [(0, 4, 3), (1, 6, 1), (2, 5, 4)]
    found = read(written(tmp_path / "t.csv", rows), "time=1,page=2:pages,size=3:pages")
    assert_same(found, [4, 5, 6, 6, 5, 6, 7, 8])


def test_names_of_pages_that_are_the_same_number_differ(tmp_path: Path) -> None:
    pages = ["7", "07", "7", "+7", "18446744073709551616", "7", "0", "00"]
    assert_same(read(written(tmp_path / "t.csv", list(enumerate(pages)), "time,page")), pages)


def test_hexadecimal_addresses_are_bytes_too(tmp_path: Path) -> None:
    rng = random.Random(5)
    addresses = [0x7F31_0000_0000 + rng.randrange(20 * 4096) for _ in range(100)]
    path = written(tmp_path / "t.csv", [(at, hex(one)) for at, one in enumerate(addresses)], "n,addr")
    assert_same(read(path, "page=addr"), [one // 4096 for one in addresses])


def test_requests_are_put_in_the_order_of_their_times(tmp_path: Path) -> None:
    rows = [(3, 8192, 4096), (1, 0, 8192), (2, 8192, 1)]
    found = read(written(tmp_path / "t.csv", rows, "time,offset,size"))
    assert_same(found, [0, 1, 2, 2])
    assert found.time_s.tolist() == [1, 1, 2, 3]
    assert found.reading is not None
    assert "Requests are put in the order of their times." in found.reading.notes


# The file to which a page belongs.


@pytest.mark.parametrize(
    "name", ["device", "Disk", "DiskNumber", "LUN", "volume", "ASU", "tablespace", "space_id", "file", "relfilenode"]
)
def test_pages_of_different_files_differ(tmp_path: Path, name: str) -> None:
    rng = random.Random(name)
    pages = [(rng.choice((5, 6, 70)), rng.randrange(9)) for _ in range(60)]
    path = written(tmp_path / "t.csv", [(at, *page, "get") for at, page in enumerate(pages)], f"time,{name},page,op")
    assert_same(read(path), pages)
    assert_same(read(path, f"time=time,page=page,file={name}"), pages)
    assert_same(read(path, "page=3"), pages)


def test_pages_three_and_four_of_two_tablespaces_are_four(tmp_path: Path) -> None:
    pages = [(5, 3), (6, 3), (5, 3), (6, 3), (5, 4), (6, 4)]
    path = written(tmp_path / "t.csv", [(at, *page, "get") for at, page in enumerate(pages)], "time,tablespace,page,op")
    found = read(path)
    assert (found.pages, all_misses(found)[1]) == (4, 6)


def test_several_columns_together_name_the_file(tmp_path: Path) -> None:
    rng = random.Random(2)
    pages = [(rng.choice("ab"), rng.choice((1, 2)), rng.randrange(6)) for _ in range(80)]
    rows = [(block, at, space, node) for at, (space, node, block) in enumerate(pages)]
    assert_same(read(written(tmp_path / "t.csv", rows, "block,time,space,relfilenode")), pages)


def test_a_column_that_has_another_name_is_named_as_the_file(tmp_path: Path) -> None:
    rows = [(0, "x", 1), (1, "y", 1), (2, "x", 1), (3, "y", 1)]
    path = written(tmp_path / "t.csv", rows, "time,part,page")
    assert read(path).pages == 1
    assert_same(read(path, "time=time,page=page,file=part"), [part for _, part, _ in rows])


# Which line is a head, and which column is the page.


@pytest.mark.parametrize(
    ("text", "columns", "pages"),
    [
        ("1,31,4096\n2,31,4096\n3,57,4096\n4,31,4096\n5,57,4096\n6,62,4096\n", "time=1,page=2", "31 31 57 31 57 62"),
        ("ts,block\n0,70\n1,71\n2,70\n3,72\n4,71\n", "page=2", "70 71 70 72 71"),
        ("41,1,8192\n42,0,8192\n41,1,8192\n43,1,8192\n42,1,8192\n", "page=1", "41 42 41 43 42"),
        ("7,2\n2,7\n7,9\n", "page=2", "2 7 9"),
        ('"2","7"\na,1\na,5\nb,1\n', 'page="7"', "1 5 1"),
        ("2,7\n3,1\n4,5\n3,1\n", "page='2'", "3 4 3"),
        ("blk\nx\ny\nx\n", "page=blk", "x y x"),
        ("page\nx\ny\nx\n", "page=1", "x y x"),
        ("who,when,what\na,1,x\na,2,y\nb,4,x\n", "page=3,time=2", "x y x"),
    ],
)
def test_digits_are_a_position_and_a_head_is_seen(tmp_path: Path, text: str, columns: str, pages: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert_same(read(path, columns), pages.split())


def test_a_table_of_digits_alone_has_no_head(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", [(at * at, at % 7, 1) for at in range(150)])
    found = read(path, "page=2")
    assert_same(found, [at % 7 for at in range(150)])
    assert found.reading is not None
    assert found.reading.has_head is False


@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("blank", ["", " "])
def test_quotes_and_blanks_around_cells_are_taken_off(tmp_path: Path, quote: str, blank: str) -> None:
    pages = ["21", "22", "21", "23", "22", "21", "24", "21", "22"]
    cells = [("time", "page", "op"), *((at, page, "get") for at, page in enumerate(pages))]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(f",{blank}".join(f"{quote}{cell}{quote}" for cell in row) for row in cells))
    found = read(path)
    assert_same(found, pages)
    assert (found.gets, found.pages, all_misses(found)[1]) == (9, 4, 9)


def test_a_separator_in_quotes_separates_nothing_and_an_open_quote_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('time,page\n0,"a,b"\n1,"a,c"\n2,"a,b"\n')
    assert_same(read(path), ["a,b", "a,c", "a,b"])
    path.write_text('time,page\n0,"a\n1,b"\n2,c\n')
    with pytest.raises(DataFileError, match="quote is not closed"):
        read(path)


@pytest.mark.parametrize(
    ("head", "taken"),
    [
        ("id,time,block,op", "block"),
        ("key,obj_id,time,page", "page"),
        ("time,id,lba", "lba"),
        ("offset,time,key", "offset"),
        ("id,key,time,x", "key"),
        ("block,time,page", "page"),
    ],
)
def test_of_several_names_the_one_nearest_to_a_page_is_taken(tmp_path: Path, head: str, taken: str) -> None:
    rng = random.Random(head)
    names = head.split(",")
    columns = {name: [rng.randrange(50) * 4096 for _ in range(60)] for name in names}
    columns["time"] = list(range(60))
    path = written(tmp_path / "t.csv", list(zip(*(columns[name] for name in names), strict=True)), head)
    unit = {"lba": 8, "offset": 4096}.get(taken, 1)
    assert_same(read(path), [value // unit for value in columns[taken]])


def test_a_column_that_counts_the_rows_is_never_the_page(tmp_path: Path) -> None:
    blocks = [21, 22, 21, 23, 22, 21, 24, 22, 21]
    rows = [(at + 1, at / 4, block, "R") for at, block in enumerate(blocks)]
    found = read(written(tmp_path / "t.csv", rows, "id,time,block,op"))
    assert (found.gets, found.pages, all_misses(found)[1], all_misses(found)[4]) == (9, 4, 9, 4)
    # A page column that only counts the rows gives way to a key column that does not.
    found = read(written(tmp_path / "t.csv", rows, "page,time,key,op"))
    assert_same(found, blocks)
    with pytest.raises(DataFileError, match="only counts the rows"):
        read(written(tmp_path / "t.csv", rows, "id,time,what,op"))
    # A column that counts up is used if its name says that it is the page.
    assert read(written(tmp_path / "t.csv", rows, "page,time,what,op")).pages == 9


# Times.


@pytest.mark.parametrize(
    ("name", "unit", "gets"),
    [("ms", "", 7), ("ts_ms", "", 7), ("timeMs", "", 7), ("when", ":ms", 7), ("time (ms)", "", 7), ("when", "", 1)],
)
def test_a_window_of_seconds_takes_times_of_milliseconds(tmp_path: Path, name: str, unit: str, gets: int) -> None:
    pages = [21, 22, 21, 23, 22, 21, 24, 21, 22]
    path = written(tmp_path / "gets.csv", [(500 * at, page) for at, page in enumerate(pages)], f"{name},page")
    found = read(path, f"time={name}{unit},page=page")
    counted = curve.curve(found, (0, 3), lambda _: None)
    assert counted.accesses == gets
    assert int(counted.misses[1]) == misses_of(pages[:gets], 1)


@pytest.mark.parametrize(
    ("name", "unit"),
    [("time_us", "us"), ("Timestamp(ns)", "ns"), ("ts", None), ("timeSec", "s"), ("usec", "us"), ("bus", None)],
)
def test_a_name_tells_the_unit_of_a_time(name: str, unit: str | None) -> None:
    assert time_unit(name) == unit


def test_a_column_with_one_value_is_no_time(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", [(7, at * 2, at % 3) for at in range(9)], "time,ts,page")
    assert read(path).time_s.tolist() == [at * 2 for at in range(9)]
    path = written(tmp_path / "t.csv", [(7, at % 3) for at in range(9)], "time,page")
    assert read(path).time_s.tolist() == list(range(9))


# Operations.


@pytest.mark.parametrize(
    "text",
    [
        "time,page,op\n0,5,create\n1,5,get\n2,6,create\n3,6,get\n4,5,get\n5,6,get\n",
        "time, page, op\n0, 5, create\n1, 5, get\n2, 6, create\n3, 6, get\n4, 5, get\n5, 6, get\n",
        "page;OP;time\n5;Create;0\n5;GET;1\n6;CREATE;2\n6;Get;3\n5;get;4\n6;get;5\n",
        'op,"time",size,page\n"create",0,1,5\n"get",1,1,5\n"create",2,1,6\n"read",3,1,6\n"W",4,1,5\n"R",5,1,6\n',
    ],
)
def test_creates_read_nothing_however_they_are_written(tmp_path: Path, text: str) -> None:
    path = tmp_path / "accesses.csv"
    path.write_text(text)
    found = read(path)
    assert (found.gets, found.pages) == (4, 2)
    assert all_misses(found) == [4, 2, 0]


# The size of a page.


def test_a_page_size_against_the_file_is_not_used_and_said(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench")
    rows = [(at, (1, 2, 3, 1, 2, 4)[at % 6], 8192) for at in range(30)]
    path = written(tmp_path / "t.csv", rows, "timestamp,obj_id,size")
    ended = bench.bufferlab("curve", path, "--page-size", "4KiB", "--sizes", "16KiB")
    assert "The file's pages have 8 KiB: --page-size was not used." in ended.out.splitlines()
    misses = misses_of([page for _, page, _ in rows], 2)
    assert re.search(rf"2 pages \(16 KiB\) +100 % +{misses}\b", ended.out)
    assert misses == 30


def test_objects_of_several_sizes_have_pages_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench")
    rows = [(at, 1 + at % 4, (512, 4096, 65536)[at % 3]) for at in range(40)]
    path = written(tmp_path / "t.csv", rows, "timestamp,obj_id,size")
    ended = bench.bufferlab("curve", path, "--page-size", "4KiB", "--sizes", "2pages", "--json").json
    assert ended["curve"] == [{"pool_pages": 2, "lru_misses": 40}]
    assert ended["facts"][1] == (
        "Objects have 512 to 65,536 bytes: pages are counted, and have no size; --page-size was not used."
    )
    assert "KiB)" not in bench.bufferlab("curve", path, "--page-size", "4KiB").out
    refused = bench.bufferlab("curve", path, "--sizes", "64KiB")
    assert refused.code == 2
    assert "Objects have 512 to 65,536 bytes" in refused.err


def test_the_first_lines_say_what_was_taken(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench")
    path = written(tmp_path / "t.csv", [(500 * at, 5, at % 3) for at in range(9)], "ms,space,page")
    first = bench.bufferlab("curve", path, "--columns", "time=ms,page=page").out.splitlines()[:2]
    assert " ".join(line.rstrip() for line in first).startswith(
        "Read as a table: ms as time in ms, page as page, space as file; the first line names columns; "
        "times from 0 to 4 s."
    )
    document = bench.bufferlab("curve", path, "--columns", "page=3", "--json").json
    told = document["read"]
    assert told == {
        "format": "a table",
        "has_head": True,
        "columns": [
            {"role": "page", "name": "page", "unit": "pages"},
            {"role": "file", "name": "space", "unit": None},
        ],
        "notes": [],
    }
    assert (document["first_s"], document["last_s"]) == (0, 8)


@pytest.mark.parametrize(
    "text", ["page=3:feet", "page=3:ms", "time=1:bytes,page=2", 'page="a":feet', "file=1:ms,page=2"]
)
def test_a_unit_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        parse_columns(text)


def test_every_order_of_columns_and_separator_gives_the_same_accesses(tmp_path: Path) -> None:
    pages = [(at * at % 3, at * 7 % 11) for at in range(50)]
    columns = {"time": range(50), "lun": [disk for disk, _ in pages], "block": [page for _, page in pages]}
    for order in itertools.permutations(columns):
        for separator in (",", "\t", ";", " ", "   "):
            rows = list(zip(*(columns[name] for name in order), strict=True))
            path = written(tmp_path / "t.csv", rows, separator.join(order), separator)
            assert_same(read(path), pages)


# Files that were cut or joined, or that have other units.


@pytest.mark.parametrize("name", OF_FORMATS)
@pytest.mark.parametrize("kept", [1, 2, 4])
def test_a_last_line_that_lacks_columns_is_named(tmp_path: Path, name: str, kept: int) -> None:
    rows = [OF_FORMATS[name](at, *request) for at, request in enumerate(made(random.Random(1), count=10))]
    path = written(tmp_path / "t.trace", [*rows[:9], rows[9][:kept]], separator=" " if name == "MQSim" else ",")
    with pytest.raises(DataFileError) as refused:
        read(path)
    assert str(refused.value.where) == f"{path}:10"


@pytest.mark.parametrize("name", OF_FORMATS)
@pytest.mark.parametrize("kept", [-1, -2])
def test_a_last_line_without_an_end_that_lacks_cells_is_left_out_and_said(tmp_path: Path, name: str, kept: int) -> None:
    separator = " " if name == "MQSim" else ","
    rows = [OF_FORMATS[name](at, *request) for at, request in enumerate(made(random.Random(1), count=10))]
    whole = read(written(tmp_path / "whole.trace", rows[:9], separator=separator))
    path = written(tmp_path / "t.trace", [*rows[:9], rows[9][:kept]], separator=separator)
    path.write_text(path.read_text().rstrip("\n"))
    found = read(path)
    assert (found.gets, found.pages, all_misses(found)) == (whole.gets, whole.pages, all_misses(whole))
    assert found.reading is not None
    cells = len(rows[9])
    said = f"The last line, 10, has {cells + kept} of {cells} cells and no line's end: it is cut, and left out."
    assert found.reading.notes[0] == said


@pytest.mark.parametrize(
    ("text", "gets"),
    [
        # The last row has as many cells as the others, so nothing shows that it was cut.
        ("time,page\n0,7\n1,9\n2,7", 3),
        ("time,page\n0,7\n1,9\n2,7\n\n", 3),
        ("time,page\n0,7\n1,9\n2", 2),
        ('time,page\n0,"7,1"\n1,"9,2"\n2,"7,1"', 3),
        ("\n\ntime;page\n0;7\n1;9\n2", 2),
        ("0 7 4096\n1 9 4096\n2  7", 2),
    ],
)
def test_a_last_line_without_an_end_counts_where_it_has_the_cells_of_the_others(
    tmp_path: Path, text: str, gets: int
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    found = read(path)
    assert (found.gets, bool(found.reading and found.reading.notes)) == (gets, gets == 2)


@pytest.mark.parametrize("separators", ["\t\t\t\t", " \t  ", "\t  \t", "\t \t "])
def test_mqsims_columns_may_be_held_apart_by_tabs_and_blanks(tmp_path: Path, separators: str) -> None:
    requests = made(random.Random(4))
    rows = [OF_FORMATS["MQSim"](at, *request) for at, request in enumerate(requests)]
    path = tmp_path / "t.trace"
    lines = ["".join(f"{cell}{apart}" for cell, apart in zip(row, [*separators, ""], strict=True)) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    found = read(path)
    assert_same(found, pages_of(requests, 4096))
    assert found.reading is not None
    assert found.reading.format == "MQSim"


def test_lines_of_mqsim_may_differ_in_what_separates_them(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    path.write_text("4808330\t0\t8\t8\t1\n4808400 0 12 8 0\n5000000 1 8 16 1\n")
    found = read(path)
    assert found.reading.format == "MQSim"
    assert (len(found.page), len(set(found.page.tolist()))) == (5, 4)


def test_a_cell_with_several_numbers_is_no_page_without_a_name(tmp_path: Path) -> None:
    rows = [(at, f"{at % 3}  7", at % 2) for at in range(9)]
    with pytest.raises(DataFileError, match="does not name the columns"):
        read(written(tmp_path / "t.csv", rows))


def test_times_of_a_known_format_have_the_digits_that_they_are_written_with(tmp_path: Path) -> None:
    head = "version,time,op,size,lbn"
    rows = [(1, f"{5_600_000_000 + at}.{at % 10}", "r", 4096, 8 * at) for at in range(2_550)]
    found = read(written(tmp_path / "t.csv", rows, head))
    assert found.reading is not None
    assert found.reading.sentence(found.time_s[0], found.time_s[-1]).endswith("times from 0 to 2549.9 s.")
    long = [(1, f"5.{at}{'0' * 400}", "r", 4096, 8) for at in range(1, 3)]
    assert read(written(tmp_path / "long.csv", long, head)).time_s[1] == pytest.approx(0.1)
    fine = [(1, "5.1e-7", "r", 4096, 8), (1, "1.5e-3", "r", 4096, 16)]
    assert read(written(tmp_path / "fine.csv", fine, head)).time_s[1] == pytest.approx(1.49949e-3)


@pytest.mark.parametrize(
    ("text", "columns", "what"),
    [
        ("time,page,op\n0,1,get\n1,2,get\n2,3\n", None, "no operation is named"),
        ("0,7,4096\n1,9,4096\n2,7\n", None, "no size is named"),
        ("time,page,lun\n0,1,5\n1,2,5\n2,1\n", None, "no file is named"),
        ("time,page,size\n0,1,5\n1,2,5\n2\n", None, "no page is named"),
        ("9,R,0,4096,1577808000000046\n9,R,0,4096,1577808000000047\n9,R,0,4096,15778\n", None, "the last line is none"),
        ("who,block\na,7\nb,8\nwho,block\na,7\n", "page=block", "the names of columns come again"),
        ("time,offset,size\n0,0,512\n1,0,512\ntime,offset,size\n0,0,512\n", None, "the names of columns come again"),
        ("time,offset,size\n0,0,512\n1,0,512\ntimes,offsets,sizes\n0,0,512\n", None, "the time is no number"),
        ("Timestamp,Offset (KB),Size\n0,1,5\n1,2,5\n", 'page="Offset (KB)"', "neither in bytes nor in sectors"),
        ("time,offset,size_kib\n0,4096,4\n", "time=time,page=offset,size=size_kib", "neither in bytes nor in sectors"),
    ],
)
def test_a_line_that_is_cut_or_comes_again_is_refused(
    tmp_path: Path, text: str, columns: str | None, what: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(DataFileError, match=what):
        read(path, columns)


def test_an_empty_cell_in_the_first_line_makes_no_head(tmp_path: Path) -> None:
    rows = [(f"{at}.5", "" if at == 0 else "0.1", "R", 1, 4096 * at, 4096) for at in range(5)]
    assert read(written(tmp_path / "t.csv", rows)).gets == 5
    rows = [(at, 5, "nan" if at == 0 else at) for at in range(5)]
    assert read(written(tmp_path / "t.csv", rows), "page=2").gets == 5


def test_times_that_are_hardly_seconds_are_said(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", [(1_600_000_000_000 + at, at % 3) for at in range(9)], "ts,page")
    how = read(path).reading
    assert how is not None
    assert how.notes == ("Times so large are hardly seconds: say time=ts:ms, time=ts:us or time=ts:ns.",)
    how = read(path, "time=ts:ms,page=page").reading
    assert how is not None
    assert how.notes == ()


def test_a_trace_of_spc_may_have_further_columns_and_one_of_mqsim_no_bytes(tmp_path: Path) -> None:
    requests = made(random.Random(8))
    rows = [(*OF_FORMATS["SPC"](at, *request), "x", at) for at, request in enumerate(requests)]
    assert_same(read(written(tmp_path / "Financial.spc", rows)), pages_of(requests, 4096))
    in_bytes = [(at, disk, first, 4096, at % 2) for at, (disk, first, _) in enumerate(requests)]
    with pytest.raises(DataFileError, match="does not name the columns") as refused:
        read(written(tmp_path / "t.trace", in_bytes, separator=" "))
    assert "page is in bytes, sectors or pages" in (refused.value.hint or "")


@pytest.mark.parametrize("head", ["block", "# block numbers"])
def test_a_title_above_one_column_of_pages_is_no_page(tmp_path: Path, head: str) -> None:
    path = tmp_path / "pages.csv"
    path.write_text("\n".join([head, *map(str, 2 * [*range(1, 151)]), ""]))
    accesses = files.read(path, parse_columns("page=1"))
    assert (accesses.gets, accesses.pages) == (300, 150)
    if " " not in head:
        assert files.read(path).gets == 300
