//! The expected cost of reads, computed only from their offsets: the pages that a read covers, and the pages that reads
//! miss in the page cache.
//!
//! Without read-ahead the kernel reads each missing page of a buffered read by a separate request (mm/readahead.c:
//! page_cache_sync_ra asks for one page if ra_pages is zero). So a run makes as many requests as it touches pages for
//! the first time.

use super::offsets::Offsets;

/// Bytes of a page of the page cache.
pub const PAGE_BYTES: u64 = 4096;

/// Returns the number of pages that a read covers completely or in part.
#[inline]
pub fn pages_of(offset: u64, bytes: u64) -> u64 {
    (offset + bytes - 1) / PAGE_BYTES - offset / PAGE_BYTES + 1
}

/// A set of pages of a range, with one bit for each page.
#[derive(Clone, Debug)]
pub struct PageSet {
    words: Vec<u64>,
}

impl PageSet {
    /// Makes an empty set for a range of `range_bytes` bytes.
    pub fn empty(range_bytes: u64) -> Self {
        let pages = range_bytes.div_ceil(PAGE_BYTES);
        PageSet { words: vec![0; pages.div_ceil(64) as usize] }
    }

    /// Adds the pages of a read. Returns the number of pages that were not in the set before.
    #[inline]
    pub fn add(&mut self, offset: u64, bytes: u64) -> u64 {
        let (first, last) = (offset / PAGE_BYTES, (offset + bytes - 1) / PAGE_BYTES);
        let mut added = 0;
        for page in first..=last {
            let (word, bit) = (&mut self.words[(page / 64) as usize], 1_u64 << (page % 64));
            added += u64::from(*word & bit == 0);
            *word |= bit;
        }
        added
    }
}

/// Returns the number of pages that reads miss in a cache that is empty at first and keeps every page. `done` has each
/// reader's offsets, as they were before its first read, and its number of reads. The order in which the readers take
/// turns does not matter.
pub fn first_touched(done: &[(Offsets, u64)], io_size_bytes: u64, range_bytes: u64) -> u64 {
    let mut cached = PageSet::empty(range_bytes);
    let mut missing = 0;
    for (offsets, reads) in done {
        let mut offsets = offsets.clone();
        missing += (0..*reads).map(|_| cached.add(offsets.draw(), io_size_bytes)).sum::<u64>();
    }
    missing
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::job::{Order, Reads};
    use super::*;

    /// Returns the pages of a read, computed naively from each of its bytes.
    fn naive(offset: u64, bytes: u64) -> BTreeSet<u64> {
        (offset..offset + bytes).map(|byte| byte / PAGE_BYTES).collect()
    }

    proptest! {
        #[test]
        fn pages_of_a_range_are_those_of_its_bytes(sector in 0_u64..64, sectors in 1_u64..40) {
            let (offset, bytes) = (sector * 512, sectors * 512);
            prop_assert_eq!(pages_of(offset, bytes), naive(offset, bytes).len() as u64);
        }

        #[test]
        fn a_replay_counts_what_a_set_of_pages_counts(
            seed in 0_u64..1000,
            alignment in prop_oneof![Just(512_u64), Just(4096)],
            sectors in 1_u64..40,
            readers in 1_usize..4,
        ) {
            let reads = Reads {
                io_size_bytes: sectors * 512, alignment_bytes: alignment, order: Order::Random, queue_depth: 1,
                threads: readers, seed,
            };
            let range = 300_000;
            let done: Vec<_> = (0..readers)
                .map(|index| (Offsets::new(&reads, range, 1, index, readers), 20 + index as u64))
                .collect();
            let mut cached = BTreeSet::new();
            for (offsets, count) in &done {
                let mut offsets = offsets.clone();
                (0..*count).for_each(|_| cached.extend(naive(offsets.draw(), reads.io_size_bytes)));
            }
            prop_assert_eq!(first_touched(&done, reads.io_size_bytes, range), cached.len() as u64);
        }
    }

    #[test]
    fn unaligned_eight_kib_cover_two_pages_once_in_eight() {
        let covered: u64 = (0..8).map(|sector| pages_of(sector * 512, 8192)).sum();
        assert_eq!(covered, 2 + 7 * 3);
    }
}
