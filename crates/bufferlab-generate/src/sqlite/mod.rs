//! SQLite: what each statement of TPC-C gets from its page cache, by btree.c and the code that SQLite makes of the
//! statements. One connection, `locking_mode = exclusive`.
//!
//! The rules were set beside a page trace of SQLite 3.54.1 (TPC-C, 1 warehouse). On pages of 2 KiB and less rows of
//! CUSTOMER and STOCK have chains of overflow pages. Left out: that free pages of one tree serve another, that numbers
//! of STOCK grow more than twice, and that a customer's grow by large amounts or many payments.

mod btree;
mod layout;
mod overflow;
mod rows;

use std::ops::Range;

use bufferlab_workload::tpcc::schema::{CUSTOMERS, ITEMS, MAX_C_DATA_CHARS, TableId};

use crate::engine::{Engine, Purpose, Row};
use crate::loaded::{Loaded, Records};
use crate::pools::{Objects, Pools};
pub use btree::Btree;
use layout::{Cells, DELIVERY_DATE, ORDER_BITS, Places, RowBytes, Trees, entry_key, line_key, order_key};
pub use rows::Rows;

/// Mean characters of C_DATA after the load (4.3.3.1).
const MEAN_C_DATA_CHARS: u32 = 400;
/// SQLite's smallest page.
pub const MIN_PAGE_BYTES: u32 = 512;
/// The smallest page with the table of hot_rows: its rows have no chains, and no smaller one was set beside a load.
pub const MIN_ROWS_PAGE_BYTES: u32 = 4096;

/// Columns of CUSTOMER that statements read: New-Order's, Payment's, and an update's, which reads what it keeps.
const DISCOUNT_COLUMNS: [usize; 3] = [15, 5, 13];
const PAYMENT_COLUMNS: std::ops::RangeInclusive<usize> = 3..=16;
const KEPT_COLUMNS: std::ops::RangeInclusive<usize> = 3..=20;
/// Columns of STOCK: the text of the first district, the item's text, and what an update reads.
const FIRST_DISTRICT_COLUMN: usize = 3;
const STOCK_DATA_COLUMN: usize = 16;
const KEPT_STOCK_COLUMNS: std::ops::RangeInclusive<usize> = 3..=16;

/// A customer's numbers, as far as their bytes change. The load writes a balance of -1,000 cents, 1,000 cents paid (two
/// bytes each), one payment and no delivery (no byte each).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Account(u8);

impl Account {
    /// The balance has three bytes, as amounts of more than 327 units have.
    const LARGE: u8 = 1;
    /// The sum of payments has three bytes, and their count one.
    const PAID: u8 = 2;
    /// One order was delivered; its count, 1, has no byte.
    const DELIVERED: u8 = 4;
    /// Further orders were; their count has a byte.
    const DELIVERED_AGAIN: u8 = 8;

    /// Notes a fact; returns whether it is new.
    fn becomes(&mut self, fact: u8) -> bool {
        let is_new = self.0 & fact == 0;
        self.0 |= fact;
        is_new
    }

    /// Takes a payment; returns by how many bytes the row grows.
    fn pay(&mut self) -> u16 {
        u16::from(self.becomes(Self::LARGE)) + if self.becomes(Self::PAID) { 2 } else { 0 }
    }

    /// Takes a delivered order; returns by how many bytes the row grows.
    fn deliver(&mut self) -> u16 {
        let grows_again = !self.becomes(Self::DELIVERED) && self.becomes(Self::DELIVERED_AGAIN);
        u16::from(self.becomes(Self::LARGE)) + u16::from(grows_again)
    }
}

/// SQLite's pages and rules.
pub struct Sqlite {
    objects: Objects,
    trees: Trees,
    bytes: RowBytes,
    page_bytes: u32,
    /// Updates of each row of STOCK, up to two.
    stock_updates: Vec<u8>,
    /// What payments and deliveries did to each customer's numbers.
    accounts: Vec<Account>,
    /// Whether the open transaction is a Delivery.
    delivers: bool,
    /// Bytes of a customer's row with the longest text.
    longest_customer: u32,
    /// Where columns are in rows of STOCK and CUSTOMER.
    places: [Places; 2],
    /// Pages that the open transaction changed.
    dirty: Vec<u32>,
    /// Rows that it inserted.
    inserted: Vec<Row>,
}

impl Sqlite {
    /// Returns the sizes of cells, by which a database is loaded.
    pub fn records() -> impl Records {
        Cells
    }

    /// Lays a loaded database out. `transactions` bounds how much it may grow.
    pub fn new(page_bytes: u32, loaded: &Loaded, transactions: u64) -> Self {
        let mut objects = Objects::default();
        let (trees, bytes) = layout::lay_out(page_bytes, loaded, &mut objects, transactions);
        let stock_updates = vec![0; (loaded.warehouses() * ITEMS) as usize];
        let accounts = vec![Account::default(); (loaded.districts() * CUSTOMERS) as usize];
        let customers = &loaded.district(0).customers;
        let mean = customers.iter().map(|&bytes| u32::from(bytes)).sum::<u32>() / CUSTOMERS;
        let longest_customer = mean + MAX_C_DATA_CHARS as u32 - MEAN_C_DATA_CHARS;
        let places = [TableId::Stock, TableId::Customer].map(|table| Places::new(loaded.config(), table));
        Sqlite {
            objects,
            trees,
            bytes,
            page_bytes,
            stock_updates,
            accounts,
            delivers: false,
            longest_customer,
            places,
            dirty: Vec::new(),
            inserted: Vec::new(),
        }
    }

    /// Returns the tree of a row, and the row's key in it.
    fn tree(&mut self, row: Row) -> Option<(&mut Btree, u32)> {
        let trees = &mut self.trees;
        Some(match row {
            Row::Warehouse(warehouse) => (&mut trees.warehouse, warehouse),
            Row::District(district) => (&mut trees.district, district),
            Row::Customer(district, customer) => (&mut trees.customer, district * CUSTOMERS + customer - 1),
            Row::Item(item) => (&mut trees.item, item - 1),
            Row::Stock(warehouse, item) => (&mut trees.stock, (warehouse - 1) * ITEMS + item - 1),
            Row::Order { district, order, .. } => (&mut trees.orders, order_key(district, order)),
            Row::NewOrder(district, order) => (&mut trees.new_order, order_key(district, order)),
            Row::Line(district, order, line) => (&mut trees.order_line, line_key(district, order, line)),
            Row::History => return None,
        })
    }

    /// Returns the bytes by which a row's numbers grow in SQLite's records (the file format's section 2.1, serial types):
    /// a loaded 0, and the 1 after one order, take no byte.
    fn growth(&mut self, row: Row) -> u16 {
        match row {
            Row::Stock(warehouse, item) => {
                let updates = &mut self.stock_updates[((warehouse - 1) * ITEMS + item - 1) as usize];
                *updates = updates.saturating_add(1).min(3);
                u16::from(*updates < 3)
            }
            Row::Customer(district, customer) => {
                let account = &mut self.accounts[(district * CUSTOMERS + customer - 1) as usize];
                if self.delivers { account.deliver() } else { account.pay() }
            }
            Row::Order { .. } => 1,
            _ => 0,
        }
    }

    /// Reads columns of the row where the tree's cursor stands, as far as they are in its chain.
    fn read_columns(&mut self, pools: &mut Pools, row: Row, is_update: bool, purpose: Purpose) {
        let [stock, customer] = &self.places;
        let columns: Vec<(u32, u32)> = match (row, is_update, purpose) {
            (Row::Stock(..), true, _) => stock.of(KEPT_STOCK_COLUMNS).collect(),
            (Row::Stock(_, item), ..) => {
                // A district's customers ask for the text of their own; all districts ask as often.
                let own = FIRST_DISTRICT_COLUMN + item as usize % 10;
                stock.of([own, STOCK_DATA_COLUMN].into_iter()).collect()
            }
            (Row::Customer(..), true, _) => customer.of(KEPT_COLUMNS).collect(),
            (Row::Customer(..), _, Purpose::Change) => customer.of(PAYMENT_COLUMNS).collect(),
            (Row::Customer(..), _, Purpose::Look) => customer.of(DISCOUNT_COLUMNS.into_iter()).collect(),
            _ => return,
        };
        let page_bytes = self.page_bytes;
        let Some((tree, key)) = self.tree(row) else { return };
        let Some((bytes, chain)) = tree.chain(key) else { return };
        let local = overflow::divide(page_bytes, bytes).local;
        let gets = overflow::gets_of_columns(page_bytes, local, columns.into_iter());
        // A row may be shorter than the mean.
        gets.into_iter().filter_map(|place| chain.get(place)).for_each(|&page| pools.get(page, 0));
    }

    fn put(&mut self, pools: &mut Pools, row: Row, bytes: u16) {
        let mut dirty = std::mem::take(&mut self.dirty);
        if let Some((tree, key)) = self.tree(row) {
            tree.insert(pools, key, bytes, &mut dirty);
        }
        self.dirty = dirty;
    }
}

impl Engine for Sqlite {
    const MOST_ORDERS: u32 = (1 << ORDER_BITS) - 1;
    const MOST_WAREHOUSES: u32 = layout::MAX_WAREHOUSES;

    /// Key and size of every row, and the nodes that hold them.
    fn layout_bytes(page_bytes: u32) -> u64 {
        4_000_000 + 9_000_000_000 / u64::from(page_bytes)
    }

    fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The pages of the file, of which a load leaves none free.
    fn bytes(&self) -> u64 {
        let pages: u64 = self.objects.all().iter().map(|object| u64::from(object.pages)).sum();
        pages * u64::from(self.page_bytes)
    }

    fn interior_pages(&self) -> Vec<u32> {
        let of_keys = self.trees.by_key().into_iter().flat_map(Btree::interior_pages);
        of_keys.chain(self.trees.history.interior_pages()).collect()
    }

    /// crates/bufferlab-drive/dialects/sqlite/tpcc/prefill.sql: each table once.
    fn prefill(&mut self, pools: &mut Pools) {
        self.trees.history.pages().for_each(|page| pools.get(page, 0));
        for tree in self.trees.by_key() {
            tree.pages().into_iter().for_each(|page| pools.get(page, 0));
        }
    }

    /// The file's first page tells whether another connection changed it (pager.c, `sqlite3PagerSharedLock`).
    fn begin(&mut self, pools: &mut Pools, _read_only: bool) {
        self.dirty.clear();
        self.inserted.clear();
        self.delivers = false;
        pools.get(self.trees.schema, 0);
    }

    fn commit(&mut self, _pools: &mut Pools) {}

    /// The changed pages leave the cache (pager.c, `pagerUndoCallback`).
    fn rollback(&mut self, pools: &mut Pools) {
        self.dirty.sort_unstable();
        self.dirty.dedup();
        self.dirty.drain(..).for_each(|page| pools.drop_page(page));
        for row in std::mem::take(&mut self.inserted) {
            if let Row::Order { district, order, customer } = row {
                self.trees.orders_by_customer.forget(entry_key(district, customer, order));
            }
            if let Some((tree, key)) = self.tree(row) {
                tree.forget(key);
            }
        }
    }

    fn read(&mut self, pools: &mut Pools, row: Row, purpose: Purpose) {
        if let Some((tree, key)) = self.tree(row) {
            tree.seek(pools, key);
            self.read_columns(pools, row, false, purpose);
        }
    }

    /// The row is sought, then written by its whole key. A row that keeps its size keeps its chain, each page of which is
    /// read (`btreeOverwriteOverflowCell`).
    fn update(&mut self, pools: &mut Pools, row: Row, note: u32) {
        let (longest, by) = (self.longest_customer, self.growth(row));
        let mut dirty = std::mem::take(&mut self.dirty);
        if let Some((tree, key)) = self.tree(row) {
            tree.seek(pools, key);
            self.read_columns(pools, row, true, Purpose::Change);
        }
        if let Some((tree, key)) = self.tree(row) {
            dirty.push(tree.rewrite(pools, key));
            let note = note.min(longest.saturating_sub(tree.bytes()));
            if by > 0 || note > 0 {
                tree.grow(pools, key, by + note as u16, &mut dirty);
            } else if let Some((_, chain)) = tree.chain(key) {
                chain.iter().for_each(|&page| pools.get(page, 0));
                dirty.extend(chain);
            }
        }
        self.dirty = dirty;
    }

    fn insert(&mut self, pools: &mut Pools, row: Row) {
        let RowBytes { order, order_entry, new_order, line, history } = self.bytes;
        self.inserted.push(row);
        match row {
            Row::History => {
                self.trees.history.append(pools, history, self.page_bytes, &mut self.dirty);
            }
            Row::Order { district, order: number, customer } => {
                self.put(pools, row, order);
                let key = entry_key(district, customer, number);
                self.trees.orders_by_customer.insert(pools, key, order_entry, &mut self.dirty);
            }
            Row::NewOrder(..) => self.put(pools, row, new_order),
            _ => self.put(pools, row, line),
        }
    }

    fn read_names(&mut self, pools: &mut Pools, district: u32, places: Range<u32>) {
        let tree = &mut self.trees.customer_by_name;
        tree.seek(pools, district * CUSTOMERS + places.start);
        tree.go_on(pools, district * CUSTOMERS + places.end);
    }

    fn read_last_order(&mut self, pools: &mut Pools, district: u32, customer: u32, order: u32) {
        self.trees.orders_by_customer.seek(pools, entry_key(district, customer, order) + 1);
        self.trees.orders.seek(pools, order_key(district, order));
    }

    fn read_lines(&mut self, pools: &mut Pools, district: u32, order: u32, lines: u32) {
        let tree = &mut self.trees.order_line;
        tree.seek(pools, line_key(district, order, 1));
        tree.go_on(pools, line_key(district, order, lines) + 1);
    }

    /// The lines are written where the cursor finds them; after a balance it is sought again.
    fn deliver_lines(&mut self, pools: &mut Pools, district: u32, order: u32, lines: u32) {
        self.delivers = true;
        let tree = &mut self.trees.order_line;
        tree.seek(pools, line_key(district, order, 1));
        let mut leaf = tree.current();
        for line in 1..=lines {
            let key = line_key(district, order, line);
            if tree.grow(pools, key, DELIVERY_DATE, &mut self.dirty) {
                tree.seek(pools, key);
            } else if tree.current() != leaf && line > 1 {
                pools.get(tree.current(), 0);
            }
            leaf = tree.current();
        }
    }

    fn read_oldest(&mut self, pools: &mut Pools, district: u32, oldest: Option<u32>) {
        self.trees.new_order.seek(pools, order_key(district, oldest.unwrap_or(0)));
    }

    fn delete_new_order(&mut self, pools: &mut Pools, district: u32, order: u32) {
        let key = order_key(district, order);
        self.trees.new_order.seek(pools, key);
        self.trees.new_order.delete(pools, key, &mut self.dirty);
    }

    /// The cursor on STOCK stays open over the lines.
    fn read_low_stock(&mut self, pools: &mut Pools, district: u32, orders: Range<u32>, items: &[Vec<u32>]) {
        let warehouse = district / 10;
        self.trees.order_line.seek(pools, line_key(district, orders.start, 1));
        let mut is_open = false;
        for (order, items) in orders.zip(items) {
            for (&item, line) in items.iter().zip(1..) {
                self.trees.order_line.go_on(pools, line_key(district, order, line));
                let key = warehouse * ITEMS + item - 1;
                if std::mem::replace(&mut is_open, true) {
                    self.trees.stock.seek_on(pools, key);
                } else {
                    self.trees.stock.seek(pools, key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::layout::cell;
    use super::*;
    use bufferlab_workload::client::Value;

    /// Bytes of a customer's balance, payments, and counts of payments and deliveries, as SQLite writes them.
    fn bytes(numbers: [i64; 4]) -> u32 {
        // The text keeps the cell above its least size.
        cell(numbers.map(Value::Int).into_iter().chain([Value::Text("a customer's other columns")]))
    }

    #[test]
    fn a_customers_row_grows_by_what_sqlite_writes_of_its_numbers() {
        let (mut numbers, mut account) = ([-1_000_i64, 1_000, 1, 0], Account::default());
        for amount in [250_000, -4_000_000, 60_000, -50_000, 400_000, -3_000_000] {
            let before = bytes(numbers);
            numbers[0] -= amount;
            let grows = if amount > 0 {
                (numbers[1], numbers[2]) = (numbers[1] + amount, numbers[2] + 1);
                account.pay()
            } else {
                numbers[3] += 1;
                account.deliver()
            };
            assert_eq!(bytes(numbers) - before, u32::from(grows), "{amount} led to {numbers:?}");
        }
        let mut delivered_first = Account::default();
        assert_eq!([delivered_first.deliver(), delivered_first.pay(), delivered_first.pay()], [1, 2, 0]);
    }
}
