"""`bufferlab learn`: its output, the files that it keeps, and its refusals; no server runs in these tests."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bufferlab.cli import learn as command
from bufferlab.engines.postgres import programs
from bufferlab.engines.servers import learnt, page_sites
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.learnt import LearntEntry
from bufferlab.errors import DataFileError, EnvironmentLackingError, SpecError
from bufferlab.learn import candidates, learning, private_copy
from bufferlab.learn.learning import Learnt
from bufferlab.learn.proof import Proof, Resident
from bufferlab.learn.recording import Compared
from bufferlab.learn.written import Written
from support.elf import first_instruction
from support.fake import Bench
from support.json_documents import DOCUMENTS

BINARY = Path("/bin/sleep").resolve()
BUILD = Build("some", "postgres", "17.6", BINARY)
FIELDS = [*learnt.FIELDS, "io_context_18:u32"]
FETCH = ["+0(%di)", "-132(%bp)", *["\\9"] * 9]


def sites() -> list[dict[str, Any]]:
    place = first_instruction(BINARY)
    return [
        {"at": "PinBuffer", "kinds": [*kinds], **place, "fetch": FETCH, "inside": place}
        for kinds in learnt.kinds_of(FIELDS)
    ]


def proof(by: Any, *wrong: str) -> Proof:
    compared = [Compared("mixed load", "get", 45_000, 45_010, 45_005), Compared("scan", "read + create", 2, 3, 2)]
    return Proof(by, compared, Resident(512, 512, 512), 0, 0, list(wrong))


def outcome(*proofs: Proof, without_writes: str | None = None) -> Learnt:
    wrong = [one for each in proofs for one in each.wrong]
    told = {"by": [] if wrong else [one.by for one in proofs], "when": "2026-11-29T12:00:00Z",
            "settings": {"jit": "off"}, "runs": [one.told() for one in proofs]}  # fmt: skip
    settings = {"fields": FIELDS, "site": sites(), "cost_shown": False}
    entry = LearntEntry("PostgreSQL 17.6", page_sites.text_sha256(BINARY), settings, told)
    return Learnt(BUILD, entry, proofs, 5.4, without_writes)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a separate cache, and leave this process at its normal priority."""
    monkeypatch.setenv("BUFFERLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(private_copy, "idle_priority", lambda: None)
    monkeypatch.setattr(programs, "by_path", lambda path: BUILD)
    return tmp_path


def call(monkeypatch: pytest.MonkeyPatch, found: Learnt, *arguments: str | Path) -> int:
    monkeypatch.setattr(learning, "learn", lambda build, say, program: found)
    code: int = command.command.main([str(BINARY), *map(str, arguments)], standalone_mode=False)
    return code


GOOD = (proof("inside"), proof("links"))


def test_what_was_learnt_is_shown_kept_and_saved(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = outcome(*GOOD)
    assert call(monkeypatch, found, "--save", here / "mine.json") == 0
    text = capsys.readouterr().out
    assert "PostgreSQL 17.6 was learnt in 5 s" in text
    assert text.rstrip().endswith("It serves run --probe page-trace, predict and root's advise --tier full.")
    assert [line.split()[0] for line in text.splitlines()[1:7]] == ["inside"] * 2 + ["links"] * 2 + ["inside", "links"]
    assert learning.kept(BUILD) == learnt.read(here / "mine.json") == found.entry
    # An entry that the kernel's probes proved is not replaced by one with less proof.
    assert call(monkeypatch, outcome(proof("inside"))) == 0
    assert learning.kept(BUILD) == found.entry
    learnt.path_of(found.entry.text_sha256).unlink()
    capsys.readouterr()
    assert call(monkeypatch, outcome(proof("inside"))) == 0
    assert "advise" not in capsys.readouterr().out


def test_written_pages_are_shown_beside_the_servers_count_or_the_reason_why_they_are_lacking(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = proof("inside")
    found.written = Written([Compared("checkpoint", "write", 340, 341, 340)], writes=2_249)
    assert call(monkeypatch, outcome(found)) == 0
    text = capsys.readouterr().out
    assert ["inside", "checkpoint", "written", "340", "340"] in [line.split() for line in text.splitlines()]
    assert "no written pages" not in text
    found.written.of_checkpoints_alone = True
    assert call(monkeypatch, outcome(found)) == 0
    assert re.search("checkpoint +written by checkpoints +340 +340", capsys.readouterr().out)
    assert call(monkeypatch, outcome(found), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    DOCUMENTS["learn"].model_validate(told)
    assert (told["without_writes"], told["proofs"][0]["written"]["writes"]) == (None, 2_249)
    why = "it names no MarkBufferDirty"
    assert call(monkeypatch, outcome(*GOOD, without_writes=why)) == 0
    text = capsys.readouterr().out
    assert f"so predictions of it have no writes: {why}.\nIt serves run" in text
    assert call(monkeypatch, outcome(*GOOD, without_writes=why), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    DOCUMENTS["learn"].model_validate(told)
    assert (told["without_writes"], told["proofs"][0]["written"]) == (why, None)


def test_of_a_refused_build_nothing_is_kept_and_the_answer_says_why(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = outcome(proof("inside", "3 pages differ"), proof("links", "scan: 0 % of the reads show the ring of a scan"))
    assert call(monkeypatch, found, "--save", here / "mine.json") == 1
    text = capsys.readouterr().out
    assert "PostgreSQL 17.6 was not learnt; nothing is kept:\n  by the recorder inside, 3 pages differ" in text
    assert "by the recorder links, scan: 0 %" in text
    assert not (here / "cache").exists()
    assert not (here / "mine.json").exists()
    with pytest.raises(SpecError, match="was not learnt here"):
        learning.kept(BUILD)


@pytest.mark.parametrize("wrong", [(), ("3 pages differ",)])
def test_what_it_prints_for_programs_fits_its_schema(
    wrong: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, outcome(proof("inside", *wrong)), "--json") == len(wrong)
    told = json.loads(capsys.readouterr().out)
    DOCUMENTS["learn"].model_validate(told)
    assert (told["status"], told["wrong"]) == (
        ("refused", ["by the recorder inside, 3 pages differ"]) if wrong else ("ok", [])
    )
    assert told["proofs"][0]["resident_pages"] == {"both": 512, "listed": 512, "foretold": 512}


def test_what_is_known_is_shown_as_an_entry_of_the_table_and_as_json(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = outcome(*GOOD)
    learning.keep(found.entry, None)
    assert call(monkeypatch, found, "--show") == 0
    (shown,) = tomllib.loads(capsys.readouterr().out)["build"]
    of_entry = {"server": found.entry.server, "text_sha256": found.entry.text_sha256}
    assert shown == {**of_entry, **found.entry.settings}
    for arguments in (["--show", "--json"], ["--from", here / "mine.json", "--json"]):
        learnt.store(found.entry, here / "mine.json").chmod(0o600)
        assert call(monkeypatch, found, *arguments) == 0
        printed = capsys.readouterr().out
        DOCUMENTS["learn-show"].model_validate(json.loads(printed))
        (here / "again.json").write_text(printed)
        assert learnt.read(here / "again.json") == found.entry, "what is printed can be taken"
    assert call(monkeypatch, found, "--show", "--save", here / "other.json") == 0
    assert learnt.read(here / "other.json") == found.entry


def theirs(here: Path, found: learning.Learnt) -> Path:
    """Return the file in which another host has saved its learnt entry."""
    file = learnt.store(found.entry, here / "theirs.json")
    file.chmod(0o600)
    return file


def test_what_another_host_learnt_is_taken_for_the_same_build_alone(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = outcome(*GOOD)
    file = theirs(here, found)
    assert call(monkeypatch, found, "--from", file) == 0
    assert capsys.readouterr().out == f"PostgreSQL 17.6: taken from {file}; proved by inside and links\n"
    assert learning.kept(BUILD) == found.entry
    learnt.store(replace(found.entry, text_sha256="0" * 64), file).chmod(0o600)
    with pytest.raises(SpecError, match="this program is another build"):
        call(monkeypatch, found, "--from", file)
    file.write_text("{}")
    with pytest.raises(DataFileError, match="these are no learnt sites"):
        call(monkeypatch, found, "--from", file)
    if os.geteuid() == 0:
        file.chmod(0o666)
        with pytest.raises(EnvironmentLackingError, match="could be written by others than root"):
            call(monkeypatch, found, "--from", file)


def test_the_answer_is_shown_where_it_cannot_be_kept(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "cache").touch()
    with pytest.raises(EnvironmentLackingError, match="what was learnt cannot be kept"):
        call(monkeypatch, outcome(*GOOD))
    assert "by the trace" in capsys.readouterr().out


@pytest.mark.parametrize("cache", ["/proc/nowhere", "/dev/null/x", "/dev/null", "/proc/self/" + "a" * 300])
def test_a_cache_in_which_nothing_can_be_made_is_refused_by_name(cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUFFERLAB_CACHE", cache)
    monkeypatch.setattr(candidates, "proposed", lambda binary, original, lesson: {"fields": FIELDS, "site": sites()})
    with pytest.raises(EnvironmentLackingError) as refused:
        learning.learn(BUILD, print)
    assert refused.value.what.startswith("a private copy of the build cannot be made: ")
    assert str(refused.value.where) == f"{cache}/learning"
    assert refused.value.hint == "choose another cache with BUFFERLAB_CACHE"


def test_what_cannot_be_learnt_is_refused_with_a_sentence(bench: Bench, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no program")
    (tmp_path / "empty").mkdir()
    script = tmp_path / "postgres"
    script.write_text('#!/bin/sh\necho "postgres (PostgreSQL) 17.6"\n')
    script.chmod(0o755)
    for binary in (tmp_path / "missing", text, tmp_path / "empty", BINARY, script, "/dev/null", "/proc/self/mem"):
        for options in ([], ["--show"], ["--from", text], ["--from", tmp_path], ["--from", "/dev/null"]):
            ended = bench.bufferlab("learn", binary, *options, "--json")
            assert ended.code in (2, 3, 65), (binary, options, ended)
            assert all(one["what"] and one["where"] for one in ended.json["errors"]), ended.out
    assert not bench.cache.exists() or not list(bench.cache.rglob("learn*/*"))


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "learn needs BINARY, or --pid N"),
        ([str(BINARY), "--pid", "1"], "learn takes BINARY or --pid N, and not both"),
        (["--pid", str(2**40)], "there is no such process, or it has ended"),
        (["--pid", str(os.getpid())], "this process is no server of MySQL, MariaDB or PostgreSQL: "),
    ],
)
def test_a_build_is_named_by_its_program_or_by_a_process_that_runs_it(arguments: list[str], what: str) -> None:
    with pytest.raises(SpecError) as refused:
        command.command.main(arguments, standalone_mode=False)
    assert refused.value.what.startswith(what)
    assert refused.value.where
    assert refused.value.hint


def test_a_servers_process_shows_and_takes_what_is_known_of_its_program(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = outcome(*GOOD)
    file = theirs(here, found)
    program = here / "postgres"
    shutil.copy(BINARY, program)
    with subprocess.Popen([program, "60"]) as process:
        try:
            pid = str(process.pid)
            command.command.main(["--pid", pid, "--from", str(file)], standalone_mode=False)
            command.command.main(["--pid", pid, "--show"], standalone_mode=False)
            # From here on the file on the disk is another program: `--pid` must still describe the process's own
            # program.
            program.unlink()
            shutil.copy("/bin/cat", program)
            monkeypatch.setattr(programs, "ask_version", lambda binary, libraries: (BUILD.version, "postgres"))
            monkeypatch.setattr(programs, "by_path", lambda path: replace(BUILD, binary=program))
            command.command.main(["--pid", pid, "--show"], standalone_mode=False)
        finally:
            process.kill()
    taken, first, second = capsys.readouterr().out.split("[[build]]")
    assert "taken from" in taken
    assert first.strip() == second.strip()
