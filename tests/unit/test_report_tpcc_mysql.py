"""A run printed in tpcc-mysql's form: `audit` reads the same numbers from it as the counters have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from bufferlab.report.tpcc_mysql import LIMITS, TYPES, NothingToPrintError, TpccOutput, output_of, render
from bufferlab.results.store import RunRecord
from support.audit_files import audit_of, evidence_of
from support.synthetic import BUFFER_SIZE, Sweep, build, reseal

NAMES = ("New-Order", "Payment", "Order-Status", "Delivery", "Stock-Level")


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    folder = build(tmp_path_factory.mktemp("sweep"), Sweep(blocks=1, transactions=23_000))
    return folder.runs()[0]


@pytest.fixture(scope="module")
def output(record: RunRecord) -> TpccOutput:
    return output_of(record)


def test_the_text_read_back_gives_the_same_numbers(output: TpccOutput) -> None:
    (log,) = evidence_of(render(output)).logs
    assert [(line.elapsed_s, line.counts) for line in log.intervals] == [
        (line.elapsed_s, line.counts) for line in output.lines
    ]
    for read, written in zip(log.intervals, output.lines, strict=True):
        assert (read.p95_ms, read.p99_ms) == pytest.approx((written.p95_ms, written.p99_ms), abs=5e-4)
        assert read.max_ms == pytest.approx(written.max_ms, abs=5e-4)
    for totals in (log.raw, log.summed):
        assert [(one.success, one.late, one.retries, one.failures) for _, one in sorted(totals.items())] == [
            (total.on_time, total.late, total.retries, 0) for total in output.totals
        ]
    assert [log.raw[place].limit for place in range(5)] == [1000 * limit for limit in LIMITS]
    assert log.measured_s == output.seconds
    assert log.tpmc == pytest.approx(output.tpmc, abs=5e-4)
    assert log.parameters == {"warehouse": 2, "connection": 1, "rampup": 8, "measure": output.seconds}
    assert set(log.response) == set(NAMES)
    assert set(log.mix) == set(NAMES[1:])


def test_lines_add_up_to_the_totals_and_these_to_tpmc(output: TpccOutput) -> None:
    assert [line.elapsed_s for line in output.lines] == list(range(1, output.seconds + 1))
    for place, total in enumerate(output.totals):
        assert sum(line.counts[place] for line in output.lines) == total.done
    assert output.tpmc == output.totals[0].done * 60 / output.seconds


def test_totals_are_the_counters_of_the_whole_seconds(record: RunRecord, output: TpccOutput) -> None:
    edges = record.samples().filter(pl.col("metric").is_in(["transactions_committed", "transactions_rolled_back"]))
    whole_s = record.run.measured.seconds
    assert output.seconds == int(whole_s)
    assert output.left_out_s == pytest.approx(whole_s - output.seconds)
    for kind, total in zip(TYPES, output.totals, strict=True):
        of = edges.filter(pl.col("subject") == kind)
        done = sum(
            (1 if edge == "end" else -1) * of.filter(pl.col("edge") == edge)["count"].sum() for edge in ("start", "end")
        )
        # The transactions left out are fewer than a second's.
        assert done * (1 - 1.3 / whole_s) <= total.done <= done


def test_the_rest_of_our_own_output_stands_the_audit(output: TpccOutput) -> None:
    assert audit_of(render(output)).findings == ()


def test_limits_in_milliseconds_find_late_ones_as_the_histogram_has_them(record: RunRecord) -> None:
    strict, loose = output_of(record, "ms"), output_of(record, "s")
    assert strict.limits_ms == LIMITS
    assert all(total.late == 0 for total in loose.totals)
    rows = record.latency().filter((pl.col("transaction_type") == "payment") & (pl.col("time") == "service"))
    beyond = rows.filter(pl.col("low_us") >= 5000)["count"].sum() / rows["count"].sum()
    payments = strict.totals[1]
    assert payments.late / payments.done == pytest.approx(beyond, abs=0.01)
    assert [total.done for total in strict.totals] == [total.done for total in loose.totals]
    assert "[NG] *" in render(strict) or beyond <= 0.1


def test_a_bucket_across_the_limit_counts_in_part() -> None:
    from bufferlab.report.tpcc_mysql import _beyond

    assert [_beyond(1000, 2000, limit) for limit in (500, 1000, 1250, 2000, 3000)] == [1, 1, 0.75, 0, 0]


def test_the_lines_are_tpcc_mysqls_to_the_character(output: TpccOutput) -> None:
    lines = render(output).splitlines()
    first = output.lines[0].counts
    assert f"   1, trx: {first[0]}, 95%: 0.700, 99%: 0.700, max_rt: 0.700, {first[1]}|0.700, {first[2]}|0.700, " in (
        lines[lines.index("MEASURING START.") + 2] + " "
    )
    head = lines.index("<Constraint Check> (all must be [OK])")
    assert lines[head + 1] == " [transaction percentage]"
    assert lines[head + 2].startswith("        Payment: 43.")
    assert lines[head + 2].endswith("% (>=43.0%) [OK]")
    assert lines[head + 3].endswith("% (>= 4.0%) [OK]")
    assert lines[head + 6] == " [response time (at least 90% passed)]"
    assert lines[head + 7] == "      New-Order: 100.00%  [OK]"
    assert lines[-2] == "<TpmC>"
    assert lines[-1] == f"                 {output.tpmc:.3f} TpmC"


def test_another_workload_or_a_short_window_is_told_why(tmp_path: Path) -> None:
    other = build(tmp_path / "other", Sweep(blocks=1, workload={"name": "hot-rows"})).runs()[0]
    with pytest.raises(NothingToPrintError, match="hot-rows, not tpcc"):
        output_of(other)
    short = build(tmp_path / "short", Sweep(blocks=1, transactions=230)).runs()[0]
    with pytest.raises(NothingToPrintError, match="no whole second"):
        output_of(short)


def test_a_word_in_place_of_a_number_of_warehouses_is_refused_by_the_first_command_of_a_process(tmp_path: Path) -> None:
    sweep = build(tmp_path, Sweep(truths=BUFFER_SIZE[:1], blocks=1, transactions=23_000))
    reseal(sweep, lambda run: run["workload"].update(warehouses="many"))
    command = [sys.executable, "-m", "bufferlab", "report", sweep.path, "--format", "tpcc-mysql"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 65
    assert "run.json is damaged at workload" in ended.stderr
