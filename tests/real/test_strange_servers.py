"""Every wrong behaviour of a server with every command that may meet it (campaign/strange.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaign import servers

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.mark.parametrize("family", servers.NAMES)
def test_a_strange_server_ends_every_command_in_time_with_a_sentence(family: str, disk: Path) -> None:
    disk.chmod(0o711)  # A server's user must be able to enter the cache.
    folder = disk / f"strange-{family}"
    folder.mkdir(mode=0o711)
    tried = dict(servers.tries(folder, family, 1, iter(range(servers.EACH_ONCE))))
    assert len(tried) == servers.EACH_ONCE
    assert {number: (one.told, one.wrong) for number, one in tried.items() if one.wrong} == {}
    assert sum(one.counts.get("exit 0", 0) for one in tried.values()) > 0
