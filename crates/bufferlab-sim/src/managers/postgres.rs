//! `postgres`: the shared buffers of PostgreSQL 15 to 19, a clock sweep with usage counts.
//!
//! It follows freelist.c and bufmgr.c in src/backend/storage/buffer: a pin raises the buffer's usage count, up to 5.
//! The clock's hand lowers it, and a buffer that the hand finds at 0 is the victim.
//!
//! A scan of a large table uses a ring of buffers (scans.rs). Its hits raise a usage count only from 0 to 1. Its misses
//! reuse the ring's buffers, unless another session has used them (freelist.c, `GetBufferFromRing`).
//!
//! Up to 18 a miss takes a buffer of the list of free ones first. 19 lacks such a list: the hand takes a
//! buffer without a page when it comes to it, as one with a usage count of 0, and evicts others before (freelist.c,
//! `StrategyGetBuffer`; bufmgr.c, `InvalidateBuffer`).
//!
//! Approximated: a trace shows pins but no unpins, so the model never treats a buffer as pinned. A table's size is the
//! number of its pages that the run touched.
//!
//! A page is dirty from its change on until a process writes it: the session that takes its buffer (bufmgr.c,
//! `GetVictimBuffer`), the background writer or the checkpointer (`postgres/`). Reads do not depend on writes.
//!
//! Left out: the rings of VACUUM and of bulk writes; their misses take a victim as any other miss. A scan also drops
//! dirty buffers from its ring (`StrategyRejectBuffer`); the model does not. So is the kernel's page cache, which serves
//! many of these reads. A change of a page that this pool has lost meanwhile is lost too: on a server it is pinned.
//!
//! If a session pins a page twice, its usage count rises once. The trace marks the first pin (column `latch`). A model
//! that counted all pins predicted 5 to 8 % too many reads (PostgreSQL 17.2, pools of 20 and 30 % of the data).
//!
//! docs/prediction.md has the model's errors.

mod background_writer;
mod checkpointer;
mod writers;

use std::num::NonZeroU32;

use bufferlab_model::trace::Access;
use bufferlab_model::trace::latch::{BY_HINT, CHANGED, HELD, HINTED, OTHER_RING, PIN, RING};
use serde::{Deserialize, Serialize};

use self::background_writer::Position;
pub use self::writers::{BackgroundWriterRules, CheckpointRules, LogRules, WriteRules};
use self::writers::{Buffers, DIRTY, LOGGED, Writers};
use super::scans::{LargeTable, NO_TABLE, Scans};
use crate::replay::{Counts, Manager, Model, OneIn};

/// The highest usage count of a buffer (buf_internals.h, `BM_MAX_USAGE_COUNT`).
const MAX_USAGE_COUNT: u8 = 5;
/// Stands for no buffer, or no page.
const NONE: u32 = u32::MAX;
/// The highest usage count that a pin with a ring raises a page to.
const RING_USAGE_COUNT: u8 = 1;

#[derive(Clone, Copy)]
struct Page {
    /// The page's buffer, or `NONE`.
    buffer: u32,
    /// The large table that the page belongs to, or `NO_TABLE`.
    table: u8,
    usage_count: u8,
    /// Whether the page is dirty, whether a checkpoint wants to write it, and whether the log has it whole.
    marks: u8,
}

impl Page {
    /// Makes the page clean, as a write does; returns whether it was dirty.
    fn clean(&mut self) -> bool {
        let is_dirty = self.marks & DIRTY != 0;
        self.marks &= LOGGED;
        is_dirty
    }
}

/// The settings of PostgreSQL's model: the rings of sequential scans, and how dirty pages are written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostgresSettings {
    /// The tables whose scans have a ring: those of more than a quarter of the buffers, 255 of them at most.
    #[serde(skip_serializing)]
    pub large_tables: Vec<LargeTable>,
    /// The number of buffers of a ring.
    #[serde(skip_serializing)]
    pub ring_buffers: u32,
    /// Whether buffers without a page are in a list, from which a miss takes one first: up to version 18.
    #[serde(skip_serializing, default = "yes")]
    pub has_free_list: bool,
    /// How dirty pages are written. None: pages stay clean.
    #[serde(skip_serializing, default)]
    pub writes: Option<WriteRules>,
}

fn yes() -> bool {
    true
}

impl Default for PostgresSettings {
    fn default() -> Self {
        PostgresSettings { large_tables: Vec::new(), ring_buffers: 0, has_free_list: true, writes: None }
    }
}

/// PostgreSQL's shared buffers.
pub struct Postgres {
    pages: Vec<Page>,
    /// The page in each buffer, or `NONE`.
    buffers: Vec<u32>,
    /// Buffers without a page, the next one last (`StrategyControl->firstFreeBuffer`); none from version 19 on.
    free: Vec<u32>,
    has_free_list: bool,
    /// The number of buffers that have a page.
    used: u32,
    /// The buffer at which the clock's hand stands (`StrategyControl->nextVictimBuffer`).
    hand: Position,
    scans: Scans,
    writers: Option<Writers>,
    /// The time of the writers' next work; without writers never.
    due_us: u64,
    counts: Counts,
}

impl Model for Postgres {
    const NAME: &'static str = "postgres";
    type Settings = PostgresSettings;

    /// Makes empty shared buffers, `frames` of them (`shared_buffers` in pages), for pages `0..pages`. It ignores pages
    /// of large tables beyond these, and all tables but the first 255.
    fn new(frames: NonZeroU32, pages: u32, settings: &PostgresSettings) -> Self {
        let frames = frames.get();
        let mut of_pages = vec![Page { buffer: NONE, table: NO_TABLE, usage_count: 0, marks: 0 }; pages as usize];
        for (number, table) in (0..NO_TABLE).zip(&settings.large_tables) {
            let first = table.first_page.min(pages) as usize;
            let end = table.first_page.saturating_add(table.pages).min(pages) as usize;
            of_pages[first..end].iter_mut().for_each(|page| page.table = number);
        }
        let writers = settings.writes.as_ref().map(Writers::new);
        Postgres {
            pages: of_pages,
            buffers: vec![NONE; frames as usize],
            free: if settings.has_free_list { (0..frames).rev().collect() } else { Vec::new() },
            has_free_list: settings.has_free_list,
            used: 0,
            hand: Position { buffer: 0, passes: 0 },
            scans: Scans::new(&settings.large_tables, settings.ring_buffers),
            due_us: writers.as_ref().map_or(u64::MAX, Writers::due_us),
            writers,
            counts: Counts::default(),
        }
    }

    fn sample(settings: &mut PostgresSettings, one_in: OneIn) {
        let PostgresSettings { large_tables, ring_buffers, writes, .. } = settings;
        *ring_buffers = one_in.of(*ring_buffers).max(1);
        for LargeTable { first_page, pages, .. } in large_tables {
            (*first_page, *pages) = (one_in.of(*first_page), one_in.of(*pages));
        }
        if let Some(writes) = writes {
            writes.sample(one_in);
        }
    }

    fn check(settings: &PostgresSettings, frames: NonZeroU32) -> Result<(), String> {
        let PostgresSettings { ring_buffers, writes, .. } = settings;
        writes.as_ref().map_or(Ok(()), WriteRules::check)?;
        let fits = (1..=frames.get()).contains(ring_buffers);
        fits.then_some(()).ok_or_else(|| format!("a ring of {frames} buffers has 1 to as many, not {ring_buffers}"))
    }
}

impl Postgres {
    /// Returns whether the pool has a page.
    #[inline]
    pub fn has(&self, page: u32) -> bool {
        self.pages[page as usize].buffer != NONE
    }

    /// Begins an event: the processes that write first do the work that is due.
    #[inline]
    fn begin(&mut self, now_us: u64) {
        if now_us >= self.due_us {
            self.write_due(now_us);
        }
    }

    #[cold]
    fn write_due(&mut self, now_us: u64) {
        if let Some(writers) = &mut self.writers {
            let mut buffers = Buffers { pages: &mut self.pages, buffers: &self.buffers };
            writers.work(now_us, self.hand, &mut buffers, &mut self.counts);
            self.due_us = writers.due_us();
        }
    }

    /// Raises a page's usage count, unless the session has pinned the page already (bufmgr.c, `PinBuffer`).
    #[inline]
    fn pin(&mut self, access: Access, has_ring: bool) {
        let usage_count = &mut self.pages[access.page as usize].usage_count;
        let most = if has_ring || access.latch & RING == OTHER_RING { RING_USAGE_COUNT } else { MAX_USAGE_COUNT };
        if access.latch & PIN != HELD && *usage_count < most {
            *usage_count += 1;
        }
        debug_assert!(*usage_count <= MAX_USAGE_COUNT, "the usage count of page {} is {usage_count}", access.page);
    }

    /// Notes what the session does to a page after it has got it.
    #[inline]
    fn note_marks(&mut self, access: Access) {
        if access.latch & (CHANGED | HINTED) != 0 {
            self.note(access.page, access.latch & CHANGED != 0);
        }
    }

    /// Makes a page dirty if the pool has it (bufmgr.c, `MarkBufferDirty`, `MarkBufferDirtyHint`).
    #[inline]
    fn note(&mut self, page: u32, is_change: bool) {
        let Some(writers) = &mut self.writers else { return };
        let page = &mut self.pages[page as usize];
        if is_change {
            writers.log_change(page);
        }
        if page.buffer != NONE {
            page.marks |= DIRTY;
        }
    }

    /// Gives a page a buffer, pinned and with a usage count of 1 (bufmgr.c, `BufferAlloc`).
    fn admit(&mut self, page: u32) {
        let buffer = self.take_buffer();
        self.fill(buffer, page);
    }

    /// Gives a page the next buffer of a scan's ring, or a new one for the ring (freelist.c, `StrategyGetBuffer`).
    fn admit_by_ring(&mut self, page: u32, scan: usize) {
        let next = self.scans.next_buffer(scan);
        let buffer = match next.filter(|&buffer| self.is_fair_game(buffer)) {
            Some(buffer) => {
                if self.buffers[buffer as usize] != NONE {
                    self.evict(buffer);
                }
                self.counts.ring_reuses += 1;
                buffer
            }
            None => self.take_buffer(),
        };
        self.scans.replace_buffer(scan, buffer);
        self.fill(buffer, page);
    }

    /// Takes a free buffer, or that of a victim (freelist.c, `StrategyGetBuffer`).
    fn take_buffer(&mut self) -> u32 {
        if let Some(writers) = &mut self.writers {
            writers.recent_alloc += 1;
        }
        self.free.pop().unwrap_or_else(|| self.victim())
    }

    /// Returns whether a ring may use its buffer again, with any page in it (freelist.c, `GetBufferFromRing`).
    fn is_fair_game(&self, buffer: u32) -> bool {
        let page = self.buffers[buffer as usize];
        // A buffer in the list is the list's, so that it has one owner.
        if page == NONE { !self.has_free_list } else { self.pages[page as usize].usage_count <= RING_USAGE_COUNT }
    }

    fn fill(&mut self, buffer: u32, page: u32) {
        debug_assert_eq!(self.buffers[buffer as usize], NONE, "buffer {buffer} has a page, and gets page {page} too");
        self.buffers[buffer as usize] = page;
        self.used += 1;
        let page = &mut self.pages[page as usize];
        debug_assert_eq!(page.buffer, NONE, "a page has one buffer, and gets {buffer} too");
        page.buffer = buffer;
        page.usage_count = 1;
    }

    /// Evicts the page of a buffer, which the session writes first if it is dirty (bufmgr.c, `GetVictimBuffer`).
    fn evict(&mut self, buffer: u32) {
        let page = self.buffers[buffer as usize];
        self.counts.single_page_writes += u64::from(self.pages[page as usize].clean());
        self.empty(buffer);
        self.counts.evictions += 1;
    }

    /// Takes the page out of a buffer, which has one.
    fn empty(&mut self, buffer: u32) {
        let page = std::mem::replace(&mut self.buffers[buffer as usize], NONE);
        let page = &mut self.pages[page as usize];
        debug_assert_eq!(page.buffer, buffer, "the page that leaves buffer {buffer} is in another one");
        (page.buffer, page.marks) = (NONE, page.marks & LOGGED);
        self.used -= 1;
    }

    /// Evicts the page that the clock finds, and returns its buffer; no buffer is in the list of free ones (freelist.c,
    /// `StrategyGetBuffer`). A buffer without a page has a usage count of 0.
    fn victim(&mut self) -> u32 {
        debug_assert!(self.free.is_empty(), "{} buffers are free: none needs a victim", self.free.len());
        loop {
            let buffer = self.hand.buffer;
            self.hand.advance(self.buffers.len() as u32);
            let page = self.buffers[buffer as usize];
            if page == NONE {
                debug_assert!(!self.has_free_list, "buffer {buffer} has no page and is not in the list");
                return buffer;
            }
            let page = &mut self.pages[page as usize];
            debug_assert_eq!(page.buffer, buffer, "the page in buffer {buffer} is in another one");
            if page.usage_count == 0 {
                self.evict(buffer);
                return buffer;
            }
            page.usage_count -= 1;
        }
    }
}

impl Manager for Postgres {
    #[inline]
    fn get(&mut self, access: Access) {
        self.begin(access.now_us);
        let Page { buffer, table, .. } = self.pages[access.page as usize];
        let scan = self.scans.scan_of(access, table);
        if buffer != NONE {
            self.pin(access, scan.is_some());
        } else {
            self.counts.misses += 1;
            match scan {
                Some(scan) => self.admit_by_ring(access.page, scan),
                None => self.admit(access.page),
            }
        }
        self.note_marks(access);
    }

    /// Pins the page if it is in the pool.
    fn get_if_in_pool(&mut self, access: Access) {
        self.begin(access.now_us);
        if self.has(access.page) {
            self.pin(access, false);
        }
    }

    /// Gives a new page a buffer (bufmgr.c, `ExtendBufferedRelShared`).
    fn create(&mut self, access: Access) {
        self.begin(access.now_us);
        if self.has(access.page) {
            self.pin(access, false);
        } else {
            self.counts.creates += 1;
            self.admit(access.page);
            // The first change of a new page logs no image: the page was empty (REGBUF_WILL_INIT).
            self.pages[access.page as usize].marks |= LOGGED;
        }
        self.note_marks(access);
    }

    fn prefetch(&mut self, access: Access) {
        self.begin(access.now_us);
        if !self.has(access.page) {
            self.counts.prefetch_reads += 1;
            self.admit(access.page);
        }
    }

    /// Makes a page dirty, where it stands in the trace apart from a get.
    fn dirty(&mut self, access: Access) {
        self.begin(access.now_us);
        self.note(access.page, access.latch & PIN != BY_HINT);
    }

    /// Frees the page's buffer (bufmgr.c, `InvalidateBuffer`).
    fn drop_page(&mut self, access: Access) {
        self.begin(access.now_us);
        let Page { buffer, .. } = self.pages[access.page as usize];
        if buffer != NONE {
            self.empty(buffer);
            if self.has_free_list {
                self.free.push(buffer);
            }
        }
    }

    fn counts(&self) -> Counts {
        Counts { guessed_scan_gets: self.scans.guessed(), ..self.counts }
    }

    fn frames_used(&self) -> u32 {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(frames: u32) -> Postgres {
        Postgres::new(NonZeroU32::new(frames).unwrap(), 100, &PostgresSettings::default())
    }

    /// Returns shared buffers with pages `0..2000`, of which those from 1000 on are a large table.
    fn pool_with_table(frames: u32, ring_buffers: u32, had_rings: bool) -> Postgres {
        let large_tables = vec![LargeTable { first_page: 1000, pages: 1000, had_rings }];
        let settings = PostgresSettings { large_tables, ring_buffers, ..PostgresSettings::default() };
        Postgres::new(NonZeroU32::new(frames).unwrap(), 2000, &settings)
    }

    /// Returns shared buffers for pages `0..100` or more, whose changes are written. The target of checkpoints is half.
    fn pool_with_writes(frames: u32, bgwriter_lru_maxpages: u32, checkpoint_timeout_us: u64) -> Postgres {
        let background_writer =
            BackgroundWriterRules { bgwriter_delay_us: 200_000, bgwriter_lru_maxpages, bgwriter_lru_multiplier: 2.0 };
        let checkpoints = CheckpointRules {
            checkpoint_timeout_us,
            checkpoint_completion_target: 0.5,
            bytes_to_checkpoint: 1 << 40,
            bytes_between: 1 << 40,
        };
        let log = LogRules { change_bytes: 100, image_bytes: 8192 };
        let writes = Some(WriteRules { background_writer, checkpoints, log });
        let settings = PostgresSettings { writes, ..PostgresSettings::default() };
        Postgres::new(NonZeroU32::new(frames).unwrap(), frames.max(100), &settings)
    }

    /// Changes the pages that have the letters' codes as numbers.
    fn dirty(pool: &mut Postgres, pages: &str) {
        for letter in pages.bytes() {
            pool.dirty(Access { page: u32::from(letter), thread: 0, latch: 1, now_us: 0 });
        }
    }

    /// Gets pages with a latch, by one session.
    fn get_all(pool: &mut Postgres, pages: impl IntoIterator<Item = u32>, latch: u8) {
        for page in pages {
            pool.get(Access { page, thread: 3, latch, now_us: 0 });
        }
    }

    fn usage_counts(pool: &Postgres, pages: impl IntoIterator<Item = u32>) -> Vec<u8> {
        pages.into_iter().filter(|&page| pool.has(page)).map(|page| pool.pages[page as usize].usage_count).collect()
    }

    /// Gets the pages that have the letters' codes as numbers.
    fn get(pool: &mut Postgres, pages: &str) {
        for letter in pages.bytes() {
            pool.get(Access { page: u32::from(letter), thread: 0, latch: 0, now_us: 0 });
        }
    }

    /// Returns the page and the usage count of each buffer, and the hand.
    fn state(pool: &Postgres) -> (String, Vec<u8>, u32) {
        let pages = pool.buffers.iter().map(|&page| char::from(page as u8)).collect();
        let usage_count = |page: &u32| pool.pages.get(*page as usize).map_or(0, |page| page.usage_count);
        (pages, pool.buffers.iter().map(usage_count).collect(), pool.hand.buffer)
    }

    #[test]
    fn vector_p1_the_hand_lowers_usage_counts_and_takes_the_first_that_is_zero() {
        let mut pool = pool(4);
        get(&mut pool, "ABCDAAC");
        assert_eq!(state(&pool), ("ABCD".into(), vec![3, 1, 2, 1], 0));
        get(&mut pool, "E");
        assert_eq!(state(&pool), ("AECD".into(), vec![1, 1, 1, 0], 2));
        get(&mut pool, "F");
        assert_eq!(state(&pool), ("AECF".into(), vec![1, 1, 0, 1], 0));
        get(&mut pool, "AG");
        assert_eq!(state(&pool), ("AEGF".into(), vec![1, 0, 1, 1], 3));
    }

    #[test]
    fn vector_p2_a_usage_count_ends_at_5() {
        let mut pool = pool(3);
        get(&mut pool, "ABCAAAAAAAAA");
        assert_eq!(state(&pool), ("ABC".into(), vec![5, 1, 1], 0));
        get(&mut pool, "X");
        assert_eq!(state(&pool), ("AXC".into(), vec![3, 1, 0], 2));
        get(&mut pool, "Y");
        assert_eq!(state(&pool), ("AXY".into(), vec![3, 1, 1], 0));
        get(&mut pool, "12");
        assert!(pool.has(u32::from(b'A')));
        get(&mut pool, "3");
        assert!(!pool.has(u32::from(b'A')));
        assert_eq!(pool.hand.buffer, 16 % 3);
    }

    #[test]
    fn a_changed_page_is_written_once_by_the_session_that_takes_its_buffer() {
        let mut pool = pool_with_writes(2, 0, 1 << 40);
        get(&mut pool, "AB");
        dirty(&mut pool, "AAZ");
        get(&mut pool, "CD");
        assert_eq!((pool.counts().evictions, pool.counts().single_page_writes), (2, 1));
        get(&mut pool, "AB");
        assert_eq!((pool.counts().evictions, pool.counts().single_page_writes), (4, 1));
        let mut none = Postgres::new(NonZeroU32::new(2).unwrap(), 100, &PostgresSettings::default());
        get(&mut none, "AB");
        dirty(&mut none, "AB");
        get(&mut none, "CD");
        assert_eq!((none.counts().evictions, none.counts().single_page_writes), (2, 0));
    }

    #[test]
    fn a_checkpoint_writes_the_pages_that_were_dirty_at_its_begin_spread_over_its_share_of_the_time() {
        let mut pool = pool_with_writes(100, 0, 10_000_000);
        get_all(&mut pool, 0..50, 5);
        (0..50).for_each(|page| pool.dirty(Access { page, thread: 0, latch: 1, now_us: 0 }));
        let mut written = |seconds: u64| {
            pool.get(Access { page: 0, thread: 0, latch: 6, now_us: seconds * 1_000_000 });
            pool.dirty(Access { page: 99, thread: 0, latch: 1, now_us: seconds * 1_000_000 });
            pool.counts().checkpoint_writes
        };
        // It begins after 10 s and writes half of the pages in a quarter of them, because the target is half.
        assert_eq!([9, 10, 12, 15, 19].map(&mut written), [0, 1, 21, 50, 50]);
        // Nothing has become dirty since, because page 99 is in no buffer.
        assert_eq!(written(40), 50);
        assert_eq!(pool.counts().single_page_writes, 0);
    }

    #[test]
    fn vector_p5_a_round_of_the_background_writer_ends_at_its_most_pages() {
        let mut pool = pool_with_writes(200, 100, 1 << 40);
        get_all(&mut pool, 0..200, 5);
        (0..200).for_each(|page| pool.dirty(Access { page, thread: 0, latch: 1, now_us: 0 }));
        pool.pages.iter_mut().for_each(|page| page.usage_count = 0);
        // 200 buffers were taken before the first round, which wants twice as many.
        pool.get(Access { page: 0, thread: 0, latch: 6, now_us: 200_000 });
        assert_eq!(pool.counts().lru_writes, 100);
        assert!((0..200).all(|page| (pool.pages[page].marks & DIRTY == 0) == (page < 100)));
    }

    #[test]
    fn a_pin_of_a_page_that_the_session_has_pinned_does_not_count() {
        let mut pool = pool(9);
        for latch in [1, 2, 2, 1, 0] {
            pool.get(Access { page: 7, thread: 0, latch, now_us: 0 });
        }
        assert_eq!(pool.pages[7].usage_count, 3);
    }

    #[test]
    fn the_buffer_of_a_dropped_page_is_the_next_to_be_used() {
        let mut pool = pool(3);
        get(&mut pool, "AB");
        pool.drop_page(Access { page: u32::from(b'A'), thread: 0, latch: 0, now_us: 0 });
        assert_eq!(pool.frames_used(), 1);
        get(&mut pool, "C");
        assert_eq!(pool.buffers[..2], [u32::from(b'C'), u32::from(b'B')]);
    }

    #[test]
    fn without_a_list_the_hand_evicts_pages_before_it_comes_to_the_buffer_of_a_dropped_one() {
        let settings = PostgresSettings { has_free_list: false, ..PostgresSettings::default() };
        let mut pool = Postgres::new(NonZeroU32::new(4).unwrap(), 100, &settings);
        get(&mut pool, "ABC");
        assert_eq!((state(&pool).2, pool.frames_used(), pool.counts().evictions), (3, 3, 0));
        get(&mut pool, "DE");
        assert_eq!(state(&pool), ("EBCD".into(), vec![1, 0, 0, 0], 1));
        pool.drop_page(Access { page: u32::from(b'C'), thread: 0, latch: 0, now_us: 0 });
        assert_eq!((pool.frames_used(), pool.counts().evictions), (3, 1));
        // Buffer 1 comes before buffer 2, which is without a page.
        get(&mut pool, "F");
        assert_eq!((pool.buffers[1], pool.counts().evictions), (u32::from(b'F'), 2));
        get(&mut pool, "G");
        assert_eq!((pool.buffers[2], pool.counts().evictions), (u32::from(b'G'), 2));
    }

    #[test]
    fn without_a_list_a_ring_reuses_its_buffer_whose_page_was_dropped() {
        let large_tables = vec![LargeTable { first_page: 10, pages: 90, had_rings: true }];
        let settings = PostgresSettings { large_tables, ring_buffers: 1, has_free_list: false, writes: None };
        let mut pool = Postgres::new(NonZeroU32::new(8).unwrap(), 100, &settings);
        get_all(&mut pool, [11], 9);
        pool.drop_page(Access { page: 11, thread: 0, latch: 0, now_us: 0 });
        get_all(&mut pool, [12], 9);
        assert_eq!((pool.buffers[0], pool.counts().evictions, pool.counts().ring_reuses), (12, 0, 1));
    }

    #[test]
    fn vector_p3_a_scan_of_1000_pages_takes_a_ring_of_32_buffers_from_the_others() {
        let mut pool = pool_with_table(256, 32, true);
        get_all(&mut pool, 0..256, 5);
        get_all(&mut pool, 1000..2000, 9);
        // The hand lowers all 256 once, then takes the first 32: 288 steps.
        assert_eq!(pool.hand.buffer, 32);
        assert_eq!(usage_counts(&pool, 0..256), [0; 224]);
        assert_eq!(usage_counts(&pool, 1000..2000), [1; 32]);
        assert!((1968..2000).all(|page| pool.has(page)));
        assert_eq!((pool.counts().misses, pool.counts().evictions, pool.counts().guessed_scan_gets), (1256, 1000, 0));
        assert_eq!(pool.counts().ring_reuses, 968, "all but those that first filled the ring");
    }

    #[test]
    fn a_hit_of_a_scan_raises_a_usage_count_from_0_to_1_and_no_further() {
        let mut pool = pool_with_table(3, 1, true);
        get_all(&mut pool, [1000, 1001, 1002], 5);
        get_all(&mut pool, [1001, 1002, 1002], 5);
        get_all(&mut pool, [1000, 1001, 1002], 9);
        assert_eq!(usage_counts(&pool, 1000..1003), [1, 2, 3]);
        // The hand lowers the usage counts to 0, 1 and 2, and takes the first buffer.
        get_all(&mut pool, [7], 5);
        assert_eq!(usage_counts(&pool, 1001..1003), [1, 2]);
        pool.pages[1001].usage_count = 0;
        get_all(&mut pool, [1001], 10);
        assert_eq!(usage_counts(&pool, [1001]), [0]);
        get_all(&mut pool, [1001, 1001, 1001], 9);
        assert_eq!(usage_counts(&pool, [1001]), [1]);
    }

    #[test]
    fn a_hit_with_the_ring_of_a_vacuum_raises_a_usage_count_no_further_than_1_in_any_table() {
        let mut pool = pool(3);
        get_all(&mut pool, [7, 7, 8, 8], 13);
        assert_eq!(usage_counts(&pool, [7, 8]), [1, 1]);
        get_all(&mut pool, [7], 5);
        assert_eq!(usage_counts(&pool, [7]), [2]);
    }

    #[test]
    fn a_ring_gives_up_a_buffer_that_others_use_and_takes_one_whatever_page_it_has() {
        let mut pool = pool_with_table(4, 2, true);
        get_all(&mut pool, [1000, 1001], 9);
        get_all(&mut pool, [1000], 5);
        // Buffer 0 has a page of usage count 2: the ring has buffers 2 and 1 now.
        get_all(&mut pool, [1002], 9);
        assert_eq!((pool.buffers[2], pool.has(1000)), (1002, true));
        get_all(&mut pool, [1003], 9);
        assert_eq!((pool.buffers[1], pool.has(1001)), (1003, false));
        // The hand takes buffer 2 for an ordinary page, whose usage count is 1: the ring takes it back.
        get_all(&mut pool, [1], 5);
        pool.pages[1002].usage_count = 0;
        pool.hand.buffer = 2;
        get_all(&mut pool, [2], 5);
        assert_eq!(pool.buffers[2], 2);
        get_all(&mut pool, [1004], 9);
        assert_eq!((pool.buffers[2], pool.has(2)), (1004, false));
    }

    #[test]
    fn a_ring_is_new_when_a_session_gets_the_first_page_or_jumps_back() {
        for (next, stays) in [(1000, true), (1010, true), (1500, false), (1400, false)] {
            let mut pool = pool_with_table(64, 2, true);
            get_all(&mut pool, [1499, 1500], 9);
            get_all(&mut pool, [next, 1600], 9);
            // A new ring takes free buffers, an old one those of the pages that it read.
            assert_eq!(pool.has(1499), stays, "{next}");
        }
    }

    #[test]
    fn a_guessed_scan_that_jumps_ahead_keeps_its_ring_and_one_that_goes_back_gets_a_new_one() {
        for (next, stays) in [(1900, false), (1410, false), (1300, true)] {
            let mut pool = pool_with_table(64, 1, true);
            get_all(&mut pool, 1401..=1406, 1);
            // A get elsewhere ends the row. Then three gets are of no scan yet, and the fourth takes the only buffer.
            get_all(&mut pool, [5, next, next + 1, next + 2], 1);
            assert!(pool.has(1406));
            get_all(&mut pool, [next + 3], 1);
            assert_eq!(pool.has(1406), stays, "{next}");
        }
    }

    #[test]
    fn four_gets_in_a_row_are_a_scan_where_the_trace_does_not_tell() {
        let guessed = |pages: &[u32], latch, had_rings| {
            let mut pool = pool_with_table(64, 2, had_rings);
            get_all(&mut pool, pages.iter().copied(), latch);
            pool.counts().guessed_scan_gets
        };
        assert_eq!(guessed(&[1000, 1001, 1002], 1, true), 0);
        assert_eq!(guessed(&[1000, 1001, 1002, 1003, 1004], 1, true), 2);
        assert_eq!(guessed(&[1256, 1000, 1256, 1512, 1512], 1, true), 2);
        assert_eq!(guessed(&[1000, 1001, 1002, 1259], 1, true), 0);
        assert_eq!(guessed(&[1000, 1001, 1001, 1001, 1001, 1001], 1, true), 0);
        // A get elsewhere comes between.
        assert_eq!(guessed(&[1000, 1001, 5, 1002, 1003, 1004], 1, true), 0);
        // The traced pool would have read the table by a ring, and did not.
        assert_eq!(guessed(&[1000, 1001, 1002, 1003, 1004], 5, true), 0);
        assert_eq!(guessed(&[1000, 1001, 1002, 1003, 1004], 5, false), 2);
        assert_eq!(guessed(&[1000, 1001, 1002, 1003, 1004], 9, true), 0);
        assert_eq!(guessed(&[1000, 1001, 1002, 1003, 1004], 13, false), 0);
    }

    #[test]
    fn a_table_beyond_the_pages_is_ignored() {
        let large_tables = vec![
            LargeTable { first_page: 5, pages: u32::MAX, had_rings: true },
            LargeTable { first_page: 50, pages: 1, had_rings: true },
        ];
        let settings = PostgresSettings { large_tables, ..PostgresSettings::default() };
        let mut pool = Postgres::new(NonZeroU32::new(4).unwrap(), 9, &settings);
        get_all(&mut pool, 0..9, 9);
        assert_eq!(pool.counts().misses, 9);
        assert_eq!(pool.pages.iter().filter(|page| page.table == 0).count(), 4);
    }
}
