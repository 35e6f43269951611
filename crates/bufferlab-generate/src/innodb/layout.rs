//! InnoDB's pages after the load: bytes of records, rows of leaves. Files are those of MySQL 5.7's storage/innobase.
//!
//! Tables are loaded in the order of their keys; secondary indexes are built afterwards, sorted.

use bufferlab_workload::client::Value;
use bufferlab_workload::tpcc::schema::{CUSTOMERS, DISTRICTS, ITEMS, TableId};

use crate::engine::{ORDER_BITS, Relation};
use crate::loaded::{Columns, Loaded, Records};
use crate::pools::Objects;
use crate::schema::{Column, Schema, Type};
use crate::segment::Segment;
use crate::tree::{Grown, Loading, Packed, Tree, pack};

/// Bytes of a compact record before its data, without null bits and lengths (rem0rec.h, `REC_N_NEW_EXTRA_BYTES`).
pub(super) const HEADER: u32 = 5;
/// Bytes of DB_TRX_ID and DB_ROLL_PTR in a clustered record (data0type.h, `DATA_TRX_ID_LEN`, `DATA_ROLL_PTR_LEN`).
pub(super) const SYSTEM_COLUMNS: u32 = 6 + 7;
/// Bytes of DB_ROW_ID in a table without a primary key (data0type.h, `DATA_ROW_ID_LEN`).
const ROW_ID: u32 = 6;
/// Bytes of a page's number in a node pointer (rem0types.h, `REC_NODE_PTR_SIZE`).
const CHILD: u32 = 4;

/// A segment takes a new extent when less than an eighth of its pages is free (fsp0fsp.cc, `FSEG_FILLFACTOR`).
const FILL_FACTOR: u32 = 8;

/// The number of trees that a prefill of TPC-C reads.
const TREES: u32 = 11;
/// Pages of an area that is read ahead (buf0rea.h, `BUF_READ_AHEAD_PAGES`).
const READ_AHEAD: u32 = 64;

/// Returns the most misses that a server counts while a prefill reads all tables in order. The server reads the extents
/// after a tree's first one ahead (buf0rea.cc, `buf_read_ahead_linear`), and a page that was read ahead is not a miss.
/// With 12 warehouses the reads filled MySQL 5.7.22's pool, and it counted about a tenth as many misses as the pool has
/// frames.
pub(crate) fn prefill_misses(page_bytes: u32) -> u64 {
    u64::from(TREES * (PageSize(page_bytes).single_pages() + READ_AHEAD))
}

/// A size of pages in bytes, with the rules that depend on it.
#[derive(Clone, Copy, Debug)]
pub struct PageSize(pub u32);

impl PageSize {
    /// Returns the bytes that an empty page has for records and slots (page0page.ic, `page_get_free_space_of_empty`).
    pub fn empty(self) -> u32 {
        self.0 - 132
    }

    /// Returns the bytes that slots of a directory take (page0page.ic, `page_dir_calc_reserved_space`).
    fn slots(rows: u32) -> u32 {
        (2 * rows).div_ceil(4)
    }

    /// Returns the bytes that one more record may take on a page of `rows` rows and `bytes` bytes, once the page is
    /// reorganised (page0page.ic, `page_get_max_insert_size_after_reorganize`).
    pub fn max_insert(self, rows: u32, bytes: u32) -> u32 {
        self.empty().saturating_sub(bytes + Self::slots(rows + 1))
    }

    /// Returns whether a clustered leaf takes a record of a load in the order of keys: a sixteenth of the page stays
    /// free for updates (btr0cur.cc, `btr_cur_optimistic_insert`; dict0dict.ic, `dict_index_get_space_reserve`).
    pub fn takes_next(self, rows: u32, bytes: u32, record: u32) -> bool {
        let left = self.max_insert(rows, bytes);
        left >= record && (rows < 2 || left >= record + self.0 / 16)
    }

    /// Returns whether a leaf takes a record at any place.
    pub fn takes(self, rows: u32, bytes: u32, record: u32) -> bool {
        self.max_insert(rows, bytes) >= record
    }

    /// Returns whether a leaf of a sorted build takes a record (btr0bulk.cc, `PageBulk::isSpaceAvailable`; the fill
    /// factor is 100).
    pub fn takes_built(self, rows: u32, bytes: u32, record: u32) -> bool {
        self.empty() >= bytes + record + Self::slots(rows + 1)
    }

    /// Returns the number of pages in an extent, which has 1 MiB for these page sizes (fsp0types.h, `FSP_EXTENT_SIZE`).
    fn extent(self) -> u32 {
        (1 << 20) / self.0
    }

    /// Returns the single pages that a file segment takes before its first extent (fsp0fsp.h, `FSEG_FRAG_LIMIT`).
    pub(super) fn single_pages(self) -> u32 {
        self.extent() / 2
    }

    /// Returns the pages that a file segment of `used` used pages has reserved: half an extent of single pages, then
    /// whole extents. The list of free extents is never filled ahead, since the extent just taken is on it (fsp0fsp.cc,
    /// `fseg_alloc_free_page_low`, `fseg_alloc_free_extent`, `fseg_fill_free_list`).
    fn reserved(self, used: u32) -> u32 {
        let single = used.min(self.single_pages());
        single + (used - single).next_multiple_of(self.extent())
    }

    /// Returns the reserved pages as [`PageSize::reserved`] does, but for an index that is built sorted. Such a build
    /// does not ask for pages near other pages (btr0bulk.cc, `PageBulk::init`), so its segment takes an extent as soon
    /// as few of its pages are free.
    fn reserved_built(self, used: u32) -> u32 {
        let before_last = used.saturating_sub(1);
        let mut reserved = used.min(self.extent() / 2);
        while before_last >= self.extent() / 2 && before_last + reserved / FILL_FACTOR > reserved {
            reserved += self.extent();
        }
        reserved
    }

    /// Returns the number of children of an interior page, for keys of `key` bytes.
    pub fn fan_out(self, key: u32) -> u32 {
        2 * self.empty() / (2 * (HEADER + key + CHILD) + 1)
    }
}

/// The rules for bytes of records, by the schema of the servers' tables.
#[derive(Debug, Default)]
pub struct Compact {
    schema: Schema,
}

impl Compact {
    /// Returns the bytes of a record of some columns and `system` bytes of system columns (rem0rec.cc,
    /// `rec_get_converted_size_comp`).
    fn record<'a>(&self, columns: impl Iterator<Item = (Column, Value<'a>)>, system: u32) -> u32 {
        let (mut bytes, mut nullable) = (HEADER + system, 0);
        for (column, value) in columns {
            nullable += u32::from(column.nullable);
            bytes += stored(column.kind, value);
        }
        bytes + nullable.div_ceil(8)
    }
}

impl Records for Compact {
    fn row(&self, table: TableId, columns: &Columns<'_>) -> u32 {
        let system = if table.key_columns() == 0 { SYSTEM_COLUMNS + ROW_ID } else { SYSTEM_COLUMNS };
        self.record(self.schema.columns(table).iter().copied().zip(columns.all()), system)
    }

    /// The columns of an entry are those of the index, then those of the primary key that it lacks (dict0dict.cc,
    /// `dict_index_build_internal_non_clust`).
    fn entry(&self, table: TableId, row: &Columns<'_>, columns: &[usize]) -> u32 {
        let of = self.schema.columns(table);
        self.record(columns.iter().map(|&column| (of[column], row.value(column))), 0)
    }
}

/// Returns the bytes of a value, with its length (data0type.ic, `dtype_get_fixed_size_low`; decimal.c,
/// `decimal_bin_size`).
fn stored(kind: Type, value: Value<'_>) -> u32 {
    const OF_DIGITS: [u32; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
    let digits = |digits: u32| digits / 9 * 4 + OF_DIGITS[digits as usize % 9];
    match (kind, value) {
        (_, Value::Null) => 0,
        (Type::Int(bytes), _) => bytes,
        (Type::Char(chars), _) => chars,
        (Type::Decimal(all, behind), _) => digits(all - behind) + digits(behind),
        (Type::Datetime, _) => 5,
        (Type::Varchar(most), Value::Text(text)) => {
            let chars = text.len() as u32;
            chars + if most > 255 && chars > 127 { 2 } else { 1 }
        }
        (Type::Varchar(_), _) => 1,
    }
}

/// Returns whether an index is built sorted, after its table's load.
pub(super) fn is_built(of: Relation) -> bool {
    matches!(of, Relation::ByName | Relation::ByCustomer)
}

/// Returns DATA_LENGTH and INDEX_LENGTH of all tables after the load: the bytes that the two segments of each tree have
/// reserved (ha_innodb.cc, `calculate_index_size_stats`; dict0stats.cc, `dict_stats_update_transient_for_index`).
pub(super) fn reserved_bytes(size: PageSize, trees: &[Tree]) -> u64 {
    let of_tree = |(of, tree): (Relation, &Tree)| {
        let leaves = tree.leaf_pages().len() as u32;
        let reserved = if is_built(of) { PageSize::reserved_built } else { PageSize::reserved };
        u64::from(reserved(size, tree.interior().count(leaves)) + reserved(size, leaves))
    };
    Relation::ALL.into_iter().zip(trees).map(of_tree).sum::<u64>() * u64::from(size.0)
}

/// Lays the tree of a relation out. `transactions` bounds how much it may grow.
pub(super) fn lay_out(size: PageSize, loaded: &Loaded, of: Relation, objects: &mut Objects, transactions: u64) -> Tree {
    let takes = |rows, bytes, record| match is_built(of) {
        true => size.takes_built(rows, bytes, record),
        false => size.takes_next(rows, bytes, record),
    };
    // The first leaf is the root. When the root is full, its rows move to another page. That page does not record where
    // the last insert was, so InnoDB splits it at its middle record (btr0btr.cc, `btr_root_raise_and_insert`;
    // page0page.h, `page_get_middle_rec`).
    let halves_first = !is_built(of);
    // The argument is the bytes of a key above the leaves.
    let fan_out = size.fan_out(match of {
        Relation::Warehouse => 2,
        Relation::District => 3,
        Relation::Item => 4,
        Relation::Stock | Relation::History => 6,
        Relation::OrderLine => 8,
        Relation::ByCustomer => 11,
        Relation::ByName => 32,
        _ => 7,
    });
    let rows_per_group = match of {
        Relation::Customer | Relation::ByName => Some(CUSTOMERS),
        Relation::District => Some(DISTRICTS),
        Relation::Item | Relation::Stock => Some(ITEMS),
        Relation::Warehouse => Some(10_000),
        _ => None,
    };
    if let Some(rows_per_group) = rows_per_group {
        let packing = pack(loaded.rows(of).map(|(.., bytes)| bytes), halves_first, takes);
        return Tree::Packed(Packed::new(objects, of.name(), packing, rows_per_group, fan_out));
    }
    let groups = if of == Relation::History { 1 } else { loaded.districts() };
    let is_of_entries = of == Relation::ByCustomer;
    let keys = if is_of_entries { u64::from(CUSTOMERS + 1) << ORDER_BITS } else { 1 << 31 };
    let mut loading = Loading::new(groups, keys, halves_first);
    loaded.rows(of).for_each(|(group, key, bytes)| loading.push(group, key, bytes.into(), &takes));
    let leaves = loading.leaves;
    // The bound on a table's growth assumes that every transaction is a New-Order or a Payment, and that leaves are as
    // little as half full.
    let rows = if of == Relation::OrderLine { 8 } else { 1 };
    let bytes = u64::from(loaded.inserted(of));
    let growth = (transactions * rows * bytes / u64::from(size.0) * 3 / 2) as u32 + 64;
    let room = growth
        + match of {
            Relation::History => 0,
            Relation::ByCustomer => 2 * leaves,
            Relation::NewOrder => 2 * groups + leaves / 4 + 2 * leaves + size.extent(),
            _ => 2 * groups + leaves / 4,
        };
    let mut tree = Grown::new(objects, of.name(), loading, fan_out, room);
    tree.segment = (of == Relation::NewOrder).then(|| Segment::new(leaves, size.reserved(leaves), size.extent()));
    Tree::Grown(tree)
}
