"""For any file, the parsers and the audit end with an answer, and in bounded memory."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bufferlab.audit import as_report
from bufferlab.report.document import as_json
from support.audit_files import FIXTURES, audit_of

_FILES = sorted(FIXTURES.rglob("*.txt"))
_LINES = [line for file in _FILES for line in file.read_text(encoding="utf-8").splitlines()]
_CHARACTERS = "0123456789.,|:%/()[]<>-\t =eEnNaAiIfF"


def _mangled(line: str, rng: random.Random) -> str:
    characters = list(line)
    for _ in range(rng.randint(0, 4)):
        at = rng.randint(0, len(characters))
        kind = rng.random()
        if kind < 0.4 and characters:
            characters[min(at, len(characters) - 1)] = rng.choice(_CHARACTERS)
        elif kind < 0.7:
            characters.insert(at, rng.choice(_CHARACTERS) * rng.choice((1, 1, 30)))
        elif characters:
            del characters[at : at + rng.randint(1, 12)]
    return "".join(characters)


@given(st.integers(0, 2**32))
@example(377)  # A transaction type that no interval line counts was judged all the same.
@settings(max_examples=150)
def test_mangled_files_never_end_in_an_exception(seed: int) -> None:
    rng = random.Random(seed)
    lines = [_mangled(rng.choice(_LINES), rng) if rng.random() < 0.7 else rng.choice(_LINES) for _ in range(120)]
    audit = audit_of("\n".join(lines))
    json.dumps(as_json(as_report(audit)), allow_nan=False)
    assert as_report(audit).answer


@given(st.integers(0, 2**32))
@settings(max_examples=60)
def test_a_file_with_lines_lost_doubled_and_mangled_never_ends_in_an_exception(seed: int) -> None:
    rng = random.Random(seed)
    lines = rng.choice(_FILES).read_text(encoding="utf-8").splitlines()
    kept = [_mangled(line, rng) if rng.random() < 0.1 else line for line in lines if rng.random() < 0.9]
    where = rng.randint(0, len(kept))
    audit = audit_of("\n".join(kept + kept[where : where + 20]))
    json.dumps(as_json(as_report(audit)), allow_nan=False)


@given(st.text(max_size=400))
@settings(max_examples=150)
def test_any_text_is_survived(text: str) -> None:
    assert as_report(audit_of(text)).answer


def test_a_counter_with_more_digits_than_python_converts_is_survived() -> None:
    number = "1" + ",000" * 1450
    assert as_report(audit_of(f"CPU0 (md0):\n Reads Queued:  {number},  {number}KiB\n")).answer


def test_a_huge_file_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "huge.txt"
    with path.open("wb") as file:
        file.write(b"3517.600 TpmC\n" + b"x" * (48 << 20) + b"\n")
        for number in range(50_000):
            file.write(b"%d words that are no table | of any kind, with, commas and numbers 1.00\n" % number)
    code = f"""
import resource
from pathlib import Path
from bufferlab.audit.parsers.read import read_file
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert read_file(Path({str(path)!r})).logs
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 40_000, "kibibytes"
