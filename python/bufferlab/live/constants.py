"""The constants of `advise` and their reasons: when an estimate is refused, and how wide its bounds are.

Constants that `predict` uses too are with the models (models/predict.py, models/managers/innodb.py). All others were
chosen before any trial on a real server: from the server's mechanism, from published trials of the models, and from
accesses that models replayed. Changing one changes published numbers, and must be listed in CHANGELOG.md.
"""

from __future__ import annotations

from math import log2

from bufferlab import versions
from bufferlab.models.limits import OWN_LIMIT

SEED = 20_261_125
"""The seed of the resampling, so that equal records give equal bounds."""
RESAMPLES = 400
"""The number of bootstrap resamples.

Bounds are computed from a standard deviation, which 400 resamples estimate within 4 %.
"""
SLICES = 24
"""The number of time slices that are resampled: 0.4 s each in a window of 10 s, 25 s in one of 10 minutes.

Work that repeats within a slice adds no scatter. With fewer slices Student's quantile would be large. With more, bursts
would be cut into parts that look independent.
"""
LEAST_SLICES = 8
"""The least number of slices in which a pool must be warm for an estimate.

Student's quantile is 2.4 with 7 degrees of freedom, 3.2 with 3.
"""
LEAST_READS = 200
"""The least number of recorded reads for an estimate. The chance scatter of 200 reads is 7 %."""
FEW_PER_S = 1.0
FEW_SHARE = 0.02
"""The limits below which an upper bound alone is an answer ("fewer than"), although the value is unknown.

The upper bound must be below FEW_PER_S reads per second, or below the fraction FEW_SHARE of the present reads.
"""
COUNTS_DIFFER = 0.1
"""The relative difference allowed between recorded reads and the server's count of them.

A larger difference means that reads were not recorded, or that the counters cover other seconds.
"""

# Limits of the tier `misses`.
LONGEST_SHARE = 0.2
"""The least fraction of reads at which the list of evicted pages was as long as the added frames.

Large depths are estimated only from these last reads of the window. A fifth of the window is more than one burst.
"""
RING_READS = 288
"""PostgreSQL: a session that evicts a page which it read at most this many reads ago is assumed to reuse its buffer
ring.

freelist.c: 32 buffers for a bulk read, 256 for VACUUM from 17 on, 32 + 16 x 16 for a bulk read from 18 on. The clock
sweep comes back to a page after reads of at least a third of the pool's frames. A ring has at most an eighth of the
pool, so an eviction by the sweep is never mistaken for a ring's.
"""
SWEEP_SHARE = 1 / 4
"""While all sessions together read fewer pages than this fraction of the pool's frames, the clock sweep makes no full
turn.

With many sessions, one session may read fewer pages during a full turn than its ring has buffers.
"""
RING_SHARE = 0.05
"""Reads through rings may be at most this fraction of all reads, if a pool is estimated in which the scanned table
needs no ring."""
FRAMES_USED = {"mysql": 0.95, "mariadb < 10.5": 0.95, "mariadb >= 10.5": 0.97, "postgres": 0.97}
"""Added frames are multiplied by this fraction, because the list of evicted pages assumes that they work as in LRU.

The buffer managers use them a little worse: InnoDB does not reorder the youngest quarter of its pages, and PostgreSQL's
usage counts have only six values. The fraction is used even for versions without a model: MySQL 9 orders its list in
the same way.

The fractions come from models that report their reads and evictions (crates/bufferlab-generate/tests/larger_pools.rs),
in TPC-C with a pool of 20 % of the data. With 25, 50 and 100 % more frames the list was too low by 1.8, 4.8 and 8.7 %
for innodb57, by 0.8, 3.0 and 4.0 % for innodb1011, and by 0.0, 1.9 and 3.5 % for postgres. That is the effect of 5 to
9, 2 to 5 and 3 % of the added frames. For accesses by a power law, where frames matter less, the list was within 1.8 %.
In trials on MySQL 5.7 it was 7.5 % too low for a third more frames and 4.7 % for two thirds more; that is the effect of
7 and 4 % of these frames.
"""
FRAMES_ERROR = 0.08
LIST_ERROR = 0.04
"""The error of the list of evicted pages has two parts: FRAMES_ERROR as a fraction of the added frames, and LIST_ERROR
as a fraction of the reads.

FRAMES_ERROR makes bounds wide where added frames change reads much.
"""
OF_PRESENT = 0.005
"""A further error of each estimate, as a fraction of the present reads, because a few remaining reads are chance."""

# Limits of the tier `misses` if it identifies frames by system calls (frames.py).
UNNAMED_SHARE = 0.1
"""Reads count from the moment after which at most this fraction of them goes into frames whose previous page is
unknown.

Most of these frames are empty, because their page was evicted unrecorded (MOVED_SHARE). The list of evicted pages still
contains this page.
"""
FIRST_TURNOVER = 0.6
"""The largest fraction of all reads that may come before the moment from which reads count."""
MOVED_SHARE = 0.05
"""At most this fraction of the reads that count may read a page whose eviction was not recorded.

The bounds cover two assumptions on these reads: the page was evicted just before, or the read is left out.
"""
FRAMES_SEEN = 0.2
"""Pages must have been read into at least this fraction of the pool's frames."""
ODD_READS = 0.05
"""At most this fraction of the reads into the pool may be of partial pages, or begin inside a frame."""
CALLS_DIFFER = {"mysql": 0.01, "mariadb": 0.01, "postgres": 0.03}
"""The relative difference allowed between recorded reads and those that the server counted in the same seconds."""
LIST_AT_S = 3.0
LIST_AT_SHARES = (1 / 3, 2 / 3)
"""When to query a server that lists its buffers: after LIST_AT_S seconds, and after these fractions of a stage.

The first list, compared with the addresses to which pages were read before it, shows where in memory the buffers are.
Later lists show pages that entered the pool without a read call.
"""
LATE_S = 2.0
"""PostgreSQL's sessions report counts late, so recorded and counted reads may also differ by the reads of this many
seconds."""

# Limits of the tier `full`.
TURNOVERS_LARGER = 3.0
"""The least number of turnovers of a larger pool. In one turnover, as many pages enter the pool as it has frames.

One turnover fills the pool, and two more show how it replaces pages.
"""
TURNOVERS_WARM = 1.0
"""The turnovers after which a pool's reads count, if it began empty or with a part of the server's larger pool.

Some models need more turnovers of a pool that began empty. A part of a larger pool has other pages than a real smaller
pool: reads of a PostgreSQL pool of half the size, after half a turnover, were estimated 32 % too low.
"""
MODEL_ERROR = 0.03
MODEL_ERROR_DOUBLED = 0.04
"""The relative error of a model's reads is MODEL_ERROR, plus this for each doubling or halving of the pool.

In trials models were off by 1 to 6 % in the mean at half to twice the traced pool (docs/prediction.md).
"""
OWN_MOST = 0.15
"""The model's largest error at the present size with which smaller pools are still estimated.

The bounds include all of an error above OWN_LIMIT (models/limits.py), and half of a smaller one: the estimate is a
ratio of the model's reads at two sizes, in which an error at both sizes cancels. Half the pool often reads several
times as much, so bounds that are wider by a seventh still answer. Pauses between windows cause such an error in a pool
that turns over slowly: the server's reads in the pauses are not recorded, so the model reads some of these pages again.
"""
WRITES = 0.001
"""If at least this fraction of gets has an exclusive latch, the load changes rows, so that purge may fall behind."""
PURGE_LIMIT = 0.5
"""The largest fraction of reads that purge may add if it lags by a turnover of the pool.

With more, bounds are useless.
"""
SPEED_MOST = 0.5
"""The largest relative change of reads with the load's speed (InnoDB with innodb_old_blocks_time above 0).

The bounds include the reads at twice the speed, and at the speed of a load that only waits for its reads. If reads
change by more, the bounds would be useless.
"""
SCANNED = 0.5
SCANNED_LEAST = 64
"""A relation counts as scanned if SCANNED_LEAST gets, and a fraction SCANNED of its gets, are sequential.

A get is sequential if its page number follows that of the session's previous get.
"""

# Limits for the bound on a pool of twice the size, which needs only SQL (double_pool.py).
GROWTH_PER_DAY = 0.01
"""The largest relative growth of the data in a day for which a bound is given.

With faster growth, a bound would soon be wrong. At 1 % a day the data grow by half in six weeks. The bound for a pool
of a third of the data then rises from 50 % to 71 %.
"""
GROWTH_PAGES = 64
"""The least number of pages by which data must have grown or shrunk to count as changed.

InnoDB extends a file by at least 64 pages of 16 KiB, PostgreSQL by up to 64 pages at once. So an observation of a
minute detects a growth of 1 % a day of InnoDB's data of 140 GiB or more, and one of 10 minutes of 14 GiB or more.
"""
SCANNED_SHARE = 0.01
"""No bound is given if more than this fraction of the misses goes through a scan's ring: a larger pool may not save
these."""
EVICTED_SHARE = 0.5
"""The least evictions per miss of a full pool of PostgreSQL.

A full pool evicts a page for each miss; a pool with free frames evicts none.
"""
FREE_RATIO = 0.2
"""If at least this fraction of the pool is free at both ends of the window, a sentence says that much of the pool is
free."""
BEYOND_CLEANER = 1.5
"""If more pages are free than this multiple of the page cleaner's target, the pool counts as never filled."""
DATA_AGAIN_S = 1.0
"""If the first answer took longer than this, in seconds, the size of the data is not queried a second time."""

# Limits from which on a window has a changing load or mix of statements.
MIX_SHARE = 0.1
"""If the saved fraction of reads differs by more than this between the window's halves, the mix of statements is not
steady.

The saved fraction has the reads that a certain number of added frames would have saved. The difference must also exceed
the scatter.
"""
MIX_RATE = 1.5
"""If the reads per second of the two halves differ by more than this factor, the load is not steady.

The difference must also exceed MIX_SIGMA standard errors.
"""
MIX_SIGMA = 3.0
"""A difference of two halves must exceed this many standard errors.

By chance it does so once in 100 windows of 24 slices.
"""


def frames_used(engine: str, version: str) -> float:
    """Return the factor (FRAMES_USED) that reduces added frames, because they save less than in LRU; 1 if unknown."""
    return next((share for servers, share in FRAMES_USED.items() if versions.has(servers, engine, version)), 1.0)


def ring_reads(flavour: str, pool_pages: int) -> int:
    """Return the number of reads within which a scan's ring reuses a frame; 0 for servers without rings.

    A ring of 288 frames fills a frame again at the 288th read after the read that filled it.
    """
    return min(RING_READS, pool_pages // 8) + 1 if flavour == "postgres" else 0


def model_error(own_frames: int, frames: int, own_error: float) -> float:
    """Return the relative error of a model's reads at `frames` frames; `own_error` is that at `own_frames`."""
    own = abs(own_error) if abs(own_error) > OWN_LIMIT else abs(own_error) / 2
    return MODEL_ERROR + MODEL_ERROR_DOUBLED * abs(log2(frames / own_frames)) + own
