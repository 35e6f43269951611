"""Leaves figures blank in tests that do not look at them: to draw them took a quarter of test_report_innodb.py's time.

The mark `figures` on a test or its file has them drawn, in its commands too; `./test --all` draws them in every
test.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from bufferlab.report.figures import svg
from bufferlab.report.figures.canvas import WIDTH_IN

#: What a test's commands inherit.
_DRAWN = "BUFFERLAB_TEST_FIGURES"


def install() -> None:
    """From now on this process and its forks draw a blank sheet for each figure, unless a test asks for figures."""
    drawn = svg._drawn

    def drawn_if_asked(plot: Any) -> Any:
        from matplotlib.figure import Figure

        return drawn(plot) if os.environ.get(_DRAWN) == "yes" else Figure(figsize=(WIDTH_IN, 1.0))

    if os.environ.get("BUFFERLAB_TEST_COMMANDS") != "exec":
        svg._drawn = drawn_if_asked


def pytest_configure() -> None:
    """Every lane begins so."""
    install()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Tell this test's figures, and those of its module's fixtures and its commands, whether it looks at them."""
    asked = "yes" if item.get_closest_marker("figures") else "no"
    if os.environ.get(_DRAWN) != asked:
        os.environ[_DRAWN] = asked
        svg.draw.cache_clear()
    return (yield)
