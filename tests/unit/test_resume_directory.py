"""The directory in which a resumed sweep keeps its copies: on the device on which the sweep began, or refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bufferlab.errors import EnvironmentLackingError, SpecError
from bufferlab.execute import resume
from bufferlab.execute.host import fingerprint
from bufferlab.results.store import SweepFolder


def begun(directory: Path, **other: Any) -> SweepFolder:
    """Return a sweep folder whose host.json was written here, for this directory, except for the facts in `other`."""
    return cast("SweepFolder", SimpleNamespace(host={**fingerprint.fingerprint(directory), **other}))


def test_a_resume_takes_the_folders_own_directory_whatever_is_usual_now(tmp_path: Path) -> None:
    own, usual = tmp_path / "own", tmp_path / "usual"
    own.mkdir(), usual.mkdir()
    assert resume.data_directory(begun(own), None, usual) == own
    assert resume.data_directory(begun(own), usual, usual) == usual  # Asked for, and the same disk.
    assert resume.data_directory(begun(own), tmp_path / "new", usual) == tmp_path / "new"


def test_a_directory_that_is_gone_is_asked_for(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    folder = begun(own)
    own.rmdir()
    with pytest.raises(EnvironmentLackingError, match="is gone") as caught:
        resume.data_directory(folder, None, tmp_path)
    assert caught.value.where == str(own)
    assert "--data-dir" in (caught.value.hint or "")


@pytest.mark.parametrize("chosen", [True, False])
def test_another_device_is_refused_where_it_is_mounted_at_the_same_place_too(tmp_path: Path, chosen: bool) -> None:
    other = {"kind": "ext4", "source": "/dev/sdz9", "mount_point": "/data", "options": "rw"}
    with pytest.raises(SpecError, match=r"began on ext4 of /dev/sdz9 at /data, and its rest would be measured on"):
        resume.data_directory(begun(tmp_path, filesystem=other), tmp_path if chosen else None, tmp_path)


def test_a_mount_with_other_options_is_the_same_device(tmp_path: Path) -> None:
    now = fingerprint.fingerprint(tmp_path)["filesystem"]
    folder = begun(tmp_path, filesystem={**now, "options": "rw,noatime,other"})
    assert resume.data_directory(folder, None, tmp_path) == tmp_path


def test_another_host_may_have_other_disks_because_its_runs_are_told_apart(tmp_path: Path) -> None:
    folder = begun(tmp_path, cores=999, data_directory="/elsewhere/data", filesystem={"kind": "xfs"})
    assert resume.data_directory(folder, None, tmp_path) == tmp_path
    assert resume.data_directory(folder, tmp_path / "x", tmp_path) == tmp_path / "x"
