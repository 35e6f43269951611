"""The objects that the commands print with `--json`, as types: docs/schemas is written from them."""

from __future__ import annotations

import json

from support.json_documents.advised import Advised
from support.json_documents.base import Error, Printed
from support.json_documents.comparisons import Comparison, History
from support.json_documents.files import Audit, SlowLogScript
from support.json_documents.observed import Observed
from support.json_documents.predictions import Accuracy, Curve, Prediction
from support.json_documents.stores import CacheList, CachePrune, Doctor, Listing, PastSweeps, Servers
from support.json_documents.sweeps import DryRun, Report

DOCUMENTS: dict[str, type[Printed]] = {
    "accuracy": Accuracy,
    "advise": Advised,
    "audit": Audit,
    "cache-list": CacheList,
    "cache-prune": CachePrune,
    "compare": Comparison,
    "curve": Curve,
    "doctor": Doctor,
    "dry-run": DryRun,
    "engines": Servers,
    "error": Error,
    "history": History,
    "list": Listing,
    "list-runs": PastSweeps,
    "observe": Observed,
    "predict": Prediction,
    "report": Report,
    "script-from-slow-log": SlowLogScript,
}
"""By the name of the file in docs/schemas."""


def schema(name: str) -> str:
    """The JSON Schema of a document, as its file holds it."""
    found = {"$schema": "https://json-schema.org/draft/2020-12/schema", **DOCUMENTS[name].model_json_schema()}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"
