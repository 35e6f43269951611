"""Writes the file for Prometheus's textfile collector, which `observe` replaces each second.

Its metrics are counters since the observation began, and gauges of the last second and of the pool's last query. Names
follow Prometheus's conventions: base units, and _total at the end of counters. No label contains SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from bufferlab import output_files
from bufferlab.engines.servers.counts import MEANINGS, TITLES, level_title
from bufferlab.engines.servers.look import Facts
from bufferlab.live.pool_contents import PoolContents
from bufferlab.live.window import LookWindow, SampledRow

_PREFIX = "bufferlab_observe"
_S_PER_MS = 1e-3
_TIMES = {
    "read_ms": ("read_seconds", "Seconds in which threads of the server read data files"),
    "device_read_ms": ("device_read_seconds", "Seconds that the device's reads took, those of all programs"),
    "statement_ms": ("statement_seconds", "Seconds that statements took"),
}
"""For each count in ms, its metric name in seconds, and its help."""
_NO_GAUGES = ("instances", "chunk_size_bytes")

_Sample = tuple[Mapping[str, str], float]
_Metric = tuple[str, str, str, list[_Sample]]
"""Name, type, help, and the values with their labels."""


def text(
    server: str,
    facts: Facts,
    window: LookWindow,
    row: SampledRow | None,
    levels: Mapping[str, float] | None = None,
    contents: PoolContents | None = None,
) -> str:
    """Return the file's text in Prometheus's text exposition format 0.0.4.

    `row` is the row of the last second; None if the server did not answer. `levels` and `contents` are the pool's last
    known ones.
    """
    of_server = {"server": server, "engine": facts.engine}
    lines: list[str] = []
    if row is None:
        levels = contents = None
    for name, kind, help, samples in _metrics(facts, window, row, levels or {}, contents):
        full = f"{_PREFIX}_{name}"
        lines += [f"# HELP {full} {help}", f"# TYPE {full} {kind}"]
        lines += [f"{full}{_labels({**of_server, **more})} {value:.10g}" for more, value in samples]
    return "\n".join(lines) + "\n"


def write(path: Path, content: str) -> None:
    """Replace the file atomically: a reader sees the old or the new content. Raises OSError."""
    # The collector reads only *.prom, not the temporary file. The file is not synced, because that would load the disk
    # each second.
    output_files.write(path, lambda file: file.write(content.encode()), synced=False)


def _metrics(
    facts: Facts, window: LookWindow, row: SampledRow | None, levels: Mapping[str, float], contents: PoolContents | None
) -> Iterator[_Metric]:
    def one(name: str, kind: str, help: str, value: float) -> _Metric:
        return name, kind, f"{help}.", [({}, value)]

    yield one("up", "gauge", "1 if the server answered in the last second, else 0", row is not None)
    yield one("watched_seconds_total", "counter", "Seconds that the totals are of", window.seconds)
    for name, title in TITLES.items():
        if name in window.totals:
            means = title if MEANINGS[name] == title else f"{title}: {MEANINGS[name]}"
            base, help = _TIMES.get(name, (name, means))
            total = window.totals[name] * (_S_PER_MS if name in _TIMES else 1)
            yield one(f"{base}_total", "counter", f"{help}, since the observation began", total)
    for name, help, value in _of_last_second(row):
        yield one(name, "gauge", f"{help}, in the last second", value)
    now = {"pool_size_bytes": float(facts.pool_size_bytes), **levels, **(row.levels if row else {})}
    for name in sorted(now.keys() - {*_NO_GAUGES}):
        is_of_pool = name.endswith("_pages") and not name.startswith("pool_")
        yield one(f"pool_{name}" if is_of_pool else name, "gauge", level_title(name), now[name])
    if contents:
        whose = [({"table": of.table, "index": of.index or ""}, of) for of in contents.objects]
        pages: list[_Sample] = [(label, of.pages) for label, of in whose]
        dirty: list[_Sample] = [(label, of.dirty_pages) for label, of in whose]
        yield "pool_object_pages", "gauge", "Pages of the pool that a table or index fills.", pages
        yield "pool_object_dirty_pages", "gauge", "Dirty pages of a table or index in the pool.", dirty


def _of_last_second(row: SampledRow | None) -> Iterable[tuple[str, str, float]]:
    """Yield name, help and value of the ratios that the panel shows; nothing if the server did not answer."""
    counts = row.counts if row else {}
    if gets := counts.get("page_gets"):
        yield "hit_ratio", "Share of gets that found their page in the pool", 1 - counts["misses"] / gets
    if (read_ms := counts.get("read_ms")) is not None and (statement_ms := counts.get("statement_ms")):
        yield "read_time_ratio", "Share of statement time that reads took", min(1.0, read_ms / statement_ms)
    if (read_ms := counts.get("read_ms")) is not None and (pages := counts.get("pages_read")):
        yield "read_duration_seconds", "Mean time of reading a page", read_ms * _S_PER_MS / pages


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
