"""The values that the command line changes in an experiment. Pure data; merge.py applies them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Profile = Literal["quick", "full", "smoke"]
PROFILES: tuple[Profile, ...] = ("quick", "full", "smoke")


@dataclass(frozen=True)
class Overrides:
    """The values of flags. None or empty means that the flag was not given.

    `set_knobs` and `sweep` hold settings of engine, workload and load alike.
    """

    profile: Profile | None = None
    engine: str | None = None
    script: str | None = None
    """The script given in place of an experiment."""
    set_knobs: tuple[tuple[str, str], ...] = ()
    sweep: tuple[tuple[str, tuple[str, ...]], ...] = ()
    repetitions: int | None = None
    transactions: int | None = None
    duration: str | None = None
    warehouses: int | None = None
    connections: int | None = None
    seed: int | None = None
