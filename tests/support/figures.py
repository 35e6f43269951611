"""Leaves figures blank in tests that do not check them: drawing took a quarter of the time of test_report_innodb.py.

In a test or a file with the mark `figures` they are drawn, in its commands too; `./test --all` draws them in every
test.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

import pytest

from bufferlab.report.figures import svg
from bufferlab.texts import printable

#: The environment variable by which a test's commands know whether to draw.
_DRAWN = "BUFFERLAB_TEST_FIGURES"
#: A figure without its plot, with the words that matplotlib writes into an SVG.
_BLANK = """\
<?xml version="1.0" encoding="utf-8" standalone="no"?>
<svg xmlns="http://www.w3.org/2000/svg" width="460pt" height="72pt" viewBox="0 0 460 72" version="1.1">
 {ground}
 <metadata><title>{title}</title></metadata>
 <g id="figure_1"><text x="4" y="68">{source}</text></g>
</svg>
"""


def install() -> None:
    """Leave figures blank in this process and its forks from now on, unless a test asks for figures."""
    document = svg._document

    def drawn_if_asked(figure: Any) -> str:
        if os.environ.get(_DRAWN) == "yes":
            return document(figure)
        words = {"title": escape(figure.title), "source": escape(figure.source or "")}
        return printable(_BLANK.format(ground=svg._GROUND, **words))

    if os.environ.get("BUFFERLAB_TEST_COMMANDS") != "exec":
        svg._document = drawn_if_asked


@contextmanager
def blank() -> Iterator[None]:
    """Leave figures blank for a while in a test that asks for figures."""
    asked = os.environ.get(_DRAWN, "no")
    _ask("no")
    try:
        yield
    finally:
        _ask(asked)


def _ask(drawn: str) -> None:
    if os.environ.get(_DRAWN) != drawn:
        os.environ[_DRAWN] = drawn
        svg.draw.cache_clear()


def pytest_configure() -> None:
    """Set this up at the start of each lane."""
    install()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Draw this test's figures, and those of its module's fixtures and its commands, only if it has the mark."""
    _ask("yes" if item.get_closest_marker("figures") else "no")
    return (yield)
