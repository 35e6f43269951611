"""Parses fio's reports: the rate, bytes, time and latencies of each job and direction.

It reads the normal reports of versions 2 and 3, and `json` and `json+` of version 3; version 2's JSON has other units.
Follows `show_ddir_status`, `add_ddir_status_json` and `show_clat_percentiles` in stat.c, and the output of fio 3.33.
Normal reports shorten rates (21.4k is 21,400). Their latency is clat, from a request's submission to its completion.
With --status-interval fio also prints interim reports, each of which covers the whole time since the start. The
parser keeps the last report of each job and process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bufferlab.audit.parsers.captions import Place
from bufferlab.audit.parsers.documents import Document, number, part, parts
from bufferlab.audit.parsers.load_run import MAX_RUNS, THOUSANDS, LoadParser, LoadRun
from bufferlab.errors import Problem
from bufferlab.units import GIB, KIB, MIB

_F = r"\d{1,15}(?:\.\d{1,6})?"
_JOB = re.compile(
    r"(?P<name>[^\s:][^:]{0,60}): \(g=(?P<group>\d{1,6})\): rw=\w{1,20}, bs=(?P<sizes>.{1,120}), ioengine=\w{1,40}, "
    r"iodepth=(?P<depth>\d{1,9})"
)
_SIZES = re.compile(rf"(?:\(([RWT])\) )?({_F})([KMG]?)i?B?-({_F})([KMG]?)i?B?")
_GROUP = re.compile(
    r"(?P<name>[^\s:][^:]{0,60}): \(groupid=(?P<group>\d{1,6}), jobs=(?P<jobs>\d{1,9})\): err="
    r"(?:\s*\d{1,9}: pid=(?P<pid>\d{1,9}))?"
)
_NEW = re.compile(
    rf"(read|write|trim|mixed)\s*: IOPS=({_F})([kMG]?), BW=({_F})([KMG]?)i?B/s \([^)]{{1,30}}\)"
    rf"\(({_F})([KMG]?)i?B/(\d{{1,12}})msec\)"
)
_OLD = re.compile(
    rf"(read|write|trim|mixed)\s*: io=({_F})([KMG]?)B, bw=({_F})([KMG]?)B/s, "
    rf"iops=({_F})([kMG]?), runt=\s*(\d{{1,12}})msec"
)
_LATENCY = re.compile(
    rf"(clat|lat)\s+\((nsec|usec|msec)\)\s*: min=\s*({_F})([kMG]?), max=\s*({_F})([kMG]?), avg=\s*({_F})"
)
#: Matches the line above percentiles. Percentiles of syncs, submissions and priorities are skipped: they cover only
#: some requests.
_HEAD = re.compile(r"(?:(clat|lat)|\w.{0,60}) percentiles \((nsec|usec|msec)\):")
_PERCENTILES = re.compile(rf"({_F})th=\[\s*(\d{{1,15}})\]")
_ISSUED = re.compile(
    r"issued\s*(?:r/w/d|rwts?)?\s*:\s*(?:rwts?: )?total=(?:r=)?(\d{1,15})(?:/\d{1,15})?[,/](?:w=)?(\d{1,15})"
)
_DIRECTIONS = ("read", "write", "trim", "mixed")
"""The directions of requests; with fio's unified_rw_reporting all requests are "mixed"."""
_OTHER = re.compile(
    r"(?:slat|lat)\s+\((?:nsec|usec|msec)\)|bw \(|iops\s+:|cpu\s+:|IO depths\s+:|submit\s+:|complete\s+:|"
    r"latency\s+:|fio-\d|"
    r"Starting \d|Run status group|(?:READ|WRITE): |Disk stats|\w{1,40}: ios=\d"
)
#: Start times at most this many seconds apart are those of one run: fio rounds seconds down or up.
_CLOCKS_S = 2
_PERCENT = re.compile(r"\d{1,3}(?:\.\d{1,9})?")
_COUNT = re.compile(r"\d{1,9}")
_BLOCK = re.compile(r"(\d{1,9})([kKmMgG]?)(?:i?[bB])?")
_BYTES = {"": 1, "K": KIB, "M": MIB, "G": GIB}
_MS = {"nsec": 1e-6, "usec": 1e-3, "msec": 1.0}


@dataclass(frozen=True)
class _Job:
    """The line that fio prints before a job starts: request size by direction, iodepth, and the job's group."""

    sizes: dict[str, int]
    depth: int
    group: str


class FioParser(LoadParser):
    """A parser of fio's lines."""

    tool = "fio"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._jobs: dict[str, _Job] = {}
        self._group: tuple[str, int] | None = None
        self._is_mixed = False
        """Whether the group has several jobs, whose request size and depth may differ."""
        self._in_group: list[LoadRun] = []
        self._process: tuple[str, ...] = ()
        self._reports: dict[tuple[str, ...], tuple[int, LoadRun | None]] = {}
        """(process, direction) -> index in `_runs` of the newest interim report, and the last earlier one with a count.
        """
        self._unit = ""
        self._printed: dict[tuple[str, ...], LoadRun] = {}
        """The runs in JSON documents, by (number of fio's run, job's name, number among its namesakes, direction)."""
        self._began: list[float] = []
        """The time at which each run of fio with JSON documents began, in seconds since the epoch."""
        self._older: list[Place] = []
        """The places of JSON documents of fio 2, whose units differ from those of fio 3."""

    def take(self, number: int, text: str, label: str) -> bool:
        """Parse a line under a caption's label; return whether it is fio's."""
        bare = text.strip()
        if self._group is None and "(g" not in bare:
            return False
        if match := _JOB.match(bare):
            if self._group is not None:  # Another run of fio begins.
                self._settle()
                self._jobs, self._group = {}, None
            if len(self._jobs) < 1000:
                self._jobs[match["name"]] = _Job(_sizes(match["sizes"]), int(match["depth"]), match["group"])
            return True
        if match := _GROUP.match(bare):
            self._group, self._in_group, self._unit = (match["name"], int(match["jobs"])), [], ""
            self._process = (match["group"], match["pid"]) if match["pid"] else ()
            sections = sum(job.group == match["group"] for job in self._jobs.values())
            self._is_mixed = int(match["jobs"]) > 1 and sections > 1
            return True
        if self._group is None:
            return False
        if new := _NEW.match(bare):
            _rates(self._direction(number, label, new[1]), *new.groups()[1:])
            return True
        if old := _OLD.match(bare):
            size, size_unit, rate, rate_unit, iops, thousands, took_ms = old.groups()[1:]
            _rates(self._direction(number, label, old[1]), iops, thousands, rate, rate_unit, size, size_unit, took_ms)
            return True
        return self._detail(bare) or _OTHER.match(bare) is not None

    @property
    def runs(self) -> list[LoadRun]:
        """Return the runs that have a result.

        Of a job's interim reports, only the last one with a count is included.
        """
        self._settle()
        read = super().runs
        # With --output-format=normal,json every report is printed twice.
        known = {(run.name, run.transactions, run.seconds) for run in read}
        more = [run for run in self._printed.values() if (run.name, run.transactions, run.seconds) not in known]
        return [*read, *more]

    def named(self) -> Iterator[Problem]:
        """Yield a problem for each part that a run lacks, and for documents of other versions."""
        yield from super().named()
        for place in self._older[:1]:
            yield Problem(
                "the JSON document is of a version of fio before 3.0, and is not read: its units are other ones",
                f"{place}",
                "give fio's report for people (--output-format=normal)",
            )

    def take_document(self, document: Document, label: str) -> None:
        """Read the jobs of a JSON document under a caption's label."""
        if document.program != self.tool:
            return
        place = Place(self.file, document.number, label)
        shared = part(document.value, "global options")
        jobs = parts(document.value, "jobs")
        began = (number(document.value, "timestamp") or 0.0) - max(
            (number(job, "elapsed") or 0.0 for job in jobs), default=0
        )
        # Interim reports of one run have the same start.
        if not self._began or abs(began - self._began[-1]) > _CLOCKS_S:
            self._began.append(began)
        seen: dict[str, int] = {}
        for job in jobs:
            name, options = str(job.get("jobname"))[:60], {**_options(shared), **_options(job.get("job options"))}
            seen[name] = seen.get(name, 0) + 1
            for direction in _DIRECTIONS:
                told = job.get(direction)
                if (number(told, "runtime") or 0.0) <= 0 or not number(told, "io_bytes"):
                    continue
                if part(told, "clat_ns") is None and part(told, "lat_ns") is None:
                    self._older.append(place)
                    continue
                run = _of_json(LoadRun(self.tool, place, f"{name}, {direction}"), told)
                if processes := _jobs(job, options):
                    run.clients, run.block_bytes = (
                        processes * int(options.get("iodepth", "1")),
                        _block(options, direction),
                    )
                if len(self._printed) < MAX_RUNS:
                    self._printed[(f"{len(self._began)}", name, f"{seen[name]}", direction)] = run

    def _settle(self) -> None:
        """End the interim reports. If the last report of a job lacks its count, put the one before in its place."""
        for slot, before in self._reports.values():
            if before is not None and self._runs[slot].transactions is None:
                self._runs[slot] = before
        self._reports = {}

    def _supersede(self, run: LoadRun) -> None:
        """Replace the earlier report of the same process and direction by its new report, which is the last run."""
        if not self._runs or self._runs[-1] is not run:  # The run was dropped, because there were too many runs.
            return
        key = (*self._process, run.name)
        slot, before = self._reports.get(key, (None, None))
        if slot is not None:
            older = self._runs[slot]
            before = older if older.transactions is not None else before
            self._runs[slot] = self._runs.pop()
        self._reports[key] = (len(self._runs) - 1 if slot is None else slot, before)

    def _direction(self, number: int, label: str, direction: str) -> LoadRun:
        assert self._group is not None
        (name, jobs), run = self._group, self._begin(number, label)
        run.name = f"{name}, {direction}"
        if self._process:
            self._supersede(run)
        self._in_group.append(run)
        self._unit = ""
        if (job := self._jobs.get(name)) and not self._is_mixed:
            run.clients = jobs * job.depth
            run.block_bytes = job.sizes.get(direction[0].upper())
        return run

    def _detail(self, bare: str) -> bool:
        """Parse a line of latencies or counts below a direction's rates; return whether it is such a line."""
        run = self._open
        if run is None:
            return False
        if match := _LATENCY.match(bare):
            unit_ms = _MS[match[2]]
            mean_ms = float(match[7]) * unit_ms
            if match[1] == "lat" or run.mean_ms is None:
                run.mean_ms = mean_ms
            least_ms = float(match[3]) * THOUSANDS[match[4]] * unit_ms
            most_ms = float(match[5]) * THOUSANDS[match[6]] * unit_ms
            _add_span(run, least_ms, mean_ms, most_ms)
        elif match := _HEAD.match(bare):
            self._unit = match[2] if match[1] else ""
        elif bare.startswith("|") and self._unit and (found := _PERCENTILES.findall(bare)):
            for percent, value in found:
                run.latency_ms[f"{float(percent):g} %"] = int(value) * _MS[self._unit]
        elif match := _ISSUED.match(bare):
            for one in self._in_group:
                reads, writes = int(match[1]), int(match[2])
                of = {"read": reads, "write": writes, "mixed": reads + writes}
                one.transactions = of.get(one.name.rpartition(" ")[2], one.transactions)
        else:
            return False
        return True


def _rates(
    run: LoadRun, iops: str, thousands: str, rate: str, rate_unit: str, size: str, size_unit: str, took_ms: str
) -> None:
    run.per_s = float(iops) * THOUSANDS[thousands]
    run.bytes_per_s = float(rate) * _BYTES[rate_unit]
    run.bytes = float(size) * _BYTES[size_unit]
    run.seconds = int(took_ms) / 1000


def _add_span(run: LoadRun, least_ms: float, mean_ms: float, most_ms: float) -> None:
    """Add the least, mean and greatest latency of one kind (clat or lat) to a run.

    The run's "min" and "max" cover both kinds, because its percentiles may be of clat and its mean of lat.
    """
    run.spans_ms.append((least_ms, mean_ms, most_ms))
    run.latency_ms["min"] = min(run.latency_ms.get("min", least_ms), least_ms)
    run.latency_ms["max"] = max(run.latency_ms.get("max", most_ms), most_ms)


def _options(value: Any) -> dict[str, str]:
    return {name: str(one) for name, one in value.items()} if isinstance(value, dict) else {}


def _jobs(job: dict[str, Any], options: dict[str, str]) -> int | None:
    """Return the number of processes that a job's numbers cover; None if it may include processes of other jobs.

    The report of a group covers all of its jobs, but has only the options of the first one.
    """
    numjobs, depth = options.get("numjobs", "1"), options.get("iodepth", "1")
    whole_ms = max(number(job, name, "runtime") or 0.0 for name in _DIRECTIONS)
    jobs = (number(job, "job_runtime") or 0.0) / whole_ms
    if not _COUNT.fullmatch(numjobs) or not _COUNT.fullmatch(depth) or abs(jobs - round(jobs)) > 0.1:
        return None
    return round(jobs) if round(jobs) in (1, int(numjobs)) else None


def _of_json(run: LoadRun, told: Any) -> LoadRun:
    """Fill the run with the numbers of one direction of a job in JSON; return it."""
    run.per_s, run.bytes_per_s = number(told, "iops"), number(told, "bw_bytes")
    run.bytes, run.seconds = number(told, "io_bytes"), (number(told, "runtime") or 0.0) / 1000
    count = number(told, "total_ios")
    run.transactions = int(count) if count is not None and not run.name.endswith("trim") else None
    for kind in ("clat_ns", "lat_ns"):
        mean, least, most = (number(told, kind, name) for name in ("mean", "min", "max"))
        run.mean_ms = mean / 1e6 if mean is not None else run.mean_ms
        if mean is not None and least is not None and most is not None:
            _add_span(run, least / 1e6, mean / 1e6, most / 1e6)
        for percent in part(told, kind, "percentile") or ():
            if _PERCENT.fullmatch(percent) and (value := number(told, kind, "percentile", percent)) is not None:
                run.latency_ms[f"{float(percent):g} %"] = value / 1e6
    return run


def _block(options: dict[str, str], direction: str) -> int | None:
    """Return the size of a direction's requests, by the option bs; None if it has several sizes.

    bs is one size ("4k"), or a list for reads, writes and trims.
    """
    given = next((options[name] for name in ("bs", "blocksize") if name in options), "4k")
    if any(name.startswith(("bsrange", "bssplit", "bs_unaligned", "blocksize_", "bs_")) for name in options):
        return None
    sizes = given.split(",")
    if direction == "mixed" and len(sizes) > 1:
        return None
    match = _BLOCK.fullmatch(sizes[min(_DIRECTIONS.index(direction), len(sizes) - 1)].strip())
    return int(match[1]) * _BYTES[match[2].upper()] if match and options.get("kb_base", "1024") == "1024" else None


def _sizes(text: str) -> dict[str, int]:
    """Return the size of requests in bytes by the letter of the direction (R, W, T), without those of several sizes."""
    found = {}
    for letter, low, low_unit, high, high_unit in _SIZES.findall(text):
        least, most = float(low) * _BYTES[low_unit], float(high) * _BYTES[high_unit]
        if least == most:
            found[letter] = int(least)
    return found
