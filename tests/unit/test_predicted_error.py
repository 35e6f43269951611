"""The largest error that a prediction's page names is that of the table in docs/prediction.md."""

from __future__ import annotations

import math
import re
from pathlib import Path

from bufferlab.report.predicted import LARGEST_ERROR_PERCENT

DOCUMENT = Path(__file__).parents[2] / "docs/prediction.md"


def test_the_largest_error_named_is_the_largest_of_the_table() -> None:
    (table,) = re.findall(r"\n## How far it was right\n(.*?)\nEach server", DOCUMENT.read_text(encoding="utf-8"), re.S)
    largest = [float(row.split("|")[4].strip(" %")) for row in table.strip().splitlines()[2:]]
    assert len(largest) > 10
    assert math.ceil(max(largest)) == LARGEST_ERROR_PERCENT
