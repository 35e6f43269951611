"""From TOML to Experiment: accepted files, refused files, and the texts of refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from bufferlab import spec
from bufferlab.errors import SpecError
from bufferlab.spec import Overrides
from bufferlab.spec.lines import key_lines
from support.asked import texts

GOOD = """\
format_version = 1
name = "small"
question = "Why?"
engine = "sqlite"

[workload]
name = "tpcc"
warehouses = 1

[knobs]
page_size = "4k"
io_mode = "direct"

[sweep]
pool_size = [
  "5%",   # a comment, with a bracket ]
  "10%",
]

[warm_up]
max_transactions = 100
max_duration = "5s"

[measure]
transactions = 100
max_duration = "10s"

[quick]
workload.warehouses = 3
measure = { duration = "2s" }
"""


def refusal(text: str = GOOD, **overrides: object) -> str:
    with pytest.raises(SpecError) as refused:
        spec.loads(text, "my.toml", Overrides(**overrides))  # type: ignore[arg-type]
    assert refused.value.exit_code == 2
    return str(refused.value)


def test_every_refusal_has_a_hint() -> None:
    told = refusal(GOOD.replace('"5s"', '"8d"').replace("transactions = 100", "transactions = 0.5"), seed=2**60)
    assert told.count("error:") == told.count("hint:") == 4


def test_a_good_experiment_is_read_with_every_default_filled_in() -> None:
    experiment = spec.loads(GOOD, "my.toml")
    assert texts(experiment.sweep) == {"pool_size": ("5%", "10%")}
    assert experiment.knobs["page_size"].asked == "4KiB"
    assert experiment.knobs["synchronous"].asked == "off"
    assert experiment.knobs["rate"].asked == "unlimited"
    assert experiment.workload.parameters["load_seed"].asked == "20260101"
    assert experiment.design.repetitions == 3


@pytest.mark.parametrize("profile", [None, "quick"])
def test_the_text_of_an_experiment_as_run_reads_back_as_the_same_experiment(profile: str | None) -> None:
    experiment = spec.loads(GOOD, "my.toml", Overrides(profile=profile, seed=9))  # type: ignore[arg-type]
    assert spec.loads(spec.to_toml(experiment), "experiment.toml") == experiment


def test_a_profile_changes_what_it_names_and_a_duration_replaces_a_count() -> None:
    experiment = spec.loads(GOOD, "my.toml", Overrides(profile="quick"))
    assert experiment.workload.parameters["warehouses"].asked == "3"
    assert experiment.measure.transactions is None
    assert experiment.measure.max_seconds == 2
    assert experiment.profile == "quick"


def test_flags_have_the_last_word_and_a_duration_becomes_the_cap_of_a_count() -> None:
    experiment = spec.loads(GOOD, "my.toml", Overrides(profile="quick", warehouses=5, repetitions=2, transactions=50))
    assert experiment.workload.parameters["warehouses"].asked == "5"
    assert experiment.design.repetitions == 2
    assert experiment.measure.transactions == 50
    assert experiment.measure.max_seconds == 2


def test_setting_a_swept_knob_ends_its_sweep_and_sweeping_a_set_knob_frees_it() -> None:
    experiment = spec.loads(
        GOOD, "my.toml", Overrides(set_knobs=(("pool_size", "1MiB"),), sweep=(("page_size", ("4k", "8k")),))
    )
    assert texts(experiment.sweep) == {"page_size": ("4KiB", "8KiB")}
    assert experiment.knobs["pool_size"].asked == "1MiB"
    assert "page_size" not in experiment.knobs


def test_all_problems_are_told_at_once_each_with_file_line_key_and_hint() -> None:
    text = (
        GOOD.replace("io_mode", "io_mod")
        .replace('"10%"', '"0%"')
        .replace("max_transactions = 100", "max_transaction = 100")
        .replace("warehouses = 1", "warehouse = 1")
    )
    told = refusal(text)
    assert (
        'error: there is no setting "io_mod" of engine sqlite, workload tpcc or the load\n'
        "  where: my.toml:12 (knobs.io_mod)\n  hint:  did you mean io_mode?" in told
    )
    assert "where: my.toml:15 (sweep.pool_size)" in told
    assert 'unknown key "max_transaction"\n  where: my.toml:21 (warm_up.max_transaction)' in told
    assert "did you mean max_transactions?" in told
    assert 'no setting "warehouse"' in told
    assert "did you mean warehouses?" in told
    assert told.count("error:") >= 5


@pytest.mark.parametrize(
    ("knob", "value", "what"),
    [
        ("page_size", "3000", "not a power of two"),
        ("page_size", "256", "below the minimum"),
        ("page_size", "128k", "above the maximum"),
        ("page_size", "-4k", "negative"),
        ("page_size", "10%", "share"),
        ("pool_size", "0", "below the minimum"),
        ("pool_size", "0%", "not more than nothing"),
        ("pool_size", "-5%", "not more than nothing"),
        ("pool_size", "128k", "sqlite needs 64"),
        ("pool_size", "64MB", "1000s"),
        ("pool_size", "5s", 'unknown unit "s"'),
        ("io_mode", "dirct", "not one of its values"),
        ("colour", "red", "no setting"),
    ],
)
def test_an_impossible_knob_names_the_flag_and_the_reason(knob: str, value: str, what: str) -> None:
    told = refusal(set_knobs=((knob, value),))
    assert what in told
    assert f"--set {knob}={value}" in told
    assert "hint:" in told


def test_a_pool_larger_than_the_database_is_allowed() -> None:
    assert spec.loads(GOOD, "my.toml", Overrides(set_knobs=(("pool_size", "150%"),))).knobs["pool_size"].asked == "150%"


@pytest.mark.parametrize(
    ("overrides", "what"),
    [
        ({"connections": 8}, "one connection drives all terminals"),
        ({"warehouses": 0}, "warehouses = 0 is below the minimum"),
        ({"repetitions": 0}, "--repetitions 0"),
        ({"transactions": 0}, "--transactions 0"),
        ({"duration": "soon"}, "--duration soon"),
        ({"duration": "0s"}, "--duration 0s"),
        ({"seed": -1}, "--seed -1"),
        ({"engine": "sqlit"}, "did you mean sqlite?"),
        ({"profile": "full"}, "no [full] sizes"),
        ({"sweep": (("pool_size", ("5%", "5.0%")),)}, "twice"),
    ],
)
def test_an_impossible_flag_is_refused_by_name(overrides: dict[str, object], what: str) -> None:
    assert what in refusal(**overrides)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("[knobs]", "[knobs", "not valid TOML"),
        ("format_version = 1", "format_version = 2", "format_version = 2 cannot be"),
        ('name = "small"', 'name = "Sm all"', "my.toml:2 (name)"),
        ('name = "small"', "", "name is missing"),
        ('name = "tpcc"', 'name = "tpcd"', "did you mean tpcc?"),
        ("[sweep]", "[swep]", "did you mean sweep?"),
        ("warehouses = 1", 'warehouses = "many"', "not a whole number"),
        ('max_duration = "10s"', "", "needs a max_duration"),
        ('max_duration = "10s"', 'duration = "10s"', "either transactions (the rule) or duration"),
        ("transactions = 100\nmax_duration", "transactions = true\nmax_duration", "warm_up.max_transactions"),
        (
            "transactions = 100\nmax_duration",
            "transactions = 100\nmin_transactions = 101\nmax_duration",
            "is more than",
        ),
        ("pool_size = [", "page_size = [\n'8k',]\npool_size = [", "set and swept at once"),
        ("[workload]", "workload = 3\n[workloads]", "workload"),
    ],
)
def test_a_wrong_text_is_refused_where_it_is_wrong(old: str, new: str, what: str) -> None:
    assert old in GOOD
    told = refusal(GOOD.replace(old, new, 1))
    assert what in told
    assert "my.toml" in told


def test_an_unknown_experiment_suggests_the_one_that_was_meant() -> None:
    with pytest.raises(SpecError, match="did you mean buffer-size"):
        spec.load("bufer-size")


@pytest.mark.parametrize("name", ["no/such.toml", "missing.toml"])
def test_a_missing_file_is_told_as_a_file(name: str) -> None:
    with pytest.raises(SpecError, match="no file"):
        spec.load(name)


def test_a_folder_without_an_experiment_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"holds no experiment\.toml"):
        spec.load(tmp_path)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").write_bytes(b"\xff\xfe\x00binary")
    with pytest.raises(SpecError, match="cannot read"):
        spec.load(tmp_path)


def test_lines_of_keys_are_found_through_comments_strings_and_inline_tables() -> None:
    text = '# a = 1\na = "x # y"\nb.c = [1,\n 2]\n"d e" = """\nf = 1\n"""\n[t."u.v"]\ng = { h = 1, i = "}" }\nj = 2\n'
    lines = key_lines(text)
    assert lines[("a",)] == 2
    assert lines[("b", "c")] == 3
    assert lines[("d e",)] == 5
    assert ("f",) not in lines
    assert lines[("t", "u.v")] == 8
    assert lines[("t", "u.v", "j")] == 10


@pytest.mark.parametrize("profile", ["quick", "full", "smoke"])
@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("measure.durration = 2", 'unknown key "durration"'),
        ('knobs.pol_size = "5%"', 'no setting "pol_size"'),
        ('knobs.page_size = "5k"', "not a power of two"),
    ],
)
def test_a_mistake_in_a_profile_that_is_not_asked_for_is_told(profile: str, line: str, what: str) -> None:
    text = GOOD.partition("[quick]")[0] + f"[{profile}]\n{line}\n"
    assert what in refusal(text)
    assert f"({profile}.{line.partition(' ')[0]})" in refusal(text)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("99999999999999999999MiB", "above the maximum"),
        ("9" * 5000, "is not a size"),
        ("9" * 5000 + "%", "is not a share"),
        ("100000%", "1000 times the database"),
        ("1024TiB", "above the maximum"),
    ],
)
def test_a_pool_that_cannot_be_is_refused_in_few_words(value: str, what: str) -> None:
    told = refusal(set_knobs=(("pool_size", value),))
    assert what in told
    assert len(told) < 400


@pytest.mark.parametrize("number", ["1e400", "9" * 400, "-" + "9" * 400, "nan"])
def test_a_number_of_a_toml_beyond_what_is_counted_is_refused(number: str) -> None:
    for old, key in (("warehouses = 1", "warehouses"), ("max_transactions = 100", "max_transactions")):
        assert key in refusal(GOOD.replace(old, f"{key} = {number}"))


def test_more_points_than_anybody_runs_are_refused_before_they_are_made() -> None:
    sizes = tuple(f"{mib}MiB" for mib in range(1, 200))
    sweep = (("pool_size", sizes), ("wal_autocheckpoint", sizes))
    assert "the sweep has 39,601 points" in refusal(sweep=sweep)


def test_a_password_in_the_url_of_a_toml_is_refused_and_not_repeated() -> None:
    url = "mysql://me:s3cret@host/bufferlab"
    for text in (
        GOOD.replace('io_mode = "direct"', f'server = "{url}"').replace('"sqlite"', '"mysql"'),
        GOOD.replace('io_mode = "direct"', f'server = "{url}"'),
        GOOD.replace('io_mode = "direct"', f'server = ["{url}"]').replace('"sqlite"', '"mysql"'),
        GOOD.replace("[sweep]", f'[sweep]\nserver = ["{url}"]').replace('"sqlite"', '"mysql"'),
        GOOD.replace('name = "tpcc"', f'name = "{url}"'),
    ):
        assert "s3cret" not in refusal(text)
    assert "BUFFERLAB_PASSWORD" in refusal(
        GOOD.replace('io_mode = "direct"', f'server = "{url}"').replace('"sqlite"', '"mysql"')
    )


def test_a_file_too_large_to_be_an_experiment_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(SpecError, match="has at most"):
        spec.load(path)
