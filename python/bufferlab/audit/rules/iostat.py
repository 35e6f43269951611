"""Rules about iostat: samples against the server's counters, the average since boot, columns against each other.

Some columns follow from others: bytes/s = requests/s x size, and by Little's law queue = sum of requests/s x wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log, sqrt
from statistics import mean, stdev

from bufferlab.audit.evidence import AuditFinding, Case, CounterRates, Judges, RunEvidence
from bufferlab.audit.parsers.iostat import DeviceRow, IostatReport, busiest
from bufferlab.stats.estimate import tail_of_t
from bufferlab.units import format_percent

#: Samples whose mean is within 10 % of the counters' rate are not reported.
_NEAR = 0.10
#: The maximum error of the seconds between two printouts: one second at each end.
_CLOCK_S = 2.0


@dataclass(frozen=True)
class Sampled:
    """A run that has both samples of iostat and counters of the server."""

    run: RunEvidence
    rates: CounterRates
    spots: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Return the mean of the samples, in reads per second."""
        return mean(self.spots)

    @property
    def off(self) -> float:
        """Return the relative deviation of the samples' mean from the counters' rate."""
        return self.mean / self.rates.read_per_s - 1


def spot_samples(case: Case) -> Iterator[AuditFinding]:
    """Compare one-second samples of iostat with the cumulative counters of the status text between the same times.

    Counters include every read of the run, samples only the reads of a few seconds. So if the two differ, the counters
    are right.

    Yield one finding for each file whose samples differ from the counters, or show a trend that the counters lack.
    """
    for runs in case.runs_by_file.values():
        sampled = [found for run in runs if (found := sampled_of(run))]
        if not sampled:
            continue
        contradicted = len(sampled) > 1 and abs(_trend([one.mean for one in sampled]) - _counted(sampled)) > _NEAR
        if contradicted or any(abs(one.off) > max(_NEAR, _CLOCK_S / one.rates.seconds) for one in sampled):
            yield _spot_samples_finding(sampled, contradicted)


def sampled_of(run: RunEvidence) -> Sampled | None:
    """Return a run's samples and counters; None without counters, or with fewer than two samples."""
    rates = run.rates()
    spots = tuple(row.reads_per_s for row in run.spots() if row.reads_per_s is not None)
    return Sampled(run, rates, spots) if rates and rates.read_per_s and len(spots) > 1 else None


def _trend(values: list[float]) -> float:
    return values[-1] / values[0] - 1 if values[0] else 0.0


def _counted(sampled: list[Sampled]) -> float:
    return _trend([one.rates.read_per_s for one in sampled])


def _spot_samples_finding(sampled: list[Sampled], contradicted: bool) -> AuditFinding:
    spots = " / ".join(f"{one.mean:.0f}" for one in sampled)
    counters = " / ".join(f"{one.rates.read_per_s:.1f}" for one in sampled)
    names = " / ".join(one.run.name for one in sampled)
    scatter = max(stdev(one.spots) for one in sampled)
    n = " / ".join(str(len(one.spots)) for one in sampled)
    seconds = sampled[0].rates.seconds
    what = (
        f"the mean of {n} iostat samples is {spots} reads/s ({names}; samples of one setting scatter by up to"
        f" ±{scatter:.0f}),"
        f" the counters between {seconds:.0f} s say {counters} pages read/s"
    )
    if any(dump.family == "postgres" for one in sampled for dump in one.run.dumps):
        consequence = (
            "PostgreSQL counts the pages that it asks the kernel for, whose cache has some of them: neither number"
            " stands for the other"
        )
    elif contradicted:
        by_spots = _trend([one.mean for one in sampled])
        consequence = (
            f"from the first setting to the last the samples change by {_signed(by_spots)}, the counters by"
            f" {_signed(_counted(sampled))}: a conclusion drawn from the samples is contradicted"
        )
    else:
        worst = max(sampled, key=lambda one: abs(one.off))
        consequence = (
            f"the samples are off by up to {_signed(worst.off)} ({worst.run.name}): they are noise, not a trend"
        )
    parts = [f"{one.run.name}: {', '.join(f'{part.read_per_s:.0f}' for part in one.run.segments())}" for one in sampled]
    return AuditFinding(
        sampled[0].rates.start.place,
        what,
        consequence,
        f"{counters} pages read/s; between the printouts {'; '.join(parts)}",
        {
            "runs": [one.run.name for one in sampled],
            "samples_reads_per_s": [list(one.spots) for one in sampled],
            "samples_mean": [one.mean for one in sampled],
            "counters_reads_per_s": [one.rates.read_per_s for one in sampled],
            "segments_reads_per_s": [[part.read_per_s for part in one.run.segments()] for one in sampled],
        },
    )


def _signed(ratio: float) -> str:
    return f"{'−' if ratio < 0 else '+'}{format_percent(abs(ratio))}"


#: Streams with at most this many reports are too short to find an odd one: of two, either may be odd.
_ENOUGH_REPORTS = 2
#: A first report that differs from the others by less than this factor is not reported.
_TIMES_OFF = 1.5
#: If the first report differs from the others by less than this factor, the cause may be a load that began during that
#: report's interval. Then its distance from the others is divided by this factor.
_TIMES_OF_A_START = 2.0
_CHANCE = 0.01
#: Devices and columns with a smaller fraction of all requests are not judged.
_LEAST_SHARE = 0.05
_COLUMNS = {"r/s": "reads", "w/s": "writes", "tps": "transfers", "bi": "kib_read", "bo": "kib_written"}
_UNITS = {"bi": "KiB/s (bi)", "bo": "KiB/s (bo)"}
#: The least number of reports of a lasting level. Fewer reports are a burst or a pause.
_LASTING_REPORTS = 3
_MOST_LEAPS = 50


def boot_average(case: Case) -> Iterator[AuditFinding]:
    """Find first reports of iostat that are averages since the system was started (iostat(1)).

    With -y iostat leaves that average out, but the text does not show whether -y was given. So a first report is
    suspected if it is the only one, or if it is far outside the scatter of its stream's other reports. Reports after
    the first lasting change of level are ignored.

    Yield one finding for each stream whose first report does not fit the others.
    """
    for reports in streams(case):
        found = _first_alone(reports[0]) if len(reports) == 1 else _first_odd(reports)
        if found:
            yield found


def streams(case: Case) -> Iterator[list[IostatReport]]:
    """Yield the streams (the reports after one banner of iostat) of all files that may begin with an average."""
    for evidence in case.files:
        streams: dict[int, list[IostatReport]] = {}
        for report in evidence.reports:
            streams.setdefault(report.stream, []).append(report)
        yield from (reports for reports in streams.values() if reports[0].since_boot)


@dataclass(frozen=True)
class _Column:
    """A device's column: its number in the first report, and its numbers in all other reports."""

    device: str
    name: str
    first: float
    rest: tuple[float, ...]


def _first_alone(report: IostatReport) -> AuditFinding | None:
    device = busiest([report])
    name = next((name for name in _COLUMNS if device and name in report.devices[device].columns), None)
    if device is None or name is None:
        return None
    first = report.devices[device].columns[name]
    return AuditFinding(
        report.place,
        f"the only report ({device}: {first:g} {_UNITS.get(name, name)}) is the first after {_head(report)}",
        "without -y it is an average since the system was started, and says nothing about the run",
        f"none: run `{'iostat -x' if report.tool == 'iostat' else report.tool} -y INTERVAL COUNT`",
        {"device": device, f"first_{_COLUMNS[name]}_per_s": first, "others_mean": None},
    )


def _head(report: IostatReport) -> str:
    return "iostat's banner" if report.tool == "iostat" else f"{report.tool}'s head"


def _first_odd(reports: list[IostatReport]) -> AuditFinding | None:
    """Return a finding for the busiest device and column whose first report does not fit the others, or None.

    Of n tested columns, the k-th smallest probability must be at most k/n of 1 % (Simes' test).
    """
    columns = [(one, _level(one.rest)) for one in _busy_columns(reports)] if len(reports) > _ENOUGH_REPORTS else []
    chances = [_chance(one.first, level) for one, level in columns]
    most = max((at for k, at in enumerate(sorted(chances), 1) if at <= _CHANCE * k / len(chances)), default=-1.0)
    found = next((both for both, chance in zip(columns, chances, strict=True) if chance <= most), None)
    return _first_odd_finding(reports[0], *found) if found else None


def _busy_columns(reports: list[IostatReport]) -> list[_Column]:
    """Return the columns of requests with at least 5 % of all requests, the busiest device's first.

    Loop devices are left out, unless all devices are loop devices.
    """
    names = [name for name in reports[0].devices if not name.startswith("loop")] or list(reports[0].devices)
    found = []
    for device in names:
        for name in _COLUMNS:
            if name in reports[0].devices[device].columns:
                # With -z iostat leaves out idle devices.
                values = [row.columns.get(name, 0.0) if (row := one.devices.get(device)) else 0.0 for one in reports]
                found.append(_Column(device, name, values[0], tuple(values[1:])))
    total = sum(column.first + sum(column.rest) for column in found)
    traffic: dict[str, float] = {}
    for column in found:
        traffic[column.device] = traffic.get(column.device, 0.0) + column.first + sum(column.rest)
    first, rest = sum(column.first for column in found), sum(sum(column.rest) for column in found)
    busy = [
        column
        for column in found
        if total
        and traffic[column.device] >= _LEAST_SHARE * total
        and (column.first >= _LEAST_SHARE * first or sum(column.rest) >= _LEAST_SHARE * rest)
    ]
    return sorted(busy, key=lambda column: -traffic[column.device])


def _level(rest: tuple[float, ...]) -> tuple[float, ...]:
    """Return the numbers before the first lasting change of level; numbers after a change do not fit the earlier
    ones."""
    end, leaps = _ENOUGH_REPORTS, 0
    while end <= len(rest) - _LASTING_REPORTS and leaps < _MOST_LEAPS:
        low, high = ((min(rest[:end]) + 1) / _TIMES_OFF, (max(rest[:end]) + 1) * _TIMES_OFF)
        alike = max((at for at in range(end, len(rest)) if low <= rest[at] + 1 <= high), default=None)
        if alike is None:
            return rest[:end]
        end, leaps = alike + 1, leaps + 1
    return rest


def _chance(first: float, level: tuple[float, ...]) -> float:
    """Return the probability that another number of this level would be as far from the level as `first` is.

    It is 1 for a number within the level's range. Otherwise it is the larger of two probabilities, from the numbers and
    from their logarithms, because bursts make one of the two distributions skew.
    """
    usual = mean(level)
    times = (max(first, usual) + 1) / (min(first, usual) + 1)
    if min(level) <= first <= max(level) or times < _TIMES_OFF:
        return 1.0
    floor = _LEAST_SHARE * max(first, *level)
    logs = [log(value + floor) for value in level]
    # The number of requests that arrive at random times scatters by at least its square root.
    errors = (
        abs(first - usual) / max(stdev(level), sqrt(usual + 1)),
        abs(log(first + floor) - mean(logs)) / max(stdev(logs), 1e-9),
    )
    reach = sqrt(1 + 1 / len(level)) * (1 if times >= _TIMES_OF_A_START else _TIMES_OF_A_START)
    return 2 * tail_of_t(min(errors) / reach, len(level) - 1)


def _first_odd_finding(report: IostatReport, column: _Column, level: tuple[float, ...]) -> AuditFinding:
    without, with_it = mean(level), mean([column.first, *level])
    moved = with_it / without - 1 if without else float(bool(column.first))
    changed = len(level) < len(column.rest)
    others = f"{len(level)} reports behind it" if changed else f"{len(level)} others"
    begun = ", or the load had not begun" if changed else ""
    unit = _UNITS.get(column.name, column.name)
    return AuditFinding(
        report.place,
        f"the first report after {_head(report)} says {column.first:g} {unit} of {column.device}, the"
        f" {others} {min(level):g} to {max(level):g}" + (", before the level changes" if changed else ""),
        f"without -y the first is an average since the system was started{begun}; taken along, it moves the mean by"
        f" {format_percent(abs(moved))}, to {with_it:.4g}",
        f"{without:.4g} {unit} without it",
        {
            "device": column.device,
            f"first_{_COLUMNS[column.name]}_per_s": column.first,
            "others_mean": without,
            "mean_with_first": with_it,
        },
    )


#: The number of 512-byte sectors in a KiB: columns of kilobytes that hold sectors are too large by this factor.
_RATIO = 2.0
#: The largest relative rounding error of a row that is judged, and the tolerance for its numbers.
_KNOWN = 0.03

_Seen = tuple[IostatReport, str, str, float, float]
"""The report, the device, the column, the number printed and the right one, in kB/s."""


def sectors_as_kib(case: Case) -> Iterator[AuditFinding]:
    """Find columns of kilobytes that hold 512-byte sectors: their numbers are twice requests/s x size.

    iostat computes r/s, rkB/s and rareq-sz from the same counters. Older versions print sizes (avgrq-sz) in sectors.

    Yield a finding for each column with rows that are twice the product of the other two.
    """
    for seen in by_column(case):
        found = [one for one in seen if _is_double(one)]
        if found:
            yield _sectors_as_kib_finding(found, len(seen))


def by_column(case: Case) -> Iterator[list[_Seen]]:
    """Yield the rows of each file's columns of bytes per second, each with the number that requests/s x size gives."""
    for evidence in case.files:
        columns: dict[str, list[_Seen]] = {}
        for report in evidence.reports:
            for device, row in report.devices.items():
                for name, said, should in _products(row):
                    columns.setdefault(name, []).append((report, device, name, said, should))
        yield from columns.values()


def _is_double(one: _Seen) -> bool:
    return "sec/s" not in one[2] and abs(one[3] / one[4] / _RATIO - 1) <= _KNOWN


def _products(row: DeviceRow) -> Iterator[tuple[str, float, float]]:
    """Yield the name, number and recomputed kB/s (requests times size) of each column precise enough to be judged."""
    columns = row.columns
    for letter in "rwd":
        rate, size = columns.get(f"{letter}/s"), columns.get(f"{letter}areq-sz")
        if not rate or not size:
            continue
        for name, kib in ((f"{letter}kB/s", 1), (f"{letter}MB/s", 1024)):
            said = columns.get(name)
            if said and row.half_digit * (1 / rate + 1 / size + 1 / said) <= _KNOWN:
                yield name, said * kib, rate * size
    rate, size, said = columns.get("tps"), columns.get("areq-sz"), columns.get("kB/s")
    if rate and size and said and row.half_digit * (1 / rate + 1 / size + 1 / said) <= _KNOWN:
        yield "kB/s", said, rate * size
    for unit, unit_kib in (("kB", 1.0), ("sec", 0.5)):
        both = [columns.get(name) for name in (f"r{unit}/s", f"w{unit}/s", "r/s", "w/s", "avgrq-sz")]
        if all(value is not None for value in both):
            read, written, reads, writes, sectors = (value or 0.0 for value in both)
            if (read + written) and sectors and (reads + writes) >= 1:
                yield f"r{unit}/s and w{unit}/s", (read + written) * unit_kib, (reads + writes) * sectors / 2


def _sectors_as_kib_finding(found: list[_Seen], rows: int) -> AuditFinding:
    report, device, name, said, should = max(found, key=lambda one: one[3])
    return AuditFinding(
        report.place,
        f"{name} of {device} is {said:.10g}, and requests per second times their size make {should:.6g}"
        f" ({len(found)} of {rows} rows)",
        "these are sectors of 512 bytes, not kilobytes: bytes per second and per transaction come out twice too large",
        f"{name} {should:.6g}",
        {"device": device, "column": name, "said": said, "kib_per_s": should, "rows": len(found)},
    )


def request_sizes(case: Case) -> Iterator[AuditFinding]:
    """Find bytes per second that differ from requests/s x size, except by the factor two, which means sectors.

    Yield a finding for each column with such rows.
    """
    for seen in by_column(case):
        found = [one for one in seen if abs(one[3] / one[4] - 1) > 2 * _KNOWN and not _is_double(one)]
        if found:
            yield _request_sizes_finding(found, len(seen))


def _request_sizes_finding(found: list[_Seen], rows: int) -> AuditFinding:
    report, device, name, said, should = found[0]
    return AuditFinding(
        report.place,
        f"{name} of {device} is {said:.10g} kB/s, and requests per second times their size make {should:.6g}"
        f" ({len(found)} of {rows} rows)",
        f"iostat makes all three from the same counters: one of them is {said / should:.3g} or"
        f" {should / said:.3g} times too large",
        f"{name} {should:.6g} kB/s, if the requests and their size are right",
        {"device": device, "column": name, "said": said, "kib_per_s": should, "rows": len(found)},
    )


#: The largest possible %util. It is above 100 because a request that began before the interval is counted with its
#: whole time. A larger %util has a wrong digit, or was measured by a wrong clock.
_MOST_BUSY = 105.0


def busy_above_whole(case: Case) -> Iterator[AuditFinding]:
    """Find devices that were busy for more than 100 % of the time.

    Yield a finding for each file with such rows.
    """
    for evidence in case.files:
        found = [
            (report, device, busy)
            for report in evidence.reports
            for device, row in report.devices.items()
            if (busy := row.columns.get("%util", 0.0)) > _MOST_BUSY
        ]
        if found:
            report, device, busy = max(found, key=lambda one: one[2])
            yield AuditFinding(
                report.place,
                f"%util of {device} is {busy:g} ({len(found)} rows above {_MOST_BUSY:g})",
                "a device is busy for 100 % of the time at most: this is a sum over devices, or a digit is wrong",
                "take aqu-sz of each device: %util tells little of one that serves several requests at once",
                {"device": device, "util_percent": busy, "rows": len(found)},
            )


_LITTLE, _ENOUGH_LINES = 0.20, 3
#: The shortest queue that is judged, in requests: shorter ones are printed with too few digits.
_LEAST_QUEUE = 0.1
_KINDS = (("r/s", "r_await"), ("w/s", "w_await"), ("d/s", "d_await"), ("f/s", "f_await"))

_Queue = tuple[IostatReport, str, float, float]
"""The report, the device, the printed queue, and the queue that follows from requests and waits."""


def littles_law(case: Case) -> Iterator[AuditFinding]:
    """Compare iostat's queue with the sum of requests/s x wait over reads, writes, discards and flushes (Little's law).

    From Linux 5.7 on the kernel computes the queue from the times of completed requests (`diskstats_show` in
    block/genhd.c), so both agree except for rounding. An older kernel counts the queue from requests in flight, but
    waits only when requests end. Then both agree over all lines, but not in each line. If a file has no column of
    flushes, the queue may be longer than the sum.

    Yield a finding for each device with at least three lines that are off by more than 20 %.
    """
    for evidence in case.files:
        devices: dict[str, list[_Queue]] = {}
        for report in evidence.reports:
            for device, row in report.devices.items():
                if both := queue(row):
                    devices.setdefault(device, []).append((report, device, *both))
        for seen in devices.values():
            found = [one for one in seen if abs(one[2] - one[3]) > _LITTLE * max(one[3], _LEAST_QUEUE)]
            if not any("f_await" in report.devices[device].columns for report, device, *_ in seen):
                short = sum(should - said for *_, said, should in seen)
                found = [one for one in found if one[2] < one[3]]
                if short <= _LITTLE * sum(one[3] for one in seen):
                    continue
            if len(found) >= _ENOUGH_LINES:
                yield _littles_law_finding(found, len(seen))


def queue(row: DeviceRow) -> tuple[float, float] | None:
    """Return a line's queue as printed, and as the sum of requests/s x wait.

    The result is None if the line has no queue or no waits, or too few digits.
    """
    columns = row.columns
    said = columns.get("aqu-sz", columns.get("avgqu-sz"))
    if said is None or not ({"r_await", "w_await"} <= columns.keys() or {"tps", "await"} <= columns.keys()):
        return None
    kinds = _KINDS if "r_await" in columns else (("tps", "await"),)
    known = [(columns.get(rate, 0.0), columns[wait]) for rate, wait in kinds if wait in columns]
    should = sum(rate * wait for rate, wait in known) / 1000
    # Very short waits are printed with too few digits to compute requests/s x wait.
    doubt = sum(rate for rate, _ in known) * row.half_digit / 1000
    if max(said, should) < _LEAST_QUEUE or doubt > _LITTLE / 2 * max(said, should):
        return None
    return said, should


def _littles_law_finding(found: list[_Queue], lines: int) -> AuditFinding:
    report, device, said, should = max(found, key=lambda one: abs(one[2] - one[3]))
    factor = f"{said / should:.3g} times that" if should else "not zero"
    return AuditFinding(
        report.place,
        f"aqu-sz of {device} is {said:g}, and requests per second times their waits make {should:.3g}"
        f" ({len(found)} of {lines} lines are off by more than {format_percent(_LITTLE)})",
        f"by Little's law the queue is the sum of both: the one printed is {factor}, so a column is of another device,"
        " run or unit",
        f"aqu-sz {should:.3g}, if requests and waits are right",
        {"device": device, "said": said, "by_requests": should, "lines": len(found)},
    )


def _rows(case: Case) -> Iterator[DeviceRow]:
    return (row for one in case.files for report in one.reports for row in report.devices.values())


JUDGES: Judges = {
    "spot-samples": lambda case: any(map(sampled_of, case.runs)),
    "boot-average": lambda case: any(len(reports) != 2 for reports in streams(case)),
    "sectors-as-kib": lambda case: any(True for _ in by_column(case)),
    "request-sizes": lambda case: any(True for _ in by_column(case)),
    "busy-above-whole": lambda case: any("%util" in row.columns for row in _rows(case)),
    "littles-law": lambda case: any(map(queue, _rows(case))),
}
