"""Adds to an exported tree what only a package has: its commit, manual pages, and a README that stands alone.

Called by build-wheel with the tree and the commit; that tree's package must be the one that Python finds.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import manual

#: What is to lie beside the folders of Python; maturin finds it by the name of the extension.
MANUAL = "bufferlab._native.data/data/share/man/man1"
_IMAGE = re.compile(r"^!\[[^\]]*\]\([^)]*\)\n+", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\((?!\w+:)[^)]*\)")


def main(tree: Path, commit: str) -> None:
    """Write the commit, the manual pages and the README of a package into the tree."""
    (tree / "python/bufferlab/commit.txt").write_text(f"{commit}\n", encoding="utf-8")
    manual.write(tree / MANUAL)
    readme = tree / "README.md"
    readme.write_text(standing_alone(readme.read_text(encoding="utf-8")), encoding="utf-8")


def standing_alone(markdown: str) -> str:
    """Return the text without images and links of this repository, which lead nowhere on an index's page.

    >>> standing_alone("![Reads](figures/a.svg)\\n\\nSee [docs/audit.md](docs/audit.md) and [Rust](https://a.org).")
    'See docs/audit.md and [Rust](https://a.org).'
    """
    return _LINK.sub(r"\1", _IMAGE.sub("", markdown))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
