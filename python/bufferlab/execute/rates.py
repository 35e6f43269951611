"""Stores the speed of each stage on this host from run to run, so that estimates become accurate.

The rates are in one small JSON file in the cache. If it is lost or damaged, the estimate is worse, which is not an
error.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bufferlab.engines.declaration import DeclaredRates
from bufferlab.units import MIB

_FORMAT_VERSION = 2
#: The fewest bytes from which a rate is computed: the time for fewer is mostly the start and the end of a process.
_LEAST_BYTES = 16 * MIB
#: Each new observation multiplies the weight of the earlier ones by this factor. So about the last ten count, which is
#: a block of most sweeps. If fewer counted, the last point of a sweep would determine the rate.
_KEPT = 0.9
#: The maximum number of keys in the file; each script and dump has one. The least recently used keys are dropped.
_MOST_KEYS = 200

Observed = tuple[float, float]
"""The weighted sums of the amounts that a stage handled, and of the seconds that it took."""


class KnownRates:
    """The rates for one engine, workload and number of connections: measured on this host, or else declared."""

    def __init__(self, cache: Path, key: str, declared: DeclaredRates) -> None:
        self._file = cache / "rates.json"
        self._key = key
        self._observed = self._read().get(key, {})
        self.now = replace(declared, **{name: _rate(sums) for name, sums in self._observed.items()})

    @property
    def is_observed(self) -> bool:
        """Return whether a run on this host measured the rate of its transactions."""
        return "transactions_per_s" in self._observed

    def observe(self, name: str, amount: float, seconds: float) -> None:
        """Record that a stage handled `amount` in `seconds`. Less than 10 ms or 16 MiB is too little for a rate.

        A rate is the sum of amounts over the sum of seconds, so that it predicts the total time of slow and quick runs.
        The mean of the runs' rates would predict too short a time, because quick runs have the highest rates.
        """
        if amount <= 0 or seconds < 0.01 or (name.endswith("_bytes_per_s") and amount < _LEAST_BYTES):
            return
        amounts, spent_s = self._observed.get(name, (0.0, 0.0))
        self._observed[name] = sums = (_KEPT * amounts + amount, _KEPT * spent_s + seconds)
        self.now = replace(self.now, **{name: _rate(sums)})

    def save(self) -> None:
        """Write the measured rates to the cache, for the next estimate."""
        known = {key: sums for key, sums in self._read().items() if key != self._key}
        kept = dict([*known.items(), (self._key, self._observed)][-_MOST_KEYS:])
        # All sweeps use the same temporary name: the next sweep overwrites the file of a killed one. If the file is
        # damaged, only rates are lost.
        temporary = self._file.with_name(".tmp-rates.json")
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps({"format_version": _FORMAT_VERSION, "observed": kept}, indent=1))
            temporary.rename(self._file)

    def _read(self) -> dict[str, dict[str, Observed]]:
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            document = json.loads(self._file.read_text())
            if document["format_version"] == _FORMAT_VERSION:
                return {
                    str(key): {
                        name: (float(amounts), float(seconds))
                        for name, (amounts, seconds) in stages.items()
                        if name in DeclaredRates.__dataclass_fields__ and _is_a_rate(amounts, seconds)
                    }
                    for key, stages in document["observed"].items()
                }
        return {}


def _rate(sums: Observed) -> float:
    amounts, seconds = sums
    return amounts / seconds


def _is_a_rate(amounts: float, seconds: float) -> bool:
    return all(math.isfinite(number) and number > 0 for number in (amounts, seconds))
