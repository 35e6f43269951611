"""What every registered engine, workload and built-in experiment must be; a new one needs no line here."""

from __future__ import annotations

import re

import pytest

from bufferlab import spec
from bufferlab.engines import registry as engines
from bufferlab.engines.declaration import Knob, KnobKind
from bufferlab.errors import SpecError
from bufferlab.plan import make
from bufferlab.plan.estimate import estimated_database_bytes
from bufferlab.spec import Overrides
from bufferlab.spec.overrides import PROFILES
from bufferlab.units import UnitError
from bufferlab.workloads import registry as workloads

ENGINES = engines.names(hidden=True)
KNOBS = [pytest.param(engine, knob, id=f"{engine}-{knob.name}") for engine in ENGINES
         for knob in engines.declaration(engine).knobs]  # fmt: skip
EXPERIMENTS = list(spec.builtin_experiments())
WORD = re.compile(r"[a-z][a-z0-9_]*")
UNITS = {"bytes", "count", "ms", "us", "s", "pages", ""}


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_declares_itself_under_its_registered_name(name: str) -> None:
    declaration = engines.declaration(name)
    assert declaration.name == name
    assert declaration.meaning
    assert declaration.connections_reason
    assert declaration.max_connections >= 1
    assert declaration.min_frames >= 1
    assert len(declaration.by_name()) == len(declaration.knobs)
    assert len({knob.native_name for knob in declaration.knobs}) == len(declaration.knobs)


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_names_the_knobs_of_its_pages_and_frames(name: str) -> None:
    declaration = engines.declaration(name)
    page, frames = declaration.knob(declaration.page_knob), declaration.knob(declaration.frame_knob)
    assert page is not None
    assert page.kind is KnobKind.SIZE
    assert page.decides_file
    assert frames is not None
    assert frames.kind is KnobKind.SIZE_OR_SHARE


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_has_every_part_of_a_behaviour(name: str) -> None:
    behaviour = engines.behaviour(name)
    for part in ("find", "check_directory", "data_recipe", "allocated_bytes", "load", "run", "cancel"):
        assert callable(getattr(behaviour, part)), part
    if engines.declaration(name).file_format == "own":
        assert callable(getattr(behaviour, "check", None))


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_can_be_found_here(name: str) -> None:
    found = engines.behaviour(name).find()
    assert found.version
    assert found.core_version


@pytest.mark.parametrize("name", ENGINES)
def test_a_data_recipe_depends_on_page_size_scale_and_seed(name: str) -> None:
    declaration, behaviour = engines.declaration(name), engines.behaviour(name)
    knobs = {knob.native_name: knob.native(knob.parse(knob.default), 1 << 30) for knob in declaration.knobs}
    page = declaration.by_name()[declaration.page_knob].native_name
    workload = {"name": "tpcc", "warehouses": 1, "load_seed": 1, "version": 1}
    recipes = [
        behaviour.data_recipe(knobs, workload),
        behaviour.data_recipe({**knobs, page: 8192}, workload),
        *(behaviour.data_recipe(knobs, {**workload, key: 2}) for key in ("warehouses", "load_seed", "version")),
    ]
    assert behaviour.data_recipe(knobs, workload) == recipes[0]
    assert all(recipes[0] != other for other in recipes[1:])


@pytest.mark.parametrize(("engine", "knob"), KNOBS)
def test_a_knob_is_completely_described(engine: str, knob: Knob) -> None:
    assert WORD.fullmatch(knob.name)
    assert knob.meaning
    assert knob.range_text()
    assert knob.unit in UNITS
    if knob.unit:
        assert knob.native_name.endswith(f"_{knob.unit}"), "the unit is the last word of a native name"
    assert bool(knob.choices) == (knob.kind is KnobKind.CHOICE)


@pytest.mark.parametrize(("engine", "knob"), KNOBS)
def test_a_knobs_default_is_valid_and_canonical_after_one_reading(engine: str, knob: Knob) -> None:
    canonical = knob.parse(knob.default)
    assert knob.parse(canonical) == canonical
    assert knob.native(canonical, 1 << 30) != ""


@pytest.mark.parametrize(("engine", "knob"), KNOBS)
@pytest.mark.parametrize("value", ["", "-1", "nonsense", True, None, 1.5, [], {}])
def test_a_knob_refuses_nonsense_with_a_hint(engine: str, knob: Knob, value: object) -> None:
    with pytest.raises(UnitError) as refused:
        knob.parse(value)
    assert refused.value.hint


@pytest.mark.parametrize("name", workloads.names())
def test_a_workload_declares_itself_completely(name: str) -> None:
    declaration = workloads.declaration(name)
    assert declaration.name == name
    assert declaration.version >= 1
    assert declaration.counted_type in declaration.transaction_types
    assert 0 < declaration.counted_share <= 1
    assert declaration.meaning
    assert declaration.caveat
    for parameter in declaration.parameters:
        assert WORD.fullmatch(parameter.name)
        assert parameter.minimum <= parameter.default <= parameter.maximum
        assert parameter.meaning
    small = declaration.estimate_bytes(declaration.defaults(), 4096)
    large = declaration.estimate_bytes({**declaration.defaults(), "warehouses": 100}, 4096)
    assert 0 < small < large


@pytest.mark.parametrize("profile", [None, *PROFILES])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_built_in_experiment_is_valid_and_can_be_planned_in_every_size(name: str, profile: str | None) -> None:
    experiment = spec.load(name, Overrides(profile=profile))  # type: ignore[arg-type]
    assert experiment.name == name
    assert experiment.question.endswith("?")
    plan = make(experiment, estimated_database_bytes(experiment))
    assert len(plan.points) > 1
    assert spec.loads(spec.to_toml(experiment), name) == experiment


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_default_of_an_experiment_fails_when_a_warm_up_hits_its_cap(name: str) -> None:
    assert spec.load(name).warm_up.on_cap == "fail"
    assert spec.load(name).design.repetitions >= 3


def test_an_unknown_name_is_an_error_of_the_specification() -> None:
    with pytest.raises(SpecError):
        spec.load("buffer-size", Overrides(engine="no-such-engine"))
