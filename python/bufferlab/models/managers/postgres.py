"""PostgreSQL's shared buffers: a clock sweep with usage counts (crates/bufferlab-sim/src/managers/postgres.rs).

A trace has pins and no unpins. With many connections a pin by the page's last process counts as one still held. One
process alone would then never raise a usage count above 1, so its points have no single prediction.
"""

from __future__ import annotations

from bufferlab.models.managers.declaration import BothEnds, BufferManager, Point, Settings

_HELD: Settings = {"pin_held_for": 2**32 - 1}
_LET_GO: Settings = {"pin_held_for": 0}


def _both_ends(point: Point) -> BothEnds | None:
    if point.connections > 1:
        return None
    why = "one connection made the trace, which does not tell how long it holds a page"
    return BothEnds(why, (("every pin counts", _LET_GO), ("a page stays pinned", _HELD)))


MANAGER = BufferManager(
    name="postgres",
    version=1,
    meaning="PostgreSQL's shared buffers: a clock sweep with usage counts",
    servers="postgres >= 15, < 19",
    defaults={},
    settings=lambda _server, _values: _HELD,
    presumes={},
    both_ends=_both_ends,
)
