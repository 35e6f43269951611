"""Changes of pages as marks on the gets before them, compared with a search back through all accesses."""

from __future__ import annotations

import numpy as np
import pytest

from bufferlab.execute.probes.page_trace_probe import _record
from bufferlab.traces.changed_pages import BY_CHANGE, CHANGED, HINTED, changes_in, changes_joined
from support.traced import CREATE, DIRTY, EVICT, GET, READ, WRITE

HINT = 2


def searched(records: np.ndarray) -> np.ndarray:
    """Return the records with their changes merged into the gets; each get is found by a search back from its
    change."""
    made, gone = records.copy(), []
    for row, record in enumerate(records):
        if record["kind"] != DIRTY:
            continue
        for before in range(row - 1, -1, -1):
            other = records[before]
            same = all(other[name] == record[name] for name in ("object", "page", "thread"))
            if same and other["kind"] in (GET, CREATE):
                made["latch"][before] |= CHANGED if record["latch"] == BY_CHANGE else HINTED
                gone.append(row)
                break
    return np.delete(made, gone)


def random_records(seed: int, threads: int, rows: int = 300) -> np.ndarray:
    random = np.random.default_rng(seed)
    records = np.zeros(rows, _record())
    records["t_ns"] = np.arange(rows) * 10
    records["page"], records["object"] = random.integers(0, 9, rows), random.integers(0, 3, rows)
    records["thread"] = random.integers(0, 4, rows) * threads
    records["kind"] = random.choice([GET, GET, CREATE, DIRTY, DIRTY, DIRTY, READ, EVICT, WRITE], rows)
    records["latch"] = np.where(records["kind"] == DIRTY, random.choice([BY_CHANGE, HINT], rows), 5)
    return records


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("threads", [1, 1 << 30])
def test_a_change_is_a_mark_of_the_last_get_of_its_page_by_its_thread(seed: int, threads: int) -> None:
    records = random_records(seed, threads)
    records["object"] *= 1 if threads == 1 else 1 << 30
    joined = changes_joined(records)
    assert joined.tolist() == searched(records).tolist()
    alone = np.count_nonzero((joined["kind"] == DIRTY) & (joined["latch"] == BY_CHANGE))
    marks = np.count_nonzero(joined["latch"] & CHANGED)
    columns = {name: joined[name] for name in ("kind", "latch")}
    assert changes_in(columns, 0, len(joined)) == alone + marks
    assert changes_in(columns, 0, 0) == 0


def test_accesses_without_changes_stay_as_they_are() -> None:
    records = random_records(1, 1)
    records = records[records["kind"] != DIRTY]
    assert changes_joined(records) is records
