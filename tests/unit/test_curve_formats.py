"""Traces in other programs' formats: each gives the same accesses; damaged or huge files are refused by name."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import struct
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from bufferlab.errors import BufferlabError, DataFileError, SpecError
from bufferlab.traces import curve, files, text, unpacked
from bufferlab.traces.options import parse_columns
from support.fake import Bench

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    zstd = pytest.importorskip("backports.zstd")

#: Five accesses: a b a c b.
PAGES = [0, 1, 0, 2, 1]
RECORD = struct.Struct("<IQIq")


def oracle_general(pages: list[int], size: int = 4096) -> bytes:
    return b"".join(RECORD.pack(at, page, size, -1) for at, page in enumerate(pages))


TEXTS = {
    "names.csv": b"timestamp,obj_id,size,op\n0,a,4096,get\n1,b,4096,set\n2,a,4096,get\n3,c,4096,get\n4,b,4096,get\n",
    "own.csv": b"time,page,op\n0,a,get\n1,b,get\n2,a,get\n3,c,get\n4,b,get\n",
    "no-names.csv": b"0,70,4096,get\n1,71,4096,get\n2,70,4096,get\n3,72,4096,get\n4,71,4096,get\n",
    "no-op.csv": b"0,70,4096\n1,71,4096\n2,70,4096\n3,72,4096\n4,71,4096\n",
    "tabs.csv": b"time\tkey\n0\ta\n1\tb\n2\ta\n3\tc\n4\tb\n",
    "decimal.txt": b"7\n12\n7\n13\n12\n",
    "blank-end.txt": b"\n7\n12\n7\n13\n12\n\n\r\n",
    "hex.txt": b"0x7\n0xC\n0x07\n0xd\n0xc\n",
    "bare-hex.txt": b"000a\n000b\na\n00ff\nb\n",
    "published.oracleGeneral.bin": oracle_general([9, 2**63, 9, 2**64 - 1, 2**63]),
    "plain.oracleGeneral": oracle_general([5, 6, 5, 7, 6]),
    "msr.csv": b"".join(
        b"%d,usr,0,%s,%d,4096,5000\n" % (128166372003061629 + at * 10_000_000, kind, page * 4096)
        for at, (page, kind) in enumerate(
            zip(PAGES, (b"Read", b"Write", b"Read", b"Read", b"Write"), strict=True)
        )
    ),
}  # fmt: skip


PACKERS = {"": bytes, ".zst": zstd.compress, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("name", TEXTS)
def test_every_format_gives_the_same_accesses(tmp_path: Path, name: str, suffix: str) -> None:
    path = tmp_path / f"{name}{suffix}"
    path.write_bytes(PACKERS[suffix](TEXTS[name]))
    accesses = files.read(path)
    names = list(dict.fromkeys(accesses.page.tolist()))
    assert [names.index(page) for page in accesses.page.tolist()] == PAGES
    assert accesses.time_s.tolist() == [0, 1, 2, 3, 4]
    assert (accesses.gets, accesses.pages) == (5, 3)
    assert accesses.page_size_bytes == (4096 if b"4096" in TEXTS[name] or "oracle" in name else None)
    assert list(curve.curve(accesses, None, lambda _: None).misses) == [5, 5, 4, 3]


def test_columns_are_named_or_numbered(tmp_path: Path) -> None:
    path = tmp_path / "any.csv"
    path.write_bytes(b"part,when\na,0\nb,1\na,2\n")
    for columns in ("page=part,time=when", "page=1,time=2"):
        accesses = files.read(path, parse_columns(columns))
        assert (accesses.gets, accesses.pages, accesses.time_s[-1]) == (3, 2, 2)
    by_number = files.read(path, parse_columns("page=1"))
    assert (by_number.gets, by_number.time_s.tolist()) == (3, [0, 1, 2])
    assert files.read(path, parse_columns("page=part")).gets == 3


@pytest.mark.parametrize("columns", ["page", "page=", "what=1,page=2", "time=1", "page=1,page=2", "=,"])
def test_columns_that_cannot_be_understood_are_refused(columns: str) -> None:
    with pytest.raises(SpecError):
        parse_columns(columns)


def test_a_request_of_a_block_trace_touches_each_page_that_it_covers(tmp_path: Path) -> None:
    path = tmp_path / "msr.csv"
    path.write_bytes(
        b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n"
        b"30000000,usr,0,Read,8192,4096,9\n"
        b"10000000,usr,0,Read,4095,2,9\n"
        b"20000000,usr,1,Read,0,0,9\n"
    )
    accesses = files.read(path)
    # The accesses are sorted by time: pages 0 and 1 of disk 0, page 0 of disk 1, page 2 of disk 0.
    assert (accesses.time_s.tolist(), accesses.pages) == ([0, 0, 1, 2], 4)
    assert files.read(path, None, 16384).pages == 2
    assert files.read(path, None, 1024).gets == 2 + 1 + 4


@pytest.mark.parametrize(
    ("name", "content", "what", "where"),
    [
        ("a.csv", b"1,2\n", "does not name the columns", ":1"),
        ("a.csv", b"when,obj_id\n1,2\n", "does not name the columns", ":1"),
        ("a.csv", b"time,obj_id\n1,a\nsoon,b\n", "the time is no number", ":3"),
        ("a.csv", b"1,5,1,get\n2, ,1,get\n", "no page is named", ":2"),
        ("a.csv", b"2,5,1,get\n1,6,1,get\n", "time runs backwards", ":2"),
        ("a.csv", b"time,obj_id\n", "there is no get", ""),
        ("a.csv", b"1,h,0,Read,x,1,1\n", "offset is no number", ":1"),
        ("a.csv", b"1,h,0,Read,1,1,1\n1,h,0,Read,%d,1,1\n" % 2**63, "offset is no number", ":2"),
        ("a.csv", b"1,h,0,Read,1,%d,1\n" % 2**41, "size is no number", ":1"),
        ("a.csv", b"1,h,0,Read,1,%d,1\n" % (2**40 - 1), "accesses, for which the free memory", ""),
        ("a.txt", b"12\n0x\n", "not one number of a page", ":2"),
        ("a.txt", b"\n12\n\n13\n", "not one number of a page", ":3"),
        ("a.txt", b"12\n13 14\n", "not one number of a page", ":2"),
        ("a.txt", b"", "there is no get", ""),
        ("a.txt.zst", b"not packed", "zstd cannot unpack it", ""),
        ("a.bin", bytes(25), "ends inside a record", ", record 2"),
        ("a.gz", b"", "not a file of page accesses", ""),
        ("a.zst", b"", "not a file of page accesses", ""),
    ],
)
def test_a_strangers_file_that_cannot_be_read_is_refused(
    tmp_path: Path, name: str, content: bytes, what: str, where: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataFileError) as refused:
        files.read(path)
    assert what in refused.value.what
    assert str(refused.value.where).startswith(f"{path}{where}")


def test_a_device_is_refused_and_a_missing_file_named(tmp_path: Path) -> None:
    device = tmp_path / "endless.csv"
    device.symlink_to("/dev/zero")
    for path, what in ((device, "not a regular file"), (tmp_path / "no.txt", "cannot be read")):
        with pytest.raises(DataFileError, match=what):
            files.read(path)


@pytest.mark.parametrize("suffix", [".zst", ".gz", ".xz", ".bz2"])
def test_a_small_file_that_unpacks_to_all_memory_is_refused(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"bomb.oracleGeneral{suffix}"
    path.write_bytes(PACKERS[suffix](bytes(24 << 20)))
    assert path.stat().st_size < 30_000
    monkeypatch.setattr(unpacked, "most_bytes", lambda: (24 << 20) - 1)
    with pytest.raises(DataFileError, match="an eighth of the memory"):
        files.read(path)
    monkeypatch.setattr(unpacked, "most_bytes", lambda: 24 << 20)
    assert files.read(path).gets == 1 << 20


@pytest.mark.parametrize("name", ["decimal.txt", "names.csv", "own.csv", "plain.oracleGeneral"])
def test_more_accesses_than_the_memory_suffices_for_are_refused(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.write_bytes(TEXTS[name])
    for module in (text, unpacked):
        monkeypatch.setattr(module, "most_accesses", lambda: 4)
    with pytest.raises(DataFileError, match="more than 4 accesses"):
        files.read(path)


def test_memory_that_the_process_may_not_have_is_no_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError

    path = tmp_path / "a.csv"
    path.write_bytes(TEXTS["msr.csv"])
    monkeypatch.setattr(text, "touched", refuse)
    with pytest.raises(DataFileError, match="more memory than this process may have"):
        files.read(path)


@pytest.mark.parametrize("before", [b"", b"\n\n", b"\r\n" * 200, b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
@pytest.mark.parametrize(
    ("name", "separator", "columns"),
    [("a.csv", b",", None), ("a.csv.zst", b",", "page=1"), ("a.csv", b",\r", "page=1"), ("a.txt", b"\x1f", None)],
)
def test_a_line_of_very_many_columns_is_refused_before_they_take_memory(
    tmp_path: Path, before: bytes, name: str, separator: bytes, columns: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = before + b"time" + separator + b"page" + separator * 100_000 + b"\n"
    path = tmp_path / name
    path.write_bytes(zstd.compress(wide) if name.endswith("zst") else wide)
    monkeypatch.setattr(pl, "read_csv", lambda *_, **__: pytest.fail("polars would take memory for each column"))
    with pytest.raises(DataFileError, match=r"more than 1,000 columns|does not name the columns"):
        files.read(path, parse_columns(columns))


def test_a_table_of_a_thousand_columns_is_read(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_bytes(b"".join(b"%d,a" % at + b",x" * 998 + b"\n" for at in range(3)))
    assert files.read(path, parse_columns("time=1,page=2")).gets == 3


def test_mangled_traces_end_in_an_answer_or_a_refusal(tmp_path: Path) -> None:
    rng = random.Random(6)
    for _ in range(400):
        name, content = rng.choice(list(TEXTS.items()))
        data = bytearray(content)
        for _ in range(rng.randint(0, 4)):
            at = rng.randrange(len(data))
            data[at : at + rng.randint(0, 9)] = rng.choice(
                (b"", b"\n", b",", b"\xff", b"-1", b"99999999999999999999", b"\0")
            )
            data = data or bytearray(b"x")
        packed = rng.random() < 0.3
        packed_data = bytearray(zstd.compress(bytes(data))) if packed else data
        if packed and rng.random() < 0.5:
            packed_data[rng.randrange(len(packed_data))] ^= 1 << rng.randrange(8)
        path = tmp_path / (f"{name}.zst" if packed else name)
        path.write_bytes(packed_data)
        try:
            accesses = files.read(path)
        except BufferlabError:
            continue
        assert np.isfinite(accesses.time_s).all()
        assert len(curve.curve(accesses, None, lambda _: None).misses) == accesses.pages + 1


def test_the_command_reads_them(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench")
    path = tmp_path / "any.csv"
    path.write_bytes(b"part;when\na;0\nb;1\na;2\n")
    document = bench.bufferlab("curve", path, "--columns", "page=part,time=when", "--sizes", "2pages", "--json").json
    assert document["curve"] == [{"pool_pages": 2, "lru_misses": 2}]
    refused = bench.bufferlab("curve", path, "--columns", "page=block")
    assert (refused.code, refused.out) == (65, "")
    assert 'there is no column "block" among 2' in refused.err


def lcs(version: int, pages: list[int], sizes: list[int], said: int = 0) -> bytes:
    """Return a file in libCacheSim's format lcs, by the structures in its lcs.h."""
    magic = struct.pack("<Q", 0x123456789ABCDEF0)
    further = struct.pack("<II", 7, 0) if version > 2 else struct.pack("<I", 7) if version == 2 else b""
    features = bytes(4 * (1 << version - 4)) if version > 3 else b""
    records = (
        struct.pack("<IQ", at, page) + struct.pack("<q" if version > 2 else "<I", size) + further
        + struct.pack("<q", -1) + features
        for at, (page, size) in enumerate(zip(pages, sizes, strict=True))
    )  # fmt: skip
    return magic + struct.pack("<Qqq", version, 1, said) + bytes(8152) + magic + b"".join(records)


@pytest.mark.parametrize("version", range(1, 9))
def test_each_version_of_lcs_gives_the_same_accesses(tmp_path: Path, version: int) -> None:
    path = tmp_path / "a.lcs.gz"
    path.write_bytes(gzip.compress(lcs(version, [9, 2**63, 9, 4, 2**63], [8192] * 5), mtime=0))
    accesses = files.read(path)
    assert (accesses.gets, accesses.pages, accesses.page_size_bytes) == (5, 3, 8192)
    assert accesses.time_s.tolist() == [0, 1, 2, 3, 4]
    assert list(curve.curve(accesses, None, lambda _: None).misses) == [5, 5, 4, 3]
    plain = tmp_path / "a.lcs"
    plain.write_bytes(lcs(version, [1, 2, 1], [512, 4096, 512], said=3))
    assert files.read(plain).page_size(4096)[0] is None


def vscsi(version: int, requests: list[tuple[int, int, int]]) -> bytes:
    """Return a file in CloudPhysics's format vscsi, by the structures in libCacheSim's vscsi.h: sector, bytes, us."""
    if version == 1:
        return b"".join(
            struct.pack("<IIIHHQQ", at, size, 1, 0x28, 0x0105, sector, us)
            for at, (sector, size, us) in enumerate(requests)
        )
    return b"".join(
        struct.pack("<HHIIIQQQ", 0x2A, 0x0200, at, size, 1, sector, us, 50)
        for at, (sector, size, us) in enumerate(requests)
    )


@pytest.mark.parametrize("name", ["a.vscsi", "a.vscsitrace"])
@pytest.mark.parametrize("version", [1, 2])
def test_requests_of_a_virtual_disk_touch_each_page_that_they_cover(tmp_path: Path, version: int, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(vscsi(version, [(16, 4096, 10**12), (7, 1024, 10**12 + 2_000_000), (0, 16384, 10**12 + 500_000)]))
    accesses = files.read(path)
    # Page 2; pages 0 to 3; and pages 0 and 1 for a request that begins 512 bytes before page 1.
    assert (accesses.gets, accesses.pages, accesses.page_size_bytes) == (7, 4, 4096)
    assert accesses.time_s.tolist() == [0, 0.5, 0.5, 0.5, 0.5, 2, 2]
    assert accesses.page.tolist() == [2, 0, 1, 2, 3, 0, 1]
    assert files.read(path, None, 16384).gets == 3


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.lcs", bytes(8192 + 24), "not the header of lcs"),
        ("a.lcs", lcs(1, [1], [1])[:-1], "ends inside a record of 24"),
        ("a.lcs", lcs(2, [1], [1])[:100], "not the header of lcs"),
        ("a.lcs", lcs(2, [], []), "there is no get"),
        ("a.lcs", lcs(3, [1, 2], [1, 1], said=3), "says 3 requests, and 2 are in the file"),
        ("a.vscsi", bytes(64), "have not the version of vscsi"),
        ("a.vscsi", b"", "have not the version of vscsi"),
        ("a.vscsi", vscsi(2, [(1, 2, 3), (4, 5, 6)])[:-1], "ends inside a record of 40"),
        ("a.vscsi", vscsi(1, [(2**60, 2, 3)]), "sector is too large"),
        ("a.csv.gz", b"not packed", "gz cannot unpack it"),
        ("a.csv.xz", b"not packed", "xz cannot unpack it"),
        ("a.csv.bz2", b"not packed", "bz2 cannot unpack it"),
        ("a.csv.gz", gzip.compress(b"time,page\n" * 1000, mtime=0)[:-9], "gz cannot unpack it"),
        ("a.csv.xz", lzma.compress(b"time,page\n" * 1000)[:-9], "xz cannot unpack it"),
        ("a.csv.bz2", bz2.compress(b"time,page\n" * 1000)[:-9], "bz2 cannot unpack it"),
    ],
)
def test_damaged_records_and_packed_files_are_refused(tmp_path: Path, name: str, content: bytes, what: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=what):
        files.read(path)
