//! Misses of every pool size from one pass over page accesses.

use std::ops::Range;

use bufferlab_model::trace::Kind;

use crate::stack::{PageStack, TooManyPages};

/// Counts of stack distances, from accesses that the caller feeds. Memory: 14 bytes a page, and 8 more for the result
/// of `misses`.
pub struct Curve {
    stack: PageStack,
    /// For each page, whether it was dropped since its last access. Every pool misses the next access to such a page;
    /// until then the page keeps its frame in each pool that held it.
    dropped: Vec<bool>,
    /// The pages whose misses count.
    counted: Range<u32>,
    /// The number of counted accesses by their stack distance: `[0]` has those of distance 1.
    by_distance: Vec<u64>,
    accesses: u64,
}

impl Curve {
    /// Makes a curve without accesses, for pages `0..pages`. Only gets of the pages `counted` count.
    ///
    /// # Errors
    /// `TooManyPages` for more than 2^29 pages.
    pub fn new(pages: u32, counted: Range<u32>) -> Result<Self, TooManyPages> {
        let stack = PageStack::new(u64::from(pages))?;
        let (dropped, by_distance) = (vec![false; pages as usize], vec![0; pages as usize]);
        Ok(Curve { stack, dropped, counted, by_distance, accesses: 0 })
    }

    /// Takes accesses in their order, from the columns of a page trace. Every get, get-if-in-pool and creation uses its
    /// page. Only misses of gets count, from the access number `first` on.
    ///
    /// # Panics
    /// If a page is not below the `pages` of `new`, or the columns differ in length.
    pub fn feed(&mut self, page: &[u32], kind: &[u8], first: usize) {
        assert_eq!(page.len(), kind.len(), "one kind for each access");
        for (row, (&page, &kind)) in page.iter().zip(kind).enumerate() {
            match Kind::of(kind) {
                Some(Kind::Get) => self.touch(page, row >= first && self.counted.contains(&page)),
                Some(Kind::GetIfInPool | Kind::Create) => self.touch(page, false),
                Some(Kind::Drop) => self.dropped[page as usize] = true,
                Some(Kind::Read | Kind::Prefetch | Kind::Evict | Kind::Dirty | Kind::Write) | None => {}
            }
        }
    }

    #[inline]
    fn touch(&mut self, page: u32, counts: bool) {
        let left_all = std::mem::replace(&mut self.dropped[page as usize], false);
        // Every pool misses a page at the page's first access.
        let distance = self.stack.access(page).filter(|_| !left_all);
        if counts {
            self.accesses += 1;
            if let Some(distance) = distance {
                debug_assert!(self.by_distance.len() >= distance as usize, "page {page} is {distance} pages deep");
                self.by_distance[distance as usize - 1] += 1;
            }
        }
    }

    /// Returns the misses of LRU pools of 0, 1, 2, ... frames, up to all pages. The first number is that of all counted
    /// accesses.
    pub fn misses(&self) -> Vec<u64> {
        let mut left = self.accesses;
        let hits = self.by_distance.iter();
        std::iter::once(left)
            .chain(hits.map(|hits| {
                debug_assert!(left >= *hits, "{hits} accesses of a distance are hits, of {left} left");
                left -= hits;
                left
            }))
            .collect()
    }
}
