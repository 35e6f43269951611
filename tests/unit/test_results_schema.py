"""The stored format, the keys and the metric registry, which must not change by accident."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab.registry import declared, registry
from bufferlab.results import keys, schema
from bufferlab.results.metrics import OF_LATENCIES, SECONDS, Engine, derived
from bufferlab.results.page_traces import Prediction
from bufferlab.results.quantity import Unit, UnitMismatchError

#: A field that may be missing, or a further word for one, can be added: old files read as before (test_results_store.py
#: reads a run without the fields of that kind). Any other change needs another FORMAT_VERSION and a line in the
#: changelog: bufferlab then refuses folders of the old format. Fields that only predicted runs have may change without
#: that, since runs can be predicted again: there `Prediction` refuses an earlier version by name.
STORED_FORMAT = "c25cefff507dc8b1e6c30f51109d0dc07ecec91a5c7359ae2ec67bdd591af6af"


def test_the_stored_format_has_not_changed_by_accident() -> None:
    assert schema.schema_hash() == STORED_FORMAT, (
        "the columns or fields of stored files changed: raise FORMAT_VERSION, and say so in CHANGELOG.md"
    )


def test_a_prediction_of_an_earlier_version_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="an earlier version predicted it: run `bufferlab predict` again"):
        Prediction.model_validate({"ends": {}})


def test_rewording_a_description_does_not_change_the_format() -> None:
    described = {
        "description": "old words",
        "title": "Run",
        "type": "object",
        "properties": {"title": {"type": "string"}},
    }
    assert schema._without_prose(described) == {"type": "object", "properties": {"title": {"type": "string"}}}


def test_every_metric_has_a_unit_a_meaning_and_a_source() -> None:
    for metric in registry().everything():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.name)
        assert metric.unit, metric.name
        assert metric.meaning, metric.name
        assert metric.source, metric.name
        assert metric.kind in ("counter", "gauge", "ratio", "share", "latency"), metric.name
        assert metric.better in ("lower", "higher", "neither"), metric.name


@pytest.mark.parametrize(("suffix", "unit"), [("_bytes", "bytes"), ("_us", "us"), ("_ms", "ms"), ("_ns", "ns")])
def test_a_raw_metric_whose_name_ends_in_a_unit_has_that_unit(suffix: str, unit: str) -> None:
    named = [metric for metric in registry().raw.values() if metric.name.endswith(suffix)]
    assert named
    assert {metric.unit for metric in named} == {unit}


def test_every_declared_value_has_one_formula_or_comes_from_the_latency_histograms() -> None:
    without = {name for name, metric in registry().derived.items() if metric.formula is None}
    assert without == OF_LATENCIES.keys()
    assert not [metric.name for metric in registry().raw.values() if metric.formula]


def test_an_unknown_metric_is_named_in_the_error() -> None:
    with pytest.raises(KeyError, match="no metric is called 'reads'"):
        declared("reads")


def test_a_formula_in_the_wrong_unit_is_refused_when_declared() -> None:
    with pytest.raises(UnitMismatchError, match="Reads per second"):
        derived("pages/New-Order", "ratio", "lower", "Reads per second", "", Engine.pages_read / SECONDS)


def test_adding_bytes_to_pages_is_refused() -> None:
    with pytest.raises(UnitMismatchError):
        Engine.pages_read + Engine.db_read_bytes


def test_a_gauge_has_no_growth_and_a_counter_no_level() -> None:
    with pytest.raises(AssertionError, match="pool_frames is a gauge: only counters go by difference"):
        Engine.pool_frames / SECONDS
    for level in ("mean", "lowest", "first", "last"):
        with pytest.raises(AssertionError, match="pages_read is a counter: only gauges have a level"):
            getattr(Engine.pages_read, level)


@pytest.mark.parametrize(
    ("one", "other", "factor"),
    [("us", "ms", 1e-3), ("ns/read", "us/read", 1e-3), ("bytes/s", "KiB/s", 1 / 1024), ("ms/s", "1", 1e-3)],
)
def test_units_of_one_kind_convert(one: str, other: str, factor: float) -> None:
    assert Unit.parse(one).factor_to(Unit.parse(other)) == pytest.approx(factor)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), json_values, max_size=6))
def test_a_key_does_not_depend_on_the_order_in_which_settings_are_written(recipe: dict[str, object]) -> None:
    assert keys.data_key(recipe) == keys.data_key(dict(reversed(recipe.items())))


def test_different_settings_and_different_kinds_have_different_keys() -> None:
    def point(knobs: dict[str, str], experiment: str = "e") -> str:
        return keys.point_key(experiment=experiment, engine="sqlite", workload={"name": "tpcc"}, knobs_asked=knobs)

    found = {
        point({"pool_size": "5%"}),
        point({"pool_size": "10%"}),
        point({"pool_size": "5%"}, "f"),
        keys.actual_key(engine="sqlite", engine_version="3", workload={}, knobs_actual={}),
        keys.data_key({}),
    }
    assert len(found) == 5


def test_a_key_refuses_what_has_no_canonical_spelling() -> None:
    with pytest.raises(ValueError, match="JSON"):
        keys.data_key({"scale": float("nan")})
