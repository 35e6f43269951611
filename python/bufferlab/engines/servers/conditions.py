"""Reads a workload's consistency conditions from the files of its folder, in the server's SQL dialect if it has one.

Asks no server: each family's conditions.py does, with its own client.
"""

from __future__ import annotations

import importlib.resources
import re
import tomllib
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Any

from bufferlab.errors import InternalError

TREES = 0
"""The number of the condition that every database must meet; a workload's conditions begin at 1."""
NOT_OURS = "is this the workload's database? load it again with the command that made it"


@dataclass(frozen=True)
class Condition:
    """One consistency condition of a workload's specification."""

    number: int
    name: str
    query: str

    @property
    def code(self) -> str:
        """The query without its comments and its final semicolon.

        >>> Condition(1, "b", "-- a: b\\nSELECT 1;").code
        'SELECT 1'
        """
        return re.sub(r"(?m)^--.*\n?", "", self.query).strip().rstrip(";")

    @property
    def variables(self) -> set[str]:
        """The :names the query uses."""
        return set(re.findall(VARIABLE, self.code))


VARIABLE = r"(?<![:\w]):([a-z_]+)"


def folder_of(workload: str) -> Traversable:
    """Return the folder of a workload's conditions."""
    return importlib.resources.files("bufferlab.workloads").joinpath(workload, "consistency")


def expected(folder: Traversable) -> dict[str, Any]:
    """Return the content of the folder's expect.toml; empty when there is none."""
    file = folder.joinpath("expect.toml")
    return tomllib.loads(file.read_text("utf-8")) if file.is_file() else {}


def conditions(folder: Traversable, dialect: str) -> list[Condition]:
    """Return the conditions in the specification's order. A file in the dialect's subfolder replaces the shared one."""
    if not folder.is_dir():
        return []
    shared = {file.name: file for file in folder.iterdir() if file.name.endswith(".sql")}
    own = folder.joinpath(dialect)
    if own.is_dir():
        shared |= {file.name: file for file in own.iterdir() if file.name.endswith(".sql")}
    return [_parsed(name, file.read_text("utf-8")) for name, file in sorted(shared.items())]


def _parsed(file_name: str, query: str) -> Condition:
    number, name = re.fullmatch(r"condition_(\d+)\.sql", file_name), re.match(r"-- .*?: (.+)\n", query)
    if number is None or name is None:
        raise InternalError(f"{file_name} is not a consistency condition", file_name)
    return Condition(int(number[1]), name[1], query)
