"""The limits beyond which a model's results are doubted, the same for traced runs and for live servers."""

READ_AHEAD_LIMIT = 0.05
"""The largest share of a run's reads that may be read-ahead.

Above it, predictions are doubted: another pool may read ahead more or less.
"""
OWN_LIMIT = 0.05
"""The model's largest error at the traced run's own point. Above it, every point's reads are doubted."""
OWN_WRITES_LIMIT = 0.1
"""The largest error of the model's writes at the traced run's own point.

Above it, every point's writes are doubted.
"""
SPEED_LIMIT = 0.03
"""The largest relative difference between the reads of replays at several speeds that count as equal."""
FEW_READS = 30
"""Differences of up to this many reads are ignored, even if they are relatively large: so few reads are chance."""
MOST_HISTORY = 1000
"""The maximum number of transactions that purge has still to process.

With more, it reads pages that transactions used long ago.
"""
MOST_HISTORY_GROWTH = 0.05
"""The largest growth of the history list in a window, per transaction. With more, purge does not keep up."""
