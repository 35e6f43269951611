"""Settings of engine, workload and load in an experiment: their places, their precedence, and refusals."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab import spec
from bufferlab.errors import SpecError
from bufferlab.spec import Experiment, Overrides
from bufferlab.spec.lines import key_lines
from support.asked import texts

HOT = """\
format_version = 1
name = "hot"
question = "Why?"
engine = "sqlite"

[workload]
name = "hot_rows"
rows = 20000

[knobs]
pool_size = "1MiB"

[sweep]
hot_rows = ["50%", 300]

[warm_up]
max_transactions = 100
max_duration = "5s"

[measure]
transactions = 100
max_duration = "10s"

[quick]
workload.layout = "clustered"
"""

PHASED = (
    HOT
    + """
[phases.scan]
script = "scan.sql"
transactions = 10
max_duration = "5s"
"""
)

SCRIPT = (
    HOT.partition("[quick]")[0]
    .replace('name = "hot_rows"\nrows = 20000', 'name = "script"\nscript = "mine.sql"')
    .replace('hot_rows = ["50%", 300]', "rate = [10, 20]")
)
SELECT = "-- transaction: read\n\\set id random(1, 10)\nSELECT 1 WHERE 1 = :id;\n"


def loaded(text: str = HOT, folder: Path = Path(), **overrides: object) -> Experiment:
    return spec.loads(text, "my.toml", Overrides(**overrides), folder)  # type: ignore[arg-type]


def refusal(text: str = HOT, folder: Path = Path(), **overrides: object) -> str:
    with pytest.raises(SpecError) as refused:
        loaded(text, folder, **overrides)
    told = str(refused.value)
    assert told.count("error:") == told.count("hint:"), "every refusal has a hint"
    return told


def test_a_setting_of_every_owner_can_be_swept_and_set() -> None:
    experiment = loaded(
        set_knobs=(("layout", "clustered"), ("rate", "500"), ("io_mode", "buffered")),
        sweep=(("zipf", ("0", "0.9")), ("arm", ("a", "b")), ("page_size", ("4k", "8k"))),
    )
    assert texts(experiment.sweep) == {
        "hot_rows": ("50%", "300"),
        "zipf": ("0", "0.9"),
        "arm": ("a", "b"),
        "page_size": ("4KiB", "8KiB"),
    }
    assert experiment.workload.parameters["layout"].asked == "clustered"
    assert experiment.knobs["rate"].asked == "500"
    assert experiment.knobs["io_mode"].asked == "buffered"
    assert "zipf" not in experiment.workload.parameters
    assert not {"arm", "page_size"} & set(experiment.knobs)
    assert spec.loads(spec.to_toml(experiment), "again.toml") == experiment


def test_setting_a_swept_parameter_ends_its_sweep_and_sweeping_a_set_one_frees_it() -> None:
    experiment = loaded(set_knobs=(("hot_rows", "80%"),), sweep=(("rows", ("10000", "20000")),))
    assert texts(experiment.sweep) == {"rows": ("10000", "20000")}
    assert experiment.workload.parameters["hot_rows"].asked == "80%"
    assert "rows" not in experiment.workload.parameters


def test_a_profile_may_set_what_the_experiment_sweeps() -> None:
    text = HOT.replace('hot_rows = ["50%", 300]', 'layout = ["scattered", "clustered"]\nhot_rows = ["50%", 300]')
    experiment = loaded(text, profile="quick")
    assert experiment.workload.parameters["layout"].asked == "clustered"
    assert list(experiment.sweep) == ["hot_rows"]


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("rows", "0", "below the minimum"),
        ("rows", "200000000", "above the maximum"),
        ("rows", "50%", "not a whole number"),
        ("hot_rows", "0%", "not more than nothing"),
        ("hot_rows", "half", "not a whole number"),
        ("layout", "random", "choose scattered | clustered"),
        ("zipf", "-0.5", "negative"),
        ("zipf", "4", "above the maximum"),
        ("update_percent", "101", "above the maximum"),
        ("update_percent", "20%", "not a whole number"),
        ("rate", "0", "below the minimum"),
        ("rate", "-5", "negative"),
        ("rate", "1000/s", "is not a number"),
        ("arrivals", "bursts", "choose poisson | constant"),
        ("patience", "0s", "below the minimum"),
        ("patience", "long", "is not a duration"),
        ("arm", "z", "choose a | b"),
        ("arm", "A", "choose a | b"),
        ("hot_row", "5", "did you mean hot_rows?"),
        ("rat", "5", "did you mean rate?"),
        ("pool_sise", "5%", "did you mean pool_size?"),
        ("warehouses", "5", "warehouses is a setting of workload tpcc"),
        ("script", "x.sql", "script is a setting of workload script"),
        ("connections", "2", "2 connections: sqlite takes 1"),
    ],
)
def test_an_impossible_setting_names_the_flag_and_the_reason(name: str, value: str, what: str) -> None:
    told = refusal(set_knobs=((name, value),))
    assert what in told
    assert f"--set {name}={value}" in told
    swept = refusal(sweep=((name, (value,)),))
    assert what in swept
    assert f"--sweep {name}={value}" in swept


def test_a_share_of_the_knee_belongs_to_hot_rows_alone() -> None:
    assert "there is no setting" in refusal(HOT.replace('"hot_rows"\nrows = 20000', '"tpcc"'))
    assert "rows = 50% is not a whole number" in refusal(sweep=(("rows", ("50%",)),))


@pytest.mark.parametrize(
    ("overrides", "where"),
    [
        ({"set_knobs": (("zipf", "0"), ("zipf", "1"))}, "--set zipf=0 and --set zipf=1"),
        ({"set_knobs": (("zipf", "0"),), "sweep": (("zipf", ("1",)),)}, "--set zipf=0 and --sweep zipf=1"),
        ({"sweep": (("arm", ("a", "b")), ("arm", ("c",)))}, "--sweep arm=a,b and --sweep arm=c"),
        ({"warehouses": 2, "set_knobs": (("warehouses", "3"),)}, "--set warehouses=3 and --warehouses 2"),
    ],
)
def test_a_setting_given_twice_is_refused(overrides: dict[str, object], where: str) -> None:
    told = refusal(**overrides)
    assert "is given twice" in told
    assert where in told


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("[knobs]\n", "[knobs]\nlayout = 'clustered'\n", "write it under [workload]"),
        ("rows = 20000\n", "rows = 20000\nrate = 5\n", "write it under [knobs]"),
        ("rows = 20000\n", "rows = 20000\nhot_rows = 5\n", "hot_rows is set and swept at once"),
        ("rows = 20000\n", "row = 20000\n", "did you mean rows?"),
        ('hot_rows = ["50%", 300]', 'hot_rows = "50%"', "is not a list of values"),
        ('hot_rows = ["50%", 300]', 'hot_rows = ["50%", "50.0%"]', "holds 50% twice"),
        ("[knobs]\n", '[reference]\npage_size = "mine"\n[knobs]\n', "reference.page_size"),
    ],
)
def test_a_setting_in_the_wrong_place_is_refused_with_its_line(old: str, new: str, what: str) -> None:
    assert old in HOT
    told = refusal(HOT.replace(old, new, 1))
    assert what in told
    assert "my.toml:" in told


def test_a_reference_may_be_the_points_own_page_size() -> None:
    experiment = loaded(HOT.replace("[knobs]", '[reference]\npage_size = "own"\n\n[knobs]'))
    assert experiment.reference.page_size == "own"
    assert spec.loads(spec.to_toml(experiment), "again.toml") == experiment


def test_a_script_is_kept_with_its_text_and_needs_no_file_when_read_again(tmp_path: Path) -> None:
    (tmp_path / "mine.sql").write_text(SELECT)
    experiment = loaded(SCRIPT, tmp_path)
    assert experiment.workload.script is not None
    assert experiment.workload.script.source == "mine.sql"
    assert experiment.workload.script.text == SELECT
    (tmp_path / "mine.sql").unlink()
    assert spec.loads(spec.to_toml(experiment), "again.toml") == experiment


def test_a_path_of_a_script_is_the_built_in_experiment_with_that_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.sql").write_text(SELECT)
    experiment = spec.load("mine.sql", Overrides(set_knobs=(("data", "tpcc"), ("warehouses", "1"))))
    assert experiment.name == "script"
    assert experiment.workload.script is not None
    assert experiment.workload.script.text == SELECT
    assert texts(experiment.workload.parameters) == {"data": "tpcc", "warehouses": "1", "load_seed": "20260101"}
    with pytest.raises(SpecError, match=r"the script other\.sql cannot be read: No such file"):
        spec.load("other.sql")
    with pytest.raises(SpecError, match="script is given twice"):
        spec.load("mine.sql", Overrides(set_knobs=(("script", "other.sql"),)))


def test_a_script_on_its_own_data_has_no_parameters_of_other_data(tmp_path: Path) -> None:
    (tmp_path / "mine.sql").write_text(SELECT)
    assert "rows is a setting of workload hot_rows" in refusal(SCRIPT, tmp_path, set_knobs=(("rows", "5"),))
    on_rows = loaded(SCRIPT, tmp_path, set_knobs=(("data", "hot_rows"), ("rows", "5")))
    assert on_rows.workload.parameters["rows"].asked == "5"
    assert "layout" not in on_rows.workload.parameters, "layout does not decide data"


@pytest.mark.parametrize(("name", "value"), [("script", "mine.sql"), ("data", "tpcc")])
def test_what_decides_the_script_cannot_be_swept(tmp_path: Path, name: str, value: str) -> None:
    (tmp_path / "mine.sql").write_text(SELECT)
    assert f"{name} cannot be swept" in refusal(SCRIPT, tmp_path, sweep=((name, (value,)),))


def test_a_script_that_cannot_be_had_is_refused_where_it_is_named(tmp_path: Path) -> None:
    def told(script: str = '"mine.sql"') -> str:
        text = refusal(SCRIPT.replace('"mine.sql"', script), tmp_path)
        assert "my.toml:8 (workload.script)" in text or "my.toml:6" in text
        return text

    assert "the script mine.sql cannot be read: No such file or directory" in told()
    assert "is not the path of a file" in told("3")
    assert "neither a path nor source and text" in told('{ source = "x" }')
    assert "workload script needs a script" in refusal(SCRIPT.replace('script = "mine.sql"', ""), tmp_path)
    (tmp_path / "mine.sql").mkdir()
    assert "is a folder" in told()
    assert "is no regular file" in told('"/dev/zero"')
    (tmp_path / "mine.sql").rmdir()
    (tmp_path / "mine.sql").write_bytes(b"SELECT '\xff\xfe';")
    assert "is not UTF-8 text" in told()
    (tmp_path / "mine.sql").write_text("-- " + "x" * (4 << 20))
    assert "a script has at most 4,194,304" in told()
    assert "cannot be read" in told('"a\\u0000b.sql"')


def test_a_script_with_an_error_names_its_own_line(tmp_path: Path) -> None:
    (tmp_path / "mine.sql").write_text("-- transaction: read\n\\sett id random(1, 10)\nSELECT 1;\n")
    told = refusal(SCRIPT, tmp_path)
    assert "where: mine.sql:2" in told


def test_a_script_with_an_unknown_variable_is_refused_and_parameters_are_known(tmp_path: Path) -> None:
    (tmp_path / "mine.sql").write_text("SELECT * FROM sbtest1 WHERE id = :rows;\n")
    assert "mine.sql:1" in refusal(SCRIPT, tmp_path)
    assert loaded(SCRIPT, tmp_path, set_knobs=(("data", "hot_rows"),)).workload.script is not None
    assert loaded(SCRIPT, tmp_path, set_knobs=(("data", "hot_rows"),), sweep=(("rows", ("5", "6")),)).sweep["rows"]


def test_phases_keep_their_order_and_their_scripts(tmp_path: Path) -> None:
    (tmp_path / "scan.sql").write_text(SELECT)
    text = PHASED + PHASED[PHASED.index("[phases.scan]") :].replace("phases.scan", "phases.again")
    experiment = loaded(text, tmp_path)
    assert [(phase.name, phase.transactions, phase.max_duration) for phase in experiment.phases] == [
        ("scan", 10, 5.0),
        ("again", 10, 5.0),
    ]
    assert experiment.phases[0].script.text == SELECT
    assert spec.loads(spec.to_toml(experiment), "again.toml") == experiment


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('script = "scan.sql"\n', "", "phases.scan.script is missing"),
        ("transactions = 10\n", "", "phases.scan.transactions is missing"),
        ('transactions = 10\nmax_duration = "5s"', "transactions = 10", "phases.scan.max_duration is missing"),
        ("transactions = 10\n", "transactions = 0\n", "phases.scan.transactions = 0 cannot be"),
        ('transactions = 10\nmax_duration = "5s"', 'transactions = 10\nmax_duration = "0s"', "write more than 0"),
        ("transactions = 10\n", "transactions = 10\nduration = 5\n", "did you mean max_duration?"),
        ("transactions = 10\n", "transactions = 10\ntransaction = 5\n", "did you mean transactions?"),
        ("[phases.scan]", "[phases.measure]", 'the name "measure" of a phase is taken'),
        ("[phases.scan]", '[phases."Scan it"]', "is not a name for a phase"),
        ("[phases.scan]", "[[phases]]", "write [phases.NAME]"),
        ('"scan.sql"', '"missing.sql"', "the script missing.sql cannot be read"),
    ],
)
def test_a_wrong_phase_is_refused_where_it_is_wrong(tmp_path: Path, old: str, new: str, what: str) -> None:
    (tmp_path / "scan.sql").write_text(SELECT)
    assert old in PHASED
    told = refusal(PHASED.replace(old, new, 1), tmp_path)
    assert what in told
    assert "my.toml:" in told


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=80))
def test_any_text_of_a_script_survives_being_written_and_read_again(text: str) -> None:
    document = (
        HOT + "\n[phases.scan]\ntransactions = 1\nmax_duration = 1\nscript = {source = 'x', text = 'SELECT 1;'}\n"
    )
    experiment = spec.loads(document, "my.toml")
    (phase,) = experiment.phases
    changed = experiment.model_copy(
        update={"phases": (phase.model_copy(update={"script": phase.script.model_copy(update={"text": text})}),)}
    )
    written = spec.to_toml(changed)
    assert tomllib.loads(written)["phases"]["scan"]["script"]["text"] == text
    assert key_lines(written)[("limits", "worker_silent")] == written.count("\n"), "lines are counted through texts"
