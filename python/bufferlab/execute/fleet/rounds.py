"""Decides which node does which block next, and when a block has been tried often enough. Pure: no clock, no Ray.

One host does a whole block. Its received runs can be continued only on that host; on any other host the block starts
over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

MOST_TRIES = 3
"""How often an incomplete block is tried in all."""

Host = tuple[str, str]
"""One boot of a host: its `host_id` and `boot_key`."""


@dataclass(frozen=True)
class Node:
    """A node of the cluster that may do blocks."""

    node_id: str
    name: str
    """The node's address, which messages show."""
    cpus: float
    host: Host = ("", "")


@dataclass
class _Block:
    number: int
    host: Host | None = None
    """The host whose runs of this block were received; None if there are none."""
    tries: int = 0
    failed_on: set[str] = field(default_factory=set)


class Rounds:
    """The incomplete blocks: each waits, is being done by a node, or was given up."""

    def __init__(self, blocks: Iterable[tuple[int, Host | None]]) -> None:
        """`blocks` are the blocks to do, counted from 0, each with the host of its received runs."""
        self._waiting = [_Block(number, host) for number, host in blocks]
        self._begun: dict[int, _Block] = {}
        self._given_up: list[_Block] = []

    @property
    def waiting(self) -> list[int]:
        """Return the numbers, from 0, of the blocks that wait for a node."""
        return [block.number for block in self._waiting]

    @property
    def missing(self) -> list[int]:
        """Return the numbers, from 0, of all incomplete blocks: waiting, being done, or given up."""
        return sorted(block.number for block in (*self._waiting, *self._begun.values(), *self._given_up))

    def begin(self, node: Node, alive: Collection[Node]) -> int | None:
        """Return the block that an idle node does next, and mark it as begun; None if none is left for this node.

        While no block is being done, one of the `alive` nodes gets a block if any block waits.
        """
        fit = [block for block in self._waiting if _suits(block, node, alive)]
        if not fit:
            return None
        block = min(fit, key=lambda block: (block.tries, block.number))
        self._waiting.remove(block)
        block.tries += 1
        self._begun[block.number] = block
        return block.number

    def end(self, number: int, node: Node, *, whole: bool, host: Host | None) -> bool:
        """Record that a node has finished its work on a block; `host` is that of the block's received runs.

        Return whether the block is tried again.
        """
        block = self._begun.pop(number)
        if whole:
            return False
        block.failed_on.add(node.node_id)
        block.host = host
        again = block.tries < MOST_TRIES
        (self._waiting if again else self._given_up).append(block)
        return again

    def give_up(self, number: int) -> None:
        """Stop trying a waiting block: another try would fail as the last one did."""
        for block in [block for block in self._waiting if block.number == number]:
            self._waiting.remove(block)
            self._given_up.append(block)


def _suits(block: _Block, node: Node, alive: Collection[Node]) -> bool:
    """Return whether an idle node may do a waiting block.

    If the host that did the block's earlier runs has a node, this node continues them, but only once. Otherwise nodes
    on which the block has not failed are preferred.
    """
    at_home = block.host is not None and any(other.host == block.host for other in alive)
    if at_home and block.tries < MOST_TRIES - 1:
        return node.host == block.host
    return node.node_id not in block.failed_on or all(other.node_id in block.failed_on for other in alive)
