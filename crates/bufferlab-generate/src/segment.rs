//! Decides which page of a file segment a new leaf gets (MySQL 5.7: fsp0fsp.cc, `fseg_alloc_free_page_low`).
//!
//! Pages are counted from the segment's first. Not simulated: InnoDB gives an extent whose pages are all free back to
//! the file.

use std::collections::BTreeSet;

/// The pages of a segment: some single pages, then whole extents.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The number of pages in an extent.
    extent: u32,
    /// The first page of the first extent.
    single: u32,
    /// Pages that the segment has, used or not.
    reserved: u32,
    used: u32,
    free: BTreeSet<u32>,
}

impl Segment {
    /// Makes a segment of `reserved` pages, of which the first `used` are used; an extent has `extent` pages.
    pub(crate) fn new(used: u32, reserved: u32, extent: u32) -> Self {
        assert!(extent > 0 && used <= reserved, "{used} pages of {reserved} are used, in extents of {extent}");
        Segment { extent, single: used.min(extent / 2), reserved, used, free: (used..reserved).collect() }
    }

    /// Takes a page and returns it. If the page after `near` is free, takes that one. Otherwise, if few pages are free,
    /// reserves a new extent and takes its first page. Otherwise takes another page of the extent of `near`, or the
    /// first free one.
    pub(crate) fn take(&mut self, near: u32) -> u32 {
        let hint = near + 1;
        let is_in_extent = (self.single..self.reserved).contains(&hint);
        // An extent's half is InnoDB's FSEG_FRAG_LIMIT, an eighth of the pages its FSEG_FILLFACTOR.
        let has_extents = self.used >= self.extent / 2;
        // Exclude freed single pages: they belong to the file again, not to the segment.
        let own = self.reserved - self.free.range(..self.single).count() as u32;
        let is_tight = has_extents && own - self.used < own / 8;
        let page = if is_in_extent && self.free.contains(&hint) {
            hint
        } else if is_tight {
            self.extend()
        } else {
            let of_extent = is_in_extent.then(|| self.later_in_extent(hint)).flatten();
            let first = || self.free.range(if has_extents { self.single } else { 0 }..).next().copied();
            of_extent.or_else(first).unwrap_or_else(|| self.extend())
        };
        self.free.remove(&page);
        self.used += 1;
        self.check();
        page
    }

    /// Returns the first free page of a page's extent, searched from that page on and then from the extent's start.
    fn later_in_extent(&self, page: u32) -> Option<u32> {
        let begin = (page - self.single) / self.extent * self.extent + self.single;
        self.free.range(page..begin + self.extent).chain(self.free.range(begin..page)).next().copied()
    }

    /// Frees a page of the segment; a later leaf may get it.
    pub(crate) fn give(&mut self, page: u32) {
        debug_assert!(page < self.reserved, "page {page} is not one of the segment's {}", self.reserved);
        self.used -= 1;
        self.free.insert(page);
        self.check();
    }

    /// Checks that each page of the segment is either used or free.
    #[inline]
    fn check(&self) {
        let (used, free, all) = (self.used, self.free.len(), self.reserved);
        debug_assert_eq!(used as usize + free, all as usize, "{used} pages are used and {free} free, of {all}");
    }

    /// Reserves an extent, or a single page as long as the segment is small; returns its first page.
    fn extend(&mut self) -> u32 {
        let first = self.reserved;
        if self.used < self.extent / 2 {
            self.single += u32::from(self.single == first);
            self.reserved += 1;
        } else {
            self.reserved += self.extent;
            self.free.extend(first..self.reserved);
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a segment of 61 leaves of 16 KiB: 32 single pages, and 29 pages of an extent of 64.
    fn segment() -> Segment {
        Segment::new(61, 96, 64)
    }

    #[test]
    fn the_next_page_is_taken_then_a_later_one_of_the_extent_then_its_first() {
        let mut segment = segment();
        assert_eq!([segment.take(60), segment.take(60), segment.take(61)], [61, 62, 63]);
        segment.give(40);
        assert_eq!(segment.take(95), 40, "no later page is the extent's");
        segment.give(33);
        assert_eq!(segment.take(3), 33, "a single page has no extent");
    }

    #[test]
    fn an_extent_comes_before_the_last_eighth_is_used() {
        let mut segment = segment();
        let taken: Vec<u32> = (0..26).map(|_| segment.take(0)).collect();
        assert_eq!(taken[23..], [84, 96, 85]);
    }

    proptest! {
        #[test]
        fn no_page_is_taken_twice_and_each_is_used_or_free(
            leaves in 1u32..150,
            steps in prop::collection::vec((any::<bool>(), any::<usize>()), 0..300),
        ) {
            let reserved = if leaves <= 32 { leaves } else { 32 + (leaves - 32).div_ceil(64) * 64 };
            let (mut segment, mut taken) = (Segment::new(leaves, reserved, 64), Vec::from_iter(0..leaves));
            for (gives, number) in steps {
                let place = number % taken.len();
                if gives && taken.len() > 1 {
                    segment.give(taken.swap_remove(place));
                } else {
                    let page = segment.take(taken[place]);
                    prop_assert!(!taken.contains(&page), "page {page} is taken already");
                    taken.push(page);
                }
                let mut all: Vec<u32> = taken.iter().chain(&segment.free).copied().collect();
                all.sort_unstable();
                prop_assert!(all.into_iter().eq(0..segment.reserved));
            }
        }
    }

    #[test]
    fn a_small_segment_has_single_pages() {
        let mut segment = Segment::new(3, 3, 64);
        assert_eq!([segment.take(0), segment.take(0)], [3, 4]);
        segment.give(1);
        assert_eq!([segment.take(4), segment.take(4)], [1, 5]);
        let taken: Vec<u32> = (6..33).map(|_| segment.take(0)).collect();
        assert_eq!(taken[..26], (6..32).collect::<Vec<_>>());
        assert_eq!((taken[26], segment.reserved), (32, 96));
    }
}
