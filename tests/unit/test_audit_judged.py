"""Input without anything to judge is not called clean: rules, files of which only the head was read, and tables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bufferlab.audit.audit import as_report, audit_evidence, audit_files, summary
from bufferlab.audit.rules import RULES
from bufferlab.errors import DataFileError
from bufferlab.report.document import as_json
from support.audit_files import FIXTURES, audit_of, evidence_of, found, text_of

RULE = {rule.name: rule for rule in RULES}
FILES = sorted(file for file in FIXTURES.rglob("*.*") if file.is_file() and file.suffix != ".toml")


def test_every_rule_that_finds_something_has_something_to_judge() -> None:
    for file in FILES:
        audit = audit_of(file.read_text(encoding="utf-8"))
        for rule in {finding.rule for finding in audit.findings}:
            assert RULE[rule].is_judged(audit.case), (file, rule)
    for folder in {file.parent for file in FILES if file.name.startswith("run.")}:
        audit = audit_evidence([evidence_of(file.read_text(), file.name) for file in sorted(folder.glob("run.*"))])
        for rule in {finding.rule for finding in audit.findings}:
            assert RULE[rule].is_judged(audit.case), (folder, rule)


def test_every_rule_has_something_to_judge_in_some_file_and_nothing_in_another() -> None:
    cases = [audit_of(file.read_text(encoding="utf-8")).case for file in FILES]
    folders = sorted({file.parent for file in FILES if file.name.startswith("run.")})
    cases += [
        audit_evidence([evidence_of(file.read_text(), file.name) for file in sorted(folder.glob("run.*"))]).case
        for folder in folders
    ]
    for rule in RULES:
        assert {rule.is_judged(case) for case in cases} == {True, False}, rule.name


def test_only_rules_of_the_evidence_that_was_read_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    place = "bufferlab.audit.rules."
    for name in [name for name in sys.modules if name.startswith(place)]:
        monkeypatch.delitem(sys.modules, name)
    audit = audit_of(text_of("load/sysbench-1.0.20-oltp.txt"))
    loaded = {name.removeprefix(place) for name in sys.modules if name.startswith(place)}
    assert {rule.module for rule in RULES if rule.name in audit.judged} <= loaded
    assert not loaded & {"iostat", "block_trace", "per_new_order", "tpmc"}


def test_of_an_empty_case_no_rule_has_anything_to_judge() -> None:
    case = audit_evidence([]).case
    assert [rule.name for rule in RULES if rule.is_judged(case)] == []


@pytest.mark.parametrize(
    ("name", "judged"),
    [
        ("load/sysbench-1.0.20-oltp.txt", {"latency-order", "load-totals", "in-flight", "time-order"}),
        ("load/hammerdb-4.7-made.txt", {"load-totals", "clients-lost"}),
        ("own/iostat-d.txt", {"boot-average"}),
        ("status/mysql-8.0.15.txt", {"pages-in-pool"}),
    ],
)
def test_rules_without_anything_to_judge_are_counted_so(name: str, judged: set[str]) -> None:
    audit = audit_of(text_of(name))
    assert set(audit.judged) == judged
    statuses = {check.name: check.status for check in as_report(audit).checks}
    assert {rule for rule, status in statuses.items() if status == "not_applicable"} == {*statuses} - judged
    assert as_json(as_report(audit))["judged"] == list(audit.judged)
    some = f"{len(judged)} rule{'s' if len(judged) > 1 else ''} of {len(RULES)} had something to judge"
    assert some in summary(audit)


def test_the_headline_says_what_share_of_the_lines_was_read() -> None:
    table = "| pool | TpmC | r/s |\n|---|---|---|\n| 10% | 950.4 | 322.6 |\n| 20% | 1210.2 | 251.3 |\n"
    assert "in every line" in summary(audit_of(table))
    assert "in 4 of 7 lines" in summary(audit_of(f"# Results\n\nWe ran it.\n\n{table}\nThat was all.\n"))
    assert "in 3 of 4 lines" in summary(audit_of("pool,TpmC\n10%,950.4\n20%,1210.2\nend\n"))
    half = text_of("load/sysbench-1.0.20-oltp.txt") + "an unknown line\n" * 10
    audit = audit_of(half)
    assert (as_json(as_report(audit))["lines"] - as_json(as_report(audit))["lines_read"]) == 10


def test_a_table_that_no_rule_can_judge_is_not_called_clean() -> None:
    audit = audit_of("clients;latency;hit ratio\n8;900,5;0,9\n16;950,5;0,95\n")
    assert len(audit.case.files[0].results) == 1
    assert summary(audit).startswith(f"Nothing was judged: none of {len(RULES)} rules has what it needs in 1 file")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\n\nRunning the test with following options:\n"
            "Number of threads: 4\n\nThreads started!\n\n",
            "only the head of sysbench's output is there",
        ),
        (
            "transaction type: <builtin: TPC-B (sort of)>\nscaling factor: 1\nnumber of clients: 4\n",
            "only the head of pgbench's output is there",
        ),
        (
            "  option c with value '4'\n     [warehouse]: 1\n    [connection]: 8\n        [rampup]: 10 (sec.)\n",
            "only the head of tpcc-mysql's output is there",
        ),
        (
            "Linux 5.15.0 (a) \t02/11/24 \t_x86_64_\t(8 CPU)\n\nDevice            r/s     rkB/s     w/s     wkB/s\n",
            "only the head of a report of iostat is there",
        ),
        ("CPU0 (sda):\n\nTotal (sda):\n", "nothing recognised"),
    ],
)
def test_a_file_of_which_only_the_head_is_there_is_refused(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "run.txt"
    path.write_text(text)
    with pytest.raises(DataFileError, match=what):
        audit_files([path])
    if "only" in what:
        beside = audit_files([path, FIXTURES / "buffer-size.txt"])
        assert any(what in problem.what for problem in beside.unrecognised)


@pytest.mark.parametrize(
    ("title", "count"),
    [
        ("# PostgreSQL 16, TPC-C", 0),
        ("Postgres, shared buffers", 0),
        ("# MySQL 8.0, TPC-C", 1),
        ("", 1),
        ("PostgreSQL was not run.\nThis is InnoDB:", 1),
        ("We ran pgbench -c 16", 0),
        (text_of("load/pgbench-15-progress.txt"), 0),
    ],
)
def test_a_csv_below_a_title_of_postgres_is_not_accused_of_mysqls_chunks(title: str, count: int) -> None:
    text = f"{title}\n\nbuffer size,TpmC\n200M,950.4\n600M,1210.2\n"
    assert len(found(text, "rounded-sizes")) == count
    both = f"{text}\n# MySQL\n\nbuffer size,TpmC\n300M,950.4\n"
    assert len(found(both, "rounded-sizes")) == 1


@pytest.mark.parametrize(
    ("head", "count"),
    [("shared_buffers", 0), ("Shared buffers", 0), ("innodb_buffer_pool_size", 1), ("buffer size", 1)],
)
def test_the_setting_of_postgres_in_a_tables_head_is_no_pool_of_innodb(head: str, count: int) -> None:
    text = f"{head},TpmC,r/s\n1000M,12044.1,1204.5\n3G,18022.4,412.7\n"
    assert len(found(text, "rounded-sizes")) == count
    (table,) = [table for table in audit_of(text).tables if table.id == "corrected-results-1"]
    assert ("Pool run" in [column.title for column in table.columns]) == bool(count)
    # Without a version in the text, the rounding is a guess.
    assert ("no version is named" in (table.caption or "")) == bool(count)
