"""Adds to an exported tree the parts that only a package has: the commit, manual pages, and a README without local
links.

build-wheel calls it with the tree and the commit. The package that Python imports must be that of the tree.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import manual

#: The folder with files to install outside of Python's packages. maturin finds it by the extension module's name.
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
    """Return the text without images of, and links into, this repository, which a package index's page cannot show.

    >>> standing_alone("![Reads](figures/a.svg)\\n\\nSee [docs/audit.md](docs/audit.md) and [Rust](https://a.org).")
    'See docs/audit.md and [Rust](https://a.org).'
    """
    return _LINK.sub(r"\1", _IMAGE.sub("", markdown))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
