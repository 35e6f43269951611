//! Misses of every pool size from one pass over page accesses, and misses of chosen sizes for each group of pages.

use crate::stack::{StackDistances, TooManyPages};

/// Counts distances while accesses are fed to it. Memory: 13 bytes a page, 15 with groups.
pub struct Curve {
    stack: StackDistances,
    /// Counted accesses by distance: `[0]` is distance 1.
    by_distance: Vec<u64>,
    first: u64,
    accesses: u64,
    groups: Option<MissesByGroup>,
}

/// Misses of a few sizes for each group (a table, an index).
pub struct MissesByGroup {
    /// The group of each page.
    of_page: Vec<u16>,
    /// Pool sizes in pages, ascending.
    sizes: Vec<u32>,
    accesses: Vec<u64>,
    /// Accesses by group and by the number of sizes they miss in.
    by_sizes_missed: Vec<u64>,
}

impl MissesByGroup {
    /// No access yet. `of_page` has the group of each page, `sizes` are pool sizes in pages.
    #[must_use]
    pub fn new(of_page: Vec<u16>, mut sizes: Vec<u32>) -> Self {
        sizes.sort_unstable();
        let groups = of_page.iter().max().map_or(0, |&group| usize::from(group) + 1);
        let by_sizes_missed = vec![0; groups * (sizes.len() + 1)];
        MissesByGroup { of_page, sizes, accesses: vec![0; groups], by_sizes_missed }
    }

    fn count(&mut self, page: u32, distance: Option<u32>) {
        let group = usize::from(self.of_page[page as usize]);
        let missed = distance.map_or(self.sizes.len(), |distance| self.sizes.partition_point(|&size| size < distance));
        self.accesses[group] += 1;
        self.by_sizes_missed[group * (self.sizes.len() + 1) + missed] += 1;
    }

    /// Accesses of each group.
    #[must_use]
    pub fn accesses(&self) -> &[u64] {
        &self.accesses
    }

    /// Misses of each group (outer) at each size (inner, ascending).
    #[must_use]
    pub fn misses(&self) -> Vec<Vec<u64>> {
        self.by_sizes_missed.chunks(self.sizes.len() + 1).map(missed_at_each_size).collect()
    }
}

/// `by_sizes_missed[k]`: accesses that miss in the `k` smallest sizes. So size `i` is missed by all with `k > i`.
fn missed_at_each_size(by_sizes_missed: &[u64]) -> Vec<u64> {
    (1..by_sizes_missed.len()).map(|from| by_sizes_missed[from..].iter().sum()).collect()
}

impl Curve {
    /// No access yet, for pages `0..pages`.
    ///
    /// # Errors
    /// `TooManyPages` above 2^29.
    pub fn new(pages: u64, groups: Option<MissesByGroup>) -> Result<Self, TooManyPages> {
        let stack = StackDistances::new(pages)?;
        Ok(Curve { by_distance: vec![0; stack.pages()], stack, first: 0, accesses: 0, groups })
    }

    /// Touch pages in their order. `counted` says of each whether its miss counts; without it each does.
    ///
    /// # Panics
    /// If a page is not below `pages`, or `counted` is shorter than `pages`.
    pub fn feed(&mut self, pages: &[u32], counted: Option<&[u8]>) {
        match counted {
            None => pages.iter().for_each(|&page| self.access(page)),
            Some(counted) => {
                assert_eq!(pages.len(), counted.len(), "one mark for each access");
                for (&page, &counts) in pages.iter().zip(counted) {
                    if counts == 0 {
                        self.stack.access(page);
                    } else {
                        self.access(page);
                    }
                }
            }
        }
    }

    #[inline]
    fn access(&mut self, page: u32) {
        let distance = self.stack.access(page);
        self.accesses += 1;
        match distance {
            Some(distance) => self.by_distance[distance as usize - 1] += 1,
            None => self.first += 1,
        }
        if let Some(groups) = &mut self.groups {
            groups.count(page, distance);
        }
    }

    /// Counted accesses.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Counted accesses to pages never touched before: every pool misses them.
    #[must_use]
    pub fn first_accesses(&self) -> u64 {
        self.first
    }

    /// Misses of an LRU pool of 0, 1, 2, ..., all pages.
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

    /// Misses of each group, where groups were asked for.
    #[must_use]
    pub fn groups(&self) -> Option<&MissesByGroup> {
        self.groups.as_ref()
    }
}
