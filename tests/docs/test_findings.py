"""Each script in findings/ has the form that CONTRIBUTING.md requires. No test runs one: CI fetches no servers for
them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from docs.documents import ROOT

SCRIPTS = sorted((ROOT / "findings").iterdir())


def wrong(script: Path) -> list[str]:
    """Return the parts of a finding's form that a script lacks."""
    text = script.read_text(encoding="utf-8")
    head = re.match(r"(#.*\n)+", text)
    lines = head[0].splitlines() if head else []
    firsts = [line.split(":")[0] for line in lines if re.match(r"# (version|behaviour|seen):", line)]
    seen = lines[lines.index("# seen:") :] if "# seen:" in lines else []
    asked = {
        "it is called NAME.sh": script.suffix == ".sh",
        "it may be executed": os.access(script, os.X_OK),
        "it is bash": text.startswith("#!/usr/bin/env bash\n")
        and subprocess.run(["bash", "-n", script], capture_output=True).returncode == 0,
        "its head has version, behaviour and seen": firsts == ["# version", "# behaviour", "# seen"],
        "its head has the output": any(line.startswith("#   > ") for line in seen),
        "it works in a folder of its own": "$(mktemp -d)" in text,
        "it removes that folder": re.search(r"^trap '[^']*rm -rf \"\$work\"' EXIT$", text, re.MULTILINE) is not None,
        "it does without bufferlab": "bufferlab" not in text.lower(),
    }
    return [what for what, is_so in asked.items() if not is_so]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_finding_has_its_form(script: Path) -> None:
    assert wrong(script) == []


def test_a_script_of_another_form_is_told_with_all_that_it_lacks(tmp_path: Path) -> None:
    script = tmp_path / "finding"
    script.write_text("#!/bin/sh\n# seen:\n# version: 1\nbufferlab run (\n", encoding="utf-8")
    assert len(wrong(script)) == 8
    good = next(path for path in SCRIPTS if path.suffix == ".sh").read_text(encoding="utf-8")
    script = tmp_path / "finding.sh"
    script.write_text(good.replace("rm -rf", "ls"), encoding="utf-8")
    script.chmod(0o755)
    assert wrong(script) == ["it removes that folder"]
