//! `postgres`: the shared buffers of PostgreSQL 15 to 18, a clock sweep with usage counts.
//!
//! src/backend/storage/buffer, freelist.c and bufmgr.c: a pin raises the buffer's usage count up to 5, the clock's hand
//! lowers it, and a buffer that the hand finds at 0 is the victim.
//!
//! Approximated: a trace has pins and no unpins, so no buffer is pinned when the hand passes. Left out: the rings of
//! large sequential scans, VACUUM and bulk writes, because a trace does not say which pin belongs to one; the
//! background writer and the checkpointer, which write buffers and free none; the kernel's page cache, from which many
//! of these reads come.
//!
//! A session that pins a page twice raises its usage count once. The trace tells which pin was the first (its column
//! `latch`). Counting all pins, reads were 5 to 8 % too many on PostgreSQL 17.2 at 20 and 30 % of the data.
//!
//! docs/prediction.md tells how far it was right.

use std::num::NonZeroU32;

use crate::replay::{Access, Counts, Manager};

/// buf_internals.h, `BM_MAX_USAGE_COUNT`.
const MAX_USAGE_COUNT: u8 = 5;
/// In place of a buffer's or a page's number.
const NONE: u32 = u32::MAX;
/// The column `latch` of a pin by a session that had the page pinned already.
const HELD: u8 = 2;

#[derive(Clone, Copy)]
struct Page {
    /// The page's buffer, or `NONE`.
    buffer: u32,
    usage_count: u8,
}

/// PostgreSQL's shared buffers.
pub struct Postgres {
    pages: Vec<Page>,
    /// The page in each buffer; the entry of a free one has no meaning.
    buffers: Vec<u32>,
    /// Buffers without a page, the next one last (`StrategyControl->firstFreeBuffer`).
    free: Vec<u32>,
    /// The clock's hand (`StrategyControl->nextVictimBuffer`).
    hand: u32,
    counts: Counts,
}

impl Postgres {
    /// Makes empty shared buffers, `frames` of them (`shared_buffers` in pages), for pages `0..pages`.
    #[must_use]
    pub fn new(frames: NonZeroU32, pages: u32) -> Self {
        let frames = frames.get();
        Postgres {
            pages: vec![Page { buffer: NONE, usage_count: 0 }; pages as usize],
            buffers: vec![NONE; frames as usize],
            free: (0..frames).rev().collect(),
            hand: 0,
            counts: Counts::default(),
        }
    }

    #[inline]
    fn has(&self, page: u32) -> bool {
        self.pages[page as usize].buffer != NONE
    }

    /// bufmgr.c, `PinBuffer`.
    #[inline]
    fn pin(&mut self, access: Access) {
        let usage_count = &mut self.pages[access.page as usize].usage_count;
        if access.latch != HELD && *usage_count < MAX_USAGE_COUNT {
            *usage_count += 1;
        }
    }

    /// bufmgr.c, `BufferAlloc`: a page that gets a buffer is pinned, and its usage count is 1.
    fn admit(&mut self, page: u32) {
        let buffer = self.free.pop().unwrap_or_else(|| self.victim());
        self.buffers[buffer as usize] = page;
        self.pages[page as usize] = Page { buffer, usage_count: 1 };
    }

    /// freelist.c, `StrategyGetBuffer`, where the free list is empty.
    fn victim(&mut self) -> u32 {
        loop {
            let buffer = self.hand;
            self.hand = if buffer as usize + 1 == self.buffers.len() { 0 } else { buffer + 1 };
            let page = &mut self.pages[self.buffers[buffer as usize] as usize];
            if page.usage_count == 0 {
                page.buffer = NONE;
                self.counts.evictions += 1;
                return buffer;
            }
            page.usage_count -= 1;
        }
    }
}

impl Manager for Postgres {
    #[inline]
    fn get(&mut self, access: Access) {
        if self.has(access.page) {
            self.pin(access);
        } else {
            self.counts.misses += 1;
            self.admit(access.page);
        }
    }

    /// Pins the page if the pool has it.
    fn get_if_in_pool(&mut self, access: Access) {
        if self.has(access.page) {
            self.pin(access);
        }
    }

    /// bufmgr.c, `ExtendBufferedRelShared`.
    fn create(&mut self, access: Access) {
        if self.has(access.page) {
            self.pin(access);
        } else {
            self.counts.creates += 1;
            self.admit(access.page);
        }
    }

    fn prefetch(&mut self, access: Access) {
        if !self.has(access.page) {
            self.counts.prefetch_reads += 1;
            self.admit(access.page);
        }
    }

    /// bufmgr.c, `InvalidateBuffer`.
    fn drop_page(&mut self, access: Access) {
        let page = &mut self.pages[access.page as usize];
        let buffer = std::mem::replace(&mut page.buffer, NONE);
        if buffer != NONE {
            self.free.push(buffer);
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn frames_used(&self) -> u32 {
        (self.buffers.len() - self.free.len()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(frames: u32) -> Postgres {
        Postgres::new(NonZeroU32::new(frames).unwrap(), 100)
    }

    /// Gets pages, which are letters.
    fn get(pool: &mut Postgres, pages: &str) {
        for letter in pages.bytes() {
            pool.get(Access { page: u32::from(letter), thread: 0, latch: 0, now_us: 0 });
        }
    }

    /// Returns pages by buffer, usage counts by buffer, and the hand.
    fn state(pool: &Postgres) -> (String, Vec<u8>, u32) {
        let pages = pool.buffers.iter().map(|&page| char::from(page as u8)).collect();
        (pages, pool.buffers.iter().map(|&page| pool.pages[page as usize].usage_count).collect(), pool.hand)
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
        assert_eq!(pool.hand, 16 % 3);
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
}
