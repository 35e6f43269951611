"""Runs of load generators in parts, cut short, or printed with too few digits; reads and writes of a block trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from bufferlab.audit.audit import audit_files
from bufferlab.audit.parsers.blkparse import BlkparseParser
from bufferlab.audit.parsers.load_run import LoadRun
from bufferlab.errors import DataFileError
from support.audit_files import FIXTURES, audit_of, evidence_of, evidence_of_file, found, text_of

SYSBENCH = "sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\n\nNumber of threads: 4\n\nThreads started!\n\n"


def only(text: str) -> LoadRun:
    (run,) = evidence_of(text).loads
    return run


def named(text: str) -> list[str]:
    return [problem.what for problem in evidence_of(text).named]


def row(text: str, name: str = "corrected-load-runs") -> dict[str, str]:
    (table,) = [table for table in audit_of(text).tables if table.id == name]
    return dict(zip([column.title for column in table.columns], table.rows[-1].cells, strict=True))


def report(count: int, until_s: float, since_s: float, sum_ms: float, least: float, most: float) -> str:
    """Return sysbench's report of `count` events between two seconds."""
    return (
        "SQL statistics:\n    queries performed:\n"
        f"        read:  {14 * count}\n        write: {4 * count}\n        other: {2 * count}\n"
        f"        total: {20 * count}\n"
        f"    transactions:  {count}   ({count / (until_s - since_s):.2f} per sec.)\n"
        f"General statistics:\n    total time:   {until_s:.4f}s\n    total number of events:  {count}\n"
        f"Latency (ms):\n  min:  {least:.2f}\n  avg:  {sum_ms / count:.2f}\n  max:  {most:.2f}\n"
        f"  95th percentile:  {most:.2f}\n  sum:  {sum_ms:.2f}\n"
        "Threads fairness:\n    events (avg/stddev):  1.0/0.0\n    execution time (avg/stddev):   2.0/0.00\n\n"
    )


def checkpoints(counts: list[int], every_s: float = 10.0) -> str:
    parts = [
        report(count, (at + 1) * every_s, at * every_s, 39_990 * every_s / 10, 1.0 + at, 100.0 - at)
        for at, count in enumerate(counts)
    ]
    heads = [f"[ {every_s * (at + 1):.0f}s ] Checkpoint report:\n" for at in range(len(counts) - 1)]
    return SYSBENCH + "".join(head + part for head, part in zip([*heads, ""], parts, strict=True))


@pytest.mark.parametrize("counts", [[4000, 5000], [379, 468, 1022], [100, 2000, 30, 4000, 50]])
def test_reports_at_checkpoints_are_parts_of_one_run(counts: list[int]) -> None:
    text = checkpoints(counts)
    run = only(text)
    assert audit_of(text).findings == ()
    assert (run.clients, run.transactions, run.seconds) == (4, sum(counts), 10.0 * len(counts))
    assert run.queries["total"] == 20 * sum(counts)
    assert run.mean_ms == pytest.approx(39_990 * len(counts) / sum(counts))
    assert run.latency_ms == {"min": 1.0, "max": 100.0}
    assert named(text) == [
        f"the percentiles of {len(counts)} reports of one run are not read: those of the run do not follow from them"
    ]


def test_a_wrong_count_at_a_checkpoint_is_found() -> None:
    text = checkpoints([4000, 5000]).replace("    transactions:  5000 ", "    transactions:  9000 ")
    (one,) = found(text, "load-totals")
    assert "per second, by count and time" in one.what


def test_what_sysbench_printed_at_checkpoints_is_one_run() -> None:
    text = text_of("load/sysbench-1.0.20-checkpoints.txt")
    run = only(text)
    assert (run.transactions, run.seconds, len(run.intervals)) == (3302 + 1692 + 3535, 5.0028, 4)
    assert row(text)["Per second"] == f"{(3302 + 1692 + 3535) / 5.0028:,.2f}"


def test_a_run_behind_one_with_checkpoints_is_another() -> None:
    runs = evidence_of(checkpoints([400, 500]) + checkpoints([300, 200, 100])).loads
    assert [run.transactions for run in runs] == [900, 600]


def test_a_run_killed_before_its_report_is_said_to_lack_it(tmp_path: Path) -> None:
    path = FIXTURES / "ended/sysbench-1.0.20-killed.txt"
    text = path.read_text()
    assert named(text) == [
        "the report of sysbench is missing: it was killed, or the text is cut; read are its 4 lines of progress,"
        " of 1 to 4 s"
    ]
    assert row(text) == {
        "Setting": "sysbench", "Clients": "4", "Seconds": "4.0, by lines", "Counted": "–", "Per second": "688.24",
        "Mean ms": "–", "In flight": "–",
    }  # fmt: skip
    assert [problem.what for problem in audit_files([path]).unrecognised] == named(text)
    progress = "".join(text_of("load/pgbench-15-two-seconds.txt").splitlines(keepends=True)[:4])
    assert named(progress)[0].startswith("the report of pgbench is missing")
    assert row(progress)["Per second"] == "2,424.95"
    behind_a_checkpoint = checkpoints([400, 500, 600]).rpartition("SQL statistics")[0]
    assert only(behind_a_checkpoint).transactions == 900


ENDLESS = "the last line is not read: it ends with a number and without a line's end, so it may be cut"


@pytest.mark.parametrize(("name", "tool"), [("iostat/sysstat-12.6-boot.txt", "iostat"), ("own/vmstat-1.txt", "vmstat")])
def test_a_row_of_a_program_that_is_cut_is_no_sample(tmp_path: Path, name: str, tool: str) -> None:
    text = text_of(name)
    rows = text.rstrip("\n").split("\n")
    whole = evidence_of_file(tmp_path / "whole.txt", "\n".join(rows))
    assert whole == evidence_of(text, str(tmp_path / "whole.txt"))
    cut = "\n".join([*rows[:-1], rows[-1].rpartition(" ")[0].rstrip()[:-1]])
    given, before = evidence_of(cut), evidence_of("\n".join(rows[:-1]))
    assert [{*report.devices} for report in given.reports] == [{*report.devices} for report in before.reports]
    assert given.lines_read == given.lines - (whole.lines - whole.lines_read) - 1
    assert f"a row of {tool} has fewer cells than its head, and is not read" in [one.what for one in given.named]
    again = evidence_of(f"{cut}\n{rows[-1]}")
    assert len(again.reports) == len(whole.reports), "the row behind a cut one is read"


@pytest.mark.parametrize(("kept", "columns"), [(2, set()), (3, {"r/s"}), (4, {"r/s", "rkB/s"})])
def test_of_a_row_of_iostat_that_the_end_of_a_file_cuts_the_last_number_is_not_read(
    tmp_path: Path, kept: int, columns: set[str]
) -> None:
    text = "Device            r/s     rkB/s     w/s     wkB/s\nsda  500.0 8000.0 10.0 160.0\n\n"
    head, row, _ = text.split("\n", 2)
    cut = text + head + "\n" + "  ".join(row.split()[:kept])
    evidence = evidence_of_file(tmp_path / "cut.txt", cut)
    assert {*evidence.reports[0].devices["sda"].columns} == {"r/s", "rkB/s", "w/s", "wkB/s"}
    assert [{*report.devices["sda"].columns} for report in evidence.reports[1:]] == [columns] * bool(columns)
    assert (evidence.lines, evidence.lines_read) == (4, 3)
    assert len(evidence.named) == (2 if kept == 2 else 1)


@pytest.mark.parametrize(("kept", "count"), [(9, 1), (10, 1), (11, 2)])
def test_of_a_row_of_vmstat_that_the_end_of_a_file_cuts_whole_numbers_are_read(
    tmp_path: Path, kept: int, count: int
) -> None:
    """The row's ninth number is bi, its tenth bo."""
    lines = text_of("own/vmstat-1.txt").splitlines()[:4]
    cut = "\n".join([*lines[:3], " ".join(lines[3].split()[:kept])])
    assert len(evidence_of_file(tmp_path / "cut.txt", cut).reports) == count


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("status/mysql-5.7.22.txt", "Pages read "),
        ("counters/mysql-8.0-tabs.txt", "Innodb_pages_read\t"),
        ("counters/postgres-15-expanded.txt", "blks_read "),
        ("load/sysbench-1.0.20-cpu.txt", "total number of events:"),
        ("load/pgbench-15-progress.txt", "number of transactions actually processed:"),
        ("clean.txt", "95%:"),
    ],
)
def test_a_number_at_the_end_of_a_file_that_has_no_lines_end_is_not_taken(tmp_path: Path, name: str, line: str) -> None:
    text = text_of(name)
    before, found_line, behind = text.rpartition(line)
    last = (found_line + behind).split("\n", 1)[0]
    last = last.rstrip()[: next(at for at in range(len(last.rstrip()), 0, -1) if last[at - 1].isdigit())]
    path = tmp_path / "cut.txt"
    cut = evidence_of_file(path, before + last)
    assert ENDLESS in [problem.what for problem in cut.named]
    assert evidence_of_file(path, before + last + "\n").lines_read == cut.lines_read + 1
    assert [problem.what for problem in evidence_of(before + last).named if problem.what == ENDLESS] == []


@pytest.mark.parametrize(
    ("text", "is_cut"),
    [
        ("pool,TpmC,r/s\n10%,950.4,322.6\n20%,1210.2,251.3", False),
        ("pool,TpmC,r/s\n10%,950.4,322.6\n20%,121", True),
        ("pool,TpmC,r/s\n10%,950.4\n20%,1210.2", False),
        ("pool\tTpmC\tr/s\n10%\t950.4\t322.6\n20%\t12", True),
        ("| pool | TpmC |\n|---|---|\n| 10% | 950.4 |\n| 20% | 1210.2 |", False),
        ("| pool | TpmC |\n|---|---|\n| 10% | 950.4 |\n| 20% | 12", True),
    ],
)
def test_the_last_row_of_a_table_is_cut_where_it_is_shorter_than_the_others(
    tmp_path: Path, text: str, is_cut: bool
) -> None:
    evidence = evidence_of_file(tmp_path / "table.txt", text)
    (table,) = evidence.results
    assert [row.setting for row in table.rows] == ["10%", "20%"][: 1 if is_cut else 2]
    assert ["the last row is cut" in problem.what for problem in evidence.named] == [True] * is_cut


CUT = "the report of sysbench is cut: "


def test_a_report_that_breaks_off_behind_its_transactions_is_read_and_said_to_be_cut() -> None:
    text = SYSBENCH + report(5000, 10.0, 0.0, 39_990, 1.0, 90.0).partition("General statistics")[0]
    assert row(text)["Counted"] == "5,000"
    assert (row(text)["Seconds"], row(text)["Per second"], row(text)["Mean ms"]) == ("10.0", "500.00", "–")
    assert named(text) == [CUT + "its total time and latencies are missing, and its seconds follow from count and rate"]
    assert not found(f"run time: 600 s\n{text}", "set-up-said")
    assert named(text + checkpoints([400]))[0].startswith(CUT)


@pytest.mark.parametrize("end", ["General statistics", "Latency", "  sum:", "    execution time"])
def test_a_last_part_that_breaks_off_counts_with_what_it_has(end: str) -> None:
    """The part's transactions and rate are above its time, and its latencies below."""
    text = checkpoints([4000, 5000, 6000]).rpartition(end)[0]
    run = only(text)
    assert (run.transactions, run.seconds) == (15_000, 30)
    assert audit_of(text).findings == ()
    if end.startswith("    "):
        assert run.mean_ms == pytest.approx(39_990 * 3 / 15_000)
        assert named(text)[0] == CUT + "the last lines of its last part are missing"
    else:
        assert (run.mean_ms, run.latency_ms) == (None, {})
        assert named(text)[0] == CUT + ("the latencies of its last part are missing, so those of the run are not known")


def test_lines_behind_the_last_checkpoint_are_not_held_against_the_reports_before_it() -> None:
    lines = "".join(f"[ {at}s ] thds: 4 tps: 500.00 qps: 9 (r/w/o: 7/1/1) lat (ms,95%): 9\n" for at in range(1, 20))
    killed = checkpoints([5000, 5000]).rpartition("SQL statistics")[0] + lines
    assert (only(killed).transactions, only(killed).seconds) == (5000, 10)
    assert named(killed)[0] == CUT + "the part behind the checkpoint at 10 s has no report"
    assert audit_of(killed).findings == ()
    wrong = killed.replace("tps: 500.00", "tps: 700.00")
    assert len(found(wrong, "load-totals")) == 1


@pytest.mark.parametrize("change", [("read, MiB/s:                  87.81", "read, MiB/s:                  8.781"),
                                    ("writes/s:                     3746.38", "writes/s:                     4746.38"),
                                    ("Block size 16KiB", "Block size 8KiB")])  # fmt: skip
def test_bytes_of_sysbenchs_files_follow_from_requests_and_their_size(change: tuple[str, str]) -> None:
    assert len(found(text_of("load/sysbench-1.0.20-fileio.txt", [change]), "load-totals")) == 1


def test_bytes_of_sysbenchs_memory_follow_from_operations_and_time() -> None:
    text = text_of("own/sysbench-memory.txt")
    run = only(text)
    assert run.bytes is not None
    assert run.bytes_per_s is not None
    printed = f"({run.bytes_per_s / (1 << 20):.2f} MiB/sec)"
    assert printed in text
    (one,) = found(text.replace(printed, "(12.34 MiB/sec)"), "load-totals")
    assert one.numbers["said"] == [12.34 * 1024, 12.34 * 1024]


def test_lines_of_report_csv_are_lines_of_progress() -> None:
    text = text_of("load/sysbench-1.0.20-report-csv.txt")
    run = only(text)
    assert [(line.end_s, line.per_s) for line in run.intervals][:2] == [(1, 1485.81), (2, 1533.43)]
    assert (run.transactions, len(run.intervals), named(text)) == (10148, 8, [])
    lines = [line for line in text.splitlines() if not line.startswith("4,2,")]
    assert [finding.rule for finding in audit_of("\n".join(lines)).findings] == ["missing-lines"]
    alone = "\n".join(text.splitlines()[:20])
    assert named(alone)[0].startswith("the report of sysbench is missing")
    assert row(alone)["Per second"] == "1,268.03"


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b""])
def test_a_byte_order_mark_hides_no_word(tmp_path: Path, mark: bytes) -> None:
    for name in ("load/sysbench-1.0.20-oltp.txt", "iostat/sysstat-12.6-boot.txt"):
        path = tmp_path / "marked.txt"
        path.write_bytes(mark + (FIXTURES / name).read_bytes())
        plain = audit_files([FIXTURES / name])
        marked = audit_files([path])
        assert [one.what for one in marked.findings] == [one.what for one in plain.findings]
        assert [load.clients for load in marked.case.loads()] == [load.clients for load in plain.case.loads()]


def test_a_file_of_two_bytes_for_each_letter_is_read(tmp_path: Path) -> None:
    path = tmp_path / "wide.txt"
    path.write_bytes(text_of("load/sysbench-1.0.20-oltp.txt").encode("utf-16"))
    (run,) = audit_files([path]).case.loads()
    assert (run.clients, run.transactions) == (4, 13444)


@pytest.mark.parametrize(
    ("count", "sum_ms", "mean", "flying"),
    [(10_599_355, 2759.51, "0.00026", "0.92"), (500_000, 1996.4, "0.004", "0.66"), (20_000, 5950.0, "0.297", "1.98")],
)
def test_a_short_mean_has_the_digits_of_its_sum(count: int, sum_ms: float, mean: str, flying: str) -> None:
    cells = row(SYSBENCH.replace("threads: 4", "threads: 2") + report(count, 3.0081, 0.0, sum_ms, 0.0, 16.24))
    assert (cells["Mean ms"], cells["In flight"]) == (mean, flying)


def test_more_short_events_in_flight_than_clients_are_found() -> None:
    text = SYSBENCH + report(10_000_000, 1.0, 0.0, 3_900.0, 0.0, 16.0)
    assert [finding.rule for finding in audit_of(text.replace("threads: 4", "threads: 2")).findings] == ["in-flight"]
    assert audit_of(text).findings == ()


def test_the_reports_on_the_way_of_fio_are_one_run() -> None:
    read, write = evidence_of(text_of("load/fio-3.33-status-interval.txt")).loads
    assert (read.name, read.transactions, read.seconds) == ("mix, read", 57651, 4.001)
    assert (write.name, write.transactions, write.seconds) == ("mix, write", 24655, 4.001)


def test_two_runs_of_fio_in_one_file_are_two() -> None:
    one = text_of("load/fio-3.33-status-interval.txt")
    assert [run.transactions for run in evidence_of(one + one).loads] == [57651, 24655] * 2
    other = text_of("load/fio-3.33-randread.txt")
    assert len(evidence_of(one + other).loads) == 3
    cut = one[: one.index("IOPS=14.5k")]
    assert [run.seconds for run in evidence_of(cut).loads] == [2.869, 2.869]


@pytest.mark.parametrize("count", [4853, 9706])
def test_the_rate_of_pgbench_with_a_time_is_the_printed_one(count: int) -> None:
    text = text_of("load/pgbench-15-two-seconds.txt", [("processed: 4853", f"processed: {count}")])
    assert row(text)["Per second"] == "2,429.35"
    assert [finding.rule for finding in audit_of(text).findings] == (["load-totals"] if count > 5000 else [])


def test_clients_that_abort_end_the_time_asked_for() -> None:
    text = text_of("ended/pgbench-15-aborted.txt")
    assert [finding.rule for finding in audit_of(text).findings] == ["clients-lost"]
    assert (row(text)["Per second"], row(text)["Seconds"]) == ("26,295.63", "0.016")
    some = "\n".join(line for line in text.splitlines() if "client 3 " not in line)
    assert [finding.rule for finding in audit_of(some).findings] == ["clients-lost"]
    none = "\n".join(line for line in text.splitlines() if "error" not in line)
    assert [finding.rule for finding in audit_of(none).findings] == ["load-totals"]


def sides(text: str) -> list[tuple[str, str, str, str]]:
    (table,) = [table for table in audit_of(text).tables if table.id == "corrected-block-traces"]
    heads = [column.title for column in table.columns]
    places = [heads.index(name) for name in ("Setting", "Requests", "Bytes", "Completed")]
    return [tuple(cells[at] for at in places) for cells in (one.cells for one in table.rows)]  # type: ignore[misc]


_EVENT = "  8,0    1   {0}     0.00{0}000000  1234  {1}   R {2} + 32 {3}"
_EVENTS = [_EVENT.format(at, *what) for at, what in enumerate([("Q", 1600, "[mysqld]"), ("C", 1600, "[0]")] * 2, 1)]


@pytest.mark.parametrize(
    ("lines", "unread"),
    [
        (_EVENTS, 0),
        ([*_EVENTS, "  8,0    1   5     0.005000000  12"], 1),
        ([*_EVENTS, "  8,0    1   5     0.0050"], 1),
        ([*_EVENTS, "  8,0    1   5     0.005000000  1234  Q"], 1),
        ([*_EVENTS, "  8,0    1   5     0.005000000  1234  Q   R 48"], 1),
        ([*_EVENTS, "  8,0    1   5     0.005000000  1234  Q   R 4800 + 3"], 1),
        ([*_EVENTS, "  8,0    1   5     0.005000000  1234  Q FWS [mysqld]"], 0),
        ([*_EVENTS, "CPU1 (8,0):", " Reads Queued:   2,   32KiB  Writes Queued:   0,   0KiB"], 0),
        ([*_EVENTS, "CPU1 (8,0):", " Reads Queued:           2,"], 1),
        ([*_EVENTS, "CPU1 (8,0):", " Reads Comp"], 1),
    ],
)  # fmt: skip
def test_a_line_of_blkparse_that_breaks_off_is_named_and_not_counted(lines: list[str], unread: int) -> None:
    parser = BlkparseParser("a.txt")
    for number, line in enumerate(lines, 1):
        parser.take(number, line, "")
    assert len(parser.unread) == unread
    (seen,) = parser.traces[0].seen.values()
    assert (seen.count("Q") - ("FWS" in lines[-1]), seen.sectors["Q read"]) == (2, 64)


def test_reads_and_writes_of_blkparse_have_a_row_each() -> None:
    """35 of 60 requests are reads, by the lines and by the counters below them."""
    text = text_of("blkparse-1.2-mixed.txt")
    events = [line for line in text.splitlines() if line.startswith("  8,16")]
    reads, writes = (
        [int(line.split(" + ")[1].split()[0]) for line in events if f" Q   {letter} " in line] for letter in "RW"
    )
    expected = [(len(reads), sum(reads) // 2), (len(writes), sum(writes) // 2)]
    assert expected == [(35, 380), (25, 256)]
    for kept, name in ((events, "8,16"), ([line for line in text.splitlines() if line not in events], "t")):
        found_rows = sides("\n".join(kept))
        assert [(count, size, done) for _, count, size, done in found_rows] == [
            (str(count), f"{kib} KiB", str(count)) for count, kib in expected
        ], name
        assert [setting.rpartition(", ")[2] for setting, *_ in found_rows] == ["reads", "writes"]
    writes_alone = "\n".join(line for line in events if "   R " not in line)
    assert sides(writes_alone) == [("given.txt, 8,16, writes", "25", "256 KiB", "25")]


def test_lines_of_progress_that_stand_below_later_ones_are_found() -> None:
    for name, later in (
        ("load/sysbench-1.0.20-report-csv.txt", "7,2,"),
        ("ended/sysbench-1.0.20-killed.txt", "[ 3s ]"),
    ):
        lines = text_of(name).splitlines()
        at = next(at for at, line in enumerate(lines) if line.startswith(later))
        moved = [*lines[: at - 1], lines[at], lines[at - 1], *lines[at + 1 :]]
        (one,) = found("\n".join(moved), "time-order")
        assert (one.where.line, one.numbers["seconds_back"]) == (at + 1, 1)
        assert found("\n".join(lines), "time-order") == []


def event(cpu: int, number: int, at_s: float) -> str:
    return f"  8,0  {cpu:3} {number:8} {at_s:13.9f}  100  C   R {16 * number} + 16 [0]"


@pytest.mark.parametrize(("parts", "step_s"), [(2, 0.0002), (3, 0.01), (4, 1.5)])
def test_parts_put_one_behind_the_other_are_found_by_their_times(parts: int, step_s: float) -> None:
    lines = [event(cpu, at + 1, at * step_s) for cpu in range(parts) for at in range(60)]
    (one,) = found("\n".join(lines), "time-order")
    assert one.where.line == 61
    assert one.numbers["times"] == parts - 1
    assert one.numbers["seconds_back"] == pytest.approx(59 * step_s)
    assert "blkparse -i" in one.corrected
    in_order = sorted(lines, key=lambda line: float(line.split()[3]))
    assert found("\n".join(in_order), "time-order") == []


def test_events_a_little_out_of_order_are_none() -> None:
    times = [at * 0.002 for at in range(100)]
    times[40], times[41], times[90], times[97] = times[41], times[40], times[97], times[90]
    assert found("\n".join(event(0, at, one) for at, one in enumerate(times, 1)), "time-order") == []


@pytest.mark.parametrize("name", ["ab-2.3.txt", "btt-1.2.txt"])
def test_what_other_programs_print_of_no_database_is_refused(name: str) -> None:
    with pytest.raises(DataFileError, match="nothing recognised"):
        audit_files([FIXTURES / "none" / name])


def test_a_second_run_of_hammerdb_begins_where_its_users_are_told() -> None:
    """In a log that is cut or joined, a loop over numbers of users prints no ramp-up."""
    first, second = evidence_of(
        "Vuser 1:3 Active Virtual Users configured\n"
        "Vuser 1:TEST RESULT : System achieved 21044 NOPM from 48911 MySQL TPM\n"
        "Vuser 3:FINISHED FAILED\n"
        "Vuser 1:Timing test period of 2 in minutes\n"
        "Vuser 1:9 Active Virtual Users configured\n"
        "Vuser 1:TEST RESULT : System achieved 61022 NOPM from 141034 MySQL TPM\n"
    ).loads
    assert (first.clients, first.nopm, first.lost) == (3, 21044, {"3"})
    assert (second.clients, second.nopm, second.seconds, second.lost) == (9, 61022, 120.0, set())


FIO_OF_OLD = """\
seq: (g=0): rw=read, bs=16K-16K/16K-16K/16K-16K, ioengine=libaio, iodepth=16
fio-2.2.10
Starting 1 process

seq: (groupid=0, jobs=1): err= 0: pid=4121: Tue Mar  1 09:00:30 2016
  {direction:5}: io=1600.0MB, bw=54613KB/s, iops=3413, runt= 30000msec
    clat (usec): min=60, max=90000, avg=4672.00, stdev=900.00
     lat (usec): min=61, max=90001, avg=4673.00, stdev=900.00
  cpu          : usr=1.00%, sys=3.00%, ctx=102000, majf=0, minf=70
  IO depths    : 1=0.1%, 2=0.1%, 4=0.1%, 8=0.1%, 16=100.0%, 32=0.0%, >=64=0.0%
     issued    : total=r={reads}/w={writes}/d=0, short=r=0/w=0/d=0, drop=r=0/w=0/d=0
"""


@pytest.mark.parametrize(
    ("direction", "reads", "writes"), [("read", 102400, 0), ("write", 0, 102400), ("mixed", 60000, 42400)]
)
def test_the_count_of_an_older_fio_is_read_and_that_of_all_directions_as_one(
    direction: str, reads: int, writes: int
) -> None:
    run = only(FIO_OF_OLD.format(direction=direction, reads=reads, writes=writes))
    assert (run.name, run.transactions, run.seconds) == (f"seq, {direction}", 102400, 30.0)
