"""Every integrity check passes on a healthy sweep, fails on the fault it is for, and says when it does not apply."""

from __future__ import annotations

from pathlib import Path

import pytest

from bufferlab.results.integrity import Check, MeasuredRun, check_sweep
from support.synthetic import BUFFER_SIZE, Sweep, Truth, build

HEALTHY = Sweep(truths=(BUFFER_SIZE[0], BUFFER_SIZE[2], BUFFER_SIZE[4]), blocks=2)


def checks(tmp_path: Path, **changes: object) -> dict[str, Check]:
    sweep = build(tmp_path, Sweep(**{**HEALTHY.__dict__, **changes}))  # type: ignore[arg-type]
    return {check.name: check for check in check_sweep([MeasuredRun.read(record) for record in sweep.runs()])}


def test_a_healthy_sweep_passes_every_check(tmp_path: Path) -> None:
    found = checks(tmp_path)
    assert {name for name, check in found.items() if check.status != "passed"} == set()
    assert len(found) >= 12


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ({"scale": {"process_read_bytes": 1.006}}, "process_read_bytes"),
        ({"scale": {"process_read_bytes": 0.994}}, "process_read_bytes"),
        ({"scale": {"device_read_bytes": 1.03}}, "device_read_bytes"),
        ({"scale": {"pool_fetches": 1.2}}, "pool_fetches"),
        ({"scale": {"resident_bytes": 0.8}}, "memory_growth"),
        ({"gate": "cap"}, "warm_up_gates"),
        ({"condition_fails": 3}, "consistency"),
        ({"latency_scale": 1.05}, "littles_law"),
        ({"lost_latencies": 1}, "latency_counts"),
        ({"add": {"bounce_reads": 2}}, "bounce_copies"),
        ({"add": {"swap_in_pages": 4}}, "no_swapping"),
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


def test_runs_a_check_does_not_apply_to_are_counted(tmp_path: Path) -> None:
    assert "2 runs not checked" in checks(tmp_path)["device_read_bytes"].detail


def test_no_runs_give_no_checks() -> None:
    assert check_sweep([]) == []
