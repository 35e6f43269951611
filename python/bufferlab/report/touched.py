"""Sets what a measured run's page trace touched beside what was generated, by table and index.

A pool decides which pages are read, and not which are touched. So one traced run stands for all points that differ in
their pool alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bufferlab.chapter import words
from bufferlab.chapter.blocks import Column, Row, Table
from bufferlab.engines import registry as engines
from bufferlab.report.compare_sides import MatchedPoint
from bufferlab.results.page_traces import ObjectTouches, Touches
from bufferlab.results.store import PAGE_TRACE_FILE, RunRecord
from bufferlab.traces import page_trace
from bufferlab.traces.touches import touches

Pair = tuple[float | None, float | None]
"""A number measured from the trace, and the generated one; None where that side has none."""


@dataclass(frozen=True)
class TouchedObject:
    """A table or index on both sides."""

    name: str
    gets: Pair
    """Gets and creations for each transaction."""
    pages: dict[int, Pair]
    """Distinct pages in a stretch of so many transactions."""
    interior: tuple[Pair, dict[int, Pair]] | None = None
    """Both of the pages above the leaves of a B-tree; None where a side does not tell levels."""


@dataclass(frozen=True)
class Touched:
    """A traced run and a generated run of one point."""

    label: str
    run_id: str
    same_seed: bool
    """Whether both sides have the same transactions."""
    objects: tuple[TouchedObject, ...]


def touched(matched: Sequence[MatchedPoint]) -> Iterable[Touched]:
    """Yield both sides of the first point of each group that has a trace and generated counts.

    Points of a group differ in their pool alone. Raises DataFileError for a damaged trace.
    """
    done = set()
    for match in matched:
        pair = _pair(match)
        if not pair:
            continue
        traced, generated = pair
        pool = engines.declaration(traced.run.engine).results.pool
        group = tuple((name, value) for name, value in match.a.swept.items() if name != pool)
        trace = page_trace.of_run(traced) if group not in done else None
        if trace and generated.run.prediction and generated.run.prediction.generated:
            done.add(group)
            objects = _joined(touches(trace), generated.run.prediction.generated.touches)
            same_seed = traced.run.seed == generated.run.seed
            yield Touched(match.label or match.a.label, traced.run.run_id, same_seed, tuple(objects))


def _pair(match: MatchedPoint) -> tuple[RunRecord, RunRecord] | None:
    """Return a traced run and a generated run that was counted, of the same seed if there are such; None without."""
    traced = [one for one in match.a.records if one.ok and (one.folder / PAGE_TRACE_FILE).exists()]
    counted = [
        one
        for one in match.b.records
        if one.ok and one.run.prediction and one.run.prediction.generated and one.run.prediction.generated.touches
    ]
    pairs = [(a, b) for a in traced for b in counted]
    return min(pairs, key=lambda pair: pair[0].run.seed != pair[1].run.seed, default=None)


def _joined(measured: Sequence[ObjectTouches], generated: Sequence[ObjectTouches]) -> Iterable[TouchedObject]:
    """Yield each object of either side, that with the most gets first."""
    sides = [{one.name: one for one in side} for side in (measured, generated)]
    names = dict.fromkeys(name for side in sides for name in side)
    stretches = sorted({stretch for side in (measured, generated) for one in side for stretch in one.pages})
    found = []
    for name in names:
        a, b = (side.get(name) for side in sides)
        interior = _pairs(a.interior, b.interior, stretches) if a and b and a.interior and b.interior else None
        found.append(TouchedObject(name, *_pairs(a, b, stretches), interior))
    yield from sorted(found, key=lambda one: -max(value or 0 for value in one.gets))


def _pairs(a: Touches | None, b: Touches | None, stretches: Iterable[int]) -> tuple[Pair, dict[int, Pair]]:
    pages = {each: (a.pages.get(each) if a else None, b.pages.get(each) if b else None) for each in stretches}
    return (a.gets if a else None, b.gets if b else None), pages


def table(one: Touched) -> Table:
    """Return the table by table and index; objects that nobody touched are left out."""
    told = [item for item in one.objects if any(item.gets)]
    stretch = max((each for item in told for each, pair in item.pages.items() if None not in pair), default=None)
    heads = ["Table or index", "Gets, traced", "Gets, generated", "Gets' difference"]
    if stretch:
        heads += ["Pages, traced", "Pages, generated", "Pages' difference"]
    rows = [
        Row((item.name, *_cells(item.gets, ".2f"), *(_cells(item.pages[stretch], ".1f") if stretch else ())))
        for item in told
    ]
    seed = "the same seed" if one.same_seed else "another seed"
    caption = f"Gets a transaction in the window of run {one.run_id} ({one.label}), beside a generated run of {seed}."
    if stretch:
        caption += f" Pages are distinct ones in {stretch:,} transactions; equally many accesses stand for them."
    columns = tuple(Column(head, numeric=head != heads[0]) for head in heads)
    return Table(f"touched-{one.run_id}", f"By table and index: {one.label}", columns, tuple(rows), caption,
                 brief=tuple(heads))  # fmt: skip


def as_json(one: Touched) -> dict[str, Any]:
    """Return both sides for programs; docs/prediction.md explains the keys."""
    return {
        "label": one.label,
        "run_id": one.run_id,
        "same_seed": one.same_seed,
        "objects": [
            {
                "name": item.name,
                **_both(item.gets, item.pages),
                "interior": _both(*item.interior) if item.interior else None,
            }
            for item in one.objects
        ],
    }


def _both(gets: Pair, pages: dict[int, Pair]) -> dict[str, Any]:
    compared = [{"transactions": each, **_compared(pair)} for each, pair in pages.items()]
    return {"gets": _compared(gets), "pages": compared}


def _compared(pair: Pair) -> dict[str, float | None]:
    return {"measured": pair[0], "generated": pair[1], "difference": _difference(pair)}


def _difference(pair: Pair) -> float | None:
    """Return how far the generated number is from the traced one, as a share of that; None where there is none."""
    measured, generated = pair
    return generated / measured - 1 if measured and generated is not None else None


def _cells(pair: Pair, how: str) -> tuple[str, str, str]:
    measured, generated = (words.NOTHING if value is None else format(value, how) for value in pair)
    return measured, generated, words.signed_share(_difference(pair))
