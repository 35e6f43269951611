"""A scripted engine: it loads a small file, then counts by formula on a virtual clock, or misbehaves as asked.

It uses no native code. It sends the core's events in the core's order, so tests on it take the path of every engine.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bufferlab import __version__
from bufferlab.engines.behaviour import Behaviour, EngineFailure, Found, HostCheck, NativeKnobs, OnEvent
from support.engines.fake.script import Script
from support.engines.fake.workloads import HEADER_BYTES, file_bytes, setup_text, shape_of


class FakeBehaviour(Behaviour):
    """A behaviour that keeps every promise of the contract, except those that its knobs tell it to break."""

    def __init__(self) -> None:
        self._stop = threading.Event()

    def find(self) -> Found:
        """Return the engine, which is always available."""
        return Found("1.0", __version__, "scripted")

    def check_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Return a passed check, because any directory will do."""
        return [HostCheck("direct_io", True, "the fake engine does no I/O")]

    def data_recipe(self, knobs: NativeKnobs, workload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the knobs and parameters that decide the file's bytes; of a script's text only its setup."""
        deciding = {name: knobs[name] for name in ("page_size", "load_behave")}
        parameters = {name: value for name, value in workload.items() if name not in ("source", "text")}
        setup = {"setup": setup_text(workload["text"])} if "text" in workload else {}
        return {"engine": "fake", "version": 1, "knobs": deciding, "workload": parameters, **setup}

    def allocated_bytes(self, database: Path) -> int:
        """Return the bytes of the whole file."""
        return database.stat().st_size

    def shape(self, database: Path) -> dict[str, Any] | None:
        """Return the trees that the workload would have, in imaginary pages."""
        header = json.loads(database.read_bytes()[:HEADER_BYTES])
        return shape_of(header["workload"], header["page_size_bytes"])

    def load(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Write a header and bytes drawn from the seed."""
        knobs, workload = job["knobs"], job["workload"]
        size_bytes, behave = file_bytes(workload), knobs.get("load_behave", "ok")
        parameters = {name: value for name, value in workload.items() if name not in ("source", "text")}
        header = {"load_behave": behave, "page_size_bytes": knobs["page_size"], "workload": parameters}
        seed = json.dumps([parameters, setup_text(workload.get("text", ""))], sort_keys=True)
        on_event(json.dumps({"event": "progress", "phase": "load", "done": 0, "total": size_bytes, "t_s": 0.0}))
        with Path(job["database"]).open("wb") as file:
            file.write(json.dumps(header).encode().ljust(HEADER_BYTES))
            self._misbehave(behave)
            file.write(random.Random(seed).randbytes(size_bytes - HEADER_BYTES))
        on_event(
            json.dumps({"event": "progress", "phase": "load", "done": size_bytes, "total": size_bytes, "t_s": 1.0})
        )
        rows = size_bytes // 400
        return {"rows": rows, "seconds": 1.0, "rows_per_s": rows / 1.0, "bytes": size_bytes, "tables": {"rows": rows}}

    def run(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Warm up, measure by formula, and do the phases; the virtual clock starts at zero."""
        database, behave = Path(job["database"]), job["knobs"]["behave"]
        script = Script.of(job, self.allocated_bytes(database))
        _phase(on_event, "warm_up", script.t_s)
        script.warm_up()
        on_event(json.dumps({"event": "progress", "phase": "warm_up", "done": 1, "total": 1, "t_s": script.t_s}))
        for place, window in enumerate(script.windows):
            if place and self._stopped(behave):
                break
            script.begin(place)
            _phase(on_event, window.name, script.t_s)
            self._measure(script, job, behave, database, on_event)
        _phase(on_event, "closing", script.t_s)
        _dirty(database, behave, job["workload"]["seed"])
        return script.result("interrupted" if self._stop.is_set() else "ok")

    def _measure(self, script: Script, job: Mapping[str, Any], behave: str, database: Path, on_event: OnEvent) -> None:
        """Measure one window, from edge to edge."""
        on_event(json.dumps(script.sample("start")))
        for silent in script.silence(behave):
            on_event(json.dumps(silent))
        while not script.done() and not self._stopped(behave):
            script.second()
            on_event(json.dumps(script.sample(None)))
            self._misbehave(behave, database)
            self._stop.wait(job["knobs"]["pace_ms"] / 1000) if behave != "stubborn" else time.sleep(0.05)
        script.end()
        on_event(json.dumps(script.sample("end")))

    def check(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Return one scripted condition, which is violated if the knobs asked for a corrupt load or run."""
        header = json.loads(Path(job["database"]).read_bytes()[:HEADER_BYTES])
        bad = header.get("load_behave") == "corrupt" or header.get("behave") == "corrupt"
        condition = {"condition": 1, "name": "scripted", "passed": not bad, "violations": int(bad)}
        return {"seconds": 0.0, "conditions": [condition]}

    def cancel(self) -> None:
        """Ask the run to stop after the current virtual second."""
        self._stop.set()

    def _stopped(self, behave: str) -> bool:
        return self._stop.is_set() and behave != "stubborn"

    def _misbehave(self, behave: str, database: Path | None = None) -> None:
        match behave:
            case "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "silent":
                while True:
                    time.sleep(3600)
            case "io_error":
                raise EngineFailure("io", "read of page 7 failed: Input/output error", "the fake device", None)
            case "full_disk":
                raise EngineFailure("full_disk", "no space left on device", "the fake disk", "free some space")
            case "fill_disk" if database is not None:
                with database.open("ab") as file:
                    while True:
                        file.write(b"\0" * (1 << 20))


def _phase(on_event: OnEvent, phase: str, t_s: float) -> None:
    on_event(json.dumps({"event": "phase", "phase": phase, "t_s": t_s}))


def _dirty(database: Path, behave: str, seed: int) -> None:
    """Mark the file as used by a run. Raises EngineFailure if another run has used it before."""
    header = json.loads(database.read_bytes()[:HEADER_BYTES])
    if "runs" in header:
        raise EngineFailure("data", "the database was used by another run", str(database), None)
    header |= {"behave": behave, "runs": hashlib.sha256(str(seed).encode()).hexdigest()}
    with database.open("r+b") as file:
        file.write(json.dumps(header).encode().ljust(HEADER_BYTES))
