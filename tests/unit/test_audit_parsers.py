"""Texts of other tools, read to the digit: every available version of each format."""

from __future__ import annotations

import os
import random
from datetime import datetime
from pathlib import Path

import pytest

from bufferlab.audit.parsers.captions import MAX_LINE_BYTES, file_lines
from bufferlab.audit.parsers.iostat import busiest
from bufferlab.audit.parsers.read import read_file
from bufferlab.audit.parsers.tables import TableParser
from bufferlab.errors import DataFileError
from support.audit_files import FIXTURES, evidence_of, text_of

OLD_LINES = """\
  10, 119(3):2.157|2.560, 118(0):0.514|0.616, 12(0):0.286|0.291, 11(1):2.756|2.792, 12(0):5.600|5.682
  20, 120(0):2.100|2.500, 121(0):0.500|0.600, 12(0):0.280|0.290, 12(0):2.700|2.790, 12(0):5.500|5.600
"""


def test_todays_interval_line_is_read_to_the_last_digit() -> None:
    line = "1100, trx: 670, 95%: 139.060, 99%: 273.448, max_rt: 375.905, 668|288.831, 67|57.149, 66|425.853, 65|294.795"
    (log,) = evidence_of(line).logs
    (interval,) = log.intervals
    assert interval.elapsed_s == 1100
    assert interval.counts == (670, 668, 67, 66, 65)
    assert interval.max_ms == (375.905, 288.831, 57.149, 425.853, 294.795)
    assert (interval.p95_ms, interval.p99_ms) == (139.06, 273.448)


def test_the_older_interval_line_is_read_with_its_late_ones() -> None:
    (log,) = evidence_of(OLD_LINES).logs
    assert [interval.elapsed_s for interval in log.intervals] == [10, 20]
    assert log.intervals[0].counts == (119, 118, 12, 11, 12)
    assert log.intervals[0].late == (3, 0, 0, 1, 0)
    assert log.intervals[0].p90_ms == (2.157, 0.514, 0.286, 2.756, 5.6)
    assert log.intervals[0].max_ms == (2.56, 0.616, 0.291, 2.792, 5.682)


def test_the_closing_block_is_read_whole() -> None:
    log = evidence_of(text_of("clean.txt")).logs[0]
    assert log.parameters == {"warehouse": 2, "connection": 8, "rampup": 10, "measure": 40}
    assert (log.raw[0].success, log.raw[0].late, log.raw[0].limit, log.raw[0].mean_ms) == (2412, 0, 5000, 12.5)
    assert log.raw[3].limit == 80000
    assert (log.summed[1].success, log.summed[1].limit) == (2416, None)
    assert log.measured_s == 40
    assert {name: check.percent for name, check in log.mix.items()}["Payment"] == 43.5
    assert all(check.ok for check in log.response.values())
    assert len(log.response) == 5
    assert (log.tpmc, log.tpmc_text) == (3618.0, "3618.000")


def test_a_second_run_in_the_same_file_is_another_log() -> None:
    assert [len(log.intervals) for log in evidence_of(OLD_LINES + OLD_LINES).logs] == [2, 2]


STATUS = {
    # pool pages, free, database, modified, read, created, written, hit, instances
    "mysql-5.6.24": (65536, 65202, 321, 0, 12, 309, 320, 1000, 2),
    "mysql-5.7.22": (65536, 65045, 478, 49, 267, 211, 200, 1000, 2),
    "mysql-8.0.15": (65536, 64361, 1150, 245, 818, 332, 210, 1000, 2),
    "mariadb-10.2.11": (65535, 65032, 490, 158, 168, 322, 200, 1000, 2),
    "mariadb-10.11.19": (64896, 64408, 488, 224, 170, 318, 0, 1000, 0),
    "mariadb-11.4.5": (64896, 64418, 478, 213, 174, 304, 0, 1000, 0),
}


@pytest.mark.parametrize("server", STATUS)
def test_the_status_text_of_every_server_is_read(server: str) -> None:
    (dump,) = read_file(FIXTURES / "status" / f"{server}.txt").dumps
    names = ("pool_pages", "free_buffers", "database_pages", "modified_pages")
    names += ("pages_read", "pages_created", "pages_written", "hit_permille")
    assert (*(int(dump.fields[name]) for name in names), len(dump.instances)) == STATUS[server]
    assert isinstance(dump.at, datetime)
    assert {"memory_bytes", "lsn", "os_reads", "averages_over_s", "lru_pages", "io_sum"} <= dump.fields.keys()
    assert len(dump.fields) >= 30
    for instance in dump.instances.values():
        assert instance["pool_pages"] >= 32767
    assert not dump.instances or sum(one["pages_read"] for one in dump.instances.values()) == dump.fields["pages_read"]


def test_several_dumps_in_one_file_are_told_apart() -> None:
    one = text_of("status/mysql-5.7.22.txt")
    later = one.replace("15:09:38", "15:11:18").replace("Pages read 267,", "Pages read 967,")
    dumps = evidence_of(one + later).dumps
    assert [dump.fields["pages_read"] for dump in dumps] == [267, 967]
    assert [len(dump.instances) for dump in dumps] == [2, 2]


def test_dumps_cut_as_in_a_screenshot_are_told_apart_by_their_captions() -> None:
    dumps = evidence_of(text_of("page-size.txt")).dumps
    assert [dump.t_s for dump in dumps] == [100, 400, 800, 1100] * 3
    assert [dump.fields["pages_read"] for dump in dumps[:4]] == [58873, 151024, 269994, 356670]
    assert {dump.place.label for dump in dumps} == {"page size = 4KB", "page size = 8KB", "page size = 16KB"}


IOSTAT = {
    # reports, busiest, r/s, w/s, bytes read per second, bytes of a read, all of the last report
    "sysstat-9-x": (2, "sda", 900, 300, 28800 * 512, 16384),
    "sysstat-10-x": (1, "vda", 210, 90, 3360 * 1024, 16384),
    "sysstat-11-mx": (1, "nvme0n1", 52.1, 31.4, 0.81 * (1 << 20), 16384),
    "sysstat-12.6-boot": (4, "vda", 880, 290, 14080 * 1024, 16384),
}


@pytest.mark.parametrize("version", IOSTAT)
def test_iostat_of_several_versions_is_read(version: str) -> None:
    reports = read_file(FIXTURES / "iostat" / f"{version}.txt").reports
    count, device, *numbers = IOSTAT[version]
    row = reports[-1].devices[str(busiest(reports))]
    assert (len(reports), busiest(reports)) == (count, device)
    assert (row.reads_per_s, row.writes_per_s, row.read_bytes_per_s, row.read_request_bytes) == pytest.approx(
        tuple(numbers), rel=0.01
    )
    assert [report.since_boot for report in reports] == [True] + [False] * (count - 1)


def test_a_name_on_a_line_of_its_own_belongs_to_the_numbers_below() -> None:
    last = read_file(FIXTURES / "iostat" / "sysstat-9-x.txt").reports[-1]
    assert last.devices["mapper/vg_database-lv_mysql_data"].writes_per_s == 4


@pytest.mark.parametrize("name", ["sysstat-12.6-x", "sysstat-12.6-mx-y"])
def test_iostat_as_this_machine_prints_it_is_read(name: str) -> None:
    reports = read_file(FIXTURES / "iostat" / f"{name}.txt").reports
    assert len(reports) >= 2
    for report in reports:
        row = report.devices["vda"]
        assert {"r/s", "w/s", "r_await", "rareq-sz", "f/s", "aqu-sz", "%util"} <= row.columns.keys()
        assert len(row.columns) == 22


ROWS = [("128M", 3618.0, 300.0, 135.0), ("512M", 7215.0, 120.0, 270.0)]
TABLES = {
    "markdown": "| Pool | TpmC | r/s | w/s |\n|---|---:|---:|---:|\n"
    "| 128M | 3618.0 | 300 | 135 |\n| 512M | 7,215.0 | 120 | 270 |",
    "tabs": "Pool\tTpmC\tr/s\tw/s\n128M\t3618.0\t300\t135\n512M\t7215.0\t120\t270",
    "csv": 'Pool,TpmC,r/s,w/s\n128M,3618.0,300,135\n512M,"7,215.0",120,270',
    "spaces": "Pool   TpmC   r/s  w/s\n128M   3618.0  300  135\n512M   7215.0  120  270",
    "on its side": "\t128M\t512M\nTpmC\t3618.0\t7215.0\nr/s\t300\t120\nw/s\t135\t270",
    "two header rows": "Pool\tTpmC\tI/O\t\n\t\tr/s\tw/s\n128M\t3618.0\t300\t135\n512M\t7215.0\t120\t270",
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_of_results_is_read_however_it_is_written(kind: str) -> None:
    (table,) = evidence_of(f"\n{TABLES[kind]}\n\n").results
    found = []
    for row in table.rows:
        numbers = [row.first(role) for role in ("tpmc", "reads_per_s", "writes_per_s")]
        found.append((row.setting, *(number.value for number in numbers if number)))
    assert found == ROWS


def test_percentages_on_the_next_line_belong_to_the_counts_above() -> None:
    table = evidence_of(text_of("scan-depth.txt")).results[1]
    assert [number.value for number in table.rows[0].values["free_list"]] == [3733995, 63.91]
    assert [number.percent for number in table.rows[-1].values["single_page"]] == [False, True]
    assert len(table.rows) == 7


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"\n\nnothing here\nor here\n", "nothing recognised in 4 lines, which begin 'nothing here'"),
        (bytes(range(256)) * 40, "nothing recognised"),
    ],
)
def test_a_file_without_anything_is_named_with_its_line(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "x.txt").write_bytes(content)
    with pytest.raises(DataFileError) as raised:
        read_file(tmp_path / "x.txt")
    assert said in raised.value.what
    assert str(tmp_path / "x.txt") in str(raised.value.where)
    assert raised.value.exit_code == 65


def test_a_carriage_return_inside_a_line_is_a_space(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"Pool,TpmC,r/s\r,w/s\n128M,3618.0,300,135\r\n")
    (table,) = read_file(tmp_path / "x.txt").results
    assert [row.setting for row in table.rows] == ["128M"]
    assert evidence_of("Pool,TpmC,r/s\n128M,3618.0,300\n").results
    TableParser("x").take(1, "Pool,TpmC\r,r/s", "")


def test_megabytes_of_random_bytes_are_not_recognised(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(random.Random(1).randbytes(1 << 20))
    with pytest.raises(DataFileError, match="nothing recognised"):
        read_file(tmp_path / "x.bin")


@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_what_has_no_end_is_refused_before_it_is_opened(tmp_path: Path, kind: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / "pipe" if kind == "pipe" else Path("/dev/zero")
    with pytest.raises(DataFileError, match="not a regular file") as raised:
        read_file(path)
    assert str(path) in str(raised.value.where)
    assert raised.value.exit_code == 65


def test_a_long_line_is_cut_and_the_numbering_holds(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"a" * (5 * MAX_LINE_BYTES) + b"\nsecond\r\n")
    lines = list(file_lines(tmp_path / "x.txt"))
    assert [(line.number, len(line.text)) for line in lines] == [(1, MAX_LINE_BYTES), (2, 6)]
