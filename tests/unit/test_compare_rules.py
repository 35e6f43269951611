"""`compare --fail-if`: outcomes that break a rule, outcomes that do not, and rules that cannot be judged."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bufferlab.errors import SpecError
from bufferlab.report.comparison.compare_metrics import SidesCompared, compare_sides
from bufferlab.report.comparison.compare_page import as_report
from bufferlab.report.comparison.compare_words import table
from bufferlab.report.comparison.fail_if import RuleAtPoint, RuleJudged, judge, parse, sentences, span
from bufferlab.report.comparison.sides import MatchedPoint, of_two_folders
from bufferlab.report.json_output import printed
from bufferlab.results.store import SweepFolder
from bufferlab.stats.comparison import Compared
from bufferlab.stats.estimate import Estimate
from bufferlab.stats.verdict import Direction, Verdict
from support.fake import Bench
from support.synthetic import Sweep, Truth, build

POINTS = Sweep(
    truths=(Truth("10%", 19.5), Truth("20%", 9.7)), blocks=4, noise=0.004, warm_up_seconds=2, transactions=4000
)
WORSE = replace(POINTS, truths=(Truth("10%", 19.5), Truth("20%", 10.4)), seed=3)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[SweepFolder, SweepFolder]:
    parent = tmp_path_factory.mktemp("rules")
    return build(parent / "a", POINTS), build(parent / "b", WORSE)


def judged(folders: tuple[SweepFolder, SweepFolder], *rules: str) -> SidesCompared:
    return compare_sides(of_two_folders(*folders), rules=[parse(rule) for rule in rules])


def test_a_regression_at_one_setting_breaks_the_rule_there(folders: tuple[SweepFolder, SweepFolder]) -> None:
    compared = judged(folders, "reads_per_new_order worse 5%", "reads_per_new_order worse 20%", "hit_ratio worse 1pp")
    assert [[point.outcome for point in one.points] for one in compared.rules] == [
        ["holds", "broken"],
        ["holds", "holds"],
        ["holds", "holds"],
    ]
    broken = compared.rules[0].points[1]
    assert broken.low is not None
    assert broken.high is not None
    assert 0 < broken.low < 10.4 / 9.7 - 1 < broken.high < 0.15
    assert compared.rules[0].level == pytest.approx(0.95 ** (1 / 6))
    (said,) = sentences(compared.rules[0])
    assert said.startswith("reads_per_new_order worse 5%: broken at pool size 20 % (")
    # The words explain why the rule is broken only if the interval begins below 5 %.
    reaches = "" if broken.low >= 0.05 else ": all of the interval is worse, and it reaches 5 %"
    assert said.endswith(f" % worse{reaches})")
    assert sentences(compared.rules[1]) == ["reads_per_new_order worse 20%: holds at all 2 settings"]


def test_rules_stand_in_the_object_and_on_the_page(folders: tuple[SweepFolder, SweepFolder]) -> None:
    compared = judged(folders, "reads_per_new_order worse 5%")
    (rule,) = printed(compared)["rules"]
    assert (rule["rule"]["text"], rule["outcome"], rule["rule"]["limit"]) == (
        "reads_per_new_order worse 5%",
        "broken",
        0.05,
    )
    assert rule["points"][1]["settings"] == {"pool_size": "20%"}
    (table,) = [block for block in as_report(compared).sections[0].blocks if block.id == "rules"]
    assert [row.cells[2] for row in table.rows] == ["holds", "broken"]  # type: ignore[union-attr]


def one(
    rule: str,
    low: float | None,
    high: float | None,
    *,
    ratio: bool = True,
    a: float = 10.0,
    direction: Direction = "rises",
) -> RuleAtPoint:
    verdict = Verdict(
        "a", "b", direction, Estimate(1.0, low, high, 3, note="one run"), "ratio" if ratio else "difference", None
    )
    match = MatchedPoint(0, {}, None, None)  # type: ignore[arg-type]
    (found,) = judge(parse(rule), 0.95, [(match, Compared(0, verdict, a, a, 3, 3))]).points
    return found


@pytest.mark.parametrize(
    ("rule", "low", "high", "outcome"),
    [
        ("reads_per_new_order worse 5%", 1.03, 1.07, "broken"),
        ("reads_per_new_order worse 5%", 1.06, 1.07, "broken"),
        ("reads_per_new_order worse 5%", 1.01, 1.04, "holds"),
        ("reads_per_new_order worse 5%", 0.99, 1.04, "holds"),
        ("reads_per_new_order worse 5%", 0.99, 1.06, "undecided"),
        ("reads_per_new_order worse 5%", 0.80, 0.90, "holds"),
        ("reads_per_new_order worse 0%", 1.001, 1.002, "broken"),
        ("reads_per_new_order lower 5%", 0.90, 0.97, "broken"),
        ("page_gets_per_new_order higher 5%", 1.03, 1.07, "broken"),
        ("transactions_per_s worse 5%", 0.90, 0.97, "broken"),
        ("transactions_per_s worse 5%", 1.03, 1.07, "holds"),
    ],
)
def test_a_rule_is_broken_where_a_change_is_claimed_that_may_be_as_large(
    rule: str, low: float, high: float, outcome: str
) -> None:
    assert one(rule, low, high).outcome == outcome


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.385, 0.391, "60.9–61.5 % better"),
        (0.98, 1.03, "−2 to +3 %, + is worse"),
        (1.25, 1.5, "25–50 % worse"),
    ],
)
def test_a_change_that_is_surely_good_is_not_called_a_negative_worsening(low: float, high: float, said: str) -> None:
    rule = "reads_per_new_order worse 5%"
    point = one(rule, low, high)
    assert span(RuleJudged(parse(rule), 0.95, (point,)), point) == said


@pytest.mark.parametrize(
    ("rule", "low", "high", "ratio", "said"),
    [
        ("reads_per_new_order worse 5%", 1.01, 1.08, True,
         "broken (1–8 % worse: all of the interval is worse, and it reaches 5 %)"),
        ("hit_ratio lower 1pp", -0.02, -0.005, False,
         "broken (0.5–2.0 percentage points lower: all of the interval is lower, and it reaches 1pp)"),
        ("reads_per_new_order worse 5%", 1.06, 1.08, True, "broken (6–8 % worse)"),
        ("reads_per_new_order worse 5%", 1.01, 1.04, True, "holds (1–4 % worse)"),
    ],
)  # fmt: skip
def test_an_interval_that_begins_below_the_limit_says_why_the_rule_is_broken(
    rule: str, low: float, high: float, ratio: bool, said: str
) -> None:
    point = one(rule, low, high, ratio=ratio)
    assert sentences(RuleJudged(parse(rule), 0.95, (point,))) == [f"{rule}: {said}"]


def test_an_interval_of_a_rule_without_an_end_is_null_in_the_object() -> None:
    rule = "reads_per_new_order worse 5%"
    judged = RuleJudged(parse(rule), 0.95, (one(rule, 1.25, math.inf),))
    (point,) = json.loads(json.dumps(printed(judged), allow_nan=False))["points"]
    assert (point["outcome"], point["low"], point["high"]) == ("broken", 0.25, None)


def test_shares_change_by_percentage_points_and_zeros_by_a_share_of_the_mean() -> None:
    assert one("hit_ratio worse 1pp", -0.02, -0.005, ratio=False).outcome == "broken"
    assert one("hit_ratio worse 1pp", -0.009, -0.005, ratio=False).outcome == "holds"
    assert one("reads_per_new_order worse 5%", 0.3, 0.6, ratio=False).outcome == "broken"
    assert one("reads_per_new_order worse 5%", 0.3, 0.4, ratio=False).outcome == "holds"
    assert one("reads_per_new_order worse 5%", 0.3, 0.4, ratio=False, a=0.0).outcome == "broken"


def test_identical_runs_hold_and_a_side_without_an_interval_cannot_be_judged() -> None:
    assert one("reads_per_new_order worse 0%", None, None, direction="identical").outcome == "holds"
    with pytest.raises(SpecError, match="cannot be judged: one run") as refused:
        one("reads_per_new_order worse 5%", None, None, direction="no_interval")
    assert "--repetitions" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        ("reads_per_new_order", "this is not METRIC worse LIMIT%"),
        ("reads_per_new_order worse much", "this is not METRIC worse LIMIT%"),
        ("reads_per_new_ordr worse 5%", 'no metric "reads_per_new_ordr"'),
        ("reads_per_new_order worse 5", "the limit has no unit: 5"),
        ("reads_per_new_order worse 5pp", '"pp" is not the unit of this limit'),
        ("hit_ratio worse 5%", '"%" is not the unit of this limit'),
        ("reads_per_new_order slower 5%", '"slower" is neither worse, higher nor lower'),
        ("page_gets_per_new_order worse 5%", "neither more nor less of page_gets_per_new_order is worse"),
        ("reads_per_new_order worse 5.5.5%", "5.5.5 is not a number"),
    ],
)
def test_a_rule_that_says_nothing_is_refused_with_what_to_write(rule: str, what: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse(rule)
    assert refused.value.what == what
    assert refused.value.hint
    assert rule in str(refused.value.where)


def test_a_rule_on_rates_in_a_short_window_is_refused(folders: tuple[SweepFolder, SweepFolder]) -> None:
    for metric in ("transactions_per_s", "latency_p99_us", "writes_per_new_order"):
        with pytest.raises(SpecError, match=f"{metric} cannot be judged: window") as refused:
            judged(folders, f"{metric} worse 5%")
        assert "--duration" in str(refused.value.hint)


def test_a_rule_of_a_figure_that_the_sides_lack_names_those_that_they_have(
    folders: tuple[SweepFolder, SweepFolder],
) -> None:
    with pytest.raises(SpecError, match="reads_per_row cannot be judged: not both sides have this figure") as refused:
        judged(folders, "reads_per_row worse 5%")
    assert str(refused.value.hint).startswith("both have reads_per_new_order, ")
    with pytest.raises(SpecError, match="no metric") as unknown:
        parse("reads worse 5%")
    assert "reads_per_transaction" in str(unknown.value.hint)


def test_hints_name_only_metrics_that_the_workload_has() -> None:
    for work, named in (("transaction", False), ("new_order", True)):
        with pytest.raises(SpecError) as unknown:
            parse("reads worse 5%", work)
        assert "reads_per_transaction" in str(unknown.value.hint)
        assert ("reads_per_new_order" in str(unknown.value.hint)) is named
    with pytest.raises(SpecError) as unread:
        parse("reads", "transaction")
    assert '"reads_per_transaction worse 5%"' in str(unread.value.hint)


def test_the_command_ends_with_four_and_says_why(folders: tuple[SweepFolder, SweepFolder], tmp_path: Path) -> None:
    bench, (a, b) = Bench(tmp_path), folders
    rule = "reads_per_new_order worse 5%"
    ended = bench.bufferlab("compare", a.path, b.path, "--fail-if", rule)
    assert ended.code == 4
    assert f"{rule}: broken at pool size 20 %" in ended.out
    assert bench.bufferlab("compare", b.path, a.path, "--fail-if", rule, "--json").code == 0
    assert bench.bufferlab("compare", a.path, b.path, "--fail-if", "reads worse 5%").code == 2


def test_a_rule_that_cannot_be_told_passes_or_fails_as_asked(tmp_path: Path) -> None:
    noisy = replace(POINTS, truths=POINTS.truths[:1], blocks=3, noise=0.2)
    a, b = build(tmp_path / "a", noisy), build(tmp_path / "b", replace(noisy, seed=3))
    command = ("compare", a.path, b.path, "--fail-if", "reads_per_new_order worse 5%")
    bench = Bench(tmp_path)
    ended = bench.bufferlab(*command)
    assert "cannot be told, the runs scatter too much" in ended.out
    assert "with --undecided fail with code 4" in ended.out
    assert ended.code == bench.bufferlab(*command, "--undecided", "pass").code == 0
    assert bench.bufferlab(*command, "--undecided", "fail").code == 4


def test_one_run_on_a_side_is_the_reason_though_no_run_failed(tmp_path: Path) -> None:
    # The scatter of predictions is not known.
    three = replace(POINTS, truths=POINTS.truths[:1], blocks=3, source="predicted")
    folders = {runs: build(tmp_path / str(runs), replace(three, blocks=runs, seed=runs)) for runs in (1, 3)} | {
        2: build(tmp_path / "other", replace(three, blocks=1, seed=5))
    }
    for other, said in ((3, "one run on a side: "), (2, "one run a side: ")):
        with pytest.raises(SpecError, match=f"cannot be judged: {said}"):
            judged((folders[1], folders[other]), "reads_per_new_order worse 5%")


def test_latencies_are_compared_in_long_windows_and_named_in_short_ones(
    folders: tuple[SweepFolder, SweepFolder],
) -> None:
    compared = judged(folders)
    found = compared.of("latency_p99_us")
    assert [figure.outcome for figure in found] == ["not_claimed", "not_claimed"]
    assert all(figure.found and figure.found.value_a > 0 for figure in found)


def test_the_smallest_change_that_would_have_been_found_is_named_also_where_nothing_is_claimed(
    folders: tuple[SweepFolder, SweepFolder],
) -> None:
    compared = judged(folders)
    shown = table(compared)
    assert re.search(
        r"Not claimed \(window [0-9.]+ s, needs 60 s\): .*transactions per second \([0-9.,]+ %\)", shown.caption
    )
    told = [figure for figure in compared.figures if figure.outcome == "not_distinguishable"]
    detectable = [row.cells[-1] for row in shown.rows if "not distinguishable" in row.cells]
    assert len(detectable) == len(told) >= 3
    assert all(re.fullmatch(r"<?[0-9.,]+ (%|percentage points)", cell) for cell in detectable), detectable
