//! Misses of every pool size from one pass over page accesses.

use crate::stack::{StackDistances, TooManyPages};

/// Counts of stack distances, from accesses that the caller feeds. Memory: 13 bytes a page, and 8 more for the result
/// of `misses`.
pub struct Curve {
    stack: StackDistances,
    /// Counted accesses by distance: `[0]` is distance 1.
    by_distance: Vec<u64>,
    accesses: u64,
}

impl Curve {
    /// Makes a curve without accesses, for pages `0..pages`.
    ///
    /// # Errors
    /// `TooManyPages` above 2^29.
    pub fn new(pages: u64) -> Result<Self, TooManyPages> {
        let stack = StackDistances::new(pages)?;
        Ok(Curve { by_distance: vec![0; stack.pages()], stack, accesses: 0 })
    }

    /// Touches pages in their order. `counted` says for each whether its miss counts: 0 if it does not, 1 if it does, 2
    /// if every pool misses it, because the page had to leave them all. Until then it keeps its place in each, which is
    /// a frame too many where it had been in the pool.
    ///
    /// # Panics
    /// If a page is not below the `pages` of `new`, or `counted` is not as long as `pages`.
    pub fn feed(&mut self, pages: &[u32], counted: &[u8]) {
        assert_eq!(pages.len(), counted.len(), "one mark for each access");
        for (&page, &counts) in pages.iter().zip(counted) {
            if counts == 0 {
                self.stack.access(page);
            } else {
                self.access(page, counts > 1);
            }
        }
    }

    #[inline]
    fn access(&mut self, page: u32, left_all: bool) {
        self.accesses += 1;
        // At its first access every pool misses a page.
        if let Some(distance) = self.stack.access(page)
            && !left_all
        {
            self.by_distance[distance as usize - 1] += 1;
        }
    }

    /// Returns the misses of an LRU pool of 0, 1, 2, ..., all pages: the first is the number of counted accesses.
    #[must_use]
    pub fn misses(&self) -> Vec<u64> {
        let mut left = self.accesses;
        let hits = self.by_distance.iter();
        std::iter::once(left)
            .chain(hits.map(|hits| {
                left -= hits;
                left
            }))
            .collect()
    }
}
