"""What the stages cost on this host, remembered from run to run, so that estimates come true.

One small JSON file in the cache; a lost or damaged one costs a worse estimate, so it is never an error.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from bufferlab.engines.declaration import Rates
from bufferlab.units import MIB

_FORMAT_VERSION = 1
#: What a smaller database takes is mostly the start and the end of a process.
_LEAST_BYTES = 16 * MIB
_WEIGHT_OF_NEW = 0.5


class KnownRates:
    """The rates of one engine and workload, as declared until something was observed."""

    def __init__(self, cache: Path, key: str, declared: Rates) -> None:
        self._file = cache / "rates.json"
        self._key = key
        self.now = replace(declared, **self._read().get(key, {}))
        self._observed: set[str] = set(self._read().get(key, {}))

    def observe(self, name: str, amount: float, seconds: float) -> None:
        """A stage handled so much in so long; trifles say nothing about a rate."""
        if amount <= 0 or seconds < 0.01 or (name.endswith("_bytes_per_s") and amount < _LEAST_BYTES):
            return
        rate = amount / seconds
        if name in self._observed:
            rate = _WEIGHT_OF_NEW * rate + (1 - _WEIGHT_OF_NEW) * float(getattr(self.now, name))
        self._observed.add(name)
        self.now = replace(self.now, **{name: rate})

    def save(self) -> None:
        """Keep what was observed for the next estimate."""
        rates = asdict(self.now)
        known = {**self._read(), self._key: {name: rates[name] for name in sorted(self._observed)}}
        # One name for all: what a killed sweep leaves is overwritten, and a torn file is only a lost memory.
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
                    str(key): {name: float(rate) for name, rate in rates.items() if name in Rates.__dataclass_fields__}
                    for key, rates in document["rates"].items()
                }
        return {}
