"""The fake engine on a file in a directory, with the additional answers of a server: configuration, status,
confounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bufferlab.engines.behaviour import NativeKnobs, OnEvent
from bufferlab.errors import EnvironmentLackingError
from support.engines.fake.behaviour import FakeBehaviour

_CHUNK_BYTES = 1 << 20


class FakeServerBehaviour(FakeBehaviour):
    """A fake engine that rounds its pool up to whole MiB, as servers do, and keeps a log next to the data."""

    def server_version(self, knobs: NativeKnobs) -> str:
        """Return the number in the build's name; raise EnvironmentLackingError for build 9, which is not installed."""
        version = str(knobs["server"]).removeprefix("fake-")
        if version.startswith("9"):
            raise EnvironmentLackingError(f"there is no server fake-{version} here", "server", "choose fake-2.0")
        return version

    def data_recipe(self, knobs: NativeKnobs, workload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fake engine's recipe, with the build."""
        return {**super().data_recipe(knobs, workload), "server": knobs["server"]}

    def allocated_bytes(self, database: Path) -> int:
        """Return the bytes of the file of pages; the rest of the directory is not data."""
        return super().allocated_bytes(_file(database))

    def shape(self, database: Path) -> dict[str, Any] | None:
        """Return the trees in the file of pages."""
        return super().shape(_file(database))

    def load(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Make a directory with the file of pages, an empty folder, and a small file as a server has."""
        database = Path(job["database"])
        (database / "data" / "empty").mkdir(parents=True)
        (database / "auth.json").write_text("{}")
        _log(database, "loading")
        return super().load({**job, "database": str(_file(database))}, on_event)

    def run(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Do the fake engine's run, and add a server's additional answers."""
        database, knobs = Path(job["database"]), job["knobs"]
        _log(database, f"imaginary server {knobs['server']} with {job['connections']} connections")
        on_event(
            json.dumps({"event": "status_text", "t_s": 0.0, "phase": "measure", "edge": "start", "text": "calm\n"})
        )
        result = super().run({**job, "database": str(_file(database))}, on_event)
        rounded = -(-knobs["pool_size"] // _CHUNK_BYTES) * _CHUNK_BYTES
        return {
            **result,
            "actual": {**result["actual"], "pool_size": rounded},
            "engine_conf": "[mysqld]\n" + "".join(f"{name} = {value}\n" for name, value in sorted(knobs.items())),
            "notes": {"pool_size": "sizes are rounded up to whole MiB"} if rounded != knobs["pool_size"] else {},
            "confounds": ["cleaners became 1 with one instance"] if knobs.get("new") == 1 else [],
        }

    def check(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Check the file of pages."""
        return super().check({**job, "database": str(_file(Path(job["database"])))}, on_event)


def _file(database: Path) -> Path:
    """Return the file of pages, from the directory or from the file itself."""
    return database if database.is_file() else database / "data" / "pages.ibd"


def _log(database: Path, text: str) -> None:
    folder = database.parent / "server"
    folder.mkdir(exist_ok=True)
    with (folder / "error.log").open("a") as log:
        log.write(text + "\n")
