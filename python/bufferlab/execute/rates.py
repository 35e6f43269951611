"""Remembers the speed of each stage on this host from run to run, so that estimates come true.

The rates are kept in one small JSON file in the cache. A lost or damaged file makes an estimate worse, and is not an
error.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from bufferlab.engines.declaration import DeclaredRates
from bufferlab.units import MIB

_FORMAT_VERSION = 1
#: The fewest bytes from which a rate is observed: the time for fewer is mostly the start and the end of a process.
_LEAST_BYTES = 16 * MIB
_WEIGHT_OF_NEW = 0.5


class KnownRates:
    """The rates of one engine and workload: as observed on this host, else as declared."""

    def __init__(self, cache: Path, key: str, declared: DeclaredRates) -> None:
        self._file = cache / "rates.json"
        self._key = key
        self.now = replace(declared, **self._read().get(key, {}))
        self._observed: set[str] = set(self._read().get(key, {}))

    def observe(self, name: str, amount: float, seconds: float) -> None:
        """Note that a stage handled `amount` in `seconds`. Less than 10 ms or 16 MiB is too little for a rate.

        A new rate counts as much as all earlier ones together.
        """
        if amount <= 0 or seconds < 0.01 or (name.endswith("_bytes_per_s") and amount < _LEAST_BYTES):
            return
        rate = amount / seconds
        if name in self._observed:
            rate = _WEIGHT_OF_NEW * rate + (1 - _WEIGHT_OF_NEW) * float(getattr(self.now, name))
        self._observed.add(name)
        self.now = replace(self.now, **{name: rate})

    def save(self) -> None:
        """Write the observed rates to the cache, for the next estimate."""
        rates = asdict(self.now)
        known = {**self._read(), self._key: {name: rates[name] for name in sorted(self._observed)}}
        # All sweeps use one name: the next sweep overwrites a killed one's file, and a torn file only loses rates.
        temporary = self._file.with_name(".tmp-rates.json")
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps({"format_version": _FORMAT_VERSION, "rates": known}, indent=1))
            temporary.rename(self._file)

    def _read(self) -> dict[str, dict[str, float]]:
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            document = json.loads(self._file.read_text())
            if document["format_version"] == _FORMAT_VERSION:
                return {
                    str(key): {
                        name: float(rate) for name, rate in rates.items() if name in DeclaredRates.__dataclass_fields__
                    }
                    for key, rates in document["rates"].items()
                }
        return {}
