"""The conditions that every registered engine, workload and built-in experiment must meet; a new one needs no line
here."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from decimal import Decimal

import pytest

from bufferlab import spec
from bufferlab.catalog import find_experiment
from bufferlab.engines import registry as engines
from bufferlab.engines.behaviour import Behaviour, Found
from bufferlab.errors import SpecError
from bufferlab.knob import LOAD_KNOBS, Knob, KnobKind, values_of
from bufferlab.plan import estimated_facts, make
from bufferlab.registry import registry
from bufferlab.spec import Overrides
from bufferlab.spec.profiles import PROFILES
from bufferlab.units import UnitError
from bufferlab.versions import in_words
from bufferlab.workloads import registry as workloads
from bufferlab.workloads.declaration import PoolAndData
from support import innodb, postgres

ENGINES = engines.names(hidden=True)
OWNERS: dict[str, tuple[Knob, ...]] = {
    **{f"engine {name}": engines.declaration(name).knobs for name in ENGINES},
    **{f"workload {name}": workloads.declaration(name).parameters for name in workloads.names()},
    "load": LOAD_KNOBS,
}
SETTINGS = [pytest.param(knob, id=f"{owner}-{knob.name}") for owner, knobs in OWNERS.items() for knob in knobs]
EXPERIMENTS = list(spec.builtin_experiments())
WORD = re.compile(r"[a-z][a-z0-9_]*")
UNITS = {"bytes", "count", "ms", "us", "s", "per_s", "percent", "pages", "rows", "warehouses", ""}


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_declares_itself_under_its_registered_name(name: str) -> None:
    declaration = engines.declaration(name)
    assert declaration.name == name
    assert declaration.meaning
    assert declaration.connections_reason
    assert declaration.max_connections >= 1
    assert declaration.min_frames >= 1
    assert len(declaration.by_name()) == len(declaration.knobs)
    spellings = [knob.spelling for knob in declaration.knobs if knob.spelling]
    assert len(set(spellings)) == len(spellings)


@pytest.mark.parametrize("name", ENGINES)
def test_the_sizes_that_an_engine_rounds_are_knobs_of_its_own(name: str) -> None:
    declaration = engines.declaration(name)
    sizes = {knob.name for knob in declaration.knobs if knob.unit == "bytes"}
    assert set(declaration.rounds) <= sizes


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_names_the_knobs_of_its_pages_and_frames(name: str) -> None:
    declaration = engines.declaration(name)
    if not declaration.results.pool:
        assert not declaration.page_knob, "without a pool there are no pages to be its frames"
        assert declaration.data_bytes, "then its own settings say how much data there is"
        return
    page, frames = declaration.knob(declaration.page_knob), declaration.knob(declaration.results.pool)
    assert page is not None
    assert page.kind is KnobKind.SIZE
    assert page.decides_file
    assert frames is not None
    assert frames.kind is KnobKind.SIZE_OR_SHARE


def test_declarations_and_their_results_are_quick_to_import() -> None:
    code = "import sys; import bufferlab.engines.registry; print(sorted({'numpy', 'scipy', 'polars'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_has_every_part_of_a_behaviour(name: str) -> None:
    declaration, behaviour = engines.declaration(name), engines.behaviour(name)
    assert isinstance(behaviour, Behaviour)  # The object could be made, so no abstract method is left.
    own = {part for part in dir(Behaviour) if getattr(type(behaviour), part) is not getattr(Behaviour, part)}
    assert ("server_version" in own) == declaration.is_server
    assert ("server_user" in own) == declaration.needs_unprivileged_user
    assert ("restore_host" in own) == declaration.changes_host


def _found(name: str) -> Found:
    """Return the engine. Servers do not come with bufferlab: fetch the server, or skip the test."""
    for servers in (innodb, postgres):
        if of_name := [server for server in servers.EVERY_DAY if server.partition("-")[0] == name]:
            servers.build(of_name[-1])
    return engines.behaviour(name).find()


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_can_be_found_here(name: str) -> None:
    found = _found(name)
    assert found.version
    assert found.core_version


@pytest.mark.parametrize("name", ENGINES)
def test_a_data_recipe_depends_on_page_size_scale_and_seed(name: str) -> None:
    _found(name)
    declaration, behaviour = engines.declaration(name), engines.behaviour(name)
    knobs = values_of(declaration.defaults(), 1 << 30)
    page = declaration.page_knob or "file_size"
    workload = {"name": "tpcc", "warehouses": 1, "load_seed": 1, "version": 1}
    recipes = [
        behaviour.data_recipe(knobs, workload),
        behaviour.data_recipe({**knobs, page: 2 * int(knobs.get(page, 4096))}, workload),
        *(behaviour.data_recipe(knobs, {**workload, key: 2}) for key in ("warehouses", "load_seed", "version")),
    ]
    assert behaviour.data_recipe(knobs, workload) == recipes[0]
    assert all(recipes[0] != other for other in recipes[1:])


@pytest.mark.parametrize("knob", SETTINGS)
def test_a_setting_is_completely_described(knob: Knob) -> None:
    assert WORD.fullmatch(knob.name)
    assert knob.meaning
    assert knob.range_text()
    assert knob.unit in UNITS
    beside = (KnobKind.NUMBER, KnobKind.SIZE_OR_SHARE)  # Numbers and sizes may also have words as choices.
    assert bool(knob.choices) == (knob.kind is KnobKind.CHOICE) or knob.kind in beside


@pytest.mark.parametrize("knob", SETTINGS)
def test_a_settings_default_is_valid_and_canonical_after_one_reading(knob: Knob) -> None:
    if knob.kind is KnobKind.FILE:
        assert knob.default == "", "a file has no default"
        return
    setting = knob.parse(knob.default)
    assert knob.parse(setting.asked) == setting
    assert setting.of(1 << 30).value != ""


NONSENSE: tuple[object, ...] = ("", "-1", "nonsense", True, None, float("nan"), -1.5, [], {})


@pytest.mark.parametrize("knob", SETTINGS)
def test_a_setting_refuses_nonsense_with_a_hint(knob: Knob) -> None:
    possible: tuple[object, ...] = ()
    if knob.kind is KnobKind.FILE:
        possible = ("-1", "nonsense")  # Files could have these names.
    if knob.name == "exec":
        possible = ("-1", "nonsense", -1.5)  # A host could have these commands.
    hints = {repr(value): _hint(knob, value) for value in NONSENSE if value not in possible}
    assert [value for value, hint in hints.items() if not hint] == []


def _hint(knob: Knob, value: object) -> str | None:
    """Return the hint of the error with which the knob refuses the value; None if it accepts the value."""
    try:
        knob.parse(value)
    except UnitError as refused:
        return refused.hint
    return None


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("workload", workloads.names())
def test_no_two_owners_have_a_setting_of_the_same_name(engine: str, workload: str) -> None:
    for data in (name for name in workloads.names() if not workloads.declaration(name).data_parameter):
        declaration = workloads.on_data(workloads.declaration(workload), data)
        together = [*engines.declaration(engine).knobs, *declaration.parameters, *LOAD_KNOBS]
        for names in ([knob.name for knob in together], [knob.spelling for knob in together if knob.spelling]):
            assert sorted(set(names)) == sorted(names)
        assert not {knob.name for knob in together} & {"name", "connections", "version", "seed"}, "names jobs use"


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_and_the_workloads_made_for_it_name_each_other(name: str) -> None:
    declaration = engines.declaration(name)
    for workload in declaration.workloads:
        assert name in workloads.declaration(workload).engines
    for workload in workloads.names():
        for engine in workloads.declaration(workload).engines:
            assert engine in ENGINES


def test_every_size_has_the_unit_bytes_and_nothing_else_has() -> None:
    """Reports show a setting with its unit: without one, a size would be a bare number."""
    of_engines = [knob for name in engines.names(hidden=True) for knob in engines.declaration(name).knobs]
    of_workloads = [knob for name in workloads.names() for knob in workloads.declaration(name).parameters]
    for knob in (*of_engines, *of_workloads, *LOAD_KNOBS):
        is_size = knob.kind in (KnobKind.SIZE, KnobKind.SIZE_OR_SHARE)
        assert (knob.unit == "bytes") == is_size, knob.name


@pytest.mark.parametrize("name", workloads.names())
def test_a_workload_declares_itself_completely(name: str) -> None:
    declaration = workloads.declaration(name)
    assert declaration.name == name
    assert declaration.version >= 1
    assert declaration.meaning
    assert declaration.caveat
    assert declaration.compared[0] == declaration.headline
    assert set(declaration.compared) <= {metric.name for metric in registry().everything()}
    assert declaration.relative_cost > 0
    names = [knob.name for knob in declaration.parameters]
    assert len(set(names)) == len(names)
    assert len({knob.spelling for knob in declaration.parameters}) == len(names)
    for knob in declaration.parameters:
        assert knob.spelling == knob.name or not knob.decides_file, "the job of a load has them by their names"
        assert knob.kind is not KnobKind.COUNT_OR_SHARE or declaration.resolve_share


@pytest.mark.parametrize("name", workloads.names())
@pytest.mark.parametrize("page_size_bytes", [512, 4096, 65536])
def test_a_workloads_estimates_grow_with_its_scale_and_have_the_trees_shares_need(
    name: str, page_size_bytes: int
) -> None:
    own = workloads.declaration(name)
    choices = own.parameter(own.data_parameter).choices if own.data_parameter else ("",)  # type: ignore[union-attr]
    for declaration in (workloads.on_data(own, data) for data in choices):
        native = values_of(declaration.defaults(), 1000)
        scales = [knob.name for knob in declaration.parameters if knob.decides_file and knob.unit]
        size_bytes = declaration.estimate_bytes(native, page_size_bytes)
        assert size_bytes > 0
        for scale in scales:
            larger = {**native, scale: 10 * int(native[scale])}
            assert declaration.estimate_bytes(larger, page_size_bytes) > 5 * size_bytes
        if declaration.estimate_shape:
            shape = declaration.estimate_shape(native, page_size_bytes)
            assert shape["page_size_bytes"] == page_size_bytes
            assert all(tree["level_pages"][0] == 1 for tree in shape["trees"]), "a tree has one root"
        if declaration.resolve_share:
            at = PoolAndData(1000, page_size_bytes, None)
            for knob in declaration.parameters:
                if knob.kind is KnobKind.COUNT_OR_SHARE:
                    count = declaration.resolve_share(knob.name, Decimal("0.5"), native, at)
                    assert isinstance(count, int)
                    assert count >= 1


@pytest.mark.parametrize("profile", [None, *PROFILES])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_built_in_experiment_is_valid_and_can_be_planned_in_every_size(name: str, profile: str | None) -> None:
    experiment = spec.load(name, Overrides(profile=profile))  # type: ignore[arg-type]
    assert experiment.name == name
    assert experiment.question.endswith("?")
    plan = make(experiment, estimated_facts(experiment))
    assert len(plan.points) > 1
    assert spec.loads(spec.to_toml(experiment), name) == experiment


def _on_servers() -> list[tuple[str, str]]:
    """Return each experiment with each engine that is a server and for which, or for whose family, it has sizes."""
    pairs = []
    for name in EXPERIMENTS:
        tables = tomllib.loads(find_experiment(name).read_text(encoding="utf-8"))
        own = engines.declaration(tables["engine"])
        for engine in engines.names():
            declared = engines.declaration(engine)
            sizes = {own.name, own.family, *tables.get("engines", {})} - {""}
            if declared.is_server and {engine, declared.family} & sizes:
                pairs.append((name, engine))
    return pairs


def test_every_server_has_experiments() -> None:
    assert {engine for _, engine in _on_servers()} == {
        name for name in engines.names() if engines.declaration(name).is_server
    }


@pytest.mark.parametrize("profile", [None, *PROFILES])
@pytest.mark.parametrize(("name", "engine"), _on_servers())
def test_a_built_in_experiment_can_be_planned_on_every_server_it_has_sizes_for(
    name: str, engine: str, profile: str | None
) -> None:
    only = workloads.declaration(spec.load(name).workload.name).engines
    if only and engine not in only:
        with pytest.raises(SpecError, match="cannot run on"):
            spec.load(name, Overrides(engine=engine))
        return
    experiment = spec.load(name, Overrides(profile=profile, engine=engine))  # type: ignore[arg-type]
    assert len(make(experiment, estimated_facts(experiment)).points) > 1
    said = tomllib.loads(spec.builtin_experiments()[name].read_text("utf-8"))["workload"].get("connections")
    if "connections" not in experiment.sweep:
        assert experiment.knobs["connections"].value == (said or engines.declaration(engine).default_connections)
    assert spec.loads(spec.to_toml(experiment), name) == experiment


@pytest.mark.parametrize("engine", [name for name in ENGINES if engines.declaration(name).is_server])
def test_a_servers_knobs_name_versions_that_can_be_read(engine: str) -> None:
    for knob in engines.declaration(engine).knobs:
        for versions in (knob.versions, *(versions for _, versions in knob.value_versions)):
            if versions:
                assert in_words(versions)
                assert engine in versions, f"no version of {engine} has {knob.name}"
        assert knob.auto in (None, "") or knob.parse(knob.auto)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_default_of_an_experiment_fails_when_a_warm_up_hits_its_cap(name: str) -> None:
    assert spec.load(name).warm_up.on_cap == "fail"
    assert spec.load(name).design.most >= 3


def test_an_unknown_name_is_an_error_of_the_specification() -> None:
    with pytest.raises(SpecError):
        spec.load("buffer-size", Overrides(engine="no-such-engine"))
