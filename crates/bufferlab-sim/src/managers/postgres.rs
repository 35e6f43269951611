//! `postgres`: the shared buffers of PostgreSQL 15 to 18, a clock sweep with usage counts.
//!
//! src/backend/storage/buffer, freelist.c and bufmgr.c: a pin raises the buffer's usage count up to 5, the clock's hand
//! lowers it, and a buffer that the hand finds at 0 is the victim.
//!
//! Approximated: a trace has pins and no unpins, so no buffer is pinned when the hand passes, and whether a process
//! still holds its pin is guessed ([`PostgresSettings::pin_held_for`]). Left out: the rings of large sequential scans,
//! VACUUM and bulk writes, because a trace does not say which pin belongs to one; the background writer and the
//! checkpointer, which write buffers and free none; the kernel's page cache, from which many of these reads come.
//!
//! Checked at the point where the trace was taken (TPC-C, 1 warehouse, 8 connections, pool of 30 %, one run of each
//! server). Reads are 0.4, 0.4 and 0.1 % above those of PostgreSQL 15, 16 and 18; those of `lru` are 3.0, 3.1 and 3.5 %
//! below.

use std::num::NonZeroU32;

use crate::replay::{Access, Counts, Manager};

/// buf_internals.h, `BM_MAX_USAGE_COUNT`.
const MAX_USAGE_COUNT: u8 = 5;
/// In place of a buffer's or a page's number.
const NONE: u32 = u32::MAX;

/// How to read pins from a trace that has no unpins.
#[derive(Clone, Copy, Debug)]
pub struct PostgresSettings {
    /// Pins after which a process has surely let go of a page. A pin does not raise the usage count if the same process
    /// was the last to pin the page, and has pinned fewer than so many pages since. `u32::MAX`, the default, takes
    /// every pin by the page's last process for one that is still held; 0 counts every pin, which reads 8 % too much at
    /// the points above. A trace of a single process needs a small number: with the default no usage count would rise
    /// above 1.
    pub pin_held_for: u32,
}

impl Default for PostgresSettings {
    fn default() -> Self {
        PostgresSettings { pin_held_for: u32::MAX }
    }
}

#[derive(Clone, Copy)]
struct Page {
    /// The page's buffer, or `NONE`.
    buffer: u32,
    /// The last process's count of pins when it pinned the page.
    pinned_at: u32,
    /// The process that pinned the page last.
    process: u16,
    usage_count: u8,
}

/// PostgreSQL's shared buffers.
pub struct Postgres {
    settings: PostgresSettings,
    pages: Vec<Page>,
    /// The page in each buffer; anything in a free one.
    buffers: Vec<u32>,
    /// Buffers without a page, the next one last (`StrategyControl->firstFreeBuffer`).
    free: Vec<u32>,
    /// The clock's hand (`StrategyControl->nextVictimBuffer`).
    hand: u32,
    /// Pins of each process.
    pins: Vec<u32>,
    counts: Counts,
}

impl Postgres {
    /// Empty shared buffers, `frames` of them (`shared_buffers` in pages), for pages `0..pages`.
    #[must_use]
    pub fn new(frames: NonZeroU32, pages: u32, settings: &PostgresSettings) -> Self {
        let frames = frames.get();
        Postgres {
            settings: *settings,
            pages: vec![Page { buffer: NONE, pinned_at: 0, process: 0, usage_count: 0 }; pages as usize],
            buffers: vec![NONE; frames as usize],
            free: (0..frames).rev().collect(),
            hand: 0,
            pins: vec![0; 1 << 16],
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
        let pins = &mut self.pins[usize::from(access.thread)];
        *pins = pins.wrapping_add(1);
        let page = &mut self.pages[access.page as usize];
        let held = page.process == access.thread && pins.wrapping_sub(page.pinned_at) <= self.settings.pin_held_for;
        if !held && page.usage_count < MAX_USAGE_COUNT {
            page.usage_count += 1;
        }
        (page.process, page.pinned_at) = (access.thread, *pins);
    }

    /// bufmgr.c, `BufferAlloc`: a page that gets a buffer is pinned, and its usage count is 1.
    fn admit(&mut self, access: Access) {
        let buffer = self.free.pop().unwrap_or_else(|| self.victim());
        let pins = &mut self.pins[usize::from(access.thread)];
        *pins = pins.wrapping_add(1);
        self.buffers[buffer as usize] = access.page;
        self.pages[access.page as usize] = Page { buffer, pinned_at: *pins, process: access.thread, usage_count: 1 };
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
            self.admit(access);
        }
    }

    /// A page that the pool does not have stays where it is.
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
            self.admit(access);
        }
    }

    /// The page gets the pin of the process that asks, so that its get, if it is the next, does not count twice.
    fn prefetch(&mut self, access: Access) {
        if !self.has(access.page) {
            self.counts.prefetch_reads += 1;
            self.admit(access);
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
        Postgres::new(NonZeroU32::new(frames).unwrap(), 100, &PostgresSettings { pin_held_for: 0 })
    }

    /// Pages are letters.
    fn get(pool: &mut Postgres, pages: &str) {
        for letter in pages.bytes() {
            pool.get(Access { page: u32::from(letter), thread: 0, now_us: 0 });
        }
    }

    /// Pages by buffer, usage counts by buffer, and the hand.
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
    fn a_pin_that_its_process_may_still_hold_does_not_count() {
        let usage = |pin_held_for, accesses: &[(u32, u16)]| {
            let mut pool = Postgres::new(NonZeroU32::new(9).unwrap(), 100, &PostgresSettings { pin_held_for });
            accesses.iter().for_each(|&(page, thread)| pool.get(Access { page, thread, now_us: 0 }));
            pool.pages[7].usage_count
        };
        let by_one = [(7, 1), (8, 1), (7, 1)];
        assert_eq!([0, 1, 2, u32::MAX].map(|held| usage(held, &by_one)), [2, 2, 1, 1]);
        let by_two = [(7, 1), (7, 2), (7, 1)];
        assert_eq!(usage(u32::MAX, &by_two), 3);
    }

    #[test]
    fn the_buffer_of_a_dropped_page_is_the_next_to_be_used() {
        let mut pool = pool(3);
        get(&mut pool, "AB");
        pool.drop_page(Access { page: u32::from(b'A'), thread: 0, now_us: 0 });
        assert_eq!(pool.frames_used(), 1);
        get(&mut pool, "C");
        assert_eq!(pool.buffers[..2], [u32::from(b'C'), u32::from(b'B')]);
    }
}
