//! PostgreSQL 17: what each statement of TPC-C gets from shared buffers, by the server's sources and the plans that the
//! sessions force (crates/bufferlab-drive/src/postgres/plan.rs). Autovacuum is off, as on a private server.
//!
//! The rules were set beside a page trace of PostgreSQL 17.2 (TPC-C, 4 warehouses, 8 connections). Files and functions
//! are those of 17.0. Left out: waits for locks, and pages of WAREHOUSE and DISTRICT that nobody can prune because
//! waiting sessions keep them pinned; several pages that sessions add to a table at once when they wait for each other;
//! splits above the leaves; equal entries in one (deduplication); numbers of customers that grow. The state of
//! transactions is in pools of its own (slru.c).

mod heap;
mod index;
mod layout;
mod record;
mod rows;
mod session;

use std::ops::Range;

use bufferlab_workload::tpcc::schema::{CUSTOMERS, DISTRICTS, ITEMS, ORDERS};

use crate::engine::{Engine, Purpose, Row, TRANSACTION_US};
use crate::loaded::{Loaded, Records, UNDELIVERED};
use crate::pools::{Object, Objects, Pools};
use heap::{RowId, Updated, Version};
use index::{Entry, Index};
use layout::{Bytes, ORDER_BITS, OWN_DISTRICTS, Table, Trees, entry_key, lay_out, line_key};
use record::Tuples;
pub use rows::Rows;
use session::{FIRST, Now};

/// Bytes of a page: the servers are compiled so.
pub const PAGE_BYTES: u32 = 8192;

/// Pages of the catalogue that sessions read as they connect and plan their statements: of the traced run.
const CATALOG_PAGES: u32 = 357;
/// Pages of it that are read each second, when bufferlab reads the server's counters: of the traced run.
const CATALOG_PAGES_OF_COUNTERS: u32 = 20;
/// Gets of each page before the prefill; the pool counts five at most.
const CATALOG_GETS: u32 = 6;
/// Transactions in a second by the generator's clock; of fewer warehouses for all as many, or the catalogue weighs more.
const COUNTERS_EVERY: u64 = 1_000_000 / TRANSACTION_US;

/// Transactions of each session that are committed while the oldest one is under way. A New-Order has 46 statements and a
/// Delivery 70, and the mean transaction 27.
const OLDEST: u64 = 2;

/// What a rollback takes back.
#[derive(Clone, Copy, Debug)]
enum Change {
    Update(Row, Updated),
    Insert(Row, Version),
}

/// Reads what sessions read of the catalogue as they connect and plan their statements.
fn read_catalog(pools: &mut Pools, catalog: u32) {
    let pages = catalog..catalog + CATALOG_PAGES;
    pages.for_each(|page| (0..CATALOG_GETS).for_each(|_| pools.get(page, FIRST)));
}

/// Reads what is read of the catalogue each second.
fn read_counters(pools: &mut Pools, catalog: u32) {
    let pages = catalog..catalog + CATALOG_PAGES_OF_COUNTERS;
    pages.for_each(|page| (0..2).for_each(|_| pools.get(page, FIRST)));
}

/// Returns the bytes of the main forks of tables and indexes, with each index's meta page, as `pg_relation_size` tells
/// them: the share that a pool is asked for refers to these (python/bufferlab/engines/postgres/relation_sizes.py).
fn relation_bytes(objects: &Objects) -> u64 {
    let forks = objects.all().iter().filter(|object| !object.name.contains('('));
    let pages = |object: &Object| u64::from(object.pages) + u64::from(object.name.contains('.'));
    forks.map(pages).sum::<u64>() * u64::from(PAGE_BYTES)
}

/// PostgreSQL's pages and rules.
pub struct Postgres {
    objects: Objects,
    trees: Trees,
    bytes: Bytes,
    /// First page of the catalogue.
    catalog: u32,
    now: Now,
    sessions: u64,
    changes: Vec<Change>,
    /// Of the districts whose rows are generated: the place of each customer in the index on names, and the customer at
    /// each place.
    places: Vec<Vec<u16>>,
    named: Vec<Vec<u16>>,
}

impl Postgres {
    /// Returns the sizes of tuples, by which a database is loaded.
    pub fn records() -> impl Records {
        Tuples::default()
    }

    /// Lays a loaded database out. `transactions` bounds how much it may grow.
    pub fn new(loaded: &Loaded, transactions: u64) -> Self {
        let mut objects = Objects::default();
        let (trees, bytes) = lay_out(loaded, &mut objects, transactions);
        let catalog = objects.add("(catalog)", CATALOG_PAGES, CATALOG_PAGES);
        let own = loaded.districts().min(OWN_DISTRICTS);
        let named_of = |number| {
            let district = loaded.district(number);
            (0..CUSTOMERS).map(|place| district.customer_at(place) as u16).collect::<Vec<_>>()
        };
        let named: Vec<_> = (0..own).map(named_of).collect();
        let places_of = |named: &Vec<u16>| {
            let mut places = vec![0; CUSTOMERS as usize];
            named.iter().zip(0..).for_each(|(&customer, place)| places[customer as usize - 1] = place);
            places
        };
        let places = named.iter().map(places_of).collect();
        let now = Now::default();
        Postgres { objects, trees, bytes, catalog, now, sessions: 1, changes: Vec::new(), places, named }
    }

    /// Returns a row's table and its id there.
    fn table(trees: &mut Trees, row: Row) -> Option<(&mut Table, RowId)> {
        Some(match row {
            Row::Warehouse(warehouse) => (&mut trees.warehouse, (0, warehouse - 1)),
            Row::District(district) => (&mut trees.district, (0, district)),
            Row::Customer(district, customer) => (&mut trees.customer, (district, customer)),
            Row::Stock(warehouse, item) => (&mut trees.stock, (warehouse - 1, item)),
            Row::Order { district, order, .. } => (&mut trees.orders, (district, order)),
            Row::NewOrder(district, order) => (&mut trees.new_order, (district, order)),
            Row::Line(district, order, line) => (&mut trees.order_line, (district, line_key(order, line))),
            Row::Item(_) | Row::History => return None,
        })
    }

    /// Returns the number of a loaded row in its table, and its bytes.
    fn loaded(bytes: &Bytes, row: Row) -> (u32, u16) {
        match row {
            Row::Warehouse(warehouse) => (warehouse - 1, bytes.warehouse),
            Row::District(district) => (district, bytes.district),
            Row::Customer(district, customer) => bytes.customer(district, customer),
            Row::Stock(warehouse, item) => bytes.stock(warehouse, item),
            Row::Order { district, order, .. } => (district * ORDERS + order - 1, bytes.order),
            Row::NewOrder(district, order) => {
                (district * UNDELIVERED.len() as u32 + order - UNDELIVERED.start, bytes.new_order)
            }
            Row::Line(district, order, line) => bytes.line(district, order, line),
            Row::Item(item) => (item - 1, 0),
            Row::History => (0, bytes.history),
        }
    }

    fn place_of(&self, district: u32, customer: u32) -> u32 {
        self.places[district as usize % self.places.len()][customer as usize - 1].into()
    }

    /// Reads a row by its primary key; returns its version.
    fn find(&mut self, pools: &mut Pools, row: Row) -> Option<Version> {
        let (table, id) = Self::table(&mut self.trees, row)?;
        Some(table.find(pools, id, || Self::loaded(&self.bytes, row), self.now))
    }

    /// Writes a new version of a row whose page is pinned.
    fn rewrite(&mut self, pools: &mut Pools, row: Row, before: Version, bytes: u16) {
        let now = self.now;
        let name = if let Row::Customer(district, customer) = row { self.place_of(district, customer) } else { 0 };
        let Some((table, id)) = Self::table(&mut self.trees, row) else { return };
        let updated = table.rewrite(pools, id, before, bytes, now);
        self.changes.push(Change::Update(row, updated));
        if !updated.has_moved() {
            return;
        }
        let entry = Entry { key: id, block: updated.block, pinned: Some(before.block) };
        let second = match row {
            Row::Customer(district, _) => (&mut self.trees.customer_by_name, (district, name)),
            Row::Order { district, order, customer } => {
                (&mut self.trees.orders_by_customer, (district, entry_key(customer, order)))
            }
            _ => return,
        };
        let heap = match row {
            Row::Customer(..) => &mut self.trees.customer.heap,
            _ => &mut self.trees.orders.heap,
        };
        second.0.bury(second.1, before.block, false, now);
        let entry = Entry { key: second.1, ..entry };
        second.0.insert(pools, heap, entry, now);
    }

    /// Reads the rows of an order's lines, whose leaves were read; hears of each. `held` is the page that the scan has
    /// pinned.
    fn scan_lines(
        &mut self,
        pools: &mut Pools,
        district: u32,
        order: u32,
        lines: u32,
        held: &mut Option<u32>,
        mut heard: impl FnMut(&mut Self, &mut Pools, u32, Version),
    ) {
        for line in 1..=lines {
            let row = Row::Line(district, order, line);
            let table = &mut self.trees.order_line;
            let id = (district, line_key(order, line));
            let version = table.heap.version(id, || Self::loaded(&self.bytes, row));
            table.key.fetch(pools, &mut table.heap, id, Some(version.block), held, self.now);
            heard(self, pools, line, version);
        }
    }

    /// Reads the leaves of an order's lines.
    fn walk_lines(&mut self, pools: &mut Pools, district: u32, order: u32, lines: u32) {
        let key = &self.trees.order_line.key;
        let place = key.seek(pools, (district, line_key(order, 1)));
        key.go_on(pools, place, (district, line_key(order, lines)));
    }
}

impl Engine for Postgres {
    const MOST_ORDERS: u32 = (1 << ORDER_BITS) - 1;
    /// Lines have 32-bit numbers.
    const MOST_WAREHOUSES: u32 = 14_000;
    /// Places of new versions, and index entries of dead ones: seen of 20 warehouses.
    const TRANSACTION_BYTES: u64 = 600;

    /// ITEM, its index, and what is read of the catalogue all the time.
    fn shared_pages(_page_bytes: u32) -> u32 {
        1300 + 276 + CATALOG_PAGES_OF_COUNTERS
    }

    fn objects(&self) -> &Objects {
        &self.objects
    }

    fn bytes(&self) -> u64 {
        relation_bytes(&self.objects)
    }

    fn interior_pages(&self) -> Vec<u32> {
        let trees = &self.trees;
        let Trees { warehouse, district, stock, customer, orders, new_order, order_line, .. } = trees;
        let keys = [warehouse, district, stock, customer, orders, new_order, order_line].map(|table| &table.key);
        let all = keys.into_iter().chain([&trees.customer_by_name, &trees.orders_by_customer]);
        all.flat_map(Index::interior_pages).chain(trees.item_key.interior.all()).collect()
    }

    /// crates/bufferlab-drive/dialects/postgres/tpcc/prefill.sql: each table through its key, in the order of rows.
    /// Sessions have read the catalogue before, each page many times.
    fn prefill(&mut self, pools: &mut Pools) {
        read_catalog(pools, self.catalog);
        let trees = &self.trees;
        let with_rows = |pools: &mut Pools, table: &Table| {
            let blocks = u64::from(table.heap.blocks());
            table.key.scan(pools, |pools, leaf, leaves| {
                let first = |leaf: u32| (blocks * u64::from(leaf) / u64::from(leaves)) as u32;
                (first(leaf)..first(leaf + 1)).for_each(|block| pools.get(table.heap.page(block), FIRST));
            });
        };
        with_rows(pools, &trees.order_line);
        with_rows(pools, &trees.orders);
        with_rows(pools, &trees.new_order);
        trees.orders_by_customer.scan(pools, |_, _, _| {});
        trees.customer_by_name.scan(pools, |_, _, _| {});
        with_rows(pools, &trees.customer);
        with_rows(pools, &trees.stock);
        trees.item_key.interior.path(0).for_each(|page| pools.get(page, FIRST));
        for leaf in 0..trees.item_key.leaves() {
            pools.get(trees.item_key.page(leaf), FIRST);
            let blocks = trees.item.blocks();
            let first = |leaf: u32| blocks * leaf / trees.item_key.leaves();
            (first(leaf)..first(leaf + 1)).for_each(|block| pools.get(trees.item.page(block), FIRST));
        }
        with_rows(pools, &trees.district);
        with_rows(pools, &trees.warehouse);
    }

    fn begin(&mut self, pools: &mut Pools, _read_only: bool) {
        let session = pools.thread();
        self.sessions = self.sessions.max(u64::from(session) + 1);
        let transaction = self.now.transaction + 1;
        self.now = Now { session, transaction, horizon: transaction.saturating_sub(OLDEST * self.sessions) };
        self.changes.clear();
        if transaction.is_multiple_of(COUNTERS_EVERY) {
            read_counters(pools, self.catalog);
        }
    }

    fn commit(&mut self, _pools: &mut Pools) {}

    /// Nothing is read: versions of the transaction are dead from now on.
    fn rollback(&mut self, _pools: &mut Pools) {
        let now = self.now;
        while let Some(change) = self.changes.pop() {
            match change {
                Change::Update(row, updated) => {
                    let Some((table, id)) = Self::table(&mut self.trees, row) else { continue };
                    table.heap.undo(id, updated, now);
                    if updated.has_moved() {
                        table.key.unbury(id, updated.before.block);
                        table.key.bury(id, updated.block, false, now);
                    }
                }
                Change::Insert(row, version) => {
                    let Some((table, id)) = Self::table(&mut self.trees, row) else { continue };
                    table.heap.forget(id, version, now);
                    table.key.bury(id, version.block, false, now);
                    if let Row::Order { district, order, customer } = row {
                        let key = (district, entry_key(customer, order));
                        self.trees.orders_by_customer.bury(key, version.block, false, now);
                    }
                }
            }
        }
    }

    fn read(&mut self, pools: &mut Pools, row: Row, purpose: Purpose) {
        if let Row::Item(item) = row {
            let tree = &self.trees.item_key;
            let leaf = tree.leaf(item.min(ITEMS) - 1);
            tree.interior.path(leaf).for_each(|page| pools.get(page, FIRST));
            pools.get(tree.page(leaf), FIRST);
            if item <= ITEMS {
                let block = self.trees.item.loaded(item - 1);
                self.trees.item.fetch(pools, block, self.now);
            }
            return;
        }
        let Some(version) = self.find(pools, row) else { return };
        if purpose == Purpose::Change
            && let Some((table, _)) = Self::table(&mut self.trees, row)
        {
            table.heap.fetch_to_change(pools, version.block);
        }
    }

    fn update(&mut self, pools: &mut Pools, row: Row, note: u32) {
        let Some(before) = self.find(pools, row) else { return };
        let bytes = match row {
            Row::Customer(..) => {
                let longest = self.bytes.longest_customer.max(before.bytes);
                (before.bytes + note as u16).min(longest)
            }
            _ => before.bytes,
        };
        self.rewrite(pools, row, before, bytes);
    }

    fn insert(&mut self, pools: &mut Pools, row: Row) {
        let now = self.now;
        let bytes = match row {
            Row::Order { .. } => self.bytes.order,
            Row::NewOrder(..) => self.bytes.new_order,
            Row::Line(..) => self.bytes.line,
            _ => self.bytes.history,
        };
        let Some((table, id)) = Self::table(&mut self.trees, row) else {
            self.trees.history.insert(pools, None, bytes, now);
            return;
        };
        let version = table.heap.insert(pools, Some(id), bytes, now);
        self.changes.push(Change::Insert(row, version));
        let entry = Entry { key: id, block: version.block, pinned: None };
        table.key.insert(pools, &mut table.heap, entry, now);
        if let Row::Order { district, order, customer } = row {
            let entry = Entry { key: (district, entry_key(customer, order)), ..entry };
            self.trees.orders_by_customer.insert(pools, &mut self.trees.orders.heap, entry, now);
        }
    }

    /// An index-only scan: it keeps the leaf pinned, and reads rows of pages that not all see (nodeIndexonlyscan.c,
    /// `IndexOnlyNext`).
    fn read_names(&mut self, pools: &mut Pools, district: u32, places: Range<u32>) {
        let now = self.now;
        let Trees { customer, customer_by_name: names, .. } = &mut self.trees;
        let named = &self.named[district as usize % self.named.len()];
        let mut place = names.seek(pools, (district, places.start));
        let mut held = None;
        let mut has_visibility = false;
        for number in places {
            place = names.go_on(pools, place, (district, number));
            let id = (district, u32::from(named[number as usize]));
            let version = customer.heap.version(id, || self.bytes.customer(id.0, id.1));
            if !std::mem::replace(&mut has_visibility, true) {
                customer.heap.read_visibility(pools, version.block);
            }
            let live = (!customer.heap.is_all_visible(version.block)).then_some(version.block);
            names.fetch(pools, &mut customer.heap, (district, number), live, &mut held, now);
        }
    }

    fn read_last_order(&mut self, pools: &mut Pools, district: u32, customer: u32, order: u32) {
        let row = Row::Order { district, order, customer };
        let Trees { orders, orders_by_customer: index, .. } = &mut self.trees;
        let version = orders.heap.version((district, order), || Self::loaded(&self.bytes, row));
        let key = (district, entry_key(customer, order));
        index.seek(pools, key);
        index.fetch(pools, &mut orders.heap, key, Some(version.block), &mut None, self.now);
    }

    fn read_lines(&mut self, pools: &mut Pools, district: u32, order: u32, lines: u32) {
        self.walk_lines(pools, district, order, lines);
        self.scan_lines(pools, district, order, lines, &mut None, |_, _, _, _| {});
    }

    fn deliver_lines(&mut self, pools: &mut Pools, district: u32, order: u32, lines: u32) {
        self.walk_lines(pools, district, order, lines);
        let bytes = self.bytes.delivered_line;
        self.scan_lines(pools, district, order, lines, &mut None, |own, pools, line, version| {
            own.rewrite(pools, Row::Line(district, order, line), version, bytes);
        });
    }

    /// The scan passes entries of delivered orders; those that are not killed it looks up.
    fn read_oldest(&mut self, pools: &mut Pools, district: u32, oldest: Option<u32>) {
        let now = self.now;
        let table = &mut self.trees.new_order;
        let end = oldest.unwrap_or(u32::MAX >> 1);
        let place = table.key.seek(pools, (district, 0));
        table.key.go_on(pools, place, (district, end));
        let mut held = None;
        for key in table.key.gone_until(district, end) {
            table.key.fetch(pools, &mut table.heap, (district, key), None, &mut held, now);
        }
        let Some(order) = oldest else { return };
        let row = Row::NewOrder(district, order);
        let version = table.heap.version((district, order), || Self::loaded(&self.bytes, row));
        table.key.fetch(pools, &mut table.heap, (district, order), Some(version.block), &mut held, now);
        table.heap.fetch_to_change(pools, version.block);
    }

    fn delete_new_order(&mut self, pools: &mut Pools, district: u32, order: u32) {
        let Some(version) = self.find(pools, Row::NewOrder(district, order)) else { return };
        let now = self.now;
        let table = &mut self.trees.new_order;
        table.heap.delete(pools, (district, order), version, now);
        table.key.bury((district, order), version.block, true, now);
    }

    fn read_low_stock(&mut self, pools: &mut Pools, district: u32, orders: Range<u32>, items: &[Vec<u32>]) {
        let key = &self.trees.order_line.key;
        let mut place = key.seek(pools, (district, line_key(orders.start, 1)));
        let mut held = None;
        for (order, items) in orders.zip(items) {
            let end = (district, line_key(order, items.len() as u32));
            place = self.trees.order_line.key.go_on(pools, place, end);
            self.scan_lines(pools, district, order, items.len() as u32, &mut held, |own, pools, line, _| {
                own.find(pools, Row::Stock(district / DISTRICTS + 1, items[line as usize - 1]));
            });
        }
    }
}
