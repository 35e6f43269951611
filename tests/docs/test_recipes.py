"""Patches that follow CONTRIBUTING's recipes fit the present tree; tests/real/test_recipes.py measures with them."""

from __future__ import annotations

import re
import subprocess

import pytest

from docs.documents import ROOT, headed, paths_in

PATCHES = ROOT / "tests/fixtures/recipes"
#: The patch of each recipe, and the existing files that it may change.
RECIPES = {
    "Add an engine": ("engine", 2),
    "Add a knob": ("knob", 1),
    "Add a metric of a server": ("metric", 3),
    "Add a workload": ("workload", 5),
    "Add a probe": ("probe", 2),
    "Add a model of a buffer manager": ("buffer-manager", 2),
    "Add a command": ("command", 5),
    "Add an experiment": ("experiment", 0),
}
SECTIONS = headed(ROOT / "CONTRIBUTING.md")


def test_every_recipe_has_a_patch() -> None:
    assert [title for title in SECTIONS if title.startswith("Add ")] == list(RECIPES)
    assert {file.stem for file in PATCHES.glob("*.patch")} == {patch for patch, _ in RECIPES.values()}


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_fits_the_tree_and_changes_the_existing_files_that_it_names(recipe: str) -> None:
    name, most = RECIPES[recipe]
    patch = PATCHES / f"{name}.patch"
    fits = subprocess.run(
        ["git", "apply", "--check", str(patch)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert fits.returncode == 0, f"make the same addition to the tree as it is, and keep its diff: {fits.stderr}"
    changed = set(re.findall(r"^--- a/(.*)$", patch.read_text(encoding="utf-8"), re.MULTILINE))
    assert len(changed) <= most
    assert changed - paths_in(SECTIONS[recipe]) == set(), f"CONTRIBUTING.md, {recipe}: name the files that must change"
