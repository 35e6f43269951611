//! `postgres`: the shared buffers of PostgreSQL 15 to 19, a clock sweep with usage counts.
//!
//! It follows freelist.c and bufmgr.c in src/backend/storage/buffer: a pin raises the buffer's usage count, up to 5.
//! The clock's hand lowers it, and a buffer that the hand finds at 0 is the victim.
//!
//! A scan of a large table uses a ring of buffers (scans.rs). Its hits raise a usage count only from 0 to 1. Its misses
//! reuse the ring's buffers, unless another session has used them (freelist.c, `GetBufferFromRing`).
//!
//! Up to version 18, a miss first takes a buffer from a list of free ones. Version 19 has no such list: the hand takes
//! an empty buffer when it reaches the buffer, as it takes one with a usage count of 0. Before that the hand may evict
//! other pages (freelist.c, `StrategyGetBuffer`; bufmgr.c, `InvalidateBuffer`).
//!
//! Approximated: a trace shows pins but no unpins, so the model never treats a buffer as pinned. A table's size is the
//! number of its pages that the run touched.
//!
//! A page is dirty from its change on until a process writes it: the session that takes its buffer (bufmgr.c,
//! `GetVictimBuffer`), the background writer or the checkpointer (`postgres/`). Reads do not depend on writes.
//!
//! Left out: the rings of VACUUM and of bulk writes, so their misses take a victim as any other miss does. A scan also
//! removes dirty buffers from its ring (`StrategyRejectBuffer`); the model does not. The kernel's page cache, which
//! serves many of these reads, is left out, too. If the model has evicted a page before the traced session changes it,
//! the change has no effect; on a server the page would be pinned.
//!
//! If a session pins a page twice, its usage count rises once. The trace marks the first pin (column `latch`). A model
//! that counted all pins predicted 5 to 8 % too many reads (PostgreSQL 17.2, pools of 20 and 30 % of the data).
//!
//! docs/prediction.md has the model's errors.

mod background_writer;
mod buffers;
mod checkpointer;
#[cfg(test)]
mod tests;
mod writers;

use std::num::NonZeroU32;

use bufferlab_model::trace::Access;
use bufferlab_model::trace::latch::{BY_HINT, CHANGED, HELD, HINTED, OTHER_RING, PIN, RING};
use serde::{Deserialize, Serialize};

pub use self::background_writer::BackgroundWriterRules;
use self::background_writer::Position;
use self::buffers::{Buffers, DIRTY, LOGGED, NONE, Page};
pub use self::checkpointer::CheckpointRules;
use self::writers::Writers;
pub use self::writers::{LogRules, WriteRules};
use super::scans::{LargeTable, NO_TABLE, Scans};
use crate::replay::{Counts, Manager, Model, OneIn};

/// The highest usage count of a buffer (buf_internals.h, `BM_MAX_USAGE_COUNT`).
const MAX_USAGE_COUNT: u8 = 5;
/// The highest usage count that a pin with a ring raises a page to.
const RING_USAGE_COUNT: u8 = 1;

/// The settings of PostgreSQL's model: the rings of sequential scans, and how dirty pages are written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostgresSettings {
    /// The tables whose scans have a ring: tables of more pages than a quarter of the buffers. The model uses at most
    /// 255 of them.
    #[serde(skip_serializing)]
    pub large_tables: Vec<LargeTable>,
    /// The number of buffers of a ring.
    #[serde(skip_serializing)]
    pub ring_buffers: u32,
    /// Whether buffers without a page are in a list, from which a miss takes a buffer first. True up to version 18.
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
    /// The position of the clock's hand (`StrategyControl->nextVictimBuffer`).
    hand: Position,
    scans: Scans,
    writers: Option<Writers>,
    /// The time of the writers' next work; `u64::MAX` without writers.
    due_us: u64,
    counts: Counts,
}

impl Model for Postgres {
    const NAME: &'static str = "postgres";
    type Settings = PostgresSettings;

    /// Makes empty shared buffers, `frames` of them (`shared_buffers` in pages), for pages `0..pages`. It ignores pages
    /// of large tables that are not below `pages`, and all large tables after the first 255.
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

    /// Applies the marks of a get: the session changed the page afterwards, or set a hint in it.
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
            self.counts.page_images += writers.log_change(page);
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

    /// Takes a free buffer, or else the buffer of a victim (freelist.c, `StrategyGetBuffer`).
    fn take_buffer(&mut self) -> u32 {
        if let Some(writers) = &mut self.writers {
            writers.recent_alloc += 1;
        }
        self.free.pop().unwrap_or_else(|| self.victim())
    }

    /// Returns whether a scan's ring may use this buffer of the ring again, whichever page the buffer now has
    /// (freelist.c, `GetBufferFromRing`).
    fn is_fair_game(&self, buffer: u32) -> bool {
        let page = self.buffers[buffer as usize];
        // A ring must not take an empty buffer if it is in the list of free buffers.
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

    /// Takes the page out of a buffer. The buffer must have a page.
    fn empty(&mut self, buffer: u32) {
        let page = std::mem::replace(&mut self.buffers[buffer as usize], NONE);
        let page = &mut self.pages[page as usize];
        debug_assert_eq!(page.buffer, buffer, "the page that leaves buffer {buffer} is in another one");
        (page.buffer, page.marks) = (NONE, page.marks & LOGGED);
        self.used -= 1;
    }

    /// Evicts the page that the clock finds, and returns its buffer; the list of free buffers must be empty
    /// (freelist.c, `StrategyGetBuffer`). A buffer without a page has a usage count of 0.
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
            // Mark the page as logged: the first change of a new page logs no full image, because the page was empty
            // (REGBUF_WILL_INIT).
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

    /// Makes a page dirty, for traces that record this as an event and not as a mark of the get.
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
