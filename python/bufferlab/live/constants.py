"""The constants of `advise` and their reasons: when an estimate is refused, and how wide its bounds are.

Constants that `predict` uses too are with the models (models/predict.py, models/managers/innodb.py). All others were
chosen from the mechanism, from published trials of the models, and from streams replayed by models, before any trial on
a real server. A change of one changes published numbers and must be listed in CHANGELOG.md.
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
"""The number of time slices that are resampled: 0.4 s each in a window of 10 s, 25 s in one of 10 minutes.

Work that repeats within a slice adds no scatter. Fewer slices would make Student's quantile wide; more would cut bursts
into parts that look independent.
"""
LEAST_SLICES = 8
"""The least number of slices in which a pool is warm.

Student's quantile is 2.4 with 7 degrees of freedom, 3.2 with 3.
"""
LEAST_READS = 200
"""The least number of recorded reads for an estimate. The chance scatter of 200 reads is 7 %."""
FEW_PER_S = 1.0
FEW_SHARE = 0.02
"""The limits below which "fewer than" is an answer although the value is unknown.

The upper bound must be below FEW_PER_S reads per second, or below the fraction FEW_SHARE of the present reads.
"""
COUNTS_DIFFER = 0.1
"""The relative difference allowed between recorded reads and the server's count of them.

A larger difference means that reads were missed, or that the counters are of other seconds.
"""

# Limits of the tier `misses`.
LONGEST_SHARE = 0.2
"""The least fraction of reads at which the list of evicted pages was as long as the added frames.

The estimate of the longest distances comes only from these last reads of the window, and a fifth of it is more than one
burst.
"""
RING_READS = 288
"""PostgreSQL: the most reads after which a session that evicts its own page counts as reusing its buffer ring.

freelist.c: 32 buffers for a bulk read, 256 for VACUUM from 17 on, 32 + 16 x 16 for a bulk read from 18 on. The clock's
hand needs at least a third of the pool's frames in reads to come back to a page. A ring has at most an eighth of the
pool, so the hand is never mistaken for a ring.
"""
SWEEP_SHARE = 1 / 4
"""If all sessions read fewer pages than this fraction of the pool's frames, the clock's hand is not back at a frame.

With many sessions, a turn of the hand may take fewer reads of one session than its ring has buffers.
"""
RING_SHARE = 0.05
"""The most ring reads, as a fraction of reads, for estimating a pool in which the scanned table needs no ring."""
FRAMES_USED = {"mysql": 0.95, "mariadb < 10.5": 0.95, "mariadb >= 10.5": 0.97, "postgres": 0.97}
"""The fraction of added frames that counts. The list of evicted pages assumes that added frames work as in LRU.

The buffer managers use them a little worse: InnoDB does not order the youngest quarter of its pages, and PostgreSQL's
clock knows only six ages. The fraction is used whether or not the version has a model: MySQL 9 still orders its list
so.

The fractions come from models that report their reads and evictions (crates/bufferlab-generate/tests/larger_pools.rs),
in TPC-C with a pool of 20 % of the data. With 25, 50 and 100 % more frames the list was too low by 1.8, 4.8 and 8.7 %
for innodb57, by 0.8, 3.0 and 4.0 % for innodb1011, and by 0.0, 1.9 and 3.5 % for postgres. That is the effect of 5 to
9, 2 to 5 and 3 % of the added frames. For pages by a power law, where frames matter less, the list was within 1.8 %. In
trials on MySQL 5.7 it was 7.5 % too low for a third more frames and 4.7 % for two thirds more, the effect of 7 and 4 %
of them.
"""
FRAMES_ERROR = 0.08
LIST_ERROR = 0.04
"""The two parts of the list's error: FRAMES_ERROR is a fraction of the added frames, LIST_ERROR one of the reads.

The first makes bounds wide if frames matter.
"""
OF_PRESENT = 0.005
"""Another error of any estimate, as a fraction of the present reads, because few remaining reads are single events."""

# Limits of the tier `misses` if it identifies frames by system calls (frames.py).
UNNAMED_SHARE = 0.1
"""Reads count from the moment after which at most this fraction goes into frames whose old page is unknown.

Most of these go into empty frames, whose page left unrecorded (MOVED_SHARE): the list of evicted pages contains that
page.
"""
FIRST_TURNOVER = 0.6
"""The largest fraction of all reads that may come before the moment from which reads count."""
MOVED_SHARE = 0.05
"""The largest fraction, among the reads that count, of pages whose eviction was not recorded.

The bounds include the difference between "evicted just now" and leaving these reads out.
"""
FRAMES_SEEN = 0.2
"""The least fraction of the pool's frames into which a page must have been read."""
ODD_READS = 0.05
"""The largest fraction, among the reads into the pool, of reads that are not whole pages at whole frames."""
CALLS_DIFFER = {"mysql": 0.01, "mariadb": 0.01, "postgres": 0.03}
"""The relative difference allowed between recorded reads and those that the server counted in the same seconds."""
LIST_AT_S = 3.0
LIST_AT_SHARES = (1 / 3, 2 / 3)
"""When to query a server that lists its buffers: after LIST_AT_S seconds, and after these fractions of a stage.

The first list, compared with the addresses to which pages were read before it, shows where in memory the buffers are.
Later lists show pages that entered the pool without a read call.
"""
LATE_S = 2.0
"""PostgreSQL's sessions report counts late, so recorded and counted reads may also differ by those of 2 seconds."""

# Limits of the tier `full`.
TURNOVERS_LARGER = 3.0
"""The least turnovers of a larger pool; a turnover brings in as many pages as the pool has frames.

One turnover fills it, and two show how it replaces pages.
"""
TURNOVERS_WARM = 1.0
"""The turnovers after which a pool's reads count, if it began empty or with a part of the server's larger pool.

A model may need more turnovers of an empty pool. A part of a larger pool has other pages than a smaller pool has: after
half a turnover PostgreSQL's pool of half the size was estimated 32 % too low.
"""
MODEL_ERROR = 0.03
MODEL_ERROR_DOUBLED = 0.04
"""MODEL_ERROR is the relative error of a model's reads; this is added for each doubling or halving of the pool.

In trials models were off by 1 to 6 % in the mean at half to twice the traced pool (docs/prediction.md).
"""
OWN_MOST = 0.15
"""The model's largest error at the present size for an estimate of a smaller pool.

An error above OWN_LIMIT (models/limits.py) is included in the bounds as a whole, else half of it: the estimate is a
ratio of the model's reads at two sizes, in which an error at both sizes cancels. Half the pool often reads several
times as much, so bounds that are wider by a seventh still answer. A pool that turns over slowly has such an error from
the pauses between the windows: the server's reads in them are not recorded, so the model reads some of these pages
again.
"""
WRITES = 0.001
"""If at least this fraction of gets has an exclusive latch, the load changes rows, and purge may fall behind."""
PURGE_LIMIT = 0.5
"""The largest fraction of reads that a purge may add if it is late by a turnover. With more, bounds are useless."""
SPEED_MOST = 0.5
"""The largest relative change of reads with the load's speed (InnoDB with innodb_old_blocks_time above 0).

The bounds include the reads of twice the speed, and those of a load so slow that it only waits for its reads. With
more, bounds would be useless.
"""
SCANNED = 0.5
SCANNED_LEAST = 64
"""A relation counts as scanned if SCANNED_LEAST gets, and a fraction SCANNED of its gets, are sequential.

A get is sequential if its page follows the session's last one.
"""

# Limits for the bound on a pool of twice the size, which needs only SQL (double_pool.py).
GROWTH_PER_DAY = 0.01
"""The largest relative growth of the data in a day for which a bound is given.

With more, it does not hold for next week's data. At 1 % the data are half as large again after six weeks, and the bound
of a pool of a third of them rises from 50 % to 71 %.
"""
GROWTH_PAGES = 64
"""The least number of pages by which data must have grown or shrunk to count as changed.

InnoDB extends a file by at least 64 pages of 16 KiB, PostgreSQL by up to 64 pages at once. So an observation of a
minute detects a growth of 1 % a day of InnoDB's data of 140 GiB or more, and one of 10 minutes of 14 GiB or more.
"""
SCANNED_SHARE = 0.01
"""The largest fraction of misses through a scan's ring for a bound: a larger pool may not save such misses."""
EVICTED_SHARE = 0.5
"""The least evictions per miss of a full pool of PostgreSQL.

A full pool evicts a page for each miss; a pool with free frames evicts none.
"""
FREE_RATIO = 0.2
"""If this fraction of the pool is free at both ends of the window, a sentence says that the pool has room to spare."""
BEYOND_CLEANER = 1.5
"""If more pages are free than this multiple of the page cleaner's target, the pool was never filled."""
DATA_AGAIN_S = 1.0
"""If the first answer took longer than this, in seconds, the size of the data is not queried a second time."""

# Limits from which on a window has a changing load or mix of statements.
MIX_SHARE = 0.1
"""The difference of the window's halves in the saved fraction of reads from which on the mix is not steady.

The saved fraction is that of reads that some added frames would have saved. The difference must also exceed the
scatter.
"""
MIX_RATE = 1.5
"""The ratio of the two halves' reads per second from which on the load is not steady.

The difference must also exceed MIX_SIGMA standard errors.
"""
MIX_SIGMA = 3.0
"""The least difference of two halves in standard errors. By chance it exceeds 3 once in 100 windows of 24 slices."""


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
