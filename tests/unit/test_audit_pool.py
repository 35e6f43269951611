"""The pool and page size that a status text shows: for MySQL by its memory, for MariaDB only by its frames."""

from __future__ import annotations

from pathlib import Path

import pytest

from bufferlab.audit.audit import audit_evidence, audit_files
from bufferlab.audit.evidence import AuditFinding
from bufferlab.audit.parsers.read import read_file
from support.audit_files import FIXTURES, evidence_of, text_of

MARIADB = """\
Total large memory allocated {memory}
Buffer pool size   {pages}
Free buffers       0
Database pages     {pages}
Modified db pages  0
Percent of dirty pages(LRU & free pages): 0.000
Pending reads 0
"""
MYSQL = MARIADB.replace("Percent of dirty pages(LRU & free pages): 0.000\n", "")
MIB = 1 << 20


def findings(status: str, settings: str) -> tuple[AuditFinding, ...]:
    return audit_evidence([evidence_of(status, "run.status.txt"), evidence_of(settings, "run.cnf")]).findings


def rules(status: str, settings: str) -> list[str]:
    return [finding.rule for finding in findings(status, settings)]


@pytest.mark.parametrize(
    ("name", "pool", "page"),
    [("24m", "24M", "16k"), ("8m-4k", "8M", "4k"), ("96m-8k", "96M", "8k"), ("escaped", "24M", "16k")],
)
def test_a_true_set_up_of_mariadb_is_true(name: str, pool: str, page: str) -> None:
    """The log buffers have 16, 16, 64 and 16 MiB; the text adds twice their size to the pool's memory."""
    status = read_file(FIXTURES / f"status/mariadb-10.11.19-{name}.txt")
    (dump,) = status.dumps
    assert (dump.family, dump.whole, dump.fields["pages_read"] >= 0) == ("mariadb", True, True)
    for settings in (f"innodb_buffer_pool_size={pool}\ninnodb_page_size={page}\n", f"innodb_buffer_pool_size={pool}\n"):
        set_up = evidence_of(settings, str(Path(status.file).with_suffix("").with_suffix("")) + ".cnf")
        assert audit_evidence([status, set_up]).findings == (), settings


@pytest.mark.parametrize(
    ("pool_mib", "log_mib", "frames", "page_kib"),
    # Frames that servers with these settings printed.
    [(16, 16, 1014, 16), (20, 16, 1265, 16), (128, 64, 8112, 16), (512, 1024, 32448, 16), (5, 16, 1232, 4)],
)
def test_the_log_buffer_is_no_part_of_mariadbs_pool(pool_mib: int, log_mib: int, frames: int, page_kib: int) -> None:
    text = MARIADB.format(memory=(pool_mib + 2 * log_mib) * MIB, pages=frames)
    assert rules(text, f"innodb_buffer_pool_size={pool_mib}M\ninnodb_page_size={page_kib}k\n") == []


@pytest.mark.parametrize(("frames", "found"), [(1203, []), (1173, ["pool-asked"]), (1400, ["pool-asked"])])
def test_of_mariadb_frames_are_seven_per_cent_apart_at_least(frames: int, found: list[str]) -> None:
    text = MARIADB.format(memory=52 * MIB, pages=frames)
    assert rules(text, "innodb_buffer_pool_size=20M\ninnodb_page_size=16k\n") == found


def test_another_pool_of_mariadb_is_found_where_no_page_size_explains_it() -> None:
    """The frames fit a pool of 128 MiB with pages of 16 KiB, or of 512 MiB with pages of 64 KiB."""
    text = MARIADB.format(memory=160 * MIB, pages=8112)
    assert rules(text, "innodb_buffer_pool_size=512M\n") == []
    (one,) = findings(text, "innodb_buffer_pool_size=1G\n")
    assert (one.rule, one.numbers["run_mib"]) == ("pool-asked", 8112 / 64)


def test_a_mysql_without_the_pools_memory_is_judged_by_the_stated_page_size() -> None:
    text = MYSQL.format(memory=0, pages=16384)
    assert rules(text, "innodb_buffer_pool_size=256M\ninnodb_page_size=16k\n") == []
    assert rules(text, "innodb_buffer_pool_size=64M\ninnodb_page_size=4k\n") == []
    assert rules(text, "innodb_buffer_pool_size=100M\ninnodb_page_size=16k\n") == ["pool-asked"]


def test_memory_for_each_page_shows_the_page_size_of_a_mysql_up_to_8_0_alone() -> None:
    settings = "innodb_buffer_pool_size=128M\ninnodb_page_size=16k\n"
    memory, cut = 137 * MIB, "Modified db pages  0\n"
    assert rules(MYSQL.format(memory=memory, pages=32768), settings) == ["page-size-ran"]
    # 32,768 pages of 16 KiB are not a pool of 128 MiB on any server.
    assert rules(MARIADB.format(memory=memory, pages=32768), settings) == ["pool-asked"]
    assert rules(MYSQL.replace(cut, "").format(memory=memory, pages=32768), settings) == ["pool-asked"]


def test_a_status_that_the_client_escaped_reads_as_the_one_it_did_not(tmp_path: Path) -> None:
    plain = text_of("status/mysql-8.0.15.txt")
    escaped = tmp_path / "escaped.txt"
    body = plain[plain.index("====") :].replace("\n", "\\n")
    escaped.write_text(f"Type\tName\tStatus\nInnoDB\t\t\\n{body}\nEnd of file\n")
    assert len(body) > 4000
    (one,), (other,) = read_file(escaped).dumps, evidence_of(plain).dumps
    assert (one.fields, one.instances, one.at) == (other.fields, other.instances, other.at)


def test_an_escaped_status_longer_than_any_other_line_is_read_to_its_end(tmp_path: Path) -> None:
    plain = text_of("status/mariadb-10.11.19-escaped.txt")
    path = tmp_path / "run.txt"
    path.write_text(plain.replace("LIST OF TRANSACTIONS", "-- a transaction\\n" * 2000 + "LIST OF TRANSACTIONS"))
    assert audit_files([path]).case.files[0].dumps[0].fields["lru_pages"] == 302
