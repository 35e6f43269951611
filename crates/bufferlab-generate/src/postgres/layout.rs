//! PostgreSQL's pages after the load: COPY fills heaps in the order of keys, then builds each index, sorted
//! (crates/bufferlab-drive/src/postgres/loader.rs).

use bufferlab_workload::tpcc::schema::{CUSTOMERS, ITEMS, TableId};

use super::heap::Heap;
use super::index::{Index, fan_out, takes_built};
use super::record::{Tuples, max_aligned};
use crate::engine::{ORDER_BITS, Relation};
use crate::loaded::Loaded;
use crate::pools::Objects;
use crate::tree::{Grown, Loading};

/// Bytes by which a line's length grows when it is delivered. The date takes 8 bytes and its alignment 6. The header
/// loses 8: without null bits it has 24 bytes instead of 32.
pub(super) const DELIVERED: u16 = 6;

/// A table with its indexes: its primary key (HISTORY has none), then a secondary index if there is one.
pub(super) struct Table {
    pub(super) heap: Heap,
    pub(super) indexes: Vec<Index>,
    /// Bytes of rows that the run inserts, not rounded up; of CUSTOMER, bytes of rows with the longest text.
    pub(super) bytes: u16,
}

/// The parameters of an index's layout.
pub(super) struct Laid {
    /// The number of groups, and the number of keys of a group.
    pub(super) keys: (u32, u64),
    /// Bytes of an entry in a leaf, and of one above the leaves. Above, columns that are not needed to separate two
    /// leaves are left out (nbtutils.c, `_bt_truncate`).
    pub(super) entry: (u32, u32),
    /// The number of pages that the index may grow by.
    pub(super) growth: u32,
    pub(super) is_unique: bool,
    /// Whether all entries are of one size.
    pub(super) is_even: bool,
}

/// Builds an index of `entries`, each with its group, key and bytes.
pub(super) fn index(
    objects: &mut Objects,
    name: &str,
    entries: impl Iterator<Item = (u32, u32, u32)>,
    laid: &Laid,
) -> Index {
    let mut loading = Loading::new(laid.keys.0, laid.keys.1, false);
    entries.for_each(|(group, key, bytes)| loading.push(group, key, bytes, &takes_built));
    let tree = Grown::new(objects, name, loading, fan_out(laid.entry.1), laid.growth);
    Index::new(tree, laid.entry.0, laid.keys.0, laid.is_unique, laid.is_even)
}

/// Lays a table out; objects come in the order of their names, as in a page trace. `transactions` bounds the growth.
pub(super) fn lay_out(loaded: &Loaded, objects: &mut Objects, table: Relation, transactions: u64) -> Table {
    let (warehouses, districts) = (loaded.warehouses(), loaded.districts());
    // The most pages that a heap grows by if each transaction adds `rows` rows.
    let growth =
        |rows: u64, bytes: u16| (transactions * rows * u64::from(max_aligned(bytes.into()) + 4) / 8000) as u32 + 256;
    // The spare pages for moved rows. About a tenth of a table's pages is used before each page has free room, and a
    // larger part in a small table.
    let spare = |pages: u32| pages / 2 + 512;
    let bytes = loaded.inserted(table);
    let small = if table == Relation::Warehouse { warehouses } else { districts };
    let (of_heap, keys, of_key) = match table {
        Relation::Customer => (spare(districts * CUSTOMERS / 12), (districts, 3001), districts * 4 + 64),
        Relation::Stock => (spare(warehouses * ITEMS / 23), (warehouses, 100_001), warehouses * 100 + 64),
        Relation::Item => (0, (1, 1 << 31), 0),
        Relation::History => (growth(1, bytes), (0, 0), 0),
        Relation::NewOrder => (growth(1, bytes), (districts, 1 << 31), growth(1, 24) + 4 * districts),
        Relation::Orders => (growth(1, bytes) + districts * 30, (districts, 1 << 31), growth(1, 24) + 4 * districts),
        Relation::OrderLine => {
            (growth(15, bytes + DELIVERED) + districts * 64, (districts, 1 << 31), growth(15, 32) + districts * 32)
        }
        _ => (small + 64, (1, 1 << 31), small + 64),
    };
    // Every district's row gets the size of the first district's row.
    let rows = loaded.rows(table).map(|(.., own)| if table == Relation::District { bytes } else { own });
    let heap = Heap::new(objects, table.name(), rows, of_heap);
    let tuples = Tuples::default();
    let entry = tuples.key_entry(TableId::Customer);
    let second = table.second().map(|second| {
        let is_of_names = second == Relation::ByName;
        let own = loaded.mean(second).into();
        let laid = Laid {
            keys: (districts, if is_of_names { CUSTOMERS.into() } else { u64::from(CUSTOMERS + 1) << ORDER_BITS }),
            entry: (own, if is_of_names { own } else { entry }),
            growth: if is_of_names { districts * 10 + 64 } else { growth(1, 48) + districts * 16 },
            is_unique: false,
            is_even: !is_of_names,
        };
        let entries = loaded.rows(second).map(|(group, key, bytes)| (group, key, bytes.into()));
        index(objects, second.name(), entries, &laid)
    });
    let mut indexes = Vec::new();
    if table != Relation::History {
        let entry = tuples.key_entry(TableId::ALL[table as usize]);
        // One leaf of lines in ten begins with a new order, so that its key above the leaves needs no line's number.
        let of_order = if table == Relation::OrderLine { tuples.key_entry(TableId::Orders) } else { entry };
        let entry = (entry, (9 * entry + of_order) / 10);
        let laid = Laid { keys, entry, growth: of_key, is_unique: true, is_even: true };
        let entries = loaded.rows(table).map(|(group, key, _)| (group, key, entry.0));
        indexes.push(index(objects, &format!("{name}.{name}_pkey", name = table.name()), entries, &laid));
    }
    indexes.extend(second);
    // C_DATA has 300 to 500 bytes, each length equally often (TPC-C, clause 4.3.3.1).
    let bytes = if table == Relation::Customer { loaded.mean(table) + 100 } else { bytes };
    Table { heap, indexes, bytes }
}
