"""The commands of the documents, as a reader would type them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess

import click
import pytest

from bufferlab.cli.app import group
from bufferlab.report.comparison.fail_if import parse
from bufferlab.spec import Overrides, load
from docs.commands import EXCUSED, RUN
from docs.documents import ROOT, console_commands, documents
from support.core import OF_A_CLONE


@pytest.mark.parametrize(("command", "code"), RUN.items())
def test_the_command_ends_as_the_documents_say(command: str, code: int) -> None:
    environment = {**os.environ, **OF_A_CLONE}
    done = subprocess.run(
        command.split(), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr


def test_no_command_is_listed_that_no_document_shows() -> None:
    shown = {command for document in documents() for command in console_commands(document)}
    assert {*RUN, *EXCUSED} - shown == set()


def test_every_command_of_the_example_workflow_is_one_that_bufferlab_takes() -> None:
    workflow = (ROOT / "docs/ci.yml").read_text(encoding="utf-8")
    shown = [shlex.split(line) for line in re.findall(r"run: venv/bin/bufferlab (.*)$", workflow, re.MULTILINE)]
    assert [arguments[0] for arguments in shown] == ["doctor", *2 * ["run", "run", "compare"]]
    for name, *arguments in shown:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        given = command.make_context(name, arguments).params
        if name == "run":
            named = given["experiment"].replace("branch/my.sql", str(ROOT / "experiments/script/pgbench.postgres.sql"))
            load(named, Overrides(engine=given["engine"], seed=given["seed"]))
        for rule in given.get("rules", ()):
            parse(rule)


def test_every_target_of_the_makefile_is_documented() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = next(line for line in makefile.splitlines() if line.startswith(".PHONY:")).split()[1:]
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {line.split()[0] for line in shown.splitlines()} == set(phony)
    rules = {
        line.split(":")[0] for line in makefile.splitlines() if line[:1].isalpha() and ":" in line and "=" not in line
    }
    assert rules == set(phony)
