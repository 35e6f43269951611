"""The errors that bufferlab shows to users: what happened, where, and what to try.

There is one class for each kind of remedy, and each class has an exit code. This module prints nothing: the command
line shows the errors, as text or as JSON.
"""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Self

from bufferlab.texts import printable, without_password

EXIT_RULE_BROKEN = 4
"""The exit code for a broken rule of --fail-if."""
EXIT_INTERRUPTED_INT = 130
EXIT_INTERRUPTED_TERM = 143

FailureKind = Literal[
    "usage",
    "environment",
    "full_disk",
    "io",
    "data",
    "engine",
    "unsteady",
    "crash",
    "silent",
    "interrupted",
    "internal",
]
#: The kinds of failures, the same for runs, loads, the core, engines and workers. docs/reliability.md lists them too.
FAILURE_KINDS: Mapping[FailureKind, str] = MappingProxyType(
    {
        "usage": "a setting that cannot be, or that the engine refused or changed",
        "environment": "the host or the server lacks something that was asked for",
        "full_disk": "no space was left",
        "io": "the operating system, a device or a connection answered with an error",
        "data": "the database is damaged, or is not the one that was loaded",
        "engine": "the database server failed, ended or did not answer",
        "unsteady": "the run measured no steady state: its warm-up hit its cap, or nothing ran for a while",
        "crash": "the worker process ended without a result",
        "silent": "the worker process said nothing for too long, and was killed",
        "interrupted": "the run was asked to stop",
        "internal": "a bug in bufferlab",
    }
)

#: The environment variable in which a clone's launcher passes its own name, because a clone's program is not on PATH.
STARTED_AS = "BUFFERLAB_STARTED_AS"
_COMMAND = re.compile(
    r"(?<![\w./-])bufferlab(?= (?:script-from-slow-log"
    r"|run|merge|observe|advise|list|engines|cache|doctor|report|compare|history"
    r"|curve|predict|accuracy|audit|learn)\b)"
)


def program() -> str:
    """Return the word that starts this program again: "./bufferlab" in a clone, "bufferlab" when installed."""
    return os.environ.get(STARTED_AS) or "bufferlab"


def runnable(text: str) -> str:
    """Return the text with each bufferlab command in the form that the user can type: "./bufferlab ..." in a clone.

    >>> os.environ[STARTED_AS] = "./bufferlab"
    >>> runnable("bufferlab cannot read it; see `bufferlab doctor`")
    'bufferlab cannot read it; see `./bufferlab doctor`'
    >>> del os.environ[STARTED_AS]
    """
    return _COMMAND.sub(lambda _: program(), text)


def is_full(error: OSError) -> bool:
    """Return whether the error says that the disk, or the user's quota, was full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def causes(error: BaseException) -> str:
    """Return the traceback of an error and of the errors that caused it, safe to show, without passwords."""
    import traceback  # Imported late: only a bug and --debug need it.

    return printable(without_password("".join(traceback.format_exception(error)))).rstrip()


@dataclass(frozen=True)
class Problem:
    """One error: what happened, where, and what to try. Passwords in URLs are removed."""

    what: str
    where: str | None = None
    hint: str | None = None

    def __post_init__(self) -> None:
        for name in ("what", "where", "hint"):
            if (text := getattr(self, name)) is not None:
                object.__setattr__(self, name, without_password(str(text)))

    def render(self) -> str:
        """Return the problem as the lines that a terminal shows."""
        lines = [f"error: {self.what}"]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.hint:
            lines.append(f"  hint:  {self.hint}")
        return printable(runnable("\n".join(lines)))

    def as_dict(self) -> dict[str, str | None]:
        """Return the fields of the problem for JSON."""
        return {"what": self.what, "where": self.where, "hint": self.hint and runnable(self.hint)}

    def sentence(self) -> str:
        """Return the problem as one sentence.

        >>> Problem("the disk is full", "/data", "free some space").sentence()
        'the disk is full (/data); free some space'
        """
        return self.what + (f" ({self.where})" if self.where else "") + (f"; {self.hint}" if self.hint else "")


@dataclass(frozen=True)
class Failure(Problem):
    """The reason why a run or a load did not succeed: a problem with its kind."""

    kind: FailureKind = "internal"

    @classmethod
    def told(cls, told: Mapping[str, str | None]) -> Self:
        """Return the failure with the fields of a JSON document. An unknown kind becomes "internal"."""
        kind: FailureKind = next((known for known in FAILURE_KINDS if known == told.get("kind")), "internal")
        return cls(str(told.get("what")), told.get("where"), told.get("hint"), kind)

    @property
    def lasts(self) -> bool:
        """Return whether another try with the same settings would fail again."""
        return self.kind == "usage"

    def as_dict(self) -> dict[str, str | None]:
        """Return the fields of the failure for JSON."""
        return {"kind": self.kind, **super().as_dict()}


class BufferlabError(Exception):
    """The base class of every error that is meant for the user. `more` has further problems that were found with it.

    A run that ends with this error fails with the error's `kind`, by default the kind of its class.
    """

    exit_code = 1
    kind: FailureKind = "internal"

    def __init__(
        self,
        what: str,
        where: str | None = None,
        hint: str | None = None,
        *,
        more: Sequence[Problem] = (),
        kind: FailureKind | None = None,
    ) -> None:
        self.problems: tuple[Problem, ...] = (Problem(what, where, hint), *more)
        self.kind = kind or self.kind
        super().__init__(self.what)

    @property
    def failure(self) -> Failure:
        """Return the first problem as the failure of the run that this error ended."""
        return Failure(self.what, self.where, self.hint, self.kind)

    @property
    def what(self) -> str:
        """Return what happened in the first problem."""
        return self.problems[0].what

    @property
    def where(self) -> str | None:
        """Return the file and line, path, flag or run in which the first problem happened."""
        return self.problems[0].where

    @property
    def hint(self) -> str | None:
        """Return the hint for the first problem."""
        return self.problems[0].hint

    def render(self) -> str:
        """Return all problems as the lines that a terminal shows."""
        return "\n".join(problem.render() for problem in self.problems)

    def __str__(self) -> str:
        return self.render()


class SpecError(BufferlabError):
    """The error for an experiment or a command line that requests something impossible."""

    exit_code = 2
    kind: FailureKind = "usage"

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> SpecError:
        """Return one error with all these problems; there must be at least one."""
        first, *rest = problems
        return cls(first.what, first.where, first.hint, more=rest)


class EnvironmentLackingError(BufferlabError):
    """The error for a host that lacks something: a module, a permission, space, direct I/O.

    `bufferlab doctor` names it.
    """

    exit_code = 3
    kind: FailureKind = "environment"


class DataFileError(BufferlabError):
    """The error for a file that should be bufferlab's, but is corrupt, another program's, or of an unknown version."""

    exit_code = 65
    kind: FailureKind = "data"


class RunFailed(BufferlabError):
    """The failure of a run or of one of its stages; earlier results are kept."""

    exit_code = 1


class InternalError(BufferlabError):
    """The error of a bug in bufferlab."""

    exit_code = 70


def interrupted_exit_code(signal_number: int) -> int:
    """Return the exit code of a command that this signal interrupted."""
    return EXIT_INTERRUPTED_INT if signal_number == signal.SIGINT else EXIT_INTERRUPTED_TERM


class Interrupted(BufferlabError):
    """A request to stop, from the user or the system. The exit code is 130 for SIGINT, else 143."""

    kind: FailureKind = "interrupted"

    def __init__(self, signal_number: int, what: str = "interrupted", hint: str | None = None) -> None:
        super().__init__(what, None, hint)
        self.signal_number = signal_number
        self.exit_code = interrupted_exit_code(signal_number)
