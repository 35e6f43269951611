"""Real logs without errors give no finding; with one planted number, one finding that names the number."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from bufferlab.audit.audit import Audit, as_report, audit_evidence, audit_files
from bufferlab.audit.rules import RULES
from bufferlab.report.document import as_json
from bufferlab.report.terminal import drawn
from bufferlab.report.terminal import text as on_terminal
from support.audit_files import FIXTURES, audit_of, evidence_of, found, text_of

REAL = sorted(path.parent for path in (FIXTURES / "real").glob("*/run.tpcc.log"))
PLANTED = sorted(path.parent for path in (FIXTURES / "planted").glob("*/planted.toml"))
LOG = "real/mysql-5.7-32m/run.tpcc.log"
#: Every kind of error, and the rule that finds it.
KINDS = {
    "tpmc-counts",
    "minute-by-second",
    "gets-per-new-order",
    "counters-as-rates",
    "boot-average",
    "sectors-as-kib",
    "page-size-ran",
    "instances-ran",
    "cold-start",
    "above-maximum",
    "totals-agree",
    "time-order",
    "load-totals",
    "latency-order",
    "in-flight",
    "clients-lost",
    "counters-fall",
    "pages-in-pool",
    "busy-above-whole",
    "request-sizes",
    "littles-law",
    "missing-lines",
    "set-up-said",
    "same-file-twice",
}


def _pieces(folder: Path) -> list[Path]:
    return sorted(folder.glob("run.*"))


def _cells(audit: Audit, table_id: str) -> list[dict[str, str]]:
    (table,) = [table for table in audit.tables if table.id == table_id]
    return [dict(zip([column.title for column in table.columns], row.cells, strict=True)) for row in table.rows]


@pytest.mark.parametrize("folder", REAL, ids=lambda path: path.name)
def test_nothing_is_found_in_real_logs(folder: Path) -> None:
    assert audit_files(_pieces(folder)).findings == ()


def test_there_are_five_clean_sets_and_every_kind_is_planted() -> None:
    assert len(REAL) >= 5
    assert {tomllib.loads((folder / "planted.toml").read_text())["rule"] for folder in PLANTED} == KINDS
    assert {rule.name for rule in RULES} >= KINDS


@pytest.mark.parametrize("folder", PLANTED, ids=lambda path: path.name)
def test_a_planted_number_is_found_alone_and_gone_without_it(folder: Path) -> None:
    planted = tomllib.loads((folder / "planted.toml").read_text())
    (finding,) = audit_files(_pieces(folder)).findings
    assert finding.rule == planted["rule"]
    assert Path(finding.where.file).parent == folder
    assert all((finding.what, finding.consequence, finding.corrected))
    for name, expected in planted["numbers"].items():
        assert finding.numbers[name] == (pytest.approx(expected) if not isinstance(expected, str) else expected), name
    if not {"real", "original"} & planted.keys():
        return
    original = planted.get("original") or f"real/{planted['real']}/{planted['file']}"
    changed, real = folder / planted["file"], FIXTURES / original
    if "was" in planted:
        assert changed.read_text().replace(planted["planted"], planted["was"]) == real.read_text()
    restored = [real if path == changed else path for path in _pieces(folder)]
    evidence = [evidence_of(path.read_text(), path.name) for path in restored]
    assert audit_evidence(evidence).findings == ()


def test_corrected_tables_follow_from_the_counts_and_not_from_a_wrong_tpmc() -> None:
    audit = audit_files(_pieces(FIXTURES / "planted" / "tpmc-with-ramp-up-in-a-table"))
    (row,) = _cells(audit, "corrected-results-1")
    assert (row["NO/s"], row["Reads per NO"]) == ("40.4", "26.45")
    wrong = [
        FIXTURES / "planted" / "tpmc-with-ramp-up" / "run.tpcc.log",
        FIXTURES / "real" / "mysql-5.7-32m" / "run.status.txt",
    ]
    evidence = [evidence_of(path.read_text(), path.name) for path in wrong]
    (run,) = _cells(audit_evidence(evidence), "corrected-runs")
    assert run["NO/s"] == "40.4"


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        # The program's totals may miss a few transactions, and it counts for a moment after the last line.
        ([("[0] sc:2425 lt:0", "[0] sc:2419 lt:0"), ("2425.000 TpmC", "2419.000 TpmC")], "totals-agree"),
        ([("[0] sc:2425 lt:0", "[0] sc:2419 lt:0"), ("2425.000 TpmC", "2419.000 TpmC")], "tpmc-counts"),
        ([("Payment: 43.46%", "Payment: 43.5%")], "totals-agree"),
        # Percentiles are bounds of bins, and no bin is below 1 ms.
        ([("99%: 307.217, max_rt: 497.894", "99%: 497.950, max_rt: 497.894")], "above-maximum"),
        ([("95%: 187.363, 99%: 307.217, max_rt: 497.894", "95%: 1.000, 99%: 1.000, max_rt: 0.614")], "above-maximum"),
        ([("   5, trx: 157,", "   5, trx: 130,")], "cold-start"),
    ],
)
def test_what_honest_programs_print_is_not_reported(changes: list[tuple[str, str]], rule: str) -> None:
    assert found(text_of(LOG, changes), rule) == []


@pytest.mark.parametrize(("said", "count"), [("43.38", 1), ("43.42", 0), ("43.50", 0), ("43.54", 1)])
def test_a_printed_percentage_is_of_the_counts_to_one_decimal(said: str, count: int) -> None:
    assert len(found(text_of(LOG, [("Payment: 43.46%", f"Payment: {said}%")]), "totals-agree")) == count


def test_a_log_cut_after_some_lines_is_not_judged_by_them() -> None:
    lines = text_of(LOG).splitlines()
    text = "\n".join([*[line for line in lines if ", trx: " in line][:5], "<TpmC>", lines[-1]])
    audit = audit_of(f"{text}\n")
    assert audit.findings == ()
    (run,) = audit.case.runs
    assert run.new_orders_per_s == pytest.approx(2425 / 60)


def test_a_table_over_another_whole_time_is_held_against_the_log() -> None:
    log = text_of(LOG)
    for tpmc, count in (("1212.5", 1), ("2425.0", 0), ("2371.4", 0)):
        table = f"\nPool\tTpmC\tr/s\n32M\t{tpmc}\t1069\n"
        assert len(found(log + table, "tpmc-counts")) == count, tpmc


@pytest.mark.parametrize(("tpmc", "count"), [("2437.000", 0), ("2438.000", 1), ("2413.000", 0), ("2412.000", 1)])
def test_a_tpmc_may_differ_from_the_counts_by_half_a_per_cent(tpmc: str, count: int) -> None:
    assert len(found(text_of(LOG, [("2425.000 TpmC", f"{tpmc} TpmC")]), "tpmc-counts")) == count


@pytest.mark.parametrize(("tpmc", "words"), [("4850", "2 times too large"), ("1212.5", "2 times too small")])
def test_a_wrong_tpmc_is_too_large_or_too_small_by_more_than_one(tpmc: str, words: str) -> None:
    (finding,) = found(text_of(LOG, [("2425.000 TpmC", f"{tpmc} TpmC")]), "tpmc-counts")
    assert f"throughput is given {words}" in finding.consequence


@pytest.mark.parametrize(("tpmc", "count"), [("1889.610", 1), ("1889.710", 0)])
def test_a_table_over_the_log_and_its_ramp_up_is_found_though_the_time_is_not_round(tpmc: str, count: int) -> None:
    log = text_of(LOG, [("[rampup]: 20 ", "[rampup]: 17 ")])
    table = f"\nPool\tTpmC\tr/s\n32M\t{tpmc}\t1069\n"
    # 2,425 New-Orders in 60 s; in 77 s they would be 1,889.610 a minute.
    findings = found(log + table, "tpmc-counts")
    assert len(findings) == count
    assert all(one.what.endswith("and the ramp-up of 17 s is not counted") for one in findings)


def test_sectors_in_one_row_are_found() -> None:
    text = text_of("real/mysql-5.7-32m/run.iostat.txt", [(" 20022.40 ", " 40044.80 ")])
    (finding,) = found(text, "sectors-as-kib")
    assert (finding.numbers["said"], finding.numbers["rows"]) == (40044.8, 1)


def test_a_second_run_in_a_file_is_not_time_running_backwards() -> None:
    lines = [line for line in text_of(LOG).splitlines() if ", trx: " in line]
    for text in (lines + lines, lines[:5] + lines, lines[3:7] + lines[1:4]):
        audit = audit_of("\n".join(text))
        assert [finding.rule for finding in audit.findings] == []
        assert len(evidence_of("\n".join(text)).logs) == 2


def test_a_restart_is_no_printout_out_of_order() -> None:
    text = text_of("real/mysql-5.7-32m/run.status.txt", [("Pages read 70322,", "Pages read 322,")])
    assert found(text, "time-order") == []


@pytest.mark.parametrize(("said", "count"), [("16384", 0), ("8192", 1), ("4096", 1)])
def test_the_page_size_is_shown_by_bytes_per_read_where_the_memory_is_cut_off(said: str, count: int) -> None:
    text = text_of("real/mysql-5.7-32m/run.status.txt", [("Total large memory allocated", "Memory")])
    assert len(found(f"innodb_page_size={said}\n{text}", "page-size-ran")) == count


def test_a_cut_printout_does_not_tell_how_many_instances_there_were() -> None:
    text = text_of("real/mysql-8.0/run.status.txt")
    said = "innodb_buffer_pool_instances=8\n"
    assert len(found(said + text, "instances-ran")) == 1
    assert found(said + text.replace("END OF INNODB MONITOR OUTPUT", ""), "instances-ran") == []


def test_sectors_of_older_programs_are_told_by_their_mean_request() -> None:
    text = text_of("iostat/sysstat-10-x.txt")
    assert found(text, "sectors-as-kib") == []
    assert "rkB/s" in text


def test_rates_that_rise_and_small_tables_are_no_counters() -> None:
    head = "Time\tTpmC\tr/s\n"
    rising = "".join(f"{at} s\t2400\t{reads}\n" for at, reads in ((5, 980), (10, 1900), (15, 2100), (20, 2050)))
    assert found(head + rising, "counters-as-rates") == []
    assert len(found("Pool\tTpmC\tr/s\n32M\t2425\t90516\n", "counters-as-rates")) == 1
    assert found("Pool\tTpmC\tr/s\n32M\t2425\t9051\n", "counters-as-rates") == []


@pytest.mark.parametrize(
    ("rates", "count"),
    [
        ((3000, 6000, 10000), 1),
        ((3000, 6000, 9999), 0),  # Smaller numbers may agree with a counter by chance.
        ((3000, 3000, 10000), 0),
        ((6000, 3000, 10000), 0),
        ((10000, 10000, 10000), 0),
        ((3000, 6000, 12000), 1),  # Steps of 3,000 and 6,000 count as alike.
        ((3000, 6000, 12001), 0),
        ((10000, 15000, 20000), 1),
        ((10001, 15000, 20001), 0),  # The number must grow to twice its first value.
    ],
)
def test_whole_numbers_that_grow_by_like_steps_are_counters(rates: tuple[int, ...], count: int) -> None:
    rows = "".join(f"{5 * at} s\t{value}\n" for at, value in enumerate(rates, start=1))
    assert len(found(f"Time\tr/s\n{rows}", "counters-as-rates")) == count


def test_reads_per_transaction_that_are_reads_per_second_by_tpmc_are_found_in_one_table_too() -> None:
    head = "Pool\tTpmC\tr/s\treads/tx\n"
    assert len(found(f"{head}32M\t2400\t960\t0.40\n64M\t3000\t600\t0.20\n", "minute-by-second")) == 1
    assert found(f"{head}32M\t2400\t960\t24.0\n64M\t3000\t600\t12.0\n", "minute-by-second") == []


def test_reads_per_transaction_of_so_few_digits_that_they_may_be_right_are_left_alone() -> None:
    # The true values are 0.15 and 0.06 reads, those of the wrong formula 0.0025 and 0.001: all are within a digit of
    # 0.1.
    unsure = "Pool\tTpmC\tr/s\treads/tx\n32M\t2400\t6\t0.1\n64M\t3000\t3\t0.1\n"
    assert found(unsure, "minute-by-second") == []
    (one,) = found(f"{unsure}96M\t2400\t960\t0.4\n128M\t3000\t600\t0.2\n", "minute-by-second")
    assert one.numbers["settings"] == ["96M", "128M"]


def log_of(counts: Sequence[int]) -> str:
    """Return a log of tpcc-mysql with a line every 5 s."""
    lines = [
        f"{5 * at}, trx: {count}, 95%: 1.000, 99%: 2.000, max_rt: 3.000" + f", {count}|3.000" * 4
        for at, count in enumerate(counts, start=1)
    ]
    minutes = 5 * len(counts) / 60
    return "\n".join([*lines, "<TpmC>", f"                 {sum(counts) / minutes:.3f} TpmC", ""])


@pytest.mark.parametrize(
    ("counts", "cold"),
    [
        ([10, 10, 10, *[100] * 9], 1),
        ([10, *[100] * 11], 1),
        ([49, *[100] * 11], 1),  # A single line must be below half.
        ([50, *[100] * 11], 0),
        ([69, 69, *[100] * 10], 1),
        ([70, 70, *[100] * 10], 0),
        ([100, 10, 10, *[100] * 9], 0),
        ([*[10] * 12, *[100] * 12], 1),
        ([*[10] * 13, *[100] * 11], 0),  # A level that more than half of the lines have is not a beginning.
        ([10, 10, 100, 100, 100, 100], 1),
        ([10, 100, 100, 100, 100], 0),  # Too few lines to judge.
    ],
)
def test_a_first_part_far_below_the_rest_is_a_cold_start(counts: list[int], cold: int) -> None:
    assert len(found(log_of(counts), "cold-start")) == cold


def test_a_cold_start_is_told_with_its_lines_and_both_throughputs() -> None:
    (told,) = found(log_of([10, 20, *[100, 110] * 5]), "cold-start")
    assert told.what == "until 10 s 10 to 20 New-Orders a line, later 100 to 110"
    # Twelve lines a minute with 105 New-Orders each, or with 90.
    assert told.corrected.startswith("1260.0 TpmC after 10 s, not 1080.0;")
    assert "14.3 % below" in told.consequence
    assert told.numbers == {
        "rampup_s": None, "cold_s": 10, "cold_counts": [10, 20], "tpmc": 1080.0, "tpmc_settled": 1260.0,
    }  # fmt: skip


FINDINGS = FIXTURES.parent / "audit-findings.txt"


def test_what_is_found_in_every_fixture_reads_as_it_did() -> None:
    """UPDATE_SNAPSHOTS=1 writes the findings anew; the commit of a changed finding says why it changed."""
    files = sorted(file for file in FIXTURES.rglob("*.*") if file.is_file() and file.suffix != ".toml")
    told = []
    for file in files:
        for one in audit_of(file.read_text(encoding="utf-8")).findings:
            words = (one.rule, str(one.where), one.what, one.consequence, one.corrected, str(one.numbers))
            told += [f"{file.relative_to(FIXTURES)}: {words[0]}", *(f"  {word}" for word in words[1:])]
    text = "\n".join([*told, ""])
    if os.environ.get("UPDATE_SNAPSHOTS"):
        FINDINGS.write_text(text, encoding="utf-8")
    assert text == FINDINGS.read_text(encoding="utf-8")


def test_shares_of_one_whole_are_not_corrected() -> None:
    rows = "128\t700 (70.0%)\t250 (25.0%)\t50 (5.0%)\n256\t800 (80.0%)\t150 (15.0%)\t50 (5.0%)"
    for text in (rows, rows.replace("%", ""), "128\t700\t250\t50\n256\t800\t150\t50"):
        audit = audit_of(f"Depth\tFree list\tLRU scan\tSingle page\n{text}\n")
        assert (audit.findings, audit.tables) == ((), ())


def test_brackets_in_a_header_are_no_markup_on_a_terminal() -> None:
    shown = on_terminal(as_report(audit_of("Rate [/s]\tTpmC\tr/s\n10\t2400\t960\n20\t3000\t600\n")))
    assert "Rate [/s], from given.txt:1" in shown


def test_tables_of_zeros_are_survived() -> None:
    for rows in ("a\t0\t0\t0\nb\t0\t0\t0\n", "a\t0.0\t100\t0\na\t0\t0\t0\nb\t0\t0\t0\nb\t0\t0\t0\n"):
        audit = audit_of(f"Pool\tTpmC\tHit\tr/s\n{rows}")
        assert as_report(audit).answer
    zeros = "\n".join(
        f"{at}, trx: 0, 95%: 0.000, 99%: 0.000, max_rt: 0.000" + ", 0|0.000" * 4 for at in range(5, 45, 5)
    )
    assert audit_of(f"{zeros}\n 0.000 TpmC\n in 40 sec.\n").findings == ()


def _calls(text: str, files: int) -> int:
    """Return the number of calls that an audit of `files` copies of a text makes."""
    evidence = [evidence_of(text, f"copy{number}.txt") for number in range(files)]
    count = 0

    def counted(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(counted)
    try:
        audit = audit_evidence(evidence)
        as_json(as_report(audit))
        drawn(as_report(audit))
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", ["clean.txt", "page-size.txt", "buffer-size.txt"])
def test_the_work_grows_as_the_number_of_files(name: str) -> None:
    text = text_of(name)
    _calls(text, 1)
    assert _calls(text, 24) <= 2.1 * _calls(text, 12)
