"""Settings: accepted spellings, the one canonical text of each value, and the value that the core gets."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab.knob import AUTO, LOAD_KNOBS, Knob, KnobKind, values_of
from bufferlab.units import KIB, UnitError, parse_number


def knob(kind: KnobKind, **more: Any) -> Knob:
    default: dict[str, Any] = {"name": "it", "spelling": "it", "unit": "", "default": "1", "meaning": "it"}
    return Knob(**{**default, "kind": kind, **more})


def outcome(read: Callable[[Any], Any], value: object) -> Any:
    """Return the value read, or the refusal."""
    try:
        return read(value)
    except UnitError as error:
        return error


COUNT = knob(KnobKind.COUNT, minimum=1, maximum=10_000_000)
COUNT_OR_SHARE = knob(KnobKind.COUNT_OR_SHARE, minimum=1, maximum=10_000_000)
NUMBER = knob(KnobKind.NUMBER, choices=("unlimited",), minimum=Decimal("0.001"), maximum=10_000_000)
DURATION = knob(KnobKind.DURATION, minimum=Decimal("0.001"), maximum=86_400)
SIZE = knob(KnobKind.SIZE, minimum=1, maximum=1 << 40)
SIZE_OR_SHARE = knob(KnobKind.SIZE_OR_SHARE, minimum=1, maximum=1 << 40)
CHOICE = knob(KnobKind.CHOICE, choices=("red", "blue"))
FILE = knob(KnobKind.FILE)
ALL = [COUNT, COUNT_OR_SHARE, NUMBER, DURATION, SIZE, SIZE_OR_SHARE, CHOICE, FILE]

anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.text(alphabet="0123456789_-+. %\x1f\xa0٣kMis", max_size=8),
    st.from_regex(r"\s?[+-]?[0-9_]{1,30}(\.[0-9]{1,30})?\s?(%|k|MiB|MB|s|ms|min)?\s?", fullmatch=True),
    st.lists(st.integers(), max_size=2),
)


@pytest.mark.parametrize("setting", [*ALL, *LOAD_KNOBS], ids=lambda known: f"{known.kind.value} {known.name}")
@given(value=anything)
def test_any_value_is_refused_with_a_hint_or_has_one_text_that_reads_back(setting: Knob, value: object) -> None:
    read = outcome(setting.parse, value)
    if isinstance(read, UnitError):
        assert read.what
        assert read.hint
        return
    assert setting.parse(read.asked) == read, "the canonical text is its own canonical text"
    native = read.of(1000).value
    assert not isinstance(native, bool)
    if not isinstance(native, str) and read.ratio is None:
        assert setting.minimum <= native
        assert setting.maximum is None or native <= setting.maximum
    assert setting.fits(native) or read.ratio is not None, "the core may take what was read"


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        (COUNT, "5"),
        (COUNT, 5.0),
        (COUNT, True),
        (COUNT, -1),
        (COUNT_OR_SHARE, "10%"),
        (SIZE, None),
        (SIZE, 2**70),
        (SIZE_OR_SHARE, AUTO),
        (NUMBER, "0.5"),
        (NUMBER, float("nan")),
        (DURATION, [1]),
        (DURATION, 90_000),
        (CHOICE, "green"),
        (CHOICE, 1),
        (FILE, 1),
        (knob(KnobKind.TEXT, pattern="[0-9]+"), "x"),
    ],
)
def test_a_value_that_the_core_cannot_have_taken_does_not_fit(setting: Knob, told: object) -> None:
    assert not setting.fits(told)


@given(st.integers(1, 10_000_000))
def test_a_count_is_the_same_setting_however_it_is_written(count: int) -> None:
    written = [count, str(count), f"{count:_}", f" {count} "]
    assert {COUNT.parse(value).asked for value in written} == {str(count)}
    assert COUNT_OR_SHARE.parse(count).value == count


@given(st.decimals(min_value="0.001", max_value=1000, places=3))
def test_a_number_is_the_same_setting_however_it_is_written(number: Decimal) -> None:
    written = [str(number), f"{number}000", float(number)]
    settings = {NUMBER.parse(value) for value in written}
    assert len(settings) == 1
    assert settings.pop().value == float(number)


@given(st.decimals(min_value="0.01", max_value=1000, places=2), st.integers(0, 1 << 40))
def test_a_share_is_exact_and_rounded_down_once(percent: Decimal, whole: int) -> None:
    share = COUNT_OR_SHARE.parse(f"{percent}%")
    assert share.asked == SIZE_OR_SHARE.parse(f" {percent:f}0 %").asked
    assert share.ratio == percent / 100
    assert share.of(whole).number == int(percent * whole / 100)


@given(st.floats(0.001, 86_400))
def test_a_duration_reads_back_as_the_same_seconds(seconds: float) -> None:
    assert DURATION.parse(seconds).value == seconds


@pytest.mark.parametrize(
    ("setting", "value", "text", "native"),
    [
        (NUMBER, "unlimited", "unlimited", "unlimited"),
        (NUMBER, 1e3, "1000", 1000.0),
        (DURATION, "250ms", "0.25s", 0.25),
        (DURATION, 2, "2s", 2.0),
        (COUNT_OR_SHARE, "12.50%", "12.5%", 125),
        (SIZE, "4096", "4KiB", 4 * KIB),
        (CHOICE, "red", "red", "red"),
        (FILE, "a b.sql", "a b.sql", "a b.sql"),
    ],
)
def test_a_value_has_one_text_and_one_native_value(setting: Knob, value: object, text: str, native: object) -> None:
    assert setting.parse(value).asked == text
    assert setting.parse(value).of(1000).value == native


@pytest.mark.parametrize(
    ("setting", "value", "what"),
    [
        (NUMBER, "0", "below the minimum"),
        (NUMBER, -1.5, "negative"),
        (NUMBER, float("inf"), "not a number"),
        (NUMBER, "fast", "not a number"),
        (NUMBER, "10%", "has no unit"),
        (NUMBER, "0.1234567890123", "more than 12 digits"),
        (COUNT, "50%", "not a whole number"),
        (COUNT, 1.0, "not a whole number"),
        (COUNT, "٣", "not a whole number"),
        (COUNT, "--5", "not a whole number"),
        (COUNT, "5\x1f5", "not a whole number"),
        (COUNT, "9" * 5000, "not a whole number"),
        (COUNT_OR_SHARE, "0%", "not more than nothing"),
        (COUNT_OR_SHARE, "0", "below the minimum"),
        (DURATION, "0s", "below the minimum"),
        (DURATION, "soon", "not a duration"),
        (DURATION, "2d", "unknown unit"),
        (CHOICE, "green", "not one of its values"),
        (FILE, "", "not the path of a file"),
    ],
)
def test_what_cannot_be_says_why(setting: Knob, value: object, what: str) -> None:
    with pytest.raises(UnitError) as refused:
        setting.parse(value)
    assert what in refused.value.what


def test_a_share_without_its_whole_is_a_fault_of_ours() -> None:
    with pytest.raises(ValueError, match="it = 10% has no value yet"):
        assert SIZE_OR_SHARE.parse("10%").number


@given(st.text(max_size=30))
def test_a_number_is_read_or_refused_and_nothing_else(text: str) -> None:
    number = outcome(parse_number, text)
    assert number.hint if isinstance(number, UnitError) else number.is_finite()


def test_what_is_left_to_the_engine_has_no_value_and_what_is_left_to_bufferlab_has_one() -> None:
    left = knob(KnobKind.COUNT, auto="").parse(AUTO)
    chosen = knob(KnobKind.COUNT, auto="3").parse(AUTO)
    assert (left.asked, left.value, chosen.asked, chosen.value) == (AUTO, None, AUTO, 3)
    assert values_of({"left": left, "chosen": chosen, "share": SIZE_OR_SHARE.parse("50%")}, 10) == {
        "chosen": 3,
        "share": 5,
    }
