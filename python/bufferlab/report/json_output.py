"""Makes the object that a command prints with --json, from the fields of dataclasses.

A class lists the names of its JSON keys in `PRINTED` if it is not a dataclass, or if JSON should not have all of its
fields. In `PRINTED`, `facts.version` means the attribute `version` of the attribute `facts`, under the key `version`.
`ALSO_PRINTED` lists properties that come after the fields. If a class has a method `as_dict`, that makes the object.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from operator import attrgetter
from pathlib import Path
from typing import Any

FORMAT_VERSION = 3
"""The version of the format of all objects that commands print. Later versions may add keys, but rename none."""


def printed(value: object) -> Any:
    """Return a value as JSON can hold it. Numbers are unrounded; those that JSON lacks (NaN, infinity) are None.

    Raises TypeError for a class that does not say which of its attributes belong into the JSON.

    >>> printed({"size": math.inf, "at": Path("runs"), 50: (1, None)})
    {'size': None, 'at': 'runs', '50': [1, None]}
    """
    match value:
        case None | bool() | int():
            return value
        case Enum():
            return printed(value.value)
        case str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Path():
            return str(value)
        case datetime():
            return value.isoformat()
        case Mapping():
            return {str(name): printed(one) for name, one in value.items()}
        case Sequence() | frozenset():
            return [printed(one) for one in value]
    if as_dict := getattr(value, "as_dict", None):
        return printed(as_dict())
    names = names_of(type(value))
    if names is None:
        raise TypeError(f"nothing says what JSON has of a {type(value).__name__}")
    found = ((name.rpartition(".")[2], attrgetter(name)(value)) for name in names)
    return {name: printed(one() if callable(one) else one) for name, one in found}


def names_of(kind: type) -> tuple[str, ...] | None:
    """Return the names of a class's attributes that go into the JSON, in order; None for a class that lists none."""
    # Tables of run.json and plan.json are pydantic models, which have `model_fields`.
    found = getattr(kind, "PRINTED", None) or getattr(kind, "model_fields", None)
    if found is None and not is_dataclass(kind):
        return None
    names = tuple(found) if found is not None else tuple(field.name for field in fields(kind))
    return (*names, *getattr(kind, "ALSO_PRINTED", ()))
