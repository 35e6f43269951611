//! Chooses the dirty neighbours that InnoDB writes together with a dirty page (`innodb_flush_neighbors`; buf0flu.cc,
//! `buf_flush_try_neighbors`).
//!
//! The model treats pages of one index with consecutive numbers as neighbours in the file: a trace does not show where
//! an extent begins, nor pages between them that no thread accessed.

/// Pages of the largest extent within which neighbours lie (buf0rea.h, `BUF_READ_AHEAD_PAGES`).
const EXTENT: u32 = 64;

/// Which neighbours are written together.
pub struct Neighbors {
    /// Which neighbours are written: none (0), those next to the page without a gap (1), all of its extent (2).
    flush_neighbors: u32,
    /// The number of pages that the pool may hold. They are numbered from 0.
    pages: u32,
    /// Pages of an extent, within which neighbours lie.
    area: u32,
}

/// The pages that are written together.
pub struct Chosen {
    pages: [u32; EXTENT as usize],
    len: usize,
}

impl Chosen {
    /// Returns the pages, in their order in the file.
    pub fn pages(&self) -> &[u32] {
        &self.pages[..self.len]
    }

    /// Returns the number of pages.
    pub fn len(&self) -> u32 {
        self.len as u32
    }
}

impl Neighbors {
    /// Makes the rule of a pool of `frames` (buf0rea.h, `BUF_READ_AHEAD_AREA`). A sample consists of runs of
    /// consecutive pages, so a page has as many neighbours there as in the whole database.
    pub fn new(frames: u32, pages: u32, flush_neighbors: u32) -> Self {
        let area = (frames / 32).next_power_of_two().min(EXTENT).min(frames / 16);
        Neighbors { flush_neighbors, pages, area: area.max(1) }
    }

    /// Returns a dirty page and its neighbours, at most `most` of them. `joins` returns whether a page may be written
    /// with it. `any` is false for an LRU list that is so short that the server writes no neighbours.
    pub fn of(&self, page: u32, most: u32, any: bool, joins: impl Fn(u32) -> bool) -> Chosen {
        let (mut low, mut high) = (page, page + 1);
        if any && self.flush_neighbors > 0 {
            let first = page / self.area * self.area;
            let end = (first + self.area).min(self.pages);
            let in_row = |&page: &u32| self.flush_neighbors == 2 || joins(page);
            low = (first..page).rev().take_while(in_row).last().unwrap_or(page);
            high = (high..end).take_while(in_row).last().map_or(high, |last| last + 1);
        }
        let mut chosen = Chosen { pages: [0; EXTENT as usize], len: 0 };
        for other in low..high {
            if other == page || chosen.len() < most && joins(other) {
                chosen.pages[chosen.len] = other;
                chosen.len += 1;
            }
        }
        debug_assert!(chosen.len > 0, "page {page} is written with its neighbours");
        chosen
    }
}
