"""JSON of fio and iostat is read like their text reports and counted once; documents that break off are named. Also
vmstat."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bufferlab.audit.audit import audit_files
from bufferlab.audit.parsers.captions import MAX_LINE_BYTES, Line
from bufferlab.audit.parsers.documents import Document, with_documents
from bufferlab.audit.parsers.load_run import LoadRun
from bufferlab.errors import DataFileError
from support.audit_files import FIXTURES, audit_of, evidence_of, found, text_of

TWO_JOBS, STATUS = "load/fio-3.33-two-jobs.json", "load/fio-3.33-status-interval.json"


def loads(text: str) -> list[LoadRun]:
    return evidence_of(text).loads


def test_json_of_fio_has_the_counts_rates_and_options_of_each_job() -> None:
    one, two = loads(text_of(TWO_JOBS))
    assert (one.name, one.clients, one.block_bytes) == ("one, read", 1, 8192)
    assert (two.name, two.clients, two.block_bytes) == ("two, write", 3, 4096)
    assert (two.seconds, two.transactions, two.per_s) == (2.001, 21617, 10803.098451)
    assert (two.bytes, two.bytes_per_s) == (21617 * 4096, 44249491)
    assert two.latency_ms["99 %"] == pytest.approx(
        json.loads(text_of(TWO_JOBS))["jobs"][1]["write"]["clat_ns"]["percentile"]["99.000000"] / 1e6
    )


@pytest.mark.parametrize("indent", [None, 0, 4])
def test_json_is_read_however_its_lines_are_broken(indent: int | None, tmp_path: Path) -> None:
    document = {"x" * 200: "{" * 200, **json.loads(text_of(TWO_JOBS), parse_float=str)}
    file = tmp_path / "disk.json"
    file.write_text(json.dumps(document, indent=indent), encoding="utf-8")
    assert (max(map(len, file.read_text().splitlines())) > MAX_LINE_BYTES) is (indent is None)
    ((one, two),) = [one.loads for one in audit_files([file]).case.files]
    assert (one.transactions, two.transactions) == (23160, 21617)


def test_json_plus_is_read() -> None:
    (run,) = loads(text_of("load/fio-3.33-json-plus.json"))
    assert (run.name, run.transactions, run.clients) == ("few, read", 41, 1)


def test_what_stands_in_text_and_in_json_is_counted_once() -> None:
    text = text_of("load/fio-3.33-normal-and-json.txt")
    assert [(run.name, run.transactions) for run in loads(text)] == [("mixed, read", 13426), ("mixed, write", 5694)]
    alone = "\n".join(text.splitlines()[3:295])
    assert [run.transactions for run in loads(alone)] == [13426, 5694]


def test_of_reports_on_the_way_the_last_counts_and_another_run_is_another() -> None:
    text = text_of(STATUS)
    (run,) = loads(text)
    last = json.loads("{" + text.rpartition("\n{")[2])
    assert run.transactions == last["jobs"][0]["read"]["total_ios"]
    later = text.replace(f'"timestamp" : {last["timestamp"]}', f'"timestamp" : {last["timestamp"] + 60}')
    assert len(loads(text + later)) > 1


def test_of_a_group_of_several_sections_neither_clients_nor_the_size_of_requests_are_known() -> None:
    for run in loads(text_of("load/fio-3.33-grouped.json")):
        assert (run.clients, run.block_bytes) == (None, None)


def test_numbers_of_json_are_judged_as_those_of_the_text() -> None:
    assert not found(text_of(TWO_JOBS), "load-totals")
    (one,) = found(text_of(TWO_JOBS, [('"io_bytes" : 88543232', '"io_bytes" : 8854323')]), "load-totals")
    assert one.numbers["what"] == ["KiB per second, by bytes and time"]


def test_older_json_of_fio_is_named_because_of_its_units() -> None:
    text = text_of(TWO_JOBS).replace("clat_ns", "clat").replace("lat_ns", "lat").replace("fio-3.33", "fio-2.99")
    evidence = evidence_of(text)
    assert evidence.loads == []
    assert "before 3.0" in evidence.named[0].what


def test_json_of_iostat_is_read_as_its_text() -> None:
    text = text_of("iostat/sysstat-12.6-x.json")
    reports = evidence_of(text).reports
    assert [report.since_boot for report in reports] == [True, False, False, False, False]
    row = reports[1].devices["vda"]
    assert (row.reads_per_s, row.writes_per_s, row.columns["%util"], row.half_digit) == (16, 1388, 16.4, 0.005)
    (one,) = found(text.replace('"r/s": 214.12', '"r/s": 90000.00'), "boot-average")
    assert one.numbers["first_reads_per_s"] == 90_000


def test_json_without_its_end_is_named_and_what_follows_is_read() -> None:
    whole = text_of(TWO_JOBS).splitlines()
    evidence = evidence_of("\n".join([*whole[:40], text_of("load/sysbench-1.0.20-oltp.txt")]))
    assert [run.tool for run in evidence.loads] == ["sysbench"]
    assert [(problem.where, "JSON document of fio" in problem.what) for problem in evidence.named] == [
        ("given.txt:1", True)
    ]


def test_a_file_with_a_broken_document_alone_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "disk.json"
    file.write_text(text_of(TWO_JOBS)[:3000], encoding="utf-8")
    with pytest.raises(DataFileError) as refused:
        audit_files([file])
    assert "breaks off" in str(refused.value)


def test_documents_nested_too_deep_are_named() -> None:
    for depth in (40, 100_000):
        nested = '{"fio version": ' + '{"a":' * depth + "1" + "}" * depth + "}"
        (document,) = with_documents([Line(1, nested)])
        assert isinstance(document, Document)
        assert document.problem == "it is nested too deep"


def test_lines_that_are_no_document_pass_as_they_are() -> None:
    lines = [
        Line(number, text) for number, text in enumerate(["a", "{", ' "x": 1', "b", "[ 5s ] thds: 1", "{}", ""], 1)
    ]
    assert list(with_documents(lines)) == lines


def test_the_first_line_of_vmstat_is_since_the_start_of_the_system() -> None:
    text = text_of("own/vmstat-1.txt")
    reports = evidence_of(text).reports
    assert [(row.columns["bi"], row.columns["bo"]) for one in reports for row in one.devices.values()][:2] == [
        (2393, 4285),
        (31520, 992),
    ]
    head, first, *rest = text.splitlines()[1:]
    quick = [f" 1  0  0 13985272  94244 5608528    0    0 {88_000 + at} 12 11 12 75 25  0  0  0" for at in range(9)]
    (one,) = found("\n".join([head, first, *quick]), "boot-average")
    assert (one.numbers["first_kib_read_per_s"], one.numbers["device"]) == (2393, "all disks")
    assert "vmstat's head" in one.what
    assert len(rest) == 5


def test_the_head_that_comes_with_every_screen_begins_no_run_of_vmstat() -> None:
    lines = text_of("own/vmstat-1.txt").splitlines()
    reports = evidence_of("\n".join([*lines, *lines[:2], *lines[3:]])).reports
    assert [report.since_boot for report in reports] == [True, *[False] * (len(reports) - 1)]
    again = evidence_of("\n".join([*lines, "", *lines])).reports
    assert sum(report.since_boot for report in again) == 2


def test_the_headline_names_what_vmstat_gave() -> None:
    audit = audit_of((FIXTURES / "own/vmstat-tw.txt").read_text(encoding="utf-8"))
    assert audit.findings == ()
    assert audit.judged == ("boot-average",)
