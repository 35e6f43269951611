"""PostgreSQL's list of buffers: the file and page that each entry names, in a data directory like a server's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines.servers.client import ServerError
from bufferlab.engines.servers.look import NotTold
from bufferlab.live import frames

PID = 7


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Return a /proc folder of a process whose working directory is a data directory with four files."""
    data = tmp_path / "data"
    other = tmp_path / "root/space/PG_17_202406281/5"
    for folder in (data / "base/5", data / "global", data / "pg_tblspc", other):
        folder.mkdir(parents=True)
    for file in (data / "base/5/100", data / "base/5/100.1", data / "base/5/100_vm", data / "global/1262", other / "9"):
        file.write_bytes(b"")
    (data / "pg_tblspc/16400").symlink_to("/space")
    process = tmp_path / f"proc/{PID}"
    process.mkdir(parents=True)
    (process / "cwd").symlink_to(data)
    (process / "root").symlink_to(tmp_path / "root")
    return tmp_path / "proc"


def server(rows: list[tuple[int, int, int, int, int, int]], **answers: Any) -> Any:
    names = ("bufferid", "reltablespace", "reldatabase", "relfilenode", "relforknumber", "relblocknumber")

    def query(sql: str) -> list[dict[str, object]]:
        if "pg_extension" in sql:
            return answers.get("place", [{"place": "public"}])  # type: ignore[no-any-return]
        if "segment_size" in sql:
            return [{"setting": "1000"}]
        assert "public.pg_buffercache" in sql
        if "error" in answers:
            raise ServerError(answers["error"], "no")
        return [dict(zip(names, row, strict=True)) for row in rows]

    return query


def key(path: Path) -> tuple[int, int]:
    told = path.stat()
    return os.major(told.st_dev) << 20 | os.minor(told.st_dev), told.st_ino


def test_each_buffer_names_the_page_of_its_segment_and_files_that_are_gone_name_none(
    proc: Path, tmp_path: Path
) -> None:
    rows = [
        (1, 1663, 5, 100, 0, 17),
        (2, 1663, 5, 100, 0, 1003),  # A page of the second segment.
        (3, 1663, 5, 100, 2, 0),  # A page of the visibility map.
        (4, 1664, 0, 1262, 0, 1),
        (5, 16400, 5, 9, 0, 2),  # A page in a tablespace, whose link leads through the server's root.
        (6, 1663, 5, 101, 0, 3),  # A page whose relation was dropped meanwhile.
        (7, 99999, 5, 9, 0, 4),
        (8, 1663, 5, 100, 9, 5),
    ]
    found = frames.listed_buffers(server(rows), PID, proc, lambda: 123)
    assert not isinstance(found, NotTold)
    data = tmp_path / "data"
    names = [data / "base/5/100", data / "base/5/100.1", data / "base/5/100_vm", data / "global/1262"]
    wanted = [*map(key, names), key(tmp_path / "root/space/PG_17_202406281/5/9")]
    assert [found.files[place] for place in found.file] == wanted
    assert (found.buffer.tolist(), found.page.tolist(), found.asked_ns) == ([0, 1, 2, 3, 4], [17, 3, 0, 1, 2], 123)


def test_an_empty_pool_lists_nothing(proc: Path) -> None:
    found = frames.listed_buffers(server([]), PID, proc)
    assert not isinstance(found, NotTold)
    assert (len(found.buffer), found.files) == (0, [])


@pytest.mark.parametrize("answers", [{"place": []}, {"error": "42501"}, {"error": "57014"}])
def test_a_server_that_does_not_list_its_buffers_says_why(proc: Path, answers: dict[str, Any]) -> None:
    assert isinstance(frames.listed_buffers(server([], **answers), PID, proc), NotTold)
