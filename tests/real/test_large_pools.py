"""Pools far larger than the touched pages, on every family: the warm-up ends although the pool never fills."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bufferlab.engines.servers.fetched import servers_root
from bufferlab.registry import open_sweep
from support import core, innodb, postgres, prepared

pytestmark = pytest.mark.real

TPCC = ("buffer-size", "--warehouses", "1")
HOT_ROWS = ("hot-rows", "--set", "rows=20000", "--set", "hot_rows=500", "--set", "page_size=4k", "--set",
            "layout=clustered")  # fmt: skip


@pytest.mark.parametrize(
    ("experiment", "server"),
    [
        (HOT_ROWS, None),
        *(pytest.param(TPCC, server, marks=pytest.mark.slow) for server in (None, "mysql-8.0", "postgres-17")),
    ],
    ids=["hot rows on sqlite", "tpcc on sqlite", "tpcc on mysql", "tpcc on postgres"],
)
def test_a_pool_with_room_for_everything_is_warm_long_before_it_has_as_many_transactions_as_frames(
    experiment: tuple[str, ...], server: str | None
) -> None:
    engine = []
    if server:
        (innodb if server.startswith("mysql") else postgres).build(server)  # Fetched, or skipped.
        engine = ["--engine", server.split("-")[0], "--server", server]
    with innodb.folder() as root:
        (root / "cache").mkdir(mode=0o711)
        (root / "cache" / "servers").symlink_to(servers_root())
        # With both experiments a warm-up that reaches its cap fails the run.
        options = ["--sweep", "pool_size=1GiB", "--repetitions", "1", "--transactions", "500", "--share-device"]
        arguments = [*experiment, *engine, *options, "--out", root / "out", "--data-dir", root / "data", "--json"]
        done = prepared.run(["run", *arguments], core.environment(root), 600)
        assert done.returncode == 0, done.stderr
        [record] = open_sweep(Path(json.loads(done.stdout)["sweep"])).runs()
        warm_up = record.run.warm_up
        assert warm_up is not None
        assert warm_up.gate == "no_new_pages"
        # 1 GiB has at least 65,536 frames.
        assert 10_000 <= warm_up.transactions < 30_000
