"""Lab reports set by Typst, which ./test --all installs, and read back by poppler."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bufferlab.report.lab.fonts import FALLBACK, TEXT, Chosen
from bufferlab.report.lab.pdf import compiled, write_pdf
from bufferlab.results.store import SweepFolder
from support.fake import Bench
from support.synthetic import BUFFER_SIZE, Sweep, Truth, build
from support.synthetic_innodb import scan_depth
from support.synthetic_postgres import memory_split

pytestmark = [pytest.mark.slow, pytest.mark.figures]
pytest.importorskip("typst", reason="typst is not installed (requirements-pdf.lock)")

#: Five points and five repetitions, like `run buffer-size`.
DEFAULT = Sweep(truths=BUFFER_SIZE, blocks=5)
MOST_PAGES = 12
HOSTILE = '#panic("x") *bold* $x$ <label> @ref \\u{41} <b>&amp; "]#'


def text_of(pdf: Path) -> str:
    if shutil.which("pdftotext") is None:
        pytest.skip("pdftotext is missing (poppler-utils)")
    done = subprocess.run(["pdftotext", "-layout", pdf, "-"], capture_output=True, text=True, check=True)
    return done.stdout


def pages_of(pdf: Path) -> int:
    return text_of(pdf).count("\f")


def written(folder: SweepFolder) -> Path:
    path, chosen = write_pdf(folder)
    assert not chosen.missing
    return path


@pytest.mark.parametrize(
    "sweep",
    [
        pytest.param(DEFAULT, id="buffer-size"),
        pytest.param(scan_depth(transactions=2300), id="scan-depth"),
        pytest.param(memory_split(), id="memory-split"),
        # As many points as hot-rows has.
        pytest.param(Sweep(truths=tuple(Truth(f"{2 * n}%", 60 / n) for n in range(1, 49)), blocks=3), id="48 points"),
    ],
)
def test_a_default_sweep_has_at_most_twelve_pages_with_every_chapter(sweep: Sweep, tmp_path: Path) -> None:
    pdf = written(build(tmp_path, sweep))
    assert pages_of(pdf) <= MOST_PAGES
    text = text_of(pdf)
    chapters = ("Purpose", "Set-up", "Method", "Results", "Discussion", "Conclusion", "References", "Appendix")
    for place, chapter in enumerate(chapters, 1):
        assert re.search(rf"^\s*{place} {chapter}", text, re.MULTILINE), chapter
    assert "�" not in text


def test_no_heading_is_parted_from_its_table_and_no_table_leaves_one_row_on_a_page(tmp_path: Path) -> None:
    """Tables of every length at every height of a page: at least three rows stay together, below their headings."""
    draw = random.Random(1)
    blocks: list[dict[str, Any]] = []
    for place in range(40):
        words = " ".join(["word"] * draw.randint(5, 400))
        blocks.append({"kind": "paragraph", "look": "plain", "goes_on": False, "text": words})
        blocks.append({"kind": "heading", "level": draw.choice([1, 2, 3]), "text": f"HEAD{place}"})
        rows = draw.choice([3, 6, 7, 8, 9, 12, 20, 60])
        cells = [[f"ROW{place}.{row}.", " ".join(["x"] * draw.choice([1, 30])), "1"] for row in range(rows)]
        blocks.append(
            {
                "kind": "table", "title": f"TITLE{place}", "part": "", "caption": "caption " * draw.choice([0, 1, 40]),
                "size": 8.0, "in_halves": rows >= 20 and draw.random() < 0.5, "widths": [60.0] * 3,
                "numeric": [False, True, True], "heads": ["a", "b", "c"],
                "rows": [{"mark": "", "cells": one} for one in cells],
            }
        )  # fmt: skip
    document = {
        "title": "T", "facts": [["a", "b"]], "authors": [], "date": "2026-01-01", "blocks": blocks,
    }  # fmt: skip
    path = tmp_path / "tables.pdf"
    path.write_bytes(compiled(document, Chosen((TEXT, FALLBACK))))
    page_of: dict[str, int] = {}
    for number, page in enumerate(text_of(path).split("\f")):
        page_of |= dict.fromkeys(re.findall(r"HEAD\d+|TITLE\d+|ROW\d+\.\d+\.", page), number)
    for place, table in enumerate(blocks[2::3]):
        count = len(table["rows"])
        at = [page_of[f"ROW{place}.{row}."] for row in range(count)]
        assert page_of[f"HEAD{place}"] == page_of[f"TITLE{place}"] == at[0], place
        half = (count + 1) // 2 if table["in_halves"] else count
        for part in filter(None, (at[:half], at[half:])):
            assert min(Counter(part).values()) >= min(3, len(part)), place


def test_the_same_sweep_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = build(tmp_path, replace(DEFAULT, blocks=2))
    first = written(folder).read_bytes()
    assert first.startswith(b"%PDF-")
    assert written(folder).read_bytes() == first


def test_a_title_with_markup_comes_out_as_text(tmp_path: Path) -> None:
    sweep = Sweep(truths=BUFFER_SIZE[:2], blocks=2, question=HOSTILE, host={HOSTILE: HOSTILE})
    text = text_of(written(build(tmp_path, sweep)))
    assert " ".join(text.split()).count(HOSTILE) >= 2


def test_page_one_of_a_failed_sweep_says_so(tmp_path: Path) -> None:
    failed = {(point, block): ("failed", "the disk is full") for point in range(2) for block in range(2)}
    text = text_of(written(build(tmp_path, Sweep(truths=BUFFER_SIZE[:2], blocks=2, statuses=failed))))
    first = text.split("\f")[0]
    assert "None of 4 runs ended well: the disk is full." in " ".join(first.split())


def test_the_command_prints_the_path_and_an_unwritable_folder_is_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench")
    folder = build(tmp_path, Sweep(truths=BUFFER_SIZE[:2], blocks=2))
    done = bench.bufferlab("report", folder.path, "--format", "pdf", "--author", "Ada", "--course", "Databases 3")
    assert "Databases 3" in text_of(folder.path / "report.pdf").split("\f")[0]
    assert (done.code, done.out) == (0, f"{folder.path / 'report.pdf'}\n")
    (folder.path / "report.pdf").unlink()
    (folder.path / "report.pdf").mkdir()
    (folder.path / "report.pdf" / "kept").touch()
    refused = bench.bufferlab("report", folder.path, "--format", "pdf")
    assert refused.code not in (0, 70)
    assert "report.pdf" in refused.err
    assert "Traceback" not in refused.err
