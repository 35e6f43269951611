"""The base classes of the families of hostile inputs: any input, a text file made from a corpus, a sweep folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bufferlab.results.keys import canonical_json
from campaign import mutate
from support.synthetic import BUFFER_SIZE, Sweep, build


class Family(ABC):
    """A family of inputs, made in a separate folder."""

    secret = ""
    """A word in the inputs that no command may show; "" if there is none."""

    def __init__(self, folder: Path, corpus: Sequence[Path] = ()) -> None:
        """Prepare the folder. `corpus` has the user's own text files, which are also inputs of the parsers."""
        self.folder = folder
        self.corpus = corpus

    @abstractmethod
    def make(self, rng: random.Random) -> list[str]:
        """Write one input into the folder; return the arguments of the command that reads it."""

    def clear(self) -> None:  # noqa: B027  (most families overwrite their one file)
        """Remove what the input and its command left in the folder."""


class Text(Family):
    """One text file, made of the corpus by the mutators of text and of bytes."""

    suffix = "txt"
    sources: Sequence[Path] = ()

    def __init__(self, folder: Path, corpus: Sequence[Path] = ()) -> None:
        super().__init__(folder, corpus)
        self.texts = [path.read_text(encoding="utf-8", errors="replace") for path in (*self.sources, *self.extra())]

    def extra(self) -> Sequence[Path]:
        """Return the user's own files that fit this family."""
        return ()

    def make(self, rng: random.Random) -> list[str]:
        path = self.folder / f"input.{self.suffix}"
        path.write_bytes(self.content(rng))
        return self.arguments(path, rng)

    def content(self, rng: random.Random) -> bytes:
        """Return the file's bytes."""
        text = mutate.mangle_text(rng.choice(self.texts), rng, self.texts)
        data = text.encode("utf-8", errors="surrogatepass")
        return mutate.mangle_bytes(data, rng, [data]) if rng.random() < 0.15 else data

    @abstractmethod
    def arguments(self, path: Path, rng: random.Random) -> list[str]:
        """Return the command that reads the file."""


class Folder(Family):
    """A sweep folder of few runs, with changed files and hashes that fit them."""

    sweeps: Sequence[Sweep] = (Sweep(truths=BUFFER_SIZE[:1], blocks=1, transactions=600, warm_up_seconds=2),)

    def __init__(self, folder: Path, corpus: Sequence[Path] = ()) -> None:
        super().__init__(folder, corpus)
        self.templates = [build(folder / f"template-{place}", sweep).path for place, sweep in enumerate(self.sweeps)]
        self.path = folder / "sweep"
        self.begin_with(self.templates[0])

    def begin_with(self, template: Path) -> None:
        """Copy the template to the sweep's place."""
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(template, self.path)
        self.files = {path.relative_to(self.path): path.read_bytes() for path in self.path.rglob("*") if path.is_file()}
        self.run = min(path.parent for path in self.path.glob("runs/*/run.json"))
        self.whole = template

    def make(self, rng: random.Random) -> list[str]:
        self.change(rng)
        return self.arguments(rng)

    @abstractmethod
    def change(self, rng: random.Random) -> None:
        """Change files of the sweep folder."""

    def arguments(self, rng: random.Random) -> list[str]:
        """Return the arguments of a command that reads the folder."""
        path = str(self.path)
        # Weighted by their cost: whole pages take thirty times as long as the others, because they have figures.
        commands: dict[int, list[str]] = {
            25: ["run", "--resume", path, "--dry-run"],
            50: ["report", path, "--format", "tpcc-mysql"],
            51: ["report", path, "--html", "--json"],
            52: ["report", path, "--md", "--json"],
            100: ["compare", path, str(self.whole), "--json"],
        }
        drawn = rng.randrange(100)
        return next(command for below, command in commands.items() if drawn < below)

    def clear(self) -> None:
        for path in self.path.rglob("*"):
            if path.is_file() and path.relative_to(self.path) not in self.files:
                path.unlink()
        for name, content in self.files.items():
            if not (self.path / name).is_file() or (self.path / name).read_bytes() != content:
                (self.path / name).write_bytes(content)

    def read(self, path: Path) -> Any:
        """Return a JSON file of the sweep as it was before any change."""
        return json.loads(self.files[path.relative_to(self.path)])

    def seal(self, document: dict[str, Any], files: Sequence[str] = ()) -> None:
        """Write run.json with the hashes of these files and of itself."""
        if isinstance(document.get("files"), dict):
            for name in files:
                data = (self.run / name).read_bytes()
                document["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        document.pop("seal", None)
        with contextlib.suppress(ValueError, RecursionError):
            document["seal"] = hashlib.sha256(canonical_json(document).encode()).hexdigest()
        (self.run / "run.json").write_text(json.dumps(document))
