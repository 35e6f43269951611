"""Sizes, shares and durations: the texts that people write, and the canonical texts in keys."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab.knob import Knob
from bufferlab.units import UnitError, canonical_bytes, format_bytes, parse_bytes, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("512", 512), ("4k", 4096), ("4 KiB", 4096), ("64M", 64 << 20), ("1.5GiB", 3 << 29), ("1_000B", 1000)],
)
def test_a_size_is_read_in_powers_of_two(text: str, size_bytes: int) -> None:
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["64MB", "4kB", "1GB"])
def test_a_unit_that_is_read_in_two_ways_is_refused_with_the_one_to_write(text: str) -> None:
    with pytest.raises(UnitError) as refused:
        parse_bytes(text)
    assert "iB" in refused.value.hint


@pytest.mark.parametrize("text", ["", "many", "4x", "10 %", "1e3", "0.3", "4k4", "--4"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UnitError):
        parse_bytes(text)


@given(st.integers(min_value=0, max_value=1 << 50))
def test_the_canonical_text_of_a_size_is_that_size(size_bytes: int) -> None:
    assert parse_bytes(canonical_bytes(size_bytes)) == size_bytes


def test_equal_sizes_have_one_text_so_that_keys_are_equal() -> None:
    assert {str(parse_size(text)) for text in ("64MiB", "65536k", "67108864", "64 M")} == {"64MiB"}
    assert {str(parse_size(text)) for text in ("10%", "10.0 %", "010%")} == {"10%"}


@given(st.decimals(min_value="0.01", max_value="400", places=2), st.integers(min_value=1, max_value=1 << 44))
def test_a_share_of_a_database_is_exact_to_the_byte(percent: Decimal, whole_bytes: int) -> None:
    pool = Knob.size_or_share("pool_size", "bytes of the pool", default="20%")
    assert pool.parse(f"{percent}%").of(whole_bytes).value == int(percent * whole_bytes / 100)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("5min", 300), ("1.5h", 5400), ("250ms", 0.25), ("7", 7)])
def test_a_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 fortnights", "1:30"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UnitError):
        parse_duration(text)


@given(st.floats(min_value=0, max_value=1e18))
def test_a_shown_size_keeps_three_digits(size_bytes: float) -> None:
    number, unit = format_bytes(size_bytes).split()
    factor = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}[unit]
    assert float(number.replace(",", "")) * factor == pytest.approx(size_bytes, rel=0.006, abs=0.5)
