"""Texts of the command line: help, errors and lists, word for word, and the processor time of each.

UPDATE_SNAPSHOTS=1 writes the snapshots anew. A changed snapshot is a decision, which the diff shows.
"""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bufferlab.cli import app
from bufferlab.cli.app import COMMANDS
from bufferlab.errors import STARTED_AS, runnable
from support.core import OF_A_CLONE, ROOT
from support.fake import Bench

SNAPSHOTS = Path(__file__).parent / "snapshots"

TOML_WITH_ERRORS = """\
format_version = 1
name = "wrong"
question = "What is wrong here?"
engine = "sqlite"

[workload]
name = "tpcc"
warehouse = 2

[knobs]
io_mode = "dirct"

[sweep]
pool_sise = ["5%"]

[warm_up]
max_transactions = 100
max_duration = "5 fortnights"

[measure]
transactions = 0
max_duration = "5s"

[desing]
seed = 1
"""


def snapshot(name: str, text: str) -> None:
    file = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        file.write_text(text)
    assert text == file.read_text(), f"{file.name} differs; UPDATE_SNAPSHOTS=1 if it was meant to"


@pytest.mark.parametrize(
    "command",
    ["", "cache list", "cache prune", *(name for name in COMMANDS if name not in ("cache", "engines"))],
)
def test_help_reads_as_it_should(bench: Bench, command: str) -> None:
    ended = bench.bufferlab(*command.split(), "--help")
    assert ended.code == 0
    assert ended.err == ""
    snapshot(f"help-{command.replace(' ', '-') or 'bufferlab'}", ended.out)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("unknown-command", ["mesure"]),
        ("unknown-option", ["run", "buffer-size", "--warehose", "2"]),
        ("no-experiment", ["run"]),
        ("unknown-experiment", ["run", "bufer-size"]),
        ("missing-file", ["run", "no/such/experiment.toml"]),
        ("unknown-knob", ["run", "buffer-size", "--set", "pol_size=5%"]),
        ("bad-knob-syntax", ["run", "buffer-size", "--set", "pool_size"]),
        ("setting-of-another-workload", ["run", "buffer-size", "--set", "zipf=0.9"]),
        ("setting-given-twice", ["run", "hot-rows", "--set", "zipf=0", "--sweep", "zipf=0.5,1"]),
        ("impossible-load", ["run", "open-loop", "--set", "rate=0", "--set", "patience=soon", "--set", "arm=z"]),
        ("impossible-workload", ["run", "hot-rows", "--set", "zipf=-1", "--set", "rows=80%", "--sweep", "layout=best"]),
        ("hot-rows-beyond-the-table", ["run", "hot-rows", "--sweep", "hot_rows=500000", "--dry-run"]),
        ("no-knee", ["run", "hot-rows", "--set", "pool_size=1GiB", "--dry-run"]),
        ("missing-script", ["run", "no/such.sql"]),
        ("script-swept", ["run", "script", "--sweep", "script=a.sql,b.sql"]),
        ("wrong-unit", ["run", "buffer-size", "--set", "pool_size=64MB"]),
        ("impossible-sizes", ["run", "buffer-size", "--sweep", "page_size=3000,256,1M", "--set", "pool_size=0"]),
        ("connections", ["run", "buffer-size", "--connections", "8"]),
        ("one-connection", ["run", "concurrency", "--engine", "sqlite"]),
        ("impossible-counts", ["run", "buffer-size", "--repetitions", "0", "--transactions", "-1", "--seed", "-1"]),
        ("bad-duration", ["run", "buffer-size", "--duration", "soon"]),
        ("pool-too-small", ["run", "buffer-size", "--sweep", "pool_size=0.01%", "--dry-run"]),
        ("unknown-kind", ["list", "managers"]),
        ("missing-sweep", ["report", "no/such/sweep"]),
        ("audit-missing", ["audit", "no/such.log"]),
        ("audit-nothing", ["audit", os.devnull]),
        ("audit-no-file", ["audit"]),
        ("resume-missing", ["run", "--resume", "no/such/sweep"]),
        ("resume-with-options", ["run", "--resume", "no/such/sweep", "--out", "there"]),
    ],
)
def test_an_error_says_what_where_and_what_to_try(bench: Bench, name: str, arguments: list[str]) -> None:
    ended = bench.bufferlab(*arguments)
    foreign = ("missing-sweep", "resume-missing", "audit-missing", "audit-nothing")
    assert ended.code == (65 if name in foreign else 2)
    assert ended.out == ""
    snapshot(f"error-{name}", ended.err)


def test_hints_name_the_command_that_works_where_it_was_started(bench: Bench) -> None:
    environment = {**bench.environment, **OF_A_CLONE}

    def from_a_clone(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["./bufferlab", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )

    assert "that `./bufferlab run` printed" in from_a_clone("report", "no/such/sweep").stderr
    shown = from_a_clone("run", "--help").stdout
    assert shown.startswith("Usage: ./bufferlab run [OPTIONS]")
    assert re.findall(r"(?<!\./)bufferlab run", shown) == []
    assert "that `bufferlab run` printed" in bench.bufferlab("report", "no/such/sweep").err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_known_to_the_hints(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv(STARTED_AS, "./bufferlab")
    assert runnable(f"try: bufferlab {command}") == f"try: ./bufferlab {command}"


def test_every_error_of_a_file_is_told_at_once_with_its_line(bench: Bench) -> None:
    bench.root.mkdir()
    (bench.root / "wrong.toml").write_text(TOML_WITH_ERRORS)
    ended = bench.bufferlab("run", bench.root / "wrong.toml")
    assert ended.code == 2
    # The error shows the path relative to the working directory, which may not contain the test's name.
    snapshot("error-many", re.sub(r"(where: ).*?(wrong\.toml)", r"\1\2", ended.err))


def test_an_error_in_a_script_is_told_with_its_own_line(bench: Bench) -> None:
    bench.root.mkdir()
    (bench.root / "wrong.sql").write_text("-- transaction: read\n\\set id randm(1, 10)\nSELECT :id;\n")
    ended = bench.bufferlab("run", bench.root / "wrong.sql")
    assert ended.code == 2
    snapshot("error-in-script", ended.err)


@pytest.mark.parametrize("name", ["hot-rows", "page-size", "open-loop", "script"])
def test_a_dry_run_shows_points_order_time_and_space(bench: Bench, name: str) -> None:
    ended = bench.bufferlab("run", name, "--smoke", "--dry-run")
    assert ended.code == 0
    snapshot(f"plan-{name}", ended.out)
    assert not bench.root.exists(), "a dry run touches nothing"


def test_an_error_is_also_an_object_with_json(bench: Bench) -> None:
    ended = bench.bufferlab("run", "bufer-size", "--json")
    assert ended.code == 2
    assert ended.json["status"] == "error"
    assert ended.json["exit_code"] == 2
    assert ended.json["errors"][0]["hint"].startswith("did you mean buffer-size?")


def test_lists_read_as_they_should(bench: Bench) -> None:
    snapshot("list", bench.bufferlab("list").out)
    assert "fake" not in bench.bufferlab("list").out
    assert "engine fake" in bench.bufferlab("list", "engines", "--all").out


def test_lists_are_also_objects(bench: Bench) -> None:
    document = bench.bufferlab("list", "--json").json
    assert set(document) == {"format_version", "experiments", "engines", "workloads", "load", "metrics"}
    assert {row["name"] for row in document["experiments"]} >= {"buffer-size"}
    assert all(row["unit"] and row["meaning"] for row in document["metrics"])


def test_help_is_quick_because_heavy_imports_are_late(bench: Bench) -> None:
    best_s = min(_user_seconds(bench, "--help") for _ in range(5))
    assert best_s < 0.3, f"bufferlab --help took {best_s:.2f} s of processor time"


def test_help_imports_nothing_heavy() -> None:
    code = "import sys, bufferlab.cli.app, bufferlab.cli.run; print([m for m in sys.modules if '.' not in m])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"polars", "scipy", "matplotlib", "numpy", "jinja2"} & set(re.findall(r"'(\w+)'", out))


def _user_seconds(bench: Bench, *arguments: str) -> float:
    """Return the processor time of a command, not its elapsed time: waiting for a core does not depend on its
    imports."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    assert bench.bufferlab(*arguments).code == 0
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def test_the_doctor_tells_what_this_host_can_measure(bench: Bench, tmp_path: Path) -> None:
    ended = bench.bufferlab("doctor", "--data-dir", tmp_path, "--json")
    findings = {(row["subject"], row["name"]): row for row in ended.json["findings"]}
    assert findings[("engine sqlite", "found")]["ok"]
    assert findings[("data directory", "writable")]["ok"]
    for row in findings.values():
        assert row["ok"] or row["hint"] or row["detail"]
    lacking = any(not row["ok"] and row["needed"] for row in findings.values())
    assert ended.code == (3 if lacking else 0)
    assert ended.json["status"] == ("lacking" if lacking else "ok")


def test_the_doctor_refuses_a_directory_in_memory(bench: Bench) -> None:
    ended = bench.bufferlab("doctor", "--data-dir", "/dev/shm")
    assert ended.code == 3
    assert "NO data directory on a disk" in " ".join(ended.out.split())
    assert "memory (tmpfs)" in ended.out


def test_a_full_pipe_reader_that_leaves_is_no_error(bench: Bench) -> None:
    command = f"{sys.executable} -m bufferlab list metrics | head -1"
    ended = subprocess.run(command, shell=True, env=bench.environment, capture_output=True, text=True, check=False)
    assert ended.stdout.startswith("metric")
    assert ended.stderr == ""


def test_a_bug_is_told_with_a_file_to_report_and_code_70(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "from bufferlab.results.registry import Registry\n"
        "def broken(registry): raise ZeroDivisionError('planted')\n"
        "Registry.everything = broken\n"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.run(
        [sys.executable, "-m", "bufferlab", "list", "metrics", "--json"],
        env={**bench.environment, "PYTHONPATH": path, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 70
    assert "a bug in bufferlab: ZeroDivisionError: planted" in process.stderr
    assert "Traceback" not in process.stderr
    (log,) = tmp_path.glob("bufferlab-bug-*.log")
    assert "Traceback" in log.read_text()
    assert str(log) in json.loads(process.stdout)["errors"][0]["hint"]


def test_a_bug_is_told_whatever_the_arguments_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["bufferlab", "report", "/root/\udcff"])
    with pytest.raises(ZeroDivisionError) as planted:
        _ = 1 / 0
    told = app._bug(planted.value)
    (log,) = tmp_path.glob("bufferlab-bug-*.log")
    assert "report /root/\\udcff" in log.read_text()
    assert str(log) in (told.hint or "")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.ENAMETOOLONG])
def test_a_path_that_this_user_may_not_use_is_no_bug(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(arguments: list[str]) -> None:
        raise OSError(number, os.strerror(number), "/somewhere")

    monkeypatch.setattr(app, "_main", refused)
    assert app.run([]) == 3
    assert f"this cannot be used: {os.strerror(number)}\n  where: /somewhere" in capsys.readouterr().err


def test_what_is_measured_goes_on_when_nobody_reads_the_words() -> None:
    program = "from bufferlab.cli.output import say; [say('word') for _ in range(3)]; print('measured')"
    read, write = os.pipe()
    os.close(read)
    try:
        ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=write, check=False)
    finally:
        os.close(write)
    assert (ended.returncode, ended.stdout) == (0, b"measured\n")
