"""The terminal output of every command, at 80 and 200 columns: whole words, whole column heads, and nothing cut off."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from bufferlab.audit import as_report as of_audit
from bufferlab.audit import audit_files
from bufferlab.chapter.elements import Banner, Section, Table
from bufferlab.registry import open_sweep
from bufferlab.report.build import build
from bufferlab.report.comparison import accuracy_page, compare_page, history_page
from bufferlab.report.comparison.accuracy import accuracy
from bufferlab.report.comparison.compare_metrics import compare_sides
from bufferlab.report.comparison.fail_if import parse
from bufferlab.report.comparison.history import history
from bufferlab.report.comparison.history_sweeps import read_sweeps
from bufferlab.report.comparison.sides import of_two_folders
from bufferlab.report.curve_page import as_report as of_curve
from bufferlab.report.document import Note, Report
from bufferlab.report.terminal import text
from bufferlab.traces import page_trace
from bufferlab.traces.curve import curve, misses_of_objects
from support.drawn import require_whole
from support.fake import Bench

FIXTURES = Path(__file__).parents[1] / "fixtures"
SWEEPS = FIXTURES / "sweeps"
RULES = [parse("reads_per_new_order worse 5%")]


def _sweep(_: Path) -> Report:
    return build(open_sweep(SWEEPS / "after"))


def _compare(_: Path) -> Report:
    sides = of_two_folders(open_sweep(SWEEPS / "before"), open_sweep(SWEEPS / "after"))
    return compare_page.as_report(compare_sides(sides, rules=RULES))


def _history(_: Path) -> Report:
    sweeps = read_sweeps([("", SWEEPS / "before"), ("", SWEEPS / "after")], None)
    return history_page.as_report(history(sweeps, RULES))


def _accuracy(tmp_path: Path) -> Report:
    bench = Bench(tmp_path)
    ended = bench.bufferlab("predict", SWEEPS / "traced", "--sweep", "pool_size=10%,20%,40%", "--out", bench.out)
    assert ended.code == 0, ended.err
    return accuracy_page.as_report(accuracy(open_sweep(SWEEPS / "before"), open_sweep(bench.sweep_path())))


def _curve(_: Path) -> Report:
    accesses = page_trace.read(SWEEPS / "traced").accesses()
    found = curve(accesses, accesses.window_s, lambda _: None)
    sizes = [found.pages * percent // 100 for percent in (1, 2, 5, 10, 20, 30, 40, 50, 60, 80, 100)]
    objects = misses_of_objects(accesses, accesses.window_s, sizes, lambda _: None)
    return of_curve("traced", accesses, found, sizes, 4096, objects)


def _audit(_: Path) -> Report:
    return of_audit(audit_files([FIXTURES / "audit/page-size.txt"]))


ANSWERS: dict[str, Callable[[Path], Report]] = {
    "sweep": _sweep, "compare": _compare, "history": _history, "accuracy": _accuracy, "curve": _curve, "audit": _audit,
}  # fmt: skip
_made = cache(lambda name, place: ANSWERS[name](place))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("answers")


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_has_whole_words_and_heads_at_any_width(name: str, width: int, place: Path) -> None:
    require_whole(_made(name, place), width)


def test_a_word_that_is_longer_than_the_terminal_is_broken_and_not_cut_off() -> None:
    path = "".join(f"/folder-{number}" for number in range(20))
    table = Table.of("long", "Long", ("<Name", "<Path", "n"), [("a", path, "3"), ("b", path, "4")], brief=True)
    shown = text(Report("t", "", "", sections=(Section("s", "", "", (table,)),)), 80)
    assert max(map(len, shown.splitlines())) <= 80
    assert "".join(shown.split()).count("/folder-") == 40
    assert {"a", "b", "3", "4"} <= {*shown.split()}


def test_what_reads_like_markup_is_text_in_every_part() -> None:
    report = Report(
        "t", "[red]Why?[/red]", "[b]So[/b]", ("[i]fact[/i]",), (Banner("danger", "[b]stop[/b]"),), None, None,
        ("[u]limit[/u]",), (), (), "ok", parts=("banners", "question", "answer", "facts", "notes", "limits"),
        notes=(Note("[a]", "[b]"),),
    )  # fmt: skip
    assert text(report).split() == [
        "!!", "[b]stop[/b]", "[red]Why?[/red]", "[b]So[/b]", "[i]fact[/i]", "[a][b]", "[u]limit[/u]",
    ]  # fmt: skip


def test_no_line_ends_between_a_number_and_its_unit() -> None:
    report = Report("t", "", "It took 0.148 % of a core, 12.5 KiB (5 % of 250 KiB), and 20 ms.", parts=("answer",))
    for width in range(12, 40):
        lines = text(report, width).splitlines()
        assert len(lines) > 1
        assert not [line for line in lines if line.startswith(("%", "KiB", "ms"))], width
