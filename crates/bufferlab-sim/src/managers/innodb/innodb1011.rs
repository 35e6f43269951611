//! `innodb1011`: InnoDB of MariaDB from 10.5 on, after the sources of 10.11 and 11.8.
//!
//! If a thread takes a frame and fewer frames than half of `lru_scan_depth` remain free, it wakes the page cleaner,
//! which evicts pages. In its round of each second the cleaner writes only from the flush list. Threads write no pages
//! to free frames.
//!
//! Approximated: the cleaner does its whole work between two events, and a dirty page at the tail leaves the pool as
//! soon as it is written; on a server the page stays until the next batch. So in the model writes do not change reads,
//! and no thread waits for the cleaner. `innodb_lru_flush_size` (of 10.5) and `innodb_io_capacity_max`, which limit the
//! pages that a batch writes, have no effect. A page that was freed in its tablespace leaves the server's pool at the
//! moment at which it would be written (buf0flu.cc, `buf_pool_t::release_freed_page`). A trace does not show that, so
//! the model keeps such a page and evicts others.
//!
//! Errors at the pool size of the trace (MariaDB 11.4.5, TPC-C, 1 warehouse, pool of 30 %, `lru_scan_depth` 100,
//! `old_blocks_time` 0, one run). Reads are 3.5 % above the server's, those of `lru` 9.5 % below. They are only 1.8 %
//! above if the model treats an eviction that a creation of the same page follows as a drop; that frees 1,150 frames in
//! the window.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::flush_list::AgeCourse;
use super::flushing::{FlushRate, Flushing};
use super::midpoint::MidpointSettings;
use super::neighbors::Neighbors;
use super::{Cleaner, Innodb, Pool};
use crate::replay::{Model, OneIn};

/// A thread does not wake the cleaner while the LRU list has at most this many pages (buf0lru.h, `BUF_LRU_MIN_LEN`).
const LRU_MIN_LEN: u32 = 256;
/// Shortest list in which InnoDB writes neighbours too (buf0lru.h, `BUF_LRU_OLD_MIN_LEN`).
const NEIGHBORS_MIN_LEN: u32 = 512;
/// Time between two rounds of the cleaner that write from the flush list (buf0flu.cc, `buf_flush_page_cleaner`).
const ROUND_US: u64 = 1_000_000;

/// Settings, by the server's names without `innodb_`, with the defaults of MariaDB 10.11.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Innodb1011Settings {
    /// Share of the old sublist in percent, 5 to 95. The default is 37.
    pub old_blocks_pct: u32,
    /// Milliseconds from a page's first access until an access makes it young. The default is 1000. With 0 the first
    /// access can do it, with `u32::MAX` none does.
    #[serde(rename = "old_blocks_time")]
    pub old_blocks_time_ms: u32,
    /// Free frames up to which the cleaner evicts. The default is 1536.
    pub lru_scan_depth: u32,
    /// Which dirty neighbours the cleaner writes together with a page: none (0), those next to it without a gap (1),
    /// all of its extent (2). The server writes them only on a rotational device (buf0flu.cc,
    /// `fil_space_t::is_rotational`).
    #[serde(default, skip_serializing)]
    pub flush_neighbors: u32,
    /// The number of changes for which a page may stay dirty before the cleaner writes it from the flush list. Adaptive
    /// flushing keeps the pool at this age, which depends on the device. None: no page is written because of its age.
    #[serde(skip_serializing)]
    pub flush_age: Option<AgeCourse>,
    /// The number of pages that the cleaner writes from the flush list in a round. None: it writes pages only if they
    /// are too old, or too many are dirty.
    #[serde(skip_serializing)]
    pub flush_rate: Option<FlushRate>,
    /// The dirty pages, in percent of the pool, from which on the cleaner writes the oldest ones. None: any number.
    #[serde(skip_serializing)]
    pub max_dirty_pages_pct: Option<u32>,
    /// The share of the pages that the pool gets; the caller sets it. The depth and InnoDB's constants are
    /// divided by it.
    #[serde(skip)]
    pub sampled_one_in: OneIn,
}

impl Default for Innodb1011Settings {
    fn default() -> Self {
        Innodb1011Settings {
            old_blocks_pct: 37,
            old_blocks_time_ms: 1000,
            lru_scan_depth: 1536,
            flush_neighbors: 0,
            flush_age: None,
            flush_rate: None,
            max_dirty_pages_pct: None,
            sampled_one_in: OneIn::ONE,
        }
    }
}

/// The page cleaner of MariaDB from 10.5 on.
pub struct Cleaner1011 {
    lru_scan_depth: u32,
    /// The number of pages that a batch of the cleaner leaves in the LRU list.
    least_len: u32,
    /// A thread does not wake the cleaner while the LRU list has at most this many pages.
    lru_min_len: u32,
    neighbors_min_len: u32,
    neighbors: Neighbors,
    flushing: Flushing,
    next_round_us: u64,
    woken: bool,
}

/// A buffer pool of MariaDB from 10.5 on.
pub type Innodb1011 = Innodb<Cleaner1011>;

impl Model for Innodb1011 {
    const NAME: &'static str = "innodb1011";
    type Settings = Innodb1011Settings;

    fn new(frames: NonZeroU32, pages: u32, settings: &Innodb1011Settings) -> Self {
        let &Innodb1011Settings { old_blocks_pct, old_blocks_time_ms, lru_scan_depth, sampled_one_in, .. } = settings;
        let [lru_scan_depth, lru_min_len, neighbors_min_len] =
            [lru_scan_depth, LRU_MIN_LEN, NEIGHBORS_MIN_LEN].map(|count| sampled_one_in.of(count));
        // buf0flu.cc, buf_flush_LRU_list_batch: one page less than a twentieth of a small pool.
        let least_len = (frames.get() / 20).saturating_sub(1).min(lru_min_len);
        let cleaner = Cleaner1011 {
            lru_scan_depth,
            least_len,
            lru_min_len,
            neighbors_min_len,
            neighbors: Neighbors::new(frames.get(), pages, settings.flush_neighbors),
            flushing: Flushing::new(
                settings.flush_age.as_ref(),
                settings.flush_rate,
                None,
                settings.max_dirty_pages_pct,
            ),
            next_round_us: ROUND_US,
            woken: false,
        };
        let flushes = cleaner.flushing.is_on();
        let midpoint = MidpointSettings { old_blocks_pct, old_blocks_time_ms, sampled_one_in };
        Innodb::with(frames, pages, midpoint, cleaner, flushes)
    }

    fn sample(settings: &mut Innodb1011Settings, one_in: OneIn) {
        settings.sampled_one_in = one_in;
        settings.flush_age.iter_mut().for_each(|age| age.sample(one_in));
        settings.flush_rate.iter_mut().for_each(|rate| rate.sample(one_in));
    }

    fn check(settings: &Innodb1011Settings, _frames: NonZeroU32) -> Result<(), String> {
        settings.flush_age.as_ref().map_or(Ok(()), AgeCourse::check)?;
        settings.flush_rate.as_ref().map_or(Ok(()), FlushRate::check)?;
        MidpointSettings::check(settings.old_blocks_pct)
    }
}

impl Cleaner1011 {
    /// Frees the frame at the tail. A dirty page is first written with its dirty neighbours, which stay in the pool
    /// (buf0flu.cc, `buf_flush_LRU_list_batch`, `buf_flush_try_neighbors`).
    fn free_tail(&self, pool: &mut Pool) {
        let tail = pool.lru.tail();
        if pool.flush_list.is_some() && pool.is_dirty(tail) {
            let chosen = self.neighbors.of(tail, u32::MAX, self.has_neighbors(pool), |page| pool.is_dirty(page));
            chosen.pages().iter().for_each(|&page| pool.clean(page));
            pool.counts.lru_writes += u64::from(chosen.len());
        }
        pool.evict(tail);
    }

    fn has_neighbors(&self, pool: &Pool) -> bool {
        pool.lru.len() >= self.neighbors_min_len
    }
}

impl Cleaner for Cleaner1011 {
    #[inline]
    fn work(&mut self, pool: &mut Pool, now_us: u64) {
        if self.woken {
            self.woken = false;
            while pool.free < self.lru_scan_depth && pool.lru.len() > self.least_len {
                self.free_tail(pool);
            }
        }
        if pool.flush_list.is_some() && now_us >= self.next_round_us {
            self.next_round_us = now_us + ROUND_US;
            let any = self.has_neighbors(pool);
            self.flushing.batch(pool, &self.neighbors, any);
        }
    }

    /// If no frame is free, evicts the page at the tail (buf0lru.cc, `buf_LRU_get_free_block`,
    /// `buf_LRU_scan_and_free_block`).
    fn provide_frame(&mut self, pool: &mut Pool) {
        debug_assert!(pool.free + pool.lru.len() > 0, "a pool has frames");
        if pool.free == 0 {
            self.free_tail(pool);
        }
    }

    /// Wakes the cleaner if few frames are left free (buf0flu.cc, `buf_pool_t::need_LRU_eviction`). The thread's page
    /// is not in the list yet.
    fn frame_taken(&mut self, pool: &Pool) {
        let (len, free, frames) = (pool.lru.len(), pool.free, pool.frames);
        debug_assert_eq!(len + free + 1, frames, "one of {frames} frames is taken, and its page is in no list yet");
        self.woken |= pool.lru.len() > self.lru_min_len && pool.free < self.lru_scan_depth / 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bufferlab_model::trace::Access;

    use crate::replay::Manager;

    fn filled(frames: u32, lru_scan_depth: u32, pages: u32) -> Innodb1011 {
        let settings = Innodb1011Settings { lru_scan_depth, ..Innodb1011Settings::default() };
        let mut pool = Innodb1011::new(NonZeroU32::new(frames).unwrap(), 5000, &settings);
        (0..pages).for_each(|page| pool.get(Access { page, thread: 0, latch: 1, now_us: 0 }));
        pool
    }

    #[test]
    fn the_cleaner_is_woken_at_half_the_depth_and_evicts_up_to_the_depth() {
        assert_eq!(filled(1000, 100, 951).free_len(), 49);
        let next = filled(1000, 100, 952);
        assert_eq!((next.free_len(), next.counts().evictions), (99, 51));
    }

    #[test]
    fn the_clock_alone_does_not_wake_the_cleaner() {
        let mut pool = filled(1000, 100, 940);
        pool.get(Access { page: 0, thread: 0, latch: 1, now_us: 5_000_000 });
        assert_eq!(pool.free_len(), 60);
    }

    /// Returns the pages that LRU batches and the flush list wrote in one round. Pages 0 to 9, at the tail of the list,
    /// are dirty, and the round evicts two pages there.
    fn written(flush_neighbors: u32, changes: u32) -> (u64, u64) {
        let flush_age = Some(AgeCourse::from(vec![(0, changes)]));
        let settings =
            Innodb1011Settings { lru_scan_depth: 2, flush_neighbors, flush_age, ..Innodb1011Settings::default() };
        let mut pool = Innodb1011::new(NonZeroU32::new(1000).unwrap(), 5000, &settings);
        (0..10).for_each(|page| pool.get(Access { page, thread: 0, latch: 2, now_us: 0 }));
        (1000..1991).for_each(|page| pool.get(Access { page, thread: 0, latch: 1, now_us: 0 }));
        assert_eq!((pool.counts().evictions, pool.lru_len()), (2, 999));
        pool.get(Access { page: 1990, thread: 0, latch: 1, now_us: 1_000_000 });
        (pool.counts().lru_writes, pool.counts().flush_list_writes)
    }

    #[test]
    fn a_dirty_page_at_the_tail_is_written_with_its_neighbours_and_old_ones_by_the_clock() {
        assert_eq!(written(0, 100), (2, 0), "the woken cleaner frees two frames");
        assert_eq!(written(1, 100), (10, 0));
        assert_eq!(written(0, 4), (2, 3), "of the changes 3 to 10, three are more than 4 old");
    }

    #[test]
    fn a_depth_above_the_pool_leaves_a_twentieth_of_a_small_pool() {
        let pool = filled(1000, 1536, 258);
        assert_eq!(pool.lru_len(), 258, "only a thread that finds more than 256 pages wakes the cleaner");
        let pool = filled(1000, 1536, 259);
        assert_eq!(pool.lru_len(), 50, "49 are left, and one is read");
    }
}
