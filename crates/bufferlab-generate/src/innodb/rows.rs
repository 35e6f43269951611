//! InnoDB's pages of the table of hot_rows (crates/bufferlab-drive/dialects/servers/hot_rows/schema.sql).

use super::latch::EXCLUSIVE;
use super::layout::{Clustered, HEADER, PageSize, SYSTEM_COLUMNS};
use super::undo::{Log, Undo};
use super::{look_up, seek};
use crate::pools::{Objects, Pools};
use crate::rows::{RowTable, RowsAsked};
use crate::tree::{Packed, pack};

/// Bytes of id and k.
const NUMBERS: u32 = 4 + 4;
/// Bytes of c, a CHAR of one byte a character.
const C: u32 = 120;
/// Bytes of an undo record of an update of c: its header and key, and the old text (trx0rec.cc,
/// `trx_undo_page_report_modify`).
const UNDO: u32 = 40 + C;

/// The table and the undo log.
pub struct Rows {
    objects: Objects,
    tree: Packed,
    undo: Undo,
}

impl Rows {
    /// Lays the table out.
    pub fn new(page_bytes: u32, asked: &RowsAsked) -> Self {
        let size = PageSize(page_bytes);
        // CHAR(60) has one character more than sysbench's text.
        let bytes = HEADER + SYSTEM_COLUMNS + NUMBERS + C + asked.pad_chars + 1;
        let rows = std::iter::repeat_n(bytes as u16, asked.rows as usize);
        let mut objects = Objects::default();
        let tree = Packed::new(&mut objects, "sbtest1", pack(rows, &Clustered(size)), 1000, size.fan_out(4));
        let undo = Undo::new(&mut objects, page_bytes);
        Rows { objects, tree, undo }
    }
}

impl RowTable for Rows {
    fn objects(&self) -> &Objects {
        &self.objects
    }

    fn interior_pages(&self) -> Vec<u32> {
        self.tree.interior.all().collect()
    }

    fn read(&mut self, pools: &mut Pools, id: u32) {
        look_up(pools, &self.tree, id - 1);
    }

    fn update(&mut self, pools: &mut Pools, id: u32) {
        let leaf = seek(pools, &self.tree, id - 1);
        pools.get(self.tree.page(leaf), EXCLUSIVE);
        self.undo.write(pools, Log::Update, UNDO);
        self.undo.commit(pools);
        self.undo.purge(pools);
    }
}
