"""`bufferlab observe` on a fake server that only speaks the protocol: its output, its files and its exit codes."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from support import fake_mysql
from support.fake import Bench
from support.fake_mysql import FakeMysql
from support.json_documents import DOCUMENTS


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


def test_a_line_of_the_first_second_then_the_answer_and_the_files(bench: Bench, tmp_path: Path) -> None:
    page, file = tmp_path / "seen.html", tmp_path / "seen.prom"
    with FakeMysql() as server:
        ended = bench.bufferlab("observe", server.url, "--duration", "3s", "--html", page, "--prometheus", file)
    assert ended.code == 0, ended.err
    assert "cannot be told: performance_schema is off" in " ".join(ended.out.split())
    lines = [line for line in ended.err.splitlines() if "gets " in line]
    assert len(lines) == 1, "the next line is of ten seconds"
    assert "1.00 misses per statement" in lines[0]
    assert "Made by bufferlab observe from the counters of 127.0.0.1" in page.read_text()
    assert 'bufferlab_observe_up{server="127.0.0.1:' in file.read_text()
    assert not bench.root.exists(), "nothing else is written"


def test_json_fits_its_schema_and_csv_has_a_line_a_second(bench: Bench) -> None:
    with FakeMysql() as server:
        found = bench.bufferlab("observe", server.url, "--duration", "2s", "--json").json
        DOCUMENTS["observe"].model_validate(found)
        assert found["engine"] == "MariaDB"
        assert found["per_statement"]["misses"] == 1
        printed = bench.bufferlab("observe", server.url, "--duration", "2s", "--format", "csv").out.splitlines()
    head, *rows = (line for line in printed if not line.startswith("#"))
    assert head.startswith("t_s,page_gets_per_s,misses_per_s")
    assert rows


def test_what_cannot_be_looked_at_is_refused_with_a_sentence(bench: Bench, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = listener.getsockname()[1]
    for arguments, code, words in (
        (("mysql://me@127.0.0.1",), 3, "the server cannot be used"),
        (("mysql://me:secret@127.0.0.1",), 2, "a URL with a password"),
        (("oracle://me@127.0.0.1",), 2, "no server that can be looked at"),
        (("mysql://me@127.0.0.1", "--duration", "1s"), 2, "not between 2 s and 24 h"),
        (("mysql://me@127.0.0.1", "--json", "--format", "csv"), 2, "two formats"),
    ):
        at = f"127.0.0.1:{nobody}"
        ended = bench.bufferlab("observe", *(one.replace("127.0.0.1", at) for one in arguments))
        assert (ended.code, words in ended.err) == (code, True), ended.err
        assert "secret" not in ended.err
    with FakeMysql() as server:
        ended = bench.bufferlab("observe", server.url, "--prometheus", tmp_path / "no/such/file.prom")
        assert (ended.code, "choose another with --prometheus" in ended.err) == (3, True), ended.err
        server.refusal = (1040, "Too many connections")
        ended = bench.bufferlab("observe", server.url)
        assert (ended.code, "Too many connections" in ended.err) == (3, True), ended.err


@pytest.mark.parametrize(("gib", "words"), [(1, "nobody can confirm it"), (8, "a statement of ours may take 5 s")])
def test_a_large_pool_is_not_looked_into_where_nobody_confirms_it_or_it_takes_too_long(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, gib: int, words: str
) -> None:
    monkeypatch.setitem(fake_mysql.VARIABLES, "innodb_buffer_pool_size", str(gib << 30))
    with FakeMysql() as server:
        ended = bench.bufferlab("observe", server.url, "--look-inside")
    assert (ended.code, words in ended.err) == (2, True), ended.err
    assert not any("INNODB_BUFFER_PAGE" in sql for sql in server.statements)


@pytest.mark.parametrize(
    ("number", "asked", "code"),
    [(signal.SIGINT, ("--watch",), 0), (signal.SIGTERM, ("--watch", "--duration", "1h"), 128 + signal.SIGTERM)],
)
def test_a_signal_ends_with_the_report_of_what_was_seen(
    bench: Bench, number: signal.Signals, asked: tuple[str, ...], code: int
) -> None:
    with FakeMysql() as server:
        process = bench.start("observe", server.url, *asked)
        deadline = time.monotonic() + 60
        while server.samples < 5 and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert "The pool misses" in out
    assert "Traceback" not in err


def test_a_server_that_goes_away_for_good_ends_with_1_and_the_report(bench: Bench) -> None:
    def gone(server: FakeMysql) -> None:
        server.__exit__()

    with FakeMysql({5: gone}) as server:
        ended = bench.bufferlab("observe", server.url, "--duration", "5s")
    assert ended.code == 1
    assert "The pool misses" in ended.out
    assert "the connection is gone" in ended.err
