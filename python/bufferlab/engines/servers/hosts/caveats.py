"""What a server that bufferlab did not start cannot meet (docs/existing-server.md): told in each run as a caveat.

Whatever it could meet and did not is a confound, which fails the check of that name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from bufferlab.engines.servers.family import ReadBack


@dataclass(frozen=True)
class Others:
    """Other people's connections before a run's drivers began and after they ended."""

    before: int
    after: int
    busy: int | None
    """How many of those after asked for something meanwhile; None: the account may not see that."""

    @property
    def confounds(self) -> list[str]:
        """Return the sentence on connections that may have used the pool, if any did."""
        most = max(self.before, self.after)
        if most and self.busy is None:
            return [f"{most} other connections were open: what they asked for is in the counters too"]
        if worked := (self.busy or 0) + max(0, self.before - self.after):
            return [f"{worked} of {most} other connections were used, and what they asked for is in the counters too"]
        return []

    @property
    def caveats(self) -> list[str]:
        """Return the sentence on connections that asked for nothing."""
        most = max(self.before, self.after)
        return [f"{most} other connections were open and asked for nothing"] if most and not self.confounds else []


def caveats(
    others: Others, told: ReadBack, asked: Collection[str], as_found: Collection[str], job: Mapping[str, Any]
) -> list[str]:
    """Return the sentences on what no run on somebody else's server has."""
    said = ["the server is not bufferlab's own: its counters are of everything it did, and pages lie where it put them"]
    said += others.caveats
    if job["warm_up"]["max_transactions"] == 0:
        said.append("the window did not begin with an empty pool, as it does on a server of bufferlab's own")
    if as_found:
        shown = ", ".join(f"{name} = {told.actual[name]}" for name in as_found)
        said.append(f"as the server has it, not as on a server of bufferlab's own: {shown}")
    return [*said, *(words for name, words in told.standing.items() if name not in asked)]


def confounds(others: Others, told: ReadBack, asked: Collection[str]) -> list[str]:
    """Return the sentences on what this server could have met: `told` compares it with what was asked for alone."""
    unasked = {words for name, words in told.standing.items() if name not in asked}
    return [*others.confounds, *(words for words in told.confounds if words not in unasked)]
