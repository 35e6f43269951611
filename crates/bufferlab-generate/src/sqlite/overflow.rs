//! Rows that do not fit into a page: how many of their bytes are in the b-tree's page, and the chain of pages with the
//! rest.
//!
//! The rules are those of SQLite's file format, section 1.6 ("Cell Payload Overflow Pages"). In btree.c,
//! `btreeInitPage` has `maxLocal` and `minLocal`, and `fillInCell` divides a row. A page of 4 KiB and more holds every
//! row of TPC-C.

use super::btree::Btree;
use crate::pools::Pools;

/// The most pages of a chain: pages of 512 bytes hold the longest customer with two.
const MOST_PAGES: usize = 2;
/// Bytes of the number of a chain's next page.
const NEXT: u32 = 4;

/// A row with a chain: the bytes that its cell would have in one page, and the chain's pages. The number 0 means no
/// page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spilled {
    pub(super) bytes: u16,
    pages: [u32; MOST_PAGES],
}

impl Spilled {
    /// Returns the chain's pages.
    pub(super) fn pages(&self) -> &[u32] {
        &self.pages[..self.pages.partition_point(|&page| page > 0)]
    }
}

/// The division of a row's payload between the b-tree's page and the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Divided {
    /// Bytes of the payload in the b-tree's page.
    pub(super) local: u32,
    /// Bytes of the cell in the b-tree's page.
    pub(super) cell: u16,
    /// Pages of the chain.
    pub(super) chain: usize,
}

/// Divides a row of an index b-tree, whose cell would have `bytes` bytes in one page.
pub(super) fn divide(page_bytes: u32, bytes: u16) -> Divided {
    // One byte holds the length of a payload of up to 127 bytes, two bytes a larger length.
    let payload = u32::from(bytes) - if bytes <= 128 { 1 } else { 2 };
    let of_page = |share: u32| (page_bytes - 12) * share / 255 - 23;
    let (most, least) = (of_page(64), of_page(32));
    if payload <= most {
        return Divided { local: payload, cell: bytes, chain: 0 };
    }
    let fits = least + (payload - least) % (page_bytes - NEXT);
    let local = if fits > most { least } else { fits };
    let cell = u32::from(bytes) - payload + local + NEXT;
    let chain = (payload - local).div_ceil(page_bytes - NEXT) as usize;
    Divided { local, cell: cell as u16, chain }
}

/// Returns which pages of a chain SQLite gets to read columns, each of which begins and ends at these bytes of the
/// payload (vdbe.c, `vdbeColumnFromOverflow`; btree.c, `accessPayload`). The cursor remembers the numbers of the pages
/// that it has read.
pub(super) fn gets_of_columns(page_bytes: u32, local: u32, columns: impl Iterator<Item = (u32, u32)>) -> Vec<usize> {
    let page = |byte: u32| (byte.saturating_sub(local) / (page_bytes - NEXT)) as usize;
    let (mut met, mut gets) = (0, Vec::new());
    for (begin, end) in columns.filter(|&(begin, end)| begin < end && end > local) {
        let (first, last) = (page(begin), page(end - 1));
        gets.extend(met.min(first)..=last);
        met = met.max(last);
    }
    gets
}

/// Functions for the chains of a tree's rows.
impl Btree {
    /// Returns the bytes of a row's cell in its page, and puts the row's other bytes into a chain (`fillInCell`).
    pub(super) fn store(&mut self, pools: &mut Pools, key: u32, bytes: u16) -> u16 {
        let Divided { cell, chain, .. } = divide(self.page_bytes, bytes);
        if chain > 0 {
            let mut row = Spilled { bytes, pages: [0; MOST_PAGES] };
            for place in 0..chain {
                let page = self.new_page(pools, true, false);
                debug_assert!(!row.pages.contains(&page), "page {page} is in the chain already");
                row.pages[place] = page;
            }
            self.spilled.insert(key, row);
        }
        cell
    }

    /// Frees a row's chain; each page but the last is read for the next one's number (`clearCellOverflow`,
    /// `freePage2`).
    pub(super) fn release(&mut self, pools: &mut Pools, row: Option<Spilled>) {
        let Some(row) = row else { return };
        for (&page, place) in row.pages().iter().zip(1..) {
            let trunk = self.free_pages.first().copied().unwrap_or(page);
            if place < row.pages().len() {
                pools.get(self.first_page + page, 0);
            }
            pools.get(self.first_page + trunk, 0);
            self.dirty.push(self.first_page + trunk);
            self.free_pages.push(page);
            self.is_resized = true;
        }
    }

    /// Reads all pages of a row's chain, if it has one.
    pub(super) fn read_chain(&self, pools: &mut Pools, key: u32) {
        if let Some(row) = self.spilled.get(&key) {
            row.pages().iter().for_each(|&page| pools.get(self.first_page + page, 0));
        }
    }

    /// Returns the chain of a row, if it has one: its bytes and pages.
    pub fn chain(&self, key: u32) -> Option<(u16, Vec<u32>)> {
        let row = self.spilled.get(&key)?;
        Some((row.bytes, row.pages().iter().map(|page| self.first_page + page).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits of the file format, computed by hand: (512 - 12) * 64 / 255 - 23 is 102.
    #[test]
    fn a_row_is_divided_where_the_file_format_says() {
        for (page_bytes, most, least) in [(512, 102, 39), (1024, 230, 103), (2048, 487, 232), (4096, 1002, 489)] {
            let bytes = |payload: u16| payload + if payload < 128 { 1 } else { 2 };
            assert_eq!(divide(page_bytes, bytes(most)).chain, 0, "{page_bytes}");
            let over = divide(page_bytes, bytes(most + 1));
            assert_eq!((over.local, over.chain), (least, 1), "{page_bytes}");
            assert_eq!(u32::from(over.cell), least + 4 + if most < 127 { 1 } else { 2 });
        }
        // A cell keeps 39 bytes. It also keeps the bytes that do not fill the last page of the chain (508 bytes), if it
        // then has at most 102: 20 such bytes stay, 100 do not.
        assert_eq!((divide(512, 39 + 508 + 20 + 2).local, divide(512, 39 + 508 + 20 + 2).chain), (59, 1));
        assert_eq!((divide(512, 39 + 508 + 100 + 2).local, divide(512, 39 + 508 + 100 + 2).chain), (39, 2));
    }

    #[test]
    fn columns_get_the_pages_that_hold_them() {
        let gets = |columns: &[(u32, u32)]| gets_of_columns(512, 39, columns.iter().copied());
        assert_eq!(gets(&[(0, 39), (39, 39), (540, 540)]), [0; 0]);
        assert_eq!(gets(&[(30, 50), (50, 60), (540, 560)]), [0, 0, 0, 1]);
        assert_eq!(gets(&[(600, 610), (600, 610)]), [0, 1, 1], "the first page tells the second one's number, once");
    }
}
