"""Every integrity check passes on a healthy sweep, fails on the fault for which it was made, and says when it does not
apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bufferlab.chapter import numbers_in_doubt
from bufferlab.chapter.numbers_in_doubt import named
from bufferlab.engines.sqlite import results as sqlite_checks
from bufferlab.registry import registry
from bufferlab.results import checks_of_every_engine
from bufferlab.results.check_parts import Check, MeasuredRun, Off, stood_still, worst_of
from bufferlab.results.checks_of_every_engine import check_sweep
from bufferlab.results.metrics import DERIVED
from bufferlab.results.window import Reading, Window
from support.fake import Bench
from support.synthetic import BUFFER_SIZE, Sweep, Truth, build

READS = "reads_per_new_order"
HEALTHY = Sweep(truths=(BUFFER_SIZE[0], BUFFER_SIZE[2], BUFFER_SIZE[4]), blocks=2)


def checks(tmp_path: Path, **changes: object) -> dict[str, Check]:
    sweep = build(tmp_path, Sweep(**{**HEALTHY.__dict__, **changes}))  # type: ignore[arg-type]
    return {check.name: check for check in check_sweep([record.measured() for record in sweep.runs()])}


def test_a_healthy_sweep_passes_every_check(tmp_path: Path) -> None:
    found = checks(tmp_path)
    assert {name: check.detail for name, check in found.items() if check.status != "passed"} == dict.fromkeys(
        ("arrivals_accounted", "arrival_rate"), "no rate was asked for"
    )
    assert len(found) >= 14


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ({"scale": {"process_read_bytes": 1.006}}, "process_read_bytes"),
        ({"scale": {"process_read_bytes": 0.994}}, "process_read_bytes"),
        ({"scale": {"device_read_bytes": 0.97}}, "device_read_bytes"),
        ({"scale": {"pool_fetches": 1.2}}, "pool_fetches"),
        ({"scale": {"resident_bytes": 0.8}}, "memory_growth"),
        ({"gate": "cap"}, "warm_up_gates"),
        ({"condition_fails": 3}, "consistency"),
        ({"latency_scale": 1.05}, "littles_law"),
        ({"lost_latencies": 1}, "latency_counts"),
        ({"add": {"bounce_reads": 2}}, "bounce_copies"),
        ({"add": {"swap_in_pages": 4}}, "no_swapping"),
        ({"scale": {"cpu_steal_us": 30}}, "stolen_time"),
        ({"truths": (Truth("5%", 31, 6), Truth("80%", 1, 6, 330))}, "page_gets_constant"),
        ({"data_keys": 2}, "same_data"),
        ({"backwards": "db_syncs"}, "counters_rise"),
    ],
)
def test_each_check_fails_on_the_fault_it_is_for_and_no_other_does(
    tmp_path: Path, fault: dict[str, object], name: str
) -> None:
    found = checks(tmp_path, **fault)
    assert {name for name, check in found.items() if check.status == "failed"} == {name}


def test_a_pool_that_reads_brought_no_new_page_is_steady_and_the_check_says_so(tmp_path: Path) -> None:
    found = checks(tmp_path, gate="no_new_pages")["warm_up_gates"]
    assert found.status == "passed"
    assert "by no new pages" in found.detail
    assert "the pool held all that was touched" in found.detail


def test_the_limit_of_half_a_per_cent_is_where_it_says(tmp_path: Path) -> None:
    assert checks(tmp_path, scale={"process_read_bytes": 1.0049})["process_read_bytes"].status == "passed"


def test_buffered_reads_are_not_compared_with_the_device_and_it_is_said_why(tmp_path: Path) -> None:
    found = checks(tmp_path, io_mode="buffered")
    for name in ("process_read_bytes", "device_read_bytes"):
        assert found[name].status == "not_applicable"
        assert "page cache" in found[name].detail
    assert found["bounce_copies"].status == "not_applicable"


def test_a_device_that_cannot_be_resolved_is_not_applicable_with_its_reason(tmp_path: Path) -> None:
    found = checks(tmp_path, device_reason="overlay has no block device of its own")
    assert found["device_read_bytes"].status == "not_applicable"
    assert "overlay has no block device" in found["device_read_bytes"].detail


def test_few_reads_are_not_held_against_the_device(tmp_path: Path) -> None:
    found = checks(tmp_path, truths=BUFFER_SIZE[4:], scale={"device_read_bytes": 2.0})
    assert found["device_read_bytes"].status == "not_applicable"
    assert "20,000" in found["device_read_bytes"].detail


def test_reads_of_other_programs_fail_no_check_and_are_a_caveat_of_the_devices_figures_alone(tmp_path: Path) -> None:
    found = checks(tmp_path, scale={"device_read_bytes": 1.4})
    assert not [check for check in found.values() if check.status == "failed"]
    device = found["device_read_bytes"]
    assert device.status == "not_applicable"
    assert " % more " in device.detail
    assert device.touches == ("device",)
    metrics = {metric.name: metric for metric in DERIVED}
    shown = [metrics["device_requests_per_s"], metrics["reads_per_s"]]
    said = numbers_in_doubt.caption(list(found.values()), shown)
    assert said == f" Other programs read from the device meanwhile: {shown[0].label}."


def test_runs_a_check_does_not_apply_to_are_counted(tmp_path: Path) -> None:
    assert "2 runs not checked" in checks(tmp_path)["device_read_bytes"].detail


def test_no_runs_give_no_checks() -> None:
    assert check_sweep([]) == []


# Open loop, phases and other workloads, on the fake engine: real run folders whose counters are then falsified.

RATES = 'rate = ["unlimited", "200", "2500"]'


@pytest.fixture(scope="module")
def open_loop(tmp_path_factory: pytest.TempPathFactory) -> list[MeasuredRun]:
    """Return one run without a rate, one that keeps up with its rate, and one that cannot."""
    bench = Bench(tmp_path_factory.mktemp("open") / "bench")
    bench.measure(bench.experiment(sweep=RATES, knobs='pool_size = "64k"', repetitions=1))
    return [record.measured() for record in bench.sweep().runs()]


def found(runs: list[MeasuredRun]) -> dict[str, Check]:
    return {check.name: check for check in check_sweep(runs)}


def falsified(run: MeasuredRun, metric: str, change: Callable[[float], float]) -> MeasuredRun:
    """Return the run with another number at the end of its window, for its first transaction type."""
    subjects = dict(run.window.end[metric])
    first = next(iter(subjects))
    subjects[first] = Reading(change(subjects[first].number or 0.0), None)
    return replace(run, window=Window(run.window.start, {**run.window.end, metric: subjects}, run.window.seconds))


def of_rate(runs: list[MeasuredRun], rate: str) -> MeasuredRun:
    return next(run for run in runs if run.run.point.swept["rate"] == rate)


def test_in_a_healthy_open_loop_arrivals_add_up_and_come_at_their_rate_also_when_half_are_dropped(
    open_loop: list[MeasuredRun],
) -> None:
    assert of_rate(open_loop, "2500").window.change("arrivals_dropped").value
    checks = found(open_loop)
    for name in ("arrivals_accounted", "arrival_rate"):
        assert checks[name].status == "passed", checks[name]
        assert "1 runs not checked" in checks[name].detail
    assert not {name for name, check in checks.items() if check.status == "failed"}


@pytest.mark.parametrize(("rate", "metric", "more"), [
    ("200", "arrivals", 1), ("2500", "arrivals_dropped", 1), ("2500", "arrivals_dropped", -1), ("200", "arrivals", -1),
    ("200", "arrivals_late", 1e6), ("unlimited", "arrivals", 1), ("unlimited", "arrivals_late", 1),
    ("unlimited", "arrivals_dropped", 1),
])  # fmt: skip
def test_one_arrival_too_many_or_too_few_is_noticed(
    open_loop: list[MeasuredRun], rate: str, metric: str, more: float
) -> None:
    wrong = of_rate(open_loop, rate)
    runs = [falsified(run, metric, lambda count: count + more) if run is wrong else run for run in open_loop]
    assert {name for name, check in found(runs).items() if check.status == "failed"} == {"arrivals_accounted"}


@pytest.mark.parametrize("share", [0.8, 1.2])
def test_a_schedule_that_was_not_kept_is_noticed(open_loop: list[MeasuredRun], share: float) -> None:
    wrong = of_rate(open_loop, "200")
    window = Window(wrong.window.start, wrong.window.end, (wrong.window.seconds or 0) / share)
    runs = [replace(run, window=window) if run is wrong else run for run in open_loop]
    check = found(runs)["arrival_rate"]
    assert check.status == "failed"
    assert ("more" if share > 1 else "less") in check.detail


def test_a_driver_that_is_behind_has_kept_its_schedule(open_loop: list[MeasuredRun]) -> None:
    wrong = of_rate(open_loop, "200")
    late = falsified(wrong, "arrival_lag_us", lambda lag: lag + 5e6)
    late = replace(late, window=replace(late.window, seconds=(late.window.seconds or 0) + 5))
    assert found([late])["arrival_rate"].status == "passed"


def test_what_is_of_tpcc_alone_does_not_apply_elsewhere_and_says_so(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench")
    sweep = 'hot_rows = ["50%", "200%"]\nrows = [20000, 50000]'
    knobs = 'pool_size = "256k"'
    bench.measure(bench.experiment(workload='name = "hot_rows"', knobs=knobs, sweep=sweep, repetitions=1))
    checks = found([record.measured() for record in bench.sweep().runs()])
    assert not {name for name, check in checks.items() if check.status == "failed"}
    assert checks["littles_law"].status == "not_applicable"
    assert "hot_rows has no terminals" in checks["littles_law"].detail
    assert checks["page_gets_constant"].status == "not_applicable"
    assert checks["same_data"].detail == "one data_key for each of 2 settings of the data"


def test_phases_after_the_window_change_no_check(tmp_path: Path) -> None:
    details = []
    for name in ("without", "with"):
        bench = Bench(tmp_path / name)
        bench.root.mkdir()
        (bench.root / "scan.sql").write_text("SELECT 1;")
        phases = '[phases.scan]\nscript = "scan.sql"\ntransactions = 700\nmax_duration = "9s"\n'
        bench.measure(bench.experiment(more=phases if name == "with" else "", repetitions=1))
        details.append(check_sweep([record.measured() for record in bench.sweep().runs()]))
    assert details[0] == details[1]


def test_arms_of_one_setting_must_ask_for_the_same_pages(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench")
    bench.measure(bench.experiment(sweep='arm = ["a", "b"]', repetitions=1))
    assert found([record.measured() for record in bench.sweep().runs()])["page_gets_constant"].status == "passed"


@pytest.mark.parametrize(("inside", "share"), [(9.0, 0.05), (9.6, 0.0), (10.4, 0.0), (11.0, 0.05)])
def test_each_terminal_may_be_half_inside_the_window_once(inside: float, share: float) -> None:
    run: Any = SimpleNamespace(
        run=SimpleNamespace(workload={"name": "tpcc", "terminals": 10}),
        open_loop=False,
        window=SimpleNamespace(seconds=20.0),
        # In 20 s this many terminals spent all their time in transactions, a quarter of it in the queue.
        latency_us={"queue": inside * 5e6, "service": inside * 15e6},
        latency_n=200,
    )
    assert checks_of_every_engine._little_off(run).share == pytest.approx(share)


@pytest.mark.parametrize(
    ("service_s", "off"), [(45.0, 0.1 - 5 / 1000), (56.0, 0.12 - 5 / 1000), (50.2, 0.0), (49.8, 0.0)]
)
def test_connections_are_off_by_what_their_own_edges_do_not_explain(service_s: float, off: float) -> None:
    """Five connections serve for 50 s in ten seconds. Each may have begun one of its 1,000 transactions before the
    window."""
    run = cast("MeasuredRun", SimpleNamespace(
        open_loop=False, window=SimpleNamespace(seconds=10.0), latency_n=1000, connections=5,
        latency_us={"service": service_s * 1e6},
    ))  # fmt: skip
    assert checks_of_every_engine._connections_off(run).share == pytest.approx(off)


@pytest.mark.parametrize(("terminals", "seconds", "share"), [(20, 10.0, 0.0), (0, 10.0, None), (20, None, None)])
def test_littles_law_asks_for_terminals_and_a_window(
    terminals: int, seconds: float | None, share: float | None
) -> None:
    run = cast("MeasuredRun", SimpleNamespace(
        run=SimpleNamespace(workload={"name": "tpcc", "terminals": terminals}), open_loop=False, latency_n=1000,
        window=SimpleNamespace(seconds=seconds), latency_us={"service": 150e6, "queue": 50e6},
    ))  # fmt: skip
    assert checks_of_every_engine._little_off(run).share == share


@pytest.mark.parametrize(
    ("transactions", "status"), [(1_000, "passed"), (1_400, "passed"), (1_500, "failed"), (20_000, "failed")]
)
def test_a_short_window_may_be_off_by_what_its_transactions_scatter(transactions: int, status: str) -> None:
    """A connection seems to be busy for 92 % of the window; the limit is three times 1 / sqrt(transactions)."""
    run = cast("MeasuredRun", SimpleNamespace(
        open_loop=False, window=SimpleNamespace(seconds=10.0), latency_n=transactions, connections=1, label="x",
        latency_us={"service": 9.2e6}, engine=SimpleNamespace(is_server=True),
    ))  # fmt: skip
    found = checks_of_every_engine._little([run])
    assert found.status == status
    assert ("for so short a window (else 5 %)" in found.detail) == (transactions < 3600)


def test_the_worst_run_is_the_one_that_exceeds_its_own_limit_most() -> None:
    short, long = (cast("MeasuredRun", SimpleNamespace(label=label)) for label in ("short", "long"))
    found = worst_of("x", "x", 0.05, [Off(short, 0.09, least=0.1), Off(long, 0.06)])
    assert found.status == "failed"
    assert "6 % off (long); limit 5 %" in found.detail


def one_run(place: int = 0, database: object = None) -> MeasuredRun:
    """Return a run of the point number `place`, with these sizes of the database."""
    point = SimpleNamespace(index=place, label=f"p{place}")
    return cast("MeasuredRun", SimpleNamespace(run=SimpleNamespace(point=point, database=database)))


@pytest.mark.parametrize(
    ("misses", "mixed", "runs", "status"),
    [
        (1_200, 0, 1, "passed"),
        (1_200, 0, 2, "passed"),
        (1_200, 0, 3, "failed"),
        (9_000, 0, 1, "failed"),
        (9_000, 500, 1, "passed"),
        (9_000, 500, 2, "failed"),
        (9_000, 1_000, 1, "failed"),
    ],
)
def test_a_point_may_drift_by_what_the_counts_of_all_its_runs_scatter(
    misses: int, mixed: int, runs: int, status: str
) -> None:
    """Misses are 13 % more at the end: possibly by chance if two runs missed 1,200 times in a third, not if three runs
    did.

    Possibly by chance, too, if one run had 500 transactions of several types in a third.
    """
    found = stood_still("x", "x", "misses", [(one_run(), 1.13, misses)] * runs, mixed=lambda _: mixed)
    assert found.status == status
    assert found.failed_at == (("p0",) if status == "failed" else ())


@pytest.mark.parametrize(
    ("start", "end", "ratio", "advice"),
    [
        (100, 103, 1.5, "the database grew from 100 KiB to 103 KiB in a window: while it grows"),
        (100, 103, 0.5, "a window twice as long"),
        (100, 101, 1.5, "a window twice as long"),
        (None, None, 1.5, "a window twice as long"),
    ],
)
def test_misses_that_rise_in_a_growing_database_do_not_settle_in_a_longer_window(
    start: int | None, end: int | None, ratio: float, advice: str
) -> None:
    base = SimpleNamespace(bytes_start=start and start * 1024, bytes_end=end and end * 1024)
    found = stood_still("x", "x", "misses", [(one_run(database=base), ratio, 9_000)], mixed=lambda _: 0)
    assert found.status == "failed"
    assert f"; {advice}" in found.detail


@pytest.mark.parametrize(
    ("seconds", "late_s", "misses", "by_kernel", "reason"),
    [
        (8.0, 1.0, 9_000, False, "up to 1 s late, so a window needs 15 s; the longest has 8 s"),
        (8.0, 1.0, 9_000, True, "no third of a window has 1,000 misses and samples at its ends"),
        (16.0, 1.0, 700, False, "a third of a window needs 1,000 misses; the most are 700"),
        (8.0, 0.0, 9_000, False, "no third of a window has 1,000 misses and samples at its ends"),
    ],
)
def test_a_window_that_cannot_show_drift_names_what_it_lacks(
    seconds: float, late_s: float, misses: int, *, by_kernel: bool, reason: str
) -> None:
    told = SimpleNamespace(engine=SimpleNamespace(counts_late_s=late_s), window=SimpleNamespace(seconds=seconds))
    found = stood_still("x", "x", "misses", [(cast("MeasuredRun", told), None, misses)] * 2, by_kernel=by_kernel)
    assert found.status == "not_applicable"
    assert found.detail.endswith(reason)


def test_a_failed_check_names_the_points_that_failed_and_no_other() -> None:
    drifts = [1.0, 1.3, 1.02, 0.7]
    rows = [(one_run(place), drift, 9_000) for place, drift in enumerate(drifts)]
    found = stood_still("x", "What must hold", "misses", rows, mixed=lambda _: 0)
    assert found.failed_at == ("p1", "p3")
    assert named(found) == "What must hold (failed at p1 and p3)"
    assert named(replace(found, failed_at=tuple("abcdef"))) == "What must hold (failed at a, b, c, d and 2 more)"


@pytest.mark.parametrize(("bytes_a_frame_byte", "status"), [(1.07, "passed"), (1.2, "failed"), (0.8, "failed")])
@pytest.mark.parametrize("packed_bytes", [5, 6])
def test_a_page_trace_in_memory_is_no_memory_of_the_pool(
    bytes_a_frame_byte: float, status: str, packed_bytes: int
) -> None:
    """As in `buffer-size --quick`: the largest pool has the longest warm-up, so its trace is six times as long."""
    runs = []
    for frames, accesses in ((990, 460_000), (3_970, 400_000), (15_850, 2_730_000)):
        levels = {
            "pool_frames_used": frames,
            "resident_bytes": 35e6 + bytes_a_frame_byte * 4096 * frames + packed_bytes * accesses,
        }
        trace = SimpleNamespace(recorder="engine", spool_bytes=24 * accesses)
        runs.append(cast("MeasuredRun", SimpleNamespace(
            window=SimpleNamespace(level=lambda name, levels=levels: SimpleNamespace(value=levels[name])),
            run=SimpleNamespace(page_trace=trace), knob={"page_size": 4096, "pcache": "ours"}.get,
        )))  # fmt: skip
    assert sqlite_checks._memory(runs).status == status


@pytest.mark.parametrize(
    ("fault", "touched", "stands"),
    [
        ({"scale": {"device_read_bytes": 0.97}}, ["device_reads_per_s"], [READS, "transactions_per_s"]),
        ({"latency_scale": 1.05}, ["transactions_per_s", "reads_per_s"], [READS, "writes_per_new_order"]),
        ({"scale": {"process_read_bytes": 1.006}}, [READS, "read_bytes_per_new_order"], ["page_gets_per_transaction"]),
        ({"gate": "cap"}, [READS, "hit_ratio", "transactions_per_s"], ["page_gets_per_new_order"]),
        ({"condition_fails": 3}, [READS, "page_gets_per_new_order", "device_busy_ratio"], []),
    ],
)
def test_a_failed_check_touches_its_own_numbers_and_leaves_the_others(
    tmp_path: Path, fault: dict[str, object], touched: list[str], stands: list[str]
) -> None:
    metric, found = registry().metric, checks(tmp_path, **fault).values()
    assert [name for name in touched if not numbers_in_doubt.doubting(found, metric(name))] == []
    assert [name for name in stands if numbers_in_doubt.doubting(found, metric(name))] == []
