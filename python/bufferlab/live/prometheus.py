"""Makes and writes the file for Prometheus's textfile collector, which `observe` replaces each second.

Its metrics are counters since the observation began, and levels of the last second. No label has SQL in it.
"""

from __future__ import annotations

from pathlib import Path

from bufferlab import output_files
from bufferlab.live.window import LookWindow, SampledRow

_PREFIX = "bufferlab_observe"


def text(server: str, engine: str, window: LookWindow, row: SampledRow | None) -> str:
    """Return the file's text in Prometheus's text exposition format 0.0.4.

    `row` is the row of the last second; None if the server did not answer.
    """
    labels = f'{{server="{_escaped(server)}",engine="{_escaped(engine)}"}}'
    lines: list[str] = []

    def put(name: str, kind: str, help: str, value: float) -> None:
        full = f"{_PREFIX}_{name}"
        lines.extend((f"# HELP {full} {help}", f"# TYPE {full} {kind}", f"{full}{labels} {value:.10g}"))

    put("up", "gauge", "Whether the server answered in the last second.", row is not None)
    put("seconds_total", "counter", "Seconds that the totals are of.", window.seconds)
    for name, total in sorted(window.totals.items()):
        put(f"{name}_total", "counter", f"{name} since the observation began, without our own.", total)
    for name, level in sorted(row.levels.items() if row else ()):
        put(name, "gauge", f"{name} now.", level)
    return "\n".join(lines) + "\n"


def write(path: Path, content: str) -> None:
    """Replace the file atomically: a reader sees the old or the new content. Raises OSError."""
    # The collector reads only *.prom, not the temporary file. Waiting for the disk each second would be a load.
    output_files.write(path, lambda file: file.write(content.encode()), synced=False)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
