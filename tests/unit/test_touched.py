"""Gets and pages by table and index: counted in a trace, and compared with generated ones by `accuracy`."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from bufferlab.execute.predicted_sweep import predict_sweep
from bufferlab.registry import open_sweep
from bufferlab.report.comparison import touched_pages
from bufferlab.report.comparison.accuracy import accuracy
from bufferlab.report.comparison.touched_pages import Touched, TouchedObject, TouchedPair, touches
from bufferlab.results.store import SweepFolder
from bufferlab.spec import Overrides
from bufferlab.traces import page_trace
from support.fake import Bench
from support.json_documents import DOCUMENTS

TRACED = Path(__file__).parents[1] / "fixtures/sweeps/traced"
"""A traced run of SQLite: TPC-C, 1 warehouse, 400 transactions after a warm-up of 400."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


def generate(bench: Bench, **overrides: object) -> SweepFolder:
    """Return a sweep predicted without a run, for the traced run's experiment."""
    path = bench.root / "pool-sizes.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((TRACED / "experiment.toml").read_text())
    with bench.in_environment():
        return predict_sweep(path, Overrides(**overrides), bench.out).folder  # type: ignore[arg-type]


def test_a_trace_is_counted_as_a_loop_over_its_rows_counts_it() -> None:
    trace = page_trace.read(TRACED)
    rows = trace.named().filter(pl.col("in_window") & pl.col("kind").is_in(page_trace.TOUCHES))
    pages, names = rows["page"].to_list(), rows["object"].to_list()
    stretches = 8
    counted = {one.name: one for one in touches(trace)}
    assert {*names} <= {*counted}
    seen: dict[str, list[set[int]]] = {name: [set() for _ in range(stretches)] for name in counted}
    for place, (page, name) in enumerate(zip(pages, names, strict=True)):
        seen[name][min(place * stretches // len(pages), stretches - 1)].add(page)
    for name, one in counted.items():
        assert one.gets == names.count(name) / 400, name
        assert [*one.pages] == [50], "the window has no 500 transactions"
        assert one.pages[50] == pytest.approx(sum(map(len, seen[name])) / stretches, abs=0.3), name


def test_generated_runs_stand_beside_the_trace_table_by_table(bench: Bench) -> None:
    """With the same transactions gets are within 5 %, pages within 2 % or two pages. Pages that left a tree belong to
    none."""
    found = accuracy(open_sweep(TRACED), generate(bench))
    (one,) = found.touched
    assert one.same_seed
    assert one.label == "pool size 20 %"
    objects = [item for item in one.objects if item.name != "(free)"]
    assert len(objects) == 12
    for item in objects:
        assert item.gets.generated == pytest.approx(item.gets.measured, rel=0.05), item.name
        assert [*item.pages] == [50]
        assert item.pages[50].generated == pytest.approx(item.pages[50].measured, rel=0.02, abs=2), item.name
    told = bench.bufferlab("accuracy", TRACED, bench.sweep_path(), "--json").json
    DOCUMENTS["accuracy"].model_validate(told)
    (tables,) = told["touched"]
    assert tables["objects"][0]["gets"]["measured"] == max(item.gets.measured or 0 for item in one.objects)


def test_without_a_kept_trace_or_counts_there_is_no_table(bench: Bench) -> None:
    generated, traced = generate(bench), open_sweep(TRACED)
    blocks = {record.run.block: record.run.prediction for record in generated.runs()}
    counted = {block: len(one.generated.touches) for block, one in blocks.items() if one and one.generated}
    assert counted == {0: 12, 1: 0, 2: 0}, "the first block's measured runs keep their traces"
    before = accuracy(open_sweep(TRACED.parent / "before"), generate(bench, sweep=(("pool_size", ("20%",)),)))
    assert before.touched == ()
    with bench.in_environment():
        replayed = predict_sweep(TRACED, Overrides(), bench.out).folder
    assert accuracy(traced, replayed).touched == ()


@pytest.mark.figures
def test_terminal_and_page_show_the_table(bench: Bench) -> None:
    page = bench.root / "page.html"
    ended = bench.bufferlab("accuracy", TRACED, generate(bench).path, "--html", page)
    assert ended.code == 0, ended.err
    for text in (ended.out, page.read_text()):
        assert "Pages, generated" in text
        assert "orders_by_customer" in text
    assert "By table and index: pool size 20 %" in page.read_text()
    assert "a generated run of the same seed" in page.read_text()


def test_an_object_of_one_side_alone_is_shown_and_one_that_nobody_touched_is_not() -> None:
    objects = (
        TouchedObject(TouchedPair(10.0, 11.0), {50: TouchedPair(100.0, 99.0), 500: TouchedPair(None, 300.0)}, "stock"),
        TouchedObject(TouchedPair(2.0, None), {50: TouchedPair(7.0, None), 500: TouchedPair(None, None)}, "(undo)"),
        TouchedObject(TouchedPair(0.0, 0.0), {50: TouchedPair(0.0, 0.0), 500: TouchedPair(None, 0.0)}, "empty"),
    )
    shown = touched_pages.table(Touched("pool size 20 %", "0123", False, objects))
    assert [row.cells for row in shown.rows] == [
        ("stock", "10.00", "11.00", "+10.0 %", "100.0", "99.0", "-1.0 %"),
        ("(undo)", "2.00", "–", "–", "7.0", "–", "–"),
    ]
    assert "50 transactions" in shown.caption
    assert "another seed" in shown.caption
