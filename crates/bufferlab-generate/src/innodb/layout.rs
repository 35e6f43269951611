//! InnoDB's pages after the load: bytes of records, rows of leaves. Files are those of MySQL 5.7's storage/innobase.
//!
//! Tables are loaded in the order of their keys; secondary indexes are built afterwards, sorted.

use bufferlab_workload::client::Value;
use bufferlab_workload::tpcc::schema::{CUSTOMERS, ITEMS, ORDERS, TableId};

use crate::loaded::{Columns, Loaded, Records, UNDELIVERED};
use crate::pools::Objects;
use crate::schema::{Column, Schema, Type};
use crate::segment::Segment;
use crate::tree::{Fill, Grown, Loading, Packed, Packing, pack};

/// Bytes of a compact record before its data, without null bits and lengths (rem0rec.h, `REC_N_NEW_EXTRA_BYTES`).
pub(super) const HEADER: u32 = 5;
/// DB_TRX_ID and DB_ROLL_PTR of a clustered record (data0type.h, `DATA_TRX_ID_LEN`, `DATA_ROLL_PTR_LEN`).
pub(super) const SYSTEM_COLUMNS: u32 = 6 + 7;
/// DB_ROW_ID of a table without a primary key (data0type.h, `DATA_ROW_ID_LEN`).
const ROW_ID: u32 = 6;
/// A page's number in a node pointer (rem0types.h, `REC_NODE_PTR_SIZE`).
const CHILD: u32 = 4;

/// A segment asks for an extent when it has less than one free page in so many (fsp0fsp.cc, `FSEG_FILLFACTOR`).
const FILL_FACTOR: u32 = 8;

/// Bits by which a key holds a customer above an order.
pub(super) const ORDER_BITS: u32 = 19;
/// Lines of an order at most, as a stride of keys.
pub(super) const LINE_STRIDE: u32 = 16;

/// Trees that a prefill of TPC-C reads.
const TREES: u32 = 11;
/// Pages of an area that is read ahead (buf0rea.h, `BUF_READ_AHEAD_PAGES`).
const READ_AHEAD: u32 = 64;

/// Returns how many misses a server counts at most while it reads all tables in order. It reads the extents behind a
/// tree's first one ahead (buf0rea.cc, `buf_read_ahead_linear`), and a page that was read ahead is no miss: with 12
/// warehouses MySQL 5.7.22 counted about a tenth of the pool's frames, where the reads had filled it.
pub(crate) fn prefill_misses(page_bytes: u32) -> u64 {
    u64::from(TREES * (PageSize(page_bytes).single_pages() + READ_AHEAD))
}

/// Sizes of pages.
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

    /// Returns the bytes left once a page of so many rows and bytes were reorganised and had one row more
    /// (page0page.ic, `page_get_max_insert_size_after_reorganize`).
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

    /// Returns the pages of an extent, of 1 MiB for these sizes (fsp0types.h, `FSP_EXTENT_SIZE`).
    fn extent(self) -> u32 {
        (1 << 20) / self.0
    }

    /// Returns the single pages that a file segment takes before its first extent (fsp0fsp.h, `FSEG_FRAG_LIMIT`).
    pub(super) fn single_pages(self) -> u32 {
        self.extent() / 2
    }

    /// Returns the pages that a file segment of so many used pages has reserved: half an extent of single pages, then
    /// whole extents. The list of free extents is never filled ahead, since the extent just taken is on it (fsp0fsp.cc,
    /// `fseg_alloc_free_page_low`, `fseg_alloc_free_extent`, `fseg_fill_free_list`).
    fn reserved(self, used: u32) -> u32 {
        let single = used.min(self.single_pages());
        single + (used - single).next_multiple_of(self.extent())
    }

    /// The same for a sorted build, which names no page to be near (btr0bulk.cc, `PageBulk::init`): such a segment takes
    /// an extent as soon as few of its pages are free.
    fn reserved_built(self, used: u32) -> u32 {
        let before_last = used.saturating_sub(1);
        let mut reserved = used.min(self.extent() / 2);
        while before_last >= self.extent() / 2 && before_last + reserved / FILL_FACTOR > reserved {
            reserved += self.extent();
        }
        reserved
    }

    /// Returns the children of an interior page, by the bytes of a key.
    pub fn fan_out(self, key: u32) -> u32 {
        2 * self.empty() / (2 * (HEADER + key + CHILD) + 1)
    }
}

/// A clustered index while rows come in the order of their keys.
pub(super) struct Clustered(pub(super) PageSize);

impl Fill for Clustered {
    fn takes(&self, rows: u32, bytes: u32, record: u32) -> bool {
        self.0.takes_next(rows, bytes, record)
    }

    /// The first leaf is the root. When it is full its rows move to another page, which forgets the last insert, so
    /// that it is split at its middle record (btr0btr.cc, `btr_root_raise_and_insert`; page0page.h,
    /// `page_get_middle_rec`).
    fn first_keeps(&self, rows: u32) -> u32 {
        rows / 2
    }
}

/// A secondary index while it is built.
struct Built(PageSize);

impl Fill for Built {
    fn takes(&self, rows: u32, bytes: u32, record: u32) -> bool {
        self.0.takes_built(rows, bytes, record)
    }
}

/// Bytes of records, by the schema of the servers' tables.
#[derive(Debug, Default)]
pub struct Compact {
    schema: Schema,
}

impl Compact {
    /// Returns the bytes of a record of some columns (rem0rec.cc, `rec_get_converted_size_comp`).
    fn record<'a>(&self, columns: impl Iterator<Item = (Column, Value<'a>)>, system: u32) -> u32 {
        let (mut bytes, mut nullable) = (HEADER + system, 0);
        for (column, value) in columns {
            nullable += u32::from(column.nullable);
            bytes += stored(column.kind, value);
        }
        bytes + nullable.div_ceil(8)
    }

    fn some(&self, table: TableId, row: &Columns<'_>, columns: &[usize]) -> u32 {
        let of = self.schema.columns(table);
        self.record(columns.iter().map(|&column| (of[column], row.value(column))), 0)
    }
}

impl Records for Compact {
    fn row(&self, table: TableId, columns: &Columns<'_>) -> u32 {
        let system = if table.key_columns() == 0 { SYSTEM_COLUMNS + ROW_ID } else { SYSTEM_COLUMNS };
        self.record(self.schema.columns(table).iter().copied().zip(columns.all()), system)
    }

    /// Its columns are those of the index and then what the primary key has more (dict0dict.cc,
    /// `dict_index_build_internal_non_clust`).
    fn name_entry(&self, customer: &Columns<'_>) -> u32 {
        self.some(TableId::Customer, customer, &[0, 1, 5, 3, 2])
    }

    fn order_entry(&self, order: &Columns<'_>) -> u32 {
        self.some(TableId::Orders, order, &[0, 1, 3, 2])
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

/// Bytes that a line's date of delivery takes, null before.
pub(super) const DELIVERY_DATE: u32 = 5;
/// Bytes that an order's carrier takes, null before.
pub(super) const CARRIER: u32 = 1;

/// The trees of the database, and bytes of rows that the run inserts.
pub(super) struct Trees {
    pub(super) warehouse: Packed,
    pub(super) district: Packed,
    pub(super) item: Packed,
    pub(super) stock: Packed,
    pub(super) customer: Packed,
    pub(super) customer_by_name: Packed,
    pub(super) history: Grown,
    pub(super) orders: Grown,
    pub(super) orders_by_customer: Grown,
    pub(super) new_order: Grown,
    pub(super) order_line: Grown,
    pub(super) bytes: RowBytes,
}

impl Trees {
    /// Returns DATA_LENGTH and INDEX_LENGTH of all tables after the load: what the two segments of each tree have
    /// reserved (ha_innodb.cc, `calculate_index_size_stats`; dict0stats.cc, `dict_stats_update_transient_for_index`).
    pub(super) fn reserved_bytes(&self, size: PageSize) -> u64 {
        let Trees { warehouse, district, item, stock, customer, customer_by_name, .. } = self;
        let fixed = |tree: &Packed| (tree.interior.count(tree.leaves()), tree.leaves());
        let grown = |tree: &Grown| {
            let leaves = tree.leaves().count() as u32;
            (tree.interior.count(leaves), leaves)
        };
        let clustered = [warehouse, district, item, stock, customer].map(fixed);
        let clustered =
            clustered.into_iter().chain([&self.history, &self.orders, &self.new_order, &self.order_line].map(grown));
        let built = [fixed(customer_by_name), grown(&self.orders_by_customer)];
        let of_clustered = clustered.map(|(interior, leaves)| size.reserved(interior) + size.reserved(leaves));
        let of_built = built.map(|(interior, leaves)| size.reserved_built(interior) + size.reserved_built(leaves));
        of_clustered.chain(of_built).map(u64::from).sum::<u64>() * u64::from(size.0)
    }
}

/// The trees that grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growing {
    History,
    Orders,
    /// The index of orders on customers.
    Entries,
    NewOrder,
    Lines,
}

impl Trees {
    /// Returns the trees that grow, in the order in which the prefill reads them.
    pub(super) fn all_grown(&self) -> [&Grown; 5] {
        [&self.history, &self.order_line, &self.orders, &self.new_order, &self.orders_by_customer]
    }

    /// Returns the others, in that order.
    pub(super) fn all_packed(&self) -> [&Packed; 6] {
        [&self.customer_by_name, &self.customer, &self.stock, &self.item, &self.district, &self.warehouse]
    }

    /// Returns the pages above the leaves.
    pub(super) fn interior_pages(&self) -> Vec<u32> {
        let grown = self.all_grown().into_iter().flat_map(|tree| tree.interior.all());
        grown.chain(self.all_packed().into_iter().flat_map(|tree| tree.interior.all())).collect()
    }

    pub(super) fn grown(&self, table: Growing) -> &Grown {
        match table {
            Growing::History => &self.history,
            Growing::Orders => &self.orders,
            Growing::Entries => &self.orders_by_customer,
            Growing::NewOrder => &self.new_order,
            Growing::Lines => &self.order_line,
        }
    }

    pub(super) fn grown_mut(&mut self, table: Growing) -> &mut Grown {
        match table {
            Growing::History => &mut self.history,
            Growing::Orders => &mut self.orders,
            Growing::Entries => &mut self.orders_by_customer,
            Growing::NewOrder => &mut self.new_order,
            Growing::Lines => &mut self.order_line,
        }
    }
}

/// Bytes of rows that the run inserts.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowBytes {
    pub(super) history: u32,
    pub(super) order: u32,
    pub(super) order_entry: u32,
    pub(super) new_order: u32,
    pub(super) line: u32,
}

impl RowBytes {
    pub(super) fn of(&self, table: Growing) -> u32 {
        match table {
            Growing::History => self.history,
            Growing::Orders => self.order,
            Growing::Entries => self.order_entry,
            Growing::NewOrder => self.new_order,
            Growing::Lines => self.line,
        }
    }
}

/// Key of an entry in the index of orders on customers.
pub(super) fn entry_key(customer: u32, order: u32) -> u32 {
    customer << ORDER_BITS | order
}

/// Key of a line.
pub(super) fn line_key(order: u32, line: u32) -> u32 {
    order * LINE_STRIDE + line
}

/// Lays the database out. `transactions` bounds the growth.
pub(super) fn lay_out(size: PageSize, loaded: &Loaded, objects: &mut Objects, transactions: u64) -> Trees {
    let (next, built) = (Clustered(size), Built(size));
    let districts = loaded.districts();
    let of_districts = |of: fn(&crate::loaded::District) -> &[u16]| {
        (0..districts).flat_map(move |district| of(loaded.district(district)).iter().copied())
    };
    let stock = (1..=loaded.warehouses()).flat_map(|warehouse| loaded.stock(warehouse).iter().copied());
    let fixed = |objects: &mut Objects, name: &str, packing: Packing, group: u32, key: u32| {
        Packed::new(objects, name, packing, group, size.fan_out(key))
    };
    let customer = fixed(objects, "customer", pack(of_districts(|d| &d.customers), &next), CUSTOMERS, 7);
    let names = pack(of_districts(|d| &d.names), &built);
    let customer_by_name = fixed(objects, "customer.customer_by_name", names, CUSTOMERS, 32);
    let own = (0..districts).map(|district| loaded.district(district).row);
    let district = fixed(objects, "district", pack(own, &next), 10, 3);
    let bytes = inserted(loaded);
    // Most that a table grows by: every transaction a New-Order, or a Payment, and leaves half full at worst.
    let growth =
        |rows: u64, bytes: u32| (transactions * rows * u64::from(bytes) / u64::from(size.0) * 3 / 2) as u32 + 64;
    let history = load(loaded, Growing::History, &next);
    let history = Grown::new(objects, "history", history, size.fan_out(6), growth(1, bytes.history));
    let item = fixed(objects, "item", pack(loaded.items.iter().copied(), &next), ITEMS, 4);
    let new_order = load(loaded, Growing::NewOrder, &next);
    let room = 2 * new_order.leaves() + 2 * districts + growth(1, bytes.new_order);
    let leaves = new_order.leaves();
    let segment = Segment::new(leaves, size.reserved(leaves), size.extent());
    let room = room + size.extent() + leaves / 4;
    let new_order = Grown::new(objects, "new_order", new_order, size.fan_out(7), room).with_segment(segment);
    let order_line = load(loaded, Growing::Lines, &next);
    let room = 2 * districts + growth(8, bytes.line) + order_line.leaves() / 4;
    let order_line = Grown::new(objects, "order_line", order_line, size.fan_out(8), room);
    let orders = load(loaded, Growing::Orders, &next);
    let room = 2 * districts + growth(1, bytes.order) + orders.leaves() / 4;
    let orders = Grown::new(objects, "orders", orders, size.fan_out(7), room);
    let entries = load(loaded, Growing::Entries, &built);
    let room = 2 * entries.leaves() + growth(1, bytes.order_entry);
    let entries = Grown::new(objects, "orders.orders_by_customer", entries, size.fan_out(11), room);
    Trees {
        customer,
        customer_by_name,
        district,
        history,
        item,
        new_order,
        order_line,
        orders,
        orders_by_customer: entries,
        stock: fixed(objects, "stock", pack(stock, &next), ITEMS, 6),
        warehouse: {
            let rows = (0..loaded.warehouses()).map(|_| loaded.warehouse);
            fixed(objects, "warehouse", pack(rows, &next), 10_000, 2)
        },
        bytes,
    }
}

fn load(loaded: &Loaded, table: Growing, fill: &impl Fill) -> Loading {
    let groups = if matches!(table, Growing::History) { 1 } else { loaded.districts() };
    let keys = match table {
        Growing::Entries => u64::from(CUSTOMERS + 1) << ORDER_BITS,
        _ => 1 << 31,
    };
    let mut loading = Loading::new(groups, keys);
    for number in 0..loaded.districts() {
        let district = loaded.district(number);
        let mut push = |key: u32, bytes: u16| loading.push(number.min(groups - 1), key, bytes.into(), fill);
        match table {
            Growing::History => {
                district.history.iter().zip(0..).for_each(|(&bytes, row)| push(number * CUSTOMERS + row, bytes));
            }
            Growing::Orders => district.orders.iter().zip(1..).for_each(|(&bytes, order)| push(order, bytes)),
            Growing::NewOrder => {
                district.new_orders.iter().zip(UNDELIVERED).for_each(|(&bytes, order)| push(order, bytes))
            }
            Growing::Entries => {
                for (&bytes, customer) in district.order_entries.iter().zip(1..) {
                    push(entry_key(customer, district.order_of(customer)), bytes);
                }
            }
            Growing::Lines => {
                let mut lines = district.lines.iter();
                for order in 1..=ORDERS {
                    let own = lines.by_ref().take(district.lines_of(order) as usize);
                    own.zip(1..).for_each(|(&bytes, line)| push(line_key(order, line), bytes));
                }
            }
        }
    }
    loading
}

/// Returns the bytes of rows that a run inserts: those of the last loaded order, which is not delivered either.
fn inserted(loaded: &Loaded) -> RowBytes {
    let district = loaded.district(0);
    let mean = |bytes: &[u16]| bytes.iter().map(|&bytes| u32::from(bytes)).sum::<u32>() / bytes.len() as u32;
    let last = |bytes: &[u16]| bytes.last().copied().unwrap_or_default().into();
    RowBytes {
        history: mean(&district.history),
        order: last(&district.orders),
        order_entry: last(&district.order_entries),
        new_order: last(&district.new_orders),
        line: last(&district.lines),
    }
}
