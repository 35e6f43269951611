"""How long a warm-up lasts at least, where the gate's own rule does not see what still changes.

The gate watches misses. A pool that was filled and turned over is warm by its rule, and where most gets miss that takes
1,000 transactions, less than a server does between two looks. On an engine whose updates move rows, the pages of the
rows change for much longer than that.
"""

from __future__ import annotations

from bufferlab.engines import registry as engines
from bufferlab.plan.grid import GridPoint, workload_of
from bufferlab.spec import Experiment


def least_transactions(experiment: Experiment, point: GridPoint) -> int:
    """Return the transactions for which the gate stays shut at a point, of measured and of generated runs.

    They are the experiment's; or, where updates move rows, as many as it takes until nearly all have moved, but no more
    than half of the warm-up's cap, so that the gate has the rest.
    """
    warm_up, settles_after = experiment.warm_up, workload_of(experiment).settles_after
    if settles_after is None or not engines.declaration(experiment.engine).updates_move_rows:
        return warm_up.min_transactions
    values = {name: setting.value_or_text for name, setting in point.workload.items()}
    return max(warm_up.min_transactions, min(settles_after(values), warm_up.max_transactions // 2))
