"""`bufferlab advise` before it attaches anything: which servers it refuses, and how it asks for consent."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from bufferlab.cli import advise as command
from bufferlab.cli import app
from bufferlab.cli.options import look_seconds
from bufferlab.errors import EnvironmentLackingError, SpecError
from bufferlab.live import advise, live_trace, session
from bufferlab.live.advise import parse_sizes
from bufferlab.live.tiers import Foretold, Pace, Stage
from bufferlab.units import GIB, MIB
from support import fake_mysql
from support.advised_server import Answer, Clock, FakeTracing
from support.fake import Bench
from support.fake_mysql import FakeMysql


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


@pytest.fixture
def server() -> Iterator[FakeMysql]:
    with FakeMysql() as made:
        yield made


def test_what_cannot_be_advised_on_is_refused_with_a_sentence(bench: Bench, server: FakeMysql) -> None:
    for arguments, code, words in (
        ((server.url.replace("me@", "me:secret@"),), 2, "a URL with a password"),
        ((server.url, "--json", "--format", "csv"), 2, "two formats"),
        # The server of this test reports no thread number, and listens on TCP.
        ((server.url,), 3, "nothing can be attached: the server does not tell which of its threads serves us"),
    ):
        ended = bench.bufferlab("advise", *arguments)
        assert (ended.code, words in ended.err) == (code, True), ended.err
        assert "secret" not in ended.err
        assert "Traceback" not in ended.err


def test_times_and_shares_that_cannot_be_are_refused_by_their_option() -> None:
    def seconds(text: str) -> float:
        return look_seconds(text, "--within", 30)

    assert (seconds("10m"), command._cores("150%")) == (600.0, 1.5)
    for read, text, where, words in (
        (seconds, "20s", "--within", "not between 30 s and 24 h"),
        (seconds, "soon", "--within", "is not a duration"),
        (command._cores, "0.5", "--max-cpu", "is not a share"),
        (command._cores, "0%", "--max-cpu", "lets nothing be recorded"),
        (parse_sizes, "128MB", "--sizes", "is read as 1000s"),
    ):
        with pytest.raises(SpecError, match=words) as refused:
            read(text)
        assert refused.value.where == where
        assert refused.value.hint


def test_sizes_are_bytes_or_shares_of_the_present_one() -> None:
    found = [size(128 * MIB) for size in parse_sizes("256MiB, 200%,1GiB,75%")]
    assert found == [256 * MIB, 256 * MIB, GIB, 96 * MIB]
    assert parse_sizes(None) == ()
    for wrong in ("0", "1k", "0%", " ,1GiB", "9999999999999GiB"):
        with pytest.raises(SpecError):
            parse_sizes(wrong)


def ready() -> Any:
    plan = SimpleNamespace(sentence="Tier misses: small programs note each call of MariaDB, process 7.")
    planned = (Stage(None, 5.0), Stage("misses", 590.0), Stage(None, 5.0))
    foretold = (Foretold("misses", 1234.0, 590.0, "mariadb"),)
    return SimpleNamespace(
        plans={"misses": plan}, foretold=foretold, planned=planned, pace=Pace(40_960, 256), inside=""
    )


def test_it_says_what_is_attached_where_and_what_that_costs_and_asks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: False))
    with pytest.raises(SpecError, match="nobody can be asked") as refused:
        command._consent(ready(), yes=False)
    assert refused.value.hint == "add --yes"
    said = capsys.readouterr().err
    assert (
        "Tier misses: small programs note each call of MariaDB, process 7. It costs the server 0.0617 % of a processor "
        "(1,234 calls a second) and this command 0.985 %, for 9 min 50 s at most."
    ) in said
    # 40,960 pages at 256 a second take 160 s; for another 10 s nothing is attached.
    assert "it takes about 2 min 53 s (until enough pages were evicted), 10 min 03 s at most. Ctrl-C ends" in said

    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    asked = []

    def no(question: str, **how: Any) -> None:
        asked.append((question, how["abort"]))
        raise click.Abort

    monkeypatch.setattr("click.confirm", no)
    with pytest.raises(click.Abort):
        command._consent(ready(), yes=False)
    assert asked == [("Attach?", True)]
    command._consent(ready(), yes=True)
    assert len(asked) == 1


def test_nothing_is_asked_where_nothing_will_be_attached(capsys: pytest.CaptureFixture[str]) -> None:
    command._consent(SimpleNamespace(plans={}, foretold=()), yes=False)  # type: ignore[arg-type]
    assert capsys.readouterr().err == ""


def test_while_it_is_attached_ctrl_z_does_not_stop_it(server: FakeMysql, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-Z is ignored: a stopped process would leave its probes in the server, and check no rate."""
    before = signal.getsignal(signal.SIGTSTP)
    during = []

    def end(*_: Any) -> None:
        during.append(signal.getsignal(signal.SIGTSTP))
        raise SpecError("the test ends here", "", "")

    monkeypatch.setattr(advise, "prepare", lambda *_: ready())
    monkeypatch.setattr(advise, "advise", end)
    with pytest.raises(SpecError, match="the test ends here"):
        command.command.main(["--yes", server.url], standalone_mode=False)
    assert during == [signal.SIG_IGN]
    assert signal.getsignal(signal.SIGTSTP) == before


# The event that happens on the server during the look, as the exit code reports it.


def _resize(_: FakeMysql) -> None:
    fake_mysql._LEVELS["Innodb_buffer_pool_pages_total"] = 8192


def _shut_down(server: FakeMysql) -> None:
    server.refusal = (1053, "Server shutdown in progress")
    server.restart()


def _stop_working(_: FakeMysql) -> None:
    for name in fake_mysql.GROWTH:
        fake_mysql.GROWTH[name] = 0


def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> FakeTracing:
    """Replace tracing and waiting in the command by fakes; return the fake that records what is attached."""
    clock = Clock()
    tracing, here = FakeTracing(clock), lambda *_: os.getpid()
    prepare, answered = advise.prepare, advise.advise
    monkeypatch.setattr(fake_mysql, "GROWTH", {**fake_mysql.GROWTH, "Innodb_buffer_pool_read_ahead": 0})
    monkeypatch.setattr(fake_mysql, "_LEVELS", dict(fake_mysql._LEVELS))
    monkeypatch.setattr(session, "Session", partial(session.Session, clock=clock))
    monkeypatch.setattr(advise, "prepare", lambda at, wanted: prepare(at, wanted, clock, clock.sleep, here))
    monkeypatch.setattr(
        advise,
        "advise",
        lambda ready, answer, stop, shown: answered(ready, Answer(), stop, shown, clock, clock.sleep),
    )
    for name in ("plan", "attach", "recorded"):
        monkeypatch.setattr(live_trace, name, getattr(tracing, name))
    return tracing


@pytest.mark.parametrize(
    ("at", "code", "words"),
    [
        ({}, 0, "would read"),
        ({1: _stop_working}, 1, "the server was idle"),
        ({30: FakeMysql.restart}, 1, "the server was restarted in the window, and its pool began anew"),
        ({30: _shut_down}, 1, "the server went away in the window"),
        ({30: _resize}, 1, "the pool was resized in the window, between 64 MiB and 128 MiB; ask again when it is over"),
    ],
)
def test_the_exit_code_tells_whether_a_size_was_judged_whatever_the_server_does_meanwhile(
    at: dict[int, Callable[[FakeMysql], None]],
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tracing = looks_at_once(monkeypatch)
    with FakeMysql(at) as server:
        arguments = ["--yes", "--within", "60s", "--json", server.url]
        assert command.command.main(arguments, standalone_mode=False) == code
    told = json.loads(capsys.readouterr().out)
    assert words in told["answer"]
    assert told["status"] == ("ok" if code == 0 else "cannot_say")
    assert all(trace.ended_s for trace in tracing.traces), "nothing stays attached"


@pytest.mark.parametrize("form", ["--json", "--format=csv", "--format=text"])
def test_the_advice_is_printed_where_its_page_finds_the_disk_full(
    form: str, server: FakeMysql, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks_at_once(monkeypatch)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        assert app.run(["advise", "--yes", "--within", "60s", form, server.url, "--html", "/dev/full"]) == 3
    finally:
        signal.signal(signal.SIGTERM, handler)
    shown = capsys.readouterr()
    if form == "--json":
        assert json.loads(shown.out)["status"] == "ok"
    assert "would read" in shown.out or "size_bytes" in shown.out
    assert "error: the file cannot be written: No space left on device" in shown.err
    assert "where: /dev/full" in shown.err


def test_a_server_that_starts_or_ends_is_refused_in_its_words_before_anything_is_asked(server: FakeMysql) -> None:
    server.refusal = (1053, "Server shutdown in progress")
    with pytest.raises(EnvironmentLackingError, match="Server shutdown in progress") as refused:
        command.command.main([server.url], standalone_mode=False)
    assert refused.value.exit_code == 3
