"""SHOW GLOBAL STATUS and PostgreSQL's views: read in every form that clients print, and judged like the status text."""

from __future__ import annotations

import re

import pytest

from bufferlab.audit.audit import Audit, audit_evidence
from bufferlab.audit.evidence import RunEvidence, timed_dumps
from support.audit_files import FIXTURES, audit_of, evidence_of, found, text_of

TABLE, RELATIVE, TABS = "counters/mysql-5.7-table.txt", "counters/mysql-5.7-relative.txt", "counters/mysql-8.0-tabs.txt"
ROWS, POSTGRES = "counters/mariadb-10.11-G.txt", "counters/postgres-15-aligned.txt"
EXPANDED, WATCH, IO = (f"counters/postgres-{name}.txt" for name in ("15-expanded", "15-watch", "17-aligned"))


def run_of(text: str) -> RunEvidence:
    (run,) = audit_of(text).case.runs
    return run


def cells_of(audit: Audit) -> dict[str, str]:
    (table,) = [table for table in audit.tables if table.id == "corrected-runs"]
    return dict(zip([column.title for column in table.columns], table.rows[0].cells, strict=True))


def as_other_form(text: str, form: str) -> str:
    """Return the rows of a table in another of the client's output forms."""
    rows = re.findall(r"^\| (\w+) +\| (.*?) +\|$", text, re.MULTILINE)
    if form == "tabs":
        return "\n".join(f"{name}\t{value}" for name, value in rows)
    if form == "rows":
        return "\n".join(
            f"{'*' * 27} {at}. row {'*' * 27}\nVariable_name: {name}\n        Value: {value}"
            for at, (name, value) in enumerate(rows, 1)
            if name != "Variable_name"
        )
    if form == "capitals":
        return "\n".join(f"| {name.upper()} | {value} |" for name, value in rows)
    if form == "lettered":
        return "\n".join(f"| {name} | I1 | {value} |" for name, value in rows if name != "Variable_name")
    return "\n".join(f"| {name} | {value} |" for name, value in rows if name != "Variable_name")


@pytest.mark.parametrize("path", sorted((FIXTURES / "counters").glob("*.txt")), ids=lambda path: path.stem)
def test_nothing_is_found_in_what_clients_printed(path: object) -> None:
    audit = audit_of(path.read_text(encoding="utf-8"))  # type: ignore[attr-defined]
    assert audit.findings == ()
    assert [dump for run in audit.case.runs for dump in run.dumps]


@pytest.mark.parametrize("form", ["table", "tabs", "rows", "capitals", "lettered", "no head"])
def test_global_status_is_read_in_every_form(form: str) -> None:
    text = text_of(TABLE) if form == "table" else as_other_form(text_of(TABLE), form)
    first, second = run_of(text).dumps
    assert (first.fields["pages_read"], first.fields["gets"], first.fields["misses"]) == (14718, 757218, 12448)
    assert (second.fields["pages_read"], second.fields["uptime_s"], second.fields["page_bytes"]) == (16417, 9, 16384)


def test_tabs_and_rows_of_servers_are_read() -> None:
    (tabs,) = evidence_of(text_of(TABS)).dumps
    told = dict(line.split("\t") for line in text_of(TABS).splitlines())
    assert tabs.fields["pages_read"] == int(told["Innodb_pages_read"])
    assert tabs.fields["pool_pages"] == int(told["Innodb_buffer_pool_pages_total"])
    (rows,) = evidence_of(text_of(ROWS)).dumps
    assert rows.family == "mariadb"
    assert f"Innodb_lsn_current\n        Value: {rows.fields['lsn']:.0f}" in text_of(ROWS)


def test_blocks_of_changes_are_added_to_the_block_since_the_start() -> None:
    run = run_of(text_of(RELATIVE))
    assert [dump.fields["uptime_s"] for dump in run.dumps] == [3, 5, 7]
    assert [dump.fields["pages_read"] for dump in run.dumps] == [1748, 1748 + 6430, 1748 + 6430 + 6289]
    assert [dump.fields["page_bytes"] for dump in run.dumps] == [16384] * 3
    rates = run.rates()
    assert rates is not None
    assert rates.read_per_s == (6430 + 6289) / 4
    assert (
        cells_of(audit_of(text_of(RELATIVE)))["Hit ratio %"] == f"{100 * (1 - (5977 + 5839) / (215148 + 208332)):.2f}"
    )


def test_changes_of_a_few_rows_are_told_by_uptimes_that_do_not_grow() -> None:
    lines = [line for line in text_of(RELATIVE).splitlines() if "Innodb_pages_read" in line or "Uptime " in line]
    text = "\n".join(lines).replace("| 3 ", "| 4000 ")
    run = run_of(text)
    assert [dump.fields["uptime_s"] for dump in run.dumps] == [4000, 4002, 4004]
    assert run.dumps[-1].fields["pages_read"] == 1748 + 6430 + 6289
    again = [f"| Innodb_pages_read | {read} |\n| Uptime | {up} |" for read, up in ((900, 4000), (20, 2), (30, 4))]
    assert len(found("\n".join(again), "counters-fall")) == 1


def results(*moments: tuple[int, int], order: tuple[str, ...]) -> str:
    """Return results of one variable each, with tabs and a head, in this order: Pages read and Uptime at each
    moment."""
    rows = ({"pages": f"Innodb_pages_read\t{pages}", "uptime": f"Uptime\t{up}"} for pages, up in moments)
    return "".join(f"Variable_name\tValue\n{row[name]}\n" for row in rows for name in order)


@pytest.mark.parametrize("order", [("pages", "uptime"), ("uptime", "pages")])
def test_results_of_several_statements_at_one_moment_are_one_printout(order: tuple[str, ...]) -> None:
    run = run_of(results((1000, 21), (1400, 29), (2200, 37), order=order))
    assert [(one.fields["pages_read"], one.fields["uptime_s"]) for one in run.dumps] == [
        (1000, 21),
        (1400, 29),
        (2200, 37),
    ]
    rates = run.rates()
    assert rates is not None
    assert rates.read_per_s == 1200 / 16


def test_results_whose_moments_are_not_known_stay_apart() -> None:
    cut = results((1000, 21), (1400, 29), order=("uptime", "pages")).split("\n", 2)[2]
    assert [*map(len, (one.fields for one in evidence_of(cut).dumps))] == [1, 1, 1]


def test_a_table_of_settings_stays_what_a_text_says() -> None:
    text = "| Variable_name | Value |\n| innodb_buffer_pool_size | 67108864 |\n| innodb_page_size | 8192 |\n"
    evidence = evidence_of(text)
    assert (evidence.dumps, evidence.stated.page_size_bytes) == ([], 8192)
    assert evidence.stated.pools[0].sizes_bytes == (64 << 20,)


def test_the_page_size_that_ran_is_the_counters() -> None:
    (one,) = found("innodb_page_size = 4096\n\n" + text_of(TABLE), "page-size-ran")
    assert one.numbers["page_bytes_run"] == 16384
    assert one.numbers["shown_by"] == ["Innodb_page_size"]


def test_counters_of_a_server_that_was_started_again_are_found() -> None:
    first, second = text_of(TABLE).split("\n+-", 1)[0], text_of(TABLE)
    assert first
    halves = second.split("| Variable_name")
    again = "| Variable_name".join([halves[0], halves[2], halves[1]])
    (one,) = found(again, "counters-fall")
    assert {"Innodb_pages_read", "Uptime", "Innodb_buffer_pool_reads"} <= {*one.numbers["counters"]}  # type: ignore[misc]
    assert (one.numbers["from"], one.numbers["to"]) == (16417, 14718)
    assert run_of(again).rates() is None


def test_counters_that_grew_over_a_start_of_the_server_have_no_rate() -> None:
    text = text_of(
        TABLE,
        [
            (
                "| Uptime                                        | 8 ",
                "| Uptime                                        | 80 ",
            )
        ],
    )
    (one,) = found(text, "counters-fall")
    assert one.numbers["counters"] == ["Uptime"]
    assert run_of(text).rates() is None


@pytest.mark.parametrize(("seconds", "is_beside"), [(1, True), (30, False)])
def test_reads_of_a_new_order_are_told_beside_a_run_of_the_same_time(seconds: int, is_beside: bool) -> None:
    log = "Vuser 1:Timing test period of 1 in minutes\n"
    log += "Vuser 1:TEST RESULT : System achieved 6000 NOPM from 13800 MySQL TPM\n"
    text = text_of(TABLE, [("| 9                  |", f"| {8 + 60 * seconds}                |")]) + log
    cells = cells_of(audit_of(text))
    assert cells["NO/s"] == ("100.0" if is_beside else "–")
    assert cells["Reads per NO"] == (f"{(16417 - 14718) / 60 / 100:.2f}" if is_beside else "–")
    assert cells["Gets per NO"] == (f"{(813779 - 757218) / 60 / 100:.0f}" if is_beside else "–")


def test_samples_are_held_against_the_counters() -> None:
    samples = "Device r/s w/s\n" + "sda 900.0 1.0\n\nDevice r/s w/s\nsda 910.0 1.0\n\nDevice r/s w/s\nsda 905.0 1.0\n"
    text = text_of(TABLE, [("| 9                  |", "| 48                 |"), ("| 16417 ", "| 114718 ")])
    (one,) = found(f"{text}\n{samples}", "spot-samples")
    assert one.numbers["counters_reads_per_s"] == [2500.0]
    short = text_of(TABLE, [("| 16417 ", "| 16018 ")])
    assert not found(f"{short}\n{samples}", "spot-samples")


def test_views_of_postgres_are_read_aligned_and_expanded() -> None:
    for name in (POSTGRES, EXPANDED):
        before, after = run_of(text_of(name)).dumps
        assert before.family == "postgres"
        assert after.counters["blks_read of postgres"] > before.counters["blks_read of postgres"]
        assert before.fields["pages_read"] == sum(
            value for counter, value in before.counters.items() if counter.startswith("blks_read of ")
        )
        assert before.counters["buffers_alloc"] > 0
    before, after = run_of(text_of(POSTGRES)).dumps
    assert before.counters["blks_read of postgres"] == 5072
    assert (after.counters["blks_hit of postgres"], after.counters["xact_commit of postgres"]) == (62603, 2896)
    assert before.fields["gets"] == 85 + 407 + 5072 + 3362 + 1029 + 83848


@pytest.mark.parametrize("name", [POSTGRES, EXPANDED])
def test_views_are_read_between_other_lines_of_psql(name: str) -> None:
    drawn = text_of(name).translate(str.maketrans("|", "│")).replace("-+-", "─┼─")
    assert [dump.counters for dump in evidence_of(drawn).dumps] == [
        dump.counters for dump in run_of(text_of(name)).dumps
    ]


def test_pg_stat_io_tells_pages_where_pg_stat_database_does_not() -> None:
    before, after = run_of(text_of(IO)).dumps
    assert before.counters["reads of client backend relation normal"] == 351
    assert after.counters["hits of client backend relation normal"] == 72222
    alone = text_of(IO)
    views = [part for part in re.split(r"\(\d+ rows?\)\n", alone) if "backend_type" in part]
    before, after = run_of("\n".join(views)).dumps
    assert after.fields["pages_read"] - before.fields["pages_read"] >= 4664 - 351


def test_times_of_watch_give_rates() -> None:
    run = run_of(text_of(WATCH))
    assert [at for at, _ in timed_dumps(run.dumps)] == [0, 1, 2, 3, 4]
    rates = run.rates()
    assert rates is not None
    reads = [int(number) for number in re.findall(r"postgres \| +(\d+)", text_of(WATCH))]
    assert rates.read_per_s == (reads[-1] - reads[0]) / 4
    assert run.page_bytes == 8192


@pytest.mark.parametrize(
    "time", ["Sat 28 Nov 2026 11:36:36 PM UTC", "Sat Nov 28 23:36:36 2026", "Sat 28 Nov 2026 23:36:36 CET"]
)
def test_times_of_watch_are_read_in_english_and_in_no_language(time: str) -> None:
    text = f"{time} (every 5s)\n\n datname | blks_read | blks_hit\n---------+-----------+-----\n tpcc    | 5 | 7\n"
    (dump,) = evidence_of(text).dumps
    assert dump.at is not None
    assert dump.at.isoformat() == "2026-11-28T23:36:36"


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("is_framed", [False, True])
def test_a_row_with_empty_cells_at_both_ends_counts_wherever_it_stands(place: str, is_framed: bool) -> None:
    """The row of shared objects has no datname, and no stats_reset if there was no reset."""

    def printout(second: int, shared: int, postgres: int) -> str:
        rows = [f"          | {shared} | 457 |             ", f" postgres | {postgres} | 4418 | 2026-11-28  "]
        rows = [" datname  | blks_read | blks_hit | stats_reset ", *(rows if place == "first" else rows[::-1])]
        rows = [f"|{row}|" if is_framed else row for row in rows]
        head = f"  Sun Nov 29 01:44:{second} 2026 (every 4s)\n\n"
        return head + "\n".join([rows[0], "-" * 10 + "+-----+-----+-----", *rows[1:], "(2 rows)\n\n"])

    text = printout(10, 78, 14456) + printout(14, 98, 20504)
    before, after = run_of(text).dumps
    assert (before.fields["pages_read"], after.fields["pages_read"]) == (78 + 14456, 98 + 20504)
    assert after.counters["blks_read of shared objects"] == 98
    evidence = evidence_of(text)
    assert evidence.lines_read == evidence.lines


def test_counters_of_postgres_that_fall_are_found_without_a_time() -> None:
    before, after = text_of(POSTGRES).split(" datid ", 2)[1:]
    text = f" datid {after} datid {before}"
    (one,) = found(text, "counters-fall")
    assert "blks_read of postgres" in one.numbers["counters"]  # type: ignore[operator]


def test_a_reset_is_found_though_the_counters_grew() -> None:
    text = text_of(EXPANDED)
    head, _, tail = text.rpartition("stats_reset")
    reset = re.search(r"\d{4}-\d\d-\d\d", tail)
    assert reset
    (one,) = found(f"{head}stats_reset{tail.replace(reset[0], '2030-01-01')}", "counters-fall")
    assert "stats_reset" in one.what


def test_other_expanded_rows_pass() -> None:
    evidence = evidence_of("-[ RECORD 1 ]--+------\nshared_buffers | 128MB\n")
    assert (evidence.dumps, evidence.stated.shared_buffers_bytes) == ([], 128 << 20)


def test_counters_stand_beside_the_status_text_in_the_order_of_their_lines() -> None:
    status = text_of("status/mysql-5.7.22.txt")
    evidence = evidence_of(f"{status}\n{text_of(TABLE)}")
    assert [bool(dump.words) for dump in evidence.dumps] == [False, True, True]
    assert audit_evidence([evidence]).findings == ()


def test_a_run_of_go_tpc_between_two_printouts_tells_reads_and_gets_of_a_new_order() -> None:
    text = text_of("counters/mysql-5.7-go-tpc.txt")
    before, after = run_of(text).dumps
    assert after.fields["uptime_s"] - before.fields["uptime_s"] == 30
    cells = cells_of(audit_of(text))
    assert cells["NO/s"] == f"{15834.3 / 60:.1f}"
    gets = (after.fields["gets"] - before.fields["gets"]) / 30
    assert cells["Gets per NO"] == f"{gets / (15834.3 / 60):.0f}"
