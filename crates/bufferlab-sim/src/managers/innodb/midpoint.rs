//! InnoDB's LRU list: pages that were used again are at its head, pages that were used only when they were read are in
//! the old sublist.
//!
//! The rules are the same in all versions from MySQL 5.6 and MariaDB 10.2 on: buf0lru.cc and buf0buf.ic (buf0buf.inl).
//! Names in parentheses are InnoDB's.

use crate::managers::list::PageList;
use crate::replay::OneIn;

/// Shortest list with an old sublist (buf0lru.h, `BUF_LRU_OLD_MIN_LEN`).
const OLD_MIN_LEN: u32 = 512;
/// The pages by which the old sublist's length may differ from its target (buf0lru.cc, `BUF_LRU_OLD_TOLERANCE`).
const OLD_TOLERANCE: u32 = 20;
/// Pages at the head that are never old (buf0lru.cc, `BUF_LRU_NON_OLD_MIN_LEN`).
const NON_OLD_MIN_LEN: u32 = 5;
/// The old sublist's share is in 1024ths, at least 51 (buf0lru.h, `BUF_LRU_OLD_RATIO_DIV`, `BUF_LRU_OLD_RATIO_MIN`).
const RATIO_DIV: u32 = 1024;
const RATIO_MIN: u32 = 51;

/// Settings of the LRU list, by the server's names without `innodb_`.
#[derive(Clone, Copy, Debug)]
pub struct MidpointSettings {
    /// Share of the old sublist in percent, 5 to 95.
    pub old_blocks_pct: u32,
    /// Milliseconds from a page's first access until an access makes it young.
    pub old_blocks_time_ms: u32,
    /// The list gets one page in N of the database's pages; this is N. Each constant that counts pages is divided by N.
    pub sampled_one_in: OneIn,
}

#[derive(Clone, Copy, Default)]
struct Page {
    /// The list's clock at the moment at which the page was last put at the head; 0 if it never was
    /// (`freed_page_clock`).
    freed_page_clock: u32,
    /// The first access since the page got its frame, in ms from 1 on; 0 before it (`access_time`).
    first_access_ms: u32,
    old: bool,
    /// Whether the page was changed since it got its frame, or was last written (`oldest_modification`). This list has
    /// the field too, although the flush list has the dirty pages, because searches for a clean page walk this list.
    dirty: bool,
}

impl MidpointSettings {
    /// Refuses a share of the old sublist that the server does not accept.
    pub fn check(old_blocks_pct: u32) -> Result<(), String> {
        (5..=95).contains(&old_blocks_pct).then_some(()).ok_or_else(|| "old_blocks_pct is 5 to 95".to_owned())
    }
}

/// InnoDB's LRU list with its midpoint (`buf_pool->LRU`).
pub struct Midpoint {
    list: PageList<Page>,
    /// The old sublist's share of the list, in 1024ths (`LRU_old_ratio`).
    ratio: u32,
    old_blocks_time_ms: u32,
    /// The number of evictions after which an access moves a young page to the head again (buf0buf.ic,
    /// `buf_page_peek_if_young`).
    young_for: u32,
    /// This field and the next two have the values of the constants of the same names, divided for a sample. They leave
    /// at least one young page and one old one.
    old_min_len: u32,
    old_tolerance: u32,
    non_old_min_len: u32,
    /// The newest old page, while `old_len` is not 0 (`LRU_old`).
    first_old: u32,
    pub old_len: u32,
    /// The number of pages that have lost their frame (`freed_page_clock`).
    freed_page_clock: u32,
    pub made_young: u64,
    pub not_made_young: u64,
}

impl Midpoint {
    pub fn new(frames: u32, pages: u32, settings: MidpointSettings) -> Self {
        let in_percent = settings.old_blocks_pct;
        assert!(in_percent <= 100, "{in_percent} % of the pages cannot be old");
        // buf0lru.cc, buf_LRU_old_ratio_update_instance.
        let ratio = (settings.old_blocks_pct * RATIO_DIV / 100).clamp(RATIO_MIN, RATIO_DIV);
        let quarter = u64::from(frames) * u64::from(RATIO_DIV - ratio) / u64::from(RATIO_DIV * 4);
        let one_in = settings.sampled_one_in;
        Midpoint {
            list: PageList::new(pages),
            ratio,
            old_blocks_time_ms: settings.old_blocks_time_ms,
            young_for: quarter as u32,
            old_min_len: one_in.of(OLD_MIN_LEN).max(2),
            old_tolerance: one_in.of(OLD_TOLERANCE),
            non_old_min_len: one_in.of(NON_OLD_MIN_LEN).max(1),
            first_old: 0,
            old_len: 0,
            freed_page_clock: 0,
            made_young: 0,
            not_made_young: 0,
        }
    }

    #[inline]
    pub fn contains(&self, page: u32) -> bool {
        self.list.contains(page)
    }

    pub fn len(&self) -> u32 {
        self.list.len()
    }

    /// Returns the page that is evicted next. The list must not be empty.
    pub fn tail(&self) -> u32 {
        self.list.oldest()
    }

    /// Returns the page before this one, towards the head.
    pub fn newer(&self, page: u32) -> u32 {
        self.list.newer(page)
    }

    pub fn is_dirty(&self, page: u32) -> bool {
        self.list[page].dirty
    }

    /// Returns whether the page is in the list, old and dirty.
    pub fn is_old_and_dirty(&self, page: u32) -> bool {
        self.contains(page) && self.list[page].old && self.list[page].dirty
    }

    #[inline]
    pub fn set_dirty(&mut self, page: u32, dirty: bool) {
        self.list[page].dirty = dirty;
    }

    /// Puts a page that got a frame into the list. `old` is true for a page that was read, false for a new one.
    pub fn admit(&mut self, page: u32, old: bool) {
        self.list[page] = Page::default();
        self.add(page, old);
    }

    /// Takes a page that loses its frame out of the list (`buf_LRU_block_remove_hashed`).
    pub fn free(&mut self, page: u32) {
        self.remove(page);
        self.freed_page_clock += 1;
    }

    /// Notes an access to a page of the list, and moves the page to the head if the rules for young and old pages say
    /// so (buf0buf.cc, `buf_page_get_gen`; buf0buf.ic, `buf_page_peek_if_too_old`).
    #[inline]
    pub fn access(&mut self, page: u32, now_us: u64) {
        debug_assert!(self.contains(page), "page {page} has no frame: nothing accesses it");
        let state = &mut self.list[page];
        if state.first_access_ms == 0 {
            state.first_access_ms = milliseconds(now_us);
        }
        if self.freed_page_clock == 0 {
            // The pool has not evicted any page yet, so no page moves.
            return;
        }
        debug_assert!(milliseconds(now_us) >= state.first_access_ms, "page {page} is accessed before its first access");
        if state.old && self.old_blocks_time_ms > 0 {
            if milliseconds(now_us) - state.first_access_ms < self.old_blocks_time_ms {
                self.not_made_young += 1;
                return;
            }
        } else if self.freed_page_clock - state.freed_page_clock < self.young_for {
            return;
        }
        self.make_young(page);
    }

    /// Moves a page to the head (`buf_LRU_make_block_young`).
    fn make_young(&mut self, page: u32) {
        self.made_young += u64::from(self.list[page].old);
        self.remove(page);
        self.add(page, false);
    }

    /// Puts a page at the head or, if it is old, after the first old page (`buf_LRU_add_block_low`).
    fn add(&mut self, page: u32, old: bool) {
        let old = old && self.list.len() >= self.old_min_len;
        debug_assert!(!old || self.old_len > 0, "a list of {} pages has an old sublist", self.list.len());
        if old {
            // The page goes after the first old page, not before it.
            self.list.insert_behind(self.first_old, page);
            self.old_len += 1;
        } else {
            self.list.push_newest(page);
            self.list[page].freed_page_clock = self.freed_page_clock;
        }
        self.list[page].old = old;
        if self.list.len() == self.old_min_len {
            self.start_old_sublist();
        } else if self.list.len() > self.old_min_len {
            self.adjust_old_len();
        }
    }

    /// Takes a page out of the list (`buf_LRU_remove_block`).
    fn remove(&mut self, page: u32) {
        if self.old_len > 0 && page == self.first_old {
            self.grow_old_sublist();
        }
        self.list.remove(page);
        if self.list.len() >= self.old_min_len {
            self.old_len -= u32::from(self.list[page].old);
            self.adjust_old_len();
        } else if self.old_len > 0 {
            self.end_old_sublist();
        }
    }

    /// Brings the old sublist's length near its target (`buf_LRU_old_adjust_len`).
    #[inline]
    fn adjust_old_len(&mut self) {
        let (target, tolerance) = (self.target(), self.old_tolerance);
        while self.old_len + tolerance < target {
            self.grow_old_sublist();
        }
        while self.old_len > target + tolerance {
            debug_assert!(self.list[self.first_old].old, "page {} is the newest old one, and young", self.first_old);
            self.list[self.first_old].old = false;
            self.first_old = self.list.older(self.first_old);
            self.old_len -= 1;
        }
    }

    /// Returns the length that the old sublist should have.
    #[inline]
    fn target(&self) -> u32 {
        let (len, tolerance) = (self.list.len(), self.old_tolerance);
        let share = u64::from(len) * u64::from(self.ratio) / u64::from(RATIO_DIV);
        (share as u32).min(len - tolerance - self.non_old_min_len).max(tolerance + 1)
    }

    /// Makes the last young page the first old one.
    fn grow_old_sublist(&mut self) {
        self.first_old = self.list.newer(self.first_old);
        debug_assert_ne!(self.first_old, self.list.ends(), "all {} pages are old: no young one is left", self.old_len);
        debug_assert!(!self.list[self.first_old].old, "page {} is before the old pages, and old", self.first_old);
        self.list[self.first_old].old = true;
        self.old_len += 1;
    }

    /// Starts the old sublist (`buf_LRU_old_init`). InnoDB makes all pages old, then shortens the sublist. Here no page
    /// is old at first, and the sublist grows to the same length, which costs less. That matters because a pool of 512
    /// frames starts and ends the sublist with every page that it reads.
    fn start_old_sublist(&mut self) {
        self.first_old = self.list.ends();
        let len = self.list.len().min(self.target() + self.old_tolerance);
        while self.old_len < len {
            self.grow_old_sublist();
        }
    }

    fn end_old_sublist(&mut self) {
        let mut page = self.first_old;
        while page != self.list.ends() {
            self.list[page].old = false;
            page = self.list.older(page);
        }
        self.old_len = 0;
    }
}

/// Returns time as InnoDB's `ut_time_ms`, which is never 0.
fn milliseconds(now_us: u64) -> u32 {
    (now_us / 1000) as u32 + 1
}

#[cfg(test)]
mod tests;
