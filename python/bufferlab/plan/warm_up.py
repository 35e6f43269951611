"""Computes for how many transactions the warm-up of a point must last."""

from __future__ import annotations

import json
from functools import lru_cache

from bufferlab.engines import registry as engines
from bufferlab.engines.native import native
from bufferlab.plan.grid import GridPoint, workload_of
from bufferlab.spec import Experiment


def least_transactions(experiment: Experiment, point: GridPoint) -> int:
    """Return the transactions before the gate, a test for a steady miss rate, may end the warm-up.

    The number is at least the experiment's `min_transactions`. If updates move rows, the warm-up also lasts until
    nearly all rows have moved, but for this reason at most half of its cap: the gate needs the other half.
    """
    # The gate considers only misses. It accepts a pool as warm once the pool was filled and its pages were replaced. If
    # most gets miss, that takes 1,000 transactions. The pages to which rows move change for much longer.
    warm_up, settles_after = experiment.warm_up, workload_of(experiment).settles_after
    if settles_after is None or not engines.declaration(experiment.engine).updates_move_rows:
        return warm_up.min_transactions
    values = {name: setting.value_or_text for name, setting in point.workload.items()}
    return max(warm_up.min_transactions, min(settles_after(values), warm_up.max_transactions // 2))


def settle_transactions(experiment: Experiment, point: GridPoint) -> int:
    """Return the transactions after which the rows that a script mostly updates have moved.

    The gate waits for them, up to the warm-up's cap. The number is 0 if the gate of the experiment does not wait, as in
    sweeps of earlier versions; if the engine leaves updated rows in their place; if the workload is not a script; and
    if it updates no rows that its variables choose, or rows that do not settle within _MOST_PLAYED transactions.
    """
    script = experiment.workload.script
    waits = experiment.warm_up.turnover_within > 0 and engines.declaration(experiment.engine).updates_move_rows
    if script is None or not waits:
        return 0
    return _settle_transactions(script.source, script.text, json.dumps(point.variables, sort_keys=True))


_MOST_PLAYED = 1_000_000
"""The most transactions of a script that are played without a server."""


@lru_cache(maxsize=64)
def _settle_transactions(source: str, text: str, variables_json: str) -> int:
    return native().script_settles_after(source, text, variables_json, _MOST_PLAYED)
