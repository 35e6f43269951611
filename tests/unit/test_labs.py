"""The labs: their pages show the commands that tools/labs runs, and an interrupted lab continues where it stopped."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import click
import pytest

from bufferlab.cli.app import group
from bufferlab.spec import Overrides, load
from docs.documents import ROOT, console_commands

PAGES = ROOT / "docs/labs"


@pytest.fixture
def labs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return import_module("labs")


class Bufferlab:
    """A stand-in for ./bufferlab: notes its calls, makes the folders of sweeps and reports, and fails as a test
    asks."""

    def __init__(self, labs: ModuleType, monkeypatch: pytest.MonkeyPatch, able: dict[str, bool]) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.codes: dict[str, int] = {}
        """The exit code of a call that contains this word."""
        self.has_typst = True
        self.installs: list[tuple[str, ...]] = []
        self.places: list[str] = []
        """The folders on which `doctor` was called."""
        self._able = able
        monkeypatch.setattr(labs, "ended", self.ended)
        monkeypatch.setattr(subprocess, "run", self.doctor)

    def doctor(self, words: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        *asked, place = words
        assert asked == ["./bufferlab", "doctor", "--json", "--data-dir"]
        self.places.append(place)
        findings = [{"name": name, "ok": ok} for name, ok in self._able.items()]
        return subprocess.CompletedProcess(words, 0, json.dumps({"findings": findings}))

    def ended(self, log: Path, program: str, *call: str) -> int:
        if program != "./bufferlab":
            self.installs.append(call)
            return 0 if self.has_typst or "pip" in call else 1
        self.calls.append(call)
        if "--out" in call:
            folder = Path(call[-1], f"{call[1]}-20260101-120000")
            folder.mkdir(parents=True)
            (folder / "plan.json").write_text("{}")
        if call[0] == "report":
            Path(call[1], "report.pdf").write_text(f"%PDF of {call[1]}")
        return next((self.codes[word] for word in call if word in self.codes), 0)


ALL = {"loop devices": True, "memory limit": True, "read-ahead": True}


def done(labs: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["labs", *arguments])
    monkeypatch.setattr(labs, "PYTHON", sys.executable)
    return int(labs.main())


def test_each_page_shows_the_commands_of_its_lab(labs: ModuleType) -> None:
    assert sorted(path.stem for path in PAGES.glob("[0-9]*.md")) == [lab.page for lab in labs.LABS]
    for lab in labs.LABS:
        shown = console_commands(PAGES / f"{lab.page}.md")
        wanted = [command for sweep in lab.sweeps for command in (sweep.command, sweep.otherwise) if command]
        assert [command for command in wanted if command not in shown] == []
        assert f"./bufferlab engines fetch {' '.join(lab.servers)}" in shown
        assert f"({lab.page}.md)" in (PAGES / "README.md").read_text()


def test_every_run_and_predict_of_a_page_is_one_that_bufferlab_takes() -> None:
    for page in PAGES.glob("[0-9]*.md"):
        for shown in console_commands(page):
            _, name, *arguments = shlex.split(shown)
            if name not in ("run", "predict"):
                continue
            command = group.get_command(click.Context(group), name)
            assert command is not None
            given = command.make_context(name, arguments).params
            server = (("server", given["server"]),) if given["server"] else ()
            load(
                str(given.get("experiment") or given["run"]),
                Overrides(
                    engine=given["engine"],
                    profile=given["profile"],
                    set_knobs=(*given["set_knobs"], *server),
                    sweep=given["sweep"],
                    repetitions=given.get("repetitions"),
                ),
            )


def test_all_labs_end_with_a_report_of_each_sweep(
    labs: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Bufferlab(labs, monkeypatch, ALL)
    assert done(labs, monkeypatch, str(tmp_path)) == 0
    assert fake.calls[0] == ("engines", "fetch", "mysql-5.7", "postgres-17")
    names = [sweep.name for lab in labs.LABS for sweep in lab.sweeps]
    assert capsys.readouterr().out.splitlines()[-len(names) :] == [f"{tmp_path}/{name}.pdf" for name in names]
    assert all((tmp_path / f"{name}.pdf").read_text().startswith("%PDF") for name in names)


def test_what_is_whole_is_not_measured_again_and_what_was_stopped_goes_on(
    labs: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Bufferlab(labs, monkeypatch, ALL)
    fake.codes = {"hot-rows": 130}
    with pytest.raises(SystemExit) as stopped:
        done(labs, monkeypatch, str(tmp_path), "--only", "1-buffer-size,3-hot-rows")
    assert stopped.value.code == 130
    assert capsys.readouterr().out.splitlines()[-1] == "stopped; called again, it goes on from here"
    fake.calls, fake.codes = [], {}
    assert done(labs, monkeypatch, str(tmp_path), "--only", "1-buffer-size,3-hot-rows") == 0
    begun = str(tmp_path / "3-hot-rows/hot-rows-20260101-120000")
    assert [call for call in fake.calls if call[0] == "run"] == [("run", "--resume", begun)]


def test_ctrl_c_waits_until_the_command_has_tidied_up(tmp_path: Path) -> None:
    """A shell sends Ctrl-C to the whole process group. Here the command interrupts its parent and ends by itself
    later."""
    command = "import os, signal, sys, time; os.kill(os.getppid(), signal.SIGINT); time.sleep(0.5); sys.exit(130)"
    tool = "import pathlib, sys, labs; print(labs.ended(pathlib.Path(sys.argv[1]), sys.executable, '-c', sys.argv[2]))"
    told = subprocess.run(
        [sys.executable, "-c", tool, tmp_path / "log", command],
        env={"PYTHONPATH": f"{ROOT / 'tools'}:{ROOT / 'python'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.stdout, told.stderr) == ("130\n", "")


def test_a_sweep_that_failed_is_not_done_and_the_others_are(
    labs: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Bufferlab(labs, monkeypatch, ALL)
    fake.codes = {"page-size": 3}
    assert done(labs, monkeypatch, str(tmp_path), "--only", "0-page-size,1-buffer-size") == 1
    told = capsys.readouterr()
    assert told.err == "not done: 0-page-size\n"
    assert told.out.endswith(f"{tmp_path}/1-buffer-size.pdf\n")


def test_a_sweep_with_a_failed_run_is_reported_is_not_whole_and_is_resumed(
    labs: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Bufferlab(labs, monkeypatch, ALL)
    fake.codes = {"page-size": 1}
    assert done(labs, monkeypatch, str(tmp_path), "--only", "0-page-size,1-buffer-size") == 1
    assert (tmp_path / "0-page-size.pdf").exists()
    told = capsys.readouterr()
    assert told.err == "not whole: 0-page-size; called again, its failed runs are done again\n"
    assert told.out.endswith(f"{tmp_path}/0-page-size.pdf\n{tmp_path}/1-buffer-size.pdf\n")
    fake.calls = []
    assert done(labs, monkeypatch, str(tmp_path), "--only", "0-page-size,1-buffer-size") == 0
    begun = str(tmp_path / "0-page-size/page-size-20260101-120000")
    assert [call for call in fake.calls if call[0] == "run"] == [("run", "--resume", begun)]
    assert capsys.readouterr().err == ""


def test_the_doctor_judges_the_folder_in_which_sweeps_keep_their_data(
    labs: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = Bufferlab(labs, monkeypatch, ALL)
    monkeypatch.delenv("BUFFERLAB_DATA", raising=False)
    assert labs.able(tmp_path / "doctor.log") == {*ALL}
    monkeypatch.setenv("BUFFERLAB_DATA", "/another/disk")
    assert labs.able(tmp_path / "doctor.log") == {*ALL}
    assert fake.places == [str(tmp_path), "/another/disk"]


def test_where_the_host_cannot_set_it_the_other_command_runs_and_is_told(
    labs: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Bufferlab(labs, monkeypatch, {**ALL, "loop devices": False, "read-ahead": False})
    assert done(labs, monkeypatch, str(tmp_path), "--only", "4-random-read-and-index-scan") == 0
    run = [" ".join(call[:-2]) for call in fake.calls if call[0] == "run"]
    (lab,) = (lab for lab in labs.LABS if lab.page.startswith("4"))
    assert run == [sweep.otherwise.removeprefix("./bufferlab ") for sweep in lab.sweeps]
    told = capsys.readouterr().out
    assert "4-random-read: without loop devices" in told
    assert "4-index-scan: without read-ahead" in told


def test_a_sweep_without_its_report_is_not_done(
    labs: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Bufferlab(labs, monkeypatch, ALL)
    fake.codes = {"report": 3}
    assert done(labs, monkeypatch, str(tmp_path), "--only", "0-page-size") == 1
    assert "0-page-size: no PDF, see" in capsys.readouterr().out


def test_typst_is_installed_where_it_is_missing(
    labs: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Bufferlab(labs, monkeypatch, ALL)
    fake.has_typst = False
    assert done(labs, monkeypatch, str(tmp_path), "--only", "0-page-size") == 0
    asked, installed = fake.installs
    assert asked == ("-c", "import typst")
    assert installed == ("-m", "pip", "install", "--require-hashes", "-r", "requirements-pdf.lock")
    assert capsys.readouterr().out.startswith("installing Typst")


def test_a_page_that_is_not_there_is_refused_by_name(
    labs: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        done(labs, monkeypatch, str(tmp_path), "--only", "5-none")
    assert ended.value.code == 2
    assert "no pages are named 5-none" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_before_the_tool(labs: ModuleType, tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C reaches the command from the terminal, SIGTERM through the tool. The tool waits until the command has
    cleaned up."""
    tidied, log = tmp_path / "tidied", tmp_path / "log"
    answers = (
        f"trap 'sleep 0.2; touch {tidied}; exit 1' TERM; kill -{number:d} $PPID; [ {number:d} = 2 ] && kill -TERM $$"
    )
    assert labs.ended(log, "sh", "-c", f"{answers}; sleep 20 & wait") == 128 + number
    assert tidied.exists()
