"""The duration of a look, as announced before and during it, compared with a look at a fake server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab.live import advise, tiers
from bufferlab.live.tiers import Pace
from support import fake_mysql
from support.advised_server import Bench, asked, bench


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setitem(fake_mysql.GROWTH, "Innodb_buffer_pool_read_ahead", 0)
    with bench() as made:
        yield made


@pytest.mark.parametrize(
    ("within_s", "tier", "times", "evicted_per_s"),
    # 60 evictions a second are forecast; the look needs 10 times 1,024 and 4,096 evictions.
    [(60, "misses", 1.25, 60), (600, "misses", 1.25, 60), (600, "misses", 2, 256), (180, "full", 1.25, 60)],
)
def test_the_time_told_is_the_time_taken(
    at: Bench, within_s: float, tier: tiers.Tier, times: float, evicted_per_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    at.tracing.events_per_s = 2 * evicted_per_s
    told: list[tuple[float, float, float]] = []
    monkeypatch.setattr(at.shown, "show", lambda now: told.append((at.clock.now_s, now.done, now.seconds_left)))
    ready = at.prepare(asked(within_s, tier, sizes=(lambda present: int(times * present),)))
    begun_s = at.clock.now_s
    advise.advise(ready, at.answer, at.stop, at.shown, at.clock, at.clock.sleep)
    taken_s = at.clock.now_s - begun_s
    if evicted_per_s == 60:
        assert ready.pace.look_s(ready.planned) == pytest.approx(taken_s, abs=0.08 * taken_s)
    # Once the rate of this look is known, the progress bar shows when the answer comes.
    for now_s, done, left_s in told:
        if now_s - begun_s > 20:
            assert now_s + left_s - begun_s == pytest.approx(taken_s, abs=0.1 * taken_s + 2)
        assert 0 <= done <= 1
    assert [done for _, done, _ in told[20:]] == sorted(done for _, done, _ in told[20:])
    assert told[-1][2] == pytest.approx(ready.pace.evaluation_s)


@given(
    within_s=st.floats(30, 86_400),
    tier=st.sampled_from(["misses", "full"]),
    wanted=st.floats(-1e6, 1e6),
    per_s=st.floats(0, 1e5),
    events=st.floats(0, 1e9),
)
def test_the_time_left_falls_from_the_whole_time_to_that_of_the_evaluation(
    within_s: float, tier: tiers.Tier, wanted: float, per_s: float, events: float
) -> None:
    planned, pace = tiers.stages(tier, within_s), Pace(wanted, per_s, events)
    lefts = [
        pace.left_s(planned, place, spent_s, None)
        for place, stage in enumerate(planned)
        for spent_s in (0.0, pace.stage_s(stage) / 2, pace.stage_s(stage))
    ]
    assert lefts[0] == pytest.approx(pace.look_s(planned) + pace.evaluation_s)
    assert lefts == sorted(lefts, reverse=True)
    assert pace.left_s(planned, len(planned), 0.0, None) == pace.evaluation_s > 0
    most_s = sum(one.seconds + tiers.STAGE_S for one in planned) + pace.evaluation_s
    assert lefts[0] <= most_s + 1e-6


def test_a_look_that_cannot_end_early_has_one_time() -> None:
    planned = tiers.stages("misses", 600)
    assert "takes about 10 min 03 s. Ctrl-C" in tiers.time_sentence(planned, Pace(1e6, 100))
    assert "takes about 2 min 13 s (until enough pages were evicted), 10 min 03 s at most" in tiers.time_sentence(
        planned, Pace(100, 100)
    )
