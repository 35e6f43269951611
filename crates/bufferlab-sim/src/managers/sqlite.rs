//! `sqlite`: the page pool that bufferlab gives to SQLite, crates/bufferlab-drive/src/sqlite/pool.rs.
//!
//! Its rules are those of SQLite's `pcache1.c`: least recently used first (`pcache1FetchStage2`), and the frame of a
//! page that leaves is free at once (`pcache1Unpin` with discard, `pcache1TruncateUnsafe`). A stock cache of size N
//! recycles at N - 1 pages; bufferlab's pool of N frames, and this model, hold N.
//!
//! One thing is approximated. The pool orders pages by their release, and pages in use or dirty are not in its list; a
//! trace has gets alone, so the model orders pages by their gets. At the point of the trace (TPC-C, 2 warehouses, pool
//! of 20 %), it reads 272,042 pages and SQLite read 272,051.

use std::num::NonZeroU32;

use super::list::PageList;
use crate::replay::{Access, Counts, Manager};

/// Bufferlab's pool for SQLite.
pub struct Sqlite {
    frames: u32,
    list: PageList<()>,
    counts: Counts,
}

impl Sqlite {
    /// Makes an empty pool of `frames` for pages `0..pages`.
    #[must_use]
    pub fn new(frames: NonZeroU32, pages: u32) -> Self {
        Sqlite { frames: frames.get(), list: PageList::new(pages), counts: Counts::default() }
    }

    /// Makes a page the newest if the pool has it; returns whether it has.
    #[inline]
    fn find(&mut self, page: u32) -> bool {
        let found = self.list.contains(page);
        if found {
            self.list.make_newest(page);
        }
        found
    }

    /// `pcache1FetchStage2`: a free frame, or that of the oldest page.
    fn admit(&mut self, page: u32) {
        if self.list.len() == self.frames {
            self.list.remove(self.list.oldest());
            self.counts.evictions += 1;
        }
        self.list.push_newest(page);
    }
}

impl Manager for Sqlite {
    #[inline]
    fn get(&mut self, access: Access) {
        if !self.find(access.page) {
            self.counts.misses += 1;
            self.admit(access.page);
        }
    }

    /// Touches the page if the pool has it: SQLite only looks (`xFetch` with createFlag 0).
    #[inline]
    fn get_if_in_pool(&mut self, access: Access) {
        self.find(access.page);
    }

    fn create(&mut self, access: Access) {
        if !self.find(access.page) {
            self.counts.creates += 1;
            self.admit(access.page);
        }
    }

    /// SQLite never prefetches.
    fn prefetch(&mut self, _access: Access) {}

    fn drop_page(&mut self, access: Access) {
        if self.list.contains(access.page) {
            self.list.remove(access.page);
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn frames_used(&self) -> u32 {
        self.list.len()
    }
}
