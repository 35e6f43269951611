"""`bufferlab --version`: prints the versions of the parts that measure, and the commit that bufferlab comes from."""

from __future__ import annotations

import platform
import subprocess
from contextlib import suppress
from pathlib import Path

from bufferlab import __version__
from bufferlab.engines.native import native
from bufferlab.errors import EnvironmentLackingError

_PACKAGE = Path(__file__).parent.parent
#: The file with the commit that an installed package was built from. tools/build-wheel writes it; a checkout lacks it.
BUILT_FROM = _PACKAGE / "commit.txt"


def version_text() -> str:
    """Return the lines that `--version` prints: bufferlab, commit, core, SQLite and Python."""
    lines = [f"bufferlab {__version__}", f"commit {commit() or 'unknown: not built from a repository'}"]
    try:
        lines += [f"core {native().core_version()}", f"SQLite {native().sqlite_version()}"]
    except EnvironmentLackingError as error:
        lines.append(f"core none: {error.what}")
    return "\n".join([*lines, f"Python {platform.python_version()}"])


def commit() -> str | None:
    """Return the commit of this program, with a "+" if the checkout has changed files; None if unknown."""
    checkout = _PACKAGE.parent.parent
    with suppress(OSError, subprocess.SubprocessError):
        if (checkout / ".git").exists():
            return _git(checkout, "rev-parse", "--short=12", "HEAD") + ("+" if _is_changed(checkout) else "")
        return BUILT_FROM.read_text(encoding="utf-8").strip()
    return None


def _is_changed(checkout: Path) -> bool:
    return bool(_git(checkout, "status", "--porcelain", "--untracked-files=no"))


def _git(checkout: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=checkout, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
