"""The limits beyond which a model is not believed, the same for a traced run and for a server that runs."""

READ_AHEAD_LIMIT = 0.05
"""The share of a run's reads that may be read ahead: with more, another pool may read ahead more or less."""
OWN_LIMIT = 0.05
"""The model's error at the traced run's own point above which no point is believed."""
OWN_WRITES_LIMIT = 0.1
"""The error of the model's writes at the traced run's own point above which no point's writes are believed."""
SPEED_LIMIT = 0.03
"""The share of the reads by which replays at several speeds may differ and still agree."""
FEW_READS = 30
"""Differences of up to this many reads are taken for single events, even if they are a large share."""
MOST_HISTORY = 1000
"""The most transactions that purge may not have processed yet: with more, it reads pages that transactions left long
ago."""
MOST_HISTORY_GROWTH = 0.05
"""The largest growth of the history in a window, as a share of its transactions: with more, purge does not keep up."""
