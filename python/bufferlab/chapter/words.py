"""Puts numbers and verdicts into words.

Only here do shares become per cent. Bounds are rounded outward, so that no sentence claims more than was found.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from bufferlab.stats.estimate import Estimate
from bufferlab.units import format_bytes

if TYPE_CHECKING:
    from bufferlab.results.metrics import Metric
    from bufferlab.results.schema import StoredSetting
    from bufferlab.stats.verdict import Verdict

#: The unit of a difference between two shares.
POINTS = "percentage points"
NOTHING = "–"
#: An interval whose ends differ by a larger factor is too wide to be useful.
WIDEST_FACTOR = 100.0


def number(value: float | None, unit: str = "") -> str:
    """Return a value for a reader, with at least three digits; a number of bytes gets its unit (KiB, MiB ...).

    >>> number(31.24), number(0.8999), number(12345.6), number(None)
    ('31.2', '0.900', '12,346', '–')
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    if unit.split("/")[0] in ("bytes", "byte"):
        return format_bytes(value)
    return f"{value:,.{_decimals(value)}f}"


def four_digits(value: float) -> str:
    """Return a value with four digits and no exponent, for numbers from a model.

    >>> four_digits(9.7031), four_digits(1234.5), four_digits(4690944), four_digits(0.00001234)
    ('9.703', '1234', '4,690,944', '0.000012')
    """
    text = f"{value:.4g}"
    return number(value) if "e" in text else text


def two_digits(share: float) -> str:
    """Return the size of an effect, a share, in per cent without the sign %, with two digits: the third is noise.

    >>> two_digits(0.0345), two_digits(1.004), two_digits(12.34), two_digits(0.00001)
    ('3.5', '100', '1,234', '<0.01')
    """
    percent = 100 * share
    if percent < 0.01:
        return "<0.01"
    return f"{percent:,.0f}" if percent >= 99.5 else f"{percent:.2g}"


def is_unknown(estimate: Estimate) -> bool:
    """Return whether an interval's ends, if neither is negative, differ by more than the factor WIDEST_FACTOR."""
    low, high = estimate.ci_low, estimate.ci_high
    return low is not None and high is not None and low >= 0 and high > WIDEST_FACTOR * low


def interval(estimate: Estimate, unit: str = "") -> str:
    """Return a mean with its interval, "9.70 (9.51–9.89)", or with a remark if the interval is too wide.

    >>> interval(Estimate(2444.0, 0.02, 48395856.0, n=2))
    '2,444 (interval too wide, n = 2)'
    """
    return unsure(number(estimate.value, unit), estimate) if is_unknown(estimate) else with_bounds(estimate, unit)


def unsure(shown: str, estimate: Estimate) -> str:
    """Return a value in words with the remark that its interval is too wide to be useful."""
    return f"{shown} (interval too wide, n = {estimate.n})"


def with_bounds(estimate: Estimate, unit: str = "") -> str:
    """Return a value with both bounds of its interval, even if the interval is very wide.

    >>> with_bounds(Estimate(2000.65435, 2000.65340, 2000.65529, n=3))
    '2,000.65 (2,000.65–2,000.66)'
    """
    if unit.split("/")[0] in ("bytes", "byte"):
        return _byte_interval(estimate)
    decimals = _decimals(estimate.value)
    if estimate.ci_low is None or estimate.ci_high is None:
        return f"{estimate.value:,.{decimals}f}"
    half = (estimate.ci_high - estimate.ci_low) / 2
    if half > 0:
        decimals = min(5, max(0, 1 - math.floor(math.log10(half))))
        # Show at most six digits: no value here is more precise, and a clock's smallest steps are noise.
        whole_digits = math.floor(math.log10(abs(estimate.value))) + 1 if abs(estimate.value) >= 1 else 0
        decimals = min(decimals, max(0, 6 - whole_digits))
    low, high = _outward(estimate.ci_low, estimate.ci_high, decimals)
    return f"{estimate.value:,.{decimals}f} ({low:,.{decimals}f}–{high:,.{decimals}f})"


def ratio(estimate: Estimate) -> str:
    """Return a ratio with its interval; ratios from 0.1 on have at most two decimals.

    >>> ratio(Estimate(1.5294, 1.5260, 1.5327, n=5)), ratio(Estimate(3.3, 1.2, 8.8, n=4))
    ('1.53 (1.52–1.54)', '3.3 (1.2–8.8)')
    >>> ratio(Estimate(0.025, 0.0013, 0.594, n=2))
    '0.025 (0.001–0.594)'
    """
    low, high = estimate.ci_low, estimate.ci_high
    decimals = max(0, min(_decimals(estimate.value), 2 if estimate.value >= 0.1 else 6))
    if low is None or high is None:
        return f"{estimate.value:.{decimals}f}"
    if high - low > 0:
        decimals = min(decimals, max(0, 1 - math.floor(math.log10((high - low) / 2))))
    # A bound above zero stays above zero.
    while low > 0 and decimals < 6 and _outward(low, high, decimals)[0] <= 0:
        decimals += 1
    low, high = _outward(low, high, decimals)
    return f"{estimate.value:,.{decimals}f} ({low:,.{decimals}f}–{high:,.{decimals}f})"


def cell(metric: Metric, found: Estimate | float | None) -> str:
    """Return a metric's value as every table shows it: a share in per cent, bytes with their unit, else a number.

    An estimate is shown with its interval, if it has one.
    """
    if found is None:
        return NOTHING
    estimate = found if isinstance(found, Estimate) else Estimate(found, None, None, 0)
    if not math.isfinite(estimate.value):
        return NOTHING
    return share_interval(estimate) if metric.is_share else interval(estimate, metric.unit)


def setting_value(setting: StoredSetting) -> str:
    """Return the value of a setting in words: bytes and seconds with their unit, other numbers with commas."""
    found, unit = setting.value, " s" if setting.unit == "s" else ""
    if isinstance(found, bool) or not isinstance(found, int | float):
        return NOTHING if found is None else str(found)
    if setting.unit == "bytes":
        return format_bytes(found)
    return f"{found:,}{unit}" if isinstance(found, int) else f"{found:,g}{unit}"


def share(value: float | None, decimals: int = 1) -> str:
    """Return a ratio in per cent; a dash for None.

    >>> share(0.9987, 2)
    '99.87 %'
    """
    return NOTHING if value is None else f"{100 * value:.{decimals}f} %"


def signed_share(value: float | None) -> str:
    """Return a relative change (a ratio less one) in per cent with its sign; a dash for None.

    >>> signed_share(0.0213), signed_share(-0.3), signed_share(-0.0002)
    ('+2.1 %', '-30.0 %', '0.0 %')
    """
    if value is None:
        return NOTHING
    shown = f"{100 * value:+.1f}"
    return f"{shown if float(shown) else '0.0'} %"


def share_interval(estimate: Estimate) -> str:
    """Return a share with its interval in per cent. The interval is cut at 0 and 100 %, which the fit may exceed.

    >>> share_interval(Estimate(0.412, 0.401, 0.423, n=5)), share_interval(Estimate(0.0205, None, None, n=1))
    ('41.2 (40.1–42.3) %', '2.05 %')
    >>> share_interval(Estimate(0.76, None, None, n=1)), share_interval(Estimate(0.998712, None, None, n=1))
    ('76 %', '99.871 %')
    >>> share_interval(Estimate(0.02, -0.10, 0.14, n=4))
    '2.0 (0.0–14.0) %'
    """
    percent = 100 * estimate.value
    if estimate.ci_low is None or estimate.ci_high is None:
        # Show three digits of the share and of its complement: 99.9 % would hide whether 1 or 2 in a thousand miss.
        text = f"{percent:.{max(_decimals(percent), min(4, _decimals(100 - percent)))}f}"
        return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"
    low, high = 100 * max(0.0, estimate.ci_low), 100 * max(estimate.value, min(1.0, estimate.ci_high))
    return f"{with_bounds(Estimate(percent, low, high, estimate.n))} %"


def verdict(found: Verdict, unit: str) -> str:
    """Return the verdict on one step in words: "falls by 38–43 %", "not resolved", "identical"."""
    estimate = found.estimate
    if found.direction == "identical":
        return f"identical (n = {estimate.n})"
    if found.direction == "no_interval":
        why = "one repetition" if estimate.n < 2 else (estimate.note or "no interval")
        return f"not resolved: {_seen(found, unit)} ({why}, n = {estimate.n})"
    if found.direction in ("falls", "rises"):
        return f"{found.direction} by {change(found, unit)}"
    if change_is_unknown(found):
        return f"not resolved: {signed_change(found, unit)}"
    return f"not resolved ({signed_change(found, unit)}{could_find(found, unit)})"


def change_is_unknown(found: Verdict) -> bool:
    """Return whether a ratio is unknown: its direction is not resolved, and its interval is too wide."""
    return found.contrast == "ratio" and not found.resolved and is_unknown(found.estimate)


def change(found: Verdict, unit: str) -> str:
    """Return both bounds of a claimed change: "38–43 %" for a ratio, "0.3–0.5 pages" for a difference.

    Raise ValueError for a change without an interval.
    """
    low, high = found.estimate.ci_low, found.estimate.ci_high
    if low is None or high is None:
        raise ValueError("a change without an interval cannot be claimed")
    if found.contrast == "difference":
        low, high = sorted((abs(low), abs(high)))
        return _difference_range(low, high, unit)
    low, high = (1 - high, 1 - low) if found.direction == "falls" else (low - 1, high - 1)
    return percent_range(low, high)


def signed_change(found: Verdict, unit: str) -> str:
    """Return the interval of a change that is not resolved: "−3 to +5 %".

    If the interval is too wide to be useful, return the measured change: "−91 % (interval too wide, n = 2)".
    """
    low, high = found.estimate.ci_low, found.estimate.ci_high
    if low is None or high is None:
        return NOTHING
    if change_is_unknown(found):
        return unsure(_seen(found, unit), found.estimate)
    if found.contrast == "difference":
        factor = _factor(unit)
        return f"{_sign(low)}{number(factor * abs(low))} to {_sign(high)}{number(factor * abs(high))} {unit}".strip()
    return signed_range(low - 1, high - 1)


def signed_range(low: float, high: float, unit: str = "%") -> str:
    """Return the bounds of a change, given as shares, in per cent with signs, rounded outward.

    >>> signed_range(-0.0025, 0.0022), signed_range(0.0836, 0.0986), signed_range(0.001, 0.002, "percentage points")
    ('−0.3 to +0.3 %', '+8.3 to +9.9 %', '+0.1 to +0.2 percentage points')
    """
    decimals = _percent_decimals(high - low)
    low, high = _outward(100 * low, 100 * high, decimals)
    return f"{_sign(low)}{abs(low):.{decimals}f} to {_sign(high)}{abs(high):.{decimals}f} {unit}"


def _seen(found: Verdict, unit: str) -> str:
    """Return the measured change, resolved or not: "−91 %", "+0.3 pages"."""
    change = found.estimate.value - (1.0 if found.contrast == "ratio" else 0.0)
    if not math.isfinite(change):
        return NOTHING
    if found.contrast == "ratio":
        return f"{_sign(change)}{two_digits(abs(change))} %"
    return f"{_sign(change)}{number(_factor(unit) * abs(change))} {unit}".strip()


def could_find(found: Verdict, unit: str) -> str:
    """Return `detectable` as the end of a sentence, "; 3.5 % would have been found"; "" if there is none."""
    said = detectable(found, unit)
    return f"; {said} would have been found" if said else ""


def detectable(found: Verdict, unit: str) -> str:
    """Return the smallest change that four of five such sweeps would resolve: "3.5 %".

    Return "" if there is none, or if it is a ratio above WIDEST_FACTOR, which would be useless.
    """
    if found.detectable is None or (found.contrast == "ratio" and found.detectable > WIDEST_FACTOR):
        return ""
    if found.contrast == "difference":
        return f"{number(_factor(unit) * found.detectable)} {unit}".strip()
    return f"{two_digits(found.detectable - 1)} %"


_NEAR_ZERO = 1 / 50
"""A lower bound below this share of the upper bound is left out: it only says that the change is above zero."""


def percent_range(low: float, high: float) -> str:
    """Return the bounds of a claimed change, given as shares, in per cent, rounded outward.

    A lower bound that is near zero compared with the upper bound is left out.

    >>> percent_range(0.3812, 0.4277), percent_range(0.9712, 0.9731), percent_range(0.957, 0.9961)
    ('38–43 %', '97.1–97.4 %', '95.7–99.7 %')
    >>> percent_range(0.000006, 0.005245)
    'up to 0.6 %'
    """
    decimals = _percent_decimals(high - low)
    # A claimed change is above zero, and a fall is below 100 %: rounding must not change that.
    while decimals < 6:
        least, most = _outward(100 * low, 100 * high, decimals)
        if not (least <= 0 < low or high < 1 <= most / 100):
            break
        decimals += 1
    if low < _NEAR_ZERO * high < 1 - high:
        return f"up to {_outward(0, 100 * high, _percent_decimals(high))[1]:.{_percent_decimals(high)}f} %"
    low, high = _outward(100 * low, 100 * high, decimals)
    return f"{low:.{decimals}f}–{high:.{decimals}f} %"


def count(estimate: Estimate) -> str:
    """Return a number of things, rounded to a whole one, with its interval: "17,243 (17,233–17,252)"."""
    if is_unknown(estimate):
        return unsure(f"{estimate.value:,.0f}", estimate)
    if estimate.ci_low is None or estimate.ci_high is None:
        return f"{estimate.value:,.0f}"
    return f"{estimate.value:,.0f} ({math.floor(estimate.ci_low):,}–{math.ceil(estimate.ci_high):,})"


def outward_range(low: float, high: float) -> str:
    """Return two positive bounds, rounded outward, with enough digits to be different if the bounds are.

    >>> outward_range(0.0412, 0.0587), outward_range(0.05, 0.05)
    ('0.041–0.059', '0.05000–0.05000')
    """
    width = high - low if high > low else high / 100 or 1.0
    decimals = min(6, max(0, 1 - math.floor(math.log10(width))))
    # A bound above zero stays above zero.
    while low > 0 and decimals < 9 and _outward(low, high, decimals)[0] <= 0:
        decimals += 1
    low, high = _outward(low, high, decimals)
    return f"{low:,.{decimals}f}–{high:,.{decimals}f}"


def unit_of_change(metric: Metric) -> str:
    """Return the unit of a difference of the metric: percentage points for a share, "" for a ratio, else the unit."""
    return POINTS if metric.is_share else metric.unit.replace("us", "µs") if metric.unit != "1" else ""


def heading(metric: Metric) -> str:
    """Return a metric's title without its unit of work, for tables whose title names that unit.

    >>> from bufferlab.results.metrics import PerWork, Rates
    >>> heading(PerWork.reads["new_order"]), heading(Rates.transactions_per_s)
    ('Reads', 'Transactions per second')
    """
    from bufferlab.results.metrics import WORK  # Imported late: most callers of this module need no metrics.

    if metric.top_unit in (*WORK.values(), "rows"):
        return metric.label
    return metric.label.removesuffix(f" per {'second' if metric.per == 's' else metric.per}")


#: Units that a column's head shows. Bytes and shares have their unit in each cell; other units are in the title.
_UNITS_IN_HEADS = {"us": "µs", "ms": "ms", "pages": "pages", "gets": "gets", "requests": "requests", "KiB": "KiB"}


def with_unit(title: str, metric: Metric) -> str:
    """Return `title` with the metric's unit, if neither the title nor the cells show it.

    >>> from bufferlab.results.metrics import PerWork
    >>> with_unit("Reads", PerWork.reads["new_order"]), with_unit("Bytes read", PerWork.read_bytes["new_order"])
    ('Reads (pages)', 'Bytes read')
    """
    unit = _UNITS_IN_HEADS.get(metric.top_unit)
    return f"{title} ({unit})" if unit else title


def with_column(metric: Metric) -> str:
    """Return a metric's title with its unit, and the column of iostat or mpstat that shows the same number.

    >>> from bufferlab.results.metrics import DeviceRest
    >>> with_column(DeviceRest.device_flush_await_ms), with_column(DeviceRest.device_flushes_per_s)
    ('Time of a device flush (f_await, ms)', 'Device flushes per second (f/s)')
    """
    unit = "" if metric.top_unit == "requests" else _UNITS_IN_HEADS.get(metric.top_unit)
    told = ", ".join(filter(None, [metric.column, unit]))
    return f"{metric.label} ({told})" if told else metric.label


def axis_title(metric: Metric) -> str:
    """Return a metric's title with the unit of the numbers at an axis; shares are in per cent there."""
    if metric.is_share:
        return f"{metric.label} (%)"
    from bufferlab.results.metrics import WORK

    unit = metric.top_unit.replace("us", "µs")
    return metric.label if unit in (*WORK.values(), "1", "rows", "arrivals", "bytes") else f"{metric.label} ({unit})"


_KEPT_TOGETHER = re.compile(
    r"(?<=[\d)]) (?=(?:%|[KMGT]?i?B|s|runs?)(?!\w))|(?<=\bn) (?==)|(?<=\bn =) |(?<=\bblock) (?=\d)"
    r"|(?<=\d) (?=of \d)|(?<=\d of) (?=\d)|(?<=×) (?=\d)"
)


def kept_together(text: str) -> str:
    """Return a text with non-breaking spaces between a number and its unit, and between "block" and its number.

    >>> kept_together("5 runs of 30 MiB").replace("\u00a0", "_")
    '5_runs of 30_MiB'
    """
    return _KEPT_TOGETHER.sub("\u00a0", text)


def lowered(title: str) -> str:
    """Return a title for use within a sentence: with a small first letter, unless the first word is a name.

    >>> lowered("Hit ratio"), lowered("New-Orders per second"), lowered("LRU scan depth")
    ('hit ratio', 'New-Orders per second', 'LRU scan depth')
    """
    is_name = title.startswith("New-Order") or title[:2].isupper()
    return title if is_name else title[:1].lower() + title[1:]


def listing(items: list[str]) -> str:
    """Return one or more items as a list in a sentence: "a, b and c"."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "run"), plural(15, "run")
    ('1 run', '15 runs')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _factor(unit: str) -> float:
    """Return the factor that converts a difference for display in this unit: 100 for percentage points, else 1."""
    return 100.0 if unit == POINTS else 1.0


def _difference_range(low: float, high: float, unit: str) -> str:
    factor = _factor(unit)
    decimals = _decimals(factor * (high - low)) - 2 if high > low else 2
    decimals = max(0, decimals)
    # Rounding must not reduce a claimed change to zero.
    while low > 0 and decimals < 6 and _outward(factor * low, factor * high, decimals)[0] <= 0:
        decimals += 1
    low, high = _outward(factor * low, factor * high, decimals)
    return f"{low:,.{decimals}f}–{high:,.{decimals}f} {unit}".strip()


def _decimals(value: float) -> int:
    if value == 0:
        return 0
    return min(6, max(0, 2 - math.floor(math.log10(abs(value)))))


def _percent_decimals(width: float) -> int:
    """Return the number of decimals for a per cent whose interval has this width (a share): more if it is narrow."""
    return 0 if width >= 0.02 else 1 if width >= 0.001 else 2


def _outward(low: float, high: float, decimals: int) -> tuple[float, float]:
    # A small tolerance keeps binary fractions from turning 38.0 into 37.9.
    factor, hair = 10**decimals, 1e-9
    return math.floor(low * factor + hair) / factor, math.ceil(high * factor - hair) / factor


def _sign(value: float) -> str:
    return "−" if value < 0 else "+"


def _byte_interval(estimate: Estimate) -> str:
    if estimate.ci_low is None or estimate.ci_high is None:
        return format_bytes(estimate.value)
    low, high = format_bytes(estimate.ci_low), format_bytes(estimate.ci_high)
    if low.split()[1] == high.split()[1]:
        low = low.split()[0]
    return f"{format_bytes(estimate.value)} ({low}–{high})"
