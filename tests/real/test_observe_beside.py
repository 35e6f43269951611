"""`observe` compared with `run` on one window of a minute: gets and reads per transaction agree within 2 %.

`run` divides by the transactions of its drivers, `observe` by those that the server counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bufferlab.results.window import Window
from support import innodb, postgres
from support.fake import Bench, Ended, wait

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.servers]

WINDOW, OBSERVED = "90s", "62s"
TOLERANCE_RATIO = 0.02
POOL_BYTES = 16 << 20
ROWS = 200_000
"""Rows of three times the pool, so that most selects miss."""
INNODB = {
    "innodb_buffer_pool_size": str(POOL_BYTES),
    "innodb_lru_scan_depth": "100",
    "innodb_old_blocks_time": "0",
    "log_bin": "log",
    "performance_schema": "ON",
    "performance_schema_instrument": "%=ON",
}
ONE = "-- transaction: one\n\\set id random(1, :rows)\nSELECT c FROM sbtest1 WHERE id = :id;\n"
FORTY = "-- transaction: forty\n{sets}\nBEGIN;\n{selects}\nCOMMIT;\n".format(
    sets="\n".join(f"\\set id{number} random(1, :rows)" for number in range(38)),
    selects="\n".join(f"SELECT c FROM sbtest1 WHERE id = :id{number};" for number in range(38)),
)


@dataclass(frozen=True)
class Serving:
    """A server that bufferlab did not start, from the view of `run`."""

    engine: str
    url: str
    settings: tuple[str, ...] = ()


@contextmanager
def mysql(name: str, root: Path, patch: pytest.MonkeyPatch) -> Iterator[Serving]:
    place = innodb.Place(innodb.build(name), root).initialise()
    identity, flavour = place.with_accounts(), place.build.flavour
    patch.setenv("BUFFERLAB_PASSWORD", identity.password)
    settings = INNODB if flavour == "mariadb" else {**INNODB, "server_id": "7"}
    with place.server((identity.user, identity.password), connections=40, settings=settings) as server:
        url = f"mysql://{identity.user}@localhost/lab?socket={server.socket}"
        yield Serving(flavour, url, ("--set", "lru_scan_depth=100"))


@contextmanager
def postgresql(name: str, root: Path, patch: pytest.MonkeyPatch) -> Iterator[Serving]:
    place = postgres.Place(postgres.build(name), root).initialise()
    patch.setenv("BUFFERLAB_PASSWORD", place.identity.password)
    settings = {"shared_buffers": f"{POOL_BYTES >> 20}MB", "track_io_timing": "on"}
    with place.server(connections=40, settings=settings) as server:
        yield Serving("postgres", f"postgres://{place.identity.user}@localhost/lab?socket={server.socket.parent}")


@pytest.fixture(scope="module", params=["mysql-5.7", "mysql-9", "mariadb-11.4", "postgres-17"])
def serving(request: pytest.FixtureRequest) -> Iterator[Serving]:
    start = postgresql if request.param.startswith("postgres") else mysql
    with innodb.folder() as root, pytest.MonkeyPatch.context() as patch, start(request.param, root, patch) as found:
        yield found


def observed_within(bench: Bench, serving: Serving, script: Path) -> tuple[Ended, Ended]:
    """Run the script for a window, and observe the server inside the window; return how both commands ended."""
    running = bench.start(
        "run", script, "--engine", serving.engine, "--server", serving.url, *serving.settings, "--quick",
        "--set", "data=hot_rows", "--set", f"rows={ROWS}", "--set", f"pool_size={POOL_BYTES >> 20}MiB",
        "--repetitions", "1", "--connections", "4", "--duration", WINDOW, "--share-device", "--out", bench.out,
    )  # fmt: skip
    try:
        assert running.stderr
        heard = []
        for line in running.stderr:
            heard.append(line)
            if ": measuring" in line:
                break
        assert running.poll() is None, "".join(heard)
        time.sleep(2)
        looked = bench.bufferlab("observe", serving.url, "--duration", OBSERVED, "--json")
        assert running.poll() is None, "the window was over before observe was"
        return looked, wait(running, 600)
    finally:
        running.kill()


@pytest.mark.parametrize("script", [ONE, FORTY], ids=["autocommit selects", "40 statements a transaction"])
def test_gets_and_reads_a_transaction_are_those_of_the_run_beside_it(serving: Serving, script: str) -> None:
    with innodb.folder() as root:
        bench, file = Bench(root), root / "load.sql"
        file.write_text(script)
        looked, ran = observed_within(bench, serving, file)
        assert looked.code == 0, looked.err
        assert ran.code == 0, ran.err
        (record,) = bench.sweep().runs()
        assert record.run.measured
        window, transactions = Window.of(record.samples()), record.run.measured.transactions
    assert window.seconds
    seen = looked.json
    assert 60 <= seen["seconds"] <= window.seconds
    assert seen["events"] == []
    assert seen["transactions_are"] == "transactions"
    for name in ("page_gets", "pages_read"):
        counted = window.change(name).value
        assert counted, name
        each = counted / transactions
        print(f"{serving.engine} {name} a transaction: run {each:.5g}, observe {seen['per_transaction'][name]:.5g}; "
              f"transactions a second: run {transactions / window.seconds:.5g}, observe "
              f"{seen['per_second']['transactions']:.5g}")  # fmt: skip
        assert seen["per_transaction"][name] == pytest.approx(each, rel=TOLERANCE_RATIO), name
    assert seen["cost"]["core_ratio"] <= 0.01
