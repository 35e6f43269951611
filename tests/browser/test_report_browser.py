"""The report in a real browser, as people see it: on a desktop, on a telephone, in dark mode, without a network.

It needs Debian's chromium and chromium-driver, and fails if they are missing: a skipped test proves nothing.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bufferlab.execute.predicted_sweep import predict_sweep
from bufferlab.report.build import publish
from bufferlab.report.running import Running, write_page
from bufferlab.spec import Overrides
from support.chromium import chromium, console_messages, fetched, look
from support.fake import Bench
from support.figures import blank
from support.synthetic import BUFFER_SIZE, Sweep, build

pytestmark = [pytest.mark.browser, pytest.mark.figures]

#: A run of MySQL 5.7.22, TPC-C, 1 warehouse, traced with a pool of 30 %.
TRACED = Path(__file__).parents[1] / "fixtures/prediction/traced"
HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"

#: The figures of an ordinary sweep's page.
FIGURES = 14
_BOXES = """
return [...document.querySelectorAll('figure svg')].map(svg => {
  const box = svg.getBoundingClientRect();
  const paths = [...svg.querySelectorAll('path')].filter(path => path.getBBox().width + path.getBBox().height > 0);
  const texts = [...svg.querySelectorAll('text')].filter(text => text.getBBox().width > 0);
  return {width: box.width, height: box.height, paths: paths.length, texts: texts.length,
          label: svg.getAttribute('aria-label')};
});
"""
_COLOURS = """
const style = getComputedStyle(document.querySelector('#reads-per-new-order svg text'));
const line = document.querySelector('#reads-per-new-order svg path[style*="--series-0"]');
return [getComputedStyle(document.body).backgroundColor, style.fill, getComputedStyle(line).stroke];
"""
_CUT_OFF = """
const width = document.documentElement.clientWidth;
return [...document.querySelectorAll('main *')].filter(node => {
  const style = getComputedStyle(node);
  const scrolls = ['auto', 'scroll', 'hidden'].some(way => style.overflowX === way || style.overflowY === way);
  return node.getBoundingClientRect().right > width + 1 || (scrolls && !node.closest('svg'));
}).map(node => node.tagName + '.' + node.className + ' ' + node.textContent.slice(0, 40));
"""
#: Finds texts of figures that extend beyond their picture, and series without a point or a line inside it.
_CLIPPED = """
const inside = (box, svg) => {
  const all = svg.getBoundingClientRect();
  return box.left >= all.left - 1 && box.right <= all.right + 1
    && box.top >= all.top - 1 && box.bottom <= all.bottom + 1;
};
const drawn = [...document.querySelectorAll('figure svg')].filter(svg => svg.getBoundingClientRect().width > 0);
const cut = drawn.flatMap(svg => [...svg.querySelectorAll('text')]
  .filter(text => !inside(text.getBoundingClientRect(), svg)).map(text => text.textContent));
const series = drawn.flatMap(svg => [...svg.querySelectorAll('g[id*="-series-"]')].map(group => [svg, group]));
const hidden = series.filter(([svg, group]) => ![...group.querySelectorAll('use, path')]
  .some(mark => inside(mark.getBoundingClientRect(), svg))).map(([svg, group]) => group.id);
return {cut, hidden, series: series.length, figures: drawn.length};
"""
#: Finds short words and numbers in tables that are broken over two lines.
_BROKEN_WORDS = """
const broken = [];
for (const cell of document.querySelectorAll('main th, main td')) {
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (const word of node.data.matchAll(/[^\\s\\u00a0-]{2,12}/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const tops = [...range.getClientRects()].map(box => Math.round(box.top));
      if (Math.max(...tops) - Math.min(...tops) > 4) broken.push(word[0] + ' in ' + cell.textContent.slice(0, 40));
    }
  }
}
return broken;
"""
#: Finds numbers that occur twice on one axis of a figure.
_ALIKE_TICKS = """
const axes = [...document.querySelectorAll('figure svg g[id*="matplotlib.axis"]')]
  .map(axis => [...axis.querySelectorAll('g[id*="tick_"] text')].map(text => text.textContent));
return [axes.flat().length, axes.flatMap(texts => texts.filter((text, place) => texts.indexOf(text) !== place))];
"""
_OPEN_ALL = "document.querySelectorAll('details').forEach(details => details.open = true)"
#: Returns how the page prints: rows inside closed folds, and whether headings stay with the text after them.
_ON_PAPER = """
const folds = [...document.querySelectorAll('details:not(figure > details)')].filter(fold => !fold.open);
const rows = folds.flatMap(fold => [...fold.querySelectorAll('td:first-child')])
  .filter(row => !row.closest('figure > details, #scatter, #runs, #disturbances'));
const headings = [...document.querySelectorAll('h2, h3, figcaption, summary')];
return {
  folds: folds.length,
  left_out: [...document.querySelectorAll('table')].filter(table => !table.offsetHeight)
    .map(table => (table.closest('.narrow') ?? table).parentElement.id).filter(id => id && !id.endsWith('-data')),
  named: document.querySelector('footer .paper').offsetHeight,
  stacked: [...document.querySelectorAll('tr')].filter(row => row.offsetHeight
    && getComputedStyle(row).display !== 'table-row').length,
  hidden: rows.filter(row => !row.checkVisibility({contentVisibilityAuto: true}) || !row.getBoundingClientRect().height)
    .map(row => row.textContent),
  parted: headings.filter(one => getComputedStyle(one).breakAfter !== 'avoid').map(one => one.textContent),
  torn: [...document.querySelectorAll('.drawing')]
    .filter(one => getComputedStyle(one).breakInside !== 'avoid').length,
  columns: [...document.querySelectorAll('.twice')].filter(one => one.offsetHeight)
    .map(one => one.closest('.alone') ? '1' : getComputedStyle(one).columnCount),
};
"""
#: Puts a link into each heading and each block below one; the links show on which printed page each of them is.
_LINK_BEGINNINGS = """
const kinds = 'h2, h3, summary, .drawing, .note, thead th:first-child, tbody tr:first-child td:first-child, li, dt';
const seen = [...document.querySelectorAll(kinds)].filter(node => node.getClientRects().length);
seen.forEach((node, place) => {
  const link = document.createElement('a');
  link.href = 'https://place.test/' + place;
  link.textContent = '·';
  node.prepend(link);
});
return seen.map(node => [node.tagName, node.textContent.slice(0, 40)]);
"""
#: The longest time, in seconds, that a busy host may take for one frame.
_FRAME_S = 10.0
_SMALLEST_TEXT_PX = """
return Math.min(...[...document.querySelectorAll('figure svg')].map(svg => {
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  const sizes = [...svg.querySelectorAll('text')].map(text => parseFloat(getComputedStyle(text).fontSize));
  return scale * Math.min(...sizes);
}));
"""
_VISIBLE = """
const box = document.querySelector(arguments[0]).getBoundingClientRect();
return {top: box.top, bottom: box.bottom, left: box.left, right: box.right};
"""
_CONTRAST = """
const parse = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
const light = rgb => rgb.map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = light(parse(getComputedStyle(document.body).backgroundColor));
const texts = [...document.querySelectorAll('h1, .note, .question, td, figure svg text')];
return Math.min(...texts.map(node => {
  const style = getComputedStyle(node);
  const ink = light(parse(node.tagName === 'text' ? style.fill : style.color));
  return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
}));
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sweep = build(tmp_path_factory.mktemp("sweep"))
    publish(sweep)
    return sweep.path / "report.html"


@pytest.fixture(scope="module")
def failing_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a sweep with failed checks; the tests only look at its tables."""
    sweep = build(tmp_path_factory.mktemp("failing"), Sweep(truths=BUFFER_SIZE[:3], gate="cap", lost_latencies=5))
    with blank():
        publish(sweep)
    return sweep.path / "report.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield one browser for all tests: starting one takes longer than most tests."""
    with chromium(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture
def desk(browser: Any, page: Path) -> Any:
    look(browser, page)
    return browser


def test_the_page_loads_without_a_word_in_the_console_and_fetches_nothing(desk: Any, page: Path) -> None:
    assert console_messages(desk) == []
    asked = fetched(desk)
    assert asked[0] == page.as_uri()
    assert all(address.startswith(("file://", "data:")) for address in asked), asked
    assert len([address for address in asked if address.startswith("file://")]) == 1


def test_every_figure_is_drawn(desk: Any) -> None:
    desk.execute_script(_OPEN_ALL)
    figures = desk.execute_script(_BOXES)
    assert len(figures) == FIGURES
    for figure in figures:
        assert figure["width"] > 300, figure
        assert figure["height"] > 150, figure
        assert figure["paths"] > 10, figure
        assert figure["texts"] > 8, figure
        assert figure["label"]


def test_the_first_screen_holds_the_answer_and_the_whole_figure(desk: Any, tmp_path: Path) -> None:
    desk.save_screenshot(str(tmp_path / "first-screen.png"))
    answer = desk.execute_script(_VISIBLE, "#answer")
    figure = desk.execute_script(_VISIBLE, "#reads-per-new-order svg")
    steps = desk.execute_script(_VISIBLE, "aside dl")
    assert answer["top"] >= 0
    for seen in (answer, figure, steps):
        assert seen["bottom"] <= 800, f"below the fold: {seen}; see {tmp_path}/first-screen.png"
        assert seen["right"] <= 1280
    assert answer["bottom"] <= figure["top"]
    text = desk.find_element("id", "answer").text
    assert "fall at every step" in text.replace("\u00a0", " ")


def test_limits_that_have_no_room_beside_the_figure_stand_below_it(desk: Any) -> None:
    figure, *limits = desk.execute_script(
        "return [...document.querySelectorAll('.first > figure, #limits li')].map(one => one.getBoundingClientRect())"
    )
    places = [("below" if one["top"] >= figure["bottom"] else "beside", one["left"]) for one in limits]
    assert {place for place, _ in places} == {"beside", "below"}
    assert all(left == figure["left"] if place == "below" else left > figure["right"] for place, left in places)


def test_with_folds_shut_the_page_can_be_seen_over(desk: Any) -> None:
    assert desk.execute_script("return document.documentElement.scrollHeight") <= 5000


def test_no_word_of_a_figure_is_clipped_and_every_series_is_seen(desk: Any) -> None:
    desk.execute_script(_OPEN_ALL)
    seen = desk.execute_script(_CLIPPED)
    assert seen["figures"] == FIGURES
    assert seen["series"] >= 5 * 15, "five figures over time alone have a line for each of fifteen runs"
    assert seen["cut"] == []
    assert seen["hidden"] == []


def test_no_box_inside_the_page_scrolls_or_cuts(desk: Any) -> None:
    desk.execute_script(_OPEN_ALL)
    assert desk.execute_script(_CUT_OFF) == []


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_of_a_sweep_that_runs_is_whole_at_its_begin_and_in_its_middle(
    browser: Any, tmp_path: Path, width: int
) -> None:
    sweep = build(tmp_path)
    for runs in (0, 7):
        write_page(Running().answer(sweep, sweep.runs()[:runs], 90), sweep, 300)
        look(browser, sweep.path / "report.html", width=width)
        assert console_messages(browser) == []
        assert browser.execute_script(_CUT_OFF) == []
        assert browser.execute_script(_BROKEN_WORDS) == []
        assert f"{runs} of 15 runs" in browser.find_element("css selector", ".facts").text
        assert (sweep.path / "report.html").stat().st_size < 40_000


@pytest.mark.parametrize("width", [1280, 400])
def test_no_short_word_of_a_table_is_broken(browser: Any, page: Path, failing_page: Path, width: int) -> None:
    for shown in (page, failing_page):
        look(browser, shown, width=width)
        browser.execute_script(_OPEN_ALL)
        assert browser.execute_script(_BROKEN_WORDS) == []


def test_paper_has_what_is_behind_folds_and_keeps_headings_with_what_follows(desk: Any) -> None:
    desk.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    # Chromium lays out the contents of folds with the next frame, not when the medium changes.
    deadline_s = time.monotonic() + _FRAME_S
    while (seen := desk.execute_script(_ON_PAPER))["hidden"] and time.monotonic() < deadline_s:
        time.sleep(0.1)
    assert seen["folds"] > 10
    assert seen["left_out"] == ["scatter", "runs", "disturbances"], "tables of every run, beside the numbers of figures"
    assert seen["named"] > 0, "paper says where the numbers of figures are"
    assert seen["stacked"] == 0, "a telephone's lists are no tables"
    assert seen["hidden"] == []
    assert seen["parted"] == []
    assert seen["torn"] == 0
    assert seen["columns"].count("2") > 2, "long narrow tables"
    beginnings = desk.execute_script(_LINK_BEGINNINGS)
    asked = {"preferCSSPageSize": True, "printBackground": True}
    printed = base64.b64decode(desk.execute_cdp_cmd("Page.printToPDF", asked)["data"])
    page_of = _pages_of_links(printed)
    assert set(page_of) == set(range(len(beginnings)))
    apart = [
        f"{heading} on page {page_of[place]}, {headed} on page {page_of[place + 1]}"
        for place, ((tag, heading), (_, headed)) in enumerate(pairwise(beginnings))
        if tag in ("H2", "H3", "SUMMARY", "TH") and page_of[place] != page_of[place + 1]
    ]
    assert apart == []
    sizes, count = _sheets(printed)
    assert sizes == {(0, 0, 595, 842)}, "A4, in points"
    assert 5 < count <= 8
    desk.execute_script("document.querySelector('style').textContent += '@page { size: letter; }'")
    sizes, count = _sheets(base64.b64decode(desk.execute_cdp_cmd("Page.printToPDF", asked)["data"]))
    assert sizes == {(0, 0, 612, 792)}, "letter, in points"
    assert 5 < count <= 9


def _sheets(printed: bytes) -> tuple[set[tuple[int, ...]], int]:
    """Return the sizes of the pages in points (left, bottom, right, top), and the number of pages."""
    boxes = [tuple(round(float(end)) for end in box.split()) for box in re.findall(rb"/MediaBox \[([^]]+)\]", printed)]
    return set(boxes), len(boxes)


def _pages_of_links(printed: bytes) -> dict[int, int]:
    """Return the first page, from 0, with each link of _LINK_BEGINNINGS; Chromium compresses only streams."""
    objects = dict(re.findall(rb"(?s)(\d+) 0 obj\n(<<.*?)endobj", printed))
    pages = [re.search(rb"/Annots \[([^]]*)\]", body) for body in objects.values() if b"/Type /Page\n" in body]
    found: dict[int, int] = {}
    for number, links in enumerate(pages):
        for name in re.findall(rb"(\d+) 0 R", links[1]) if links else ():
            for place in re.findall(rb"https://place\.test/(\d+)", objects[name]):
                found.setdefault(int(place), number)
    return found


def _overlaps(browser: Any, figure: str) -> tuple[int, list[tuple[str, str]]]:
    """Return the number of a figure's texts, and the pairs of texts that overlap."""
    boxes = browser.execute_script(
        "return [...document.querySelectorAll(arguments[0] + ' svg text')].map(node => {"
        "const box = node.getBoundingClientRect();"
        "return [node.textContent, box.left, box.top, box.right, box.bottom]; });",
        figure,
    )
    return len(boxes), [
        (one[0], other[0])
        for place, one in enumerate(boxes)
        for other in boxes[place + 1 :]
        if one[1] < other[3] - 1 and other[1] < one[3] - 1 and one[2] < other[4] - 4 and other[2] < one[4] - 4
    ]


def test_labels_of_figures_do_not_overlap_and_numbers_of_an_axis_differ(desk: Any) -> None:
    """Each value and each tick label must be readable."""
    desk.execute_script(_OPEN_ALL)
    figures = [figure.get_attribute("id") for figure in desk.find_elements("css selector", "figure[id]")]
    assert len(figures) == FIGURES
    counts, overlaps = zip(*(_overlaps(desk, f"[id='{figure}']") for figure in figures), strict=True)
    assert sum(counts) > 15 * FIGURES
    assert [pairs for pairs in overlaps if pairs] == []
    count, alike = desk.execute_script(_ALIKE_TICKS)
    assert count > 5 * FIGURES
    assert alike == []


def test_a_predicted_page_names_its_lines_where_they_end_and_shows_no_tick_beside_a_doubt(
    browser: Any, tmp_path: Path
) -> None:
    bench = Bench(tmp_path / "bench")
    pools = ("10%", "20%", "30%", "60%", "80%")
    with bench.in_environment():
        folder = predict_sweep(TRACED, Overrides(sweep=(("pool_size", pools),)), bench.out).folder
    publish(folder)
    for width in (1280, 400):
        look(browser, folder.path / "report.html", width=width)
        count, overlaps = _overlaps(browser, "#predicted-reads")
        assert count > 15
        assert overlaps == []
        browser.execute_script(_OPEN_ALL)
        assert browser.execute_script(_CLIPPED)["cut"] == []
        assert browser.execute_script(_CLIPPED)["hidden"] == []
    words = browser.find_element("css selector", "main").text
    assert "the window fills it" in words
    assert "✓" not in words
    assert "-0.0 %" not in words
    columns = [cell.text for cell in browser.find_elements("css selector", "#per-new-order th")]
    assert "Writes (pages)" not in columns


def test_the_page_works_without_javascript(browser: Any, page: Path) -> None:
    look(browser, page, scripts=False)
    summary = browser.find_element("css selector", "#reads-per-new-order summary")
    rows = browser.find_elements("css selector", "#reads-per-new-order details tbody tr")
    assert len(rows) == 5
    assert not rows[0].is_displayed()
    summary.click()
    assert rows[0].is_displayed()


@pytest.mark.parametrize(
    "width", [400, pytest.param(320, marks=pytest.mark.slow), pytest.param(768, marks=pytest.mark.slow)]
)
def test_a_narrow_screen_scrolls_in_one_direction_only(browser: Any, page: Path, width: int) -> None:
    look(browser, page, width=width)
    answer = browser.execute_script(_VISIBLE, "#answer")
    assert answer["bottom"] <= 800
    assert answer["right"] <= width
    browser.execute_script(_OPEN_ALL)
    assert browser.execute_script(_CUT_OFF) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    seen = browser.execute_script(_CLIPPED)
    assert seen["cut"] == []
    assert seen["hidden"] == []


def test_a_sweep_of_many_lines_and_chapters_fits_a_telephone_too(browser: Any, tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench")
    sweep = 'layout = ["scattered", "clustered"]\npage_size = ["4k", "16k"]\nhot_rows = ["50%", "120%", "250%"]'
    workload = 'name = "hot_rows"\nrows = 100000'
    bench.measure(bench.experiment(workload=workload, knobs='pool_size = "1MiB"', sweep=sweep, repetitions=1))
    publish(bench.sweep())
    look(browser, bench.sweep_path() / "report.html", width=360)
    browser.execute_script(_OPEN_ALL)
    assert browser.execute_script(_CUT_OFF) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
    assert browser.execute_script(_SMALLEST_TEXT_PX) >= 9
    assert browser.execute_script(_CLIPPED)["cut"] == []
    assert browser.find_elements("css selector", "#knee-figure svg")
    assert browser.find_elements("css selector", "#knee-section table")


def test_figures_stay_legible_on_a_telephone(browser: Any, page: Path) -> None:
    look(browser, page, width=360)
    browser.execute_script(_OPEN_ALL)
    assert browser.execute_script(_SMALLEST_TEXT_PX) >= 9


def test_the_dark_changes_the_colours_of_page_and_figure(browser: Any, page: Path) -> None:
    seen = {}
    for dark in (False, True):
        look(browser, page, dark=dark)
        seen[dark] = browser.execute_script(_COLOURS)
    assert len(seen[False]) == 3
    assert not set(seen[False]) & set(seen[True])


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_its_ground_by_day_and_by_night(
    browser: Any, tmp_path: Path, page: Path, dark: bool
) -> None:
    """WCAG 2.1 asks for 4.5 to 1; text of the figures included."""
    look(browser, page, dark=dark)
    browser.save_screenshot(str(tmp_path / "scheme.png"))
    assert browser.execute_script(_CONTRAST) >= 4.5


def test_hostile_names_are_shown_as_text_and_do_nothing(browser: Any, tmp_path: Path) -> None:
    sweep = build(
        tmp_path,
        Sweep(
            truths=BUFFER_SIZE[:2],
            blocks=2,
            question=f"What of {HOSTILE}?",
            host={"cpu_model": HOSTILE, "kernel": "</style></table></main>"},
            statuses={(0, 1): ("failed", HOSTILE)},
        ),
    )
    publish(sweep)
    look(browser, sweep.path / "report.html")
    assert browser.title == "buffer-size · bufferlab"
    assert console_messages(browser) == []
    assert browser.find_elements("css selector", "script, img") == []
    assert HOSTILE in browser.find_element("css selector", ".question").text
    assert all(address.startswith(("file://", "data:")) for address in fetched(browser))
    assert len(browser.find_elements("css selector", "main")) == 1


def test_a_missing_chromium_fails_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssertionError, match="apt-get install"), chromium(tmp_path / "profile"):
        pass
