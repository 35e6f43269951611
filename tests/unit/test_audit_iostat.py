"""The first report of iostat without -y: found in every column and form and at every length, and not found with -y."""

from __future__ import annotations

import pytest

from bufferlab.audit.evidence import AuditFinding
from support.audit_files import evidence_of, found, text_of
from support.iostat_files import BANNER, Rates, made_loads, text_of_rates


def boot(rates: Rates) -> AuditFinding | None:
    findings = found(text_of_rates(rates), "boot-average")
    assert len(findings) < 2
    return findings[0] if findings else None


def near(level: float, count: int) -> list[float]:
    """Return numbers within 5 % of `level`."""
    return [level * (1 + 0.05 * ((7 * at) % 11 - 5) / 5) for at in range(count)]


@pytest.mark.parametrize("count", [3, 12, 59, 299])
def test_a_first_report_since_the_start_is_found_however_long_the_run_is(count: int) -> None:
    one = boot([[(37.42, 51.30)], *([(reads, 900.0)] for reads in near(5200, count))])
    assert one is not None
    assert (one.numbers["device"], one.numbers["first_reads_per_s"]) == ("sda", 37.42)
    assert one.numbers["others_mean"] == pytest.approx(sum(near(5200, count)) / count, abs=0.01)
    assert "without -y" in one.consequence
    assert "had not begun" not in one.consequence


def test_it_is_found_before_an_idle_end_and_may_be_a_load_that_had_not_begun() -> None:
    load, idle = near(4060, 7), near(3, 4)
    one = boot([[(29.88, 40.12)], *([(reads, 700.0)] for reads in load), *([(reads, 2.0)] for reads in idle)])
    assert one is not None
    assert one.numbers["others_mean"] == pytest.approx(sum(load) / 7, abs=0.01)
    assert "without -y" in one.consequence
    assert "or the load had not begun" in one.consequence


def test_it_is_found_before_a_second_level_of_the_load() -> None:
    one = boot([[(30.0, 4.0)], *([(reads, 0.0)] for reads in (*near(800, 9), *near(6000, 9), *near(2.0, 9)))])
    assert one is not None
    assert one.numbers["others_mean"] == pytest.approx(sum(near(800, 9)) / 9, abs=0.01)


def test_it_is_found_where_only_writes_show_it() -> None:
    one = boot([[(0.0, 44.17)], *([(0.0, writes)] for writes in near(2581, 11))])
    assert one is not None
    assert (one.numbers["first_writes_per_s"], one.numbers["others_mean"]) == (
        44.17,
        pytest.approx(sum(near(2581, 11)) / 11, abs=0.01),
    )
    assert "44.17 w/s of sda" in one.what


def test_it_is_found_where_only_the_second_device_shows_it() -> None:
    one = boot([[(1500.0, 700.0), (12.0, 3.0)], *([(reads, 700.0), (210.0, 90.0)] for reads in near(1500, 11))])
    assert one is not None
    assert (one.numbers["device"], one.numbers["first_reads_per_s"]) == ("sdb", 12)


def test_a_device_with_little_of_the_traffic_is_not_looked_at() -> None:
    for reads, is_found in ((70.0, False), (180.0, True)):
        rates = [[(1500.0, 0.0), (reads / 9, 0.0)], *([(busy, 0.0), (reads, 0.0)] for busy in near(1500, 20))]
        assert (boot(rates) is not None) is is_found, reads


def test_a_device_that_did_nothing_is_not_printed_and_counts_as_zero() -> None:
    text = text_of_rates([[(300.0, 0.0), (200.0, 0.0)], *([(300.0, 0.0), (0.0, 0.0)] for _ in range(9))])
    kept = [line for line in text.splitlines() if not line.startswith("sdb 0.00")]
    (one,) = found("\n".join(kept), "boot-average")
    assert (one.numbers["device"], one.numbers["others_mean"]) == ("sdb", 0)


@pytest.mark.parametrize(("first", "is_found"), [(3450.0, False), (3200.0, True), (7400.0, False), (7700.0, True)])
def test_a_first_report_is_half_as_far_off_again_at_least(first: float, is_found: bool) -> None:
    rates = [[(first, 0.0)], *([(5000.0 + at % 3, 0.0)] for at in range(20))]
    assert (boot(rates) is not None) is is_found


def test_a_first_report_among_the_others_is_none_though_a_burst_is_among_them() -> None:
    for first in (30.0, 4000.0):
        assert (
            boot([[(first, 0.0)], *([(reads, 0.0)] for reads in (4100, 30, 3900, 29, 31, 4000, 28, 4050) * 4)]) is None
        )


@pytest.mark.parametrize(
    ("name", "column", "first", "others"),
    [
        ("xh", "reads", 156.09, (2565 + 2779 + 3225 + 2507 + 2536 + 2502) / 6),
        ("d", "transfers", 222.21, None),
        ("s", "transfers", 222.21, None),
    ],
)
def test_every_form_of_iostat_is_read_and_its_first_report_found(
    name: str, column: str, first: float, others: float | None
) -> None:
    """iostat -d with -x -h, alone, and with -s --pretty, called without -y during a load of 2,500 reads a second."""
    (one,) = found(text_of(f"iostat/sysstat-12.6-{name}-boot.txt"), "boot-average")
    assert one.numbers[f"first_{column}_per_s"] == first
    if others:
        assert one.numbers["others_mean"] == pytest.approx(others)


def test_the_sections_of_one_report_for_people_are_one_report() -> None:
    reports = evidence_of(text_of("own/iostat-xh.txt")).reports
    row = reports[0].devices["vda"]
    assert len(reports) == 4
    assert [row.columns[name] for name in ("r/s", "w/s", "aqu-sz", "%util")] == [147.04, 52.96, 0.19, 2.0]
    assert (row.columns["rkB/s"], row.columns["dkB/s"]) == (4.4 * 1024, 1.2 * 1024)
    assert row.half_digit == pytest.approx(0.05 * 1024)
    (pretty, _) = evidence_of(text_of("own/iostat-x-pretty-y.txt")).reports
    assert pretty.devices["vda"].half_digit == 0.005


def test_letters_behind_sizes_are_kib_and_mib_of_their_column() -> None:
    text = f"{BANNER}\n     r/s     rMB/s rareq-sz Device\n   12.0     1.5G    512.0k sdx\n"
    (report,) = evidence_of(text).reports
    assert report.devices["sdx"].columns == {"r/s": 12, "rMB/s": 1536, "rareq-sz": 512}


def test_hardly_a_load_with_y_is_suspected() -> None:
    """At most 15 of 1,000 files are reported; the slow test tries them all."""
    assert sum(bool(found(text, "boot-average")) for text in made_loads(60, seed=5)) <= 3


@pytest.mark.slow
def test_of_a_thousand_loads_with_y_fifteen_at_most_are_suspected() -> None:
    assert sum(bool(found(text, "boot-average")) for text in made_loads(1000, seed=1)) <= 15
