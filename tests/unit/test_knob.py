"""Settings: what may be written, the one text each value has, and the value the core takes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab.knob import AUTO, Asked, Knob, KnobKind
from bufferlab.load_knobs import LOAD_KNOBS, by_name, native_load
from bufferlab.units import KIB, UnitError, parse_number


def knob(kind: KnobKind, **more: Any) -> Knob:
    default: dict[str, Any] = {"name": "it", "native_name": "it", "unit": "", "default": "1", "meaning": "it"}
    return Knob(**{**default, "kind": kind, **more})


def outcome(read: Callable[[Any], Any], value: object) -> Any:
    """What reading a value gives, or how it is refused."""
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
    text = outcome(setting.parse, value)
    if isinstance(text, UnitError):
        assert text.what
        assert text.hint
        return
    assert setting.parse(text) == text, "the canonical text is its own canonical text"
    native = setting.native(text, 1000)
    assert not isinstance(native, bool)
    if not isinstance(native, str) and setting.share(text) is None:
        assert setting.minimum <= native
        assert setting.maximum is None or native <= setting.maximum
    assert setting.fits(native) or setting.share(text) is not None, "the core may take what was read"


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
    assert {COUNT.parse(value) for value in written} == {str(count)}
    assert COUNT_OR_SHARE.native(COUNT_OR_SHARE.parse(count), None) == count


@given(st.decimals(min_value="0.001", max_value=1000, places=3))
def test_a_number_is_the_same_setting_however_it_is_written(number: Decimal) -> None:
    written = [str(number), f"{number}000", float(number)]
    texts = {NUMBER.parse(value) for value in written}
    assert len(texts) == 1
    assert NUMBER.native(texts.pop(), None) == float(number)


@given(st.decimals(min_value="0.01", max_value=1000, places=2), st.integers(0, 1 << 40))
def test_a_share_is_exact_and_rounded_down_once(percent: Decimal, whole: int) -> None:
    text = COUNT_OR_SHARE.parse(f"{percent}%")
    assert text == SIZE_OR_SHARE.parse(f" {percent:f}0 %")
    assert COUNT_OR_SHARE.share(text) == percent / 100
    assert COUNT_OR_SHARE.native(text, whole) == int(percent * whole / 100)


@given(st.floats(0.001, 86_400))
def test_a_duration_reads_back_as_the_same_seconds(seconds: float) -> None:
    assert DURATION.native(DURATION.parse(seconds), None) == seconds


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
    assert setting.parse(value) == text
    assert setting.native(text, 1000) == native


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
    with pytest.raises(ValueError, match="needs the database"):
        SIZE_OR_SHARE.native("10%", None)


def test_the_load_is_closed_until_a_rate_is_asked_for() -> None:
    asked = {name: known.parse(known.default) for name, known in by_name().items()}
    assert native_load(asked) == {"mode": "closed"}
    assert native_load({**asked, "rate": "1000", "arrivals": "constant", "patience": "0.5s", "arm": "b"}) == {
        "mode": "open",
        "rate_per_s": 1000.0,
        "arrivals": "constant",
        "patience_s": 0.5,
    }


@given(st.text(max_size=30))
def test_a_number_is_read_or_refused_and_nothing_else(text: str) -> None:
    number = outcome(parse_number, text)
    assert number.hint if isinstance(number, UnitError) else number.is_finite()


def test_a_text_keeps_what_it_was_parsed_to_and_is_the_text_all_the_same() -> None:
    share = SIZE_OR_SHARE.parse("12.50 %".replace(" ", ""))
    assert (share, share.ratio) == ("12.5%", Decimal("0.125"))
    for kept in (copy.deepcopy(share), pickle.loads(pickle.dumps(share))):
        assert isinstance(kept, Asked)
        assert (kept, kept.ratio, kept.value) == (share, share.ratio, share.value)
    left = knob(KnobKind.COUNT, auto="").parse(AUTO)
    chosen = knob(KnobKind.COUNT, auto="3").parse(AUTO)
    assert (left, left.value, chosen, chosen.value) == (AUTO, AUTO, AUTO, 3)


@pytest.mark.parametrize(
    ("setting", "told", "typed"),
    [(DURATION, "0.2s", 0.2), (NUMBER, "0.90", 0.9), (NUMBER, "unlimited", "unlimited"), (DURATION, "soon", "soon"),
     (COUNT, 7, 7), (CHOICE, "red", "red"), (DURATION, None, None)],
)  # fmt: skip
def test_what_an_engine_tells_as_text_becomes_a_number_where_it_is_one(setting: Knob, told: Any, typed: Any) -> None:
    assert setting.typed(told) == typed
