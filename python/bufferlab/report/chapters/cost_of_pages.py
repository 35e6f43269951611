"""The chapters on costs in pages: the cost of another page size, and the cost of one long query under each plan.

The page size changes not only reads, but also the file and its trees, bytes moved, scans and inserts. Scans and inserts
are phases after the measured window, with figures per row. A query has its time, the device's work, and its plan in the
engine's words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Figure, Section, Table
from bufferlab.chapter.point_table import claims_blocked, headed, point_table
from bufferlab.chapter.points_figure import points_figure
from bufferlab.results.metrics import qualified
from bufferlab.units import format_bytes, format_count

_PER_WORK = ("pages_created", "reads", "read_bytes", "write_bytes", "wal_write_bytes")
_PER_ROW = (
    "rows_per_s",
    "reads_per_row",
    "read_bytes_per_row",
    "write_bytes_per_row",
    "wal_write_bytes_per_row",
    "pages_created_per_row",
    "cpu_us_per_row",
)
#: A metric that only servers with InnoDB have.
_CACHE = "effective_cache_bytes"
#: The metrics that replace _PER_ROW for phases whose statements return no rows.
_PER_TRANSACTION = (
    "transactions_per_s",
    "reads_per_transaction",
    "read_bytes_per_transaction",
    "write_bytes_per_transaction",
    "wal_write_bytes_per_transaction",
    "pages_created_per_transaction",
    "cpu_us_per_transaction",
)

Shape = Mapping[str, Any]


def cost_of_pages(analysis: Analysis) -> Section | None:
    """Return the chapter on page sizes and phases; None for a sweep without phases that did not vary the page size."""
    by_page = len({point.swept.get("page_size") for point in analysis.points}) > 1
    blocks: list[Table | Figure | None] = []
    if by_page:
        shapes = _shapes(analysis)
        blocks += [_shape_table(shapes), _tree_table(shapes)]
    if analysis.axis == "page_size":
        blocks.append(_per_work(analysis))
        bytes_read = analysis.per_work("read_bytes")
        blocks.append(points_figure(analysis, bytes_read, bytes_read.replace("_", "-")))
        # With another page size, a pool of the same bytes holds less or more data: each page has a descriptor, and the
        # free list is a number of pages.
        blocks.append(points_figure(analysis, _CACHE, _CACHE.replace("_", "-")))
    for phase in analysis.phases:
        blocks += _of_phase(analysis, phase)
    kept = tuple(block for block in blocks if block is not None and (isinstance(block, Figure) or block.rows))
    if not kept:
        return None
    intro = "Phases run on the same warm database after the measured window, each between two samples of its own."
    title = "What a page costs" if by_page else "Phases after the window"
    return Section("pages", title, intro if analysis.phases else "", kept)


def _shapes(analysis: Analysis) -> list[tuple[int, int, Shape]]:
    """Return (page size, bytes of the file as loaded, its trees) for each page size, in rising order."""
    found: dict[int, tuple[int, int, Shape]] = {}
    for point in analysis.points:
        for run in point.ok:
            database, page_size = run.run.database, run.knob("page_size")
            if database and database.shape and database.shape.pages and isinstance(page_size, int) and page_size > 0:
                shape = database.shape.model_dump()
                found.setdefault(page_size, (page_size, database.bytes_loaded, shape))
    return [found[page_size] for page_size in sorted(found)]


def _shape_table(shapes: list[tuple[int, int, Shape]]) -> Table | None:
    """Return the table on the file and its largest tree by page size; None without the trees of any file."""
    if not shapes:
        return None
    largest = max((tree for _, _, shape in shapes[:1] for tree in _tables(shape)), key=_pages, default=None)
    rows = []
    for page_size, loaded, shape in shapes:
        tree = next((tree for tree in _tables(shape) if largest and tree["name"] == largest["name"]), None)
        cells = (
            format_bytes(page_size),
            format_bytes(loaded),
            words.share(loaded / shapes[0][1] - 1).replace("-", "−") if shapes[0][1] else words.NOTHING,
            format_count(shape["pages"]),
            words.share(sum(tree["interior_pages"] for tree in shape["trees"]) / max(1, shape["pages"]), 2),
            words.share(sum(tree["unused_bytes"] for tree in shape["trees"]) / (shape["pages"] * page_size)),
            *_largest_cells(tree),
        )
        rows.append(cells)
    name = largest["name"] if largest else "largest table"
    heads = (
        "Page", "File as loaded", "Against the smallest page", "Pages", "Interior pages", "Unused bytes",
        f"Rows per leaf page ({name})", f"Levels ({name})",
    )  # fmt: skip
    caption = (
        "As loaded, before any run. Levels counts from the root to the leaves: pages read for one row, none cached."
    )
    return Table.of("file-shape", "The file by page size", heads, rows, caption, brief=True)


def _largest_cells(tree: Mapping[str, Any] | None) -> tuple[str, str]:
    if tree is None:
        return words.NOTHING, words.NOTHING
    return _rows_per_leaf(tree), str(tree["height"])


def _tables(shape: Shape) -> list[Mapping[str, Any]]:
    return [tree for tree in shape["trees"] if tree["kind"] == "table"]


def _pages(tree: Mapping[str, Any]) -> int:
    return int(tree["leaf_pages"] + tree["interior_pages"] + tree["overflow_pages"])


def _rows_per_leaf(tree: Mapping[str, Any]) -> str:
    return words.number(tree["rows"] / tree["leaf_pages"]) if tree["rows"] and tree["leaf_pages"] else words.NOTHING


def _tree_table(shapes: list[tuple[int, int, Shape]]) -> Table | None:
    """Return the table of all trees of the database at all page sizes."""
    rows = [
        (
            tree["name"],
            tree["kind"],
            format_bytes(page_size),
            format_count(tree["rows"]) if tree["rows"] is not None else words.NOTHING,
            format_count(tree["leaf_pages"]),
            format_count(tree["interior_pages"]),
            format_count(tree["overflow_pages"]),
            str(tree["height"]),
            _rows_per_leaf(tree),
            words.share(tree["unused_bytes"] / (_pages(tree) * page_size)) if _pages(tree) else words.NOTHING,
        )
        for name in dict.fromkeys(tree["name"] for _, _, shape in shapes for tree in shape["trees"])
        for page_size, _, shape in shapes
        for tree in shape["trees"]
        if tree["name"] == name
    ]
    heads = (
        "<Tree", "<Kind", "Page", "Rows", "Leaf pages", "Interior pages", "Overflow pages", "Levels",
        "Rows per leaf page", "Unused",
    )  # fmt: skip
    return Table.of("trees", "Every tree by page size", heads, rows, folded=True)


def _per_work(analysis: Analysis) -> Table:
    cache = [_CACHE] if analysis.fit(_CACHE) is not None else []
    metrics = [*(analysis.per_work(name) for name in _PER_WORK), *cache]
    title = f"Pages created and bytes moved per {analysis.work_noun}"
    caption = "Means over the runs of a point with 95 % intervals for the mean of many such runs."
    return point_table(analysis, "page-costs", title, headed(analysis, metrics), caption)


def _of_phase(analysis: Analysis, phase: str) -> Iterator[Table | Figure | None]:
    returns_rows = analysis.fit(qualified(phase, "reads_per_row")) is not None
    names = _PER_ROW if returns_rows else _PER_TRANSACTION
    metrics = [qualified(phase, name) for name in names]
    title = phase.replace("_", " ").capitalize()
    caption = f"Phase {phase}: {_work_done(analysis, phase)}. Means with 95 % intervals."
    caption += claims_blocked(analysis, metrics[0], " of rates and of writes")
    yield point_table(analysis, f"phase-{phase}", title, headed(analysis, metrics), caption)
    slug = phase.replace("_", "-")
    yield points_figure(analysis, metrics[0], f"{slug}-rate")
    moved = max((metrics[2], metrics[4]), key=lambda metric: _largest(analysis.points, metric))
    if _largest(analysis.points, moved) > 0:
        yield points_figure(analysis, moved, f"{slug}-bytes")


def _work_done(analysis: Analysis, phase: str) -> str:
    counts = [count for point in analysis.points for _, _, count in point.values(qualified(phase, "transactions"))]
    if not counts:
        return "no transaction was completed"
    low, high = min(counts), max(counts)
    return f"{low:,.0f} transactions a run" if low == high else f"{low:,.0f} to {high:,.0f} transactions a run"


def _largest(points: tuple[PointRuns, ...], metric: str) -> float:
    return max((value for point in points for _, _, value in point.values(metric)), default=0.0)


_TIME = ("seconds_per_transaction", "device_reads_per_transaction", "device_read_size_kib")
_PAGES = ("reads_per_transaction", "misses_per_transaction", "page_gets_per_transaction", "cpu_us_per_transaction")
_DEVICE = (
    "device_reads_per_s",
    "device_read_kib_per_s",
    "device_read_await_ms",
    "device_queue_length",
    "device_busy_ratio",
    "cpu_iowait_share",
)
_LONGEST_PLAN = 600
"""The longest text of a plan, in characters, that a table shows: servers print theirs in JSON."""


def query_cost(analysis: Analysis) -> Section | None:
    """Return the chapter on a query's cost, the device's work and the plans; None unless runs have a checked plan."""
    plans = _plans(analysis)
    if plans is None:
        return None
    caption = "Means over the runs of a point, with 95 % intervals."
    heads = headed(analysis, (*_TIME, *_PAGES))
    cost = point_table(analysis, "query-cost", "What one query costs", heads, caption)
    title = "The device while queries ran"
    of_what = "Over the whole window. Names in parentheses are those of iostat and mpstat."
    over = {words.with_column(analysis.metric(metric)): metric for metric in _DEVICE}
    device = point_table(analysis, "query-device", title, over, of_what)
    intro = "The plan is forced; that the engine takes it is checked before the window, every answer in it."
    return Section("query-costs", "What a query costs by its plan", intro, (cost, device, plans))


def _plans(analysis: Analysis) -> Table | None:
    """Return the table with each plan's text, from its first run, and the query answers checked in all of its runs."""
    told = [drawn for run in analysis.runs if "plan_text" in (drawn := run.run.workload.get("drawn") or {})]
    rows = []
    for plan in dict.fromkeys(drawn["plan"] for drawn in told):
        of_plan = [drawn for drawn in told if drawn["plan"] == plan]
        checked = sum(drawn["answers_checked"] for drawn in of_plan)
        in_range = ", ".join(sorted({f"{drawn['rows_in_range']:,}" for drawn in of_plan}))
        rows.append((plan.replace("_", " "), in_range, f"{checked:,}", _in_one_line(of_plan[0]["plan_text"])))
    heads = ("<Plan", "Rows in the range", "Answers checked", "<As the engine told it")
    return Table.of("query-plans", "Plans taken", heads, rows) if rows else None


def _in_one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_PLAN else f"{line[:_LONGEST_PLAN]} … (the rest is in run.json)"
