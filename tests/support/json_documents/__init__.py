"""The objects that the commands print with `--json`, as types: docs/schemas is written from them.

All but a stored plan are the product's own dataclasses, of which `printed` makes JSON.
"""

from __future__ import annotations

import json
from typing import Literal

from bufferlab.audit.audit import Audit
from bufferlab.cli.doctor import Finding
from bufferlab.cli.past_runs import Past
from bufferlab.engines.behaviour import ServerCheck
from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.engines.servers.builds import Listed
from bufferlab.engines.servers.learnt import RULES
from bufferlab.errors import Problem
from bufferlab.execute.data.leftovers import Leftover
from bufferlab.knob import Knob
from bufferlab.learn.proof import Proof, Recorder
from bufferlab.learn.written import Written
from bufferlab.live.advise import Advice
from bufferlab.live.look_result import Seen
from bufferlab.plan import SweepCost
from bufferlab.report.comparison.accuracy import Accuracy
from bufferlab.report.comparison.compare_metrics import SidesCompared
from bufferlab.report.comparison.history import History
from bufferlab.report.curve_page import CurveResult
from bufferlab.report.document import SweepResult
from bufferlab.results.metrics import Metric
from bufferlab.slow_log import Made
from bufferlab.workloads.declaration import WorkloadDeclaration
from support.json_documents.base import Document, Printed, _fields, model_of, of_answer, of_keys
from support.json_documents.planned import StoredPlan


class ListedExperiment(Document):
    name: str
    question: str
    engine: str
    workload: str
    sweep: dict[str, list[str]]
    file: str


class LearntPlace(Document):
    offset: int
    """In the file, in bytes from its beginning."""
    byte: int
    """The byte there."""


class LearntSite(LearntPlace):
    at: str
    """The name of the function, or a question mark."""
    kinds: list[Literal["get", "read", "create", "evict", "dirty", "write"]]
    fetch: list[str]
    """The place of each field, in the kernel's notation."""
    inside: LearntPlace | None = None
    """Another place for code in the server, where a jump has no room at the first."""


class LearntSettings(Document):
    fields: list[str]
    """The fields of a record, with their types."""
    cost_shown: Literal[False]
    site: list[LearntSite]


class LearntRun(model_of(Proof)):  # type: ignore[misc]
    """The comparisons for one run of a private server."""

    written: model_of(Written) | None = None  # type: ignore[valid-type]
    """The comparisons of changed and written pages; none in entries with rules 1."""


class LearntProof(Document):
    by: list[Recorder]
    """What has proved the sites."""
    when: str
    settings: dict[str, str]
    """The settings of the private server."""
    runs: list[LearntRun]


_LEARNT = {
    "status": Literal["ok", "refused"],
    "server": str,
    "binary": str,
    "text_sha256": str,
    "seconds": float,
    "proved_by": list[Recorder],
    "wrong": list[str],
    "without_writes": str | None,
    "proofs": list[Proof],
}
_LEARNT_SITES = {
    "format": Literal["bufferlab-learnt-sites"],
    "rules": Literal[1, RULES],
    "server": str,
    "text_sha256": str,
    "settings": LearntSettings,
    "proof": LearntProof,
}
_LISTED = {
    "experiments": list[ListedExperiment] | None,
    "engines": list[EngineDeclaration] | None,
    "workloads": list[WorkloadDeclaration] | None,
    "load": list[Knob] | None,
    "metrics": list[Metric] | None,
}
_DRY_RUN = {
    "dry_run": Literal[True],
    "plan": StoredPlan,
    "estimate": SweepCost,
    "servers": dict[str, list[ServerCheck]],
}
_DOCTOR = {
    "status": Literal["ok", "lacking"],
    "data_directory": str | None,
    "server": str | None,
    "engine": str | None,
    "findings": list[Finding],
}
_ERROR = {"status": Literal["error"], "exit_code": int, "kind": str, "errors": list[Problem]}
_PRUNED = {"dry_run": bool, "removed": list[Leftover], "size_bytes": int}
_SCRIPT = {"status": Literal["ok"], "script": str, **{name: kind for name, (kind, _) in _fields(Made).items()}}

DOCUMENTS: dict[str, type[Printed]] = {
    "accuracy": of_answer("Accuracy", "`accuracy`; docs/prediction.md explains the keys.", Accuracy),
    "advise": of_answer("Advised", "`advise`; docs/advice.md explains it.", Advice),
    "audit": of_answer("Audit", "`audit`.", Audit),
    "cache-list": of_keys("CacheList", "`cache list`.", {"entries": list[Leftover], "size_bytes": int}),
    "cache-prune": of_keys("CachePrune", "`cache prune`.", _PRUNED),
    "compare": of_answer("Comparison", "`compare`; docs/compare.md explains the keys.", SidesCompared),
    "curve": of_answer("Curve", "`curve`.", CurveResult),
    "doctor": of_keys("Doctor", "`doctor`: of this host, or with --server of a server and its engine.", _DOCTOR),
    "dry-run": of_keys("DryRun", "`run --dry-run`; the servers are those that run already, by URL.", _DRY_RUN),
    "engines": of_keys("Servers", "`engines` and `engines fetch`.", {"servers": list[Listed]}),
    "error": of_keys("Error", "Any command that ended with an error; docs/reliability.md lists the kinds.", _ERROR),
    "history": of_answer("History", "`history`; docs/history.md explains the keys.", History),
    "learn": of_keys("Learnt", "`learn`: what was compared; of `refused` nothing is kept.", _LEARNT),
    "learn-show": of_keys("LearntSites", "`learn --show` and `learn --from`: what is kept of a build.", _LEARNT_SITES),
    "list": of_keys("Listing", "`list`; with a kind, that key alone.", _LISTED, optional=True),
    "list-runs": of_keys("PastSweeps", "`list runs`.", {"runs": list[Past]}),
    "observe": of_answer("Observed", "`observe`; docs/observe.md says what each count is.", Seen),
    "report": of_answer("Sweep", "`run`, `merge`, `report` and `predict`: numbers are unrounded.", SweepResult),
    "script-from-slow-log": of_keys("SlowLogScript", "`script-from-slow-log`; it holds no value of the log.", _SCRIPT),
}
"""The documents, by the name of the file in docs/schemas."""


def schema(name: str) -> str:
    """Return the JSON Schema of a document, in the form of its file."""
    found = {"$schema": "https://json-schema.org/draft/2020-12/schema", **DOCUMENTS[name].model_json_schema()}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"
