"""tools/labs complete: the five documents' questions on real servers, at a small size, each with its lab report."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from support.core import OF_A_CLONE, ROOT

NAMES = ("0-page-size", "1-buffer-size", "2-lru-scan-depth", "3-hot-rows", "4-random-read", "4-index-scan")


# Alone: it sets the disk's read-ahead, and docs/labs states a lab's times.
@pytest.mark.alone
@pytest.mark.slow
def test_the_five_labs_end_within_an_hour_with_a_report_of_each_sweep(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    # ./test --all keeps outcomes for this state of the tree: if it is stopped and called again, the labs continue too.
    kept = request.config.getoption("outcomes")
    folder = Path(kept, "labs") if kept else tmp_path
    environment = {name: value for name, value in os.environ.items() if name != "BUFFERLAB_NO_PAGE_TRACE"}
    began, spent = time.monotonic(), folder / "seconds"
    ended = subprocess.run(
        ["tools/labs", folder], cwd=ROOT, env={**environment, **OF_A_CLONE}, capture_output=True, text=True, check=False
    )
    # Finished earlier calls count; this call repeats the work that they had only begun.
    seconds = (float(spent.read_text()) if spent.exists() else 0.0) + time.monotonic() - began
    spent.write_text(str(seconds))
    logs = "\n".join(f"{log}:\n{log.read_text()[-2000:]}" for log in sorted(folder.glob("*.log")))
    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}{logs}"
    assert [name for name in NAMES if (folder / f"{name}.pdf").read_bytes()[:4] != b"%PDF"] == []
    assert seconds < 3600
    shutil.rmtree(folder)
