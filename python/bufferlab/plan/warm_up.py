"""Computes how long a point's warm-up is at least, before its gate may open."""

from __future__ import annotations

from bufferlab.engines import registry as engines
from bufferlab.plan.grid import GridPoint, workload_of
from bufferlab.spec import Experiment


def least_transactions(experiment: Experiment, point: GridPoint) -> int:
    """Return how many transactions a warm-up has before its gate may open, in measured and in generated runs.

    The number is at least the experiment's `min_transactions`. If updates move rows, it is also at least the number
    after which nearly all rows have moved, but for that at most half of the warm-up's cap: the gate needs the other
    half.
    """
    # The gate watches misses, and takes a pool for warm that was filled and turned over. If most gets miss, that takes
    # 1,000 transactions, while the pages of rows that move change for much longer.
    warm_up, settles_after = experiment.warm_up, workload_of(experiment).settles_after
    if settles_after is None or not engines.declaration(experiment.engine).updates_move_rows:
        return warm_up.min_transactions
    values = {name: setting.value_or_text for name, setting in point.workload.items()}
    return max(warm_up.min_transactions, min(settles_after(values), warm_up.max_transactions // 2))
