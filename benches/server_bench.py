"""The common start of benchmarks on private servers: the options of their commands, and a folder for the servers."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bufferlab.engines.servers import user


@contextmanager
def begun(
    doc: str | None, server: str, parents: Sequence[argparse.ArgumentParser] = (), **counts: int
) -> Iterator[tuple[argparse.Namespace, Path]]:
    """Context manager for a benchmark: yields its command's options, and a folder that the server's user can enter.

    `server` is the default of --server; each of `counts` is an option with its default. `parents` have further options.
    Leaving the context removes the folder.
    """
    parser = argparse.ArgumentParser(description=doc, parents=list(parents))
    parser.add_argument("--server", default=server)
    for name, default in counts.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    root = user.default_root() or Path(tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=root))
    folder.chmod(0o711)
    try:
        yield arguments, folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
