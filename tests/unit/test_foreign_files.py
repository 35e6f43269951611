"""Files that bufferlab did not make stay, and bufferlab writes no file through a link."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bufferlab.engines.servers import fetch, version_call
from bufferlab.errors import DataFileError, EnvironmentLackingError
from bufferlab.execute.host import storage
from bufferlab.registry import open_sweep
from bufferlab.results.store import SweepFolder
from support.fake import Bench
from support.synthetic import BUFFER_SIZE, Sweep, build


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return another user's folder with a folder and a file in it."""
    (tmp_path / "victim" / "photos").mkdir(parents=True)
    (tmp_path / "victim" / "photos" / "one.jpg").write_bytes(b"x")
    return tmp_path / "victim"


def photo(victim: Path) -> bytes:
    return (victim / "photos" / "one.jpg").read_bytes()


# Folders for copies, half-written folders, figures.


def test_a_folder_for_copies_that_is_a_link_is_refused_and_its_target_stays(tmp_path: Path, victim: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / storage.SCRATCH).symlink_to(victim)
    with pytest.raises(EnvironmentLackingError, match="not a folder of this user") as caught, storage.scratch(data):
        pass
    assert str(data / storage.SCRATCH) in (caught.value.where or "")
    assert photo(victim) == b"x"
    assert list(victim.iterdir()) == [victim / "photos"]


def test_folders_without_our_mark_stay_beside_copies_and_results(tmp_path: Path, victim: Path, bench: Bench) -> None:
    victim.rename(bench.root.parent / "elsewhere")
    for parent, name in ((bench.out / storage.SCRATCH, "mine"), (bench.out, ".tmp-mine")):
        parent.mkdir(parents=True, exist_ok=True)
        (parent / name).mkdir()
        (parent / name / "precious").write_bytes(b"x")
    bench.measure(bench.experiment(sweep='pool_size = ["5%"]', repetitions=1))
    assert (bench.out / storage.SCRATCH / "mine" / "precious").read_bytes() == b"x"
    assert (bench.out / ".tmp-mine" / "precious").read_bytes() == b"x"


@pytest.fixture
def sweep(tmp_path: Path) -> SweepFolder:
    return build(tmp_path, Sweep(truths=BUFFER_SIZE[:2], blocks=1, warm_up_seconds=2))


def test_a_link_in_place_of_a_folder_for_figures_is_refused(sweep: SweepFolder, victim: Path) -> None:
    (sweep.path / "figures").symlink_to(victim)
    with pytest.raises(DataFileError, match="not a folder") as caught:
        sweep.write_derived("figures/new.svg", "<svg/>")
    assert str(sweep.path / "figures") in (caught.value.where or "")
    assert list(victim.iterdir()) == [victim / "photos"]


def test_a_link_in_place_of_the_folder_of_runs_is_refused(sweep: SweepFolder, tmp_path: Path) -> None:
    (sweep.path / "runs").rename(tmp_path / "runs elsewhere")
    (sweep.path / "runs").symlink_to(tmp_path / "runs elsewhere")
    with pytest.raises(DataFileError, match="not a folder"):
        open_sweep(sweep.path)


def test_a_folder_in_runs_that_only_looks_half_written_stays(sweep: SweepFolder) -> None:
    (sweep.path / "runs" / ".tmp-mine").mkdir()
    assert sweep.clean_temporaries() == []
    assert (sweep.path / "runs" / ".tmp-mine").is_dir()


# Archives.


def tar(*members: tuple[str, dict[str, object]]) -> tarfile.TarFile:
    """Return an archive of these members: a name and the fields of its header; for a file, its content."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, fields in members:
            member = tarfile.TarInfo(name)
            content = bytes(fields.pop("content", b""))  # type: ignore[call-overload]
            member.size = len(content)
            for field, value in fields.items():
                setattr(member, field, value)
            archive.addfile(member, io.BytesIO(content))
    file.seek(0)
    return tarfile.open(fileobj=file)


LINK, HARD = {"type": tarfile.SYMTYPE}, {"type": tarfile.LNKTYPE}


@pytest.mark.parametrize(
    "members",
    [
        [("../out", {"content": b"x"})],
        [("/tmp/bufferlab-test-out", {"content": b"x"})],
        [("bin/../../out", {"content": b"x"})],
        [("way", {**LINK, "linkname": ".."}), ("way/out", {"content": b"x"})],
        [("way", {**LINK, "linkname": "/tmp"}), ("way/out", {"content": b"x"})],
        [("bin/a", {"content": b"x"}), ("way", {**LINK, "linkname": "bin"}), ("way/out", {"content": b"x"})],
        [("file", {**LINK, "linkname": "../out"}), ("file", {"content": b"x"})],
        [("d/y", {**LINK, "linkname": "x/.."}), ("d/x", {**LINK, "linkname": ".."}), ("out", {"content": b"x"})],
        [("way", {**LINK, "linkname": "/etc/passwd"})],
        [("shadow", {**HARD, "linkname": "/etc/shadow"})],
        [("shadow", {**HARD, "linkname": "../../etc/shadow"})],
        [("null", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3})],
        [("disk", {"type": tarfile.BLKTYPE, "devmajor": 7, "devminor": 0})],
        [("pipe", {"type": tarfile.FIFOTYPE})],
    ],
    ids=lambda members: "+".join(name for name, _ in members),
)
def test_an_archive_that_leaves_its_folder_is_refused(
    tmp_path: Path, members: list[tuple[str, dict[str, object]]]
) -> None:
    into = tmp_path / "server"
    into.mkdir()
    with tar(*((name, dict(fields)) for name, fields in members)) as archive, pytest.raises(EnvironmentLackingError):
        fetch._extract_tar(archive, "", into)
    assert list(tmp_path.iterdir()) == [into]
    assert not any(path.is_fifo() or path.is_char_device() or path.is_block_device() for path in into.rglob("*"))


def test_an_archive_keeps_its_links_inside_and_loses_setuid(tmp_path: Path) -> None:
    archive = tar(
        ("package/bin/server", {"content": b"#!/bin/sh\n", "mode": 0o6755}),
        ("package/lib/lib.so.1", {"content": b"elf", "mode": 0o644, "uid": 1234}),
        ("package/lib/lib.so", {**LINK, "linkname": "lib.so.1"}),
        ("package/lib/up", {**LINK, "linkname": "../bin/server"}),
        ("elsewhere/file", {"content": b"x"}),
    )
    with archive:
        fetch._extract_tar(archive, "package/", tmp_path)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    assert found == {"bin", "bin/server", "lib", "lib/lib.so.1", "lib/lib.so", "lib/up"}
    assert (tmp_path / "bin/server").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "lib/lib.so").read_bytes() == b"elf"
    assert (tmp_path / "lib/lib.so.1").stat().st_uid == os.getuid()


# Binaries.


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Yield a folder that every user can enter."""
    with tempfile.TemporaryDirectory(prefix="bufferlab-test-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root asks as somebody else")
def test_a_binary_is_asked_for_its_version_as_the_user_it_will_run_as(open_folder: Path) -> None:
    binary = open_folder / "mysqld"
    binary.write_text("#!/bin/sh\necho $(id -u) $(id -G)\n")
    binary.chmod(0o755)
    uid, gid = version_call.server_user() or (0, 0)
    assert version_call.what_it_says(binary, None).split() == [str(uid), str(gid)]
