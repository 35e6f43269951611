"""What `list`, `engines`, `cache` and `doctor` print of this host and of what bufferlab has."""

from __future__ import annotations

from typing import Literal

from support.json_documents.base import Document, Printed


class Setting(Document):
    name: str
    native_name: str
    unit: str
    default: str
    values: str
    meaning: str
    decides_data: bool
    versions: str
    auto: str | None


class ListedExperiment(Document):
    name: str
    question: str
    engine: str
    workload: str
    sweep: dict[str, list[str]]
    file: str


class ListedEngine(Document):
    name: str
    meaning: str
    connections_max: int
    notes: list[str]
    knobs: list[Setting]


class ListedWorkload(Document):
    name: str
    version: int
    meaning: str
    caveat: str
    transaction_types: list[str]
    parameters: list[Setting]


class ListedMetric(Document):
    name: str
    unit: str
    kind: Literal["counter", "gauge", "ratio", "share", "latency"]
    better: Literal["lower", "higher", "neither"]
    scale: Literal["log", "linear"]
    needs_long_window: bool
    probe: str
    meaning: str
    source: str


class Listing(Printed):
    """`list`; with a kind, that key alone."""

    experiments: list[ListedExperiment] | None = None
    engines: list[ListedEngine] | None = None
    workloads: list[ListedWorkload] | None = None
    load: list[Setting] | None = None
    metrics: list[ListedMetric] | None = None


class PastSweep(Document):
    folder: str
    experiment: str | None
    engine: str | None
    began_at: str | None
    runs_planned: int
    runs_ok: int
    runs_failed: int
    answer: str | None
    problem: str | None
    status: str


class PastSweeps(Printed):
    """`list runs`."""

    runs: list[PastSweep]


class Server(Document):
    name: str
    usable: bool
    flavour: str | None
    version: str | None
    untried: bool | None
    where: str | None
    reason: str | None
    hint: str | None


class Servers(Printed):
    """`engines` and `engines fetch`."""

    servers: list[Server]


class CacheEntry(Document):
    kind: str
    name: str
    path: str
    size_bytes: int
    last_used_at: str
    in_use: bool


class CacheList(Printed):
    """`cache list`."""

    entries: list[CacheEntry]
    size_bytes: int


class CachePrune(Printed):
    """`cache prune`."""

    dry_run: bool
    removed: list[CacheEntry]
    size_bytes: int


class DoctorFinding(Document):
    subject: str
    name: str
    ok: bool
    detail: str
    hint: str | None
    needed: bool


class Doctor(Printed):
    """`doctor`: of this host, or with --server of a server and its engine."""

    status: Literal["ok", "lacking"]
    data_directory: str | None
    server: str | None
    engine: str | None
    findings: list[DoctorFinding]
