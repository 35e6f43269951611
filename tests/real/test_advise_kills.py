"""`bufferlab advise` is killed 50 times in each tier while it is attached: the servers stay as they were, and as fast.

Several servers run at once, each from a separate copy of the build, because a look lasts ten seconds before it
attaches. A further server has the same load and is never looked at. Speeds are ratios to this server's speed, from
selects that take turns, so that a slow minute of the machine does not count.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bufferlab.stats.estimate import quantile_of_t
from real.test_advise import started
from real.test_live_trace import ROWS, Served, kernel, served
from support import innodb
from support.fake import wait_until
from support.traced_servers import bpf_programs, records

__all__ = ["kernel"]

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.alone]

KILLS = 50
"""Kills in each tier."""
LANES = 3
LATEST_S = 4.0
"""The latest time of a kill, in seconds after the first probe; both tiers stay attached for longer."""
ROUNDS, SELECTS = 48, 1000
CACHED = ROWS // 8
"""The rows that the pool holds: the processor limits their speed, and a probe left behind would cost a trap a page."""
MOST = 1.15
"""The factor on a select's processor time that counts as slower: a probe at each get adds more."""
CALM = 0.25
"""The quantile of rounds that are hardly disturbed, a quarter; the least disturbed round alone would be chance."""
_STATE = (
    "SHOW GLOBAL VARIABLES",
    "SELECT table_schema, table_name, column_name, ordinal_position, column_type FROM information_schema.columns "
    "ORDER BY 1, 2, 4",
    "SELECT user, host, plugin, account_locked, password_last_changed FROM mysql.user ORDER BY 1, 2",
    "SELECT name, enabled FROM performance_schema.setup_consumers ORDER BY 1",
    "CHECKSUM TABLE t",
)
_SESSIONS = "SELECT id, user, command, info FROM information_schema.processlist WHERE id <> CONNECTION_ID()"


@dataclass
class Lane:
    """A server with its load, and its state before anything was attached."""

    served: Served
    seed: int
    before: list[Any] = field(default_factory=list)

    def state(self) -> list[Any]:
        """Return its settings, schema, accounts and rows."""
        return [self.rows(question) for question in _STATE]

    def rows(self, question: str) -> list[Any]:
        with closing(self.served.server.connect("bufferlab")) as connection:
            return list(connection.ask(question)[1])

    @contextmanager
    def working(self) -> Iterator[None]:
        """Run a load meanwhile, which must succeed and leaves the rows as they were."""
        ended, failed = threading.Event(), []

        def work() -> None:
            try:
                self._work(ended)
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        assert failed == []

    def _work(self, ended: threading.Event) -> None:
        chosen = np.random.default_rng(self.seed)
        with closing(self.served.server.connect("bufferlab", patient=True)) as connection:
            while not ended.is_set():
                for number in chosen.integers(0, ROWS, 20).tolist():
                    connection.ask(f"SELECT filler FROM t WHERE id = {number}")
                for change in ("+ 1", "- 1"):
                    connection.ask(f"UPDATE t SET v = v {change} WHERE id = {number}")

    def spent(self) -> tuple[float, float]:
        """Return the logarithms of the elapsed and processor time of a few selects, of rows that the pool holds."""
        chosen = np.random.default_rng(self.seed).integers(0, CACHED, SELECTS).tolist()
        with closing(self.served.server.connect("bufferlab", patient=True)) as connection:
            before, begun = self._threads(), time.monotonic()
            for number in chosen:
                connection.ask(f"SELECT filler FROM t WHERE id = {number}")
            took_s, after = time.monotonic() - begun, self._threads()
        # The busiest thread is that of the session itself: the server's clean-up by other threads is not part of a
        # select.
        return float(np.log(took_s)), float(np.log(max(after[name] - before.get(name, 0) for name in after)))

    def _threads(self) -> dict[str, int]:
        """Return the nanoseconds of the server's threads."""
        tasks = Path(f"/proc/{self.served.pid}/task").iterdir()
        return {task.name: int((task / "schedstat").read_text().split()[0]) for task in tasks}

    def kill(self, tier: str, moment_s: float) -> int:
        """Kill a command `moment_s` after its first probe; require the state before; return the command's process
        number."""
        with self.working():
            process = started(self.served, "--within", "30s", "--tier", tier)
            try:
                wait_until(lambda: process.poll() is not None or records(process.pid), "the programs", 120)
                time.sleep(moment_s)
                assert process.poll() is None
                assert records(process.pid)
            finally:
                process.kill()
                process.communicate(timeout=60)
        wait_until(lambda: self.rows(_SESSIONS) == [], "its session to end", 30)
        self.served.require_untouched()
        assert self.state() == self.before
        assert list((self.served.root / "temporary").iterdir()) == []
        return process.pid


def spent(servers: Sequence[Lane]) -> np.ndarray[Any, Any]:
    """Return the logarithms of the times of a few selects, by round, server, and elapsed or processor time. Servers
    take turns."""
    found = np.empty((ROUNDS + 1, len(servers), 2))
    for place in range(ROUNDS + 1):
        for turn in range(len(servers)):
            number = (place + turn) % len(servers)
            found[place, number] = servers[number].spent()
    return found[1:]  # The first round fills the pools.


def require_as_fast(before: np.ndarray[Any, Any], after: np.ndarray[Any, Any]) -> None:
    """Require that the 99.9 % intervals of a select's time after the kills, divided by that before, reach down to 1.

    The last server is the one that was never looked at. A busy machine makes these intervals wide, but some rounds are
    hardly disturbed: the lower quartile of the processor time must be the same.
    """
    by_round = [one[:, :-1].mean(axis=1) - one[:, -1] for one in (before, after)]
    change = by_round[1].mean(axis=0) - by_round[0].mean(axis=0)
    errors = np.hypot(*(one.std(axis=0, ddof=1) for one in by_round)) / ROUNDS**0.5
    half = quantile_of_t(0.9995, ROUNDS - 1) * errors
    low, found, high = (np.exp(value) for value in (change - half, change, change + half))
    for place, what in enumerate(("time", "processor time")):
        print(f"{what} of a select, over that before: {found[place]:.3f} ({low[place]:.3f} to {high[place]:.3f})")
    calm = np.exp(np.subtract(*(np.quantile(one[:, :, 1], CALM, axis=0) for one in (after, before))))
    print("lower quartile of a select's processor time, over that before, by server:", np.round(calm, 3))
    assert np.all(low <= 1)
    assert np.all(calm[:-1] / calm[-1] < MOST)


@pytest.mark.parametrize("tier", ["misses", "full"])
def test_kills_while_attached_leave_the_server_as_it_was_and_as_fast(tier: str) -> None:
    programs = bpf_programs()
    moments = np.random.default_rng(20_261_125).uniform(0, LATEST_S, KILLS)
    # Some kills must come while the probes are being attached.
    moments[::5] *= 0.01
    with ExitStack() as stack:
        made = [
            stack.enter_context(served("mysql-5.7", stack.enter_context(innodb.folder()))) for _ in range(LANES + 1)
        ]
        *lanes, beside = (Lane(server, seed) for seed, server in enumerate(made))
        for lane in lanes:
            lane.before = lane.state()
        before = spent([*lanes, beside])

        def kills(place: int) -> list[int]:
            return [lanes[place].kill(tier, moment_s) for moment_s in moments[place::LANES].tolist()]

        with beside.working(), ThreadPoolExecutor(LANES) as pool:
            killed = [pid for pids in pool.map(kills, range(LANES)) for pid in pids]
        assert len(killed) == KILLS
        require_as_fast(before, spent([*lanes, beside]))
    assert bpf_programs() <= programs
