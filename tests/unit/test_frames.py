"""The frames of a server's pool: the pool's memory, the calls that are followed, and when the record is not
believed."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab.engines.servers.look import Facts
from bufferlab.errors import EnvironmentLackingError
from bufferlab.live import constants, frames, live_trace
from bufferlab.live.frames import MOVED, UNNAMED
from bufferlab.results.trace_words import page_trace_words

READ, EVICT = (page_trace_words().kinds.index(name) for name in ("read", "evict"))
MYSQL = Facts("mysql", "8.0.40", (8, 0, 40), "a", 16384, 256 << 20, "transaction", "", 1.0)
POSTGRES = replace(MYSQL, flavour="postgres", page_size_bytes=8192, pool_size_bytes=128 << 20)
TOLD: dict[str, Any] = {"left_out_calls": 0, "calls_without_file": 0, "frames": {"odd_reads": 0, "frames": 1000}}
MAPS = """\
55d0a0000000-55d0c0000000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0008200000 rw-p 00000000 00:00 0
7f0010000000-7f0018200000 rw-p 00000000 00:00 0
7f0020000000-7f0020800000 rw-p 00000000 00:00 0
7f0030000000-7f0040000000 r--p 00000000 08:01 7                          /usr/lib/locale/locale-archive
7f0050000000-7f0059000000 rw-s 00000000 00:01 1024                       /dev/zero (deleted)
"""


def test_innodbs_pool_is_its_private_memory_in_chunks_and_postgresqls_is_shared() -> None:
    chunks = ((0x7F0000000000, 0x7F0008200000), (0x7F0010000000, 0x7F0018200000))
    assert frames.pool_regions(MAPS, MYSQL) == chunks
    assert frames.pool_regions(MAPS, POSTGRES) == ((0x7F0050000000, 0x7F0059000000),)
    small = replace(MYSQL, settings={"innodb_buffer_pool_chunk_size": str(8 << 20)})
    assert len(frames.pool_regions(MAPS, small)) == 3
    # A MariaDB without chunks reports 0.
    assert frames.pool_regions(MAPS, replace(MYSQL, settings={"innodb_buffer_pool_chunk_size": "0"})) == chunks
    # With large pages.
    segment = "7f0060000000-7f0068000000 rw-s 00000000 00:11 229418    /SYSV00000000 (deleted)\n"
    assert frames.pool_regions(MAPS + segment, MYSQL) == (*chunks, (0x7F0060000000, 0x7F0068000000))
    assert frames.pool_regions("nonsense\n", MYSQL) == ()


def test_a_plan_tells_what_is_followed_and_what_it_costs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(frames, "native", lambda: SimpleNamespace(call_trace_check=lambda: None))
    (tmp_path / "7").mkdir()
    (tmp_path / "7/maps").write_text(MAPS)
    (tmp_path / "7/exe").write_bytes(b"\x7fELF\x02")
    plan = live_trace.plan(7, POSTGRES, "misses", tmp_path)
    assert "each read and write call of PostgreSQL 8.0.40, process 7" in plan.sentence
    assert "No thread is stopped" in plan.sentence
    assert json.loads(plan.job(Path("/spool"), 24, 1000.0)) == {
        "pid": 7,
        "events_per_s_max": 1000.0,
        "trace": {
            "calls": {
                "pool": {
                    "page_size_bytes": 8192,
                    "regions": [[0x7F0050000000, 0x7F0059000000]],
                    "ring_reads": 289,
                    "sweep_reads": 4096,
                    "is_shared": True,
                },
                "spool": {"path": "/spool", "limit_bytes": 24},
            }
        },
    }
    (tmp_path / "7/maps").write_text("")
    with pytest.raises(EnvironmentLackingError, match="its process has ended"):
        frames.plan(7, POSTGRES, tmp_path)
    (tmp_path / "7/maps").write_text(MAPS.splitlines()[0])
    with pytest.raises(EnvironmentLackingError, match="no memory of PostgreSQL's is as large as its pool"):
        frames.plan(7, POSTGRES, tmp_path)
    with pytest.raises(EnvironmentLackingError, match="its process has ended"):
        frames.plan(8, POSTGRES, tmp_path)
    (tmp_path / "7/maps").write_text(MAPS)
    (tmp_path / "7/exe").write_bytes(b"\x7fELF\x01")
    with pytest.raises(EnvironmentLackingError, match="a program of 32 bits"):
        frames.plan(7, POSTGRES, tmp_path)


def test_a_kernel_that_refuses_the_programs_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking() -> None:
        raise EnvironmentLackingError("this kernel does not describe its own structures")

    monkeypatch.setattr(frames, "native", lambda: SimpleNamespace(call_trace_check=lacking))
    monkeypatch.setattr(frames, "pool_regions", lambda maps, facts: ((1, 2),))
    with pytest.raises(EnvironmentLackingError, match="does not describe its own structures"):
        frames.plan(os.getpid(), MYSQL)


def rows(sites: list[int]) -> tuple[Any, Any]:
    """Return reads with these marks, each after an eviction."""
    kinds = np.array([EVICT, READ] * len(sites), np.uint8)
    marks = np.zeros(2 * len(sites), np.uint8)
    marks[1::2] = sites
    return kinds, marks


def test_what_counts_begins_where_nearly_every_read_tells_what_its_frame_held() -> None:
    kinds, marks = rows([UNNAMED] * 100 + [0, UNNAMED] * 100 + [0] * 900)
    found = frames.judge(kinds, marks, TOLD, READ, 1000)
    assert found.cannot_say is None
    assert 2 * 80 <= found.first <= 2 * 100
    left = marks[found.first :][kinds[found.first :] == READ]
    assert (left == UNNAMED).mean() <= 0.1
    assert len(found.moved) == len(kinds) - found.first


@pytest.mark.parametrize(
    ("sites", "counts", "pool_pages", "why"),
    [
        ([0] * 1000, {"left_out_calls": 60}, 1000, "60 calls showed no buffer or no file"),
        ([0] * 1000, {"calls_without_file": 60}, 1000, "60 calls showed no buffer or no file"),
        ([0] * 1000, {"odd_reads": 100}, 1000, "9.09 % of the reads into the pool are no whole pages"),
        ([0] * 1000, {"frames": 199}, 1000, "into 199 frames of a pool of 1,000"),
        ([UNNAMED] * 700 + [0] * 300, {}, 1000, "only the last 3"),
        ([0, 0, 0, 0, MOVED] * 200, {}, 1000, "20 % of the reads are of pages whose leaving was not seen"),
        ([MOVED, UNNAMED] * 500, {}, 1000, "50 % of the reads are of pages whose leaving was not seen"),
    ],
)
def test_frames_that_are_not_known_well_are_refused_by_name(
    sites: list[int], counts: dict[str, int], pool_pages: float, why: str
) -> None:
    of_frames = {name: counts.get(name, count) for name, count in TOLD["frames"].items()}
    found = frames.judge(*rows(sites), {**TOLD, **counts, "frames": of_frames}, READ, pool_pages)
    assert found.cannot_say is not None
    assert why in found.cannot_say.why
    assert found.cannot_say.remedy


def test_bytes_that_went_elsewhere_are_a_share_of_all_that_was_read() -> None:
    assert frames.elsewhere_ratio({"elsewhere_read_bytes": 3 << 20, "read_pages": 128}, 8192) == 0.75
    assert frames.elsewhere_ratio({"elsewhere_read_bytes": 0, "read_pages": 0}, 8192) == 0


@given(st.lists(st.integers(0, 3), max_size=400))
def test_any_marks_are_judged(sites: list[int]) -> None:
    kinds, marks = rows(sites)
    found = frames.judge(kinds, marks, TOLD, READ, 100)
    assert 0 <= found.first <= len(kinds)
    left = marks[found.first :][kinds[found.first :] == READ]
    assert (left & UNNAMED != 0).sum() <= 0.1 * max(1, len(left))


@pytest.mark.parametrize("pool_pages", [256, 1024, 1 << 20])
def test_the_largest_ring_of_a_pool_is_told_as_one(pool_pages: int) -> None:
    ring = min(constants.RING_READS, pool_pages // 8)
    # Each read of a scan fills the frame that was filled one whole ring before.
    assert ring < constants.ring_reads("postgres", pool_pages) < pool_pages / 3
    assert constants.ring_reads("mysql", pool_pages) == 0
