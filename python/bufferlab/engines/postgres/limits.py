"""The limits of an answer: what PostgreSQL's settings leave out, in a report's words."""

from __future__ import annotations

from collections.abc import Sequence

from bufferlab.results.check import MeasuredRun


def limits(runs: Sequence[MeasuredRun]) -> list[str]:
    """Return what the settings of these runs leave out, each in a sentence."""
    found = []
    if any(run.knob("synchronous_commit") == "off" for run in runs):
        found.append("Commits did not wait for the device (synchronous_commit = off): commit latency is not measured.")
    if not all(run.direct for run in runs):
        found.append(
            "PostgreSQL reads through the page cache: its reads are pages that were not in shared buffers; the table "
            '"Where pages came from" tells how many of them the device saw.'
        )
    return found
