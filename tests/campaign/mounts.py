"""File systems mounted in or below a folder with bufferlab's mark: a clean-up must remove nothing there."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from campaign.place import Place, place
from campaign.records import Finding, Record, State
from support.fake_disks import bound, tiny_disk
from support.marks import leave_marked

NAMES = ("prune",)


def run(state: State, name: str, *, seed: int, seconds: float, goal: int) -> None:
    """Mount file systems and clean up for `seconds`, or until the goal of trials is reached."""
    family, ends = f"mounts:{name}", time.monotonic() + seconds
    while time.monotonic() < ends and (number := state.total(family).trials) < goal:
        rng = random.Random(f"{family}/{seed}/{number}")
        with place() as where:
            state.add(_trial(where, family, f"{seed}/{number}", rng))


def _trial(where: Place, family: str, seed: str, rng: random.Random) -> Record:
    """Make a marked folder with a mount on, in or below it, call `cache prune`, and check that everything is still
    there."""
    left = rng.choice((where.cache / "data", where.data, where.data / "sweep-1" / "runs")) / ".tmp-left"
    inside = left / rng.choice((".", "sub", "sub/deeper", "file"))
    precious = where.root / "others"
    inside.mkdir(parents=True, exist_ok=True)
    (left / "ours").write_text("x")
    leave_marked(left)
    with ExitStack() as stack:
        if rng.random() < 0.7:
            stack.enter_context(bound(inside, precious) if rng.random() < 0.5 else tiny_disk(inside, 64))
            mounted = True
        else:
            mounted = False
        (inside / "theirs").write_text("x")
        if inside == left and rng.random() < 0.7:
            leave_marked(left)
        before = _files(left)
        log = where.root / "prune.log"
        code = where.start(["cache", "prune", "--data-dir", where.data], log, where.environment()).wait()
        wrong = judged(code, log.read_text(errors="replace"), before, _files(left), mounted=mounted)
        if not (precious / "precious.txt").exists():
            wrong.append("a file of others is gone")
    subprocess.run(["umount", "--lazy", inside], check=False, capture_output=True)
    return Record(family, seed, 1, dict(Counter({f"exit {code}": 1})), [Finding(what, seed) for what in wrong])


def judged(code: int, said: str, before: set[str], after: set[str], *, mounted: bool) -> list[str]:
    """Return the faults of a clean-up that found a mount."""
    wrong = []
    if code not in (0, 3) or "Traceback" in said:
        wrong.append(f"cache prune ended with code {code}")
    if mounted and before - after:
        wrong.append(f"removed beside or through a mount: {', '.join(sorted(before - after))}")
    if not mounted and code == 0 and after:
        wrong.append(f"left though nothing was mounted: {', '.join(sorted(after))}")
    return wrong


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")} if folder.exists() else set()
