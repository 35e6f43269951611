"""InnoDB's chapters of a report, and what its settings leave out of an answer."""

from __future__ import annotations

from collections.abc import Sequence

from bufferlab.chapter import words
from bufferlab.chapter.engine_chapters import EngineChapters
from bufferlab.engines.innodb.chapters.inside import inside
from bufferlab.engines.innodb.chapters.scan_depth import answer, scan_depth
from bufferlab.engines.innodb.chapters.victim_path import victim_path
from bufferlab.results.check import MeasuredRun

_COMMIT = "flush_log_at_trx_commit"


def _limits(runs: Sequence[MeasuredRun]) -> list[str]:
    """Return what the settings of these runs leave out, each in a sentence."""
    found = []
    commits = {str(run.knob(_COMMIT)) for run in runs if run.knob(_COMMIT) is not None}
    if commits - {"1"}:
        found.append(
            f"Commits did not wait for the device (innodb_{_COMMIT} = {words.listing(sorted(commits))}): "
            "commit latency is not measured."
        )
    if {str(run.knob("adaptive_hash_index")).lower() for run in runs} & {"off", "0"}:
        found.append("Adaptive hash index off: with it, page gets per transaction depend on the pool and are fewer.")
    return found


def _bytes_written(runs: Sequence[MeasuredRun]) -> list[str]:
    """Return the files whose bytes are counted together; MariaDB leaves out the redo log since 10.5."""
    without_redo = any(run.run.engine == "mariadb" and run.version >= (10, 5) for run in runs)
    return ["data files", "doublewrite buffer", *([] if without_redo else ["redo log"])]


CHAPTERS = EngineChapters(
    answering=(scan_depth,),
    inside=(victim_path, inside),
    answer=answer,
    answers_in="scan-depth",
    limits=_limits,
    bytes_written=_bytes_written,
)
