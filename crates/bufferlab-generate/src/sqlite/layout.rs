//! SQLite's pages after the load: bytes of cells, and the trees that the loader's appends make.

use bufferlab_workload::client::Value;
use bufferlab_workload::population::RowBlock;
use bufferlab_workload::tpcc::TpccConfig;
use bufferlab_workload::tpcc::population::{generate, partitions};
use bufferlab_workload::tpcc::schema::{CUSTOMERS, ORDERS, TableId};

use super::btree::Btree;
use crate::engine::{Relation, Row, of_entry};
use crate::loaded::{Columns, Loaded, Records};
use crate::pools::{Objects, Pools};

/// Bits of an order's number in a key; the largest number is 262,143.
pub(super) const ORDER_BITS: u32 = 18;
/// Bits of a line's number in a key.
const LINE_BITS: u32 = 4;
/// The most warehouses: keys of lines have 32 bits, of which ten are the district's.
pub(super) const MAX_WAREHOUSES: u32 = 102;

/// Returns a row's key in its tree. In the index on customers the last ten bits of a key are the order's: 0 for the
/// loaded order, and even numbers for later ones. Two orders may have the same ten bits, but a customer has few orders.
pub(super) fn key_of(row: Row) -> u32 {
    const SPACE: u32 = 1 << 10;
    match row.of {
        Relation::Orders | Relation::NewOrder => row.group << ORDER_BITS | row.key,
        Relation::OrderLine => (row.group << (ORDER_BITS + LINE_BITS)) + row.key,
        Relation::ByCustomer => {
            let (customer, order) = of_entry(row.key);
            let place = if order <= ORDERS { 0 } else { 2 + (order - ORDERS) / 256 % (SPACE / 2 - 2) * 2 };
            (row.group * CUSTOMERS + customer - 1) * SPACE + place
        }
        _ => row.number(),
    }
}

/// Bytes by which a line grows when its date of delivery is set: 0 for NULL, 8 for microseconds since 1970.
pub(super) const DELIVERY_DATE: u16 = 8;

/// The rules for bytes of cells: a record of the file format's section 2.1, after the length of its payload.
pub(super) struct Cells;

/// Returns how many bytes a number takes as a varint.
pub(super) fn varint(number: u32) -> u32 {
    (32 - number.leading_zeros()).div_ceil(7).max(1)
}

/// Returns the serial type of a value, and the value's bytes.
fn serial(value: Value<'_>) -> (u32, u32) {
    match value {
        Value::Null => (0, 0),
        Value::Int(0) => (8, 0),
        Value::Int(1) => (9, 0),
        Value::Int(int) => {
            let bits = 65 - if int < 0 { !int } else { int }.leading_zeros();
            match bits {
                0..=8 => (1, 1),
                9..=16 => (2, 2),
                17..=24 => (3, 3),
                25..=32 => (4, 4),
                33..=48 => (5, 6),
                _ => (6, 8),
            }
        }
        Value::Real(_) => (7, 8),
        Value::Text(text) => (13 + 2 * text.len() as u32, text.len() as u32),
    }
}

pub(super) fn cell<'a>(values: impl Iterator<Item = Value<'a>>) -> u32 {
    let (header, body) =
        values.map(serial).fold((0, 0), |(header, body), (kind, bytes)| (header + varint(kind), body + bytes));
    let payload = header + varint(header + 1) + body;
    (varint(payload) + payload).max(4)
}

/// Where the columns of a table's mean row begin and end in its payload.
#[derive(Default)]
pub(super) struct Places(Vec<(u32, u32)>);

impl Places {
    /// Computes the places from the means of the table's first generated rows.
    pub(super) fn new(config: &TpccConfig, table: TableId) -> Self {
        let mut block = RowBlock::new();
        if let Some(first) = partitions(1).into_iter().find(|partition| partition.table() == table) {
            generate(&first, config, &mut block);
        }
        let (rows, columns) = (block.rows().max(1), block.columns());
        let sums = |of: fn((u32, u32)) -> u32, column: usize| {
            (0..block.rows()).map(|row| of(serial(block.value(row, column)))).sum::<u32>() as usize
        };
        let header: usize = (0..columns).map(|column| sums(|(kind, _)| varint(kind), column)).sum();
        let mut end = (header / rows + 1) as u32;
        let place = |column| {
            let begin = end;
            end += ((sums(|(_, bytes)| bytes, column) + rows / 2) / rows) as u32;
            (begin, end)
        };
        Places((0..columns).map(place).collect())
    }

    /// Returns the places of some columns: where each begins and ends.
    pub(super) fn of(&self, columns: impl Iterator<Item = usize>) -> impl Iterator<Item = (u32, u32)> {
        columns.filter_map(|column| self.0.get(column).copied())
    }
}

impl Records for Cells {
    /// The bytes of a row of HISTORY exclude its row id, whose length grows.
    fn row(&self, _table: TableId, columns: &Columns<'_>) -> u32 {
        cell(columns.all())
    }

    fn entry(&self, _table: TableId, row: &Columns<'_>, columns: &[usize]) -> u32 {
        cell(columns.iter().map(|&column| row.value(column)))
    }
}

/// The leaves of HISTORY, a table with row ids that is only appended to: full leaves, one after the other
/// (`balance_quick`). The root is a page above the leaves from the load on.
#[derive(Default)]
pub(super) struct History {
    /// The page of the last leaf, which takes the next row.
    pub(super) last: u32,
    pub(super) first_leaf: u32,
    end: u32,
    used: u32,
    rows: u32,
}

impl History {
    /// Appends a row; `interior` has the pages above the leaves.
    pub(super) fn append(&mut self, pools: &mut Pools, interior: &mut Btree, bytes: u16) {
        interior.seek(pools, u32::MAX);
        pools.get(self.last, 0);
        if self.used + u32::from(bytes) + 2 > interior.page_bytes - 8 {
            if self.last + 1 == self.end {
                return pools.fill();
            }
            (self.last, self.used) = (self.last + 1, 0);
            pools.create(self.last);
            // The new leaf and the page above it, at which the search ended.
            interior.also_written.push(interior.current());
            interior.is_resized = true;
            interior.append(pools, self.rows, varint(self.rows) as u16, false);
        }
        (self.used, self.rows) = (self.used + u32::from(bytes) + 2, self.rows + 1);
        interior.dirty.push(self.last);
    }

    fn load(loaded: &Loaded, objects: &mut Objects, interior: &mut Btree, growth: u32) -> Self {
        let (mut leaves, mut used, mut rows) = (1, 0, 0);
        let (page_bytes, no_pools) = (interior.page_bytes, &mut Pools::new(Vec::new()));
        for (.., bytes) in loaded.rows(Relation::History) {
            let bytes = u32::from(bytes) + varint(rows + 1) + 2;
            if used + bytes > page_bytes - 8 {
                interior.append(no_pools, rows, varint(rows) as u16, false);
                (leaves, used) = (leaves + 1, 0);
            }
            (used, rows) = (used + bytes, rows + 1);
        }
        let (above, more_above) = (interior.next_page, growth / 16 + 16);
        let first = objects.add(Relation::History.name(), above + leaves, above + more_above + leaves + growth);
        interior.number(first, more_above);
        let first_leaf = first + above + more_above;
        History { last: first_leaf + leaves - 1, first_leaf, end: first_leaf + leaves + growth, used, rows }
    }
}

/// Lays the database out: a tree for each relation, for HISTORY only the pages above its leaves. `inserted` has the
/// bytes of rows that the run inserts; `transactions` bounds the growth.
pub(super) fn lay_out(
    page_bytes: u32,
    loaded: &Loaded,
    objects: &mut Objects,
    transactions: u64,
    inserted: &[u16],
) -> (Vec<Btree>, History) {
    let no_pools = &mut Pools::new(Vec::new());
    let growth = |of: Relation, rows: u64| {
        (transactions * rows * u64::from(inserted[of as usize]) / u64::from(page_bytes) * 2) as u32 + 256
    };
    let mut trees = Relation::ALL.map(|of| {
        if of == Relation::History {
            return Btree::above_leaves(page_bytes);
        }
        let mut tree = Btree::new(page_bytes);
        let is_sorted = of.table() != of;
        for (group, key, bytes) in loaded.rows(of) {
            tree.append(no_pools, key_of(Row::new(of, group, key)), bytes, is_sorted);
        }
        let growth = match of {
            Relation::Stock | Relation::Customer => loaded.warehouses() * 512,
            Relation::Orders | Relation::NewOrder => growth(of, 1),
            Relation::OrderLine => growth(of, 8),
            Relation::ByCustomer => growth(of, 1) + loaded.districts() * 32,
            _ => 0,
        };
        tree.place(objects, of.name().rsplit('.').next().unwrap_or_default(), growth);
        tree
    });
    let interior = &mut trees[Relation::History as usize];
    let history = History::load(loaded, objects, interior, growth(Relation::History, 1));
    (trees.into(), history)
}

/// Returns the mean bytes of the rows that a run inserts: of orders and lines, those of loaded orders that are not
/// delivered.
pub(super) fn inserted(loaded: &Loaded, of: Relation) -> u16 {
    let all = loaded.sizes(of, 0);
    let last = if matches!(of, Relation::Orders | Relation::OrderLine) { &all[all.len() * 3 / 4..] } else { all };
    let sum: u32 = last.iter().map(|&bytes| u32::from(bytes)).sum();
    let mean = ((sum + last.len() as u32 / 2) / last.len() as u32) as u16;
    if of == Relation::History { mean + 3 } else { mean }
}
