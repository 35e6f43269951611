"""The integrity checks of a sweep on any engine: they compare numbers that must agree if the sweep is sound.

All functions are pure: they take runs and return checks. Every check is reported: it passes, fails, or says why it
does not apply. The limits are constants of this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bufferlab.results.check_parts import (
    Check,
    Made,
    MeasuredRun,
    Off,
    not_applicable,
    outcome,
    ratio_off,
    stood_still,
    touching,
    worst_of,
)
from bufferlab.results.window import Value

PROCESS_BYTES_LIMIT = 0.005
DEVICE_BYTES_LIMIT = 0.02
DEVICE_MIN_READS = 20_000
LITTLE_LIMIT = 0.02
#: The share of connections that may be idle, as a mean over the window: a connection is idle from the end of its last
#: transaction to the window's end, while other connections finish theirs.
CONNECTIONS_LIMIT = 0.05
#: A sum of N service times has a relative scatter of about 1 / sqrt(N). A deviation of up to 3 times that is no fault.
CONNECTIONS_SIGMAS = 3.0
#: A number N of page gets has a relative scatter of about sqrt(20 / N), because a transaction gets about twenty pages
#: at once (tools/known-scatter.csv). A deviation of up to 3 times that is no fault: 3 * sqrt(20) is 13.
PAGE_GETS_SIGMAS = 13.0
ARRIVALS_LIMIT = 0.005
#: A number N of random arrivals has a relative scatter of 1 / sqrt(N). A deviation of 4.5 times that is no fault.
ARRIVALS_SIGMAS = 4.5
STOLEN_LIMIT = 0.20


def check_sweep(runs: Sequence[MeasuredRun]) -> list[Check]:
    """Return every check of these runs, which must have ended well, in the order in which a report shows them."""
    if not runs:
        return []
    return [check(runs) for check in (*_BEFORE, *runs[0].engine.checks, *_AFTER)]


#: Settings that, on any engine, do not change which pages the transactions get.
_SAME_WORK = frozenset({"pool_size", "pool_size_bytes", "io_mode", "arm"})


def _page_gets(runs: Sequence[MeasuredRun]) -> Check:
    """Check that transactions get equally many pages at all pool sizes; if not, the points did different work.

    The check leaves out gets that reads themselves cause (`asked_for` of InnoDB): a larger pool has fewer of them.
    """
    name, title = "page_gets_constant", "Page gets that the work itself asks for do not depend on the pool"
    swept = {knob for run in runs for knob in run.run.point.swept}
    if len({run.run.point.index for run in runs}) < 2:
        return not_applicable(name, title, "the sweep has one point")
    if runs[0].run.inputs == "trace":
        return not_applicable(name, title, "a model plays the traced run's own gets at every point")
    if runs[0].run.inputs == "generated":
        return not_applicable(name, title, "no pool has a part in generated gets, which change as the database grows")
    engine = runs[0].engine
    if why := next(filter(None, map(engine.page_gets_vary, runs)), None):
        return not_applicable(name, title, why)
    if not swept <= _SAME_WORK | engine.same_work:
        return not_applicable(name, title, f"{', '.join(sorted(swept))} may change which pages the work asks for")
    gets = [(run, engine.asked_for(run)) for run in runs]
    told = [(run, value.value) for run, value in gets if value.value is not None]
    if not told:
        return not_applicable(name, title, gets[0][1].reason or "not sampled")
    if not any(value for _, value in told):
        return not_applicable(name, title, "the server's counter of gets stands still")
    # The points of a block share a seed, so they run the same transactions. Only their warm-ups may have grown the
    # database differently.
    means: dict[int, float] = {}
    for block in {run.run.block for run, _ in told}:
        of_block = [value for run, value in told if run.run.block == block]
        means[block] = sum(of_block) / len(of_block)
    offs = (Off(run, abs(value / means[run.run.block] - 1), least=_gets_scatter(run)) for run, value in told)
    return worst_of(name, title, engine.page_gets_limit, offs)


def _gets_scatter(run: MeasuredRun) -> float:
    gets = run.window.change("page_gets").value
    return PAGE_GETS_SIGMAS / gets**0.5 if gets else 0.0


@touching("reads")
def _process_bytes(runs: Sequence[MeasuredRun]) -> Check:
    name, title = "process_read_bytes", "Bytes read by the database equal the process's read_bytes"
    if not any(run.direct for run in runs):
        why = "buffered I/O: the page cache serves reads that never reach storage, so the two differ by design"
        return not_applicable(name, title, why)
    found = worst_of(name, title, PROCESS_BYTES_LIMIT, (_bytes_off(run, _process_of(run), 0) for run in runs))
    if found.status == "not_applicable" or not any(run.engine.reads_beside(run) for run in runs):
        return found
    return replace(found, detail=f"{found.detail}; allowed besides: {runs[0].engine.reads_beside_are}")


def _process_of(run: MeasuredRun) -> str:
    """Return the name of the metric of bytes read by the process that reads the database: the server, or the worker."""
    return "server_read_bytes" if run.engine.is_server else "process_read_bytes"


@touching("device")
def _device_bytes(runs: Sequence[MeasuredRun]) -> Check:
    name, title = "device_read_bytes", "Bytes read by the database equal the device's"
    if not any(run.direct for run in runs):
        return not_applicable(name, title, "buffered I/O: the page cache stands between the two")
    offs = (_bytes_off(run, "device_read_bytes", DEVICE_MIN_READS) for run in runs)
    found = worst_of(name, title, DEVICE_BYTES_LIMIT, offs)
    if found.status != "failed" or " more " not in found.detail:
        return found
    # `_process_bytes` already compares the database's count with the kernel's. So only the device's numbers are in
    # doubt.
    caveat = "other programs read from the device meanwhile"
    return replace(not_applicable(name, title, f"{found.detail}; {caveat}"), caveat=caveat)


def _bytes_off(run: MeasuredRun, other: str, min_reads: int) -> Off:
    """Return the deviation of the counter `other` from the database's own count of bytes read, after known differences
    are subtracted.

    The two counters are not sampled at the same moment, so either may include reads that the server did between the two
    samples. Also, a server may read files that do not belong to the database.
    """
    if not run.direct:
        return Off(run, None, "buffered I/O")
    reads = run.window.change("pages_read").value
    if reads is not None and reads <= min_reads:
        return Off(
            run,
            None,
            f"no run read more than {min_reads:,} pages; other programs' reads would weigh too much",
        )
    found = ratio_off(run, run.window.change(other), run.window.change("db_read_bytes"))
    of_database = run.window.change("db_read_bytes").value
    if not found.share or not of_database:
        return found
    allowed = sum(level("server_edge_read_bytes").value or 0.0 for level in (run.window.first_level, run.window.level))
    if found.why == "more":
        allowed += run.engine.reads_beside(run)
    return replace(found, share=max(0.0, found.share - allowed / of_database))


@touching("times")
def _little(runs: Sequence[MeasuredRun]) -> Check:
    """Check Little's law in a closed loop without think time.

    SQLite: terminals = throughput x (queue + service time). A server: connections = throughput x service time, because
    each connection always runs a transaction.
    """
    name = "littles_law"
    if all(run.engine.is_server for run in runs):
        title = "Little's law holds (connections = throughput × service time)"
        return worst_of(name, title, CONNECTIONS_LIMIT, map(_connections_off, runs))
    return worst_of(name, "Little's law holds (terminals = throughput × time)", LITTLE_LIMIT, map(_little_off, runs))


def _little_off(run: MeasuredRun) -> Off:
    workload = run.run.workload
    if run.open_loop:
        return Off(run, None, "open loop: as many transactions are inside as arrive, not a fixed number")
    if workload["name"] != "tpcc":
        return Off(run, None, f"{workload['name']} has no terminals that wait for each other")
    terminals = workload.get("terminals") or 10 * workload.get("warehouses", 0)
    if not terminals or not run.window.seconds or "queue" not in run.latency_us:
        return Off(run, None, "the run has no queue times")
    inside = sum(run.latency_us.values()) / 1e6 / run.window.seconds
    # Each terminal may have a transaction that crosses an edge of the window. Such a transaction is counted whole or
    # not at all.
    allowance = terminals / max(1, run.latency_n)
    return Off(run, max(0.0, abs(inside / terminals - 1) - allowance))


def _connections_off(run: MeasuredRun) -> Off:
    """Return the deviation of the number of connections from throughput x mean service time."""
    if run.open_loop:
        return Off(run, None, "open loop: a connection waits for its next arrival")
    if not run.window.seconds or not run.latency_n:
        return Off(run, None, "the run has no service times")
    inside = run.latency_us.get("service", 0.0) / 1e6 / run.window.seconds
    allowance = run.connections / run.latency_n
    share = max(0.0, abs(inside / run.connections - 1) - allowance)
    return Off(run, share, least=CONNECTIONS_SIGMAS / run.latency_n**0.5)


@touching("times")
def _arrivals(runs: Sequence[MeasuredRun]) -> Check:
    """Check that arrivals = committed + rolled back + dropped transactions; waiting arrivals are not counted."""
    name, title = "arrivals_accounted", "Every arrival was served or dropped; without a rate there are none"
    stray = [run.label for run in runs if not run.open_loop and any(_arrival_counts(run).values())]
    if stray:
        return outcome(name, title, False, f"arrivals were counted in a closed loop ({stray[0]})")
    if not any(run.open_loop for run in runs):
        return not_applicable(name, title, _NO_RATE)

    def off(run: MeasuredRun) -> Off:
        if not run.open_loop:
            return Off(run, None, _NO_RATE)
        counts, ended = _arrival_counts(run), run.values["transactions"]
        if ended.value is None or counts["arrivals"] is None:
            return Off(run, None, ended.reason or "arrivals were not sampled")
        if (counts["arrivals_late"] or 0) > ended.value:
            return Off(run, 1.0, "more late than served")
        return ratio_off(run, Value(ended.value + (counts["arrivals_dropped"] or 0)), Value(counts["arrivals"]))

    return worst_of(name, title, 0.0, map(off, runs))


@touching("times")
def _achieved_rate(runs: Sequence[MeasuredRun]) -> Check:
    """Check that transactions arrived at the requested rate. A slow engine delays arrivals, but must not lose any."""
    name, title = "arrival_rate", "Transactions arrived at the rate asked for"
    return worst_of(name, title, ARRIVALS_LIMIT, map(_rate_off, runs))


def _rate_off(run: MeasuredRun) -> Off:
    load = run.run.load
    if not run.open_loop or not load.rate_per_s:
        return Off(run, None, _NO_RATE)
    arrivals = _arrival_counts(run)["arrivals"]
    if not arrivals or not run.window.seconds:
        return Off(run, None, "arrivals were not sampled")
    # A driver that lags by `behind_s` at the window's end has not yet taken the arrivals scheduled since then.
    behind_s = (run.window.level("arrival_lag_us").value or 0.0) / 1e6
    achieved = arrivals / max(1e-9, run.window.seconds - behind_s)
    scatter = ARRIVALS_SIGMAS / arrivals**0.5 if load.arrivals == "poisson" else 1 / arrivals
    off = achieved / load.rate_per_s - 1
    return Off(run, max(0.0, abs(off) - scatter), "more" if off > 0 else "less")


_NO_RATE = "no rate was asked for"


def _arrival_counts(run: MeasuredRun) -> dict[str, float | None]:
    return {name: run.window.change(name).value for name in ("arrivals", "arrivals_late", "arrivals_dropped")}


@touching("times")
def _latency_counts(runs: Sequence[MeasuredRun]) -> Check:
    def off(run: MeasuredRun) -> Off:
        if not run.latency_n:
            return Off(run, None, "the run has no latency histograms")
        return ratio_off(run, Value(float(run.latency_n)), run.values["transactions"])

    return worst_of("latency_counts", "Every completed transaction is in a latency histogram", 0.0, map(off, runs))


#: For checks of the pool's state: numbers that depend on the pool's contents are in doubt.
_of_the_pool = touching("reads", "writes", "times", "device")


@_of_the_pool
def _warm_up(runs: Sequence[MeasuredRun]) -> Check:
    name, title = "warm_up_gates", "Every warm-up met a condition of its gate before its cap"
    gates = [run.run.warm_up.gate if run.run.warm_up else "not recorded" for run in runs]
    if set(gates) == {"cold"}:
        return not_applicable(name, title, "none was asked for: every window begins with a cold pool")
    ended = ", ".join(f"{gates.count(gate)} by {gate.replace('_', ' ')}" for gate in dict.fromkeys(gates))
    steady = all(gate in ("pool_turnover", "flat_misses", "no_new_pages", "fixed") for gate in gates)
    advice = "" if steady else "; run --resume with a larger --warm-up-max or --warm-up-time lets it settle"
    waited = sum(run.run.warm_up is not None and run.run.warm_up.at_cap for run in runs) - gates.count("cap")
    ended += f"; {waited} of them at the cap, while the gate waited for more" if waited else ""
    held = "; where reads brought no new page, the pool held all that was touched" if "no_new_pages" in gates else ""
    return outcome(name, title, steady, f"{len(runs)} runs: {ended}{held}{advice}")


@_of_the_pool
def _steady(runs: Sequence[MeasuredRun]) -> Check:
    name, title = "steady_window", "Misses per transaction stood still in the measured window (last third over first)"
    third = [(run.window.change("demand_misses").value or 0.0) / 3 for run in runs]
    return stood_still(
        name, title, "misses", [(run, run.drift, counted) for run, counted in zip(runs, third, strict=True)]
    )


def _consistency(runs: Sequence[MeasuredRun]) -> Check:
    name, title = "consistency", "The workload's consistency conditions hold after every run"
    rows = [(run, condition) for run in runs if run.run.consistency for condition in run.run.consistency.conditions]
    unchecked = [run.label for run in runs if not run.run.consistency]
    if not rows:
        return not_applicable(name, title, "no run had its conditions checked")
    broken = [f"condition {row.condition} ({row.name}; {run.label})" for run, row in rows if not row.passed]
    if broken or unchecked:
        return outcome(name, title, False, "; ".join([*broken, *(f"not checked: {label}" for label in unchecked)]))
    return outcome(name, title, True, f"{len(rows)} conditions held in {len(runs)} runs")


#: The settings that decide which data are loaded, in addition to the page size.
_DATA_SETTINGS = ("warehouses", "rows", "load_seed", "server", "storage_engine")


def _same_data(runs: Sequence[MeasuredRun]) -> Check:
    name, title = "same_data", "Every run started from the same loaded data"
    keys: dict[tuple[Any, ...], set[Any]] = {}
    for run in runs:
        scale = tuple(f"{setting} {run.run.workload.get(setting, run.run.point.swept[setting])}"
                      for setting in _DATA_SETTINGS if setting in run.run.point.swept)  # fmt: skip
        keys.setdefault((f"page size {run.knob('page_size')}", *scale), set()).add(run.run.data_key)
    if any(None in found for found in keys.values()):
        return not_applicable(name, title, "a run does not record its data_key")
    differing = [", ".join(setting) for setting, found in keys.items() if len(found) > 1]
    detail = f"more than one data_key at {'; '.join(differing)}" if differing else f"one data_key for {len(runs)} runs"
    if not differing and len(keys) > 1:
        of_what = "page sizes" if all(len(setting) == 1 for setting in keys) else "settings of the data"
        detail = f"one data_key for each of {len(keys)} {of_what}"
    return outcome(name, title, not differing, detail)


def _counters_rise(runs: Sequence[MeasuredRun]) -> Check:
    name, title = "counters_rise", "No counter went backwards"
    counters = {name for run in runs for name, metric in run.raw.items() if metric.kind == "counter"}
    sampled = [counter for counter in counters if any(counter in run.window.end for run in runs)]
    reasons = {run.window.change(counter).reason for run in runs for counter in sampled}
    falls = sorted(reason for reason in reasons if reason and "backwards" in reason)
    return outcome(name, title, not falls, "; ".join(falls) or f"{len(runs)} runs, {len(sampled)} counters each")


@touching("times", "device")
def _swapping(runs: Sequence[MeasuredRun]) -> Check:
    name, title = "no_swapping", "The host did not swap during the measured windows"
    changes = [run.window.change(metric) for run in runs for metric in ("swap_in_pages", "swap_out_pages")]
    reason = next((value.reason for value in changes if value.value is None), None)
    if reason:
        return not_applicable(name, title, reason)
    total = sum(value.value or 0 for value in changes)
    return outcome(name, title, total == 0, f"{total:.0f} pages swapped in {len(runs)} runs")


@touching("times", "device")
def _stolen(runs: Sequence[MeasuredRun]) -> Check:
    """Check the steal time: processor time that the hypervisor gave to other guests. No database counter shows it."""
    name, title = "stolen_time", "The hypervisor took no more than a fifth of the processors' time"
    shares = [(run, run.values["cpu_steal_share"]) for run in runs]
    return worst_of(name, title, STOLEN_LIMIT, (Off(run, told.value, told.reason or "stolen") for run, told in shares))


_BEFORE: tuple[Made, ...] = (
    _warm_up,
    _steady,
    _page_gets,
    _process_bytes,
    _device_bytes,
    _little,
    _arrivals,
    _achieved_rate,
    _latency_counts,
)
_AFTER: tuple[Made, ...] = (_same_data, _consistency, _counters_rise, _swapping, _stolen)
