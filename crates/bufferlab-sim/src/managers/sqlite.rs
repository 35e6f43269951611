//! `sqlite`: the page pool that bufferlab gives to SQLite, crates/bufferlab-drive/src/sqlite/pool.rs.
//!
//! Its rules are those of SQLite's `pcache1.c`: least recently used first (`pcache1FetchStage2`), and the frame of a
//! page that leaves is free at once (`pcache1Unpin` with discard, `pcache1TruncateUnsafe`). SQLite's own cache of size
//! N recycles at N - 1 pages; bufferlab's pool of N frames, and this model, hold N. The model is [`Lru`] except for two
//! rules: a get-if-in-pool of a page outside the pool changes nothing, and a drop frees the frame.
//!
//! One thing is approximated. The pool orders pages by their release, and its list has no pages in use and no dirty
//! pages. A trace has only gets, so the model orders pages by their gets. At the pool size of the trace (TPC-C, 2
//! warehouses, pool of 20 %), it reads 272,042 pages and SQLite read 272,051.

use std::num::NonZeroU32;

use bufferlab_model::trace::Access;

use super::lru::Lru;
use crate::replay::{Counts, Manager, Model, NoSettings};

/// Bufferlab's pool for SQLite.
pub struct Sqlite(Lru);

impl Model for Sqlite {
    const NAME: &'static str = "sqlite";
    type Settings = NoSettings;

    fn new(frames: NonZeroU32, pages: u32, settings: &NoSettings) -> Self {
        Sqlite(Lru::new(frames, pages, settings))
    }
}

impl Manager for Sqlite {
    /// Takes a free frame, or else the frame of the oldest page (`pcache1FetchStage2`).
    #[inline]
    fn get(&mut self, access: Access) {
        self.0.get(access);
    }

    /// Touches the page if it is in the pool, and does nothing otherwise (SQLite's `xFetch` with createFlag 0).
    #[inline]
    fn get_if_in_pool(&mut self, access: Access) {
        if self.0.list.contains(access.page) {
            self.0.get_if_in_pool(access);
        }
    }

    fn create(&mut self, access: Access) {
        self.0.create(access);
    }

    /// SQLite never prefetches.
    fn prefetch(&mut self, _access: Access) {}

    fn drop_page(&mut self, access: Access) {
        if self.0.list.contains(access.page) {
            debug_assert!(!self.0.list[access.page], "page {} is in the pool without its content", access.page);
            self.0.list.remove(access.page);
        }
    }

    fn counts(&self) -> Counts {
        self.0.counts()
    }

    fn frames_used(&self) -> u32 {
        self.0.frames_used()
    }
}
