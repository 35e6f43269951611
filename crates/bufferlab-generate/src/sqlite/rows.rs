//! SQLite's pages of the table of hot_rows (crates/bufferlab-drive/dialects/sqlite/hot_rows/schema.sql): a table with
//! row ids, whose rows are only in leaves.

use bufferlab_workload::client::Value;

use super::layout::{cell, varint};
use crate::engine::Relation;
use crate::pools::Objects;
use crate::rows::RowsAsked;
use crate::tree::{Packed, pack};

/// Characters of sysbench's column c.
const C_CHARS: usize = 119;
/// Bytes of the header of a leaf, and of an interior page.
const LEAF_HEADER: u32 = 8;
const INTERIOR_HEADER: u32 = 12;
/// Bytes of a cell's pointer in its page, and of a child's number.
const PLACE: u32 = 2;
const CHILD: u32 = 4;

/// Lays the table out.
pub(super) fn lay_out(page_bytes: u32, asked: &RowsAsked, objects: &mut Objects) -> Packed {
    let (c, pad) = ("0".repeat(C_CHARS), "0".repeat(asked.pad_chars as usize));
    // The id is the row's number, and NULL in its record.
    let values = |k: u32| [Value::Null, Value::Int(k.into()), Value::Text(&c), Value::Text(&pad)];
    let bytes = (1..).zip(asked.ks()).map(|(id, k)| (cell(values(k).into_iter()) + varint(id) + PLACE) as u16);
    // Leaves are filled one after the other (btree.c, `balance_quick`).
    let packing = pack(bytes, false, |_, bytes, record| bytes + record <= page_bytes - LEAF_HEADER);
    // Interior pages of a table that was filled in the order of its keys are nine tenths full (seen on SQLite 3.40 and
    // 3.50; python/bufferlab/theory/hot_rows.py has the same rule).
    let interior_cell = CHILD + varint(asked.rows) + PLACE;
    let fan_out = (page_bytes - INTERIOR_HEADER) * 9 / 10 / interior_cell + 1;
    Packed::new(objects, Relation::HotRows.name(), packing, 1000, fan_out)
}
