"""The free memory, from files /proc/meminfo of real hosts and from malformed ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from bufferlab import procfs as told
from bufferlab.procfs import assumed_bytes, available_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MemTotal:  8000000 kB\nMemAvailable:  1048576 kB\nBuffers: 1 kB\n", 1 << 30),
        ("MemAvailable:  0 kB\n", 0),
        ("MemTotal:  8000000 kB\n", None),
        ("MemAvailable:\n", None),
        ("MemAvailable: many\n", None),
        ("MemAvailable: 1 kB \udcff\n", None),
    ],
)
def test_available_memory_is_told_or_is_none(tmp_path: Path, text: str, expected: int | None) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(text, "utf-8", "surrogateescape")
    assert available_bytes(meminfo) == expected
    assert available_bytes(tmp_path / "nothing") is None
    assert (available_bytes() or 0) > 0


@pytest.mark.parametrize(("bytes_told", "assumed"), [(None, 1 << 30), (0, 0), (5 << 30, 5 << 30)])
def test_where_the_host_does_not_tell_a_gibibyte_is_assumed(
    monkeypatch: pytest.MonkeyPatch, bytes_told: int | None, assumed: int
) -> None:
    monkeypatch.setattr(told, "available_bytes", lambda: bytes_told)
    assert assumed_bytes() == assumed
