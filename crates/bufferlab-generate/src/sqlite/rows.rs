//! SQLite's pages of the table of hot_rows (crates/bufferlab-drive/dialects/sqlite/hot_rows/schema.sql): a table with row
//! ids, whose rows are in leaves alone.

use bufferlab_workload::client::Value;

use super::layout::{cell, varint};
use crate::pools::{Objects, Pools};
use crate::rows::{RowTable, RowsAsked};
use crate::tree::{Fill, Packed, pack};

/// Characters of sysbench's text c.
const C_CHARS: usize = 119;
/// Bytes of a page's header: of a leaf, and of an interior page.
const LEAF_HEADER: u32 = 8;
const INTERIOR_HEADER: u32 = 12;
/// Bytes of a cell's place in its page, and of a child's number.
const PLACE: u32 = 2;
const CHILD: u32 = 4;

/// Leaves that are filled one after the other (btree.c, `balance_quick`).
struct Appended {
    page_bytes: u32,
}

impl Fill for Appended {
    fn takes(&self, _rows: u32, bytes: u32, record: u32) -> bool {
        bytes + record <= self.page_bytes - LEAF_HEADER
    }
}

/// The table and the file's first page.
pub struct Rows {
    objects: Objects,
    schema: u32,
    tree: Packed,
}

impl Rows {
    /// Lays the table out.
    pub fn new(page_bytes: u32, asked: &RowsAsked) -> Self {
        let (c, pad) = ("0".repeat(C_CHARS), "0".repeat(asked.pad_chars as usize));
        // The id is the row's number, and NULL in its record.
        let values = |k: u32| [Value::Null, Value::Int(k.into()), Value::Text(&c), Value::Text(&pad)];
        let bytes = (1..).zip(asked.ks()).map(|(id, k)| (cell(values(k).into_iter()) + varint(id) + PLACE) as u16);
        let mut objects = Objects::default();
        let schema = objects.add("sqlite_schema", 1, 1);
        let packing = pack(bytes, &Appended { page_bytes });
        // Interior pages of a table that was filled in the order of its keys are nine tenths full (seen on SQLite 3.40 and
        // 3.50; python/bufferlab/theory/hot_rows.py has the same rule).
        let interior_cell = CHILD + varint(asked.rows) + PLACE;
        let fan_out = (page_bytes - INTERIOR_HEADER) * 9 / 10 / interior_cell + 1;
        let tree = Packed::new(&mut objects, "sbtest1", packing, 1000, fan_out);
        Rows { objects, schema, tree }
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
        let leaf = self.tree.leaf(id - 1);
        pools.get(self.schema, 0);
        self.tree.interior.path(leaf).for_each(|page| pools.get(page, 0));
        pools.get(self.tree.page(leaf), 0);
    }

    /// The cursor stands on the row when it is written.
    fn update(&mut self, pools: &mut Pools, id: u32) {
        self.read(pools, id);
    }
}
