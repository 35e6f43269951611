"""Per-second series: intervals that account for correlation, and changes of level found with few false alarms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from bufferlab.stats.series import batch_means, dispersion, regimes

Array = npt.NDArray[np.float64]


def autoregressive(rng: np.random.Generator, phi: float, n: int = 60) -> Array:
    """Return a series with mean 100, standard deviation 10 and correlation phi from one second to the next."""
    steps = rng.normal(size=n + 40)
    for place in range(1, len(steps)):
        steps[place] = phi * steps[place - 1] + (1 - phi**2) ** 0.5 * steps[place]
    return 100 + 10 * steps[40:]


@pytest.mark.parametrize(("phi", "least"), [(0.0, 0.93), (0.3, 0.93), (0.6, 0.89)])
def test_the_mean_of_a_series_is_covered_although_its_seconds_are_correlated(phi: float, least: float) -> None:
    rng = np.random.default_rng(1)
    inside = naive = 0
    for _ in range(1000):
        series = autoregressive(rng, phi)
        found = batch_means(series)
        inside += (found.ci_low or 0) <= 100 <= (found.ci_high or 0)
        naive += abs(series.mean() - 100) <= 2 * series.std(ddof=1) / len(series) ** 0.5
    assert least <= inside / 1000 <= 0.985, f"{inside} of 1000 covered"
    if phi >= 0.3:
        assert naive / 1000 < 0.9, "the test is no test if taking seconds for independent would do"


@pytest.mark.parametrize("phi", [0.0, 0.3])
def test_the_dispersion_of_a_series_is_covered(phi: float) -> None:
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(1000):
        found = dispersion(autoregressive(rng, phi))
        inside += (found.ci_low or 0) <= 0.1 <= (found.ci_high or 0)
    assert 0.92 <= inside / 1000 <= 0.975, f"{inside} of 1000 covered"


@pytest.mark.parametrize("phi", [0.0, 0.3])
def test_a_series_without_a_change_is_seldom_cut(phi: float) -> None:
    rng = np.random.default_rng(3)
    cut = sum(len(regimes(autoregressive(rng, phi))) > 1 for _ in range(200))
    assert cut / 200 <= 0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5, f"{cut} of 200 were cut"


def test_ten_seconds_two_deviations_off_are_found_in_80_per_cent() -> None:
    rng = np.random.default_rng(4)
    found = 0
    for _ in range(200):
        start = int(rng.integers(5, 45))
        series = autoregressive(rng, 0.0)
        series[start : start + 10] += 20
        found += any(
            min(r.end, start + 10) - max(r.start, start) >= 5 and r.end - r.start <= 20 for r in regimes(series)
        )
    assert found / 200 >= 0.8, f"found in {found} of 200"


def test_regimes_cover_the_series_and_tell_their_means() -> None:
    series = [10.0, 11.0, 10.5, 10.2] * 10 + [50.0, 52.0, 51.0, 50.5] * 5
    found = regimes(series)
    assert [(r.start, r.end) for r in found] == [(0, 40), (40, 60)]
    assert [r.mean for r in found] == pytest.approx([np.mean(series[:40]), np.mean(series[40:])])


def test_a_long_series_is_searched_too() -> None:
    rng = np.random.default_rng(5)
    series = autoregressive(rng, 0.2, n=1000)
    series[300:400] += 30
    found = regimes(series)
    assert len(found) == 3
    assert found[0].start == 0
    assert found[-1].end == 1000
    assert abs(found[1].start - 300) <= 14
    assert abs(found[1].end - 400) <= 14


def test_a_single_odd_second_is_no_regime() -> None:
    rng = np.random.default_rng(6)
    series = autoregressive(rng, 0.0)
    series[30] += 200
    assert len(regimes(series)) == 1


def test_series_too_short_or_without_any_scatter_have_no_interval_and_say_why() -> None:
    for found in (batch_means([1.0, 2.0]), dispersion([1.0, 2.0])):
        assert "fewer than" in (found.note or "")
    for found in (batch_means([5.0] * 30), dispersion([5.0] * 30)):
        assert "same value" in (found.note or "")
    assert len(regimes([5.0] * 30)) == 1
    assert len(regimes([5.0])) == 1


@pytest.mark.parametrize("bad", [[], [1.0, float("nan")]])
def test_a_series_that_is_none_is_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="value"):
        regimes(bad)


def test_the_interval_of_a_dispersion_is_a_jackknife_of_stretches_on_the_log_scale() -> None:
    values = [float(100 + (7919 * k) % 41) for k in range(60)]
    told = dispersion(values)
    series, size = np.array(values), 60 // told.n
    kept = [np.delete(series, np.arange(size * k, size * (k + 1))) for k in range(told.n)]
    logs = np.array([np.log(part.std(ddof=1) / part.mean()) for part in kept])
    error = np.sqrt((told.n - 1) / told.n * ((logs - logs.mean()) ** 2).sum())
    half = stats.t.ppf(0.975, told.n - 1) * error
    assert told.df == told.n - 1
    assert (told.ci_low, told.ci_high) == (
        pytest.approx(told.value * np.exp(-half)),
        pytest.approx(told.value * np.exp(half)),
    )


def test_a_series_without_any_scatter_has_a_dispersion_of_zero() -> None:
    assert dispersion([5.0] * 60).value == 0.0


def test_rounding_is_no_dispersion_of_a_series() -> None:
    told = dispersion([5.0, 5 * (1 + 1e-15)] * 30)
    assert (told.value, told.ci_low, told.note) == (0.0, None, "every second gave the same value")
