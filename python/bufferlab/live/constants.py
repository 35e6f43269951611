"""The constants of the advice and their reasons: when an estimate is refused, and how wide its bounds are.

Those that `predict` has too stand with the models (models/predict.py, models/managers/innodb.py). All others were
decided from the mechanism, from published trials of the models and from streams played by models, before any real
server was asked. A change of one moves published numbers and belongs into CHANGELOG.md.
"""

from __future__ import annotations

from math import log2

from bufferlab import versions

SEED = 20_261_125
"""Of the resampling. Equal records give equal bounds."""
RESAMPLES = 400
"""The bounds are made of a standard deviation, which 400 resamples estimate within 4 %."""
SLICES = 24
"""Slices of time that are resampled. Work that repeats within a slice is then no scatter; a slice of a window of 10 s
has 0.4 s, of one of 10 minutes 25 s. Fewer make Student's quantile wide, more cut bursts into pieces that look
independent."""
LEAST_SLICES = 8
"""Of those that count. Student's quantile of 7 degrees of freedom is 2.4, of 3 it is 3.2."""
LEAST_READS = 200
"""Reads that an estimate must stand on: counts alone then scatter by 7 %."""
FEW_PER_S = 1.0
FEW_SHARE = 0.02
"""Reads a second, or of the present reads, below which "fewer than" is an answer though the value is not known."""
COUNTS_DIFFER = 0.1
"""Reads that were recorded and that the server counted, as rates: a larger difference means that reads were missed, or
that the counters are of other seconds."""

# Tier misses.
LONGEST_SHARE = 0.2
"""The least share of reads that found the list of evicted pages as long as the frames asked for. The estimate of the
longest distances comes from these reads alone, the last of the window; a fifth of it is not yet one burst."""
RING_READS = 288
"""PostgreSQL: a session that evicts a page which it read itself at most this many reads before reuses its ring.
freelist.c: 32 buffers of a bulk read, 256 of VACUUM from 17 on, 32 + 16 x 16 of a bulk read from 18 on. The clock's
hand takes at least a third of the pool's frames in reads to come back to a page, so that the eighth of the pool, the
most that a ring has, is never mistaken for it."""
SWEEP_SHARE = 1 / 4
"""Of the pool's frames: after as many reads of all sessions the clock's hand has not come back to a frame. With many
sessions a session's own reads within a ring's length may be more than a turn of the hand."""
RING_SHARE = 0.05
"""A share of the reads: with more of them by rings, a pool in which the table needs no ring is not estimated."""
FRAMES_USED = {"mysql": 0.95, "mariadb < 10.5": 0.95, "mariadb >= 10.5": 0.97, "postgres": 0.97}
"""The list takes added frames to be used as LRU uses them. The managers use them a little worse: InnoDB orders no page
of the youngest quarter, PostgreSQL's clock knows six ages. So added frames count by this share, whether the version has
a model or not: MySQL 9 still orders its list so.

By models that report their reads and evictions (crates/bufferlab-generate/tests/larger_pools.rs), TPC-C at 20 % of the
data: for a quarter, a half and as much again of its frames the list was 1.8, 4.8 and 8.7 % low of innodb57, 0.8, 3.0
and 4.0 % of innodb1011, 0.0, 1.9 and 3.5 % of postgres. That is what 5 to 9, 2 to 5 and 3 % of the added frames make
there; of pages by a power law the list was within 1.8 %, where frames matter less. In trials on MySQL 5.7 it was 7.5 %
low for a third more frames and 4.7 % for two thirds more, what 7 and 4 % of them make."""
FRAMES_ERROR = 0.08
LIST_ERROR = 0.04
"""The list's error has two parts: a share of the added frames, so that bounds are wide where frames matter, and a share
of the reads."""
OF_PRESENT = 0.005
"""A share of the present reads: a further error of any estimate, since few remaining reads are single events."""

# Tier misses, which knows frames by calls (frames.py).
UNNAMED_SHARE = 0.1
"""Of the reads after the moment from which they count: this share at most may be into frames of unknown pages. Most
are of frames that a page left unseen (MOVED_SHARE): that page is in the list, and the frame was empty."""
FIRST_TURNOVER = 0.6
"""Of the reads: at most this share may lie before that moment."""
MOVED_SHARE = 0.05
"""Of the reads after it: at most this share may be of pages whose leaving was not seen. The bounds hold the difference
between "left just now" and leaving these reads out."""
FRAMES_SEEN = 0.2
"""Of the pool's frames: at least this share must have been read into."""
ODD_READS = 0.05
"""Of the reads into the pool: at most this share may be other than whole pages at whole frames."""
CALLS_DIFFER = {"mysql": 0.01, "mariadb": 0.01, "postgres": 0.03}
"""Reads that were recorded and that the server counted in the same seconds, by more than which they are off."""
LIST_AT_S = 3.0
LIST_AT_SHARES = (1 / 3, 2 / 3)
"""When a server that lists its buffers is asked: after seconds, and shares, of a stage. The first list is placed by the
pages that were read until then; later ones find pages that came without a call."""
LATE_S = 2.0
"""PostgreSQL's sessions report their counts late: reads of this many seconds more may differ."""

# Tier full.
TURNOVERS_LARGER = 3.0
"""Pools' worth of pages that a larger pool must have brought in: one fills it, and two show how it replaces pages."""
TURNOVERS_WARM = 1.0
"""Pools' worth of pages until a pool counts that began empty, or with a part of the server's larger pool; a
model may ask for more of an empty one. A part of a larger pool has other pages than a smaller one: PostgreSQL's half
pool, judged by a half of its turnover, was estimated 32 % too low."""
MODEL_ERROR = 0.03
MODEL_ERROR_DOUBLED = 0.04
"""The models were off by 1 to 6 % in the mean at half to twice the traced pool (docs/prediction.md)."""
WRITES = 0.001
"""With this share of gets under an exclusive latch a load changes rows, and purge may fall behind."""
PURGE_LIMIT = 0.5
"""The share of reads that a purge may add which is late by a turnover. With more an answer would be bounds alone."""
SCANNED = 0.5
SCANNED_LEAST = 64
"""A relation is scanned where a session's next get of it is mostly of the next page, and at least SCANNED_LEAST are."""

# Twice the pool, by SQL alone (double_pool.py).
GROWTH_PER_DAY = 0.01
"""Of the data: with more growth in a day the bound is not of next week's data. At 1 % the data are a half larger after
six weeks, and the bound of a pool of a third of them rises from 50 % to 71 %."""
GROWTH_PAGES = 64
"""Pages that the data must have grown or shrunk by to count as changed. InnoDB extends a file by an extent of 64 pages
of 16 KiB at least, PostgreSQL by up to 64 pages at once. So a look of a minute sees that InnoDB's data grow by 1 % a
day where they have 140 GiB or more, one of 10 minutes from 14 GiB on."""
SCANNED_SHARE = 0.01
"""Of the misses: with more of them through a scan's ring nothing is claimed, for a larger pool need not spare them."""
EVICTED_SHARE = 0.5
"""Evictions a miss: PostgreSQL's full pool evicts a page for each miss, and one that is not full none."""
FREE_RATIO = 0.2
"""A free share of the pool, at both ends, from which on it is worth a sentence."""
BEYOND_CLEANER = 1.5
"""Free pages beyond this multiple of the page cleaner's target were never filled."""
DATA_AGAIN_S = 1.0
"""The size of the data is not asked a second time where the first answer took longer."""

# A changing mix.
MIX_SHARE = 0.1
"""Of the reads: where the two halves of the window differ by more in how many reads some frames more would have spared,
beyond their scatter, the window has no steady mix."""
MIX_RATE = 1.5
"""The same for reads a second: one half has this many times the other's."""
MIX_SIGMA = 3.0
"""Standard errors that such a difference must exceed: chance exceeds them once in 100 windows of 24 slices."""


def frames_used(engine: str, version: str) -> float:
    """Return the share of added frames that a server uses; 1 for an unknown one."""
    return next((share for servers, share in FRAMES_USED.items() if versions.has(servers, engine, version)), 1.0)


def ring_reads(flavour: str, pool_pages: int) -> int:
    """Return the reads before which a scan's ring reuses a frame; 0 for servers without rings.

    A ring of 288 frames fills a frame again at the 288th read after the one that filled it.
    """
    return min(RING_READS, pool_pages // 8) + 1 if flavour == "postgres" else 0


def model_error(own_frames: int, frames: int, own_error: float) -> float:
    """Return the error of a model, as a share of the reads; `own_error` is its error at the pool's own size."""
    return MODEL_ERROR + MODEL_ERROR_DOUBLED * abs(log2(frames / own_frames)) + abs(own_error) / 2
