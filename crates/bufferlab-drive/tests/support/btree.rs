//! A slow reader of SQLite's b-trees. It walks the pages of a closed file, and shares no code with SQLite or with
//! dbstat.
//!
//! It follows <https://sqlite.org/fileformat.html>, sections 1.3 and 1.6.

use std::collections::BTreeMap;
use std::path::Path;

/// A whole database file in memory.
pub struct File {
    bytes: Vec<u8>,
    page_bytes: usize,
}

/// A b-tree page with its place in the tree.
pub struct Page {
    /// The page's number, counted from one.
    pub number: u32,
    /// The page's distance from the root, in levels.
    pub level: usize,
    /// True when the page has no children.
    pub is_leaf: bool,
    /// Number of cells on the page.
    pub cells: usize,
    /// Row ids of the page's rows; empty except for leaves of tables in the order of row ids.
    pub row_ids: Vec<i64>,
}

impl File {
    /// Reads a database file whose write-ahead log is empty.
    pub fn open(path: &Path) -> Self {
        let bytes = std::fs::read(path).expect("the database is readable");
        let page_bytes = match u16::from_be_bytes([bytes[16], bytes[17]]) {
            1 => 65_536,
            bytes => usize::from(bytes),
        };
        assert_eq!(bytes.len() % page_bytes, 0, "whole pages");
        File { bytes, page_bytes }
    }

    /// Returns the number of pages in the file.
    pub fn pages(&self) -> usize {
        self.bytes.len() / self.page_bytes
    }

    fn page(&self, number: u32) -> &[u8] {
        let start = (number as usize - 1) * self.page_bytes;
        &self.bytes[start..start + self.page_bytes]
    }

    /// Returns every page of the b-tree with this root, the root first.
    pub fn tree(&self, root: u32) -> Vec<Page> {
        let mut found = Vec::new();
        let mut left = vec![(root, 0)];
        while let Some((number, level)) = left.pop() {
            let page = self.page(number);
            let header = if number == 1 { 100 } else { 0 };
            let kind = page[header];
            let cells = u16_at(page, header + 3);
            let is_leaf = matches!(kind, 10 | 13);
            let pointers = header + if is_leaf { 8 } else { 12 };
            let places = (0..cells).map(|cell| u16_at(page, pointers + 2 * cell));
            let mut row_ids = Vec::new();
            match kind {
                2 | 5 => {
                    left.extend(places.map(|at| (u32_at(page, at), level + 1)));
                    left.push((u32_at(page, header + 8), level + 1));
                }
                10 => {}
                13 => row_ids.extend(places.map(|at| {
                    let (_, payload_bytes) = varint(&page[at..]);
                    varint(&page[at + payload_bytes..]).0
                })),
                other => panic!("page {number} is no b-tree page: its type is {other}"),
            }
            found.push(Page { number, level, is_leaf, cells, row_ids });
        }
        found
    }

    /// Returns for each row id of a table the numbers of the pages from the root to the row's leaf.
    pub fn path_of_row(&self, root: u32) -> BTreeMap<i64, Vec<u32>> {
        let (mut paths, mut path) = (BTreeMap::new(), Vec::new());
        // The walk is depth first: the next page lies below some page of the current path.
        for page in self.tree(root) {
            path.truncate(page.level);
            path.push(page.number);
            paths.extend(page.row_ids.iter().map(|&id| (id, path.clone())));
        }
        paths
    }
}

fn u16_at(page: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([page[at], page[at + 1]]))
}

fn u32_at(page: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]])
}

/// Returns a variable-length integer and its length in bytes. Each byte gives seven bits, but a ninth byte gives eight.
fn varint(bytes: &[u8]) -> (i64, usize) {
    let mut value = 0_u64;
    for (index, &byte) in bytes[..9].iter().enumerate() {
        if index == 8 {
            return ((value << 8 | u64::from(byte)) as i64, 9);
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return (value as i64, index + 1);
        }
    }
    unreachable!("a ninth byte always ends it")
}
