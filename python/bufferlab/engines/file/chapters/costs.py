"""The chapter on the cost of random reads: asked for, covered, expected, done and modelled, a column for each.

Readers easily mistake these four counts for one another: reads, pages touched, pages missed, requests.
"""

from __future__ import annotations

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.blocks import Section, Table
from bufferlab.chapter.point_table import Heads, means_over_runs, point_table
from bufferlab.theory.random_read import pages_per_read

_ASKED = ("logical_bytes_per_read", "pages_touched_per_read")
_DONE = (
    "pages_first_touched_per_read",
    "requests_expected_per_read",
    "requests_per_read",
    "requests_over_expected",
    "device_bytes_per_read",
    "read_amplification",
)
_RATES = ("iops", "read_mb_per_s", "reads_cv", "reads_dispersion_index", "requests_cv", "cpu_us_per_transaction")
_MODEL = "Pages a read covers, by its alignment"


def random_reads(analysis: Analysis) -> Section:
    """Return counts per read, and rates with their scatter."""
    intro = (
        "A read covers whole and partial pages of 4 KiB. Through the page cache without read-ahead each page that is "
        "missing is a request of its own; a direct read is one request of its own size."
    )
    return Section("random-reads", "What a read costs", intro, (_costs(analysis), _rates(analysis)))


def _costs(analysis: Analysis) -> Table:
    of_driver, of_kernel = ({words.heading(analysis.metric(name)): name for name in of} for of in (_ASKED, _DONE))
    heads: Heads = {**of_driver, _MODEL: _modelled, **of_kernel}
    caption = (
        f"Per read. {means_over_runs(analysis)}. Pages touched are counted from the offsets that were read, "
        "beside them what size and alignment alone lead one to expect of uniformly random offsets. Pages missed "
        "and expected requests come from a replay of the same offsets over a set of cached pages; with read-ahead the "
        "kernel joins pages, and no number of requests is expected here."
    )
    brief = ("Point", "Pages touched", _MODEL, "Expected requests", "Device requests", "Amplification")
    title = "Asked for, covered, expected, done"
    return point_table(analysis, "read-costs", title, heads, caption, brief=brief)


def _rates(analysis: Analysis) -> Table:
    heads = {words.with_unit(analysis.metric(name).label, analysis.metric(name)): name for name in _RATES}
    caption = (
        "Scatter is that between neighbouring samples of a window, so that the drift of a filling cache is not counted "
        "as scatter. The dispersion index is variance over mean of the reads of one sample interval: one for "
        "independent events at a fixed rate, less for reads that wait for each other."
    )
    return point_table(analysis, "read-rates", "Rates and their scatter", heads, caption)


def _modelled(point: PointRuns) -> str:
    """Return the model's prediction as text; the model knows only uniformly random offsets."""
    workload = point.ok[0].run.workload
    if workload.get("offsets") != "random":
        return words.NOTHING
    size = int(workload["io_size_bytes"])
    alignment = size if workload["alignment"] == "io_size" else int(workload["alignment"])
    return f"{pages_per_read(size, alignment):.4g}"
