//! `innodb57`: InnoDB of MySQL 5.6, 5.7 and 8.0 and of MariaDB 10.2.
//!
//! A user thread that finds no free frame frees one itself and wakes the page cleaner, which also works once a second.
//!
//! Approximated: the cleaner does its whole work between two events, and no page is dirty. So the thread's search from
//! the tail (`buf_LRU_scan_and_free_block`, 100 pages at most) ends at the tail, and no thread writes a page to free a
//! frame. A server whose search ends there does not wake the cleaner; the model does, because the tail of a busy pool
//! is dirty.
//!
//! Checked at the point where the trace was taken (TPC-C, 1 warehouse, pool of 30 %, `lru_scan_depth` 100,
//! `old_blocks_time` 0, one run of each server). Reads are 0.8 % below those of MySQL 5.7.22 and 0.9 % below MariaDB
//! 10.2.11; they are 1.2 % above MySQL 8.0.15, and 0.3 % above 5.6.24 without `wakes_cleaner`. Those of `lru` are 11.0,
//! 9.6, 2.8 and 4.5 % below.

use std::num::NonZeroU32;

use super::midpoint::MidpointSettings;
use super::{Cleaner, Innodb, Pool};

/// Pages that the cleaner leaves in the list (buf0lru.h, `BUF_LRU_MIN_LEN`).
const LRU_MIN_LEN: u32 = 256;
/// Time between two rounds of a cleaner that nobody wakes (buf0flu.cc, `buf_flush_page_cleaner_coordinator`).
const ROUND_US: u64 = 1_000_000;

/// Settings, by the server's names without `innodb_`, with the servers' defaults.
#[derive(Clone, Copy, Debug)]
pub struct Innodb57Settings {
    /// Share of the old sublist in percent, 5 to 95: 37.
    pub old_blocks_pct: u32,
    /// Milliseconds from a page's first access until an access makes it young: 1000. With 0 the first access can do it,
    /// with `u32::MAX` none does.
    pub old_blocks_time_ms: u32,
    /// Free frames up to which the cleaner evicts: 1024.
    pub lru_scan_depth: u32,
    /// Whether a thread that finds no free frame wakes the cleaner. True from MySQL 5.7 on, and in MariaDB 10.2; false
    /// in MySQL 5.6, whose `buf_LRU_get_free_block` has no such signal.
    pub wakes_cleaner: bool,
}

impl Default for Innodb57Settings {
    fn default() -> Self {
        Innodb57Settings { old_blocks_pct: 37, old_blocks_time_ms: 1000, lru_scan_depth: 1024, wakes_cleaner: true }
    }
}

/// InnoDB's page cleaner up to MySQL 8.0 and MariaDB 10.4.
pub struct Cleaner57 {
    lru_scan_depth: u32,
    wakes_cleaner: bool,
    next_round_us: u64,
    /// When it works next: at the next round, or at once.
    due_us: u64,
}

/// A buffer pool of MySQL 5.6, 5.7 or 8.0, or of MariaDB 10.2.
pub type Innodb57 = Innodb<Cleaner57>;

impl Innodb57 {
    /// An empty pool of `frames` for pages `0..pages`.
    #[must_use]
    pub fn new(frames: NonZeroU32, pages: u32, settings: &Innodb57Settings) -> Self {
        let &Innodb57Settings { old_blocks_pct, old_blocks_time_ms, lru_scan_depth, wakes_cleaner } = settings;
        let cleaner = Cleaner57 { lru_scan_depth, wakes_cleaner, next_round_us: ROUND_US, due_us: ROUND_US };
        Innodb::with(frames, pages, MidpointSettings { old_blocks_pct, old_blocks_time_ms }, cleaner)
    }
}

impl Cleaner57 {
    /// buf0flu.cc, `pc_flush_slot`, `buf_flush_LRU_list`: a woken cleaner keeps the time of its next round.
    #[cold]
    fn evict(&mut self, pool: &mut Pool, now_us: u64) {
        if now_us >= self.next_round_us {
            self.next_round_us = now_us + ROUND_US;
        }
        self.due_us = self.next_round_us;
        pool.evict_batch(self.lru_scan_depth, LRU_MIN_LEN);
    }
}

impl Cleaner for Cleaner57 {
    #[inline]
    fn work(&mut self, pool: &mut Pool, now_us: u64) {
        if now_us >= self.due_us {
            self.evict(pool, now_us);
        }
    }

    /// buf0lru.cc, `buf_LRU_get_free_block`.
    fn provide_frame(&mut self, pool: &mut Pool) {
        if pool.free == 0 {
            pool.evict_tail();
            if self.wakes_cleaner {
                self.due_us = 0;
            }
        }
    }

    fn frame_taken(&mut self, _pool: &Pool) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{Access, Manager};

    fn pool(frames: u32, lru_scan_depth: u32) -> Innodb57 {
        let settings = Innodb57Settings { lru_scan_depth, ..Innodb57Settings::default() };
        Innodb57::new(NonZeroU32::new(frames).unwrap(), 5000, &settings)
    }

    fn get(pool: &mut Innodb57, page: u32, now_us: u64) {
        pool.get(Access { page, thread: 0, now_us });
    }

    #[test]
    fn the_cleaner_is_woken_when_no_frame_is_free_and_evicts_before_the_next_event() {
        let mut pool = pool(1000, 100);
        (0..1000).for_each(|page| get(&mut pool, page, 0));
        assert_eq!((pool.free_len(), pool.counts().evictions), (0, 0));
        get(&mut pool, 1000, 0);
        assert_eq!((pool.free_len(), pool.counts().evictions), (0, 1), "the thread frees one frame for itself");
        get(&mut pool, 1000, 0);
        assert_eq!((pool.free_len(), pool.counts().evictions), (100, 101));
    }

    #[test]
    fn the_cleaner_works_once_a_second_by_the_clock_of_the_trace() {
        let mut pool = pool(1000, 100);
        (0..950).for_each(|page| get(&mut pool, page, 0));
        get(&mut pool, 0, 999_999);
        assert_eq!(pool.free_len(), 50);
        get(&mut pool, 949, 1_000_000);
        assert_eq!(pool.free_len(), 100);
        (2000..2030).for_each(|page| get(&mut pool, page, 1_999_999));
        assert_eq!(pool.free_len(), 70);
        get(&mut pool, 2029, 2_000_000);
        assert_eq!(pool.free_len(), 100);
    }

    #[test]
    fn the_cleaner_leaves_256_pages_and_a_cleaner_of_5_6_is_not_woken() {
        let mut all_but_256 = pool(1000, 5000);
        (0..=1000).for_each(|page| get(&mut all_but_256, page, 0));
        get(&mut all_but_256, 511, 0);
        assert_eq!(all_but_256.lru_len(), 256);
        let settings = Innodb57Settings { wakes_cleaner: false, ..Innodb57Settings::default() };
        let mut timed = Innodb57::new(NonZeroU32::new(1000).unwrap(), 5000, &settings);
        (0..2000).for_each(|page| get(&mut timed, page, 0));
        assert_eq!(timed.lru_len(), 1000);
    }

    #[test]
    fn a_creation_takes_a_frame_before_it_looks_for_the_page() {
        let mut pool = pool(600, 100);
        (0..600).for_each(|page| get(&mut pool, page, 0));
        pool.create(Access { page: 599, thread: 0, now_us: 0 });
        let counts = pool.counts();
        assert_eq!((counts.creates, counts.evictions, pool.free_len()), (0, 1, 1));
    }
}
