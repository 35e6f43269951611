"""Settings of the host are restored: after success, after failure, and after the death of the process that changed
them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bufferlab.engines import host_settings
from bufferlab.errors import EnvironmentLackingError

_HOLD = """
import sys, time
from pathlib import Path
from bufferlab.engines import host_settings
with host_settings.changed(Path(sys.argv[1]), "0", Path(sys.argv[2])):
    print("changed", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def setting(tmp_path: Path) -> Path:
    """Return a file that stands for one below /sys."""
    file = tmp_path / "read_ahead_kb"
    file.write_text("128\n")
    return file


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "changed"


def value(file: Path) -> str:
    return file.read_text().strip()


def holder(setting: Path, journal: Path) -> subprocess.Popen[str]:
    """Start a process that has changed the setting and stays alive."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(setting), str(journal)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "changed\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    """Kill the process, as the kernel does when memory runs out: it cannot restore anything."""
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_the_old_value_comes_back_after_success(setting: Path, journal: Path) -> None:
    with host_settings.changed(setting, "0", journal) as read_back:
        assert read_back == value(setting) == "0"
        assert list(journal.glob("*.json"))
    assert value(setting) == "128"
    assert not list(journal.iterdir())


def test_a_value_that_the_kernel_rounds_is_put_back_too(
    setting: Path, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read-ahead is in whole pages: the kernel rounds 5 KiB to 4."""
    read = host_settings._value
    monkeypatch.setattr(host_settings, "_value", lambda file: "4" if read(file) == "5" else read(file))
    with host_settings.changed(setting, "5", journal) as read_back:
        assert read_back == "4"
    assert value(setting) == "128"
    assert not list(journal.iterdir())


def test_the_old_value_comes_back_after_a_failure(setting: Path, journal: Path) -> None:
    with pytest.raises(ZeroDivisionError), host_settings.changed(setting, "64", journal):
        raise ZeroDivisionError
    assert value(setting) == "128"
    assert not list(journal.iterdir())


def test_the_next_start_puts_back_what_a_killed_process_left(setting: Path, journal: Path) -> None:
    process = holder(setting, journal)
    assert value(setting) == "0"
    end(process)
    assert value(setting) == "0", "nobody could put it back yet"
    (said,) = host_settings.restore(journal)
    assert str(process.pid) in said
    assert value(setting) == "128"
    assert host_settings.restore(journal) == []


def test_a_process_that_lives_keeps_its_setting_and_another_is_refused(setting: Path, journal: Path) -> None:
    process = holder(setting, journal)
    try:
        assert host_settings.restore(journal) == []
        with pytest.raises(EnvironmentLackingError) as refused, host_settings.changed(setting, "64", journal):
            pass
        assert str(process.pid) in refused.value.what
        assert value(setting) == "0"
    finally:
        end(process)
    host_settings.restore(journal)
    assert value(setting) == "128"


def test_the_number_of_a_dead_process_given_to_a_living_one_does_not_save_its_setting(
    setting: Path, journal: Path
) -> None:
    process = holder(setting, journal)
    end(process)
    (entry,) = journal.glob("*.json")
    told = json.loads(entry.read_text())
    entry.write_text(json.dumps({**told, "pid": os.getpid()}))
    host_settings.restore(journal)
    assert value(setting) == "128"


def test_what_someone_else_has_set_since_is_theirs(setting: Path, journal: Path) -> None:
    with host_settings.changed(setting, "0", journal):
        setting.write_text("256\n")
    assert value(setting) == "256"


def test_a_torn_entry_is_removed_for_nothing_was_changed_then(setting: Path, journal: Path) -> None:
    journal.mkdir()
    (journal / "x.json").write_text('{"file": "/sys/blo')
    assert host_settings.restore(journal) == []
    assert not list(journal.iterdir())


def test_a_setting_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path: Path, journal: Path) -> None:
    missing = tmp_path / "no" / "such"
    with pytest.raises(EnvironmentLackingError), host_settings.changed(missing, "0", journal):
        pass
    assert not list(journal.iterdir())


def test_without_a_journal_there_is_nothing_to_do(tmp_path: Path) -> None:
    began = time.monotonic()
    assert host_settings.restore(tmp_path / "none") == []
    assert time.monotonic() - began < 5
