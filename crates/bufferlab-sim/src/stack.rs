//! Exact LRU stack distances in one pass. Each access takes a time slot. A bit marks the slot of each page's last
//! access, and the distance of an access is the number of bits after its page's slot. Compaction frees used slots, so a
//! trace of any length needs only 5 bytes of memory a page.

use thiserror::Error;

use crate::slots::Slots;

/// Slots for each page. More slots make compactions rarer; a compaction costs a few nanoseconds for each page.
const SLOTS_PER_PAGE: usize = 4;
const NEVER: u32 = u32::MAX;

/// The error for more pages than there are numbers for their slots.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0} pages are more than a stack can hold, which is 2^29")]
pub struct TooManyPages(pub u64);

/// The LRU stack of all pages seen.
pub struct StackDistances {
    /// The slot of each page's last access.
    last: Vec<u32>,
    slots: Slots,
    next: usize,
}

impl StackDistances {
    /// Makes an empty stack for pages `0..pages`.
    ///
    /// # Errors
    /// `TooManyPages` for more than 2^29 pages.
    pub fn new(pages: u64) -> Result<Self, TooManyPages> {
        if pages > 1 << 29 {
            return Err(TooManyPages(pages));
        }
        let pages = pages as usize;
        Ok(StackDistances { last: vec![NEVER; pages], slots: Slots::new(pages * SLOTS_PER_PAGE), next: 0 })
    }

    /// Touches a page. Returns the number of pages, itself included, touched since its last access; None at its first.
    ///
    /// # Panics
    /// If `page` is not below the `pages` of `new`.
    #[inline]
    pub fn access(&mut self, page: u32) -> Option<u32> {
        if self.next == self.slots.len() {
            self.compact();
        }
        let slot = self.next;
        self.next += 1;
        let last = std::mem::replace(&mut self.last[page as usize], slot as u32);
        let distance = (last != NEVER).then(|| {
            // The newest slot in use is the slot before that of this access.
            let behind = self.slots.behind(last as usize, slot - 1);
            debug_assert!(
                (behind as usize) < self.last.len(),
                "{behind} pages are above page {page}, of all in the stack"
            );
            self.slots.remove(last as usize);
            behind + 1
        });
        self.slots.insert(slot);
        distance
    }

    /// Returns the number of pages of the stack.
    pub fn pages(&self) -> usize {
        self.last.len()
    }

    #[cold]
    fn compact(&mut self) {
        let ranks = self.slots.compact();
        for last in self.last.iter_mut().filter(|last| **last != NEVER) {
            *last = ranks.of(*last as usize);
        }
        self.next = ranks.len;
        assert!(self.next < self.slots.len(), "each of {} pages has one slot, and others are free", self.last.len());
    }
}
