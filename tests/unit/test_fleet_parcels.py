"""Files of a sweep folder on their way to the command: a node cuts them, and the command writes them and limits names
and sizes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bufferlab.errors import DataFileError
from bufferlab.execute.fleet.gathering import Gathering
from bufferlab.execute.fleet.node_options import NodeOptions
from bufferlab.execute.fleet.parcels import PIECE_BYTES, Arriving, packed
from bufferlab.execute.probes.block_trace_probe import BlockTraceAsked
from bufferlab.execute.probes.page_trace_probe import TraceWish
from bufferlab.spec import load
from bufferlab.units import GIB, MIB


@settings(max_examples=25)
@given(sizes=st.lists(st.one_of(st.just(0), st.integers(0, 3 * PIECE_BYTES)), min_size=1, max_size=4))
def test_a_parcel_arrives_as_it_was_sent(sizes: list[int], tmp_path_factory: pytest.TempPathFactory) -> None:
    sent, arrived = tmp_path_factory.mktemp("sent"), tmp_path_factory.mktemp("arrived")
    for number, size in enumerate(sizes):
        (sent / f"file-{number}").write_bytes(os.urandom(size))
    header, *pieces = packed("run", "0" * 16, sent, sorted(os.listdir(sent)))
    arriving = Arriving(header, arrived, 0, "a node")
    assert arriving.bytes_left == sum(sizes)
    for piece in pieces:
        assert not arriving.is_whole
        arriving.take(piece["data"])
    assert arriving.is_whole
    assert {path.name: path.read_bytes() for path in sent.iterdir()} == {
        path.name: path.read_bytes() for path in arrived.iterdir()
    }


HEADER = {"event": "parcel", "kind": "run", "name": "0" * 16, "files": {"run.json": 3}}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"kind": "program"}, "none of a sweep"),
        ({"name": "../../etc"}, "a run with the name"),
        ({"name": None}, "a run with the name"),
        ({"files": {}}, "none of a sweep"),
        ({"files": {str(number): 1 for number in range(99)}}, "none of a sweep"),
        ({"files": {"../run.json": 1}}, "a file with the name"),
        ({"files": {".bufferlab-mark": 1}}, "a file with the name"),
        ({"files": {"run.json": 1 << 40}}, "run.json of"),
        ({"files": {"page-trace.parquet": 1 << 40}}, "page-trace.parquet of"),
        ({"files": {"run.json": -1}}, "run.json of"),
        ({"files": {"run.json": True}}, "run.json of"),
        ({"files": {"run.json": "3"}}, "run.json of"),
        ({"kind": "sweep"}, "files that a sweep folder does not have"),
    ],
)
def test_a_header_that_no_node_of_ours_would_send_is_refused(tmp_path: Path, change: dict[str, Any], what: str) -> None:
    with pytest.raises(DataFileError, match=what):
        Arriving({**HEADER, **change}, tmp_path, 1 << 30, "a node")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("data", [b"", b"four", "abc", None])
def test_a_piece_that_was_not_announced_is_refused(tmp_path: Path, data: object) -> None:
    arriving = Arriving(HEADER, tmp_path, 0, "a node")
    with pytest.raises(DataFileError, match="the node sent a piece of"):
        arriving.take(data)


def test_a_link_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "run.json").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic"):
        list(packed("run", "0" * 16, tmp_path, ["run.json"]))


def test_a_limit_of_page_traces_is_none_of_block_traces(tmp_path: Path) -> None:
    small = TraceWish(limit_bytes=MIB)
    for options, least in (
        (NodeOptions(page_trace=small), 2 * MIB),
        (NodeOptions(page_trace=small, block_trace=BlockTraceAsked()), 2 * GIB + MIB),
        (NodeOptions(page_trace=TraceWish(limit_bytes=3 * GIB), block_trace=BlockTraceAsked()), 3 * GIB + MIB),
        (NodeOptions(), 2 * GIB + MIB),
    ):
        assert Gathering(tmp_path, "0" * 12, load("buffer-size"), (0,), options).trace_bytes == least
