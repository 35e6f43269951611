"""Draws the randomness of a plan from one number: the order within each block, and the seed of each block.

Only `random.Random(int).random()` is used: Python promises to keep its sequence for a given seed.
`shuffle` and `randrange` carry no such promise. Ten years from now the same experiment gives the same plan.
"""

from __future__ import annotations

import hashlib
import random

_SEED_BITS = 53
"""Seeds pass through JSON, whose readers keep 53 bits."""


def derived_seed(purpose: str, seed: int, block: int) -> int:
    """Return a seed for one purpose and block: SHA-256 of all three, so that neighbouring blocks share nothing."""
    digest = hashlib.sha256(f"bufferlab/1/{purpose}/{seed}/{block}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - _SEED_BITS)


def run_seed(seed: int, block: int) -> int:
    """Return the workload's seed, the same for all runs of a block, so that differences between points are paired."""
    return derived_seed("run", seed, block)


def block_order(points: int, seed: int, block: int) -> list[int]:
    """Return the points' indexes in the order in which this block runs them.

    >>> sorted(block_order(5, seed=1, block=0))
    [0, 1, 2, 3, 4]
    """
    generator = random.Random(derived_seed("order", seed, block))
    keys = [generator.random() for _ in range(points)]
    return sorted(range(points), key=keys.__getitem__)
