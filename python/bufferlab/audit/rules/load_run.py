"""Rules about the reports of load generators: totals and counts, latencies, requests in flight, clients that ended."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from bufferlab.audit.evidence import AuditFinding, Case, Judges
from bufferlab.audit.parsers.load_run import Direction, LoadRun
from bufferlab.chapter.words import plural
from bufferlab.units import format_percent

#: The tolerance for numbers measured with different clocks. Programs read a clock a moment before or after they count;
#: on a busy machine sysbench's numbers differ by 3 %.
_CLOCKS = 0.05
#: The tolerance for numbers measured with the same clock, which differ only by rounding.
_ROUNDED = 0.005
_LAST_DIGIT_PER_S = 0.011
_LAST_DIGIT_MIB_S = 0.011
#: The least transactions (TPM) per New-Order (NOPM) in HammerDB. It makes 23 transactions for 10 New-Orders, and some
#: databases count further statements as transactions.
_LEAST_TPM_PER_NOPM = 2.0

_Sum = tuple[str, float, float]
"""The name of a number, the number as printed, and the number that follows from the report's other numbers."""


def load_totals(case: Case) -> Iterator[AuditFinding]:
    """Compare the totals in a load generator's report with the totals that follow from its counts, times and lines.

    Yield a finding for each run with totals that differ.
    """
    for run in case.loads():
        found = [*_of_counts(run), *_of_latencies(run), *_of_bytes(run), *_of_lines(run), *_of_minutes(run)]
        if found:
            yield _load_totals_finding(run, found)


def _off(name: str, said: float | None, should: float | None, tolerance: float, step: float = 0.0) -> Iterator[_Sum]:
    """Yield a number that differs from `should` by more than `tolerance` times `should` plus `step`."""
    if said is not None and should is not None and abs(said - should) > tolerance * abs(should) + step:
        yield name, said, should


def _off_rate(run: LoadRun, name: str, count: float, tolerance: float) -> Iterator[_Sum]:
    """Yield a run's rate if it is not `count` divided by the run's seconds, with or without the time to connect."""
    if run.per_s is not None and run.seconds and run.counted_s:
        least, most = count / run.seconds, count / run.counted_s
        # fio cuts off the decimals of its rates. go-tpc prints rates per minute with one decimal.
        step = _LAST_DIGIT_PER_S if run.tool == "go-tpc" else 1.0
        yield from _off(name, run.per_s, min(max(run.per_s, least), most), tolerance, step)


def _of_counts(run: LoadRun) -> Iterator[_Sum]:
    # If clients aborted, the run was shorter than the requested time, and no other time is known.
    if run.transactions is not None and run.seconds and not (run.is_asked and run.lost):
        yield from _off_rate(run, "per second, by count and time", run.transactions, _CLOCKS)
    if {"read", "write", "other", "total"} <= run.queries.keys():
        parts = sum(run.queries[kind] for kind in ("read", "write", "other"))
        yield from _off("queries in all, by their kinds", run.queries["total"], parts, 0.0, 0.5)


def _of_latencies(run: LoadRun) -> Iterator[_Sum]:
    if run.latency_sum_ms is not None and run.transactions:
        mean_ms = run.latency_sum_ms / run.transactions
        yield from _off("mean latency in ms, by sum and count", run.mean_ms, mean_ms, _ROUNDED, run.mean_slack_ms)


def _of_bytes(run: LoadRun) -> Iterator[_Sum]:
    if run.bytes is not None and run.seconds:
        yield from _off(
            "KiB per second, by bytes and time", _kib(run.bytes_per_s), _kib(run.bytes / run.seconds), _CLOCKS, 1
        )
    flows = {"": Direction(run.per_s, run.bytes_per_s), **run.directions}
    for name, flow in flows.items() if run.block_bytes else ():
        if flow.per_s is not None:
            size = run.block_bytes or 0
            yield from _off(
                f"KiB {name} per second, by requests and their size".replace("  ", " "),
                _kib(flow.bytes_per_s),
                _kib(flow.per_s * size),
                _CLOCKS,
                max(size / 1024, _LAST_DIGIT_MIB_S * 1024 if name else 0.0),
            )


def _kib(size_bytes: float | None) -> float | None:
    return size_bytes / 1024 if size_bytes is not None else None


def _of_lines(run: LoadRun) -> Iterator[_Sum]:
    """Compare the sum of the interval lines with the run's rate.

    If the last lines are missing, only a sum above the total is wrong, because missing lines cannot be negative.
    """
    lines, seconds, per_s = run.intervals, run.seconds, run.per_s
    if run.cut and seconds:
        # The file may have further lines of progress after the report.
        lines = [line for line in lines if line.end_s <= seconds * (1 + _CLOCKS)]
    if not lines or not seconds or per_s is None or (run.is_asked and run.lost):
        return
    ends = [0.0, *(line.end_s for line in lines)]
    steps = [b - a for a, b in pairwise(ends)]
    if min(steps) <= 0 or max(steps) > 1.5 * min(steps):
        return
    counted = sum(step * line.per_s for step, line in zip(steps, lines, strict=True))
    if counted > per_s * seconds or abs(ends[-1] - seconds) <= _CLOCKS * seconds:
        yield from _off_rate(run, "per second, by the interval lines", counted, 2 * _CLOCKS)


def _of_minutes(run: LoadRun) -> Iterator[_Sum]:
    if run.nopm is not None and run.transactions is not None and run.seconds:
        tpmc = 60 * run.transactions / run.seconds
        # The seconds are printed with one decimal, so they may be off by 0.05 s.
        yield from _off("TpmC, by New-Orders and time", run.nopm, tpmc, _ROUNDED + 0.051 / run.seconds, 0.11)
    if run.nopm and run.tpm and run.tpm < _LEAST_TPM_PER_NOPM * run.nopm:
        yield "TPM, at 2.3 transactions for each New-Order", run.tpm, 2.3 * run.nopm


def _load_totals_finding(run: LoadRun, found: list[_Sum]) -> AuditFinding:
    listed = "; ".join(f"{name}: {said:,.6g} printed, {should:,.6g} follows" for name, said, should in found)
    return AuditFinding(
        run.place,
        f"{run.title} has numbers that do not follow from each other: {listed}",
        "one of the two is of another run, in another unit, or was changed",
        "; ".join(f"{should:,.6g} {name}, if these are right" for name, _, should in found),
        {
            "what": [name for name, *_ in found],
            "said": [said for _, said, _ in found],
            "follows": [should for *_, should in found],
        },
    )


#: The relative tolerance for percentiles. Bins of sysbench's histogram are 1.8 % wide, those of fio's 1.6 %, and the
#: middle of a bin may lie above the maximum.
_BIN = 0.02
_LAST_DIGIT_MS = 0.011
#: Means below this many milliseconds are printed with too few digits.
_SHORT_MS = 0.1


def latency_order(case: Case) -> Iterator[AuditFinding]:
    """Find latencies that are not in the order least, percentiles, greatest, and means that are not between the ends.

    Yield a finding for each such run.
    """
    for run in case.loads():
        ordered = sorted(
            (float(name[:-2]), name, value) for name, value in run.latency_ms.items() if name.endswith(" %")
        )
        named = [(name, value) for _, name, value in ordered]
        ends = [(end, [(end, run.latency_ms[end])] if end in run.latency_ms else []) for end in ("min", "max")]
        (_, least), (_, most) = ends
        mean = [("the mean", run.mean_ms)] if run.mean_ms is not None else []
        spans = ([("min", low), ("the mean", middle), ("max", high)] for low, middle, high in run.spans_ms)
        chains = ([*least, *named, *most], [*least, *mean, *most], *spans)
        wrong = [
            (low, high)
            for chain in chains
            for low, high in pairwise(chain)
            if low[1] > high[1] * (1 + _BIN) + _LAST_DIGIT_MS
        ]
        if wrong:
            yield _latency_order_finding(run, wrong[0])


def _latency_order_finding(run: LoadRun, wrong: tuple[tuple[str, float], tuple[str, float]]) -> AuditFinding:
    (lower, low), (higher, high) = wrong
    return AuditFinding(
        run.place,
        f"{run.title}: {lower} of the latencies is {low:g} ms, and {higher} is {high:g} ms",
        "they cannot be of the same transactions in the same unit: one of the two is wrong",
        f"{lower}: at most {high:g} ms, if {higher} is right",
        {"lower": lower, "lower_ms": low, "higher": higher, "higher_ms": high},
    )


def in_flight(case: Case) -> Iterator[AuditFinding]:
    """Find reports with more transactions in flight (rate x mean latency, by Little's law) than clients.

    A client has one transaction at a time, a job of fio as many as its depth. Runs at a set rate are left out: their
    latency includes the wait for a client.

    Yield a finding for each such run.
    """
    for run in case.loads():
        rate = run.per_s
        if rate is None and run.transactions is not None and run.counted_s:
            rate = run.transactions / run.counted_s
        mean_ms = run.mean_ms if run.mean_ms is None or run.mean_ms >= _SHORT_MS else run.fine_mean_ms
        if rate is None or mean_ms is None or not run.clients or run.paced:
            continue
        flying = rate * mean_ms / 1000
        # A printed mean has two or three decimals, so it may be wrong by its last digit.
        digit_ms = _LAST_DIGIT_MS if mean_ms == run.mean_ms else 0.0
        if flying > run.clients * (1 + 2 * _CLOCKS) + rate * digit_ms / 1000:
            yield _in_flight_finding(run, rate, mean_ms, flying)


def _in_flight_finding(run: LoadRun, rate: float, mean_ms: float, flying: float) -> AuditFinding:
    assert run.clients is not None
    return AuditFinding(
        run.place,
        f"{run.title}: {rate:,.6g} per second of {mean_ms:g} ms each keep {flying:.3g} in flight, and there are"
        f" {run.clients} clients",
        "a client has one transaction at a time: rate, latency or the number of clients is of another run or unit",
        f"at most {run.clients / rate * 1000:.4g} ms each, if rate and clients are right",
        {"per_s": rate, "mean_ms": mean_ms, "clients": run.clients, "in_flight": flying},
    )


def clients_lost(case: Case) -> Iterator[AuditFinding]:
    """Find runs in which clients ended early, so that the load was smaller than the report says.

    Sources: "FINISHED FAILED" of HammerDB, "client N aborted" and "Run was aborted" of pgbench.

    Yield a finding for each such run.
    """
    for run in case.loads():
        if run.lost:
            yield _clients_lost_finding(run)


def _clients_lost_finding(run: LoadRun) -> AuditFinding:
    lost = len(run.lost)
    of = f" of {run.clients} ({format_percent(lost / run.clients)})" if run.clients else ""
    return AuditFinding(
        run.place,
        f"{run.title}: {plural(lost, 'client')}{of} ended with an error before the run did",
        "the result is of fewer clients than it names, and of less and less load",
        f"{plural(run.clients - lost, 'client')} at the end"
        if run.clients
        else "none: look for the error, and run it again",
        {"lost": lost, "clients": run.clients},
    )


def _has_totals(load: LoadRun) -> bool:
    has_rate = load.per_s is not None and load.seconds
    by_count = load.transactions is not None and has_rate and not (load.is_asked and load.lost)
    by_sum = load.latency_sum_ms is not None and load.transactions
    by_nopm = load.nopm and (load.tpm or (load.transactions and load.seconds))
    return bool(by_count or by_sum or load.bytes or load.directions or load.queries or by_nopm)


def _has_clients(load: LoadRun) -> bool:
    has_rate = load.per_s or load.transactions
    return bool(load.clients and not load.paced and load.mean_ms is not None and has_rate)


JUDGES: Judges = {
    "latency-order": lambda case: any(len(load.latency_ms) + (load.mean_ms is not None) > 1 for load in case.loads()),
    "load-totals": lambda case: any(map(_has_totals, case.loads())),
    "in-flight": lambda case: any(map(_has_clients, case.loads())),
    "clients-lost": lambda case: any(load.tool in ("pgbench", "HammerDB") for load in case.loads()),
}
