"""`bufferlab script-from-slow-log` as a command: the file's mode, exit codes, the JSON object, and no value of the log
in the output."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from docs.documents import ROOT
from support.fake import Bench
from support.json_documents import DOCUMENTS
from support.slow_logs import SECRETS

LOG = ROOT / "tests/fixtures/slow-log/mysql-5.7.log"


def test_a_script_is_written_for_its_owner_alone_and_no_value_is_shown(bench: Bench, tmp_path: Path) -> None:
    script = tmp_path / "mine.sql"
    before = os.umask(0)
    try:
        ended = bench.bufferlab("script-from-slow-log", LOG, "-o", script)
    finally:
        os.umask(before)
    assert ended.code == 0
    assert stat.S_IMODE(script.stat().st_mode) == 0o600
    assert ended.out.startswith(
        "41 of the log's 51 statements (80 %) of schema shop are in the script, as 23 transactions of 9 kinds. "
        "Of its 71 entries 20 are no statements"
    )
    assert f"written: {script}" in ended.err
    for secret in SECRETS:
        assert secret not in ended.out + ended.err
    assert SECRETS[0] in script.read_text("utf-8")
    planned = bench.bufferlab("run", script, "--dry-run")
    assert planned.code == 0, planned.err


def test_a_file_that_is_there_is_kept(bench: Bench, tmp_path: Path) -> None:
    script = tmp_path / "mine.sql"
    script.write_text("mine")
    assert bench.bufferlab("script-from-slow-log", LOG, "-o", script).code == 2
    link = tmp_path / "link.sql"
    link.symlink_to(tmp_path / "elsewhere.sql")
    assert bench.bufferlab("script-from-slow-log", LOG, "-o", link).code == 2
    assert script.read_text() == "mine"
    assert not (tmp_path / "elsewhere.sql").exists()
    refused = bench.bufferlab("script-from-slow-log", LOG, "-o", tmp_path / "mine.txt")
    assert refused.code == 2
    assert "write -o mine.txt.sql" in refused.err
    refused = bench.bufferlab("script-from-slow-log", LOG, "-o", tmp_path / "no-folder" / "mine.sql")
    assert refused.code == 3
    assert "the file cannot be written: No such file or directory" in refused.err


def test_the_object_has_sections_digests_and_what_is_left_out(bench: Bench, tmp_path: Path) -> None:
    told = bench.bufferlab("script-from-slow-log", LOG, "-o", tmp_path / "mine.sql", "--json").json
    DOCUMENTS["script-from-slow-log"].model_validate(told)
    assert (told["entries"], told["statements"]) == (71, 51)
    assert told["statements_in_script"] + sum(told["left_out"].values()) == told["statements"]
    assert told["sections"][0]["name"] == "t1_insert_sale"
    assert told["sections"][0]["kept"] == 6
    assert not re.search("|".join(map(re.escape, SECRETS)), str(told))


def test_files_without_a_log_end_with_65(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_bytes(b"s3cr3t\n" * 100)
    for file in (tmp_path / "empty.log", tmp_path / "nowhere.log", tmp_path):
        ended = bench.bufferlab("script-from-slow-log", file, "-o", tmp_path / "mine.sql")
        assert ended.code == 65
        assert "s3cr3t" not in ended.out + ended.err
    assert not (tmp_path / "mine.sql").exists()
    ended = bench.bufferlab("script-from-slow-log", ".")
    assert (ended.code, "a folder" in ended.err) == (65, True), ended.err
