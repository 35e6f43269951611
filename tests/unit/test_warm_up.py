"""The shortest warm-up of a point: that of the experiment, and a longer one if updates move the rows that are read."""

from __future__ import annotations

from pathlib import Path

from bufferlab import spec
from bufferlab.execute.run.jobs import run_job
from bufferlab.plan import DataFacts, GridPoint, least_transactions, make, settle_transactions
from bufferlab.spec import Experiment, Overrides


def hot_rows(engine: str, update_percent: int, rows: int = 900) -> tuple[Experiment, GridPoint]:
    asked = (("update_percent", str(update_percent)), ("layout", "scattered"), ("page_size", "8k"))
    experiment = spec.load("hot-rows", Overrides(engine=engine, set_knobs=asked, sweep=(("hot_rows", (str(rows),)),)))
    (point,) = make(experiment, lambda _: DataFacts(100_000_000)).points
    return experiment, point


def test_rows_that_updates_move_have_moved_before_the_gate_may_open() -> None:
    """One transaction in 9,000 updates a given row of 900: after 27,000 all but e^-3 of the rows have moved."""
    experiment, point = hot_rows("postgres", 10)
    assert experiment.warm_up.min_transactions == 0
    assert least_transactions(experiment, point) == 27_000
    assert run_job(experiment, point, 1, Path("db"))["warm_up"]["min_transactions"] == 27_000


def test_the_gate_keeps_half_of_the_longest_warm_up() -> None:
    experiment, point = hot_rows("postgres", 1, 20_000)
    assert experiment.warm_up.max_transactions == 400_000
    assert least_transactions(experiment, point) == 200_000


def test_rows_that_stay_where_they_are_ask_for_nothing() -> None:
    for engine, update_percent in (("postgres", 0), ("mysql", 10), ("sqlite", 10)):
        assert least_transactions(*hot_rows(engine, update_percent)) == 0


def test_an_experiment_may_ask_for_more() -> None:
    experiment, point = hot_rows("postgres", 10)
    warm_up = experiment.warm_up.model_copy(update={"min_transactions": 30_000})
    assert least_transactions(experiment.model_copy(update={"warm_up": warm_up}), point) == 30_000


def test_other_workloads_have_the_experiments_own() -> None:
    experiment = spec.load("buffer-size", Overrides(engine="postgres"))
    point = make(experiment, lambda _: DataFacts(100_000_000)).points[0]
    assert least_transactions(experiment, point) == experiment.warm_up.min_transactions


SCRIPT = """-- setup
CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER NOT NULL);
-- transaction: look weight=4
\\set id random(1, 1000)
SELECT a FROM t WHERE id = :id;
-- transaction: change weight=1
\\set id random(1, 1000)
UPDATE t SET a = a + 1 WHERE id = :id;
"""


def scripted(tmp_path: Path, engine: str, **overrides: int) -> tuple[Experiment, GridPoint]:
    (tmp_path / "my.sql").write_text(SCRIPT)
    experiment = spec.load("script", Overrides(engine=engine, script=str(tmp_path / "my.sql"), **overrides))
    return experiment, make(experiment, lambda _: DataFacts(100_000_000)).points[0]


def test_a_script_is_played_for_the_rows_that_its_updates_move(tmp_path: Path) -> None:
    """One transaction in 5,000 updates a given row. Half of the rows have three updates when the mean is 2.67.

    The script is judged every 5,000 transactions.
    """
    experiment, point = scripted(tmp_path, "postgres")
    assert 13_350 <= settle_transactions(experiment, point) <= 20_000
    asked = run_job(experiment, point, 1, Path("db"))["warm_up"]
    assert asked["settle_transactions"] == settle_transactions(experiment, point)
    assert asked["turnover_within"] == experiment.warm_up.turnover_within > 0


def test_a_longer_cap_asks_for_the_same(tmp_path: Path) -> None:
    """A resumed sweep may have a longer cap, and its kept runs waited for as many transactions."""
    asked = [settle_transactions(*scripted(tmp_path, "postgres", warm_up_max=most)) for most in (9_000, 3_000_000)]
    assert asked[0] == asked[1] > 0


def test_a_script_is_not_waited_for_where_rows_stay_or_its_sweep_never_did(tmp_path: Path) -> None:
    assert settle_transactions(*scripted(tmp_path, "mysql")) == 0
    experiment, point = scripted(tmp_path, "postgres")
    earlier = experiment.warm_up.model_copy(update={"turnover_within": 0})
    assert settle_transactions(experiment.model_copy(update={"warm_up": earlier}), point) == 0
    assert settle_transactions(*hot_rows("postgres", 10)) == 0
