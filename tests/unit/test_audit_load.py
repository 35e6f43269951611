"""sysbench, pgbench, HammerDB and fio: their reports are read to the digit, and each rule is tried at both sides of its
limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from bufferlab.audit.audit import as_report, audit_files
from bufferlab.audit.parsers.load_run import LoadRun
from bufferlab.chapter.elements import Table
from support.audit_files import FIXTURES, audit_of, evidence_of, found, text_of

CLEAN = sorted((FIXTURES / "load").glob("*-*.*"))
OWN = sorted((FIXTURES / "own").glob("*-*.*"))
SYSBENCH, PGBENCH = "load/sysbench-1.0.20-oltp.txt", "load/pgbench-15-progress.txt"
FIO, MIXED, HAMMERDB = "load/fio-3.33-randread.txt", "load/fio-3.33-mixed.txt", "load/hammerdb-4.7-made.txt"


def loads(text: str) -> list[LoadRun]:
    return evidence_of(text).loads


@pytest.mark.parametrize("path", CLEAN, ids=lambda path: path.name)
def test_nothing_is_found_in_what_the_programs_printed(path: Path) -> None:
    audit = audit_files([path])
    assert audit.findings == ()
    assert [*audit.case.loads()]


def test_there_are_more_than_twenty_logs_of_our_own() -> None:
    assert len(OWN) > 20
    assert {path.name.split("-")[0] for path in OWN} == {"iostat", "pgbench", "sysbench", "vmstat"}


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_nothing_is_found_in_what_the_programs_printed_on_a_busy_host(path: Path) -> None:
    audit = audit_files([path])
    assert audit.findings == ()
    assert [*audit.case.loads(), *(report for file in audit.case.files for report in file.reports)]


def test_a_rate_may_leave_out_the_time_of_connecting_and_no_more() -> None:
    """pgbench did 248 transactions in 4 s, of which 0.42 s went into connecting: 68 a second."""
    name, printed = "own/pgbench-statements.txt", "tps = 67.910004"
    for tps, count in ((56.0, 1), (60.0, 0), (73.0, 0), (75.0, 1)):
        assert len(found(text_of(name, [(printed, f"tps = {tps}")]), "load-totals")) == count, tps


def test_a_report_without_findings_has_no_empty_chapter_and_corrects_nothing() -> None:
    report = as_report(audit_of(text_of("own/pgbench-statements.txt")))
    assert [section.title for section in report.sections] == ["The numbers, computed again", "What was asked"]
    (table,) = report.sections[0].blocks
    assert isinstance(table, Table)
    # 248 transactions in about 4 s less 0.423 s give the rate that pgbench measured.
    assert table.filled.rows[0].cells[2:5] == ("3.6", "248", "67.91")


def test_sysbench_is_read_with_its_lines_queries_and_latencies() -> None:
    (run,) = loads(text_of(SYSBENCH))
    assert (run.tool, run.clients, run.seconds, run.transactions, run.per_s) == ("sysbench", 4, 30.0377, 13444, 447.56)
    assert run.queries == {"read": 188678, "write": 53779, "other": 27017, "total": 269474}
    assert (run.mean_ms, run.latency_sum_ms) == (8.93, 120032.10)
    assert run.latency_ms == {"min": 0.38, "max": 456.89, "95 %": 22.69}
    assert [(line.end_s, line.per_s) for line in run.intervals][:2] == [(5, 490.42), (10, 575.80)]


def test_sysbench_without_sql_is_read_too() -> None:
    (cpu,) = loads(text_of("load/sysbench-1.0.20-cpu.txt"))
    assert (cpu.clients, cpu.transactions, cpu.per_s) == (1, 19634, 3475.02)
    (fileio,) = loads(text_of("load/sysbench-1.0.20-fileio.txt"))
    assert (fileio.clients, fileio.transactions, fileio.per_s, fileio.intervals) == (2, 97760, None, [])


def test_the_older_words_of_sysbench_are_read() -> None:
    text = """sysbench 0.5:  multi-threaded system evaluation benchmark
Number of threads: 8
[  10s] threads: 8, tps: 123.40, reads: 1727.60, writes: 493.60, response time: 88.12ms (95%), errors: 0.00
    transactions:                        1234   (123.39 per sec.)
General statistics:
    total time:                          10.0010s
    total number of events:              1234
    response time:
         min:                                  3.12ms
         avg:                                 64.80ms
         max:                                301.00ms
         approx.  95 percentile:              88.12ms
"""
    (run,) = loads(text)
    assert (run.clients, run.transactions, run.mean_ms) == (8, 1234, 64.8)
    assert run.latency_ms == {"min": 3.12, "max": 301.0, "95 %": 88.12}
    assert [line.per_s for line in run.intervals] == [123.4]


def test_pgbench_is_read_with_its_progress() -> None:
    (run,) = loads(text_of(PGBENCH))
    assert (run.clients, run.seconds, run.transactions, run.per_s) == (4, 30, 19466, 649.613289)
    assert (run.mean_ms, run.paced, len(run.intervals), run.intervals[-1].per_s) == (6.153, False, 6, 712.3)
    (paced,) = loads(text_of("load/pgbench-15-rate.txt"))
    assert paced.paced
    (counted,) = loads(text_of("load/pgbench-15-select.txt"))
    assert (counted.seconds, counted.transactions) == (None, 400)


def test_of_the_two_rates_of_older_pgbench_the_one_of_the_whole_time_is_kept() -> None:
    text = """transaction type: TPC-B (sort of)
number of clients: 10
duration: 60 s
number of transactions actually processed: 30000
latency average: 20.000 ms
tps = 499.1 (including connections establishing)
tps = 500.2 (excluding connections establishing)
"""
    first, second = loads(text + text)
    assert (first.per_s, first.mean_ms, second.transactions) == (499.1, 20.0, 30000)


def test_nothing_is_found_where_older_pgbench_connects_for_each_transaction() -> None:
    """Half of the time goes into connecting; the mean latency includes all of it."""
    text = """transaction type: <builtin: select only>
number of clients: 4
duration: 30 s
number of transactions actually processed: 12000
latency average = 10.000 ms
tps = 400.000000 (including connections establishing)
tps = 800.000000 (excluding connections establishing)
"""
    audit = audit_of(text)
    assert [load.per_s for load in audit.case.loads()] == [400]
    assert audit.findings == ()


def test_hammerdb_is_read_in_both_orders_of_its_result() -> None:
    (run,) = loads(text_of(HAMMERDB))
    assert (run.clients, run.seconds, run.nopm, run.tpm, run.lost) == (2, 180, 8420, 19402, set())
    (older,) = loads("Vuser 1:TEST RESULT : System achieved 60501 SQL Server TPM at 13207 NOPM")
    assert (older.nopm, older.tpm) == (13207, 60501)
    assert len(loads(text_of(HAMMERDB) * 2)) == 2


def test_the_new_orders_of_hammerdb_divide_the_reads_of_the_status_text() -> None:
    status = (
        f"2026-01-01 10:0{at}:00 0x7f INNODB MONITOR OUTPUT\nPages read {read}, created 5, written 6\nFree buffers 1\n"
        for at, read in ((0, 1000), (3, 85200))
    )
    (run,) = audit_of(text_of(HAMMERDB) + "".join(status)).case.runs
    assert run.new_orders_per_s == pytest.approx(8420 / 60)


def test_fio_is_read_by_job_and_direction() -> None:
    (run,) = loads(text_of(FIO))
    assert (run.title, run.clients, run.transactions, run.per_s) == ("fio's randread, read", 1, 2898, 289)
    assert (run.block_bytes, run.bytes_per_s, run.seconds) == (16384, 4636 * 1024, 10.001)
    assert run.latency_ms["min"] == pytest.approx(0.039)
    assert run.latency_ms["max"] == pytest.approx(1117.3)
    assert run.latency_ms["99.99 %"] == pytest.approx(1115.685)
    reads, writes = loads(text_of(MIXED))
    assert (reads.clients, reads.transactions, writes.transactions) == (8, 32944, 14080)
    assert reads.latency_ms["min"] == pytest.approx(0.000621)
    _, second = loads(text_of("load/fio-3.33-two-jobs.txt"))
    assert (second.title, second.per_s, second.block_bytes) == ("fio's b, write", 21400, 4096)


def fio_section(name: str, size: str, depth: int, group: int = 0) -> str:
    return f"{name}: (g={group}): rw=randread, bs=(R) {size}-{size}, ioengine=libaio, iodepth={depth}\n"


def fio_group(name: str, jobs: int) -> str:
    """Return fio's report of a group with 900 reads a second of 5 KiB, 9 at a time."""
    return (
        f"{name}: (groupid=0, jobs={jobs}): err= 0: pid=5\n"
        "  read: IOPS=900, BW=4500KiB/s (4608kB/s)(43.9MiB/10000msec)\n"
        "    lat (usec): min=100, max=90000, avg=10000.00, stdev=10.00\n"
    )


SEVERAL = fio_section("a", "16.0KiB", 1) + fio_section("b", "4096B", 8) + fio_group("a", 2)
CLONES = fio_section("a", "5120B", 5) + fio_group("a", 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Clients and size are not those of the first section counted twice.
        (SEVERAL, [(None, None)]),
        (CLONES, [(10, 5120)]),
        # The second section belongs to a separate group.
        (fio_section("a", "5120B", 5) + fio_section("b", "4096B", 8, 1) + fio_group("a", 2), [(10, 5120)]),
        # The sections of one run of fio do not count for the next run.
        (SEVERAL + CLONES, [(None, None), (10, 5120)]),
    ],
)
def test_only_a_group_of_one_section_of_fio_has_its_depth_and_size(
    text: str, expected: list[tuple[int | None, int | None]]
) -> None:
    audit = audit_of(text)
    assert [(load.clients, load.block_bytes) for load in audit.case.loads()] == expected
    assert audit.findings == ()


def test_fio_2_is_read() -> None:
    text = """job: (g=0): rw=randread, bs=4K-4K/4K-4K/4K-4K, ioengine=sync, iodepth=1
job: (groupid=0, jobs=1): err= 0: pid=5
  read : io=40.0MB, bw=4096.0KB/s, iops=1024, runt= 10000msec
    clat (usec): min=100, max=9000, avg=970.00, stdev=10.00
"""
    (run,) = loads(text)
    assert (run.per_s, run.seconds, run.bytes_per_s) == (1024, 10, 4096 * 1024)
    assert run.mean_ms == pytest.approx(0.97)


@pytest.mark.parametrize(
    ("name", "change", "rule", "count"),
    [
        # 19,466 in 30 s less 60 ms are 650.2 a second; the limit is 5 % and one transaction: 33.5.
        (PGBENCH, ("tps = 649.6", "tps = 683.6"), "load-totals", 0),
        (PGBENCH, ("tps = 649.6", "tps = 683.7"), "load-totals", 1),
        # The six lines give 648.8 to 650.1; the limit is 10 % and one transaction: 66.0.
        (PGBENCH, ("progress: 5.0 s, 700.2", "progress: 5.0 s, 1059.0"), "load-totals", 0),
        (PGBENCH, ("progress: 5.0 s, 700.2", "progress: 5.0 s, 1160.0"), "load-totals", 1),
        (SYSBENCH, ("total:                           269474", "total: 269475"), "load-totals", 1),
        (SYSBENCH, ("8.93", "8.97"), "load-totals", 0),
        (SYSBENCH, ("8.93", "8.98"), "load-totals", 1),
        # Lines that end before the run does may be slower than the whole run by any amount, but not faster.
        (SYSBENCH, ("[ 5s ] thds: 4 tps: 490.42", "[ 5s ] thds: 4 tps: 90.42"), "load-totals", 0),
        (SYSBENCH, ("[ 5s ] thds: 4 tps: 490.42", "[ 5s ] thds: 4 tps: 1490.42"), "load-totals", 1),
        (FIO, ("IOPS=289,", "IOPS=303,"), "load-totals", 0),
        (FIO, ("IOPS=289,", "IOPS=307,"), "load-totals", 1),
        (FIO, ("bs=(R) 16.0KiB-16.0KiB", "bs=(R) 4096B-4096B"), "load-totals", 1),
        (FIO, ("bs=(R) 16.0KiB-16.0KiB", "bs=(R) 4096B-64.0KiB"), "load-totals", 0),
        (HAMMERDB, ("19402 MySQL", "16840 MySQL"), "load-totals", 0),
        (HAMMERDB, ("19402 MySQL", "16839 MySQL"), "load-totals", 1),
        (SYSBENCH, ("22.69", "466.0"), "latency-order", 0),
        (SYSBENCH, ("22.69", "466.1"), "latency-order", 1),
        (SYSBENCH, (" 0.38", " 9.2"), "latency-order", 1),
        (FIO, ("99.95th=[ 792724]", "99.95th=[ 702724]"), "latency-order", 1),
        (FIO, ("99.95th=[ 792724]", "99.95th=[ 717226]"), "latency-order", 0),
        # The mean of lat lies between the ends of lat, and would not lie between those of clat.
        (MIXED, ("avg=1334.72", "avg=516189.0"), "latency-order", 0),
        (MIXED, ("max=401630, avg=1455.03", "max=1401, avg=1455.03"), "latency-order", 1),
        (MIXED, ("max=401556, avg=1424.55", "max=1301, avg=1424.55"), "latency-order", 1),
        # 447.56 transactions a second of 8.93 ms each are 4.00 in flight.
        (SYSBENCH, ("8.93", "9.82"), "in-flight", 0),
        (SYSBENCH, ("8.93", "9.86"), "in-flight", 1),
        (FIO, ("avg=3445.51", "avg=3845.51"), "in-flight", 1),
        (PGBENCH, ("duration: 30 s", "duration: 30 s\nrate limit schedule lag: avg 9.0 (max 9.9) ms"), "in-flight", 0),
        (PGBENCH, ("number of clients: 4", "number of clients: 3"), "in-flight", 1),
        ("load/pgbench-15-rate.txt", ("latency average = 10.454", "latency average = 910.454"), "in-flight", 0),
        (PGBENCH, ("progress: 10.0", "client 2 aborted in command 4\nprogress: 10.0"), "clients-lost", 1),
        (HAMMERDB, ("Vuser 3:FINISHED SUCCESS", "Vuser 3:RUNNING"), "clients-lost", 0),
    ],
)  # fmt: skip
def test_each_rule_has_its_border(name: str, change: tuple[str, str], rule: str, count: int) -> None:
    assert len(found(text_of(name, [change]), rule)) == count


def test_a_table_of_new_orders_per_minute_is_one_of_throughputs() -> None:
    head = "Pool\tNOPM\tr/s\treads/tx\n"
    assert len(found(f"{head}32M\t2400\t960\t0.40\n64M\t3000\t600\t0.20\n", "minute-by-second")) == 1


def test_text_that_only_begins_like_a_report_is_none() -> None:
    assert loads("sysbench 1.0.20 is what we used.\nNumber of threads: 4\n") == []
    assert loads("transaction type: <builtin: TPC-B>\nnumber of clients: 4\n") == []
    assert loads("Vuser 1:RUNNING\n") == []


def test_percentiles_of_syncs_are_not_those_of_reads() -> None:
    syncs = """
  fsync/fdatasync/sync_file_range:
    sync (usec): min=471, max=15103, avg=820.11, stdev=402.5
    sync percentiles (msec):
     |  1.00th=[     553], 99.99th=[   15008]
   bw (  KiB/s):"""
    text = text_of(FIO, [("\n   bw (  KiB/s):", syncs)])
    assert (loads(text), found(text, "latency-order")) == (loads(text_of(FIO)), [])


def test_the_ends_of_a_latency_hold_those_of_its_mean() -> None:
    """If a read happens during its submission, its completion latency is zero."""
    text = text_of(FIO, [("clat (usec): min=39, max=1117.3k, avg=3445.33", "clat (usec): min=1, max=95, avg=2.10")])
    assert loads(text)[0].latency_ms["max"] == 1117.3


def test_a_client_that_pgbench_lost_is_counted_once() -> None:
    told = "client 2 aborted in command 4\nprogress: 10.0"
    for end in ("", "\npgbench: error: Run was aborted; the above results are incomplete."):
        (run,) = loads(text_of(PGBENCH, [("progress: 10.0", told), ("(without initial connection time)", end)]))
        assert run.lost == {"2"}


def test_a_time_far_away_takes_no_memory() -> None:
    """A file holds two logs of pgbench, the second with `--progress-timestamp`."""
    rest = "s, 700.2 tps, lat 5.631 ms stddev 14.193, 0 failed\n"
    lines = "".join(f"progress: {at}.0 {rest}" for at in (35, 40, 45, 1700000000))
    findings = audit_of(text_of(PGBENCH).replace("transaction type", f"{lines}transaction type", 1)).findings
    (gap,) = [one for one in findings if "missing" in one.numbers]
    assert gap.numbers["missing"] == 339999990
    assert gap.numbers["at_s"] == [50.0 + 5 * number for number in range(12)]


GO_TPC = "load/go-tpc-1.0.7.txt"


def test_go_tpc_is_read_with_each_kind_and_its_tpmc() -> None:
    runs = {run.name: run for run in loads(text_of(GO_TPC))}
    new_order = runs["NEW_ORDER"]
    assert (new_order.transactions, new_order.seconds, new_order.nopm) == (7912, 30.0, 15834.3)
    assert (new_order.mean_ms, new_order.latency_sum_ms, new_order.latency_ms["99.9 %"]) == (4.3, 34119.0, 60.8)
    assert (new_order.latency_ms["max"], runs["DELIVERY"].transactions) == (184.5, 708)
    assert [(line.end_s, round(60 * line.per_s, 1)) for line in new_order.intervals] == [
        (10, 15631.3),
        (20, 15975.4),
        (30, 15901.5),
    ]


def test_the_older_words_of_go_tpc_are_read() -> None:
    text = """[Summary] DELIVERY - Takes(s): 455.2, Count: 32, TPM: 4.2, Sum(ms): 44376, Avg(ms): 1386, 90th(ms): 2000
[Summary] NEW_ORDER - Takes(s): 487.8, Count: 314, TPM: 38.6, Sum(ms): 282377, Avg(ms): 899, 90th(ms): 1500
tpmC: 38.6
"""
    audit = audit_of(text + text)
    assert [(run.name, run.transactions, run.nopm) for run in audit.case.loads()] == 2 * [
        ("DELIVERY", 32, None),
        ("NEW_ORDER", 314, 38.6),
    ]
    assert audit.findings == ()


def test_threads_of_go_tpc_are_those_of_its_command() -> None:
    text = "$ go-tpc tpcc -H 127.0.0.1 -D tpcc --warehouses 1 -T 2 --time 30s run\n" + text_of(GO_TPC)
    *_, whole = loads(text)
    assert (whole.clients, whole.transactions) == (2, 7912 + 708 + 718 + 7687 + 701)
    assert not found(text, "in-flight")
    assert len(found(text.replace("-T 2", "-T 1"), "in-flight")) == 1


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (("tpmC: 15834.3", "tpmC: 17834.3"), "load-totals"),
        (("Count: 7687, TPM: 15378.9", "Count: 7687, TPM: 25378.9"), "load-totals"),
        (("Sum(ms): 14986.5", "Sum(ms): 1498.6"), "load-totals"),
        (("99th(ms): 8.4, 99.9th(ms): 21.0, Max(ms): 92.3", "99th(ms): 84.0, 99.9th(ms): 21.0, Max(ms): 92.3"),
         "latency-order"),
    ],
)  # fmt: skip
def test_numbers_of_go_tpc_that_do_not_follow_are_found(change: tuple[str, str], rule: str) -> None:
    assert len(found(text_of(GO_TPC, [change]), rule)) == 1


BENCHBASE = text_of("load/benchbase-made.json")


def test_a_summary_of_benchbase_is_of_all_kinds_of_requests() -> None:
    (run,) = loads(BENCHBASE)
    assert (run.tool, run.transactions, run.seconds, run.per_s, run.clients) == ("BenchBase", 30120, 60, 502, 4)
    assert run.latency_ms == {"95 %": 15, "max": 250, "50 %": 7, "min": 0.3}
    assert (run.mean_ms, run.nopm) == (7.9, None)
    assert audit_of(BENCHBASE).findings == ()
    for change, rule in (
        (('"Measured Requests": 30120', '"Measured Requests": 3012'), "load-totals"),
        (
            ('"terminals": "4"', '"terminals": "2"'),
            "in-flight",
        ),
    ):
        assert len(found(BENCHBASE.replace(*change), rule)) == 1


TIMING = text_of("load/hammerdb-5-timing-made.json")


def test_the_timing_and_the_result_of_a_job_of_hammerdb_are_read() -> None:
    neword, payment = loads(TIMING)
    assert (neword.name, neword.transactions, neword.mean_ms, payment.transactions) == ("NEWORD", 20_000, 1.5, 19_000)
    assert neword.latency_ms == {"min": 0.5, "50 %": 1.25, "95 %": 2.5, "99 %": 3.5, "max": 40.25}
    assert audit_of(TIMING).findings == ()
    assert len(found(TIMING.replace('"p95_ms": "2.5"', '"p95_ms": "25.0"'), "latency-order")) == 1
    assert len(found(TIMING.replace('"total_ms": "30000.0"', '"total_ms": "3000.0"'), "load-totals")) == 1
    (run,) = loads(
        '[\n  "63F4",\n  "2026-01-01",\n  "TEST RESULT : System achieved 21157 NOPM from 49180 MySQL TPM"\n]'
    )
    assert (run.nopm, run.tpm) == (21157, 49180)


def test_other_documents_of_a_job_of_hammerdb_are_named() -> None:
    evidence = evidence_of('{"MySQL tpm": {\n  "0": "2026-01-01 00:00:00",\n  "49180": "2026-01-01 00:00:10"\n}}')
    assert evidence.loads == []
    assert "job ID result" in evidence.named[0].hint


def test_lines_of_sysbench_tell_a_cold_start() -> None:
    text = text_of(SYSBENCH)
    assert not found(text, "cold-start")
    lines = "\n".join(
        f"[ {at}s ] thds: 4 tps: {100 if at < 5 else 400 + at}.00 qps: 9 (r/w/o: 7/1/1) lat (ms,95%): 9"
        for at in range(1, 21)
    )
    (one,) = found(lines, "cold-start")
    assert (one.numbers["cold_s"], one.numbers["cold_per_s"]) == (4, [100, 100, 100, 100])
    assert one.numbers["per_s_settled"] == pytest.approx(sum(400 + at for at in range(5, 21)) / 16)
    assert not found(lines.replace("tps: 100.00", "tps: 390.00"), "cold-start")
