"""Plans: every point in every block, orders and seeds that never change, pools of whole frames."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab import spec
from bufferlab.engines import registry as engines
from bufferlab.engines.declaration import DeclaredRates
from bufferlab.errors import SpecError
from bufferlab.plan import DataFacts, Plan, block_order, estimate, run_seed
from bufferlab.plan import make as make_plan
from bufferlab.plan.grid import workload_of
from bufferlab.spec import Experiment, Overrides


def experiment(**overrides: object) -> Experiment:
    return spec.load("buffer-size", Overrides(**overrides))  # type: ignore[arg-type]


def make(experiment: Experiment, database_bytes: int) -> Plan:
    """Return the plan on databases that all have this size."""
    return make_plan(experiment, lambda setting: DataFacts(database_bytes))


def test_each_block_holds_every_point_once_with_one_seed() -> None:
    plan = make(experiment(repetitions=7), 165_000_000)
    assert Counter(run.cell for run in plan.runs) == Counter((point, block) for point in range(5) for block in range(7))
    for block in range(7):
        assert len({run.seed for run in plan.runs if run.block == block}) == 1
    assert len({run.seed for run in plan.runs}) == 7
    assert [run.order for run in plan.runs] == list(range(35))


def test_orders_and_seeds_are_these_for_ever() -> None:
    """A change here makes old sweeps impossible to resume: it needs a new plan format, not new numbers."""
    assert [block_order(5, 1, block) for block in range(3)] == [[1, 2, 4, 0, 3], [3, 2, 4, 0, 1], [0, 4, 1, 3, 2]]
    assert run_seed(1, 0) == 2872079071043088
    assert run_seed(1, 1) == 5104591722028998


@given(st.integers(0, 2**53 - 1), st.integers(0, 50), st.integers(1, 30))
def test_an_order_is_a_permutation_and_a_seed_fits_json(seed: int, block: int, points: int) -> None:
    assert sorted(block_order(points, seed, block)) == list(range(points))
    assert 0 <= run_seed(seed, block) < 2**53


@given(st.sets(st.integers(0, 6), min_size=1), st.integers(0, 99))
def test_some_blocks_of_a_plan_are_its_runs_of_those_blocks_and_the_plan_is_told_whole(
    some: set[int], seed: int
) -> None:
    asked = experiment(repetitions=7, seed=seed)
    whole, part = make(asked, 165_000_000), make_plan(asked, lambda _: DataFacts(165_000_000), tuple(sorted(some)))
    assert part.runs == tuple(run for run in whole.runs if run.block in some)
    told = part.as_dict()
    assert told.pop("blocks", list(range(7))) == sorted(some)
    assert told == whole.as_dict()
    assert estimate(part).measure_seconds == pytest.approx(estimate(whole).measure_seconds * len(some) / 7)


def test_blocks_are_not_all_in_one_order() -> None:
    assert len({tuple(block_order(5, seed=3, block=block)) for block in range(10)}) > 5


@given(st.integers(50_000_000, 1 << 40))
def test_a_share_is_rounded_down_to_whole_frames(database_bytes: int) -> None:
    for point, percent in zip(make(experiment(), database_bytes).points, (5, 10, 20, 40, 80), strict=True):
        pool_bytes = point.knobs["pool_size"]
        assert isinstance(pool_bytes, int)
        assert pool_bytes % 4096 == 0
        assert 0 <= database_bytes * percent // 100 - pool_bytes < 4096


def test_bytes_of_a_share_are_equal_across_page_sizes() -> None:
    swept = experiment(sweep=(("page_size", ("4k", "8k", "16k")),), set_knobs=(("pool_size", "10%"),))
    pools = [int(point.knobs["pool_size"]) for point in make(swept, 1_000_000_000).points]
    assert max(pools) - min(pools) < 16384


def test_a_grid_is_every_combination_in_the_order_written() -> None:
    swept = experiment(sweep=(("pool_size", ("1MiB", "2MiB")), ("io_mode", ("direct", "buffered"))))
    labels = [point.label for point in make(swept, 165_000_000).points]
    assert labels == [
        "pool_size 1MiB, io_mode direct",
        "pool_size 1MiB, io_mode buffered",
        "pool_size 2MiB, io_mode direct",
        "pool_size 2MiB, io_mode buffered",
    ]


def test_a_share_too_small_for_the_engine_names_the_point() -> None:
    with pytest.raises(SpecError, match=r"pool_size = 0\.01%.* is 4 frames of 4 KiB; sqlite needs 64") as refused:
        make(experiment(sweep=(("pool_size", ("0.01%",)),)), 165_000_000)
    assert "ask for 256 KiB or more, or for more data" in str(refused.value)


def test_point_keys_depend_on_what_is_asked_and_not_on_how_it_is_written() -> None:
    one = make(experiment(set_knobs=(("page_size", "4k"),)), 165_000_000)
    other = make(experiment(set_knobs=(("page_size", "4096"),), seed=99), 170_000_000)
    assert [point.point_key for point in one.points] == [point.point_key for point in other.points]
    changed = make(experiment(set_knobs=(("synchronous", "full"),)), 165_000_000)
    assert not {point.point_key for point in one.points} & {point.point_key for point in changed.points}


def test_the_estimate_adds_up_and_knows_what_is_loaded() -> None:
    plan = make(experiment(transactions=10_000, repetitions=3), 165_000_000)
    whole_a_second = dict.fromkeys(
        ("load_bytes_per_s", "restore_bytes_per_s", "warm_up_bytes_per_s", "check_bytes_per_s"), 165_000_000
    )
    rates = DeclaredRates(**whole_a_second, transactions_per_s=1000)
    cold, warm = estimate(plan, rates), estimate(plan, rates, loaded=1)
    assert cold.load_seconds == pytest.approx(1)
    assert warm.load_seconds == 0
    assert cold.measure_seconds == pytest.approx(15 * 10)
    assert cold.seconds == pytest.approx(
        cold.load_seconds + cold.restore_seconds + cold.warm_up_seconds + cold.measure_seconds + cold.check_seconds
        + cold.other_seconds
    )  # fmt: skip
    assert estimate(plan, rates, predicts=True).seconds == pytest.approx(cold.seconds + 10)
    assert warm.cache_bytes == 0
    assert warm.data_bytes > 165_000_000


def test_every_part_of_an_estimate_is_reckoned_twice() -> None:
    size, per_s = 160_000_000, 1000
    plan = make(experiment(transactions=10_000, repetitions=3), size)
    wanted, engine = plan.experiment, engines.declaration("sqlite")
    rates = DeclaredRates(
        load_bytes_per_s=size / 8, restore_bytes_per_s=size / 4, warm_up_bytes_per_s=size / 2, check_bytes_per_s=size,
        transactions_per_s=per_s, runs_per_s=4,
    )  # fmt: skip
    warming_s = min(
        wanted.warm_up.max_duration,
        wanted.warm_up.max_transactions / per_s,
        max(2, wanted.warm_up.min_transactions / per_s),
    )
    grown = int((10 + warming_s) * per_s * workload_of(wanted).grows_bytes_per_transaction)
    assert grown > 1_000_000
    found = estimate(plan, rates)
    assert found.load_seconds == pytest.approx(8)
    assert found.restore_seconds == pytest.approx(15 * 4 * (1 + engine.base_bytes / size))
    assert found.other_seconds == pytest.approx(15 / 4)
    assert found.warm_up_seconds == pytest.approx(15 * warming_s)
    # The data of every run with their growth, and once the loaded data.
    assert found.check_seconds == pytest.approx(15 * (1 + grown / size) + 1)
    assert found.data_bytes == size + engine.base_bytes + grown
    assert found.cache_bytes == size + engine.base_bytes
    assert found.results_bytes == 15 * (200_000 + 20_000 * 10)


def test_a_measuring_time_cap_bounds_the_estimate() -> None:
    plan = make(experiment(duration="20s", repetitions=3), 165_000_000)
    assert estimate(plan).measure_seconds == pytest.approx(15 * 20)
