"""The Python interface: frames with the numbers of the report, and errors with a place and a hint."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import bufferlab as bl
from bufferlab.cli.progress import PlainProgress
from bufferlab.registry import registry
from bufferlab.report.build import build
from bufferlab.report.comparison.compare_metrics import compare_sides
from bufferlab.report.comparison.compare_page import as_report
from bufferlab.report.comparison.sides import of_two_folders
from bufferlab.report.document import as_json
from bufferlab.report.figures.svg import draw
from bufferlab.report.markdown import figures_of
from bufferlab.results.store import SweepFolder
from bufferlab.traces import page_trace
from bufferlab.traces.curve import curve
from support import synthetic, traced
from support.core import ROOT
from support.fake import Bench
from support.traced import CREATE, DROP, EVICT, GET, READ

SHORT = synthetic.Sweep(warm_up_seconds=2, transactions=4000)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> SweepFolder:
    statuses = {(2, 1): ("failed", "the disk is full")}
    return synthetic.build(tmp_path_factory.mktemp("swept"), replace(SHORT, statuses=statuses))


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = "print(*sorted({'polars', 'numpy', 'pydantic', 'click', 'matplotlib', 'bufferlab.api'} & set(sys.modules)))"
    run = f"import sys, bufferlab; bufferlab.__version__; {heavy}; bufferlab.read; {heavy}"
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=True, timeout=60)
    before, after = done.stdout.splitlines()
    assert before == ""
    assert after.split() == ["bufferlab.api", "numpy", "polars", "pydantic"]


def test_the_stub_and_the_package_offer_the_same_names() -> None:
    stub = ast.parse((ROOT / "python/bufferlab/__init__.pyi").read_text(encoding="utf-8"))
    told = {
        (alias.asname, node.module) for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert told == {(name, f"bufferlab.{module}") for name, module in bl._MODULES.items()}
    assert all(getattr(bl, name) for name in bl.__all__)
    assert set(dir(bl)) == set(bl.__all__)


def test_a_name_that_the_package_lacks_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'reed'"):
        bl.reed  # type: ignore[attr-defined]  # noqa: B018


def test_figures_and_steps_are_the_reports_own(swept: SweepFolder) -> None:
    sweep, report = bl.read(swept.path), build(swept)
    means = [one for point in report.data.points for one in point.summaries]
    shown = {(one.point_index, one.metric): (one.value, one.ci_low, one.ci_high, one.n, one.unit) for one in means}
    columns = ("mean", "ci_low", "ci_high", "n", "unit")
    told = {
        (row["point"], row["metric"]): tuple(row[name] for name in columns)
        for row in sweep.figures.iter_rows(named=True)
    }
    assert told == shown
    assert sweep.headline == "reads_per_new_order"
    assert [(one.a, one.metric, one.estimate.value, one.direction) for one in report.data.steps] == sweep.steps.select(
        "from", "metric", "change", "direction"
    ).rows()


def test_points_tell_the_swept_settings_in_their_units(swept: SweepFolder) -> None:
    points = bl.read(swept.path).points
    assert points["pool_size_bytes"].to_list() == [
        point.number("pool_size") for point in bl.read(swept.path)._analysis.points
    ]
    assert points["n"].to_list() == [3, 3, 2, 3, 3]
    assert points["status"].to_list() == ["ok", "ok", "failed", "ok", "ok"]
    assert "the disk is full" in points["reason"][2]


def test_runs_have_their_values_and_those_that_failed_their_reason(swept: SweepFolder) -> None:
    found = bl.read(swept.path).runs
    assert found.height == 15
    failed = found.filter(pl.col("status") != "ok")
    assert failed.select("point", "block", "reason").rows() == [(2, 1, failed["reason"][0])]
    assert failed["reads_per_new_order"].to_list() == [None]
    first = found.filter(pl.col("point") == 0)["reads_per_new_order"].to_list()
    mean = bl.read(swept.path).figures.filter(pl.col("metric") == "reads_per_new_order", pl.col("point") == 0)
    assert min(first) < mean["mean"][0] < max(first)


def test_settings_samples_and_latencies_are_all_there(swept: SweepFolder) -> None:
    sweep = bl.read(swept.path)
    pool = sweep.settings.filter(pl.col("setting") == "pool_size", pl.col("point") == 0)
    assert pool.select("asked", "number", "unit").rows() == [("5%", 8912896.0, "bytes")]
    records = swept.runs()
    assert sweep.samples.height == sum(record.samples().height for record in records)
    assert sweep.samples["unit"].null_count() == 0
    assert sweep.latency.height == sum(record.latency().height for record in records)
    units = dict(sweep.metrics.select("metric", "unit").rows())
    assert units["reads_per_new_order"] == "pages/New-Order"


def test_a_sweep_that_was_interrupted_is_read_with_its_gap(tmp_path: Path) -> None:
    folder = synthetic.build(tmp_path, replace(SHORT, blocks=1))
    for record in folder.runs():
        if record.run.point.index > 1:
            (record.folder).rename(record.folder.with_name(f".tmp-{record.run_id}"))
    sweep = bl.read(folder.path)
    assert sweep.points["status"].to_list() == ["ok", "ok", "skipped", "skipped", "skipped"]
    assert "not been run" in sweep.points["reason"][4]
    assert set(sweep.figures["point"]) == {0, 1}
    assert "2 of 5 points" in repr(sweep)


def test_a_sweep_without_a_run_has_empty_frames(tmp_path: Path) -> None:
    folder = SweepFolder.create(tmp_path, registry(), 'name = "empty"\n', {"experiment": "empty"}, {})
    sweep = bl.read(folder.path)
    for frame in (sweep.points, sweep.settings, sweep.runs, sweep.figures, sweep.steps, sweep.samples, sweep.latency):
        assert frame.height == 0
        assert frame.width > 3


def test_a_folder_that_cannot_be_read_is_refused_with_place_and_hint(tmp_path: Path, swept: SweepFolder) -> None:
    (tmp_path / "foreign").mkdir()
    older = synthetic.build(tmp_path, replace(SHORT, blocks=1)).path
    plan = json.loads((older / "plan.json").read_text())
    (older / "plan.json").write_text(json.dumps({**plan, "format_version": 1}))
    half = synthetic.build(tmp_path / "half", replace(SHORT, blocks=1)).path
    (half / "experiment.toml").unlink()
    for path, what in (
        (tmp_path / "nothing", "no such sweep folder"),
        (tmp_path / "foreign", "not a sweep folder"),
        (older, "format version 1, not 2"),
        (half, "lacks experiment.toml"),
    ):
        with pytest.raises(bl.BufferlabError, match=what) as refused:
            bl.read(path)
        assert str(path) in str(refused.value.where)
        assert refused.value.hint


OBJECTS = {"objects": [{"name": "stock", "first_page": 0, "pages": 2}, {"name": "item", "first_page": 3, "pages": 1}]}
WARM = [(0, GET), (0, READ), (1, GET), (2, CREATE)]
WINDOW = [(0, GET), (3, GET), (3, READ), (1, EVICT), (1, DROP), (1, GET), (0, GET)]


def test_a_trace_names_objects_and_marks_the_window(tmp_path: Path) -> None:
    folder = traced.build(tmp_path, WARM, WINDOW, trace=OBJECTS)
    found = bl.trace(folder.path)
    assert found["object"].to_list()[:4] == ["stock", "stock", "stock", None]
    assert found["object"].to_list()[4:6] == ["stock", "item"]
    assert found["kind"].to_list()[:4] == ["get", "read", "get", "create"]
    assert found["in_window"].to_list() == [False] * 4 + [True] * 7
    assert found["t_s"].to_list() == pytest.approx([place / 1000 for place in range(11)])


def test_a_curve_of_the_rows_is_the_curve_of_the_run(tmp_path: Path) -> None:
    folder = traced.build(tmp_path, WARM, WINDOW, trace=OBJECTS, new_orders=2)
    accesses = page_trace.read(folder.path).accesses()
    expected = curve(accesses, accesses.window_s, lambda _done: None).misses.tolist()
    # The distances of the gets, by hand: 3, never, dropped, 3.
    assert expected == [4, 4, 4, 2, 2]
    of_rows, of_run = bl.curve(bl.trace(folder.path)), bl.curve(folder.path)
    assert of_rows["misses"].to_list() == of_run["misses"].to_list() == expected
    assert of_rows["misses_per_get"].to_list() == [1, 1, 1, 0.5, 0.5]
    assert of_run["misses_per_new_order"].to_list() == [2, 2, 2, 1, 1]
    assert of_run["misses_per_transaction"].to_list() == pytest.approx([0.4, 0.4, 0.4, 0.2, 0.2])


def test_a_curve_of_a_file_is_that_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    path.write_text("0,8192,4096\n0.5,0,16384\n1.5,4096,100\n")
    with pytest.raises(bl.BufferlabError, match="may count bytes, sectors or pages"):
        bl.curve(path)
    found = bl.curve(path, columns="time=1,page=2:bytes,size=3", page_size="4KiB")
    # The accesses are 2, then 0 1 2 3, then 1: their distances are never, never, never, 3, never, 3.
    assert found["misses"].to_list() == [6, 6, 6, 4, 4]
    assert bl.curve(str(path), columns="page=2:pages")["misses"].to_list() == [3, 3, 3, 3]
    with pytest.raises(bl.BufferlabError, match="no size of a page"):
        bl.curve(path, page_size=0)


def test_a_curve_of_one_object_knows_its_pages_alone(tmp_path: Path) -> None:
    rows = bl.trace(traced.build(tmp_path, WARM, WINDOW, trace=OBJECTS).path)
    found = bl.curve(rows.filter(pl.col("object") == "stock"))
    # The gets are of page 0, of page 1 after its drop, and of page 0 again.
    assert found["misses"].to_list() == [3, 3, 1]


def test_a_frame_of_pages_alone_has_a_get_in_each_row() -> None:
    # The accesses are 7, 8, 7, 8, 9, 7: a pool of two pages misses each page's first access, and the last 7 after 8 and
    # 9.
    assert bl.curve(pl.DataFrame({"page": [7, 8, 7, 8, 9, 7]}))["misses"].to_list() == [6, 6, 4, 3]


def test_rows_that_are_no_trace_are_refused(tmp_path: Path) -> None:
    rows = bl.trace(traced.build(tmp_path, WARM, WINDOW).path)
    assert rows["object"].null_count() == rows.height
    without_kind = pl.DataFrame({"page": [1], "t_s": [0.0]})
    for frame, what in ((without_kind, "no column kind"), (rows.head(4), "no get lies in the window")):
        with pytest.raises(bl.BufferlabError, match=what) as refused:
            bl.curve(frame)
        assert refused.value.hint


def test_a_run_without_a_trace_is_refused(swept: SweepFolder) -> None:
    with pytest.raises(bl.BufferlabError, match="no page trace") as refused:
        bl.trace(swept.path)
    assert "page-trace" in str(refused.value.hint)


def test_predict_returns_the_predicted_points_with_their_doubts(tmp_path: Path) -> None:
    loop = [(page, GET) for page in range(65)]
    source = traced.build(tmp_path, loop, [*loop, (0, READ), (70, CREATE)], reads=60)
    bench = Bench(tmp_path / "bench")
    with bench.in_environment():
        found = bl.predict(source.path, sweep={"pool_size": ["256KiB", "264KiB"]}, out=bench.out)
    # 65 pages in turn: LRU with 64 frames evicts each page before its next access; OPT gives up only one page.
    told = found.predictions.select("pool_frames", "reads", "lru_reads", "opt_reads", "transactions").rows()
    assert told == [(64, 65, 65, 1, 10), (66, 0, 0, 0, 10)]
    assert found.predictions["doubts"].to_list() == [[], ["the pool holds all 66 pages that the run touched"]]
    assert found.predictions["is_traced_point"].to_list() == [True, False]
    assert set(found.runs["source"]) == set(found.figures["source"]) == {"predicted"}
    assert bl.read(source.path).predictions.height == 0
    with pytest.raises(bl.BufferlabError, match="as it was begun"):
        bl.predict(source.path, sweep={"pool_size": ["256KiB"]}, resume=found.path)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[SweepFolder, SweepFolder]:
    parent = tmp_path_factory.mktemp("sides")
    one = replace(SHORT, truths=(synthetic.Truth("10%", 19.5), synthetic.Truth("20%", 9.7)))
    other = replace(one, truths=(synthetic.Truth("10%", 25.0), synthetic.Truth("20%", 9.7)), seed=3)
    return synthetic.build(parent / "a", one), synthetic.build(parent / "b", other)


def test_a_comparison_has_the_answer_and_the_figures_of_the_command(sides: tuple[SweepFolder, SweepFolder]) -> None:
    a, b = sides
    found = bl.compare(bl.read(a.path), b.path)
    compared = compare_sides(of_two_folders(a, b))
    expected = as_json(as_report(compared))
    assert found.answer == expected["answer"]
    assert found.warnings == expected["warnings"]
    by_setting = sorted(expected["figures"], key=lambda figure: figure["settings"]["pool_size"])
    for told, figure in zip(found.figures.to_dicts(), by_setting, strict=True):
        assert {name: told[name] for name in ("metric", "unit", "outcome", "reason", "level")}.items() <= figure.items()
        verdict = figure["found"]["verdict"]
        assert (told["a"], told["n_b"]) == (figure["found"]["value_a"], figure["found"]["n_b"])
        assert [told[name] for name in ("value", "ci_low", "ci_high")] == [
            verdict["estimate"][name] for name in ("value", "ci_low", "ci_high")
        ]
        assert (told["contrast"], told["smallest_detectable"]) == (verdict["contrast"], verdict["detectable"])
    assert found.figures["setting"].unique().sort().to_list() == ["pool size 10 %", "pool size 20 %"]
    headline = found.figures.filter(pl.col("metric") == "reads_per_new_order")
    assert headline["outcome"].to_list()[0] == "different"


def test_two_settings_of_one_sweep_are_compared(sides: tuple[SweepFolder, SweepFolder]) -> None:
    found = bl.compare(sides[0].path, between=("pool_size=10%", "pool_size=20%"))
    assert "lower with pool_size 20 %" in found.answer
    with pytest.raises(bl.BufferlabError, match="two sweeps, or one and between"):
        bl.compare(sides[0].path)
    with pytest.raises(bl.BufferlabError, match="not a sweep folder"):
        bl.compare(sides[0].path, "")


def test_run_measures_and_returns_what_it_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench(tmp_path)
    with bench.in_environment():
        found = bl.run(
            bench.experiment(repetitions=1), sweep={"pool_size": ["5%", "20%", "80%"]}, transactions=1000, out=bench.out
        )
    assert found.points["label"].to_list() == ["pool_size 5%", "pool_size 20%", "pool_size 80%"]
    assert found.path == bench.sweep_path()
    assert (found.path / "report.html").exists()
    assert "run 3 of 3" in capsys.readouterr().err


def test_run_does_the_blocks_that_it_is_asked_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with bench.in_environment():
        found = bl.run(bench.experiment(repetitions=3), blocks="2", out=bench.out)
        with pytest.raises(bl.BufferlabError, match="the plan has 3 blocks, and block 4 is beyond it"):
            bl.run(bench.experiment(repetitions=3), blocks="1,4", out=bench.out)
    assert found.runs["block"].unique().to_list() == [1]


def test_a_run_that_is_resumed_takes_nothing_else(tmp_path: Path) -> None:
    for arguments, what in (
        ({}, "no experiment given"),
        ({"experiment": "noise", "resume": tmp_path}, "run as it was begun"),
        ({"resume": tmp_path, "seed": 2}, "run as it was begun"),
        ({"resume": tmp_path, "blocks": "1"}, "run as it was begun"),
        ({"experiment": "buffer-size", "settings": {"pol_size": 5}}, "pol_size"),
    ):
        with pytest.raises(bl.BufferlabError, match=what) as refused:
            bl.run(**arguments)  # type: ignore[arg-type]
        assert refused.value.hint


def test_ctrl_c_keeps_what_was_measured_and_resume_does_the_rest(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    path = bench.experiment(repetitions=2)
    with bench.in_environment():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PlainProgress, "say", _interrupting(PlainProgress.say))
            with pytest.raises(bl.BufferlabError) as stopped:
                bl.run(path, out=bench.out)
        assert 'bl.run(resume="' in str(stopped.value.hint)
        assert (stopped.value.exit_code, len(bench.runs())) == (130, 1)
        found = bl.run(resume=bench.sweep_path())
    assert found.runs.height == 4


def _interrupting(say: Callable[[PlainProgress, str], None]) -> Callable[[PlainProgress, str], None]:
    """Return `say` with a Ctrl-C after the first finished run."""

    def said(self: PlainProgress, text: str) -> None:
        say(self, text)
        if text.startswith("run 1 of 4: pool_size") and "transactions in" in text:
            os.kill(os.getpid(), signal.SIGINT)

    return said


def test_plots_are_the_figures_that_the_report_wrote(tmp_path: Path) -> None:
    sweep = bl.read(ROOT / "tests/fixtures/sweeps/before")
    figures = figures_of(build(SweepFolder.open(ROOT / "tests/fixtures/sweeps/before", registry())))
    assert list(sweep.plots) == [figure.id for figure in figures]
    plot = sweep.plot()
    assert (plot.name, plot.title) == (figures[0].id, figures[0].title)
    assert plot.alt == figures[0].alt
    assert plot._repr_svg_() == draw(figures[0])
    assert sweep.plot("hit-ratio").save(tmp_path / "a.svg").read_text() == draw(
        figures[[*sweep.plots].index("hit-ratio")]
    )


def test_a_plot_that_is_not_there_and_a_file_that_is_no_svg_are_refused_with_a_hint(tmp_path: Path) -> None:
    sweep = bl.read(ROOT / "tests/fixtures/sweeps/before")
    with pytest.raises(bl.BufferlabError, match="did you mean hit-ratio"):
        sweep.plot("hit-rate")
    with pytest.raises(bl.BufferlabError, match="a name that ends in"):
        sweep.plot().save(tmp_path / "a.png")
    with pytest.raises(bl.BufferlabError, match="choose another path"):
        sweep.plot().save(tmp_path / "no" / "a.svg")
