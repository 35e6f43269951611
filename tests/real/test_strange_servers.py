"""Every behaviour of a server that is not what it seems, before every command that meets one (campaign/strange.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaign import servers

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.mark.parametrize("family", servers.NAMES)
def test_a_strange_server_ends_every_command_in_time_with_a_sentence(family: str, disk: Path) -> None:
    disk.chmod(0o711)  # A server's user must reach the cache.
    folder = disk / f"strange-{family}"
    folder.mkdir(mode=0o711)
    tried = dict(servers.tries(folder, family, 1, iter(range(servers.EACH_ONCE))))
    assert len(tried) == servers.EACH_ONCE
    assert {number: (one.told, one.wrong) for number, one in tried.items() if one.wrong} == {}
    assert sum(one.counts.get("exit 0", 0) for one in tried.values()) > 0
