//! A stack of pages, exact in one pass: each access moves its page to the head, and returns how deep the page was. A
//! page of the stack has the time slot of its last access, with a bit. Its depth is the number of bits from its slot on.
//! Compaction frees used slots, so a trace of any length needs only 5 bytes of memory a page.

use thiserror::Error;

use crate::slots::Slots;

/// Slots for each page. More slots make compactions rarer; a compaction costs a few nanoseconds for each page.
const SLOTS_PER_PAGE: usize = 4;
/// This value in place of a slot means that the page is not in the stack.
const NO_SLOT: u32 = u32::MAX;

/// The error for more pages than there are numbers for their slots.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0} pages are more than a stack can hold, which is 2^29")]
pub struct TooManyPages(pub u64);

/// A stack of pages, the one accessed last at its head. If no page is taken out, it is the LRU stack of all pages seen.
pub struct PageStack {
    /// The slot of each page's last access, or `NO_SLOT`.
    slot: Vec<u32>,
    slots: Slots,
    next: usize,
    len: u32,
}

impl PageStack {
    /// Makes an empty stack for pages `0..pages`.
    ///
    /// # Errors
    /// `TooManyPages` for more than 2^29 pages.
    pub fn new(pages: u64) -> Result<Self, TooManyPages> {
        if pages > 1 << 29 {
            return Err(TooManyPages(pages));
        }
        let pages = pages as usize;
        Ok(PageStack { slot: vec![NO_SLOT; pages], slots: Slots::new(pages * SLOTS_PER_PAGE), next: 0, len: 0 })
    }

    /// Returns the number of pages in the stack.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns whether no page is in the stack.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Moves a page to the head. Returns its depth before, which is the number of pages, itself included, accessed since
    /// its last access; none if it was not in the stack.
    ///
    /// # Panics
    /// If `page` is not below the `pages` of `new`.
    #[inline]
    pub fn access(&mut self, page: u32) -> Option<u32> {
        let depth = self.take(page);
        if self.next == self.slots.len() {
            self.compact();
        }
        self.slots.insert(self.next);
        self.slot[page as usize] = self.next as u32;
        self.next += 1;
        self.len += 1;
        depth
    }

    /// Takes a page out of the stack. Returns its depth, 1 at the head; none if it is not in the stack.
    ///
    /// # Panics
    /// If `page` is not below the `pages` of `new`.
    #[inline]
    pub fn take(&mut self, page: u32) -> Option<u32> {
        let slot = std::mem::replace(&mut self.slot[page as usize], NO_SLOT);
        (slot != NO_SLOT).then(|| {
            let depth = self.slots.behind(slot as usize, self.next - 1) + 1;
            debug_assert!((1..=self.len).contains(&depth), "page {page} is at depth {depth} of {} pages", self.len);
            self.slots.remove(slot as usize);
            self.len -= 1;
            depth
        })
    }

    #[cold]
    fn compact(&mut self) {
        let ranks = self.slots.compact();
        for slot in self.slot.iter_mut().filter(|slot| **slot != NO_SLOT) {
            *slot = ranks.of(*slot as usize);
        }
        self.next = ranks.len;
        debug_assert_eq!(ranks.len, self.len as usize, "each page of the stack has one slot");
        assert!(self.next < self.slots.len(), "each of {} pages has one slot, and others are free", self.slot.len());
    }
}
