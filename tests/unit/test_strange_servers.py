"""bufferlab refuses servers with wrong answers in a sentence. `tools/campaign` tries far more of them."""

from __future__ import annotations

import random

import pytest

from bufferlab.cli import app
from campaign import judge
from campaign.strange import BEHAVIOURS
from support import hostile

QUICK: dict[str, dict[str, object]] = {
    "ok-without-rows": {},
    "no-rows": {"share": 1.0},
    "nulls": {"share": 1.0},
    "other-columns": {"kind": "fewer"},
    "refuses-statements": {"share": 1.0},
}
"""Behaviours that end every look at once, with their parameters."""


@pytest.mark.parametrize("command", [("observe", "--duration", "2s"), ("doctor", "--server")])
@pytest.mark.parametrize("family", ["mysql", "postgres"])
@pytest.mark.parametrize("name", QUICK)
def test_a_server_whose_answers_fit_no_question_is_refused_with_a_sentence(
    name: str,
    family: str,
    command: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("BUFFERLAB_PASSWORD", "a-secret-of-ours")
    server = BEHAVIOURS[name](family, random.Random(name))
    # PostgreSQL's first statement after the login asks whether the server took the login's settings.
    vars(server).update(after=1, **QUICK[name])
    with hostile.served(family, server) as url:
        words = [command[0], url, *command[1:]] if command[0] == "observe" else [*command, url]
        code = app.run(words)
    said = capsys.readouterr()
    assert judge.faults(code, said.out, said.err) == []
    assert code == 3
    assert said.err.startswith("error: ")
