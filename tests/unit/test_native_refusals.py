"""Refusals of the core in every command give a message and a documented exit code, and are never reported as a bug."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bufferlab.cli import app
from bufferlab.engines.native import native, refusal_of_core
from bufferlab.errors import FAILURE_KINDS

CODES = {"usage": 2, "environment": 3, "full_disk": 3, "io": 3, "data": 65}


def refusal(kind: str) -> Exception:
    from bufferlab import _native

    error: Exception = _native.NativeError(kind, "it cannot be", "/some/place", "try another")
    return error


@pytest.mark.parametrize("kind", [kind for kind in FAILURE_KINDS if kind != "internal"])
def test_a_refusal_of_any_kind_is_a_message_with_its_code(
    kind: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def main(arguments: list[str]) -> int:
        raise refusal(kind)

    monkeypatch.setattr(app, "_main", main)
    assert app.run(["doctor", "--json"]) == CODES.get(kind, 1)
    out, err = capfd.readouterr()
    assert "error: it cannot be\n  where: /some/place\n  hint:  try another" in err
    assert json.loads(out)["kind"] == kind


def test_a_bug_of_the_core_is_called_a_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def main(arguments: list[str]) -> int:
        raise refusal("internal")

    monkeypatch.setattr(app, "_main", main)
    assert app.run(["doctor"]) == 70
    assert "a bug in bufferlab" in capfd.readouterr().err


def asked(path: str) -> list[Callable[[], Any]]:
    """Return all calls of the core about a path, a text or a server that the user names."""
    core = native()
    build = {"binary": path, "spool": {"path": "", "limit_bytes": 0}, "sites": [], "fields": {}, "modes_if_in_pool": []}
    return [
        lambda: core.executable_ranges(path),
        lambda: core.check_direct_io(path),
        lambda: core.sqlite_shape(path),
        lambda: core.sqlite_pages(path),
        lambda: core.check_script(path, "SELECT :nothing; @", "{}"),
        lambda: core.block_trace_check(path),
        lambda: core.block_trace_decode(path, path),
        lambda: core.page_trace_check(json.dumps(build)),
    ]


@pytest.mark.parametrize("path", ["/proc/self/nothing", "/dev/null", "text", "folder"])
def test_nothing_that_a_user_names_makes_the_core_report_a_bug(path: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("#!/bin/sh\n")
    (tmp_path / "folder").mkdir()
    place = path if path.startswith("/") else str(tmp_path / path)
    refusals = [error for error in map(raised_by, asked(place)) if error is not None]
    assert len(refusals) >= 6
    for error in refusals:
        found = refusal_of_core(error)
        assert found is not None, error
        assert found.exit_code in (1, 2, 3, 65)
        assert found.what


def raised_by(ask: Callable[[], Any]) -> Exception | None:
    try:
        ask()
    except Exception as error:
        return error
    return None
