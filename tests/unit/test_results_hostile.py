"""A sweep folder that an attacker made: all of it is read, or refused by name, and no command hangs."""

from __future__ import annotations

import hashlib
import io
import json
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bufferlab.errors import DataFileError
from bufferlab.registry import open_sweep
from bufferlab.results import decoding, store
from bufferlab.results.store import SweepFolder
from support.synthetic import BUFFER_SIZE, Sweep, build

SMALL = Sweep(truths=BUFFER_SIZE[:2], blocks=1, warm_up_seconds=2)


@pytest.fixture
def sweep(tmp_path: Path) -> SweepFolder:
    return build(tmp_path, SMALL)


def resealed(sweep: SweepFolder, change: Callable[[dict[str, Any]], object]) -> None:
    """Change run.json of the first run as an attacker would, with a matching hash."""
    path = min((sweep.path / "runs").iterdir()) / "run.json"
    document = json.loads(path.read_text())
    del document["seal"]
    change(document)
    path.write_text(json.dumps({**document, "seal": store._seal(document)}))


def replaced(sweep: SweepFolder, name: str, content: bytes) -> None:
    """Replace a table of the first run, with a matching hash."""
    folder = min((sweep.path / "runs").iterdir())
    (folder / name).write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    resealed(sweep, lambda document: document["files"].update({name: {"bytes": len(content), "sha256": digest}}))


def read_all(sweep: SweepFolder) -> None:
    for record in open_sweep(sweep.path).runs():
        record.samples()
        record.latency()


def as_bytes(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata={"format_version": "2"}, compression="zstd")
    return buffer.getvalue()


@pytest.mark.parametrize(
    "change",
    [
        lambda run: run.update(workload={}),
        lambda run: run.update(workload={"name": 5}),
        lambda run: run["workload"].update(drawn={"plan": 3}),
        lambda run: run["workload"].update(drawn=[]),
        lambda run: run["workload"].update(warehouses="many"),
        lambda run: run["workload"].update(warehouses=0),
        lambda run: run["workload"].update(warehouses=10**18),
        lambda run: run["workload"].update(connections="x"),
        lambda run: run["workload"].update(connections=-1),
        lambda run: run["workload"].update(hot_rows=0.5),
        lambda run: run["workload"].update(rows=None),
        lambda run: run["workload"].update(zipf="steep"),
        lambda run: run["workload"].update(layout="sideways"),
        lambda run: run["point"].update(index=10**18),
        lambda run: run.update(seed=10**40),
        lambda run: run.update(started_at="yesterday"),
        lambda run: run.update(started_at="2026-01-05T10:00:00"),
        lambda run: run["settings"]["page_size"].update(actual=[[4096]]),
    ],
)
def test_a_run_that_says_what_cannot_be_is_refused_though_its_seal_fits(
    sweep: SweepFolder, change: Callable[[dict[str, Any]], object]
) -> None:
    resealed(sweep, change)
    with pytest.raises(DataFileError, match="damaged"):
        open_sweep(sweep.path)


@pytest.mark.parametrize("name", ["plan.json", "host.json", "run.json"])
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "damaged"),
        (b'{"a":' * 500 + b"1" + b"}" * 500, "32 levels deep"),
        (b'{"a": ' + b"9" * 5000 + b"}", "more than 64 bits"),
        (b'{"a": 1e999}', "is not a number"),
        (b'{"a": NaN}', "is not a number"),
        (b'{"a": "\\ud800"}', "damaged"),
        (b"\xff\xfe", "damaged"),
        (b" " * ((32 << 20) + 1), "more than 32 MiB"),
    ],
)
def test_a_hostile_document_is_refused(sweep: SweepFolder, name: str, content: bytes, why: str) -> None:
    path = sweep.runs()[0].folder / name if name == "run.json" else sweep.path / name
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=why) as error:
        open_sweep(sweep.path)
    assert error.value.where == str(path)


@pytest.mark.parametrize(
    "change",
    [
        {"points": 5},
        {"points": [{"index": 10**18, "label": "a", "swept": {}}]},
        {"points": [{"index": 0, "swept": {}}]},
        {"points": [{"index": "0.0", "label": "a", "swept": {}}]},
        {"points": [{"index": 0.0, "label": "a", "swept": {}}]},
        {"runs": [{"point": "0.0", "block": 0}]},
        {"runs": [{"point": 0, "block": "0.0"}], "blocks": [0]},
        {"points": [{"index": 0, "label": "a", "swept": {"a": [1]}}]},
        {"experiment": 5},
        {"versions": []},
    ],
)
def test_a_plan_of_another_shape_is_refused(sweep: SweepFolder, change: dict[str, Any]) -> None:
    path = sweep.path / "plan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataFileError, match=r"plan\.json is damaged at"):
        open_sweep(sweep.path)


@pytest.mark.parametrize("content", [b"\xff", b"a = [", b"a = " + b"[" * 5000, b"a = " + b"9" * 5000])
def test_an_experiment_toml_that_is_none_is_refused(sweep: SweepFolder, content: bytes) -> None:
    (sweep.path / "experiment.toml").write_bytes(content)
    with pytest.raises(DataFileError, match=r"experiment\.toml is truncated or damaged"):
        open_sweep(sweep.path)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (pl.lit(None, pl.Float64).alias("t_s"), "lacks a time"),
        (pl.lit(float("nan")).alias("t_s"), "nothing can count"),
        (pl.lit("page_hugs").alias("metric"), "page_hugs"),
        (pl.lit("middle").alias("edge"), "edge"),
        (pl.lit("start").alias("edge"), "twice at one edge"),
        (pl.lit("x" * 5000).alias("subject"), "more than 4096 bytes"),
    ],
)
def test_samples_that_cannot_be_are_refused(sweep: SweepFolder, changed: pl.Expr, why: str) -> None:
    replaced(sweep, "samples.parquet", as_bytes(sweep.runs()[0].samples().with_columns(changed)))
    with pytest.raises(DataFileError, match=why):
        read_all(sweep)


def test_columns_in_another_order_are_refused(sweep: SweepFolder) -> None:
    latency = sweep.runs()[0].latency()
    replaced(sweep, "latency.parquet", as_bytes(latency.select(sorted(latency.columns))))
    with pytest.raises(DataFileError, match="does not have the columns"):
        read_all(sweep)


def test_a_small_table_that_claims_many_rows_is_not_taken_into_memory(sweep: SweepFolder) -> None:
    first = sweep.runs()[0].latency().head(1)
    many = pl.select(pl.repeat(column[0], 4_000_000, dtype=column.dtype).alias(column.name) for column in first)
    replaced(sweep, "latency.parquet", as_bytes(many))
    with pytest.raises(DataFileError, match="claims 4,000,000 rows"):
        read_all(sweep)


def test_a_table_whose_decoding_ends_the_process_is_refused(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """polars 2.1.0 has ended its process over a damaged table. Here the child ends itself once it knows the file."""

    def ending() -> subprocess.Popen[str]:
        code = "import os; print(flush=True); input(); os.kill(os.getpid(), 9)"
        child = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="ascii"
        )
        assert child.stdout is not None
        child.stdout.readline()
        return child

    decoding._end()
    decoding._decoded.clear()  # Forget the decoded tables, as a new process would.
    monkeypatch.setattr(decoding, "_started", ending)
    with pytest.raises(DataFileError, match=r"cannot be decoded: polars breaks off, or needs more than 51\d MiB"):
        read_all(sweep)


def test_a_small_table_that_fills_the_memory_is_refused(sweep: SweepFolder) -> None:
    wide = pl.select(pl.repeat(1, 1_900_000, dtype=pl.Int64).alias(str(place)) for place in range(50))
    replaced(sweep, "latency.parquet", as_bytes(wide))
    with pytest.raises(DataFileError, match="needs more than"):
        read_all(sweep)


def test_a_small_table_with_much_text_is_refused(sweep: SweepFolder) -> None:
    """A dictionary of one word, and its number in every row: Python would make a separate word of each row."""
    first = sweep.runs()[0].latency().head(1).with_columns(transaction_type=pl.lit("x" * 1000))
    # Only a few more rows than the limit: with 200,000 rows the child sometimes ran out of memory first.
    many = pl.DataFrame([column.new_from_index(0, 145_000) for column in first])
    replaced(sweep, "latency.parquet", as_bytes(many))
    with pytest.raises(DataFileError, match=r"has 14\d,\d+,000 bytes of text, more than 13\d,\d+,\d+ for its size"):
        read_all(sweep)


def test_tables_are_read_after_the_process_that_decodes_them_was_killed(sweep: SweepFolder, tmp_path: Path) -> None:
    other = build(tmp_path / "other", replace(SMALL, seed=2))
    decoding._decoded.clear()  # Forget the decoded tables, as a new process would.
    read_all(sweep)
    (child,) = decoding._children
    child.kill()
    child.wait()
    read_all(other)
    assert decoding._children[0].pid != child.pid


def test_only_tables_that_this_process_has_made_itself_are_read_without_another_one(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoding._end()
    read_all(sweep)
    assert decoding._children == []
    decoding._decoded.clear()
    monkeypatch.setattr(store, "_recent", store._Recent())
    read_all(sweep)
    assert len(decoding._children) == 1


def test_no_change_of_a_table_ends_in_anything_but_a_refusal(
    sweep: SweepFolder, capfd: pytest.CaptureFixture[str]
) -> None:
    """The error that polars raises over damage need not be an Exception, and polars may print; the user sees
    neither."""
    whole = (sweep.runs()[0].folder / "samples.parquet").read_bytes()
    path = sweep.path / "samples.parquet"
    chance = random.Random(7)
    refused = 0
    for _ in range(150):
        changed = bytearray(whole)
        for _ in range(chance.randrange(1, 5)):
            changed[chance.randrange(len(whole) - 4000, len(whole))] = chance.randrange(256)
        path.write_bytes(bytes(changed))
        try:
            store._table(path, store.SAMPLE_COLUMNS, lambda rows: store.wrong_samples(rows, sweep.registry.raw))
        except DataFileError:
            refused += 1
    assert refused > 50
    assert "panicked" not in capfd.readouterr().err
