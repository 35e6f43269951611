"""The tools of maintainers: which lines count as code, and when two trees measure the same."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture
def count_lines(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    return import_module("count_lines")


PYTHON = '''"""A docstring
of two lines."""

# a comment
LIMIT = 3  # a line of code with a comment
"""A docstring of an attribute."""


def f(a: int) -> str:
    """Say it."""
    text = """three

    # lines, one of them blank: no comment is in a string
    """
    return text


def g() -> None: "é"; f(1)
'''


def test_python_counts_tokens_without_comments_docstrings_and_blanks(count_lines: ModuleType) -> None:
    # The counted lines: LIMIT, def f, text = (three lines with words), return, def g.
    assert count_lines.python_lines(PYTHON) == 7


RUST = r"""//! A module's docs.
use std::fmt; // code

/// Docs of an item.
/* a block /* that nests */
still a comment */
fn quote() -> (char, &'static str) {
    ('"', "// no comment, /* none */")
}

const RAW: &str = r#"
#[cfg(test)] " mod x {

"#;

#[cfg(test)]
use std::{
    io,
};

#[cfg(test)]
mod tests {
    #[test]
    fn f() { assert_eq!("}", "}"); }
}

fn after<'a>(text: &'a str) -> &'a str { text }

#[cfg(test)]
#[path = "inner/checks.rs"]
mod checks;
#[cfg(test)]
mod more;

#[cfg(all(test, target_arch = "x86_64"))]
mod other {
    const LIST: [u8; 2] = [1, 2];
}

#[cfg(all(test, any(unix, windows)))]
mod most;
"""


def test_rust_counts_tokens_outside_of_comments_and_of_items_for_tests(count_lines: ModuleType) -> None:
    # The counted lines: use, fn quote (three), RAW (three, one blank), fn after.
    assert count_lines.rust_lines(RUST) == 1 + 3 + 3 + 1


def test_a_rust_module_for_tests_in_a_file_of_its_own_is_not_counted(count_lines: ModuleType) -> None:
    files = {
        "crates/a/src/parser.rs": RUST,
        "crates/a/src/inner/checks.rs": "fn a() {}\n",
        "crates/a/src/parser/more.rs": "fn b() {}\n",
        "crates/a/src/parser/kept.rs": "fn c() {}\n",
        "crates/a/src/parser/most.rs": "fn d() {}\n",
        "crates/a/examples/shown.rs": "fn e() {}\n",
        "crates/a/tests/whole.rs": "fn d() {}\n",
    }
    assert count_lines.counted(files) == {("crates/a", "Rust"): 8 + 1}


def test_comments_of_sql_toml_and_templates_are_not_counted(count_lines: ModuleType) -> None:
    files = {
        "python/bufferlab/workloads/x/a.sql": "-- why\nSELECT 1\n\n  -- more\nFROM t;\n",
        "experiments/x/experiment.toml": "# why\n[knobs]\npool = 1  # inline\n",
        "python/bufferlab/report/page.html.j2": "{# one\ntwo #}\n<p>{{ a }}</p>\n{% if b %}{# c #}\nb\n{% endif %}\n",
        "python/bufferlab/data.json": '{\n\n"a": 1}\n',
    }
    assert count_lines.counted(files) == {
        ("bufferlab/workloads", "SQL"): 2,
        ("experiments", "TOML"): 2,
        ("bufferlab/report", "templates"): 4,
        ("bufferlab", "JSON"): 2,
    }


def test_only_sources_of_the_product_are_counted(count_lines: ModuleType) -> None:
    names = ("tests/unit/test_x.py", "benches/b.py", "crates/a/benches/b.rs", "tools/t.py", "Cargo.lock", "docs/a.toml")
    assert count_lines.counted(dict.fromkeys(names, "x = 1\n")) == {}


def test_the_table_ends_with_sums(count_lines: ModuleType) -> None:
    files = {
        "python/bufferlab/a.py": "x = 1\n",
        "python/bufferlab/spec/b.py": "y = 2\nz = 3\n",
        "Cargo.toml": "a = 1\n",
    }
    rows = count_lines.table(count_lines.counted(files)).splitlines()
    assert rows[0].split()[:3] == ["part", "Python", "Rust"]
    assert [(row.split()[0], row.split()[-1]) for row in rows[1:]] == [
        ("bufferlab", "1"),
        ("bufferlab/spec", "2"),
        ("root", "1"),
        ("total", "4"),
    ]


@pytest.fixture
def same_truth(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    return import_module("same_truth")


def row(edge: str | None, metric: str, count: int) -> list[object]:
    return [0, "measure", edge, metric, "", count]


def test_gets_of_the_samples_themselves_and_times_are_no_difference(same_truth: ModuleType) -> None:
    before = same_truth.counts([row(None, "page_gets", 7), row("end", "page_gets", 102), row("end", "db_read_ns", 5)])
    after = same_truth.counts([row("end", "page_gets", 100), row("end", "db_read_ns", 6)])
    assert before == after == {(0, "measure", "end", "page_gets", ""): 100}


def test_a_count_that_differs_or_is_missing_is_told_with_its_row(same_truth: ModuleType) -> None:
    before = same_truth.counts([row("end", "page_gets", 100), row("end", "pages_read", 1000)])
    after = same_truth.counts([row("end", "pages_read", 1001)])
    assert list(same_truth.differences(before, after)) == [
        "run 1, measure end: page_gets: 100 before, no row after",
        "run 1, measure end: pages_read: 1,000 before, 1,001 after",
    ]


def test_the_ratio_of_pairs_is_the_same_when_its_interval_contains_1_and_nothing_far(same_truth: ModuleType) -> None:
    assert same_truth.ratio_line([1.0, 0.0], [1.0, 0.0]) == ("identical", True)
    line, good = same_truth.ratio_line([10.0, 20.0, 30.0, 40.0], [10.1, 19.9, 30.1, 40.0])
    assert good
    assert line == "1.0021 (0.9839 to 1.0206, 4 pairs)"
    line, good = same_truth.ratio_line([10.0, 20.0, 30.0], [10.1, 19.8, 30.3])
    assert not good
    assert line.endswith("3 pairs) is too wide")
    assert not same_truth.ratio_line([10.0, 20.0, 30.0], [11.0, 22.1, 33.0])[1]
    assert not same_truth.ratio_line([10.0, 20.0], [0.0, 20.0])[1]


@pytest.fixture
def same_or_doubled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    tool = import_module("same_or_doubled")
    monkeypatch.setattr(tool, "TABLE", tmp_path / "table.csv")
    return tool


def test_a_pair_that_is_in_the_table_is_not_measured_again(
    same_or_doubled: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tool, measured = same_or_doubled, []

    def pair(kind: str, number: int) -> object:
        measured.append((kind, number))
        claimed = {"same": "" if number else "page_gets_per_new_order", "doubled": "reads_per_new_order other"}[kind]
        failed = "little" if number == 1 else ""
        return tool.Pair(kind, number, 11.5, 11.25 if kind == "same" else 4.0, 5, claimed, failed, 6.5)

    monkeypatch.setattr(tool, "measured", pair)
    tool.main(["--pairs", "2", "--doubled", "1"])
    assert sorted(measured) == [("doubled", 0), ("same", 0), ("same", 1)]
    tool.main(["--pairs", "4", "--doubled", "2"])
    assert sorted(measured[3:]) == [("doubled", 1), ("same", 2), ("same", 3)]
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "one setting: 1 of 4 pairs claim something, 25.0% (95% interval 0.63% to 80.59%); of the 20 metrics judged 1",
        "twice the pool: fewer reads are claimed in 2 of 2 pairs, 100.0% (95% interval 15.8% to 100.0%)",
        "checks failed in 2 of 6 pairs",
        "  little: 2",
    ]


@pytest.fixture
def history_alarms(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    return import_module("history_alarms")


def test_sweeps_for_histories_are_kept_as_they_end_and_what_the_table_lacks_is_measured(
    history_alarms: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool, table, measured = history_alarms, tmp_path / "sweeps.csv", []

    def as_measured(kind: str, number: int) -> dict[str, str]:
        if len(measured) == 2:
            raise KeyboardInterrupt
        measured.append((kind, number))
        return {"kind": kind, "sweep": str(number), "reads_per_new_order": str(10.5 + number), "pages": "7.0"}

    monkeypatch.setattr(tool, "_measured", as_measured)
    with pytest.raises(KeyboardInterrupt):
        tool.measure({"same": 2, "smaller": 1}, table)
    assert measured == [("same", 0), ("same", 1)]
    measured.clear()
    tool.measure({"same": 2, "smaller": 1}, table)
    assert measured == [("smaller", 0)]
    found = tool.real(table)
    assert found.metrics == ("reads_per_new_order",), "a metric that never differs is left out"
    assert np.exp(found.same[:, 0]) == pytest.approx([10.5, 11.5])


def test_a_table_of_sweeps_gets_its_folder_and_has_the_figures_of_its_first_row(
    history_alarms: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = {"same": {"reads_per_new_order": "10.5"}, "smaller": {"reads_per_new_order": "11.5", "of_a_minute": "7.0"}}
    monkeypatch.setattr(history_alarms, "_measured", lambda kind, number: {"kind": kind, "sweep": "0", **rows[kind]})
    table = tmp_path / "new" / "sweeps.csv"
    history_alarms.measure({"same": 1, "smaller": 1}, table)
    assert table.read_text() == "kind,sweep,reads_per_new_order\nsame,0,10.5\nsmaller,0,11.5\n"


def test_measuring_for_histories_goes_to_a_table_that_is_named_and_never_into_the_fixture(
    history_alarms: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = []
    monkeypatch.setattr(history_alarms, "measure", lambda wanted, table: measured.append((wanted, table)))
    with pytest.raises(SystemExit) as ended:
        history_alarms.main(["--measure"])
    assert ended.value.code == 2
    assert "--measure needs --table FILE" in capsys.readouterr().err
    history_alarms.main(["--measure", "--smaller", "3", "--table", str(tmp_path / "sweeps.csv")])
    assert measured == [({"same": 40, "smaller": 3}, tmp_path / "sweeps.csv")]


@pytest.mark.parametrize(("reasons", "told"), [([None, "no space left"], "no space left"), ([], "no reason is stored")])
def test_a_quick_sweep_that_failed_ends_its_tool_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reasons: list[str | None], told: str
) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    tool = import_module("quick_sweeps")
    folder = SimpleNamespace(runs=lambda: [SimpleNamespace(reason=reason) for reason in reasons])
    outcome = SimpleNamespace(folder=folder, failed=1, signal_number=None)
    monkeypatch.setattr(tool, "run_sweep", lambda *_, **__: outcome)
    with pytest.raises(SystemExit) as ended:
        tool.quick_sweep(tmp_path, "20%", 7)
    assert ended.value.code == f"the sweep of seed 7 failed: {told}"
    outcome.failed = 0
    assert tool.quick_sweep(tmp_path, "20%", 7) is folder


def test_the_interval_of_a_share_is_the_exact_one(same_or_doubled: ModuleType) -> None:
    """For none of n its ends are 0 and 1 - 0.025^(1/n); printed tables have the interval of 5 in 10."""
    assert same_or_doubled.interval(0, 200) == (0.0, pytest.approx(1 - 0.025 ** (1 / 200)))
    assert same_or_doubled.interval(20, 20) == (pytest.approx(0.025 ** (1 / 20)), 1.0)
    assert same_or_doubled.interval(5, 10) == (pytest.approx(0.1871, abs=5e-5), pytest.approx(0.8129, abs=5e-5))
