"""The bases of every object that a command prints, and how an error is printed."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Number = float | None


class Document(BaseModel):
    """The base of every object: a key that is not declared here would be undocumented."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Printed(Document):
    """The base of what a command prints."""

    format_version: Literal[1, 2]
    """Of this object; later versions add keys and rename none."""


class Problem(Document):
    what: str
    where: str | None
    hint: str | None


class Error(Printed):
    """Any command that ended with an error."""

    status: Literal["error"]
    exit_code: int
    kind: str
    """Of which kind the failure is: docs/reliability.md lists them."""
    errors: list[Problem]
