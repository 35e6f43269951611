"""Compares the pages touched in a measured run's page trace with those of a generated run, by table and index.

A pool decides which pages are read, but not which are touched. So one traced run represents all points that differ only
in their pool. A trace does not record where a transaction ends, so equal numbers of accesses are taken to be equal
numbers of transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bufferlab.chapter import words
from bufferlab.chapter.elements import Table
from bufferlab.engines import registry as engines
from bufferlab.report.comparison.sides import MatchedPoint
from bufferlab.results.page_traces import STRETCHES, ObjectTouches, Touches
from bufferlab.results.store import PAGE_TRACE_FILE, RunRecord
from bufferlab.traces import page_trace
from bufferlab.traces.page_trace import TOUCHES, RunTrace, number_of


@dataclass(frozen=True)
class TouchedPair:
    """A number counted in the trace, and the same number of the generated run; None if a side lacks it."""

    ALSO_PRINTED: ClassVar = ("difference",)

    measured: float | None
    generated: float | None

    @property
    def difference(self) -> float | None:
        """Return the relative difference of the generated number from the measured one; None if a side lacks it."""
        return self.generated / self.measured - 1 if self.measured and self.generated is not None else None

    def cells(self, how: str) -> tuple[str, ...]:
        """Return three cells: both numbers in the format `how`, and their difference."""
        shown = (words.NOTHING if one is None else format(one, how) for one in (self.measured, self.generated))
        return (*shown, words.signed_share(self.difference))


@dataclass(frozen=True)
class TouchedPages:
    """The touches of a set of pages, on both sides."""

    gets: TouchedPair
    """The gets and creations of these pages for each transaction."""
    pages: dict[int, TouchedPair]
    """Number of consecutive transactions -> mean number of distinct pages that they touch."""


@dataclass(frozen=True)
class TouchedObject(TouchedPages):
    """The touches of a table or index, on both sides."""

    name: str
    interior: TouchedPages | None = None
    """The touches of the pages above the leaves of a B-tree; None if a side's trace does not mark these pages."""


@dataclass(frozen=True)
class Touched:
    """The touches of a traced run and a generated run of one point, compared."""

    label: str
    run_id: str
    same_seed: bool
    """Whether both sides have the same transactions."""
    objects: tuple[TouchedObject, ...]


def touched(matched: Sequence[MatchedPoint]) -> Iterable[Touched]:
    """Yield, for each group of points that differ only in their pool, the touches of both sides at the first point that
    has both.

    The sides are a page trace and the counts of a generated run. Raises DataFileError for a damaged trace.
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
    """Return a traced run and a generated run with counted touches, of the same seed if possible; None without both."""
    traced = [one for one in match.a.records if one.ok and (one.folder / PAGE_TRACE_FILE).exists()]
    counted = [
        one
        for one in match.b.records
        if one.ok and one.run.prediction and one.run.prediction.generated and one.run.prediction.generated.touches
    ]
    pairs = [(a, b) for a in traced for b in counted]
    return min(pairs, key=lambda pair: pair[0].run.seed != pair[1].run.seed, default=None)


def _joined(measured: Sequence[ObjectTouches], generated: Sequence[ObjectTouches]) -> Iterable[TouchedObject]:
    """Yield each table or index that either side has, in falling order of gets."""
    sides = [{one.name: one for one in side} for side in (measured, generated)]
    names = dict.fromkeys(name for side in sides for name in side)
    stretches = sorted({stretch for side in (measured, generated) for one in side for stretch in one.pages})
    found = []
    for name in names:
        a, b = (side.get(name) for side in sides)
        interior = _both(a.interior, b.interior, stretches) if a and b and a.interior and b.interior else None
        whole = _both(a, b, stretches)
        found.append(TouchedObject(whole.gets, whole.pages, name, interior))
    yield from sorted(found, key=lambda one: -max(one.gets.measured or 0, one.gets.generated or 0))


def _both(a: Touches | None, b: Touches | None, stretches: Iterable[int]) -> TouchedPages:
    pages = {
        each: TouchedPair(a.pages.get(each) if a else None, b.pages.get(each) if b else None) for each in stretches
    }
    return TouchedPages(TouchedPair(a.gets if a else None, b.gets if b else None), pages)


def table(one: Touched) -> Table:
    """Return the report's table: one row for each table or index that at least one side touched."""
    told = [item for item in one.objects if item.gets.measured or item.gets.generated]
    counted = {
        each for item in told for each, pair in item.pages.items() if None not in (pair.measured, pair.generated)
    }
    stretch = max(counted, default=None)
    heads = ["<Table or index", "Gets, traced", "Gets, generated", "Gets' difference"]
    if stretch:
        heads += ["Pages, traced", "Pages, generated", "Pages' difference"]
    rows = [
        (item.name, *item.gets.cells(".2f"), *(item.pages[stretch].cells(".1f") if stretch else ())) for item in told
    ]
    seed = "the same seed" if one.same_seed else "another seed"
    caption = f"Gets a transaction in the window of run {one.run_id} ({one.label}), beside a generated run of {seed}."
    if stretch:
        caption += f" Pages are distinct ones in {stretch:,} transactions; equally many accesses stand for them."
    return Table.of(f"touched-{one.run_id}", f"By table and index: {one.label}", heads, rows, caption, brief=True)


def touches(trace: RunTrace) -> list[ObjectTouches]:
    """Return the touches of each object of the run's database, in the order of their pages."""
    transactions, objects = trace.work["transaction"], sorted(trace.stored.objects, key=lambda one: one.first_page)
    rows = trace.table[slice(*trace.window)]
    kinds = rows["kind"].to_physical().to_numpy()
    pages = rows["page"].to_numpy()[np.isin(kinds, [number_of(name) for name in TOUCHES])].astype(np.int64)
    # The pages above the leaves of each object come first, then its other pages.
    starts = np.array([one.first_page + below for one in objects for below in (0, one.interior or 0)])
    gets = _by_object(pages, starts) / transactions
    distinct = {
        stretch: _distinct(pages, starts, stretch / transactions) for stretch in STRETCHES if stretch <= transactions
    }

    def of(places: slice) -> Touches:
        counted = {stretch: float(mean[places].sum()) for stretch, mean in distinct.items()}
        return Touches(gets=float(gets[places].sum()), pages=counted)

    return [
        ObjectTouches(
            name=one.name,
            **dict(of(slice(2 * place, 2 * place + 2))),
            interior=None if one.interior is None else of(slice(2 * place, 2 * place + 1)),
        )
        for place, one in enumerate(objects)
    ]


def _by_object(pages: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many of the pages belong to each object; pages before the first object belong to none."""
    return np.bincount(np.searchsorted(starts, pages, side="right"), minlength=len(starts) + 1)[1:]


def _distinct(pages: NDArray[np.int64], starts: NDArray[np.int64], share: float) -> NDArray[np.float64]:
    """Cut the trace into pieces of `share` of its accesses; return the mean number of distinct pages of each object per
    piece."""
    count = int(1 / share + 1e-9)
    edges = np.round(np.arange(count + 1) * share * len(pages)).astype(int)
    found = np.zeros(len(starts))
    for first, end in pairwise(edges):
        found += _by_object(np.unique(pages[first:end]), starts)
    return found / count
