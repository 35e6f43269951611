"""The errors bufferlab shows to people: what happened, where, and what to try.

One class per thing the user does next; each carries the exit code of the command.
Does not print anything: the command line renders these, as text or as JSON.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from bufferlab.texts import printable, without_password

EXIT_OK = 0
EXIT_INTERRUPTED_INT = 130
EXIT_INTERRUPTED_TERM = 143


#: The launcher of a clone sets it: an installed program is on PATH, a clone's is not.
STARTED_AS = "BUFFERLAB_STARTED_AS"
_COMMAND = re.compile(r"(?<![\w./-])bufferlab(?= (?:run|list|engines|cache|doctor|report|compare|audit)\b)")


def program() -> str:
    """Return the word that starts this program again: "./bufferlab" in a clone, "bufferlab" when installed."""
    return os.environ.get(STARTED_AS) or "bufferlab"


def runnable(text: str) -> str:
    """Return the text with its commands as they can be typed here.

    >>> os.environ[STARTED_AS] = "./bufferlab"
    >>> runnable("bufferlab cannot read it; see `bufferlab doctor`")
    'bufferlab cannot read it; see `./bufferlab doctor`'
    >>> del os.environ[STARTED_AS]
    """
    return _COMMAND.sub(lambda _: program(), text)


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: what it is, where it stands, what to try. It keeps no password of a URL."""

    what: str
    where: str | None = None
    hint: str | None = None

    def __post_init__(self) -> None:
        for name in ("what", "where", "hint"):
            if (text := getattr(self, name)) is not None:
                object.__setattr__(self, name, without_password(str(text)))

    def render(self) -> str:
        """The problem as the lines a terminal shows."""
        lines = [f"error: {self.what}"]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.hint:
            lines.append(f"  hint:  {self.hint}")
        return printable(runnable("\n".join(lines)))

    def as_dict(self) -> dict[str, str | None]:
        """The problem as JSON holds it."""
        return {"what": self.what, "where": self.where, "hint": self.hint and runnable(self.hint)}


class BufferlabError(Exception):
    """Base of every error that is meant for the user. `more` holds further problems found at once."""

    exit_code = 1

    def __init__(
        self,
        what: str,
        where: str | None = None,
        hint: str | None = None,
        *,
        more: Sequence[Problem] = (),
    ) -> None:
        self.problems: tuple[Problem, ...] = (Problem(what, where, hint), *more)
        super().__init__(self.what)

    @property
    def what(self) -> str:
        """What happened (of the first problem)."""
        return self.problems[0].what

    @property
    def where(self) -> str | None:
        """The file and line, path, flag or run it happened in."""
        return self.problems[0].where

    @property
    def hint(self) -> str | None:
        """What to try."""
        return self.problems[0].hint

    def render(self) -> str:
        """All problems, as the lines a terminal shows."""
        return "\n".join(problem.render() for problem in self.problems)

    def __str__(self) -> str:
        return self.render()


class SpecError(BufferlabError):
    """The experiment, or the command line, asks for something that cannot be."""

    exit_code = 2

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> SpecError:
        """One error from all the problems found (at least one)."""
        first, *rest = problems
        return cls(first.what, first.where, first.hint, more=rest)


class EnvironmentLackingError(BufferlabError):
    """The host lacks something: a module, a permission, space, direct I/O. `bufferlab doctor` says what."""

    exit_code = 3


class DataFileError(BufferlabError):
    """A file that should be ours is corrupt, of another program, or of an unknown version."""

    exit_code = 65


class RunFailed(BufferlabError):
    """A run, or a stage of it, did not succeed; earlier results are kept."""

    exit_code = 1


class InternalError(BufferlabError):
    """A bug in bufferlab."""

    exit_code = 70


class Interrupted(BufferlabError):
    """The user, or the system, asked us to stop. `signal_number` decides between 130 and 143."""

    def __init__(self, signal_number: int, what: str = "interrupted", hint: str | None = None) -> None:
        super().__init__(what, None, hint)
        self.signal_number = signal_number
        self.exit_code = EXIT_INTERRUPTED_INT if signal_number == 2 else EXIT_INTERRUPTED_TERM
