"""One experiment for several engines: what [engines.NAME] changes, and variables that are passed to the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from bufferlab import spec
from bufferlab.engines import registry as engines
from bufferlab.errors import SpecError
from bufferlab.execute.run.jobs import load_workload, run_job
from bufferlab.plan import Plan, estimated_facts, make
from bufferlab.plan.run_order import lacking
from bufferlab.spec import Experiment, Overrides
from support.asked import texts

TOML = """\
format_version = 1
name = "both"
question = "What differs?"
engine = "sqlite"

[workload]
name = "tpcc"
warehouses = 2

[knobs]
io_mode = "buffered"
page_size = "8k"

[sweep]
pool_size = ["1MiB", "2MiB"]

[warm_up]
max_transactions = 100
max_duration = "5s"

[measure]
transactions = 100
max_duration = "5s"

[quick]
workload.warehouses = 1
sweep.pool_size = ["1MiB"]

[full]
workload.warehouses = 20

[engines.innodb]
measure.transactions = 50
warm_up = { max_duration = "9s" }

[engines.innodb.knobs]
lru_scan_depth = 100

[engines.innodb.sweep]
pool_size = ["10%", "50%"]

[engines.mariadb]
measure.transactions = 60

[engines.innodb.quick]
sweep.pool_size = ["40%"]

[engines.mariadb.full]
knobs.lru_scan_depth = 1536
"""


def load(text: str = TOML, **overrides: object) -> Experiment:
    return spec.loads(text, "both.toml", Overrides(**overrides))  # type: ignore[arg-type]


def plan(experiment: Experiment) -> Plan:
    return make(experiment, estimated_facts(experiment))


def refused(text: str = TOML, **overrides: object) -> str:
    with pytest.raises(SpecError) as error:
        plan(load(text, **overrides))
    return error.value.render()


def test_without_the_engine_its_tables_change_nothing() -> None:
    assert load() == load(TOML[: TOML.index("[engines.innodb]")])


def test_the_family_comes_before_the_engine_and_both_before_flags() -> None:
    mysql, mariadb = load(engine="mysql"), load(engine="mariadb")
    assert (mysql.measure.transactions, mariadb.measure.transactions) == (50, 60)
    assert load(engine="mariadb", transactions=7).measure.transactions == 7
    assert mysql.warm_up.max_duration == 9.0
    assert mysql.warm_up.max_transactions == 100, "what is not named stays"


def test_another_engine_has_knobs_and_a_sweep_of_its_own() -> None:
    mysql = load(engine="mysql")
    assert "io_mode" not in mysql.knobs
    assert mysql.knobs["page_size"].asked == "16KiB"
    assert mysql.knobs["lru_scan_depth"].asked == "100"
    assert texts(mysql.sweep) == {"pool_size": ("10%", "50%")}


def test_a_profile_comes_after_the_engine_and_the_engines_profile_last() -> None:
    quick, full = load(engine="mysql", profile="quick"), load(engine="mariadb", profile="full")
    assert (quick.workload.parameters["warehouses"].asked, texts(quick.sweep)["pool_size"]) == ("1", ("40%",))
    assert (full.workload.parameters["warehouses"].asked, full.knobs["lru_scan_depth"].asked) == ("20", "1536")
    assert texts(full.sweep)["pool_size"] == ("10%", "50%")


def test_a_profile_may_stand_with_the_engine_alone() -> None:
    text = TOML.replace('[quick]\nworkload.warehouses = 1\nsweep.pool_size = ["1MiB"]\n', "")
    assert texts(load(text, engine="mysql", profile="quick").sweep)["pool_size"] == ("40%",)
    assert "has no [quick] sizes" in refused(text, profile="quick")


def test_what_is_wrong_in_an_engines_table_is_named_with_its_own_line() -> None:
    text = TOML.replace("lru_scan_depth = 100", "lru_scan_depth = 1")
    line = text.split("\n").index("lru_scan_depth = 1") + 1
    assert f"both.toml:{line} (engines.innodb.knobs.lru_scan_depth)" in refused(text, engine="mysql")


def test_an_unknown_engine_and_what_is_no_table_are_refused() -> None:
    assert 'no engine "oracle"' in refused(TOML.replace("[engines.mariadb.full]", "[engines.oracle.full]"))
    assert "engines.mysql is not a table" in refused(TOML[: TOML.index("[engines.innodb]")] + "[engines]\nmysql = 3\n")


def test_an_engine_the_experiment_has_no_tables_for_is_told_what_belongs_to_whom() -> None:
    text = TOML[: TOML.index("[engines.innodb]")].replace('engine = "sqlite"', 'engine = "mysql"')
    said = refused(text)
    assert "io_mode is a setting of engine sqlite" in said
    assert "; a setting of one engine alone stands in [engines.NAME]" in said


def test_connections_are_the_engines_unless_they_are_said() -> None:
    assert [load(engine=name).knobs["connections"].value for name in ("sqlite", "mysql")] == [1, 8]
    assert load(engine="mysql", connections=3).knobs["connections"].value == 3
    assert load(engine="mysql", set_knobs=(("connections", "3"),)).knobs["connections"].value == 3
    assert "5 connections: sqlite takes 1" in refused(connections=5)
    assert "5 connections: sqlite takes 1" in refused(set_knobs=(("connections", "5"),))
    assert "5 connections: sqlite takes 1" in refused(sweep=(("connections", ("1", "5")),))
    assert "connections is given twice" in refused(connections=5, sweep=(("connections", ("1", "5")),))


def test_connections_are_swept_like_any_setting() -> None:
    experiment = load(engine="mysql", sweep=(("connections", ("1", "8")),))
    assert texts(experiment.sweep)["connections"] == ("1", "8")
    assert "connections" not in experiment.knobs
    points = make(experiment, estimated_facts(experiment)).points
    assert [point.connections for point in points[:2]] == [1, 8]
    assert [point.settings["connections"].value for point in points[:2]] == [1, 8]
    assert run_job(experiment, points[1], 1, Path("db"))["connections"] == 8
    assert spec.loads(spec.to_toml(experiment), "as-run.toml") == experiment


def test_a_variable_is_passed_through_set_and_swept() -> None:
    experiment = load(
        engine="mysql",
        set_knobs=(("var.innodb_purge_threads", "2"),),
        sweep=(("var.innodb_adaptive_flushing", ("ON", "OFF")),),
    )
    points = plan(experiment).points
    assert len(points) == 4
    assert {point.knobs["var.innodb_purge_threads"] for point in points} == {"2"}
    assert {point.knobs["var.innodb_adaptive_flushing"] for point in points} == {"ON", "OFF"}
    assert points[0].settings["var.innodb_purge_threads"].asked == "2"
    assert spec.loads(spec.to_toml(experiment), "again") == experiment


def test_a_variable_may_be_written_in_a_toml_and_its_line_is_known() -> None:
    text = TOML.replace("lru_scan_depth = 100", 'lru_scan_depth = 100\nvar.innodb_purge_threads = 4\nvar."a b" = 1')
    good = text.replace('\nvar."a b" = 1', "")
    assert load(good, engine="mysql").knobs["var.innodb_purge_threads"].asked == "4"
    assert 'there is no setting "var.a b"' in refused(text, engine="mysql")
    assert "there is no setting" in refused(set_knobs=(("var.cache_spill", "1"),)), "SQLite has none to pass through"


def test_auto_is_not_set_where_nothing_of_ours_is_meant() -> None:
    native = plan(load(engine="mysql")).points[0].knobs
    assert native["buffer_pool_instances"] == 1
    assert native["lru_scan_depth"] == 100
    assert "io_capacity" not in native


@pytest.mark.parametrize(
    ("asked", "version", "told"),
    [
        (("page_cleaners", "2"), "5.6.24", "mysql 5.6.24 has no page_cleaners; MySQL 5.7.4 or later"),
        (("page_size", "32k"), "5.6.24", "mysql 5.6.24 has no page_size = 32KiB; MySQL 5.7.6 or later"),
        (("log_file_size", "64MiB"), "8.4.0", "mysql 8.4.0 has no log_file_size; MySQL before 8.0.30"),
        (("doublewrite", "detect_only"), "8.0.15", "mysql 8.0.15 has no doublewrite = detect_only; MySQL 8.0.30 or"),
    ],
)
def test_a_knob_the_version_lacks_is_refused_with_the_versions_that_have_it(
    asked: tuple[str, str], version: str, told: str
) -> None:
    experiment = load(engine="mysql", set_knobs=(asked,))
    points = plan(experiment).points
    problems = lacking(engines.declaration("mysql"), points, lambda knobs: version)
    assert [problem.what[: len(told)] for problem in problems] == [told]
    assert lacking(engines.declaration("mysql"), plan(load(engine="mysql")).points, lambda knobs: version) == []


def test_builds_are_swept_and_only_those_that_lack_a_knob_are_named() -> None:
    experiment = load(
        engine="mysql",
        set_knobs=(("page_cleaners", "2"),),
        sweep=(("server", ("mysql-5.6", "mysql-5.7")),),
    )
    points = plan(experiment).points
    assert len({point.data for point in points}) == 2, "a data directory belongs to a build"
    problems = lacking(
        engines.declaration("mysql"), points, lambda knobs: f"{str(knobs['server']).removeprefix('mysql-')}.20"
    )
    assert [problem.what.split(";")[0] for problem in problems] == ["mysql 5.6.20 has no page_cleaners"]


PROGRAM = """\
format_version = 1
name = "external"
question = "What does sysbench read?"
engine = "mysql"
workload = { exec = "sysbench {socket} run", rows = 1000 }
sweep.pool_size = ["20MiB", "30MiB"]
warm_up = { max_transactions = 100, max_duration = "5s" }
measure = { transactions = 100, max_duration = "5s" }
"""


def test_a_program_says_what_it_is_by_what_it_has_and_needs_a_server() -> None:
    experiment = load(PROGRAM)
    assert experiment.workload.name == "program"
    assert experiment.workload.parameters["rows"].asked == "1000"
    assert "workload program needs a server, and sqlite runs inside bufferlab" in refused(PROGRAM, engine="sqlite")


def test_a_template_with_a_password_or_a_name_there_is_not_is_refused() -> None:
    assert "can be read by every user of this host" in refused(PROGRAM.replace("{socket}", "{password}"))
    assert "the unknown placeholder {port}" in refused(PROGRAM.replace("{socket}", "{port}"))


def test_a_programs_data_are_those_of_the_workload_that_loads_them() -> None:
    experiment = load(PROGRAM)
    point = plan(experiment).points[0]
    assert load_workload(experiment.workload, point.data) == {"name": "hot_rows", "rows": 1000, "load_seed": 20260101}
    job = run_job(experiment, point, 1, Path("/somewhere/database"))
    assert job["program"] == {"exec": "sysbench {socket} run", "kind_of_transaction": "com_commit"}
    assert job["connections"] == 8


@pytest.mark.parametrize("engine", ["sqlite", "mysql", "mariadb", "postgres"])
def test_a_script_in_place_of_an_experiment_runs_on_every_engine(engine: str, tmp_path: Path) -> None:
    script = tmp_path / "mine.sql"
    script.write_text("SELECT 1;\n")
    for name in (str(script), "script"):
        experiment = spec.load(name, Overrides(engine=engine))
        assert experiment.engine == engine
        assert experiment.workload.script


@pytest.mark.parametrize(
    ("overrides", "wheres"),
    [
        (Overrides(engine="postgres"), ["both.toml:11 (knobs.io_mode)"]),
        (Overrides(engine="postgres", set_knobs=(("odd", "1"),)), ["--set odd=1", "both.toml:11 (knobs.io_mode)"]),
    ],
)
def test_a_file_that_is_not_for_the_chosen_engine_is_refused_once_and_flags_each(
    overrides: Overrides, wheres: list[str]
) -> None:
    text = TOML.replace('page_size = "8k"', 'synchronous = "off"')
    with pytest.raises(SpecError) as caught:
        spec.loads(text, "both.toml", overrides)
    assert [problem.where for problem in caught.value.problems] == wheres
    last = caught.value.problems[-1]
    assert last.what.startswith("this experiment is not for engine postgres: there is no setting")
    assert last.what.endswith(", and 1 more")
    assert last.hint == (
        "choose --engine sqlite or mysql or mariadb, or write [engines.postgres] into a copy of the file"
    )


def test_a_mistake_that_the_file_has_with_its_own_engine_too_is_named_as_before() -> None:
    text = TOML[: TOML.index("[engines.innodb]")].replace("pool_size =", "pool_sze =")
    text = text.replace('io_mode = "buffered"\npage_size = "8k"\n', "")
    said = refused(text, engine="mysql")
    assert "did you mean pool_size?" in said
    assert "not for engine" not in said


@pytest.mark.parametrize("engine", ['["sqlite"]', "3"])
def test_an_engine_that_is_no_text_is_refused_without_a_traceback_if_a_flag_replaces_it(engine: str) -> None:
    text = TOML[: TOML.index("[engines.innodb]")].replace('engine = "sqlite"', f"engine = {engine}")
    assert 'there is no setting "io_mode" of engine mysql' in refused(text, engine="mysql")
