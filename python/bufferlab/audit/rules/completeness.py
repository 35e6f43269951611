"""Rules about the input: missing interval lines, and one file given twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from statistics import median

from bufferlab.audit.evidence import AuditFinding, Case, Judges
from bufferlab.audit.parsers.captions import Place
from bufferlab.audit.parsers.read import FileEvidence
from bufferlab.chapter.words import plural

#: The fewest lines of a log that is judged. A log with fewer lines, or with a larger share of gaps, is assumed to be a
#: deliberate excerpt.
_ENOUGH_LINES = 6
_MOST_GAPS = 0.2
_MOST_LISTED = 12

_Line = tuple[float, Place]


def missing_lines(case: Case) -> Iterator[AuditFinding]:
    """Find gaps between the interval lines of a log that otherwise come at equal distances in time.

    Lines missing at the log's beginning or end are not reported, because a log may be cut.

    Yield a finding for each log with gaps.
    """
    for run in case.runs:
        logs = [("tpcc-mysql", [(float(one.elapsed_s), one.place) for one in log.intervals]) for log in run.logs]
        logs += [(load.tool, [(one.end_s, one.place) for one in load.intervals]) for load in run.loads]
        for program, lines in logs:
            yield from _gaps(program, sorted(lines, key=lambda line: line[0]))


def _gaps(program: str, lines: Sequence[_Line]) -> Iterator[AuditFinding]:
    if len(lines) < _ENOUGH_LINES:
        return
    steps = [b - a for (a, _), (b, _) in pairwise(lines)]
    step = median(steps)
    wide = [at for at, one in enumerate(steps) if step > 0 and one > 1.5 * step]
    if not wide or len(wide) > _MOST_GAPS * len(steps) or min(steps) <= 0:
        return
    every = (lines[at][0] + step * number for at in wide for number in range(1, round(steps[at] / step)))
    missing = list(islice(every, _MOST_LISTED))
    count = sum(round(steps[at] / step) - 1 for at in wide)
    before, after = lines[wide[0]], lines[wide[0] + 1]
    yield AuditFinding(
        after[1],
        f"{plural(count, 'interval line')} of {program} {'is' if count == 1 else 'are'} missing, the first between"
        f" {before[0]:g} s and {after[0]:g} s; the others stand {step:g} s apart",
        "the program prints one in every interval: lines were cut out, or the program itself stood still then; means"
        " over the lines are of what is left",
        f"lines at {', '.join(f'{at:g}' for at in missing)} s belong to the run; take totals from the closing block",
        {"missing": count, "at_s": missing, "step_s": step},
    )


def same_file_twice(case: Case) -> Iterator[AuditFinding]:
    """Find files with exactly the same lines: one measurement that was given for two runs.

    Yield a finding for each such text.
    """
    texts: dict[str, list[FileEvidence]] = {}
    for evidence in case.files:
        if evidence.measured:
            texts.setdefault(evidence.digest, []).append(evidence)
    for files in texts.values():
        if len(files) > 1:
            names = ", ".join(one.file for one in files[:_MOST_LISTED])
            more = f" and {len(files) - _MOST_LISTED} more" if len(files) > _MOST_LISTED else ""
            yield AuditFinding(
                Place(files[1].file, 1),
                f"{len(files)} files have the same text in every line: {names}{more}",
                "two runs do not print the same times and counts: one measurement stands for several",
                "none: find the file of each other run, or leave that run out",
                {"files": [one.file for one in files]},
            )


def _has_lines(case: Case) -> bool:
    logs = any(len(log.intervals) >= _ENOUGH_LINES for log in case.logs())
    return logs or any(len(load.intervals) >= _ENOUGH_LINES for load in case.loads())


JUDGES: Judges = {
    "missing-lines": _has_lines,
    "same-file-twice": lambda case: sum(one.measured for one in case.files) > 1,
}
