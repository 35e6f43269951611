"""The constants of the advice and their reasons: when an estimate is refused, and how wide its bounds are.

Constants that `predict` uses too are with the models (models/predict.py, models/managers/innodb.py). All others were
decided from the mechanism, from published trials of the models, and from streams replayed by models, before any trial
on a real server. A change of one moves published numbers and belongs into CHANGELOG.md.
"""

from __future__ import annotations

from math import log2

from bufferlab import versions
from bufferlab.models.limits import OWN_LIMIT

SEED = 20_261_125
"""The seed of the resampling, so that equal records give equal bounds."""
RESAMPLES = 400
"""The number of resamples. The bounds come from a standard deviation, which 400 resamples estimate within 4 %."""
SLICES = 24
"""The number of slices of time that are resampled: 0.4 s each in a window of 10 s, 25 s in one of 10 minutes. Work that
repeats within a slice adds no scatter. Fewer slices would make Student's quantile wide; more would cut bursts into
pieces that look independent."""
LEAST_SLICES = 8
"""The least number of slices in which a pool is warm. Student's quantile is 2.4 with 7 degrees of freedom, 3.2 with 3.
"""
LEAST_READS = 200
"""The least number of recorded reads for an estimate. By chance 200 scatter by 7 %."""
FEW_PER_S = 1.0
FEW_SHARE = 0.02
"""If the upper bound is below this number of reads a second, or this share of the present reads, "fewer than" is an
answer although the value is unknown."""
COUNTS_DIFFER = 0.1
"""The share by which the rate of recorded reads may differ from the server's count. A larger difference means that
reads were missed, or that the counters are of other seconds."""

# Limits of the tier `misses`.
LONGEST_SHARE = 0.2
"""The least share of reads at which the list of evicted pages was as long as the added frames. The estimate of the
longest distances comes only from these last reads of the window, and a fifth of it is more than one burst."""
RING_READS = 288
"""PostgreSQL: if a session evicts a page that it read itself at most this many reads before, it reuses its ring.
freelist.c: 32 buffers for a bulk read, 256 for VACUUM from 17 on, 32 + 16 x 16 for a bulk read from 18 on. The clock's
hand needs at least a third of the pool's frames in reads to come back to a page. A ring has at most an eighth of the
pool, so the hand is never taken for a ring."""
SWEEP_SHARE = 1 / 4
"""After reads of all sessions that are this share of the pool's frames, the clock's hand has not yet come back to a
frame. With many sessions, a turn of the hand may take fewer reads of one session than its ring has buffers."""
RING_SHARE = 0.05
"""If more than this share of the reads is by rings, a pool in which their table needs no ring is not estimated."""
FRAMES_USED = {"mysql": 0.95, "mariadb < 10.5": 0.95, "mariadb >= 10.5": 0.97, "postgres": 0.97}
"""The share of added frames that counts. The list of evicted pages assumes that added frames work as in LRU. The buffer
managers use them a little worse: InnoDB does not order the youngest quarter of its pages, and PostgreSQL's clock knows
only six ages. The share holds whether or not the version has a model: MySQL 9 still orders its list so.

The shares come from models that report their reads and evictions (crates/bufferlab-generate/tests/larger_pools.rs), in
TPC-C with a pool of 20 % of the data. With 25, 50 and 100 % more frames the list was too low by 1.8, 4.8 and 8.7 % for
innodb57, by 0.8, 3.0 and 4.0 % for innodb1011, and by 0.0, 1.9 and 3.5 % for postgres. That is the effect of 5 to 9, 2
to 5 and 3 % of the added frames. For pages by a power law, where frames matter less, the list was within 1.8 %. In
trials on MySQL 5.7 it was 7.5 % too low for a third more frames and 4.7 % for two thirds more, the effect of 7 and 4 %
of them."""
FRAMES_ERROR = 0.08
LIST_ERROR = 0.04
"""The two parts of the list's error: a share of the added frames, which makes bounds wide if frames matter, and a share
of the reads."""
OF_PRESENT = 0.005
"""A further error of any estimate, as a share of the present reads, because few remaining reads are single events."""

# Limits of the tier `misses` when it knows frames by calls (frames.py).
UNNAMED_SHARE = 0.1
"""Reads count from the moment after which at most this share of them goes into frames whose old page is unknown. Most
of these are into empty frames, whose page left unseen (MOVED_SHARE): the list of evicted pages has that page."""
FIRST_TURNOVER = 0.6
"""The largest share of all reads that may come before the moment from which reads count."""
MOVED_SHARE = 0.05
"""The largest share, among the reads that count, of pages whose eviction was not seen. The bounds include the
difference between "evicted just now" and leaving these reads out."""
FRAMES_SEEN = 0.2
"""The least share of the pool's frames into which a page must have been read."""
ODD_READS = 0.05
"""The largest share, among the reads into the pool, of reads that are not whole pages at whole frames."""
CALLS_DIFFER = {"mysql": 0.01, "mariadb": 0.01, "postgres": 0.03}
"""The share by which recorded reads may differ from those that the server counted in the same seconds."""
LIST_AT_S = 3.0
LIST_AT_SHARES = (1 / 3, 2 / 3)
"""The times at which a server that lists its buffers is asked for the list: after LIST_AT_S seconds, and after these
shares of a stage. The pages read until the first list show where in memory its buffers are. Later lists show pages that
came without a call."""
LATE_S = 2.0
"""PostgreSQL's sessions report counts late, so recorded and counted reads may also differ by those of 2 seconds."""

# Limits of the tier `full`.
TURNOVERS_LARGER = 3.0
"""The least turnovers of a larger pool, in pools' worth of pages brought in. One turnover fills it, and two show how it
replaces pages."""
TURNOVERS_WARM = 1.0
"""The turnovers after which a pool's reads count, if it began empty or with a part of the server's larger pool. A model
may need more turnovers of an empty pool. A part of a larger pool has other pages than a smaller pool has: after half a
turnover PostgreSQL's pool of half the size was estimated 32 % too low."""
MODEL_ERROR = 0.03
MODEL_ERROR_DOUBLED = 0.04
"""The error of a model as a share of its reads: MODEL_ERROR, plus MODEL_ERROR_DOUBLED for each doubling or halving of
the pool. In trials models were off by 1 to 6 % in the mean at half to twice the traced pool (docs/prediction.md)."""
OWN_MOST = 0.15
"""The model's largest error at the present size for an estimate of a smaller pool. An error above OWN_LIMIT
(models/limits.py) stands in the bounds as a whole, else half of it: the estimate is a ratio of the model's reads at two
sizes, in which an error at both sizes cancels. Half the pool often reads several times as much, so bounds that are
wider by a seventh still answer. A pool that turns over slowly has such an error of the pauses between the windows: the
server's reads in them are not recorded, so the model reads some of these pages again."""
WRITES = 0.001
"""From this share of gets under an exclusive latch on, a load changes rows, and purge may fall behind."""
PURGE_LIMIT = 0.5
"""The largest share of reads that a purge may add if it is late by a turnover. With more, bounds would say nothing."""
SPEED_MOST = 0.5
"""The largest share by which reads may depend on the load's speed (InnoDB with innodb_old_blocks_time above 0). The
bounds include the reads of twice the speed, and those of a load so slow that it only waits for its reads. With more,
bounds would say nothing."""
SCANNED = 0.5
SCANNED_LEAST = 64
"""A relation is scanned if at least SCANNED_LEAST gets, and more than this share, go to the page after the session's
last one."""

# The limits for the bound on a pool of twice the size, for which only SQL is needed (double_pool.py).
GROWTH_PER_DAY = 0.01
"""The largest growth of the data in a day, as a share of them, for a bound. With more it does not hold for next week's
data. At 1 % the data are half as large again after six weeks, and the bound of a pool of a third of them rises from
50 % to 71 %."""
GROWTH_PAGES = 64
"""The least pages by which data must have grown or shrunk to count as changed. InnoDB extends a file by at least 64
pages of 16 KiB, PostgreSQL by up to 64 pages at once. So a look of a minute sees a growth of 1 % a day of InnoDB's data
of 140 GiB or more, and a look of 10 minutes of 14 GiB or more."""
SCANNED_SHARE = 0.01
"""The largest share of misses through a scan's ring for a bound, because a larger pool may not save such misses."""
EVICTED_SHARE = 0.5
"""The least evictions per miss of a full pool of PostgreSQL. It evicts a page for each miss, a pool with room none."""
FREE_RATIO = 0.2
"""The free share of the pool, at both ends of the window, from which on the pool has room to spare: a sentence says so.
"""
BEYOND_CLEANER = 1.5
"""If more pages are free than this multiple of the page cleaner's target, the pool was never filled."""
DATA_AGAIN_S = 1.0
"""If the first answer took longer than this, the server is not asked a second time for the size of its data."""

# Limits from which on a window has a changing load or mix of statements.
MIX_SHARE = 0.1
"""The window has no steady mix if its halves differ by more than this, and by more than their scatter, in the share of
reads that some added frames would have saved."""
MIX_RATE = 1.5
"""The load is not steady if one half of the window has more than this many times the other half's reads a second, and
the difference is more than MIX_SIGMA standard errors."""
MIX_SIGMA = 3.0
"""The least difference of two halves in standard errors. Chance exceeds 3 once in 100 windows of 24 slices."""


def frames_used(engine: str, version: str) -> float:
    """Return the share of added frames that counts for a server (FRAMES_USED); 1 for an unknown server."""
    return next((share for servers, share in FRAMES_USED.items() if versions.has(servers, engine, version)), 1.0)


def ring_reads(flavour: str, pool_pages: int) -> int:
    """Return the number of reads within which a scan's ring reuses a frame; 0 for servers without rings.

    A ring of 288 frames fills a frame again at the 288th read after the read that filled it.
    """
    return min(RING_READS, pool_pages // 8) + 1 if flavour == "postgres" else 0


def model_error(own_frames: int, frames: int, own_error: float) -> float:
    """Return the error of a model at `frames` frames, as a share of the reads; `own_error` is that at `own_frames`."""
    own = abs(own_error) if abs(own_error) > OWN_LIMIT else abs(own_error) / 2
    return MODEL_ERROR + MODEL_ERROR_DOUBLED * abs(log2(frames / own_frames)) + own
