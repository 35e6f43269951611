"""Histories: the order of sweeps, sweeps set apart, changes with their sizes, and rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bufferlab.chapter.elements import PanelsPlot, PointsPlot
from bufferlab.errors import SpecError
from bufferlab.report.comparison import history_sweeps as history_sweeps
from bufferlab.report.comparison.fail_if import parse
from bufferlab.report.comparison.history import History, history
from bufferlab.report.comparison.history_page import as_report, values_table
from bufferlab.report.comparison.history_sweeps import PointTold, Sweeps, SweepTold, named, read_sweeps
from bufferlab.report.comparison.history_words import answer, rule_lines
from bufferlab.report.figures.svg import draw
from bufferlab.report.json_output import printed

READS, SHARE = "reads_per_new_order", "hit_ratio"
Values = dict[str, tuple[float, ...]]
LIKE = {"experiment": "buffer-size", "engine": "sqlite", "source": "measured", "host cores": "2"}


def sweep(place: int, points: dict[str, Values], **more: Any) -> SweepTold:
    told = [
        PointTold({"pool_size": pool, "io_mode": "direct"}, {"pool_size": pool}, frozenset({"data"}), values)
        for pool, values in points.items()
    ]
    found = SweepTold(
        name=f"s{place:02d}",
        path=Path(f"/runs/s{place:02d}"),
        began_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=place),
        headline=READS,
        metrics=(READS, SHARE),
        points=tuple(told),
        run_ids=frozenset({f"run {place}"}),
        failed_runs=0,
        failed_checks=(),
        blocked={},
        like=LIKE,
        beside={"kernel": "6.1", "sqlite": "3.50"},
    )
    return replace(found, **more)


def many(count: int = 20, change: float = 1.1, at: int = 12, **more: Any) -> list[SweepTold]:
    """Return `count` sweeps of two points; from sweep `at` on the first point reads more."""
    random = np.random.default_rng(1)
    found = []
    for place in range(count):
        noise = random.normal(0, 0.01, 3)
        reads = 10 * float(np.exp(noise[0])) * (change if place >= at else 1.0)
        small = {READS: (reads, reads * 1.001), SHARE: (0.9 + 0.2 * float(noise[1]),)}
        large = {READS: (2 * float(np.exp(noise[2])),), SHARE: (0.98,)}
        found.append(sweep(place, {"10%": small, "40%": large}, **more))
    return found


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Sweeps]:
    """Replace the reading of folders by these sweeps."""

    def reading(sweeps: Sequence[SweepTold], order: Path | None = None, names: Sequence[str] = ()) -> Sweeps:
        by_path = {one.path: one for one in sweeps}
        monkeypatch.setattr(history_sweeps, "told_of", lambda path, also: by_path[path])
        given = names or [""] * len(sweeps)
        return read_sweeps([(name, one.path) for name, one in zip(given, sweeps, strict=True)], order)

    return reading


def told(sweeps: Sequence[SweepTold], *rules: str, since: str = "") -> History:
    return history(Sweeps(tuple(sweeps), (), "dates"), [parse(rule) for rule in rules], since)


def test_a_change_has_its_sweep_its_size_and_what_else_changed_there() -> None:
    sweeps = many()
    sweeps[12:] = [replace(one, beside={**one.beside, "kernel": "6.2"}) for one in sweeps[12:]]
    found = told(sweeps)
    (event,) = found.events
    assert (event.place, event.beside) == (12, {"kernel": ("6.1", "6.2")})
    (step,) = event.figures
    assert (step.metric, step.setting.label) == (READS, "pool size 10 %")
    estimate = step.found.verdict.estimate
    assert estimate.ci_low is not None
    assert estimate.ci_high is not None
    assert estimate.ci_low < 1.1 < estimate.ci_high
    assert answer(found).startswith("1 change in 20 sweeps. From sweep 13 (s12) on, reads per New-Order are ")
    assert answer(found).endswith("higher at pool size 10 %.")


def test_without_a_change_the_answer_says_which_would_have_been_found() -> None:
    found = told(many(change=1.0))
    assert found.events == ()
    assert answer(found).startswith("No change is found in 20 sweeps (a step of 2.")


def test_too_few_sweeps_claim_nothing_and_fail_no_build() -> None:
    found = told(many(8, change=3.0, at=4), "reads_per_new_order worse 5%")
    assert answer(found) == "No claim: 8 sweeps, and a change is told from chance by 9 or more."
    assert [judged.outcome for judged in found.rules] == ["undecided"]


@pytest.mark.parametrize(
    ("rule", "since", "outcome"),
    [
        ("reads_per_new_order worse 5%", "", "broken"),
        ("reads_per_new_order worse 5%", "s12", "broken"),
        ("reads_per_new_order worse 5%", "s13", "holds"),
        ("reads_per_new_order worse 20%", "", "holds"),
        ("reads_per_new_order lower 5%", "", "holds"),
        ("hit_ratio worse 1pp", "", "holds"),
        ("hit_ratio worse 0.1pp", "", "undecided"),
    ],
)
def test_a_rule_is_broken_by_a_change_to_the_worse_since_the_sweep_named(rule: str, since: str, outcome: str) -> None:
    (judged,) = told(many(), rule, since=since).rules
    assert judged.outcome == outcome


def test_a_rule_says_where_it_is_broken_and_by_how_much() -> None:
    found = told(many(), "reads_per_new_order worse 5%")
    (line,) = rule_lines(found, found.rules[0])
    assert line.startswith("reads_per_new_order worse 5%: broken at pool size 10 % (")


@pytest.mark.parametrize(("limit", "outcome"), [("20%", "holds"), ("1%", "undecided")])
def test_a_change_to_the_better_makes_no_rule_hold_whose_limit_would_go_unseen(limit: str, outcome: str) -> None:
    sweeps = [replace(one, points=one.points[:1]) for one in many(change=0.8)]
    found = told(sweeps, f"reads_per_new_order worse {limit}")
    assert len(found.events) == 1
    (judged,) = found.rules
    assert judged.outcome == outcome
    if outcome == "undecided":
        (line,) = rule_lines(found, judged)
        assert line.endswith("(no further change is found, nor would the limit have been)")


@pytest.mark.parametrize(
    ("changing", "said"),
    [
        (10, " Left out: 2 more panels, 2 with a change."),
        (9, " Left out: 2 more panels, 1 with a change."),
        (3, " Left out: 2 more panels, none with a change."),
    ],
)
def test_the_figure_says_how_many_panels_it_leaves_out_and_how_many_of_them_have_a_change(
    changing: int, said: str
) -> None:
    """Ten settings give ten panels; eight are drawn, those with a change first."""
    random = np.random.default_rng(1)
    noise = np.exp(random.normal(0, 0.01, (20, 10)))
    sweeps = []
    for place in range(20):
        levels = [1.5 if place >= 12 and at < changing else 1.0 for at in range(10)]
        reads = 10 * noise[place] * levels
        points: dict[str, Values] = {f"{at + 1}%": {READS: (float(value),)} for at, value in enumerate(reads)}
        sweeps.append(sweep(place, points, metrics=(READS,)))
    found = told(sweeps)
    assert sum(bool(one.steps) for one in found.series) == changing
    figure = as_report(found).headline
    assert figure is not None
    assert figure.caption.endswith(f"Axes do not start at zero.{said}")
    assert isinstance(figure.plot, PanelsPlot)
    assert len(figure.plot.panels) == 8


@pytest.mark.figures
def test_a_figure_that_shows_every_panel_leaves_none_out() -> None:
    figure = as_report(told(many())).headline
    assert figure is not None
    assert figure.caption.endswith("Axes do not start at zero.")
    drawn = draw(figure)
    assert "(pages)" in drawn, "the vertical axis has a title"
    assert ">s00</text>" in drawn, "sweeps have their names"


@pytest.mark.figures
def test_a_figure_that_is_always_zero_has_no_axis_about_zero_and_one_without_values_no_panel() -> None:
    sweeps = [sweep(place, {"10%": {READS: (0.0,)}, "40%": {SHARE: (0.9,)}}) for place in range(20)]
    figure = as_report(told(sweeps)).headline
    assert figure is not None
    assert isinstance(figure.plot, PointsPlot)
    assert ">−0.05</text>" not in draw(figure).replace("-", "−")


def test_rules_of_unknown_and_unclaimed_figures_are_mistakes() -> None:
    with pytest.raises(SpecError, match="no sweep has such a figure"):
        told(many(), "server_cpu_us_per_transaction worse 5%")
    with pytest.raises(SpecError, match="window 3 s, needs 60 s"):
        told(many(blocked={READS: "window 3 s, needs 60 s"}), "reads_per_new_order worse 5%")
    with pytest.raises(SpecError, match="no sweep of the history has this name"):
        told(many(), since="s99")


def test_figures_of_which_nothing_may_be_claimed_have_no_change() -> None:
    found = told(many(blocked={READS: "window 3 s, needs 60 s"}))
    assert found.events == ()
    assert any("Not claimed (window 3 s, needs 60 s)" in line for line in as_report(found).limits)


def test_a_sweep_that_may_claim_nothing_of_a_figure_is_left_out_of_it_alone_and_named() -> None:
    sweeps = many()
    sweeps[3] = replace(sweeps[3], blocked={READS: "gaps of 4 s, in 1 of 6 runs"})
    found = told(sweeps)
    assert {one.unclaimed for one in found.series} == {None}
    assert {one.values[3] for one in found.of(READS)} == {None}
    assert all(one.n == len(sweeps) - 1 for one in found.of(READS))
    words = f"Figures of sweep 4 ({sweeps[3].name}) are left out (gaps of 4 s, in 1 of 6 runs)."
    assert words in as_report(found).limits


def test_sweeps_stand_in_the_order_of_their_dates_or_of_a_file(read: Callable[..., Sweeps], tmp_path: Path) -> None:
    sweeps = many(3)
    assert [one.name for one in read([sweeps[2], sweeps[0], sweeps[1]]).kept] == ["s00", "s01", "s02"]
    order = tmp_path / "order"
    order.write_text("3f2a91c0d5e8\n8be01d4aa071 a better cache\n\ns02\n0000000\n")
    found = read(sweeps, order, ["8be01d4", "3f2a91c", ""])
    assert [(one.name, one.line) for one in found.kept] == [
        ("3f2a91c0d5e8", ""),
        ("8be01d4aa071", "a better cache"),
        ("s02", ""),
    ]
    assert (found.order, found.place_of("8be01d4", "--since")) == ("file", 1)


def test_folders_that_are_named_alike_are_told_apart_by_the_folders_above(read: Callable[..., Sweeps]) -> None:
    sweeps = [replace(one, name="x", path=Path(f"/runs/{place}/x")) for place, one in enumerate(many(2))]
    assert [one.name for one in read(sweeps).kept] == ["0/x", "1/x"]


@pytest.mark.parametrize(
    ("text", "names", "says"),
    [
        ("aaaaaaa\nbbbbbbb\n", ["aaaaaaa", "bbbbbbc"], "the order lacks this sweep"),
        ("aaaaaaab\naaaaaaac\n", ["aaaaaaa", "aaaaaaab"], "stands for several names"),
        ("aaaaaaa\naaaaaaa\n", ["aaaaaaa", "bbbbbbb"], "is there twice"),
        ("aaaaaaab\n", ["aaaaaaa", "aaaaaaab"], 'two sweeps have the name "aaaaaaab"'),
        (b"\xff\xfe\x00", ["a", "b"], "the order cannot be read: it is no text"),
        (None, ["a", "b"], "the order cannot be read: No such file"),
        ("", ["a", "b"], "the order has no name"),
        ("\n  \n", ["", ""], "the order has no name"),
    ],
)
def test_an_order_that_does_not_fit_is_a_mistake(
    read: Callable[..., Sweeps], tmp_path: Path, text: str | bytes | None, names: list[str], says: str
) -> None:
    order = tmp_path / "order"
    if text is not None:
        order.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SpecError, match=says) as error:
        read(many(2), order, names)
    assert error.value.exit_code == 2
    assert error.value.hint


def test_arguments_are_folders_or_names_with_folders() -> None:
    assert named(["a=runs/one", "runs/two"]) == [("a", Path("runs/one")), ("", Path("runs/two"))]
    for wrong, says in (
        (["=runs/one"], "neither FOLDER"),
        (["a="], "neither FOLDER"),
        (["a=x", "a=y"], "have the name"),
    ):
        with pytest.raises(SpecError, match=says):
            named(wrong)


def test_one_sweep_and_a_sweep_twice_are_mistakes(read: Callable[..., Sweeps]) -> None:
    (one, other) = many(2)
    with pytest.raises(SpecError, match="one sweep has no history"):
        read([one])
    with pytest.raises(SpecError, match="the same runs"):
        read([one, replace(other, run_ids=one.run_ids)])


def changed(one: SweepTold, **more: str) -> SweepTold:
    return replace(one, like={**one.like, **more})


def with_setting(one: SweepTold, name: str, value: str) -> SweepTold:
    return replace(one, points=tuple(replace(point, asked={**point.asked, name: value}) for point in one.points))


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (
            lambda one: changed(one, experiment="hot-rows", **{"host cores": "4"}),
            "experiment hot-rows, not buffer-size",
        ),
        (lambda one: changed(one, **{"host cores": "4"}), "host cores 4, not 2"),
        (lambda one: with_setting(one, "io_mode", "buffered"), "io mode buffered, not direct"),
        (
            lambda one: replace(one, points=tuple(replace(p, data_keys=frozenset({"other"})) for p in one.points)),
            "loaded data other, not data",
        ),
        (lambda one: replace(one, points=(), run_ids=frozenset(), began_at=None), "no run ended well"),
    ],
)
def test_sweeps_that_are_not_like_most_are_set_apart_by_name(
    read: Callable[..., Sweeps], other: Callable[[SweepTold], SweepTold], reason: str
) -> None:
    sweeps = many(6)
    sweeps[2] = other(sweeps[2])
    found = read(sweeps)
    assert [(one.sweep.name, one.reason) for one in found.apart] == [("s02", reason)]
    assert len(found.kept) == 5
    with pytest.raises(SpecError, match="set apart"):
        found.place_of("s02", "--since")


@pytest.mark.parametrize(
    "other",
    [
        lambda one: replace(one, beside={"kernel": "6.9", "sqlite": "3.51"}),
        lambda one: with_setting(one, "server", "/builds/new/mysqld"),
        lambda one: with_setting(one, "a_setting_of_a_later_version", "1"),
    ],
)
def test_what_is_measured_along_a_history_sets_nothing_apart(
    read: Callable[..., Sweeps], other: Callable[[SweepTold], SweepTold]
) -> None:
    sweeps = many(6)
    sweeps[4:] = [other(one) for one in sweeps[4:]]
    assert read(sweeps).apart == ()


def test_of_two_kinds_the_larger_is_judged_and_of_equal_ones_the_newer(read: Callable[..., Sweeps]) -> None:
    sweeps = many(4)
    sweeps[:2] = [changed(one, **{"host cores": "4"}) for one in sweeps[:2]]
    assert [one.name for one in read(sweeps).kept] == ["s02", "s03"]


def test_a_sweep_without_a_point_leaves_a_gap() -> None:
    sweeps = many()
    sweeps[5] = replace(sweeps[5], points=sweeps[5].points[1:])
    found = told(sweeps)
    assert found.of(READS)[0].values[5] is None
    assert [event.place for event in found.events] == [12]


def test_the_table_for_programs_has_every_value_with_its_level() -> None:
    found = told(many())
    rows = values_table(found).rows
    assert len(rows) == 20 * 4
    heads = [column.title for column in values_table(found).columns]
    of = [dict(zip(heads, row.cells, strict=True)) for row in rows]
    mine = [one for one in of if one["metric"] == READS and one["settings"] == "pool_size=10%"]
    assert [one["sweep"] for one in mine if one["change"]] == ["13"]
    assert len({one["level"] for one in mine}) == 2


def test_the_object_has_the_change_with_unrounded_numbers() -> None:
    document = printed(told(many(), "reads_per_new_order worse 5%"))
    (change,) = document["events"]
    assert (change["place"], document["sweeps"]["kept"][12]["name"]) == (12, "s12")
    (figure,) = change["figures"]
    found = figure["found"]
    estimate = found["verdict"]["estimate"]
    assert estimate["ci_low"] < estimate["value"] < estimate["ci_high"]
    assert (found["n_a"], found["n_b"], found["verdict"]["contrast"]) == (12, 8, "ratio")
    assert document["rules"][0]["outcome"] == "broken"
