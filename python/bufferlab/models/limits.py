"""The limits of belief in a model, the same for a traced run and for a server that runs. Numbers alone."""

READ_AHEAD_LIMIT = 0.05
"""Share of the reads: if more of them are read ahead, another pool may read ahead more or less."""
OWN_LIMIT = 0.05
"""The model's error at the traced run's own point from which on no point is believed."""
SPEED_LIMIT = 0.03
"""Replays at several speeds that differ by less agree."""
FEW_READS = 30
"""Differences of up to this many reads are taken for single events, even if they are a large share."""
MOST_HISTORY = 1000
"""Transactions that purge has not processed yet: with more of them, purge reads pages that the transactions left long
ago."""
MOST_HISTORY_GROWTH = 0.05
"""Share of the window's transactions: where the history grows by more, purge does not keep up."""
