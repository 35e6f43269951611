"""The languages of lab reports. A command's options need them before anything else is imported."""

from __future__ import annotations

from pathlib import Path

ENGLISH = "en"
FOLDER = Path(__file__).parent / "words"
"""The folder of the catalogues, a file for each language."""


def languages() -> tuple[str, ...]:
    """Return the codes of all languages that have a file, English first."""
    found = sorted(path.stem for path in FOLDER.glob("*.toml"))
    return (ENGLISH, *(code for code in found if code != ENGLISH))
