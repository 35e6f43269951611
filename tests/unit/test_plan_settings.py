"""Points of engine, workload and load settings: shares of the knee, the load, swept scales, references, and their
costs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab import spec
from bufferlab.errors import SpecError
from bufferlab.plan import (
    DataFacts,
    DataKnobs,
    Plan,
    estimate,
    estimated_facts,
    known_facts,
    make,
    needed_data,
)
from bufferlab.plan.grid import workload_identity
from bufferlab.results.schema import Load
from bufferlab.spec import Experiment, Overrides
from bufferlab.theory.hot_rows import estimated_tree, predicted_knee


def experiment(name: str, **overrides: Any) -> Experiment:
    return spec.load(name, Overrides(**overrides))


def planned(wanted: Experiment) -> Plan:
    return make(wanted, estimated_facts(wanted))


def test_a_share_of_the_knee_is_that_share_of_what_fits_the_points_own_pool_page_and_layout() -> None:
    swept = (("page_size", ("4k", "16k")), ("layout", ("scattered", "clustered")), ("hot_rows", ("50%", "100%")))
    for point in planned(experiment("hot-rows", sweep=swept)).points:
        page_size_bytes = int(point.knobs["page_size"])
        frames = int(point.knobs["pool_size"]) // page_size_bytes
        layout: Any = point.parameters["layout"]
        knee = predicted_knee(estimated_tree(400_000, page_size_bytes), 400_000, frames, layout)
        assert knee is not None
        assert point.parameters["hot_rows"] == int(knee * (0.5 if point.swept["hot_rows"] == "50%" else 1))
        assert point.swept["hot_rows"] == point.settings["hot_rows"].asked, "asked and resolved are kept apart"


def test_a_share_of_the_knee_uses_the_tree_of_the_loaded_database_when_it_is_known() -> None:
    wanted = experiment("hot-rows", profile="smoke")
    (setting,) = needed_data(wanted)
    tree = {"name": "sbtest1", "kind": "table", "rows": 20_000, "level_pages": [1, 10, 4000]}
    found = DataFacts(5_000_000, {"trees": [{"name": "k_1", "kind": "index", "level_pages": [1]}, tree]})
    first, _ = make(wanted, known_facts(wanted, {setting: found})).points
    knee = predicted_knee(tree, 20_000, 128, "scattered")
    assert knee is not None
    assert first.parameters["hot_rows"] == knee // 2


def test_a_number_of_hot_rows_needs_no_knee_and_no_load_before_the_plan() -> None:
    wanted = experiment("hot-rows", sweep=(("hot_rows", ("100", "200")),))
    assert needed_data(wanted) == []
    assert {point.parameters["hot_rows"] for point in planned(wanted).points} == {100, 200}


@pytest.mark.parametrize(
    ("settings_", "what"),
    [
        ((("rows", "20000"), ("pool_size", "64MiB")), "is a share of no knee: all 20,000 rows fit"),
        ((("hot_rows", "500000"),), "hot_rows = 500,000 is more than the table's 400,000 rows"),
        ((("rows", "25000"), ("hot_rows", "900%")), "is more than the table's 25,000 rows"),
    ],
)
def test_hot_rows_that_cannot_be_name_the_point(settings_: tuple[tuple[str, str], ...], what: str) -> None:
    wanted = experiment("hot-rows", set_knobs=settings_)
    with pytest.raises(SpecError, match=what) as refused:
        planned(wanted)
    assert "point page_size 4KiB, layout " in str(refused.value)
    assert refused.value.hint


def test_the_load_of_a_point_is_closed_or_open_and_an_arm_changes_nothing_but_the_key() -> None:
    plan = planned(experiment("buffer-size", sweep=(("rate", ("unlimited", "500")), ("arm", ("a", "b")))))
    points = [point for point in plan.points if point.swept["pool_size"] == "5%"]
    assert [point.arrivals.mode for point in points] == ["closed", "closed", "open", "open"]
    assert points[2].arrivals == Load(mode="open", rate_per_s=500.0, arrivals="poisson", patience_s=10.0)
    for a, b in (points[:2], points[2:]):
        assert (a.knobs, a.workload, a.arrivals, a.data) == (b.knobs, b.workload, b.arrivals, b.data)
        assert a.point_key != b.point_key


def test_what_is_asked_shows_every_engine_knob_and_of_the_rest_what_is_not_as_usual() -> None:
    plain = planned(experiment("buffer-size")).points[0].settings
    assert not {"rate", "arrivals", "patience", "arm", "warehouses"} & set(plain)
    shown = planned(
        experiment("buffer-size", set_knobs=(("patience", "5s"),), sweep=(("warehouses", ("1", "2")), ("arm", ("a",))))
    )
    asked = {name: setting.asked for name, setting in shown.points[0].settings.items()}
    assert asked["patience"] == "5s"
    assert asked["warehouses"] == "1"
    assert asked["arm"] == "a"
    assert "rate" not in asked


def test_a_swept_scale_needs_a_database_for_each_and_a_share_is_of_the_points_own() -> None:
    wanted = experiment("buffer-size", sweep=(("warehouses", ("1", "2")), ("pool_size", ("10%", "1MiB"))))
    sizes = {1: 80_000_000, 2: 160_000_000}
    needed = needed_data(wanted)
    assert [dict(setting.parameters)["warehouses"] for setting in needed] == [1, 2]
    plan = make(wanted, lambda setting: DataFacts(sizes[int(dict(setting.parameters)["warehouses"])]))
    pools = {(point.swept["warehouses"], point.swept["pool_size"]): point.knobs["pool_size"] for point in
             plan.points}  # fmt: skip
    assert pools[("1", "10%")] == 8_000_000 // 4096 * 4096
    assert pools[("2", "10%")] == 16_000_000 // 4096 * 4096
    assert plan.database_bytes == 160_000_000
    assert estimate(plan).cache_bytes == 80_000_000 + 160_000_000, "one of each scale"


def test_a_share_is_of_the_reference_page_size_or_of_the_points_own() -> None:
    def size(setting: DataKnobs) -> DataFacts:
        return DataFacts({4096: 80_000_000, 16384: 100_000_000}[int(dict(setting.knobs)["page_size"])])

    swept = {"sweep": (("page_size", ("4k", "16k")),), "set_knobs": (("pool_size", "20%"),)}
    own = make(experiment("page-size", **swept), size).points
    one = make(experiment("buffer-size", **swept), size).points
    assert [point.database_bytes for point in own] == [80_000_000, 100_000_000]
    assert [point.database_bytes for point in one] == [80_000_000, 80_000_000]
    assert len(needed_data(experiment("page-size", **swept))) == 2
    assert len(needed_data(experiment("buffer-size", **swept))) == 1


def test_keys_depend_on_the_text_of_a_script_and_on_phases_and_not_on_file_names() -> None:
    wanted = experiment("page-size")
    script = wanted.phases[0].script

    def changed(**update: str) -> Experiment:
        phase = wanted.phases[0].model_copy(update={"script": script.model_copy(update=update)})
        return wanted.model_copy(update={"phases": (phase, *wanted.phases[1:])})

    assert workload_identity(wanted) == workload_identity(changed(source="other.sql"))
    assert workload_identity(wanted) != workload_identity(changed(text=script.text + " "))
    assert workload_identity(wanted) != workload_identity(wanted.model_copy(update={"phases": ()}))


def test_a_scripts_variables_are_the_numeric_parameters() -> None:
    wanted = experiment("script", set_knobs=(("data", "hot_rows"), ("rows", "50000")))
    assert planned(wanted).points[0].variables == {"rows": 50_000, "load_seed": 20260101}


def test_the_estimate_of_an_open_loop_is_bounded_by_its_rate_and_phases_add_to_it() -> None:
    slow = experiment("open-loop", transactions=1000, set_knobs=(("rate", "100"),))
    assert estimate(planned(slow)).measure_seconds == pytest.approx(3 * 10)
    phased = experiment("page-size", set_knobs=(("page_size", "4k"), ("pool_size", "16MiB")))
    without = phased.model_copy(update={"phases": ()})
    more = estimate(planned(phased)).measure_seconds - estimate(planned(without)).measure_seconds
    assert 0 < more <= 5 * sum(phase.max_duration + 1 for phase in phased.phases)


@given(st.integers(1, 100), st.sampled_from(["4k", "8k", "16k"]), st.sampled_from(["scattered", "clustered"]))
def test_a_larger_share_is_never_fewer_rows(percent: int, page_size: str, layout: str) -> None:
    swept = (("hot_rows", (f"{percent}%", f"{percent + 1}%", "100%" if percent < 99 else "150%")),)
    set_knobs = (("page_size", page_size), ("layout", layout))
    counts = [
        int(point.parameters["hot_rows"])
        for point in planned(experiment("hot-rows", sweep=swept, set_knobs=set_knobs)).points
    ]
    assert counts == sorted(counts)
    assert counts[0] >= 1


def test_more_connections_than_terminals_are_refused_before_anything_starts() -> None:
    assert planned(experiment("concurrency", sweep=(("connections", ("1", "80")),))).points
    with pytest.raises(SpecError, match="81 connections cannot share 80 terminals") as refused:
        planned(experiment("concurrency", sweep=(("connections", ("1", "81")),)))
    assert "9 warehouses or more" in str(refused.value.hint)
