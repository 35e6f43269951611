"""`compare` on sweeps whose true values are known: what it claims, what it must not claim, and what it refuses."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bufferlab.chapter.elements import EffectsPlot, Figure, PointsPlot
from bufferlab.errors import SpecError
from bufferlab.registry import open_sweep
from bufferlab.report.comparison.compare_metrics import SidesCompared, compare_sides
from bufferlab.report.comparison.compare_page import as_report
from bufferlab.report.comparison.compare_words import answer, table
from bufferlab.report.comparison.sides import of_one_folder, of_two_folders
from bufferlab.report.document import as_json
from bufferlab.report.html import render_html
from bufferlab.report.json_output import printed
from bufferlab.report.markdown import render_markdown
from bufferlab.report.terminal import text
from bufferlab.results.store import SweepFolder
from support.synthetic import BUFFER_SIZE, Sweep, Truth, build, reseal, shared

HEADLINE = "reads_per_new_order"
FIXTURES = Path(__file__).parents[1] / "fixtures/sweeps"
TWO = (Truth("10%", 19.5), Truth("20%", 9.7))
#: Short windows: the planted effects do not depend on the length, and the tests write fewer samples.
SHORT: dict[str, Any] = {"warm_up_seconds": 2, "transactions": 4000}
ONE = Sweep(truths=TWO[:1], blocks=5, noise=0.012, block_noise=0.0, **SHORT)
OTHER_SEEDS = {"seed": 3, "first_seed": 5000}


def two(first: Sweep, second: Sweep, *, force: bool = False) -> SidesCompared:
    return compare_sides(of_two_folders(shared(first), shared(second)), force=force)


def scaled(sweep: Sweep, factor: float) -> Sweep:
    return replace(
        sweep,
        truths=tuple(replace(truth, reads_per_new_order=factor * truth.reads_per_new_order) for truth in sweep.truths),
    )


def outcomes(compared: SidesCompared, metric: str = HEADLINE) -> list[str]:
    return [figure.outcome for figure in compared.of(metric)]


def interval(compared: SidesCompared) -> tuple[float, float, float]:
    found = compared.of(HEADLINE)[0].found
    assert found is not None
    estimate = found.verdict.estimate
    assert estimate.ci_low is not None
    assert estimate.ci_high is not None
    return estimate.value, estimate.ci_low, estimate.ci_high


def test_the_same_setting_with_other_seeds_is_not_distinguishable() -> None:
    compared = two(ONE, replace(ONE, **OTHER_SEEDS))
    assert outcomes(compared) == ["not_distinguishable"]
    assert compared.method == "welch"
    assert answer(compared).startswith("Not distinguishable: reads per New-Order change by −")
    assert "would have been found" in answer(compared)


@pytest.mark.parametrize("change", [1.05, 1.20])
@pytest.mark.parametrize("seeds", [{}, OTHER_SEEDS])
def test_a_planted_change_is_claimed_and_lies_in_the_interval(change: float, seeds: dict[str, int]) -> None:
    compared = two(ONE, replace(scaled(ONE, change), **{"seed": 3, **seeds}))
    _, low, high = interval(compared)
    assert outcomes(compared) == ["different"]
    assert 1 < low < change < high
    assert compared.method == ("welch" if seeds else "paired")
    assert "% higher with B than with A" in answer(compared)


def test_swapped_sides_give_the_reciprocal(tmp_path: Path) -> None:
    a, b = build(tmp_path / "a", ONE), build(tmp_path / "b", replace(scaled(ONE, 1.2), **OTHER_SEEDS))
    value, low, high = interval(compare_sides(of_two_folders(a, b)))
    back = interval(compare_sides(of_two_folders(b, a)))
    assert (1 / back[0], 1 / back[2], 1 / back[1]) == pytest.approx((value, low, high))


def test_a_folder_compared_with_itself_is_the_same_in_every_figure() -> None:
    sweep = shared(Sweep(**SHORT))
    compared = compare_sides(of_two_folders(sweep, sweep))
    assert {figure.outcome for figure in compared.figures} == {"same"}
    assert answer(compared).startswith(f"The same: {len(compared.metrics)} figures compared, identical in every run")
    assert "A and B are the same folder." in compared.warnings


def test_points_are_matched_by_what_was_swept_and_the_rest_is_listed() -> None:
    first = Sweep(truths=BUFFER_SIZE[:3], blocks=3, **SHORT)
    compared = two(first, replace(first, truths=BUFFER_SIZE[1:4], seed=2))
    assert [match.settings for match in compared.sides.matched] == [{"pool_size": "10%"}, {"pool_size": "20%"}]
    assert [point.label for point in compared.sides.only_a] == ["pool_size 5%"]
    assert [point.label for point in compared.sides.only_b] == ["pool_size 40%"]
    assert "only in A: pool_size 5%" in on_terminal(compared)


def test_single_points_are_compared_though_their_settings_differ() -> None:
    compared = two(ONE, replace(ONE, truths=TWO[1:], seed=2))
    assert outcomes(compared) == ["different"]
    assert compared.differing_settings == {"pool_size": ("10 %", "20 %")}


def left_to_the_server(folder: SweepFolder, wal_buffers: int) -> SweepFolder:
    setting = {"asked": "auto", "actual": wal_buffers, "unit": "bytes"}
    return reseal(folder, lambda run: run["settings"].update(wal_buffers=setting))


def test_the_setting_that_differs_comes_before_what_a_server_derived_from_it(tmp_path: Path) -> None:
    a, b, like_a = (
        left_to_the_server(build(tmp_path / name, replace(ONE, truths=truths, seed=seed)), size * 1024)
        for name, truths, seed, size in (("a", TWO[:1], 1, 1526), ("b", TWO[1:], 2, 1444), ("c", TWO[:1], 2, 1444))
    )
    shown = on_terminal(compare_sides(of_two_folders(a, b))).splitlines()
    named = shown.index("Setting that differs: pool_size 10 % (A), 20 % (B).")
    derived = "wal_buffers was 1.49 MiB and 1.41 MiB"
    assert shown[named + 1] == f"! Left to the server, and may follow from what differs: {derived}."
    assert "run differently" not in "".join(shown)
    # This is the only difference between the sides, so no setting that was asked for explains it.
    alike = on_terminal(compare_sides(of_two_folders(a, like_a)))
    assert f"Asked alike, run differently: {derived} at pool size 10 %." in alike
    assert "Setting that differs" not in alike
    assert "Left to the server" not in alike


def test_sweeps_without_a_common_point_are_refused_with_what_each_has() -> None:
    with pytest.raises(SpecError) as caught:
        two(replace(ONE, truths=BUFFER_SIZE[:2]), replace(ONE, truths=BUFFER_SIZE[2:4]))
    assert "A has pool_size 5 %; pool_size 10 %" in (caught.value.hint or "")


def test_two_settings_of_one_sweep_are_paired_and_use_the_noise_of_all() -> None:
    compared = compare_sides(of_one_folder(shared(Sweep(blocks=3, **SHORT)), "pool_size=10%", "pool_size=20%"))
    found = compared.of(HEADLINE)[0].found
    assert found is not None
    assert compared.method == "paired"
    assert (found.verdict.estimate.df or 0) > 2, "three pairs alone have two degrees of freedom"
    assert outcomes(compared) == ["different"]
    assert "lower with pool_size 20 % than with pool_size 10 %" in answer(compared)


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ("pool_size", "pool_size=20%", "is not setting=value"),
        ("page_size=4k", "page_size=8k", "page_size was not swept"),
        ("pool_size=11%", "pool_size=20%", "no point with pool_size 11 %"),
        ("pool_size=64MB", "pool_size=20%", "1000s"),
        ("pool_size=10%", "pool_size=10.0%", "both sides are the same setting"),
    ],
)
def test_settings_that_are_not_there_are_refused(first: str, second: str, says: str) -> None:
    with pytest.raises(SpecError, match=says) as caught:
        of_one_folder(shared(ONE_OF_TWO), first, second)
    assert caught.value.hint


ONE_OF_TWO = Sweep(truths=TWO, blocks=2, **SHORT)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"engine": "fake"}, "the engine differs"),
        ({"workload": {"version": 2}}, "the workload differs"),
        ({"workload": {"script": "mine.sql", "script_sha256": "ab12"}}, "the workload differs"),
        ({"warehouses": 3, "load": 7}, "the loaded data differ in warehouses"),
        ({"load": 7}, "no setting explains it"),
        ({"load": 7, "versions": {"core": "0.2.0"}}, "different versions of the loader"),
    ],
)
def test_what_would_mean_nothing_is_refused_unless_forced(other: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says) as caught:
        two(ONE, replace(ONE, seed=2, **other))
    assert caught.value.exit_code == 2
    assert "--force" in (caught.value.hint or "")
    compared = two(ONE, replace(ONE, seed=2, **other), force=True)
    assert says in on_terminal(compared)
    # Equal seeds mean nothing if the data differ.
    assert compared.method == "welch"


def test_another_page_size_explains_other_data() -> None:
    compared = two(ONE, replace(ONE, page_size_bytes=16384, seed=2))
    assert not compared.forced
    assert compared.differing_settings == {"page_size": ("4 KiB", "16 KiB")}


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"host": {"kernel": "6.9.1"}}, "The hosts differ: kernel 6.1.0-18-amd64 and 6.9.1."),
        ({"versions": {"core": "0.2.0"}}, "Versions differ: core 0.1.0 and 0.2.0."),
        ({"day": 9}, "different days (2026-01-05 and 2026-01-09)"),
        ({"transactions": 5000}, "4,000 and 5,000 transactions"),
        ({"warm_up_transactions": 300_000}, "The warm-ups differ: 4,600 and 300,000 transactions."),
        ({"io_mode": "buffered", "page_size_bytes": 8192}, "More than one setting differs"),
        ({"database_bytes": 340 * 1024**2}, "Asked alike, run differently: pool_size was 17 MiB and 34 MiB"),
    ],
)
def test_what_a_reader_must_know_is_warned_of(other: dict[str, Any], says: str) -> None:
    compared = two(ONE, replace(ONE, seed=2, **other))
    assert any(says in warning for warning in compared.warnings), compared.warnings


def test_a_side_whose_page_accesses_were_recorded_is_named(tmp_path: Path) -> None:
    a, b = build(tmp_path / "a", ONE), build(tmp_path / "b", replace(ONE, seed=2))
    reseal(b, lambda run: run.update(page_trace={"status": "dropped", "recorder": "inside"}))
    says = "Page accesses were recorded on A by nobody, on B by the server: a trace may change times"
    assert any(says in warning for warning in compare_sides(of_two_folders(a, b)).warnings)
    reseal(a, lambda run: run.update(page_trace={"status": "failed", "recorder": "inside"}))
    assert compare_sides(of_two_folders(a, b)).warnings == ()


def test_sweeps_of_one_kind_on_one_day_warn_of_nothing() -> None:
    assert two(ONE, replace(ONE, seed=2)).warnings == ()


def test_two_folders_on_one_host_are_no_two_hosts() -> None:
    one, other = ({"data_directory": f"/srv/{name}"} for name in ("before", "after"))
    assert two(replace(ONE, host=one), replace(ONE, seed=2, host=other)).warnings == ()


def test_a_version_that_a_side_does_not_record_is_none() -> None:
    one = replace(ONE, versions={"core": "0.1.0", "mysql mysql-5.7": "5.7.22"})
    other = replace(ONE, seed=2, versions={"core": "0.2.0", "mysql mysql-8.0": "8.0.15"})
    assert two(one, other).warnings == ("Versions differ: core 0.1.0 and 0.2.0.",)


def test_throughput_and_writes_of_short_windows_are_not_claimed() -> None:
    slow = Sweep(truths=TWO[:1], blocks=5, throughput_noise=0.001)
    compared = two(slow, replace(scaled(slow, 3.0), seed=2))
    assert outcomes(compared, "transactions_per_s") == ["not_claimed"]
    assert "needs 60 s" in (compared.of("transactions_per_s")[0].reason or "")


def test_throughput_of_long_windows_is_claimed() -> None:
    slow = Sweep(truths=TWO[:1], blocks=5, throughput_noise=0.001, transactions=90_000, interval_s=10)
    compared = two(slow, replace(scaled(slow, 3.0), seed=2))
    assert outcomes(compared, "transactions_per_s") == ["different"]


@pytest.mark.parametrize("seeds", [{"seed": 2}, OTHER_SEEDS])
@pytest.mark.parametrize("blocks", [1, 2])
def test_so_few_runs_claim_a_plain_change_of_a_count_and_say_what_it_rests_on(
    seeds: dict[str, int], blocks: int
) -> None:
    few = replace(ONE, blocks=blocks)
    compared = two(few, replace(scaled(few, 2.0), **seeds))
    _, low, high = interval(compared)
    assert outcomes(compared) == ["different"]
    assert low < 2.0 < high
    # Two runs a side have their own interval if it is narrower.
    rests_on_known = re.search(
        r"\(n = 1 a side; the change is \d+ times the usual difference of two runs", answer(compared)
    )
    assert bool(rests_on_known) == (blocks == 1)
    assert outcomes(compared, "transactions_per_s") == ["not_claimed"]
    if blocks == 1:
        assert any("For times and phases" in limit for limit in as_report(compared).limits)


@pytest.mark.parametrize("seeds", [{"seed": 2}, OTHER_SEEDS])
def test_one_run_a_side_does_not_claim_a_small_change(seeds: dict[str, int]) -> None:
    single = replace(ONE, blocks=1)
    assert outcomes(two(single, replace(scaled(single, 1.02), **seeds))) == ["not_distinguishable"]


def test_one_run_a_side_of_a_figure_without_a_known_scatter_claims_nothing_and_says_why() -> None:
    single = replace(ONE, blocks=1, source="predicted")
    compared = two(single, replace(scaled(single, 2.0), seed=2))
    assert outcomes(compared) == ["not_claimed"]
    assert answer(compared).startswith("No claim: ")
    assert "interval" not in answer(compared)


def test_failed_runs_are_left_out_and_a_point_without_any_has_no_partner() -> None:
    broken = Sweep(truths=TWO, blocks=3, statuses={(1, block): ("failed", "no space") for block in range(3)}, seed=2)
    compared = two(Sweep(truths=TWO, blocks=3), broken)
    assert len(compared.sides.matched) == 1
    assert "only in B: pool_size 20% (no space)" in on_terminal(compared)


def test_the_headline_is_one_family_of_claims_and_all_other_figures_another() -> None:
    compared = two(Sweep(**SHORT), Sweep(seed=2, **SHORT))
    assert all(figure.level == pytest.approx(0.95 ** (1 / 5)) for figure in compared.of(HEADLINE))
    claimable = [metric for metric in compared.metrics[1:] if not compared.of(metric)[0].unclaimed]
    assert len(claimable) > 2
    for metric in claimable:
        assert compared.of(metric)[0].level == pytest.approx(0.95 ** (1 / (5 * len(claimable))))


def test_null_comparisons_of_whole_sweeps_claim_a_difference_in_at_most_one_of_twelve() -> None:
    # Windows of two seconds: how much reads scatter does not depend on them.
    sweep = Sweep(blocks=3, truths=BUFFER_SIZE[:3], warm_up_seconds=0, transactions=1000)
    false = 0
    for trial in range(12):
        compared = two(
            replace(sweep, seed=100 + trial),
            replace(sweep, seed=200 + trial, first_seed=5000),
        )
        false += "different" in outcomes(compared)
    assert false <= 1


def test_the_object_for_programs_holds_every_figure_unrounded() -> None:
    compared = two(Sweep(truths=TWO), scaled(Sweep(truths=TWO, seed=2), 1.2))
    document = as_json(as_report(compared))
    assert document["method"] == "paired"
    figures = [figure for figure in document["figures"] if figure["metric"] == HEADLINE]
    assert [figure["settings"] for figure in figures] == [{"pool_size": "10%"}, {"pool_size": "20%"}]
    found = figures[0]["found"]
    estimate = found["verdict"]["estimate"]
    assert estimate["ci_low"] < 1.2 < estimate["ci_high"]
    assert estimate["value"] == pytest.approx(found["value_b"] / found["value_a"])
    assert figures[0]["outcome"] == "different"


def test_an_end_beyond_all_floats_is_null_in_the_object() -> None:
    compared = two(ONE, replace(ONE, **OTHER_SEEDS))
    first, *rest = compared.figures
    assert first.found is not None
    verdict = first.found.verdict
    endless = replace(verdict, estimate=replace(verdict.estimate, ci_high=math.inf), detectable=math.inf)
    figures = (replace(first, found=replace(first.found, verdict=endless)), *rest)
    document = json.loads(json.dumps(printed(replace(compared, figures=figures)), allow_nan=False))
    told = document["figures"][0]["found"]["verdict"]
    assert (told["estimate"]["ci_low"], told["estimate"]["ci_high"]) == (verdict.estimate.ci_low, None)
    assert told["detectable"] is None
    assert told["estimate"]["value"] == verdict.estimate.value


def test_every_format_begins_with_the_answer_and_holds_no_foreign_markup() -> None:
    compared = two(replace(ONE, experiment="x<script>y"), replace(ONE, seed=2, experiment="x<script>y"))
    report = as_report(compared)
    page, markdown = render_html(report), render_markdown(report)
    assert report.answer.split(" (")[0] in page.replace("\u00a0", " ")
    assert report.answer.split(":")[0] in markdown
    assert "<script>" not in page
    assert on_terminal(compared).startswith(report.answer[:60])


def on_terminal(compared: SidesCompared, width: int = 400) -> str:
    return text(as_report(compared), width)


def test_two_runs_a_side_print_no_absurd_interval() -> None:
    wild = replace(ONE, blocks=2, noise=1.0)
    compared = two(wild, replace(wild, seed=6))
    assert outcomes(compared) == ["not_distinguishable"]
    assert re.search(r"change by [−+][\d.,]+ % \(interval too wide, n = 2\) from A to B", answer(compared))
    assert "e+" not in on_terminal(compared)


@pytest.mark.parametrize(
    ("growth_bytes", "said"), [(5 << 20, ", so the databases grew unequally."), (0, ". No database grew.")]
)
def test_windows_that_differ_are_said_and_growth_only_where_something_grew(growth_bytes: int, said: str) -> None:
    one = replace(ONE, blocks=1, growth_bytes=growth_bytes)
    compared = two(one, replace(one, transactions=5000))
    assert f"The measured windows differ: 4,000 and 5,000 transactions{said}" in compared.warnings


@pytest.mark.figures
def test_the_page_draws_both_sides_and_markdown_needs_no_file_beside_it() -> None:
    sweep = Sweep(truths=TWO, blocks=2, **SHORT)
    compared = two(sweep, replace(sweep, seed=2))
    report = as_report(compared)
    assert report.headline is not None
    assert isinstance(report.headline.plot, PointsPlot)
    assert [series.label for series in report.headline.plot.series] == ["A", "B"]
    assert [dot.tick for dot in report.headline.plot.series[0].dots] == ["10 %", "20 %"]
    page = render_html(report)
    assert "<svg" in page
    assert all(f'id="{anchor}"' in page for anchor in re.findall(r'href="#([^"]+)"', page))
    assert ".svg" not in render_markdown(replace(as_report(compared), headline=None))


def test_one_setting_has_a_figure_too_and_a_difference_is_said_as_a_sentence() -> None:
    compared = two(ONE, scaled(replace(ONE, seed=2), 2.0))
    figure = as_report(compared).headline
    assert figure is not None
    assert isinstance(figure.plot, PointsPlot)
    assert [(series.label, len(series.dots)) for series in figure.plot.series] == [("A", 1), ("B", 1)]
    (change,) = (block for block in as_report(compared).sections[0].blocks if block.id == "changes")
    assert isinstance(change, Figure)
    assert isinstance(change.plot, EffectsPlot)
    assert change.plot.rows[0] == "Reads per New-Order, pool size 10 %"
    ((ratio,), *_) = change.plot.ratios[0]
    assert ratio is not None
    assert ratio.low is not None
    assert ratio.low < ratio.value == pytest.approx(2.0, rel=0.1)
    assert re.match(
        r"Reads per New-Order are [\d.–]+ % higher with B than with A: [\d.]+ against [\d.]+ \(", answer(compared)
    )


def test_the_table_begins_with_the_headline_and_says_once_what_is_the_same_at_every_setting() -> None:
    before, after = (open_sweep(FIXTURES / name) for name in ("before", "after"))
    compared = compare_sides(of_two_folders(before, after))
    rows = table(compared).rows
    names = [row.cells[0] for row in rows if row.cells[0]]
    assert names[0] == "Reads per New-Order (pages)"
    assert "Page gets per New-Order (gets)" in names[-2:], "some settings cannot be told apart"
    assert "Worker CPU per transaction (µs)" in names
    same = next(row.cells for row in rows if row.cells[0] == "Reads per New-Order (pages)")
    assert same[1:6] == ("all 4", "0.383 to 28.0", "the same", "3", "the same")
    assert "0.018 %" in on_terminal(compared, 120), "the last column is cut off"
    verdicts = [row.cells[5] for row in rows]
    assert verdicts[:6] == ["the same"] * 6


def test_what_differs_stands_before_what_does_not() -> None:
    sweep = shared(Sweep(blocks=4, **SHORT))
    rows = table(compare_sides(of_one_folder(sweep, "pool_size=5%", "pool_size=10%"))).rows
    marks = [row.mark for row in rows]
    assert marks[0] == "differs"
    assert marks == sorted(marks, key=lambda mark: mark != "differs")


def test_the_figure_of_two_settings_has_the_sides_as_places_of_its_axis() -> None:
    sweep = shared(Sweep(truths=TWO, blocks=2, **SHORT))
    figure = as_report(compare_sides(of_one_folder(sweep, "pool_size=10%", "pool_size=20%"))).headline
    assert figure is not None
    assert isinstance(figure.plot, PointsPlot)
    (series,) = figure.plot.series
    assert [(dot.x, dot.tick) for dot in series.dots] == [(0.0, "pool_size 10 %"), (1.0, "pool_size 20 %")]


def test_a_narrow_terminal_still_names_the_figures() -> None:
    sweep = shared(Sweep(blocks=2, **SHORT))
    shown = on_terminal(compare_sides(of_one_folder(sweep, "pool_size=5%", "pool_size=10%")), 80)
    assert "Reads per" in shown
    assert "different" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_folder_without_todays_optional_fields_is_read(tmp_path: Path) -> None:
    """The first format had no `load` and no `phases`; a missing load setting is at its default."""
    old: SweepFolder = build(tmp_path / "old", ONE)
    assert all("rate" not in record.run.settings for record in old.runs())
    compared = compare_sides(of_two_folders(old, build(tmp_path / "new", replace(ONE, seed=2))))
    assert compared.differing_settings == {}


@pytest.mark.parametrize(("lost", "said"), [(0, "What differs: "), (40, "In doubt, because a check failed: ")])
def test_a_difference_of_a_figure_that_a_failed_check_doubts_is_said_to_be_in_doubt(lost: int, said: str) -> None:
    compared = two(ONE, replace(ONE, lost_latencies=lost, **OTHER_SEEDS))
    donor = replace(two(ONE, scaled(ONE, 1.2)).of(HEADLINE)[0], metric="cpu_us_per_transaction")
    compared = replace(compared, figures=(*compared.of(HEADLINE), donor))
    assert answer(compared).endswith(f" {said}worker CPU per transaction.")
    assert ("In doubt, because a check failed" in table(compared).caption) == bool(lost)
