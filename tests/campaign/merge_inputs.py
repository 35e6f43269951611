"""Hostile folders for `merge`: two folders of one plan with a block each, one of them changed by an attacker."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

from campaign import mutate
from campaign.family import Folder
from support.synthetic import BUFFER_SIZE, Sweep

#: More than the limit of any JSON document; the file is a hole, so it takes no space.
_HUGE_BYTES = 1 << 30


class Merge(Folder):
    """Links, pipes, huge documents, other hashes, a block twice, runs twice, broken tables, mangled documents."""

    sweeps: Sequence[Sweep] = (Sweep(truths=BUFFER_SIZE[:2], blocks=2, transactions=600, warm_up_seconds=2),)

    def begin_with(self, template: Path) -> None:
        self.out, self.other = self.folder / "merged", self.folder / "other"
        super().begin_with(template)
        self._keep_block(self.path, 0)
        shutil.rmtree(self.other, ignore_errors=True)
        shutil.copytree(template, self.other)
        self._keep_block(self.other, 1)
        self.files = {path.relative_to(self.path): path.read_bytes() for path in self.path.rglob("*") if path.is_file()}
        self.run = min(path.parent for path in self.path.glob("runs/*/run.json"))

    def _keep_block(self, folder: Path, block: int) -> None:
        """Turn a complete sweep into the folder of one of its blocks."""
        for run in sorted(folder.glob("runs/*")):
            if json.loads((run / "run.json").read_text())["block"] != block:
                shutil.rmtree(run)
        plan = json.loads((folder / "plan.json").read_text())
        (folder / "plan.json").write_text(json.dumps({**plan, "blocks": [block]}))

    def clear(self) -> None:
        # The input may have made links, pipes and folders, so make everything anew.
        self.begin_with(self.whole)
        if self.out.is_symlink() or self.out.is_file():
            self.out.unlink()
        shutil.rmtree(self.out, ignore_errors=True)

    def change(self, rng: random.Random) -> None:
        changes = (self._link, self._pipe, self._huge, self._flip, self._blocks, self._twice, self._cut, self._document,
                   self._run, self._hosts)  # fmt: skip
        rng.choice(changes)(rng)

    def arguments(self, rng: random.Random) -> list[str]:
        """Return a merge of both folders, sometimes of another pair."""
        paths = [self.path, self.other]
        rng.shuffle(paths)
        if rng.random() < 0.1:
            paths = rng.choice(([self.path, self.path], [self.path], [*paths, self.path], [self.path, self.run]))
        # A successful merge draws a page, with any output format.
        return ["merge", *map(str, paths), "--out", str(self.out), *rng.choice((["--json"], ["--json"], []))]

    def _any(self, rng: random.Random) -> Path:
        return rng.choice(sorted(self.path.rglob("*")))

    def _link(self, rng: random.Random) -> None:
        place = self._any(rng)
        aside = self.folder / "aside"
        shutil.rmtree(aside, ignore_errors=True)
        aside.unlink(missing_ok=True)
        place.rename(aside)
        place.symlink_to(rng.choice((aside, self.other, "/dev/zero", "nowhere", place.name, "/")))

    def _pipe(self, rng: random.Random) -> None:
        place = self._any(rng)
        if place.is_dir():
            place = place / rng.choice(("pipe", "samples.parquet.new", "other-pools.json"))
        place.unlink(missing_ok=True)
        os.mkfifo(place)

    def _huge(self, rng: random.Random) -> None:
        os.truncate(rng.choice([path for path in sorted(self.path.rglob("*")) if path.is_file()]), _HUGE_BYTES)

    def _flip(self, rng: random.Random) -> None:
        path = rng.choice(sorted(self.run.iterdir()))
        path.write_bytes(mutate.mangle_bytes(path.read_bytes(), rng))

    def _blocks(self, rng: random.Random) -> None:
        plan = self.read(self.path / "plan.json")
        plan["blocks"] = rng.choice(([1], [0, 1], [], [0, 0], [2], [-1], [2**31], ["0"], 0, None, [[0]], [0.5]))
        (self.path / "plan.json").write_text(json.dumps(plan))

    def _twice(self, rng: random.Random) -> None:
        """Copy a run within its folder or from the other one, with or without a matching name and hash."""
        source = rng.choice((self.run, min((self.other / "runs").iterdir())))
        self.run = shutil.copytree(source, self.path / "runs" / source.name[::-1])
        if rng.random() < 0.7:
            document = json.loads((self.run / "run.json").read_text())
            self.seal({**document, "run_id": self.run.name})

    def _cut(self, rng: random.Random) -> None:
        name = rng.choice(("samples.parquet", "latency.parquet"))
        path = self.run / name
        os.truncate(path, rng.randrange(path.stat().st_size))
        self.seal(self.read(self.run / "run.json"), [name])

    def _document(self, rng: random.Random) -> None:
        path = self.path / rng.choice(("plan.json", "plan.json", "host.json"))
        path.write_text(json.dumps(mutate.mangle_json(self.read(path), rng)))

    def _run(self, rng: random.Random) -> None:
        self.seal(mutate.mangle_json(self.read(self.run / "run.json"), rng))

    def _hosts(self, rng: random.Random) -> None:
        host = self.read(self.path / "host.json")
        stamp = {name: host[name] for name in ("format", "format_version")}
        told = {"hosts": [{"host": host, "blocks": [0]}], **stamp}
        (self.path / "hosts.json").write_text(json.dumps(mutate.mangle_json(told, rng)))
