"""Patches that follow CONTRIBUTING's recipes fit the tree as it is; tests/real/test_recipes.py measures with them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from docs.documents import ROOT

RECIPES = sorted((ROOT / "tests/fixtures/recipes").glob("*.patch"))
#: The most existing files that a recipe may change.
LIMITS = {"experiment": 0, "knob": 1, "metric": 2, "probe": 2, "engine": 6, "workload": 12}


@pytest.mark.parametrize("patch", RECIPES, ids=lambda patch: patch.stem)
def test_a_recipe_fits_the_tree_and_changes_no_more_existing_files_than_it_may(patch: Path) -> None:
    fits = subprocess.run(
        ["git", "apply", "--check", str(patch)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert fits.returncode == 0, f"make the same addition to the tree as it is, and keep its diff: {fits.stderr}"
    assert len(re.findall(r"^--- a/", patch.read_text(), re.MULTILINE)) <= LIMITS[patch.stem]
