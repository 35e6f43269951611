"""InnoDB's chapters of a report: the effect of the scan depth, where frames came from, and what the server did."""

from __future__ import annotations

from bufferlab.chapter.engine_chapters import EngineChapters
from bufferlab.engines.innodb.chapters.inside import inside
from bufferlab.engines.innodb.chapters.scan_depth import answer, scan_depth
from bufferlab.engines.innodb.chapters.victim_path import victim_path
from bufferlab.engines.innodb.limits import bytes_written, limits

CHAPTERS = EngineChapters(
    answering=(scan_depth,),
    inside=(victim_path, inside),
    answer=answer,
    answers_in="scan-depth",
    limits=limits,
    bytes_written=bytes_written,
)
