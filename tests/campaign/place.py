"""A folder for trials with separate cache, data, results and locks, and with other users' files that must survive."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bufferlab.engines.servers.fetched import servers_root
from campaign import witness
from campaign.inputs import ROOT

MARK = "bufferlab-campaign-mark"


@dataclass(frozen=True)
class Place:
    """The folders of the commands of one family."""

    root: Path
    mark: str

    @property
    def cache(self) -> Path:
        """The folder of loaded databases."""
        return self.root / "disk" / "cache"

    @property
    def data(self) -> Path:
        """The folder of the runs' copies."""
        return self.root / "disk" / "data"

    @property
    def others(self) -> Path:
        """Return a folder of another user."""
        return self.root / "others"

    def environment(self, cache: Path | None = None, **more: str) -> dict[str, str]:
        """Return the environment of this place's commands. The mark is in PATH, the only variable that servers
        inherit."""
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT / "python"),
            "PATH": f"{os.environ['PATH']}:/{self.mark}",
            "BUFFERLAB_CACHE": str(cache or self.cache),
            "BUFFERLAB_LOCKS": str(self.root / "locks"),
            "XDG_STATE_HOME": str(self.root / "state"),
            "TMPDIR": str(self.root / "tmp"),
            **more,
        }

    def prepare_cache(self, cache: Path) -> Path:
        """Make a cache that knows the fetched servers, and put another user's files into it."""
        (cache / "data").mkdir(parents=True)
        cache.chmod(0o711)
        if servers_root().is_dir():
            (cache / "servers").symlink_to(servers_root())
        self.plant(cache)
        self.plant(cache / "data")
        return cache

    def plant(self, folder: Path) -> None:
        """Put other users' files into a folder; some have names that bufferlab uses too."""
        for name in ("theirs", ".tmp-theirs", ".bufferlab-work/theirs"):
            (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / name / "precious.txt").write_text("not bufferlab's\n")
        (folder / "notes.txt").write_text("not bufferlab's\n")
        for name in (".tmp-link", ".bufferlab-work/link"):
            (folder / name).symlink_to(self.others)

    def start(self, arguments: Sequence[str | Path], log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        """Start `bufferlab ARGUMENTS`; both of its streams go to the log."""
        command = [sys.executable, "-m", "bufferlab", *map(str, arguments)]
        with log.open("wb") as file:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment, cwd=self.root
            )

    def end_all(self) -> None:
        """Kill all processes of this place that still run."""
        for pid in witness.processes(self.mark, self.root):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def place(disk_mib: int = 0) -> Iterator[Place]:
    """Make a place below /var/tmp, which the servers' users can enter; on a separate disk if a size is given."""
    root = Path(tempfile.mkdtemp(prefix="bufferlab-campaign-", dir="/var/tmp"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        root.chmod(0o711)
        found = Place(root, f"{MARK}-{root.name}")
        for name in ("disk", "others", "tmp", "locks"):
            (root / name).mkdir(mode=0o711)
        (root / "others" / "precious.txt").write_text("not bufferlab's\n")
        if disk_mib:
            stack.enter_context(_mounted(root, disk_mib))
        stack.callback(found.end_all)
        found.data.mkdir(mode=0o711)
        found.plant(found.data)
        found.prepare_cache(found.cache)
        yield found


@contextmanager
def _mounted(root: Path, mib: int) -> Iterator[None]:
    """Mount an ext4 of this size at the place's disk: a device that no other program uses."""
    image = root / "disk.img"
    with image.open("wb") as file:
        file.truncate(mib << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, root / "disk"], check=True)
    (root / "disk").chmod(0o711)
    try:
        yield
    finally:
        subprocess.run(["umount", root / "disk"], check=False)
