"""`bufferlab audit` as a command: exit codes, the JSON object, pages, and files without any number."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.audit_files import FIXTURES
from support.fake import Bench


def test_an_audit_ends_well_also_with_findings(bench: Bench) -> None:
    ended = bench.bufferlab("audit", FIXTURES / "buffer-size.txt")
    assert ended.code == 0
    assert ended.err == ""
    opening = " ".join(ended.out.split())
    assert opening.startswith("In buffer-size.txt, line 15: every value is 60 times too small;"), (
        "the worst comes first"
    )
    assert "This is the worst of 4 findings by 4 of 38 rules in 1 file (2 tables)." in opening
    assert "reads per New-Order 31.25 9.74 6.62 3.00 3.18" in ended.out
    assert "…" not in ended.out, "a cell was cut"


def test_the_object_has_every_finding_and_table(bench: Bench) -> None:
    document = bench.bufferlab("audit", FIXTURES / "page-size.txt", "--json").json
    assert document["status"] == "ok"
    first = document["findings"][0]
    assert set(first) == {"rule", "where", "what", "consequence", "corrected", "numbers"}
    assert (first["rule"], first["where"]["label"]) == ("response-limits", "page size = 4KB")
    (runs,) = document["corrected"]
    assert [row["Reads per NO"] for row in runs["rows"]] == ["5.08", "4.71", "4.88"]
    assert [row["KiB read per NO"] for row in runs["rows"]] == ["20.3", "37.6", "78.0"]


def test_a_file_name_puts_no_control_character_into_the_page(bench: Bench) -> None:
    bench.root.mkdir(exist_ok=True)
    strange = bench.root / "a\x1b[31m\u202eb\udcff.txt"
    strange.write_bytes((FIXTURES / "buffer-size.txt").read_bytes())
    page = bench.root / "audit.html"
    assert bench.bufferlab("audit", strange, "--html", page).code == 0
    text = page.read_text("utf-8")
    assert not set(text) & {"\x1b", "\u202e"}
    assert "\\x1b[31m\\u202eb\\udcff" in text


def test_fail_if_ends_with_four_where_the_rule_finds_something(bench: Bench) -> None:
    page_size = FIXTURES / "page-size.txt"
    assert bench.bufferlab("audit", page_size, "--fail-if", "response-limits").code == 4
    assert bench.bufferlab("audit", page_size, "--fail-if", "time-order", "--json").code == 0
    assert bench.bufferlab("audit", FIXTURES / "clean.txt", "--fail-if", "any").code == 0
    refused = bench.bufferlab("audit", page_size, "--fail-if", "respons-limits")
    assert refused.code == 2
    assert "did you mean response-limits?" in refused.err


def test_a_clean_file_says_so(bench: Bench) -> None:
    ended = bench.bufferlab("audit", FIXTURES / "clean.txt")
    assert ended.code == 0
    assert ended.out.startswith("Nothing found by 38 rules in 1 file (8 interval lines,")


def test_pages_are_written_on_request(bench: Bench, tmp_path: Path) -> None:
    html, markdown = tmp_path / "a.html", tmp_path / "a.md"
    ended = bench.bufferlab("audit", FIXTURES / "scan-depth.txt", "--html", html, "--markdown", markdown)
    assert ended.code == 0
    for page in (html, markdown):
        text = page.read_text().replace("\u00a0", " ")
        assert "shares of a row add up to 91.6 to 91.7 %" in text
        assert "56.71" in text


def test_a_file_without_anything_is_told_and_the_rest_is_audited(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Nothing to see.\n")
    ended = bench.bufferlab("audit", tmp_path / "notes.txt", FIXTURES / "buffer-size.txt", "--json")
    assert ended.code == 0
    assert "nothing recognised in 1 line" in ended.err
    assert len(ended.json["unrecognised"]) == 1
    assert ended.json["findings"]


@pytest.mark.parametrize("name", ["notes.txt", "missing.txt", "."])
def test_nothing_at_all_is_code_65(bench: Bench, tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("Nothing to see.\n")
    ended = bench.bufferlab("audit", tmp_path / name)
    assert ended.code == 65
    assert str(tmp_path / name) in ended.err


_SET_UP = "After 30 s with a buffer pool of 64 MB, then innodb_buffer_pool_size = 128M, all was well.\n"


def test_a_file_that_only_tells_of_a_set_up_is_no_clean_one(bench: Bench, tmp_path: Path) -> None:
    diary = tmp_path / "diary.txt"
    diary.write_text(_SET_UP)
    ended = bench.bufferlab("audit", diary)
    assert (ended.code, ended.out) == (65, "")
    assert "nothing was read but what it says of a set-up" in ended.err
    assert str(diary) in ended.err
    beside = bench.bufferlab("audit", diary, FIXTURES / "clean.txt", "--json")
    assert beside.code == 0
    assert [problem["where"] for problem in beside.json["unrecognised"]] == [str(diary)]


def test_the_set_up_of_a_run_in_the_other_files_is_read_for_it(bench: Bench) -> None:
    run = FIXTURES / "real/mysql-5.7-32m"
    ended = bench.bufferlab("audit", run / "run.cnf", run / "run.tpcc.log", "--json")
    assert (ended.code, ended.json["unrecognised"]) == (0, [])
    assert bench.bufferlab("audit", run / "run.cnf").code == 65


def test_pieces_of_one_run_may_lie_in_several_files(bench: Bench, tmp_path: Path) -> None:
    lines = (FIXTURES / "clean.txt").read_text().splitlines()
    log = [line for line in lines[:60] if "trx:" in line or line.endswith("TpmC")]
    status = [
        f"2026-01-01 10:0{at}:00 0x7f INNODB MONITOR OUTPUT\nPages read {count}, created 5, written 6\n"
        for at, count in ((0, 1000), (1, 19000))
    ]
    (tmp_path / "4k.tpcc.log").write_text("\n".join(log) + "\n")
    (tmp_path / "4k.status.txt").write_text("".join(f"{one}Free buffers       1\n" for one in status))
    document = bench.bufferlab("audit", tmp_path / "4k.tpcc.log", tmp_path / "4k.status.txt", "--json").json
    (runs,) = document["corrected"]
    assert runs["rows"][0]["Pages read/s"] == "300.0"
    assert runs["rows"][0]["Reads per NO"] == "4.98"


def test_runs_are_printed_as_tpcc_mysql_prints_them_and_audited(bench: Bench, tmp_path: Path) -> None:
    ended = bench.run(bench.experiment(transactions=20_000, repetitions=1), "--format", "tpcc-mysql")
    assert ended.code == 0, ended.err
    assert ended.out.count("<TpmC>") == 2
    assert "limits are compared in seconds" in ended.err
    assert (bench.sweep_path() / "report.html").is_file()
    again = bench.bufferlab("report", bench.sweep_path(), "--format", "tpcc-mysql")
    assert (again.code, again.out) == (0, ended.out), again.err
    late = bench.bufferlab("report", bench.sweep_path(), "--format", "tpcc-mysql", "--tpcc-limits", "ms")
    assert late.out.count("(5)") == 6
    (tmp_path / "runs.txt").write_text(ended.out)
    findings = bench.bufferlab("audit", tmp_path / "runs.txt", "--json").json["findings"]
    assert [finding for finding in findings if finding["rule"] != "single-runs"] == []


@pytest.mark.parametrize(
    "arguments",
    [("run", "hot-rows", "--format", "tpcc-mysql"), ("run", "buffer-size", "--format", "tpcc-mysql", "--json")],
)
def test_what_the_format_cannot_say_is_refused_at_once(bench: Bench, arguments: tuple[str, ...]) -> None:
    ended = bench.bufferlab(*arguments)
    assert ended.code == 2
    assert "--format tpcc-mysql" in ended.err
    assert not bench.root.exists()


def test_a_block_trace_is_audited_with_requests_per_operation(bench: Bench) -> None:
    document = bench.bufferlab("audit", FIXTURES / "block-trace.txt", "--json").json
    rules = {finding["rule"] for finding in document["findings"]}
    assert rules == {"thousands-of-kib", "off-page-reads", "queued-only"}
    (table,) = document["corrected"]
    assert table["rows"][1]["Requests per operation"] == "2.861"
    ended = bench.bufferlab("audit", FIXTURES / "block-trace.txt")
    assert "(3 block traces)" in ended.out
