"""Rules on iostat's columns, the status text's counters, set-ups, lines and files: each limit from both sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from bufferlab.audit.audit import audit_evidence
from bufferlab.audit.evidence import AuditFinding
from support.audit_files import FIXTURES, evidence_of, found, text_of

STATUS, DISCARDS = "real/mysql-5.7-32m/run.status.txt", "iostat/sysstat-12.6-discards.txt"
LOG, PGBENCH = "real/mysql-5.7-32m/run.tpcc.log", "load/pgbench-15-progress.txt"
HEAD = (
    "Device r/s rkB/s r_await rareq-sz w/s wkB/s w_await wareq-sz d/s dkB/s d_await dareq-sz f/s f_await aqu-sz %util"
)


def lines(count: int, *, queue: float, flush_ms: float = 2.0, discard_ms: float = 4.0, util: float = 50.0) -> str:
    """Return reports in which reads, writes, discards and flushes keep 0.4, 0.3, 0.2 and 0.1 requests in the queue."""
    row = f"vda 400 6400 1.00 16 150 1200 2.00 8 50 200 {discard_ms} 4 50 {flush_ms} {queue} {util}"
    return "".join(f"{HEAD}\n{row}\n\n" for _ in range(count))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (lines(3, queue=1.0), 0),
        (lines(3, queue=1.2), 0),
        (lines(3, queue=1.21), 1),
        (lines(3, queue=0.8), 0),
        (lines(3, queue=0.79), 1),
        (lines(2, queue=9.0), 0),
        # Discards and flushes are part of the queue: without them the stated 0.7 would be right.
        (lines(3, queue=0.7), 1),
        (lines(3, queue=0.7, flush_ms=0, discard_ms=0), 0),
        (lines(3, queue=1.0).replace(" f_await", " x").replace(" f/s", " y"), 0),
        (lines(3, queue=0.7).replace(" f_await", " x").replace(" f/s", " y"), 1),
    ],
)
def test_a_queue_is_the_requests_times_their_waits(text: str, count: int) -> None:
    assert len(found(text, "littles-law")) == count


@pytest.mark.parametrize(
    ("queues", "count"),
    [
        # Without its flushes the requests and waits of each line make a queue of 0.9.
        ((0.5, 0.5, 0.5), 1),
        ((0.5, 0.5, 0.5, 1.3, 1.3, 1.3), 0),
        # The waits make 5.4 in all, of which a fifth, 1.08, may be missing.
        ((0.1, 0.1, 0.1, 1.3, 1.3, 1.3), 1),
        ((0.1, 0.1, 0.1, 1.4, 1.4, 1.4), 0),
        ((9.0, 9.0, 9.0), 0),
    ],
)
def test_a_queue_of_an_older_kernel_is_judged_over_all_lines(queues: tuple[float, ...], count: int) -> None:
    text = "".join(lines(1, queue=queue) for queue in queues).replace(" f_await", " x").replace(" f/s", " y")
    assert len(found(text, "littles-law")) == count


@pytest.mark.parametrize(
    ("head", "row", "rule", "count"),
    [
        ("tps kB/s rqm/s await areq-sz aqu-sz %util", "150.00 2400.00 0.00 2.00 16.00 0.30 20.00", "sectors-as-kib", 0),
        ("tps kB/s rqm/s await areq-sz aqu-sz %util", "150.00 4800.00 0.00 2.00 16.00 0.30 20.00", "sectors-as-kib", 1),
        ("tps kB/s rqm/s await areq-sz aqu-sz %util", "150.00 3000.00 0.00 2.00 16.00 0.30 20.00", "request-sizes", 1),
        ("tps kB/s rqm/s await areq-sz aqu-sz %util", "150.00 2400.00 0.00 2.00 16.00 0.20 20.00", "littles-law", 1),
        ("tps kB/s rqm/s await areq-sz aqu-sz %util", "150.00 2400.00 0.00 2.00 16.00 0.30 20.00", "littles-law", 0),
        ("r/s w/s rsec/s wsec/s avgrq-sz avgqu-sz await", "100.00 50.00 3200.00 1600.00 32.00 0.30 2.00",
         "request-sizes", 0),
        ("r/s w/s rsec/s wsec/s avgrq-sz avgqu-sz await", "100.00 50.00 3200.00 3600.00 32.00 0.30 2.00",
         "request-sizes", 1),
        ("r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz r_await w_await", "100.00 50.00 1600.00 800.00 32.00 0.10 2.00 2.00",
         "littles-law", 1),
        ("r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz r_await w_await", "100.00 50.00 1600.00 800.00 32.00 0.30 2.00 2.00",
         "littles-law", 0),
    ],
)  # fmt: skip
def test_older_and_shorter_forms_of_iostat_are_judged(head: str, row: str, rule: str, count: int) -> None:
    assert len(found(f"Device {head}\nsda {row}\n\n" * 3, rule)) == count


def test_a_line_of_short_queues_or_without_waits_is_not_judged() -> None:
    short = lines(3, queue=0.05).replace("400 6400 1.00", "1 16 1.00").replace("150 1200 2.00", "1 8 2.00")
    assert found(short.replace(" 50 200 4.0 4 50 2.0 ", " 0 0 0 0 0 0 "), "littles-law") == []
    assert found(lines(3, queue=9.0).replace("r_await", "await"), "littles-law") == []
    assert found(text_of(DISCARDS), "littles-law") == []


@pytest.mark.parametrize(("util", "count"), [(100.4, 0), (105.0, 0), (105.1, 1)])
def test_a_device_may_be_busy_for_a_little_more_than_the_interval(util: float, count: int) -> None:
    assert len(found(lines(1, queue=1.0, util=util), "busy-above-whole")) == count


@pytest.mark.parametrize(
    ("kib_per_s", "rule"),
    [
        ("6400", ""), ("6780", ""), ("6790", "request-sizes"), ("6030", ""), ("6010", "request-sizes"),
        ("25600", "request-sizes"), ("1600", "request-sizes"), ("12800", "sectors-as-kib"),
    ],
)  # fmt: skip
def test_bytes_are_the_requests_times_their_size(kib_per_s: str, rule: str) -> None:
    text = lines(1, queue=1.0).replace(" 6400 ", f" {kib_per_s} ")
    for name in ("request-sizes", "sectors-as-kib"):
        assert len(found(text, name)) == (name == rule), name


def test_megabytes_and_discards_follow_from_requests_too() -> None:
    megabytes = lines(1, queue=1.0).replace("rkB/s", "rMB/s").replace(" 6400 ", " 6.25 ")
    assert found(megabytes, "request-sizes") == []
    assert len(found(megabytes.replace(" 6.25 ", " 25.00 "), "request-sizes")) == 1
    (finding,) = found(lines(1, queue=1.0).replace("50 200 4.0", "50 800 4.0"), "request-sizes")
    assert finding.numbers["column"] == "dkB/s"


@pytest.mark.parametrize(
    ("change", "count"),
    [
        (("Pages read 47431,", "Pages read 26377,"), 0),
        (("Pages read 47431,", "Pages read 26376,"), 1),
        (("created 703,", "created 501,"), 0),
        (("created 703,", "created 500,"), 1),
        (("29235 OS file writes", "15973 OS file writes"), 1),
    ],
)
def test_a_counter_may_stand_still_and_not_fall(change: tuple[str, str], count: int) -> None:
    assert len(found(text_of(STATUS, [change]), "counters-fall")) == count


def test_no_rate_is_taken_over_reads_that_fell() -> None:
    text = text_of(STATUS, [("Pages read 47431,", "Pages read 4743,")])
    (run,) = audit_evidence([evidence_of(text)]).case.runs
    assert run.rates() is None
    rates = "1144.49 reads/s, 12.55 creates/s, 553.02 writes/s"
    idle = text.replace(rates, "0.00 reads/s, 0.00 creates/s, 0.00 writes/s")
    assert idle != text
    assert found(idle, "idle-rates") == []


@pytest.mark.parametrize(
    ("change", "count"),
    [
        # With 471 free pages of 2,047 the limit is 1 % more than the pool: 2,067.47.
        (("Database pages     1530", "Database pages     1596"), 0),
        (("Database pages     1530", "Database pages     1597"), 1),
    ],
)
def test_pages_fit_into_the_pool(change: tuple[str, str], count: int) -> None:
    assert len(found(text_of(STATUS, [change]), "pages-in-pool")) == count


@pytest.mark.parametrize(("modified", "count"), [(1000, 0), (1010, 0), (1011, 1)])
def test_modified_pages_are_database_pages(modified: int, count: int) -> None:
    text = f"Buffer pool size   2047\nFree buffers       1\nDatabase pages     1000\nModified db pages  {modified}\n"
    assert len(found(text, "pages-in-pool")) == count


@pytest.mark.parametrize(("unzipped", "modified", "count"), [(0, 0, 1), (300, 0, 0), (300, 4040, 0), (300, 4041, 1)])
def test_compressed_pages_need_no_frame_of_the_pool(unzipped: int, modified: int, count: int) -> None:
    text = (
        f"Buffer pool size   2047\nFree buffers       1\nDatabase pages     4000\nModified db pages  {modified}\n"
        f"LRU len: 4000, unzip_LRU len: {unzipped}\n"
    )
    assert len(found(text, "pages-in-pool")) == count


@pytest.mark.parametrize(
    ("said", "count"),
    [
        ("1 warehouse, 8 connections", 0),
        ("20 warehouses", 1),
        ("Connections\t32", 1),
        ("| Warehouses | 1 |", 0),
        # The text states settings of several runs; one of them is this run's.
        ("8 connections, then 32 connections", 0),
        ("max connections = 500, max_connections=500", 0),
        ("4 cores, 8 threads", 0),
        ("Runtime 60s", 0),
        ("Runtime 80s", 0),  # With the ramp-up of 20 s the stated time is right.
        ("Runtime 600s", 1),
        ("Runtime 1 min", 0),
    ],
)
def test_what_a_text_says_is_held_against_the_log(said: str, count: int) -> None:
    assert len(found(f"{said}\n{text_of(LOG)}", "set-up-said")) == count


def test_the_caption_of_a_run_is_held_against_its_log() -> None:
    assert len(found(f"connections = 16\n{text_of(LOG)}", "set-up-said")) == 1
    assert found(f"connections = 8\n{text_of(LOG)}", "set-up-said") == []


@pytest.mark.parametrize(("said", "count"), [("4 clients", 0), ("16 clients", 1), ("scale 2, 10 warehouses", 0)])
def test_the_clients_of_a_load_generator_are_held_against_the_text(said: str, count: int) -> None:
    assert len(found(f"{said}\n{text_of(PGBENCH)}", "set-up-said")) == count


@pytest.mark.parametrize(
    ("said", "count"),
    [
        ("run time: 30 s", 0),
        ("Runtime 600s", 1),
        ("Runtime 600s, or 30 s of measurement: 30 s", 0),
        ("warm-up duration: 600 s", 0),  # The text does not state the run's seconds.
        ("warm-up duration: 10 s, duration: 600 s", 1),
        ("measurement 33 s", 0),  # The program waits for transactions that have begun.
        ("measurement 36 s", 1),
    ],
)
def test_the_seconds_of_a_load_generator_are_held_against_the_text(said: str, count: int) -> None:
    """The load generator's own total time is 30.0377 s."""
    sysbench = text_of("load/sysbench-1.0.20-oltp.txt")
    assert len(found(f"{said}\n{sysbench}", "set-up-said")) == count


def test_one_run_of_the_length_that_is_said_is_enough() -> None:
    both = text_of("load/sysbench-1.0.20-oltp.txt") + text_of("load/sysbench-1.0.20-cpu.txt")
    assert not found(f"run time = 30 s\n{both}", "set-up-said")
    (one,) = found(f"run time = 60 s\n{both}", "set-up-said")
    assert (one.numbers["said"], one.numbers["ran"]) == ([[60]], [30])


@pytest.mark.parametrize(
    "line",
    [
        "5 Virtual Users Created with Monitor VU",
        "Building 40 Warehouses with 5 Virtual Users, 4 active + 1 Monitor VU(x)",
    ],
)
def test_what_hammerdb_says_of_its_users_is_no_set_up_of_its_run(line: str) -> None:
    run = (
        "Vuser 1:4 Active Virtual Users configured\nVuser 1:TEST RESULT : System achieved 61231 NOPM from 142398 TPM\n"
    )
    run = run.replace("142398 TPM", "142398 MariaDB TPM")
    assert not found(f"{line}\n{run}", "set-up-said")
    assert len(found(f"5 virtual users\n{line}\n{run}", "set-up-said")) == 1


def progress(*ends: float) -> str:
    return "".join(f"progress: {end} s, 100.0 tps, lat 40.0 ms stddev 1.0\n" for end in ends)


@pytest.mark.parametrize(
    ("ends", "missing"),
    [
        ((5, 10, 15, 20, 25, 30), []),
        ((5, 10, 15, 25, 30, 35), [20.0]),
        ((5, 10, 25, 30, 35, 40), [15.0, 20.0]),
        ((5, 10, 15, 22.5, 25, 30), []),
        ((5, 10, 15, 22.6, 25, 30), [20.0]),  # A line that is late by more than half an interval counts as missing.
        ((10, 15, 20, 25, 30, 35), []),  # Lines before the first one were cut, and are not missing.
        ((5, 10, 20, 25, 30), []),  # Too few lines to judge.
        ((5, 15, 20, 30, 35, 45), []),  # As many gaps as lines look intended.
    ],
)
def test_a_line_that_lacks_between_others_is_missed(ends: tuple[float, ...], missing: list[float]) -> None:
    assert [one for finding in found(progress(*ends), "missing-lines") for one in _at(finding)] == missing


def _at(finding: AuditFinding) -> list[float]:
    at = finding.numbers["at_s"]
    assert isinstance(at, list)
    return at


def test_two_files_are_the_same_by_every_line() -> None:
    text = text_of(LOG)
    names = ("a.log", "b.log", "c.log")
    for texts, count in (
        ((text, text, text), 1),
        ((text, text.replace("238", "239"), text), 1),
        ((text, text + "\n"), 0),
    ):
        audit = audit_evidence([evidence_of(one, name) for one, name in zip(texts, names, strict=False)])
        assert len([one for one in audit.findings if one.rule == "same-file-twice"]) == count
    assert (FIXTURES / "planted/one-file-twice").is_dir()


def test_the_same_settings_for_two_runs_are_no_file_given_twice() -> None:
    settings = Path(FIXTURES / "real/mysql-5.7-32m/run.cnf").read_text()
    audit = audit_evidence([evidence_of(settings, "a.cnf"), evidence_of(settings, "b.cnf")])
    assert audit.findings == ()
