"""The bases of the families of hostile inputs: what makes one input, and what makes one text file of a corpus."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from campaign import mutate


class Family(ABC):
    """One family: makes inputs in a folder of its own."""

    secret = ""
    """A word of the inputs that no command may show; "": there is none."""

    def __init__(self, folder: Path, corpus: Sequence[Path] = ()) -> None:
        """Prepare the folder. `corpus`: text files of the user's own, which importers are fed with too."""
        self.folder = folder
        self.corpus = corpus

    @abstractmethod
    def make(self, rng: random.Random) -> list[str]:
        """Write one input into the folder; return the arguments of the command that reads it."""

    def clear(self) -> None:  # noqa: B027  (most families overwrite their one file)
        """Undo what the input and its command left in the folder."""


class Text(Family):
    """One text file, made of the corpus by the mutators of text and of bytes."""

    suffix = "txt"
    sources: Sequence[Path] = ()

    def __init__(self, folder: Path, corpus: Sequence[Path] = ()) -> None:
        super().__init__(folder, corpus)
        self.texts = [path.read_text(encoding="utf-8", errors="replace") for path in (*self.sources, *self.extra())]

    def extra(self) -> Sequence[Path]:
        """Return the files of the user's own that fit this family."""
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
