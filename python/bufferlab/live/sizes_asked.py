"""The pool sizes that `advise` judges: the option --sizes, the default sizes, and the refused sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from bufferlab.errors import SpecError
from bufferlab.live.live_trace import Tier
from bufferlab.units import MIB, TIB, UnitError, parse_size

_LARGEST_BYTES = 1024 * TIB
"""The largest pool size that a user may request; the smallest is 1 MiB."""
_SHARES: Mapping[Tier, tuple[float, ...]] = {"misses": (1.25, 1.5, 2.0, 4.0), "full": (0.5, 0.75, 1.5, 2.0, 4.0)}
"""The pool sizes that each tier judges by default, as multiples of the pool's present size."""

SizeAsked = Callable[[int], int]
"""A function that returns a pool size in bytes, given the present pool's size."""


def parse_sizes(text: str | None) -> tuple[SizeAsked, ...]:
    """Return the sizes that the option --sizes lists; () without the option.

    Raises SpecError for a text that is not a size or percentage, and for a size that no pool can have.
    """
    return tuple(_size(part.strip()) for part in text.split(",")) if text else ()


def _size(part: str) -> SizeAsked:
    try:
        size = parse_size(part)
    except UnitError as error:
        raise SpecError(error.what, "--sizes", error.hint) from error
    ratio, size_bytes = size.ratio, size.size_bytes or 0
    if not (0 < ratio <= _LARGEST_BYTES / MIB if ratio is not None else MIB <= size_bytes <= _LARGEST_BYTES):
        hint = 'write sizes such as "256MiB,1GiB" or "50%,200%" of the present one'
        raise SpecError(f'"{part}" is no size of a pool', "--sizes", hint)
    return (lambda _: size_bytes) if ratio is None else partial(_share, float(ratio))


def sizes_of(asked: Sequence[SizeAsked], tier: Tier, present_bytes: int) -> tuple[int, ...]:
    """Return the sizes to judge in rising order, without the present one, unless it is the only one."""
    wanted = asked or tuple(partial(_share, ratio) for ratio in _SHARES[tier])
    return tuple(sorted({one(present_bytes) for one in wanted} - {present_bytes})) or (present_bytes,)


def _share(ratio: float, present_bytes: int) -> int:
    return int(ratio * present_bytes)


def require_told(tier: Tier, sizes: Sequence[int], present_bytes: int) -> None:
    """Raise SpecError if the options allow no answer: only the present size, or a smaller one with tier `misses`."""
    if sizes == (present_bytes,):
        raise SpecError("no other size than the present one is asked about", "--sizes", "name another, as in 50%,200%")
    if tier == "misses" and sizes[-1] < present_bytes:
        what = "what a pool reads and evicts tells nothing of smaller pools"
        raise SpecError(what, "--sizes", "add --tier full, which records all accesses, or name a larger size")
