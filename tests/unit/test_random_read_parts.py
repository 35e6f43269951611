"""Random reads without a device: the model of pages, values and their scatter, effects of factors, refusals."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab import spec
from bufferlab.chapter.analysis import Analysis, PointRuns, value_words
from bufferlab.engines import registry as engines
from bufferlab.engines.file import results
from bufferlab.engines.file.chapters import answer
from bufferlab.engines.file.results import RESULTS
from bufferlab.errors import SpecError
from bufferlab.plan import estimated_facts, make
from bufferlab.registry import registry
from bufferlab.results import schema
from bufferlab.results.check_parts import MeasuredRun
from bufferlab.results.schema import SAMPLE_COLUMNS
from bufferlab.results.window import Reading, Window
from bufferlab.spec import Overrides
from bufferlab.stats import factors
from bufferlab.stats.factors import Effect, FactorRun, effects
from bufferlab.theory.random_read import PAGE_BYTES, amplification, pages_first_touched, pages_per_read
from support.synthetic import derived_values


def covered(offset: int, size: int) -> int:
    """Return the number of pages that a read touches, from the pages' numbers."""
    return len(range(offset // PAGE_BYTES, (offset + size - 1) // PAGE_BYTES + 1))


@given(st.integers(1, 300), st.sampled_from([512, 1024, 1536, 4096, 8192, 12288]))
def test_the_model_of_pages_is_the_mean_over_all_places(sectors: int, alignment: int) -> None:
    size = 512 * sectors
    period = math.lcm(alignment, PAGE_BYTES)
    offsets = range(0, period, alignment)
    mean = sum(covered(offset, size) for offset in offsets) / len(offsets)
    assert pages_per_read(size, alignment) == pytest.approx(mean)
    assert amplification(size, alignment) == pytest.approx(mean * PAGE_BYTES / size)


def test_pages_missed_agree_with_drawn_offsets() -> None:
    size, alignment, file_bytes, reads = 8192, 512, 64 << 20, 20_000
    drawn = random.Random(3)
    places = (file_bytes - size) // alignment + 1
    seen: set[int] = set()
    for _ in range(reads):
        offset = drawn.randrange(places) * alignment
        seen.update(range(offset // PAGE_BYTES, (offset + size - 1) // PAGE_BYTES + 1))
    assert pages_first_touched(size, alignment, file_bytes, reads) == pytest.approx(len(seen), rel=0.01)
    assert pages_first_touched(size, alignment, 0, reads) == 0


def samples(counts: list[int], *, interval_s: float = 0.25, requests_per_read: int = 3) -> pl.DataFrame:
    """Return a window in which the driver's count of reads took these values, one after the other."""
    rows = []
    for place, reads in enumerate(counts):
        edge = {0: "start", len(counts) - 1: "end"}.get(place)
        values = {
            ("logical_reads", ""): reads,
            ("logical_read_bytes", ""): 8192 * reads,
            ("pages_touched", ""): 3 * reads,
            ("device_reads", "loop0"): requests_per_read * reads,
            ("device_read_bytes", "loop0"): requests_per_read * 4096 * reads,
        }
        if edge:
            values |= {("requests_expected", ""): requests_per_read * reads, ("pages_first_touched", ""): 3 * reads}
        rows += [
            {"t_s": place * interval_s, "phase": "measure", "edge": edge, "metric": metric, "subject": subject,
             "count": count, "value": None, "reason": None, "probe": "engine"}
            for (metric, subject), count in values.items()
        ]  # fmt: skip
    kinds = {"f64": pl.Float64, "i64": pl.Int64}
    schema = {name: kinds.get(kind, pl.String) for name, kind in SAMPLE_COLUMNS.items()}
    return pl.DataFrame(rows, schema=schema)


def cumulative(steps: list[int]) -> list[int]:
    counts = [0]
    for step in steps:
        counts.append(counts[-1] + step)
    return counts


def test_costs_per_read_come_from_the_edges() -> None:
    values = derived_values(samples(cumulative([1000] * 8)))
    found = {name: value.value for name, value in values.items()}
    assert found["requests_per_read"] == found["requests_expected_per_read"] == 3
    assert found["requests_over_expected"] == 1
    assert found["pages_touched_per_read"] == found["pages_first_touched_per_read"] == 3
    assert found["device_bytes_per_read"] == 3 * 4096
    assert found["read_amplification"] == 1.5
    assert found["iops"] == pytest.approx(4000)
    assert found["read_mb_per_s"] == pytest.approx(4000 * 8192 / 1e6)
    assert found["reads_cv"] == found["reads_dispersion_index"] == found["requests_cv"] == 0


def test_scatter_is_that_between_neighbours_so_that_a_drift_does_not_pass_for_it() -> None:
    drift = derived_values(samples(cumulative([1000 + 20 * place for place in range(40)])))["reads_cv"].value
    assert drift is not None
    assert drift < 0.02, "a rate that doubles slowly"
    swings = derived_values(samples(cumulative([500, 1500] * 20)))["reads_cv"].value
    assert swings == pytest.approx(1000 / math.sqrt(2) / 1000)
    drawn = random.Random(5)
    steps = [round(drawn.gauss(1000, 100)) for _ in range(400)]
    values = derived_values(samples(cumulative(steps)))
    assert values["reads_cv"].value == pytest.approx(0.1, rel=0.15)
    assert values["reads_dispersion_index"].value == pytest.approx(10, rel=0.3)


def test_scatter_needs_samples_and_says_so() -> None:
    value = derived_values(samples(cumulative([1000] * 4)))["reads_cv"]
    assert value.value is None
    assert "sample intervals" in (value.reason or "")


def observed(blocks: int, noise: float) -> list[FactorRun]:
    """Return runs in which buffered I/O doubles the value, alignment doubles it only with buffered I/O, and read-ahead
    has no effect."""
    drawn = random.Random(11)
    found = []
    for block in range(blocks):
        of_block = math.exp(drawn.gauss(0, 0.3))
        for mode in ("direct", "buffered"):
            for alignment in ("io_size", "512"):
                for read_ahead in ("128", "0"):
                    value = of_block * (2 if mode == "buffered" else 1) * math.exp(drawn.gauss(0, noise))
                    value *= 2 if mode == "buffered" and alignment == "512" else 1
                    levels = {"io_mode": mode, "alignment": alignment, "read_ahead": read_ahead}
                    found.append(FactorRun(levels, block, value))
    return found


FACTORS = {"io_mode": ["direct", "buffered"], "alignment": ["io_size", "512"], "read_ahead": ["128", "0"]}


def by_factor(found: list[Effect]) -> dict[str, Effect]:
    return {effect.factor: effect for effect in found}


def test_planted_effects_are_found_and_absent_ones_are_not_claimed() -> None:
    found = by_factor(effects(observed(5, 0.03), FACTORS))
    assert found["io_mode"].resolved
    assert found["io_mode"].ratio.value == pytest.approx(2 * math.sqrt(2), rel=0.1)
    assert found["alignment"].resolved
    assert found["alignment"].ratio.value == pytest.approx(math.sqrt(2), rel=0.1)
    assert not found["read_ahead"].resolved
    assert found["io_mode"].size > found["alignment"].size


def test_within_one_level_an_interaction_is_seen_apart() -> None:
    direct = [seen for seen in observed(5, 0.03) if seen.levels["io_mode"] == "direct"]
    found = by_factor(effects(direct, {"alignment": FACTORS["alignment"]}))
    assert not found["alignment"].resolved


def test_intervals_of_effects_hold_together_when_there_are_none() -> None:
    """Of 200 sets of three factors without effect, about one in twenty claims an effect."""
    claimed = 0
    for seed in range(200):
        drawn = random.Random(seed)
        nothing = [
            FactorRun(
                {"io_mode": mode, "alignment": alignment, "read_ahead": ahead}, block, math.exp(drawn.gauss(0, 1))
            )
            for block in range(4)
            for mode in FACTORS["io_mode"]
            for alignment in FACTORS["alignment"]
            for ahead in FACTORS["read_ahead"]
        ]
        claimed += any(effect.resolved for effect in effects(nothing, FACTORS))
    assert claimed <= 22


def test_one_block_has_no_interval_and_says_why() -> None:
    (effect,) = effects(observed(1, 0.03), {"io_mode": FACTORS["io_mode"]})
    assert not effect.ratio.has_interval
    assert "one block" in (effect.ratio.note or "")


@pytest.mark.parametrize(
    ("name", "engine", "words"),
    [("buffer-size", "file", "cannot be driven by"), ("random-read", "sqlite", "cannot run on")],
)
def test_a_bare_file_and_a_database_are_not_taken_for_each_other(name: str, engine: str, words: str) -> None:
    with pytest.raises(SpecError) as refused:
        spec.load(name, Overrides(engine=engine))
    assert any(words in problem.what for problem in refused.value.problems)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("queue_depth", "0"), ("queue_depth", "257"), ("io_size", "256"), ("io_size", "2MiB"), ("read_ahead", "-1"),
     ("read_ahead", "lots"), ("path", "relative/file"), ("zipf", "4"), ("alignment", "1024")],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_before_anything_starts(setting: str, value: str) -> None:
    with pytest.raises(SpecError):
        spec.load("random-read", Overrides(set_knobs=((setting, value),)))


def test_reads_of_odd_sizes_are_refused_by_name() -> None:
    experiment = spec.load("erratic-io", Overrides(set_knobs=(("io_size", "1000"),)))
    with pytest.raises(SpecError) as refused:
        make(experiment, estimated_facts(experiment))
    assert "multiple of 512" in refused.value.what


def test_a_plan_of_reads_knows_the_size_of_a_file_of_ours_and_copies_nothing() -> None:
    from bufferlab.plan.estimate import estimate

    experiment = spec.load("random-read")
    plan = make(experiment, estimated_facts(experiment))
    assert plan.database_bytes == 1 << 30
    cost = estimate(plan)
    assert cost.cache_bytes == 1 << 30
    assert cost.data_bytes == 0


class Point:
    """The parts of a point's runs that the chapter on factors reads."""

    def __init__(self, index: int, swept: dict[str, str], values: dict[str, list[float]]) -> None:
        self.index, self.swept, self._values = index, swept, values

    def values(self, metric: str) -> list[tuple[int, int, float]]:
        return [(self.index, block, value) for block, value in enumerate(self._values.get(metric, []))]


def analysis(scatter: dict[str, list[float]], device: str = "device") -> Any:
    """Return a sweep over two factors; `scatter` is reads_cv by "mode device"."""
    points = []
    for index, (name, values) in enumerate(scatter.items()):
        mode, where = name.split()
        points.append(Point(index, {"io_mode": mode, device: where}, {"reads_cv": values}))
    return sweep_of(points)


def sweep_of(points: list[Point]) -> Any:
    """Return the parts of an analysis that the chapter on factors reads."""
    runs = [SimpleNamespace(run=SimpleNamespace(engine="file"))]

    def value_label(name: str, value: str) -> str:
        return value_words(RESULTS.knob_words.get(name), value)

    return SimpleNamespace(
        points=points, runs=runs, knob_words=RESULTS.knob_words, value_label=value_label, metric=registry().metric
    )


def test_the_answer_names_the_factor_that_makes_reads_erratic_and_the_way_it_does() -> None:
    found = answer(
        analysis(
            {
                "buffered disk": [0.20, 0.21, 0.19, 0.22], "buffered memory": [0.21, 0.20, 0.20, 0.21],
                "direct disk": [0.050, 0.049, 0.051, 0.052], "direct memory": [0.049, 0.051, 0.050, 0.051],
            }
        )
    )  # fmt: skip
    (said,) = found
    assert said.startswith("The I/O mode from direct to buffered makes reads erratic most: × 4")
    assert "not resolved: the device" in said
    assert "n = 4 blocks" in said


def test_without_repetitions_nothing_is_claimed() -> None:
    (said,) = answer(analysis({"direct disk": [0.1], "buffered disk": [0.2], "direct memory": [0.1]}))
    assert "not claimed after 1 block" in said


def test_where_nothing_differs_the_answer_says_so() -> None:
    drawn = random.Random(2)
    names = ("direct disk", "direct memory", "buffered disk", "buffered memory")
    scatter = {name: [math.exp(drawn.gauss(-2, 0.3)) for _ in range(4)] for name in names}
    (said,) = answer(analysis(scatter))
    assert said.startswith("No factor was shown to be what makes reads erratic")


def test_the_answer_is_of_what_was_asked_for_and_of_rates_alone() -> None:
    drawn = random.Random(3)

    def noisy(mean: float) -> list[float]:
        return [mean * math.exp(drawn.gauss(0, 0.01)) for _ in range(4)]

    points = []
    for index, (mode, size) in enumerate(
        [("direct", "8k"), ("direct", "16k"), ("buffered", "8k"), ("buffered", "16k")]
    ):
        twice = 1.0 if mode == "direct" else 2.0
        values = {"requests_per_read": noisy(twice), "reads_cv": noisy(0.1), "iops": noisy(1000 / twice)}
        points.append(Point(index, {"io_mode": mode, "io_size": size}, values))
    requests, rates = answer(sweep_of(points))
    assert requests.startswith("The I/O mode from direct to buffered makes a read take more requests most: × ")
    assert rates.startswith("The I/O mode from direct to buffered slows reads most: × ")


def test_runs_of_zero_and_the_factors_that_only_they_could_tell_are_named() -> None:
    """A ratio to zero does not exist: direct reads did not scatter at all, so the I/O mode cannot be judged."""
    some = [0.20, 0.21, 0.19, 0.22]
    beside = {"buffered disk": some, "buffered memory": [2 * value for value in some[::-1]]}
    (said,) = answer(analysis({**beside, "direct disk": [0.0] * 4, "direct memory": [0.0] * 4}))
    assert said.startswith("The device from disk to memory makes reads erratic most: × ")
    assert said.endswith(" n = 4 blocks. 8 runs had none, which has no ratio, so nothing is said of the I/O mode.")
    (said,) = answer(analysis({**beside, "direct disk": [0.0, *some[1:]], "direct memory": some}))
    assert said.endswith(" blocks. 1 run had none, which has no ratio.")


def test_other_engines_and_single_factors_have_no_such_answer() -> None:
    one = analysis({"direct disk": [0.1, 0.1], "buffered disk": [0.2, 0.2]})
    assert answer(one) == []
    database = analysis({"direct disk": [0.1], "buffered disk": [0.2], "direct memory": [0.1]})
    assert engines.chapters("file").answer(database)
    assert engines.chapters("sqlite").answer(database) == []


def test_a_point_is_named_in_few_words_and_one_order() -> None:
    swept = {"alignment": "512", "device": "loop", "io_mode": "buffered", "queue_depth": "4", "read_ahead": "0"}
    analysis = Analysis(None, (), "read_ahead", (), "", (), knob_words=RESULTS.knob_words)  # type: ignore[arg-type]
    point = PointRuns(0, "", swept, "", (), ())
    assert analysis.name_of(point) == "0 KiB, loop device, buffered, 512 B aligned, queue depth 4"
    assert analysis.setting_label("read_ahead", "128") == "read-ahead 128 KiB"
    assert analysis.setting_label("plan", "index_scan") == "plan index scan"


def measured(counts: list[int], *, device: str = "loop", seconds: float = 2.0, service_us: float = 2e6) -> MeasuredRun:
    """Return a run of direct reads, one at a time, with these samples."""
    frame = samples(cumulative(counts), requests_per_read=1)
    window = Window.of(frame)
    ran = {"io_mode": "direct", "device": device, "cache": "cold"}
    run = schema.Run.model_construct(
        engine="file", block=0, point=schema.Point(label="as set", index=0, swept={}),
        workload={"name": "random_read", "io_size_bytes": 8192, "queue_depth": 1, "threads": 1},
        settings={name: schema.StoredSetting(actual=value) for name, value in ran.items()},
        measured=schema.Measured(seconds=seconds, transactions=sum(counts)),
    )  # fmt: skip
    known, latency_us = registry(), {"service": service_us}
    return MeasuredRun(run, known.of_engine("file"), known.raw, window, derived_values(frame), latency_us, sum(counts))


def status(run: MeasuredRun) -> dict[str, str]:
    return {check.name: check.status for check in (check([run]) for check in results.CHECKS)}


def test_direct_reads_on_a_device_of_our_own_must_be_one_request_each() -> None:
    good = measured([1000] * 8)
    assert status(good)["direct_requests"] == "passed"
    assert status(measured([1000] * 8, device="as_is"))["direct_requests"] == "not_applicable"
    end = {**good.window.end, "device_reads": {"loop0": Reading(8001, None)}}
    assert list(good.window.end["device_reads"]) == ["loop0"]
    more = replace(good, window=Window(good.window.start, end, good.window.seconds))
    assert status(more)["direct_requests"] == "failed"


def test_littles_law_is_asked_of_windows_that_are_long_enough() -> None:
    assert status(measured([1000] * 8))["littles_law_of_reads"] == "passed"
    assert status(measured([1000] * 8, service_us=1.8e6))["littles_law_of_reads"] == "failed"
    assert status(measured([1000] * 8, seconds=0.005))["littles_law_of_reads"] == "not_applicable"


@pytest.mark.parametrize(("ratio", "blocks"), [(32.0, 7), (1.5, 5), (32.0, 4)])
def test_rounding_is_no_noise_of_an_effect(ratio: float, blocks: int) -> None:
    found = factors._ratio([math.log(ratio)] * blocks, 0.95)
    assert (found.ci_low, found.identical, found.value) == (None, False, pytest.approx(ratio))
    assert factors._ratio([0.0] * blocks, 0.95).identical
