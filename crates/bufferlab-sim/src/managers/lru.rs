//! `lru`: the least recently used page is evicted. No database does exactly this; the model serves for comparison with
//! the other models.
//!
//! Its misses are exactly those of [`Curve`](crate::Curve) at the same size, because both have the same rules. A
//! dropped page keeps its frame until the page comes back or the pool needs the frame. A get-if-in-pool of a page that
//! is not in the pool brings it in without a read. Prefetches do nothing.

use std::num::NonZeroU32;

use bufferlab_model::trace::Access;

use super::list::PageList;
use crate::replay::{Counts, Manager, Model, NoSettings};

/// A pool that replaces the least recently used page.
pub struct Lru {
    frames: u32,
    /// For each page, whether a drop has made the content of its frame invalid.
    pub(super) list: PageList<bool>,
    counts: Counts,
}

impl Model for Lru {
    const NAME: &'static str = "lru";
    type Settings = NoSettings;

    fn new(frames: NonZeroU32, pages: u32, _settings: &NoSettings) -> Self {
        Lru { frames: frames.get(), list: PageList::new(pages), counts: Counts::default() }
    }
}

impl Lru {
    /// Makes a page the newest; returns whether the pool had its content.
    #[inline]
    fn touch(&mut self, page: u32) -> bool {
        let was_empty = std::mem::replace(&mut self.list[page], false);
        if self.list.contains(page) {
            self.list.make_newest(page);
            return !was_empty;
        }
        debug_assert!(self.list.len() <= self.frames, "{} pages are in {} frames", self.list.len(), self.frames);
        if self.list.len() == self.frames {
            self.list.remove(self.list.oldest());
            self.counts.evictions += 1;
        }
        self.list.push_newest(page);
        debug_assert_eq!(self.list.newest(), page, "page {page} was used last, and is not the newest");
        false
    }
}

impl Manager for Lru {
    #[inline]
    fn get(&mut self, access: Access) {
        self.counts.misses += u64::from(!self.touch(access.page));
    }

    #[inline]
    fn get_if_in_pool(&mut self, access: Access) {
        self.touch(access.page);
    }

    fn create(&mut self, access: Access) {
        self.counts.creates += u64::from(!self.touch(access.page));
    }

    fn prefetch(&mut self, _access: Access) {}

    fn drop_page(&mut self, access: Access) {
        self.list[access.page] = true;
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn frames_used(&self) -> u32 {
        self.list.len()
    }
}
