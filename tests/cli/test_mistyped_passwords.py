"""A password that a user typed into a server's address: the command refuses it at once, and shows it nowhere."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bufferlab import texts
from bufferlab.cli import app
from support.fake import Bench
from support.mistyped import BEGINS, ENDS, addresses

COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "observe": lambda text: ["observe", text],
    "advise": lambda text: ["advise", text, "--yes"],
    "doctor": lambda text: ["doctor", "--server", text],
    "run": lambda text: ["run", "hot-rows", "--engine", "postgres", "--dry-run", "--server", text],
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Use a separate folder, also for logs of bugs; afterwards restore this process's state."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    handler = signal.getsignal(signal.SIGTERM)
    yield tmp_path
    signal.signal(signal.SIGTERM, handler)
    texts.hide_passwords_of([])


def has_half(shown: str) -> bool:
    return BEGINS in shown or ENDS in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_a_mistyped_address_is_refused_and_its_password_is_shown_nowhere(
    name: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """All commands run in this process; every second one has --json, which shows an error on both outputs."""
    wrong = []
    for number, text in enumerate(addresses("postgres")):
        code = app.run([*COMMANDS[name](text), *(["--json"] if number % 2 else [])])
        shown = "".join(capfd.readouterr())
        if has_half(shown) or code not in (2, 3):
            wrong.append((code, text, shown))
    assert not wrong, f"{len(wrong)}, the first: {wrong[:5]}"
    assert list(here.iterdir()) == [], "no bug has left a log, and no run a folder"


@pytest.mark.slow
def test_processes_show_no_password_of_a_mistyped_address(bench: Bench) -> None:
    for number, text in enumerate(addresses("mysql")[::9]):
        name = list(COMMANDS)[number % len(COMMANDS)]
        ended = bench.bufferlab(*COMMANDS[name](text), *(["--json"] if number % 2 else []))
        assert ended.code in (2, 3), (name, text, ended)
        assert not has_half(ended.out + ended.err), (name, text, ended)


@pytest.mark.parametrize(
    "command",
    [
        ["run"],
        ["report"],
        ["compare", "runs/before"],
        ["doctor"],
        ["list"],
        ["observe", "--server"],
        ["run", "hot-rows", "--engine"],
        ["predict", "buffer-size", "--set"],
        ["run", "hot-rows", "--engine", "mysql", "--dry-run", "--sweep", "server=path,{}"],
        ["observe", "mysql://me@127.0.0.1", "--duration"],
    ],
)
def test_no_command_that_is_given_an_address_by_mistake_shows_its_password(
    command: list[str], here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shown = []
    for text in addresses("mysql")[:: 9 + len(command)]:
        typed = [*command[:-1], command[-1].format(text)] if "{}" in command[-1] else [*command, text]
        assert app.run([*typed, "--json"]) in (2, 3, 65)
        shown += [both for both in ["".join(capfd.readouterr())] if has_half(both)]
    assert not shown, f"{len(shown)}, the first: {shown[:5]}"


@pytest.mark.parametrize("command", [["observe"], ["doctor", "--server"], ["run", "hot-rows", "--server"]])
@pytest.mark.parametrize(
    "typed",
    [
        f"mysql://monitor:{BEGINS} x {ENDS}@localhost/lab",
        f"monitor:{BEGINS} {ENDS}@localhost/lab",
        f"host=localhost user=monitor password={BEGINS} {ENDS}",
    ],
)
def test_a_password_of_which_the_shell_made_several_arguments_is_shown_nowhere(
    command: list[str], typed: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert app.run([*command, *typed.split(), "--json"]) == 2
    shown = "".join(capfd.readouterr())
    assert "unexpected extra argument" in shown or "is seen in process lists" in shown
    assert not has_half(shown)


def test_the_log_of_a_bug_has_no_password_of_the_arguments(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(arguments: list[str]) -> None:
        raise RuntimeError(f"no idea what {arguments} or {arguments[1]} is")

    monkeypatch.setattr(app, "_main", broken)
    for text in addresses("mysql")[::3]:
        monkeypatch.setattr(sys, "argv", ["bufferlab", "observe", text])
        assert app.run(["observe", text]) == 70
    logs = [log.read_text() for log in here.iterdir()]
    assert len(logs) == len(addresses("mysql")[::3])
    assert all(log.startswith("bufferlab ") and "RuntimeError: no idea what" in log for log in logs)
    assert not [log for log in [*logs, "".join(capfd.readouterr())] if has_half(log)]
