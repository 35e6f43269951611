//! `innodb57`: InnoDB of MySQL 5.6, 5.7 and 8.0 and of MariaDB 10.2.
//!
//! A user thread that finds no free frame looks for a clean page near the tail. If there is none, the thread writes one
//! page, and wakes the page cleaner, which also works once a second. So between two batches of the cleaner, threads
//! take clean pages until the last 100 pages of the list are all dirty. Without this rule the model predicts 4 and 8 %
//! more reads at scan depths of 400 and 1,024.
//!
//! Approximated: the cleaner does its whole work between two events. On a server threads take frames while the cleaner
//! works: on MySQL 5.7.22 they took some 250 while a batch freed 1,024 in 0.1 s, so that the free list often had 850
//! frames and not 1,024. Threads always search from the tail; in a list of less than 512 pages a server goes on where
//! the last search ended (buf0buf.cc, `LRUItr::start`). MySQL 5.6 keeps the pages that a batch writes in the pool until
//! the next batch, and does not free neighbours.
//!
//! docs/prediction.md has the model's errors.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::flush_list::AgeCourse;
use super::flushing::{FlushRate, Flushing, IoCapacity};
use super::midpoint::MidpointSettings;
use super::neighbors::Neighbors;
use super::{Cleaner, Innodb, Pool};
use crate::replay::{Model, OneIn};

/// Pages that the cleaner leaves in the list (buf0lru.h, `BUF_LRU_MIN_LEN`).
const LRU_MIN_LEN: u32 = 256;
/// Pages from the tail among which a thread looks for a clean one (buf0lru.cc, `BUF_LRU_SEARCH_SCAN_THRESHOLD`).
const SEARCHED: u32 = 100;
/// Pages of the doublewrite buffer, which InnoDB writes together (`innodb_doublewrite_batch_size`).
const DOUBLEWRITE: u32 = 120;
/// Shortest list in which InnoDB writes neighbours too (buf0lru.h, `BUF_LRU_OLD_MIN_LEN`).
const NEIGHBORS_MIN_LEN: u32 = 512;
/// Time between two rounds of a cleaner that no thread wakes (buf0flu.cc, `buf_flush_page_cleaner_coordinator`).
const ROUND_US: u64 = 1_000_000;

/// Settings, by the server's names without `innodb_`, with the servers' defaults.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Innodb57Settings {
    /// Share of the old sublist in percent, 5 to 95. The default is 37.
    pub old_blocks_pct: u32,
    /// Milliseconds from a page's first access until an access makes it young. The default is 1000. With 0 the first
    /// access can do it, with `u32::MAX` none does.
    #[serde(rename = "old_blocks_time")]
    pub old_blocks_time_ms: u32,
    /// Free frames up to which the cleaner evicts. The default is 1024.
    pub lru_scan_depth: u32,
    /// Which dirty neighbours the cleaner writes, and frees, together with a page at the tail: none (0), those next to
    /// it without a gap (1), all of its extent (2). The default is 1; in MySQL 8.0 it is 0.
    pub flush_neighbors: u32,
    /// Whether a thread that finds no free frame and no clean page wakes the cleaner. True from MySQL 5.7 on, and in
    /// MariaDB 10.2; false in MySQL 5.6, whose `buf_LRU_get_free_block` has no such signal and looks for a clean page
    /// among `lru_scan_depth`.
    #[serde(skip_serializing)]
    pub wakes_cleaner: bool,
    /// The number of changes for which a page may stay dirty before the cleaner writes it from the flush list. Adaptive
    /// flushing keeps the pool at this age, which depends on the device. None: no page is written because of its age.
    #[serde(skip_serializing)]
    pub flush_age: Option<AgeCourse>,
    /// The number of pages that the cleaner writes from the flush list in a round. None: it writes pages only if they
    /// are too old, or too many are dirty.
    #[serde(skip_serializing)]
    pub flush_rate: Option<FlushRate>,
    /// The settings by which the cleaner computes a round's number of pages from the share of dirty pages. None: it
    /// does not compute it so.
    #[serde(skip_serializing)]
    pub io_capacity: Option<IoCapacity>,
    /// The dirty pages, in percent of the pool, from which on the cleaner writes the oldest ones. None: any number.
    #[serde(skip_serializing)]
    pub max_dirty_pages_pct: Option<u32>,
    /// The share of the pages that the pool gets; the caller sets it. The depth and InnoDB's constants are
    /// divided by it.
    #[serde(skip)]
    pub sampled_one_in: OneIn,
}

impl Default for Innodb57Settings {
    fn default() -> Self {
        Innodb57Settings {
            old_blocks_pct: 37,
            old_blocks_time_ms: 1000,
            lru_scan_depth: 1024,
            flush_neighbors: 1,
            wakes_cleaner: true,
            flush_age: None,
            io_capacity: None,
            flush_rate: None,
            max_dirty_pages_pct: None,
            sampled_one_in: OneIn::ONE,
        }
    }
}

/// InnoDB's page cleaner up to MySQL 8.0 and MariaDB 10.4.
pub struct Cleaner57 {
    lru_scan_depth: u32,
    neighbors: Neighbors,
    /// Pages from the tail among which a thread looks for a clean one.
    searched: u32,
    /// This field and the next two have the values of the constants of the same names, divided for a sample.
    lru_min_len: u32,
    doublewrite: u32,
    neighbors_min_len: u32,
    wakes_cleaner: bool,
    flushing: Flushing,
    round_us: u64,
    next_round_us: u64,
    /// The time at which the cleaner works next: the time of its next round, or 0 for at once.
    due_us: u64,
}

/// A buffer pool of MySQL 5.6, 5.7 or 8.0, or of MariaDB 10.2.
pub type Innodb57 = Innodb<Cleaner57>;

impl Model for Innodb57 {
    const NAME: &'static str = "innodb57";
    type Settings = Innodb57Settings;

    fn new(frames: NonZeroU32, pages: u32, settings: &Innodb57Settings) -> Self {
        let &Innodb57Settings { old_blocks_pct, old_blocks_time_ms, flush_neighbors, wakes_cleaner, .. } = settings;
        let one_in = settings.sampled_one_in;
        let lru_scan_depth = at_least_one(settings.lru_scan_depth, one_in);
        let flushing = Flushing::new(
            settings.flush_age.as_ref(),
            settings.flush_rate,
            settings.io_capacity,
            settings.max_dirty_pages_pct,
        );
        let round_us = flushing.round_us(ROUND_US);
        let cleaner = Cleaner57 {
            lru_scan_depth,
            neighbors: Neighbors::new(frames.get(), pages, flush_neighbors),
            searched: if wakes_cleaner { at_least_one(SEARCHED, one_in) } else { lru_scan_depth },
            lru_min_len: one_in.of(LRU_MIN_LEN),
            doublewrite: at_least_one(DOUBLEWRITE, one_in),
            neighbors_min_len: one_in.of(NEIGHBORS_MIN_LEN),
            wakes_cleaner,
            flushing,
            round_us,
            next_round_us: round_us,
            due_us: round_us,
        };
        let midpoint = MidpointSettings { old_blocks_pct, old_blocks_time_ms, sampled_one_in: one_in };
        let flushes = cleaner.flushing.is_on();
        Innodb::with(frames, pages, midpoint, cleaner, flushes)
    }

    fn sample(settings: &mut Innodb57Settings, one_in: OneIn) {
        settings.sampled_one_in = one_in;
        settings.flush_age.iter_mut().for_each(|age| age.sample(one_in));
        settings.flush_rate.iter_mut().for_each(|rate| rate.sample(one_in));
        settings.io_capacity.iter_mut().for_each(|capacity| capacity.sample(one_in));
    }

    fn check(settings: &Innodb57Settings, _frames: NonZeroU32) -> Result<(), String> {
        settings.flush_age.as_ref().map_or(Ok(()), AgeCourse::check)?;
        settings.flush_rate.as_ref().map_or(Ok(()), FlushRate::check)?;
        settings.io_capacity.as_ref().map_or(Ok(()), IoCapacity::check)?;
        MidpointSettings::check(settings.old_blocks_pct)
    }
}

/// Returns the share of a count that a sample gets: at least one, or zero for a count of zero.
fn at_least_one(count: u32, one_in: OneIn) -> u32 {
    one_in.of(count).max(count.min(1))
}

impl Cleaner57 {
    /// Does one round: evicts, and if no thread woke the cleaner, also writes from the flush list (buf0flu.cc,
    /// `buf_flush_page_cleaner_coordinator`, `pc_flush_slot`). A woken cleaner keeps the time of its next round.
    #[cold]
    fn round(&mut self, pool: &mut Pool, now_us: u64) {
        let by_the_clock = now_us >= self.next_round_us;
        if by_the_clock {
            self.next_round_us = now_us + self.round_us;
        }
        self.due_us = self.next_round_us;
        debug_assert!(now_us < self.due_us, "the next round is due before this one");
        self.batch(pool);
        if by_the_clock {
            let any = self.has_neighbors(pool);
            self.flushing.batch(pool, &self.neighbors, any);
        }
    }

    /// Evicts pages from the tail until enough frames are free (buf0flu.cc, `buf_flush_LRU_list_batch`). Frames of
    /// dirty pages are not free before they are written: when the doublewrite buffer is full, or at the end of the
    /// batch (`buf_dblwr_add_to_batch`, `buf_flush_end`).
    fn batch(&self, pool: &mut Pool) {
        let most = self.lru_scan_depth.min(pool.lru.len());
        let (mut evicted, mut flushed, mut in_flight) = (0, 0, 0);
        while evicted + flushed < most
            && pool.free - in_flight < self.lru_scan_depth
            && pool.lru.len() > self.lru_min_len
        {
            let tail = pool.lru.tail();
            if pool.lru.is_dirty(tail) {
                let written = self.flush(pool, tail, most.saturating_sub(flushed));
                flushed += written;
                in_flight = (in_flight + written) % self.doublewrite;
            } else {
                pool.evict(tail);
                evicted += 1;
            }
        }
    }

    /// Writes a dirty page and at most `most` of its old dirty neighbours, and frees their frames; returns the number
    /// of frames (buf0flu.cc, `buf_flush_try_neighbors`; `buf_page_io_complete` frees a page that was written for a
    /// batch).
    fn flush(&self, pool: &mut Pool, page: u32, most: u32) -> u32 {
        debug_assert!(pool.is_dirty(page), "page {page} is clean: nothing is to be written");
        // The pages keep their places in the list until all are written.
        let chosen = self.neighbors.of(page, most, self.has_neighbors(pool), |page| pool.lru.is_old_and_dirty(page));
        chosen.pages().iter().for_each(|&page| pool.evict(page));
        pool.counts.lru_writes += u64::from(chosen.len());
        chosen.len()
    }

    fn has_neighbors(&self, pool: &Pool) -> bool {
        pool.lru.len() >= self.neighbors_min_len
    }

    /// Returns the first clean page from the tail on, if it is near enough (buf0lru.cc,
    /// `buf_LRU_free_from_common_LRU_list`).
    fn clean_page(&self, pool: &Pool) -> Option<u32> {
        let mut page = pool.lru.tail();
        for _ in 1..self.searched.min(pool.lru.len()) {
            if !pool.lru.is_dirty(page) {
                break;
            }
            page = pool.lru.newer(page);
        }
        (!pool.lru.is_dirty(page)).then_some(page)
    }
}

impl Cleaner for Cleaner57 {
    #[inline]
    fn work(&mut self, pool: &mut Pool, now_us: u64) {
        if now_us >= self.due_us {
            self.round(pool, now_us);
        }
    }

    /// If no frame is free, evicts a clean page near the tail; without one, writes the page at the tail and, if
    /// `wakes_cleaner`, wakes the cleaner (buf0lru.cc, `buf_LRU_get_free_block`; buf0flu.cc,
    /// `buf_flush_single_page_from_LRU`).
    fn provide_frame(&mut self, pool: &mut Pool) {
        if pool.free > 0 {
            return;
        }
        if let Some(page) = self.clean_page(pool) {
            pool.evict(page);
        } else {
            let tail = pool.lru.tail();
            debug_assert!(pool.lru.is_dirty(tail), "page {tail} is clean: the search begins with it");
            pool.counts.single_page_writes += 1;
            pool.evict(tail);
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
    use bufferlab_model::trace::Access;

    use crate::replay::Manager;

    fn age(changes: u32) -> Option<AgeCourse> {
        Some(AgeCourse::from(vec![(0, changes)]))
    }

    /// Returns a pool with pages 0 to 9 dirty since the changes 1 to 10, after a round at one second. Its list is long
    /// enough for neighbours to be written.
    fn flushed(settings: Innodb57Settings) -> Innodb57 {
        let settings = Innodb57Settings { lru_scan_depth: 100, ..settings };
        let mut pool = Innodb57::new(NonZeroU32::new(1000).unwrap(), 5000, &settings);
        (0..10).for_each(|page| change(&mut pool, page));
        (2000..2600).for_each(|page| get(&mut pool, page, 0));
        get(&mut pool, 2000, 1_000_000);
        pool
    }

    fn dirty(pool: &Innodb57) -> Vec<u32> {
        (0..10).filter(|&page| pool.pool.is_dirty(page)).collect()
    }

    #[test]
    fn the_cleaner_writes_what_is_too_old_and_the_pages_stay() {
        let alone = Innodb57Settings { flush_neighbors: 0, ..Innodb57Settings::default() };
        let pool = flushed(Innodb57Settings { flush_age: age(6), ..alone.clone() });
        assert_eq!(dirty(&pool), [3, 4, 5, 6, 7, 8, 9], "the change 4 is 6 changes old");
        assert_eq!((pool.counts().flush_list_writes, pool.counts().evictions, pool.lru_len()), (3, 0, 610));
        assert_eq!((pool.flush_list_len(), flushed(alone).flush_list_len()), (Some(7), None));
    }

    #[test]
    fn a_page_that_is_too_old_takes_its_dirty_neighbours_along() {
        let written = |changes| {
            flushed(Innodb57Settings { flush_age: age(changes), ..Innodb57Settings::default() })
                .counts()
                .flush_list_writes
        };
        assert_eq!((written(8), written(9)), (10, 0), "the first of ten changes is 9 changes old");
    }

    #[test]
    fn the_cleaner_writes_the_oldest_until_the_share_of_dirty_pages_is_below_its_limit() {
        let settings =
            Innodb57Settings { flush_neighbors: 0, max_dirty_pages_pct: Some(1), ..Innodb57Settings::default() };
        let mut pool = flushed(settings);
        assert_eq!(dirty(&pool).len(), 10, "1 % of 1,001 is more than 10");
        change(&mut pool, 10);
        get(&mut pool, 2000, 2_000_000);
        assert_eq!(dirty(&pool), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert!(pool.pool.is_dirty(10));
    }

    #[test]
    fn a_round_writes_by_the_io_capacity_from_the_lowest_share_of_dirty_pages_on() {
        let written = |changed: u32, speed: f64| {
            let io_capacity =
                IoCapacity { pages: 180.0, most_pages: 7.0, least_dirty_pct: 1.0, most_dirty_pct: 9.0, speed };
            assert!(io_capacity.check().is_ok());
            let settings =
                Innodb57Settings { flush_neighbors: 0, io_capacity: Some(io_capacity), ..Innodb57Settings::default() };
            let mut pool = flushed(settings);
            (10..changed).for_each(|page| change(&mut pool, page));
            get(&mut pool, 2000, 2_000_000);
            pool.counts().flush_list_writes
        };
        // 10 dirty pages of 1,001 frames are less than 1 %. Only the oldest page is due, which asks for a third of a
        // third of a page, so the round writes none. 15 dirty pages are 1.4985 % of the pages, which asks for 14.985 %
        // of the capacity, 27 pages. A third of these is 9, and the most are 7.
        assert_eq!([written(10, 1.0), written(15, 1.0), written(11, 1.0)], [0, 7, 6]);
        assert_eq!(written(15, 2.5), 0, "the next round comes after 2.5 seconds of the trace");
    }

    #[test]
    fn a_woken_cleaner_does_not_write_from_the_flush_list() {
        let settings = Innodb57Settings { lru_scan_depth: 100, flush_age: age(0), ..Innodb57Settings::default() };
        let mut pool = Innodb57::new(NonZeroU32::new(1000).unwrap(), 5000, &settings);
        (0..1000).for_each(|page| change(&mut pool, page * 2));
        get(&mut pool, 3000, 0);
        get(&mut pool, 3000, 0);
        let counts = pool.counts();
        assert_eq!((counts.single_page_writes, counts.lru_writes, counts.flush_list_writes), (1, 100, 0));
    }

    fn pool(frames: u32, lru_scan_depth: u32) -> Innodb57 {
        let settings = Innodb57Settings { lru_scan_depth, ..Innodb57Settings::default() };
        Innodb57::new(NonZeroU32::new(frames).unwrap(), 5000, &settings)
    }

    fn get(pool: &mut Innodb57, page: u32, now_us: u64) {
        pool.get(Access { page, thread: 0, latch: 1, now_us });
    }

    fn change(pool: &mut Innodb57, page: u32) {
        pool.get(Access { page, thread: 0, latch: 2, now_us: 0 });
    }

    #[test]
    fn a_thread_without_a_frame_takes_the_last_clean_page_and_lets_the_cleaner_sleep() {
        let mut pool = pool(1000, 100);
        (0..99).for_each(|page| change(&mut pool, page));
        (99..1000).for_each(|page| get(&mut pool, page, 0));
        assert_eq!((pool.free_len(), pool.counts().evictions), (0, 0));
        get(&mut pool, 1000, 0);
        get(&mut pool, 1000, 0);
        assert_eq!((pool.free_len(), pool.counts().evictions), (0, 1));
        assert!(pool.pool.lru.contains(98), "it is dirty");
        assert!(!pool.pool.lru.contains(99), "the hundredth from the tail is clean");
    }

    #[test]
    fn a_hundred_dirty_pages_at_the_tail_wake_the_cleaner_which_works_before_the_next_event() {
        let mut pool = pool(1000, 50);
        (0..100).for_each(|page| change(&mut pool, page));
        (100..1000).for_each(|page| get(&mut pool, page, 0));
        get(&mut pool, 1000, 0);
        assert_eq!((pool.free_len(), pool.counts().evictions), (0, 1), "the thread writes one page for itself");
        get(&mut pool, 1000, 0);
        assert_eq!((pool.free_len(), pool.counts().evictions), (50, 51));
    }

    #[test]
    fn a_dirty_page_at_the_tail_takes_its_old_dirty_neighbours_along() {
        let evicted = |flush_neighbors| {
            let settings = Innodb57Settings { lru_scan_depth: 3, flush_neighbors, ..Innodb57Settings::default() };
            let mut pool = Innodb57::new(NonZeroU32::new(1000).unwrap(), 5000, &settings);
            change(&mut pool, 130);
            get(&mut pool, 1, 0);
            get(&mut pool, 129, 0);
            [131, 132, 134].into_iter().for_each(|page| change(&mut pool, page));
            (1000..1994).for_each(|page| get(&mut pool, page, 0));
            pool.cleaner.batch(&mut pool.pool);
            [130, 1, 129, 131, 132, 134].into_iter().filter(|&page| !pool.pool.lru.contains(page)).collect::<Vec<_>>()
        };
        assert_eq!(evicted(0), [130, 1, 129]);
        assert_eq!(evicted(1), [130, 131, 132]);
        assert_eq!(evicted(2), [130, 131, 132]);
    }

    #[test]
    fn the_neighbours_of_an_extent_are_written_with_2_and_no_more_than_the_depth() {
        let evicted = |lru_scan_depth| {
            let settings = Innodb57Settings { lru_scan_depth, flush_neighbors: 2, ..Innodb57Settings::default() };
            let mut pool = Innodb57::new(NonZeroU32::new(1000).unwrap(), 5000, &settings);
            // An extent of a pool of 1,000 frames has 32 pages: 128 to 159.
            [134, 131, 159, 160].into_iter().for_each(|page| change(&mut pool, page));
            (1000..1996).for_each(|page| get(&mut pool, page, 0));
            pool.cleaner.batch(&mut pool.pool);
            [131, 134, 159, 160].into_iter().filter(|&page| !pool.pool.lru.contains(page)).collect::<Vec<_>>()
        };
        assert_eq!(evicted(2), [131, 134]);
        assert_eq!(evicted(3), [131, 134, 159]);
    }

    #[test]
    fn frames_of_dirty_pages_are_not_free_before_they_are_written() {
        let mut pool = pool(1000, 100);
        (0..200).for_each(|page| change(&mut pool, page * 2));
        (2000..2750).for_each(|page| get(&mut pool, page, 0));
        assert_eq!(pool.free_len(), 50);
        get(&mut pool, 2000, 1_000_000);
        assert_eq!(pool.free_len(), 150, "the batch wrote 100, until as many were written as the depth");
    }

    #[test]
    fn frames_of_a_full_doublewrite_buffer_are_free_before_the_batch_ends() {
        let mut pool = pool(1000, 300);
        (0..200).for_each(|page| change(&mut pool, page * 2));
        (2000..2700).for_each(|page| get(&mut pool, page, 0));
        get(&mut pool, 2699, 1_000_000);
        // 120 of the 200 dirty pages are written together first. The other 80 are freed when the batch ends.
        assert_eq!(pool.free_len(), 300 + 80);
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
        (0..1000).for_each(|page| get(&mut all_but_256, page, 0));
        get(&mut all_but_256, 511, 1_000_000);
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
        pool.create(Access { page: 599, thread: 0, latch: 0, now_us: 0 });
        let counts = pool.counts();
        assert_eq!((counts.creates, counts.evictions, pool.free_len()), (0, 1, 1));
    }
}
