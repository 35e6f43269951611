"""The lab report without Typst: its chapters, its tables on A4, and hostile texts in it."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab.chapter.elements import Banner, Column, Figure, Row, Table
from bufferlab.errors import EnvironmentLackingError
from bufferlab.report.lab import chapters as lab_chapters
from bufferlab.report.lab import pdf
from bufferlab.report.lab.a4_tables import MOST_ROWS, WIDTH_PT, broken, grids, letters_pt
from bufferlab.report.lab.chapters import lab_report
from bufferlab.report.lab.content import Heading, Items, LabReport, Pair, Paragraph, Submission
from bufferlab.report.lab.fonts import FALLBACK, TEXT, Chosen, choose, folder, without_missing
from support.fake import Bench
from support.synthetic import BUFFER_SIZE, Sweep, build
from support.synthetic_connections import connections
from support.synthetic_innodb import scan_depth

SMALL = Sweep(truths=BUFFER_SIZE[:3], blocks=2)
EVERYWHERE = Chosen((TEXT, FALLBACK))
HOSTILE = '#panic("x") *bold* $x$ <label> @ref \\u{41} <b>&amp; "]#'


@dataclass(frozen=True)
class Face:
    """A face of an installed font."""

    family: str
    path: str | None


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> LabReport:
    return lab_report(build(tmp_path_factory.mktemp("sweep"), SMALL))


def chapters(made: LabReport) -> list[str]:
    return [block.text for block in made.blocks if isinstance(block, Heading) and block.level == 1]


def told(made: LabReport, chapter: str) -> str:
    """Return all sentences of a chapter."""
    texts, inside = [], False
    for block in made.blocks:
        if isinstance(block, Heading) and block.level == 1:
            inside = block.text == chapter
        elif inside and isinstance(block, Paragraph):
            texts.append(block.text)
        elif inside and isinstance(block, Items):
            texts += block.texts
    return "\n".join(texts)


def test_a_lab_report_has_the_chapters_that_a_course_asks_for_in_their_order(made: LabReport) -> None:
    assert chapters(made) == [
        "Purpose", "Set-up", "Method", "Results", "Discussion", "Conclusion", "References",
        "Appendix: runs and details",
    ]  # fmt: skip
    assert made.title == SMALL.question
    assert dict(made.facts)["Runs that ended well"] == "6 / 6"


def test_the_method_says_what_varied_what_was_held_and_how_often_it_was_run_in_which_order(made: LabReport) -> None:
    method = told(made, "Method")
    for said in (
        "Varied: pool size (5 %, 10 %, 20 %).",
        "Held constant: every other setting",
        "2 blocks, each of a run of each point: n = 2 runs a point (6 of 6 planned runs ended well).",
        "in a random order, drawn from the design's seed 1.",
        "differences between points are paired",
        "Before its window each run warmed up; what ended the warm-up: 6 by a turned-over pool.",
        "The measured window had 11,500 transactions",
    ):
        assert said in method, said


def test_the_purpose_names_the_figure_that_answers(made: LabReport, tmp_path: Path) -> None:
    assert "The answer is told in reads per New-Order (" in told(made, "Purpose")
    concurrency = lab_report(build(tmp_path, connections(blocks=2)))
    assert "The answer is told in New-Orders per second (" in told(concurrency, "Purpose")


def test_the_discussion_has_a_sentence_for_every_metric_that_is_compared_with_all_of_its_steps(made: LabReport) -> None:
    analysis = told(made, "Discussion")
    assert re.search(
        r"Reads per New-Order: 5 % to 10 %: falls by [\d.–]+ %; 10 % to 20 %: falls by [\d.–]+ %\.", analysis
    )
    assert "Transactions per second: " in analysis
    assert "No prediction stands beside these numbers." in analysis


def test_the_first_words_are_the_answer_and_the_runs_stand_at_the_end(made: LabReport) -> None:
    first = made.blocks[0]
    assert isinstance(first, Paragraph)
    assert first.look == "lead"
    assert "fall at every step" in first.text
    tables = [block.id for block in made.whole if isinstance(block, Table)]
    places = [tables.index(id) for id in ("engine", "per-new-order", "io-latency", "scatter", "runs")]
    assert places == sorted(places), "what the device and transactions did stands before tests of scatter"


def test_every_figure_of_the_report_is_in_the_lab_report_once(tmp_path: Path) -> None:
    from bufferlab.report.build import build as build_report
    from bufferlab.report.markdown import figures_of

    sweep = build(tmp_path, SMALL)
    shown: list[Figure] = []
    for block in lab_report(sweep).whole:
        shown += block.figures if isinstance(block, Pair) else [block] if isinstance(block, Figure) else []
    assert sorted(one.id for one in shown) == sorted(one.id for one in figures_of(build_report(sweep)))


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_page_one_opens_with_the_answer_and_says_in_the_reports_words_what_failed(status: Any, tmp_path: Path) -> None:
    sweep = build(tmp_path, Sweep(truths=BUFFER_SIZE[:3], blocks=3, statuses={(1, 0): (status, "the disk is full")}))
    made = lab_report(sweep)
    answer, *banners = made.blocks[:2]
    assert isinstance(answer, Paragraph)
    assert "fall at every step" in answer.text
    (banner,) = banners
    assert isinstance(banner, Banner)
    assert banner.kind == "warning", "eight good runs of nine answer the question"
    assert banner.text.startswith("1 run did not end well: see the reasons")
    assert "(8 of 9 planned runs ended well)" in told(made, "Method")


def test_who_hands_the_report_in_is_named_at_the_top(tmp_path: Path) -> None:
    sweep, submission = build(tmp_path, SMALL), Submission(("Ada", "Bo"), "Databases 3", "May 1")
    made = lab_report(sweep, submission)
    assert made.facts[:4] == (
        ("Authors", "Ada; Bo"), ("Course", "Databases 3"), ("Date", "May 1"), ("Experiment", "buffer-size"),
    )  # fmt: skip
    assert pdf.as_document(made)["authors"] == ["Ada", "Bo"]


def test_the_documents_numbers_stand_beside_the_measured_ones_and_it_is_the_first_reference(tmp_path: Path) -> None:
    sweep = scan_depth(transactions=2300)
    made = lab_report(build(tmp_path, replace(sweep, truths=[one for one in sweep.truths if one.depth != 256])))
    table, ratios = (block for block in made.blocks if isinstance(block, Table) and block.id.startswith("document"))
    rows = {row.cells[0]: row.cells for row in table.rows}
    assert rows["1,024"][1] == "88.9 %"
    assert rows["1,024"][2].startswith("88.8")
    assert "256" not in rows, "a depth of the document alone"
    assert ratios.title.endswith("as ratios to 128")
    shown = {
        row.cells[0]: dict(zip((one.title for one in ratios.columns), row.cells, strict=True)) for row in ratios.rows
    }
    assert shown["128"]["Reads per New-Order: document"] == "1.00"
    assert shown["1,024"]["Reads per New-Order: document"] == "1.15"
    assert "[1] A student's project: TPC-C" in told(made, "References")
    assert "The document of reference [1] concludes: reads and writes per second rise" in told(made, "Discussion")
    discussion = told(made, "Discussion")
    assert re.search(
        r"LRU-scan share, from 128 to 2,048: the document's fall by 87 %; here they fall by [\d.–]+ %", discussion
    )
    assert re.search(r"the document's rise by 38 percentage points; here they rise by [\d.–]+ percentage", discussion)
    assert "The document's New-Orders per second are highest at 1,024, by single runs; here " in discussion
    assert "the document has 20 warehouses, a pool of 100 MB, pages of 16 KiB and MySQL 5.7.33; here " in discussion
    assert "document" not in told(lab_report(build(tmp_path / "sqlite", SMALL)), "Discussion")


def test_new_orders_a_minute_are_told_of_long_windows_alone(tmp_path: Path) -> None:
    captions = {}
    for transactions in (11_500, 120_000):
        sweep = Sweep(truths=BUFFER_SIZE[:2], blocks=2, transactions=transactions)
        made = lab_report(build(tmp_path / str(transactions), sweep))
        (table,) = (block for block in made.blocks if isinstance(block, Table) and block.id == "io-latency")
        captions[transactions] = ("TpmC" in table.titles, "TpmC is left out" in table.caption)
    assert captions == {11_500: (False, True), 120_000: (True, False)}


def test_a_metric_is_told_in_words_with_the_name_of_iostat_in_parentheses(made: LabReport) -> None:
    (device,) = (block for block in made.whole if isinstance(block, Table) and block.id == "device")
    heads = {column.title for column in device.columns}
    assert heads >= {
        "Size of a device read (rareq-sz, KiB)",
        "Time of a device read (r_await, ms)",
        "Device busy (%util)",
    }
    assert not [head for head in heads if re.fullmatch(r"[%a-zA-Z/_-]*(q-sz|_await|util|/s)", head)]


def test_no_number_of_a_report_has_an_exponent(made: LabReport) -> None:
    told = [text for block in pdf.as_document(made)["blocks"] if block["kind"] != "figure" for text in strings(block)]
    assert not [text for text in told if re.search(r"\de[+-]\d", text)]


def test_a_sweep_of_which_no_run_ended_well_has_a_report_with_the_reason(tmp_path: Path) -> None:
    failed = {(point, block): ("failed", "the disk is full") for point in range(2) for block in range(2)}
    made = lab_report(build(tmp_path, Sweep(truths=BUFFER_SIZE[:2], blocks=2, statuses=failed)))
    assert isinstance(made.blocks[0], Paragraph)
    assert made.blocks[0].text == "None of 4 runs ended well: the disk is full."
    pdf.as_document(made)


def test_a_report_that_is_too_long_leaves_out_details_and_names_them(made: LabReport) -> None:
    whole, *shorter = lab_chapters.shorter(made)
    assert whole == made
    shortest = shorter[-1]
    ids = {block.id for block in shortest.whole if isinstance(block, Table)}
    assert not ids & {"cpu", "device", "latency", "disturbances", "runs"}
    assert {"checks", "per-new-order"} <= ids
    assert {block.text for block in whole.whole if isinstance(block, Heading)} >= {"Over time", "Results"}
    headings = [block.text for block in shortest.whole if isinstance(block, Heading)]
    assert "Over time" not in headings
    assert {"Results", "Discussion", "Limits"} <= set(headings)
    assert not [one for one in shortest.whole if isinstance(one, Figure) and one.id.startswith("over-time")]
    assert shortest.last is not None
    assert shortest.last.text.startswith("Left out for want of room, and in report.html: ")
    for title in ("Latency by transaction type", "Device", "CPU"):
        assert title in shortest.last.text
    assert not shortest.extras


# --- Fonts -----------------------------------------------------------------------------------------


def test_a_latin_report_needs_no_font_of_the_host() -> None:
    assert choose(["Reads → 5 % ± 2 µs"], []) == EVERYWHERE


def test_a_letter_that_no_font_has_is_told_and_shown_by_its_number() -> None:
    chosen = choose(["What of 한글?"], [Face("DejaVu Sans", str(folder() / "DejaVuSans.ttf"))])
    assert chosen == Chosen((TEXT, FALLBACK), frozenset("한글"))
    assert without_missing("What of 한?", chosen.missing) == "What of [U+D55C]?"


def test_an_installed_font_that_has_a_letter_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bufferlab.report.lab.fonts._letters", {_dejavu(): frozenset("abc"), "k": frozenset("한")}.get)
    assert choose(["abc한"], [Face("Korean", "k")]) == Chosen((TEXT, FALLBACK, "Korean"))


def _dejavu() -> str:
    return str(folder() / "DejaVuSans.ttf")


# --- Tables on A4 ----------------------------------------------------------------------------------

_CELLS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=60)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    columns = draw(st.lists(st.builds(Column, _CELLS, st.booleans()), min_size=1, max_size=24))
    cells = st.tuples(*(_CELLS for _ in columns))
    rows = draw(st.lists(cells.map(Row), max_size=12))
    return Table("table", "Title", tuple(columns), tuple(rows))


@given(tables())
def test_every_cell_of_a_table_is_on_the_page_and_no_column_leaves_it(table: Table) -> None:
    shown: list[str] = []
    for grid in grids(table):
        assert len(grid.widths_pt) == len(grid.table.columns)
        assert len(grid.table.columns) <= 2 or sum(grid.widths_pt) <= WIDTH_PT + 1
        for place, width in enumerate(grid.widths_pt):
            cells = [grid.table.columns[place].title, *(row.cells[place] for row in grid.table.rows)]
            shown += cells
            for cell in cells:
                for word in re.split("[ \n\u200b]", cell):
                    assert letters_pt(word, grid.size_pt) <= width
    plain = {_plain(cell) for cell in shown}
    filled = table.filled
    assert {_plain(cell) for row in filled.rows for cell in row.cells} <= plain
    assert {_plain(column.title) for column in filled.columns} <= plain


def _plain(text: str) -> str:
    return text.replace("\u200b", "").replace("\u00a0", " ")


def test_a_wide_table_of_few_points_is_turned_and_one_of_many_is_parted() -> None:
    heads = tuple(Column(f"Transactions number {place}") for place in range(16))
    row = Row(tuple(f"{place:,}.0 (9.51–9.89)" for place in range(1000, 1016)))
    (turned,) = grids(Table("wide", "Wide", heads, (row, row)))
    assert len(turned.table.columns) == 3
    parts = grids(Table("wide", "Wide", heads, (row,) * 20))
    assert len(parts) > 1
    assert {part.table.columns[0].title for part in parts} == {heads[0].title}
    assert [part.part for part in parts] == [f"{place}/{len(parts)}" for place in range(1, len(parts) + 1)]


def test_a_table_of_hundreds_of_rows_is_cut_and_says_where_all_of_them_are() -> None:
    rows = tuple(Row((str(place), "x")) for place in range(200))
    (grid,) = grids(Table("runs", "Runs", (Column("Order"), Column("Run")), rows))
    assert len(grid.table.rows) == MOST_ROWS
    assert "The first 60 of 200 rows; report --format csv" in grid.table.caption


def test_a_long_path_may_be_broken_and_a_number_with_its_unit_may_not() -> None:
    assert "\u200b" in broken("/var/lib/a-very-long-folder-name/data")
    (grid,) = grids(Table("t", "T", (Column("Size"), Column("Note")), (Row(("30 MiB", "x")),)))
    assert grid.table.rows[0].cells[0] == "30\u00a0MiB"


# --- Typst's program and its input -----------------------------------------------------------------


def strings(value: Any) -> list[str]:
    return list(pdf._strings(value))


@given(st.text(max_size=200))
def test_any_title_reaches_the_page_as_a_string_beside_an_unchanged_program(title: str) -> None:
    made = LabReport(title, (("Experiment", title),), (Paragraph(title), Items((title,))), "2026-01-31")
    document = pdf.as_document(made)
    program, inputs = pdf.sources(document, EVERYWHERE)
    assert program == Path(pdf.__file__).with_name("page.typ").read_text("utf-8")
    shown = json.loads(inputs["report"])
    assert shown["title"] == document["title"] == shown["blocks"][0]["text"] == shown["blocks"][1]["texts"][0]
    # Without its break opportunities it is the title on one line, with control characters written out.
    assert _plain(shown["title"]) == _plain(pdf._text(title))
    assert not re.search("[\x00-\x1f\x7f\ud800-\udfff]", shown["title"])


def test_the_program_evaluates_no_text_and_reads_no_file() -> None:
    program = Path(pdf.__file__).with_name("page.typ").read_text("utf-8")
    code = "\n".join(line for line in program.splitlines() if not line.startswith("//"))
    assert not re.search(r"\b(eval|include|import|read|plugin|csv|yaml|toml|xml|cbor)\b\s*\(?", code)


def test_a_hostile_question_is_in_the_document_as_it_is(tmp_path: Path) -> None:
    sweep = Sweep(truths=BUFFER_SIZE[:2], blocks=1, question=HOSTILE, host={HOSTILE: HOSTILE})
    document = pdf.as_document(lab_report(build(tmp_path, sweep)))
    assert _plain(document["title"]) == HOSTILE
    assert HOSTILE in {_plain(text) for text in strings(document)}


@pytest.mark.figures
def test_figures_are_vectors_that_name_the_fonts_by_which_they_were_measured(made: LabReport) -> None:
    _, inputs = pdf.sources(pdf.as_document(made), EVERYWHERE)
    figures = [block for block in json.loads(inputs["report"])["blocks"] if block["kind"] == "figure"]
    assert figures
    for figure in figures:
        assert figure["svg"].lstrip().startswith("<?xml")
        assert "sans-serif" not in figure["svg"]
        assert "'DejaVu Sans'" in figure["svg"]
        assert 0 < figure["width"] <= WIDTH_PT


@pytest.mark.parametrize("is_clone", [True, False])
def test_without_typst_the_user_is_told_what_to_install(
    is_clone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)
    if not is_clone:
        monkeypatch.setattr(pdf, "_CLONE", tmp_path)
    with pytest.raises(EnvironmentLackingError) as caught:
        pdf.write_pdf(build(tmp_path, SMALL))
    assert caught.value.exit_code == 3
    of_clone, of_package = ".venv/bin/pip install -r requirements-pdf.lock", "pip install 'bufferlab[pdf]'"
    assert caught.value.hint == (of_clone if is_clone else of_package)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--format", "pdf", "--json"), 2, "--format pdf and --json exclude each other"),
        (("--format", "pdf", "--html"), 2, "--format pdf is no page"),
        (("--course", "Databases"), 2, "are shown by a PDF alone"),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    arguments: tuple[str, ...], code: int, said: str, tmp_path: Path
) -> None:
    refused = Bench(tmp_path / "bench").bufferlab("report", build(tmp_path, SMALL).path, *arguments)
    assert refused.code == code
    assert said in refused.err
