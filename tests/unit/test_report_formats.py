"""Every format of a report: complete, self-contained, the same each time, and safe against hostile names."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bufferlab.chapter.elements import Column, Dot, Figure, PointsPlot, Row, Series, Table
from bufferlab.registry import open_sweep
from bufferlab.report.build import build as build_report
from bufferlab.report.build import publish
from bufferlab.report.csv_files import table_csv, write_csv
from bufferlab.report.document import Report, as_json
from bufferlab.report.figures.svg import draw
from bufferlab.report.html import render_html
from bufferlab.report.markdown import figures_of, render_markdown
from bufferlab.report.terminal import text
from bufferlab.results.store import SweepFolder
from support.synthetic import BUFFER_SIZE, Sweep, build

pytestmark = pytest.mark.figures

HOSTILE = "<script>alert(1)</script>"
SMALL = Sweep(truths=BUFFER_SIZE[:3], blocks=2)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> SweepFolder:
    return build(tmp_path_factory.mktemp("sweep"), SMALL)


@pytest.fixture(scope="module")
def report(sweep: SweepFolder) -> Report:
    return publish(sweep)


def on_terminal(report: Report, width: int = 110) -> str:
    return text(report, width)


def test_publishing_writes_every_format_and_nothing_temporary(sweep: SweepFolder, report: Report) -> None:
    found = {str(path.relative_to(sweep.path)) for path in sweep.path.rglob("*") if path.is_file()}
    figures = {f"figures/{figure.id}.svg" for figure in figures_of(report)}
    assert {"summary.parquet", "report.html", "report.md", *figures} <= found
    assert not [name for name in found if ".tmp-" in name]


def test_everything_derived_can_be_deleted_and_comes_back_byte_for_byte(sweep: SweepFolder, report: Report) -> None:
    derived = [sweep.path / "report.html", sweep.path / "report.md", *sorted((sweep.path / "figures").iterdir())]
    before = {path: path.read_bytes() for path in derived}
    for path in derived:
        path.unlink()
    draw.cache_clear()
    publish(open_sweep(sweep.path))
    assert {path: path.read_bytes() for path in derived} == before


def test_a_figure_is_the_same_in_another_process(sweep: SweepFolder, report: Report) -> None:
    """Hash randomisation and import order must not change a figure."""
    script = (
        "import sys; from pathlib import Path; from bufferlab.registry import open_sweep; "
        "from bufferlab.report.build import build; from bufferlab.report.figures.svg import draw; "
        "sys.stdout.write(draw(build(open_sweep(Path(sys.argv[1]))).headline))"
    )
    other = subprocess.run([sys.executable, "-c", script, str(sweep.path)], capture_output=True, text=True, check=True)
    assert report.headline is not None
    assert other.stdout == draw(report.headline)


def test_the_summary_holds_means_and_steps_with_n_and_unit(sweep: SweepFolder, report: Report) -> None:
    summary = sweep.summary()
    reads = summary.filter(summary["metric"] == "reads_per_new_order")
    assert reads["statistic"].to_list().count("mean") == 3
    assert reads["statistic"].to_list().count("ratio_to_previous") == 2
    assert set(reads["unit"]) == {"pages/New-Order", "1"}
    assert set(reads["n"]) == {2}
    assert set(summary["source"]) == {"measured"}
    assert set(summary["interval_kind"]) == {"between-run"}


def test_figures_are_well_formed_with_text_as_text(report: Report) -> None:
    for figure in figures_of(report):
        root = ElementTree.fromstring(draw(figure))
        texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        assert len(texts) > 5, figure.id
    assert report.headline is not None
    assert "Reads per New-Order (pages)" in draw(report.headline)
    assert "8.5 MiB" in draw(report.headline)


def test_the_page_needs_nothing_from_outside(report: Report) -> None:
    page = render_html(report)
    links = re.findall(r'(?:src|href|action|poster|data)="([^"#][^"]*)"', page)
    assert set(links) <= {"data:,"}
    assert "<script" not in page
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert "default-src 'none'" in page


def test_the_page_shows_the_answer_first_and_all_sections(report: Report) -> None:
    page = render_html(report)
    plain = re.sub(r"<[^>]+>", "", page).replace("\u00a0", " ")
    assert report.answer in plain
    for section in report.sections:
        assert f'id="{section.id}-section"' in page
    for limit in report.limits:
        assert limit.replace("'", "&#39;") in plain
    assert page.index('id="answer"') < page.index("<svg") < page.index('id="limits"')


def test_every_id_of_the_page_is_unique_and_every_link_has_its_target(report: Report) -> None:
    page = render_html(report)
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_every_figure_has_its_data_beside_it(report: Report) -> None:
    page = render_html(report)
    for figure in figures_of(report):
        body = page[page.index(f'<figure id="{figure.id}">') :]
        assert "<details>" in body[: body.index("</figure>")]


def hostile_sweep(tmp_path: Path) -> SweepFolder:
    return build(
        tmp_path,
        Sweep(
            truths=BUFFER_SIZE[:2],
            blocks=1,
            question=f"What of {HOSTILE} & $x_1$?",
            host={"cpu_model": f'"{HOSTILE}', HOSTILE: "key"},
            statuses={(1, 0): ("failed", f"{HOSTILE} | broken\nin two")},
        ),
    )


def test_hostile_text_is_shown_and_never_run(tmp_path: Path) -> None:
    page = render_html(build_report(hostile_sweep(tmp_path)), folder_name=HOSTILE)
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 4


def test_hostile_text_cannot_break_out_of_a_markdown_table(tmp_path: Path) -> None:
    written = render_markdown(build_report(hostile_sweep(tmp_path)))
    assert "<script" not in written
    lines = written.splitlines()
    broken = [line for line in lines if "broken" in line and line.startswith("|")]
    assert broken
    for line in broken:
        heads = next(head for head in reversed(lines[: lines.index(line)]) if head.startswith("| ---"))
        assert len(re.findall(r"(?<!\\)\|", line)) == heads.count("|")


def test_a_dollar_sign_in_a_label_is_not_mathematics(report: Report) -> None:
    assert report.headline is not None
    plot = report.headline.plot
    series = plot.series[0]  # type: ignore[union-attr]
    priced = series.dots[0].__class__(**{**_fields(series.dots[0]), "tick": "$5 & <b>$"})
    changed = plot.__class__(**{**_fields(plot), "series": (series.__class__("", (priced, *series.dots[1:])),)})
    drawn = draw(report.headline.__class__(**{**_fields(report.headline), "plot": changed}))
    assert "$5 &amp; &lt;b&gt;$" in drawn


def _fields(value: object) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}  # type: ignore[attr-defined]


def test_markdown_has_every_figure_table_and_limit(sweep: SweepFolder, report: Report) -> None:
    written = (sweep.path / "report.md").read_text()
    for name in re.findall(r"\]\((figures/[^)]+)\)", written):
        assert (sweep.path / name).is_file()
    assert written.count("](figures/") == len(figures_of(report))
    assert "## What this does not tell you" in written
    for section in report.sections:
        assert f"## {section.title}" in written


def test_the_terminal_shows_the_answer_the_points_the_steps_and_the_checks(report: Report) -> None:
    shown = on_terminal(report)
    assert "fall at every step" in shown
    assert "5 % → 10 %" in shown
    assert re.search(r"Checks: \d+ passed, 0 failed", shown)
    assert max(len(line) for line in shown.splitlines()) <= 110


def test_the_terminal_shows_failed_checks_and_hostile_markup_as_text(tmp_path: Path) -> None:
    sweep = build(tmp_path, Sweep(truths=BUFFER_SIZE[:2], blocks=2, condition_fails=2, question="[bold]Really?[/bold]"))
    shown = on_terminal(build_report(sweep))
    assert "failed: The workload's consistency conditions hold" in shown
    assert "[bold]Really?[/bold]" in shown


def test_brackets_in_the_title_of_a_table_are_no_markup_on_a_terminal(report: Report) -> None:
    table = Table.of("steps", "Rate [/s]", ("<Point", "Reads"), [("10 a second", "41.2")], brief=True)
    assert "Rate [/s]" in on_terminal(replace(report, steps=table))


def test_json_holds_numbers_unrounded_with_n_and_unit(sweep: SweepFolder, report: Report) -> None:
    document = json.loads(json.dumps(as_json(report), allow_nan=False))
    assert document["sweep"] == str(sweep.path)
    assert document["answer"] == report.answer
    point = document["points"][0]
    pool = {"asked": "5%", "planned": 2176 * 4096, "actual": 2176 * 4096, "unit": "bytes", "note": ""}
    assert point["settings"]["pool_size"] == pool
    reads = next(summary for summary in point["summaries"] if summary["metric"] == "reads_per_new_order")
    assert reads["n"] == 2
    assert reads["unit"] == "pages/New-Order"
    assert reads["ci_low"] < reads["value"] < reads["ci_high"]
    step = next(step for step in document["steps"] if step["metric"] == "reads_per_new_order")
    assert step["direction"] == "falls"
    assert step["estimate"]["ci_high"] < 1
    assert {check["status"] for check in document["checks"]} <= {"passed", "failed", "not_applicable"}


def test_importing_the_report_does_not_load_matplotlib_or_polars() -> None:
    """`bufferlab --help` must answer at once."""
    script = (
        "import sys, bufferlab.report.html, bufferlab.report.markdown, bufferlab.report.build; "
        "print([name for name in ('matplotlib', 'polars', 'scipy', 'jinja2', 'rich') if name in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    assert loaded == "[]"


def test_an_answer_is_filled_and_drawn_without_pydantic() -> None:
    script = (
        "import sys, bufferlab.audit, bufferlab.report.json_output, bufferlab.report.terminal, bufferlab.report.html; "
        "print('pydantic' in sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    assert loaded == "False"


def test_control_characters_leave_a_figure_readable_xml_and_warn_of_nothing(recwarn: pytest.WarningsRecorder) -> None:
    dots = tuple(Dot(float(place), f"{place}\x1b]0;title\x07", (1.0,), 1.0, None, None) for place in (1, 2))
    plot = PointsPlot("\x1b[31m", "reads", (Series("one\x07", dots),), x_is_log=False, y_is_log=False)
    ElementTree.fromstring(draw(Figure("glyphs", "Glyphs", "", "", plot, Table("data", "", (), ()))))
    assert [str(one.message) for one in recwarn if "Glyph" in str(one.message)] == []


def test_nothing_joins_dots_over_an_axis_of_words(report: Report) -> None:
    """A line from one plan, device or alignment to the next would suggest values between them."""
    assert report.headline is not None
    plot = report.headline.plot
    assert isinstance(plot, PointsPlot)
    for is_words in (False, True):
        drawn = draw(replace(report.headline, plot=replace(plot, x_is_words=is_words)))
        found = re.findall(r'<g id="panel-0-series-\d">(.*?)</g>\s*</g>', drawn, flags=re.DOTALL)
        assert len(found) == 1
        lines = [path for path in re.findall(r"<path d=\"([^\"]+)\" clip-path", found[0]) if path.count("L") >= 2]
        assert bool(lines) is not is_words
        assert found[0].count("<use") == len(plot.series[0].dots)


def test_every_figure_says_engine_version_runs_and_date_and_has_its_numbers_as_csv(
    sweep: SweepFolder, report: Report
) -> None:
    for figure in figures_of(report):
        assert figure.source == "sqlite 3.50.4 · n = 2 · 2026-01-05 · bufferlab"
        assert figure.source in draw(figure)
        lines = (sweep.path / "figures" / f"{figure.id}.csv").read_text().splitlines()
        rows = list(csv.reader(line for line in lines if not line.startswith("#")))
        assert f"# {figure.source}" in lines
        assert rows[0] == [column.title for column in figure.data.columns]
        assert len(rows) == 1 + len(figure.data.rows)
    assert report.headline is not None
    table = (sweep.path / "figures" / f"{report.headline.id}.csv").read_text()
    means = [float(row[2]) for row in list(csv.reader(io.StringIO(table)))[4:]]
    assert means == pytest.approx([dot.mean for dot in report.headline.plot.series[0].dots], rel=1e-5)  # type: ignore[union-attr]


def csv_rows(path: Path) -> list[list[str]]:
    return list(csv.reader(line for line in path.read_text().splitlines() if not line.startswith("#")))


def test_every_table_is_a_csv_file_and_the_summary_has_the_means_unrounded(sweep: SweepFolder, report: Report) -> None:
    written = write_csv(report, sweep)
    tables = [block for section in report.sections for block in section.blocks if isinstance(block, Table)]
    assert {f"tables/{table.id}.csv" for table in tables} <= {str(path.relative_to(sweep.path)) for path in written}
    for table in tables:
        assert len(csv_rows(sweep.path / "tables" / f"{table.id}.csv")) == 1 + len(table.rows), table.id
    heads, *rows = csv_rows(sweep.path / "tables" / "per-new-order.csv")
    assert heads[:5] == ["Point", "n", "Reads (pages)", "Reads (pages): 95 % from", "to"]
    names, *summary = csv_rows(written[-1])
    numbers = [dict(zip(names, row, strict=True)) for row in summary]
    means = [row for row in numbers if (row["metric"], row["statistic"]) == ("reads_per_new_order", "mean")]
    assert [row["point_label"] for row in means] == ["pool_size 5%", "pool_size 10%", "pool_size 20%"]
    for shown, exact in zip(rows, means, strict=True):
        assert float(shown[2]) == pytest.approx(float(exact["value"]), rel=0.01)
        assert float(shown[3]) <= float(exact["ci_low"]) < float(exact["ci_high"]) <= float(shown[4])


def test_a_cell_of_a_csv_file_is_a_number_where_the_table_has_one() -> None:
    rows = (
        Row(("5 %", "9.70 (9.51–9.89)", "41.2 (40.1–42.3) %", "126 KiB (125–127 KiB)", "−1,234", "a, b")),
        Row(("10 %", "1,234 (1,200–1,300)", "–", "2 MiB", "", "x")),
    )
    heads = ("Point", "Reads", "Share", "Bytes", "Change", "Words")
    found = table_csv(Table("t", "A table", tuple(map(Column, heads)), rows, "Its\ncaption."))
    assert found.splitlines() == [
        "# A table",
        "# Its caption.",
        "Point,Reads,Reads: 95 % from,to,Share,Share: 95 % from,to,Bytes,Bytes: 95 % from,to,Change,Words",
        '5 %,9.70,9.51,9.89,41.2 %,40.1 %,42.3 %,126 KiB,125 KiB,127 KiB,-1234,"a, b"',
        "10 %,1234,1200,1300,,,,2 MiB,,,,x",
    ]


def test_an_interval_below_zero_is_parted_into_its_ends() -> None:
    cells = ("-5.0 (-7.5–-2.5)", "−0.5 (−0.7–0.2) %", "-20 (-30–11)")
    found = table_csv(Table("t", "", (Column("Change"),), tuple(Row((cell,)) for cell in cells)))
    assert found.splitlines() == [
        "Change,Change: 95 % from,to", "-5.0,-7.5,-2.5", "-0.5 %,-0.7 %,0.2 %", "-20,-30,11",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "formula",
    ["=1+1", '=HYPERLINK("http://x","y")', "@SUM(A1:A9)", "+SUM(A1)", "-cmd|' /C calc'!A0", "+x\n!A1"],
)
def test_no_spreadsheet_takes_a_label_for_a_formula(formula: str) -> None:
    shown = Table("t", "", (Column(formula),), (Row((formula,)),))
    assert list(csv.reader(io.StringIO(table_csv(shown)))) == [[f"'{formula}"]] * 2


@pytest.mark.parametrize("cell", ["-5", "+2.1 %", "-0.5 to +2.1 %", "-19.8 %", "a=b", "x@y", "5 % (8.5 MiB)"])
def test_cells_that_no_spreadsheet_calculates_stay_as_they_are(cell: str) -> None:
    shown = Table("t", "", (Column("Change"),), (Row((cell,)),))
    assert list(csv.reader(io.StringIO(table_csv(shown)))) == [["Change"], [cell]]


def test_no_terminal_obeys_a_csv_file() -> None:
    shown = Table("t", "Red \x1b[31m", (Column("\x9b2J"),), (Row(("a\x07\rb",)),), "\x1b]0;title\x07")
    assert table_csv(shown).splitlines() == ["# Red \\x1b[31m", "# \\x1b]0;title\\x07", "\\x9b2J", "a\\x07\\x0db"]


def test_people_see_no_column_without_a_value() -> None:
    rows = (Row(("5 %", "–", "1")), Row(("10 %", "", "–")))
    table = Table("t", "A table", tuple(map(Column, ("Point", "Writes", "Reads"))), rows)
    assert [column.title for column in table.filled.columns] == ["Point", "Reads"]
    assert [row.cells for row in table.filled.rows] == [("5 %", "1"), ("10 %", "–")]
