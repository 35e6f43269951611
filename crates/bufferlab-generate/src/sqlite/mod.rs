//! SQLite: which pages each operation gets from the page cache, after btree.c and the code to which SQLite compiles the
//! statements. There is one connection, with `locking_mode = exclusive`.
//!
//! The rules were compared with a page trace of SQLite 3.54.1 (TPC-C, 1 warehouse). On pages of 2 KiB and less rows of
//! CUSTOMER and STOCK have chains of overflow pages. Not simulated: reuse of one tree's free pages by another; rows of
//! STOCK whose numbers grow more than twice; rows of CUSTOMER whose numbers grow by large amounts or many payments.

mod btree;
mod hot_rows;
mod layout;
mod overflow;

use bufferlab_workload::tpcc::schema::{CUSTOMERS, ITEMS, MAX_C_DATA_CHARS, TableId};

use crate::engine::{Engine, Purpose, RELATIONS, Relation, Row, Span};
use crate::hot_rows::RowsAsked;
use crate::job::Limits;
use crate::loaded::{Loaded, Records};
use crate::log_writes::{LogWrites, Wal};
use crate::pools::{Objects, Pools};
use crate::tree::Packed;
use btree::Btree;
use layout::{Cells, DELIVERY_DATE, History, ORDER_BITS, Places, inserted, key_of};

/// The name of the object that is the file's first page.
const SCHEMA: &str = "sqlite_schema";
/// Mean characters of C_DATA after the load (TPC-C, clause 4.3.3.1).
const MEAN_C_DATA_CHARS: u32 = 400;
/// Bytes of SQLite's smallest page.
pub const MIN_PAGE_BYTES: u32 = 512;
/// Bytes of the smallest page for the table of hot_rows. On such pages its rows have no chains of overflow pages; no
/// smaller page was compared with a load.
pub const MIN_ROWS_PAGE_BYTES: u32 = 4096;

/// Columns of CUSTOMER that statements read: New-Order's, Payment's, and those that an update reads because it keeps
/// them.
const DISCOUNT_COLUMNS: [usize; 3] = [15, 5, 13];
const PAYMENT_COLUMNS: std::ops::RangeInclusive<usize> = 3..=16;
const KEPT_COLUMNS: std::ops::RangeInclusive<usize> = 3..=20;
/// Columns of STOCK: the text of the first district, the item's text, and the columns that an update reads.
const FIRST_DISTRICT_COLUMN: usize = 3;
const STOCK_DATA_COLUMN: usize = 16;
const KEPT_STOCK_COLUMNS: std::ops::RangeInclusive<usize> = 3..=16;

/// Returns the limits of SQLite's rules. A layout keeps in memory the key and size of every row, and the nodes of
/// trees.
pub(crate) fn limits(page_bytes: u32) -> Limits {
    let layout_bytes = 4_000_000 + 9_000_000_000 / u64::from(page_bytes);
    Limits { layout_bytes, ..Limits::of(layout::MAX_WAREHOUSES, page_bytes) }
}

/// Facts about the numbers in a customer's row that decide how many bytes the numbers take. The load writes a balance
/// of -1,000 cents, 1,000 cents paid (two bytes each), one payment and no delivery (no byte each).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Account(u8);

impl Account {
    /// The balance has three bytes, as amounts of more than 327 units have.
    const LARGE: u8 = 1;
    /// The sum of payments has three bytes, and their count one.
    const PAID: u8 = 2;
    /// One order was delivered; its count, 1, has no byte.
    const DELIVERED: u8 = 4;
    /// More than one order was delivered; their count has one byte.
    const DELIVERED_AGAIN: u8 = 8;

    /// Notes a fact about the customer's numbers; returns whether the fact is new.
    fn becomes(&mut self, fact: u8) -> bool {
        let is_new = self.0 & fact == 0;
        self.0 |= fact;
        is_new
    }

    /// Books a payment; returns by how many bytes the row grows.
    fn pay(&mut self) -> u16 {
        u16::from(self.becomes(Self::LARGE)) + if self.becomes(Self::PAID) { 2 } else { 0 }
    }

    /// Books a delivered order; returns by how many bytes the row grows.
    fn deliver(&mut self) -> u16 {
        let grows_again = !self.becomes(Self::DELIVERED) && self.becomes(Self::DELIVERED_AGAIN);
        u16::from(self.becomes(Self::LARGE)) + u16::from(grows_again)
    }
}

/// SQLite's pages and rules.
#[derive(Default)]
pub struct Sqlite {
    objects: Objects,
    page_bytes: u32,
    /// The number, in the pools, of the file's first page.
    schema: u32,
    /// TPC-C's trees by relation; empty for hot_rows.
    trees: Vec<Btree>,
    history: History,
    /// The table of hot_rows; none for TPC-C.
    hot_rows: Option<Packed>,
    /// Bytes of one row that the run inserts, by relation.
    bytes: [u16; RELATIONS],
    /// The number of updates of each row of STOCK; 3 means three or more.
    stock_updates: Vec<u8>,
    /// The effects of payments and deliveries on each customer's numbers.
    accounts: Vec<Account>,
    /// Whether the open transaction is a Delivery.
    delivers: bool,
    /// Bytes of a customer's row with the longest text.
    longest_customer: u32,
    /// The places of columns in rows of STOCK and CUSTOMER.
    places: [Places; 2],
    /// Rows that the open transaction inserted.
    inserted: Vec<Row>,
    /// The write-ahead log; none if its writes are not counted.
    wal: Option<Wal>,
}

impl Sqlite {
    /// Returns the rules for sizes of cells, with which [`Loaded`] measures rows.
    pub fn records() -> impl Records {
        Cells
    }

    /// Lays a loaded database out. `transactions` bounds how much it may grow.
    pub fn new(page_bytes: u32, loaded: &Loaded, transactions: u64) -> Self {
        let mut objects = Objects::default();
        let schema = objects.add(SCHEMA, 1, 1);
        let bytes = Relation::ALL.map(|of| inserted(loaded, of));
        let (trees, history) = layout::lay_out(page_bytes, loaded, &mut objects, transactions, &bytes);
        let longest_customer = u32::from(loaded.mean(Relation::Customer)) + MAX_C_DATA_CHARS as u32 - MEAN_C_DATA_CHARS;
        Sqlite {
            objects,
            page_bytes,
            schema,
            trees,
            history,
            bytes,
            stock_updates: vec![0; (loaded.warehouses() * ITEMS) as usize],
            accounts: vec![Account::default(); (loaded.districts() * CUSTOMERS) as usize],
            longest_customer,
            places: [TableId::Stock, TableId::Customer].map(|table| Places::new(loaded.config(), table)),
            ..Sqlite::default()
        }
    }

    /// Lays the table of hot_rows out.
    pub fn of_rows(page_bytes: u32, asked: &RowsAsked) -> Self {
        let mut objects = Objects::default();
        let schema = objects.add(SCHEMA, 1, 1);
        let hot_rows = Some(hot_rows::lay_out(page_bytes, asked, &mut objects));
        Sqlite { objects, page_bytes, schema, hot_rows, ..Sqlite::default() }
    }

    /// Counts the writes of the log, with a checkpoint after each commit that makes it `checkpoint_frames` long or
    /// longer.
    pub(crate) fn with_log(self, checkpoint_frames: Option<u64>) -> Self {
        let wal = checkpoint_frames.map(|frames| Wal::new(self.page_bytes, frames));
        Sqlite { wal, ..self }
    }

    /// Returns the pages that the open transaction changed, some of them more than once. A transaction that takes or
    /// frees a page also changes the file's first page, which counts all pages and the free ones (`allocateBtreePage`,
    /// `freePage2`).
    fn changed(&self) -> Vec<u32> {
        let resized = self.trees.iter().any(|tree| tree.is_resized).then_some(self.schema);
        let of_trees = self.trees.iter().flat_map(|tree| tree.dirty.iter().chain(&tree.also_written));
        of_trees.copied().chain(resized).collect()
    }

    fn tree(&mut self, of: Relation) -> &mut Btree {
        &mut self.trees[of as usize]
    }

    /// Returns by how many bytes an update makes a row's numbers grow in SQLite's records (the file format's section
    /// 2.1, serial types): the loaded 0, and the 1 after the first order, take no byte.
    fn growth(&mut self, row: Row) -> u16 {
        match row.of {
            Relation::Stock => {
                let updates = &mut self.stock_updates[row.number() as usize];
                *updates = updates.saturating_add(1).min(3);
                u16::from(*updates < 3)
            }
            Relation::Customer => {
                let account = &mut self.accounts[row.number() as usize];
                if self.delivers { account.deliver() } else { account.pay() }
            }
            Relation::Orders => 1,
            _ => 0,
        }
    }

    /// Reads the chain's pages that hold the columns that a statement reads, for the row at the tree's cursor.
    fn read_columns(&mut self, pools: &mut Pools, row: Row, is_update: bool, purpose: Purpose) {
        let [stock, customer] = &self.places;
        let columns: Vec<(u32, u32)> = match (row.of, is_update, purpose) {
            (Relation::Stock, true, _) => stock.of(KEPT_STOCK_COLUMNS).collect(),
            (Relation::Stock, ..) => {
                // The row has a separate text for each district, and all texts are read equally often.
                let own = FIRST_DISTRICT_COLUMN + row.key as usize % 10;
                stock.of([own, STOCK_DATA_COLUMN].into_iter()).collect()
            }
            (Relation::Customer, true, _) => customer.of(KEPT_COLUMNS).collect(),
            (Relation::Customer, _, Purpose::Change) => customer.of(PAYMENT_COLUMNS).collect(),
            (Relation::Customer, _, Purpose::Look) => customer.of(DISCOUNT_COLUMNS.into_iter()).collect(),
            _ => return,
        };
        let page_bytes = self.page_bytes;
        let Some((bytes, chain)) = self.tree(row.of).chain(key_of(row)) else { return };
        let local = overflow::divide(page_bytes, bytes).local;
        let gets = overflow::gets_of_columns(page_bytes, local, columns.into_iter());
        // A row may be shorter than the mean row, and its chain too.
        gets.into_iter().filter_map(|place| chain.get(place)).for_each(|&page| pools.get(page, 0));
    }
}

impl Engine for Sqlite {
    fn most_orders(&self) -> u32 {
        (1 << ORDER_BITS) - 1
    }

    fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Returns the bytes of all pages of the file, none of which the load leaves free; none for hot_rows.
    fn bytes(&self) -> Option<u64> {
        let pages: u64 = self.objects.all().iter().map(|object| u64::from(object.pages)).sum();
        self.hot_rows.is_none().then_some(pages * u64::from(self.page_bytes))
    }

    fn interior_pages(&self) -> Vec<u32> {
        let hot_rows = self.hot_rows.iter().flat_map(|table| table.interior.all());
        let of_history = self.trees.get(Relation::History as usize).map(Btree::pages).unwrap_or_default();
        hot_rows.chain(of_history).chain(self.trees.iter().flat_map(Btree::interior_pages)).collect()
    }

    /// Reads each table once (crates/bufferlab-drive/dialects/sqlite/tpcc/prefill.sql).
    fn prefill(&mut self, pools: &mut Pools) {
        for of in Relation::PREFILLED {
            self.tree(of).pages().into_iter().for_each(|page| pools.get(page, 0));
            if of == Relation::History {
                (self.history.first_leaf..=self.history.last).for_each(|page| pools.get(page, 0));
            }
        }
    }

    /// Reads the file's first page, which shows whether another connection changed it (pager.c,
    /// `sqlite3PagerSharedLock`).
    fn begin(&mut self, pools: &mut Pools) {
        self.trees.iter_mut().for_each(Btree::begin);
        self.inserted.clear();
        self.delivers = false;
        pools.get(self.schema, 0);
    }

    /// Writes the changed pages to the log.
    fn commit(&mut self, _pools: &mut Pools) {
        if let Some(mut wal) = self.wal.take() {
            wal.commit(self.changed());
            self.wal = Some(wal);
        }
    }

    fn log_writes(&self) -> LogWrites {
        self.wal.as_ref().map_or_else(LogWrites::default, Wal::written)
    }

    /// Drops the changed pages from the cache (pager.c, `pagerUndoCallback`).
    fn rollback(&mut self, pools: &mut Pools) {
        let mut dirty: Vec<u32> = self.trees.iter_mut().flat_map(|tree| tree.dirty.drain(..)).collect();
        dirty.sort_unstable();
        dirty.dedup();
        dirty.into_iter().for_each(|page| pools.drop_page(page));
        for row in std::mem::take(&mut self.inserted) {
            row.second().into_iter().chain([row]).for_each(|row| self.tree(row.of).forget(key_of(row)));
        }
    }

    fn read(&mut self, pools: &mut Pools, row: Row, purpose: Purpose) {
        if let Some(table) = &self.hot_rows {
            let leaf = table.leaf(row.number());
            table.interior.path(leaf).for_each(|page| pools.get(page, 0));
            return pools.get(table.page(leaf), 0);
        }
        self.tree(row.of).seek(pools, key_of(row));
        self.read_columns(pools, row, false, purpose);
    }

    fn read_last(&mut self, pools: &mut Pools, order: Row) {
        if let Some(entry) = order.second() {
            self.tree(entry.of).seek(pools, key_of(entry) + 1);
        }
        self.tree(order.of).seek(pools, key_of(order));
    }

    fn read_first(&mut self, pools: &mut Pools, of: Relation, group: u32, lowest: Option<u32>) {
        self.tree(of).seek(pools, key_of(Row::new(of, group, lowest.unwrap_or(0))));
    }

    fn scan(&mut self, pools: &mut Pools, span: Span) {
        let tree = self.tree(span.first.of);
        tree.seek(pools, key_of(span.first));
        tree.go_on(pools, key_of(span.row(span.rows)));
    }

    /// The cursor on the joined table stays open from row to row.
    fn join(&mut self, pools: &mut Pools, spans: &[(Span, Vec<Row>)]) {
        spans.first().into_iter().for_each(|(span, _)| self.tree(span.first.of).seek(pools, key_of(span.first)));
        let mut is_open = false;
        for (span, joined) in spans {
            for (row, &joined) in (0..).map(|place| span.row(place)).zip(joined) {
                self.tree(row.of).go_on(pools, key_of(row));
                let tree = self.tree(joined.of);
                if std::mem::replace(&mut is_open, true) {
                    tree.seek_on(pools, key_of(joined));
                } else {
                    tree.seek(pools, key_of(joined));
                }
            }
        }
    }

    /// Seeks the row, then writes it by its whole key. A row that keeps its size keeps its chain, each page of which is
    /// read (`btreeOverwriteOverflowCell`). On hot_rows the cursor is still on the row when it is written.
    fn update(&mut self, pools: &mut Pools, row: Row, note: u32) {
        if self.hot_rows.is_some() {
            return self.read(pools, row, Purpose::Change);
        }
        let (longest, by, key) = (self.longest_customer, self.growth(row), key_of(row));
        self.tree(row.of).seek(pools, key);
        self.read_columns(pools, row, true, Purpose::Change);
        let tree = self.tree(row.of);
        let page = tree.rewrite(pools, key);
        tree.dirty.push(page);
        let note = note.min(longest.saturating_sub(tree.bytes()));
        if by > 0 || note > 0 {
            tree.grow(pools, key, by + note as u16);
        } else if let Some((_, chain)) = tree.chain(key) {
            chain.iter().for_each(|&page| pools.get(page, 0));
            tree.dirty.extend(chain);
        }
    }

    /// Writes each line at the place where the cursor finds it. After a balance of the tree, seeks the line again.
    fn update_all(&mut self, pools: &mut Pools, span: Span) {
        self.delivers = true;
        let tree = self.tree(span.first.of);
        tree.seek(pools, key_of(span.first));
        let mut leaf = tree.current();
        for place in 0..span.rows {
            let key = key_of(span.row(place));
            if tree.grow(pools, key, DELIVERY_DATE) {
                tree.seek(pools, key);
            } else if tree.current() != leaf && place > 0 {
                pools.get(tree.current(), 0);
            }
            leaf = tree.current();
        }
    }

    fn insert(&mut self, pools: &mut Pools, row: Row) {
        let bytes = self.bytes;
        if row.of == Relation::History {
            let interior = &mut self.trees[row.of as usize];
            return self.history.append(pools, interior, bytes[row.of as usize]);
        }
        self.inserted.push(row);
        for row in [row].into_iter().chain(row.second()) {
            self.tree(row.of).insert(pools, key_of(row), bytes[row.of as usize]);
        }
    }

    fn delete(&mut self, pools: &mut Pools, row: Row) {
        let tree = self.tree(row.of);
        tree.seek(pools, key_of(row));
        tree.delete(pools, key_of(row));
    }
}

#[cfg(test)]
mod tests {
    use super::layout::cell;
    use super::*;
    use bufferlab_workload::client::Value;

    /// Bytes of a customer's balance, payments, and counts of payments and deliveries, as SQLite writes them.
    fn bytes(numbers: [i64; 4]) -> u32 {
        // The text makes the cell larger than the least size of a cell.
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
