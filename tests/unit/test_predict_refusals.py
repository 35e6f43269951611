"""Predictions that are impossible, and are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.fake import Bench
from support.predicted import LOOP, SERVER, predict, told
from support.synthetic import reseal
from support.traced import build


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--sweep", "page_size=8KiB,16KiB"), "the model innodb57 does not know page_size"),
        (("--sweep", "io_capacity=100,200"), "the model innodb57 does not know io_capacity"),
        (("--set", "flush_method=fsync"), "the model innodb57 does not know flush_method"),
        (("--set", "warehouses=3"), "the model innodb57 does not know warehouses"),
        (("--set", "no_such=1"), 'there is no setting "no_such"'),
        (("--sweep", "pool_size=0"), "pool_size = 0 is below the minimum"),
        (("--sweep", "pool_size=5MiB"), "mysql needs 384"),
        (("--sweep", "pool_size=16TiB"), "cannot be replayed"),
    ],
)
def test_what_no_model_can_tell_is_refused_by_name(
    bench: Bench, tmp_path: Path, arguments: tuple[str, str], what: str
) -> None:
    folder = build(tmp_path, LOOP, LOOP, **SERVER)
    ended = predict(bench, folder.path, *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert what in ended.err
    assert arguments[1].split("=")[1] in ended.err


def test_a_swept_setting_that_the_model_does_not_know_stays_as_it_ran(bench: Bench, tmp_path: Path) -> None:
    folder = build(tmp_path, LOOP, LOOP, **SERVER)
    assert told(bench, folder.path, "--set", "page_size=16k")["points"]
    swept = SERVER | {"sweep": 'io_capacity = ["200", "400"]\npool_size = ["16MiB"]'}
    folder = build(tmp_path / "swept", LOOP, LOOP, **swept)
    as_traced = told(bench, folder.path)["points"]
    assert len(as_traced) == 1
    assert len(told(bench, folder.path, "--set", "io_capacity=200")["points"]) == 1
    assert predict(bench, folder.path, "--set", "io_capacity=400").code == 2


@pytest.mark.parametrize(("engine", "version"), [("mysql", "10.0.1"), ("mysql", "5.5.60"), ("postgres", "14.9")])
def test_a_server_without_a_model_is_refused_with_the_models_there_are(
    bench: Bench, tmp_path: Path, engine: str, version: str
) -> None:
    server = SERVER if engine == "mysql" else {"sweep": 'pool_size = ["2MiB"]', "page_size": "8KiB"}
    folder = build(tmp_path, LOOP, LOOP, **(server | {"engine": engine, "version": version}))
    ended = predict(bench, folder.path)
    assert ended.code == 2
    assert f"there is no model of {engine} {version}" in ended.err
    assert "innodb57 (mysql >= 5.6" in ended.err


def test_a_run_without_a_good_trace_is_refused(bench: Bench, tmp_path: Path) -> None:
    failed = {"status": "failed", "reason": "the disk was full", "hint": "repeat the run"}
    folder = build(tmp_path / "failed", LOOP, LOOP, trace=failed)
    ended = predict(bench, folder.path)
    assert ended.code == 65
    assert "the page trace failed: the disk was full" in ended.err
    bench.measure(bench.experiment(repetitions=1))
    ended = predict(bench, bench.sweep_path())
    assert ended.code == 65
    assert "there is no page trace" in ended.err


def test_an_altered_trace_is_refused(bench: Bench, tmp_path: Path) -> None:
    folder = build(tmp_path, LOOP, LOOP)
    (table,) = folder.path.glob("runs/*/page-trace.parquet")
    table.write_bytes(table.read_bytes()[:-1] + b"x")
    ended = predict(bench, folder.path)
    assert ended.code == 65
    assert "the file is damaged" in ended.err


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda run: run.update(engine="oracle"), 'there is no engine "oracle"'),
        (lambda run: run["settings"].pop("pool_size"), "does not tell its pool or its window"),
        (lambda run: run.update(measured=None), "does not tell its pool or its window"),
        (lambda run: run["settings"]["old_blocks_pct"].update(actual=99), "old_blocks_pct is 5 to 95"),
    ],
)
def test_a_run_that_cannot_have_been_is_refused(
    bench: Bench, tmp_path: Path, change: Callable[[dict[str, Any]], object], what: str
) -> None:
    ended = predict(bench, reseal(build(tmp_path, LOOP, LOOP, **SERVER), change).path)
    assert ended.code == 65
    assert what in ended.err


def test_errors_are_json_too(bench: Bench, tmp_path: Path) -> None:
    folder = build(tmp_path, LOOP, LOOP)
    ended = predict(bench, folder.path, "--sweep", "io_mode=direct,buffered", "--json")
    assert (ended.code, ended.json["status"], ended.json["kind"]) == (2, "error", "usage")
    assert ended.json["errors"][0]["where"] == "--sweep io_mode=direct,buffered"
