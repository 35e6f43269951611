"""The rates that a host remembers: the time of slow and quick runs together, and outdated rates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bufferlab.engines.declaration import RATES_OF_SERVERS
from bufferlab.execute import rates
from bufferlab.execute.rates import KnownRates
from bufferlab.units import MIB

KEY = "mysql/tpcc/8"


def known(cache: Path, key: str = KEY) -> KnownRates:
    return KnownRates(cache, key, RATES_OF_SERVERS)


def test_the_rates_of_a_sweep_give_the_time_of_all_its_points(tmp_path: Path) -> None:
    """The mean of the rates would give a third of the time that small and large pools take to warm up."""
    seconds = [2.15, 19.6, 3.0] * 30
    found = known(tmp_path)
    for spent_s in seconds:
        found.observe("warm_up_bytes_per_s", 77 * MIB, spent_s)
    told_s = len(seconds) * 77 * MIB / found.now.warm_up_bytes_per_s
    assert told_s == pytest.approx(sum(seconds), rel=0.1)


def test_later_runs_replace_earlier_ones(tmp_path: Path) -> None:
    found = known(tmp_path)
    for per_s in (100, 1000):
        for _ in range(60):
            found.observe("transactions_per_s", 5000, 5000 / per_s)
    assert found.now.transactions_per_s == pytest.approx(1000, rel=0.02)


def test_what_was_observed_is_known_to_the_next_sweep_alone_of_its_kind(tmp_path: Path) -> None:
    first = known(tmp_path)
    assert not first.is_observed
    first.observe("transactions_per_s", 5000, 10)
    first.observe("load_bytes_per_s", 15 * MIB, 10)
    first.save()
    again, other = known(tmp_path), known(tmp_path, "mysql/tpcc/1")
    assert again.is_observed
    assert again.now.transactions_per_s == 500
    assert again.now.load_bytes_per_s == RATES_OF_SERVERS.load_bytes_per_s, "too few bytes for a rate"
    assert not other.is_observed
    assert other.now == RATES_OF_SERVERS


@pytest.mark.parametrize("sums", [[0, 1], [1, 0], [1], "12", [1, float("nan")], [-1, 1], None])
def test_a_damaged_file_leaves_the_declared_rates(tmp_path: Path, sums: object) -> None:
    document = {"format_version": 2, "observed": {KEY: {"transactions_per_s": sums}}}
    (tmp_path / "rates.json").write_text(json.dumps(document))
    assert known(tmp_path).now == RATES_OF_SERVERS


def test_the_file_keeps_the_keys_used_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_MOST_KEYS", 2)
    for key in ("a", "b", "a", "c"):
        one = known(tmp_path, key)
        one.observe("transactions_per_s", 10, 1)
        one.save()
    assert [known(tmp_path, key).is_observed for key in ("a", "b", "c")] == [True, False, True]
