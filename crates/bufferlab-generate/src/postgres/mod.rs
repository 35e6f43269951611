//! PostgreSQL 17: which pages each operation gets from shared buffers, after the server's sources and the plans that
//! the sessions force (crates/bufferlab-drive/src/postgres/plan.rs). Autovacuum is off, as on a private server.
//!
//! The rules were compared with a page trace of PostgreSQL 17.2 (TPC-C, 4 warehouses, 8 connections). Files and
//! functions are those of 17.0. Not simulated: waits for locks, and their effects (pages of WAREHOUSE and DISTRICT that
//! waiting sessions keep pinned and so unpruned; several pages added to a table at once). Neither are splits above the
//! leaves, deduplication of equal entries, hints in dead versions, and numbers of customers that grow. The state of
//! transactions is in other pools (slru.c).

mod heap;
mod hot_rows;
mod index;
mod layout;
mod record;
mod session;

use bufferlab_workload::tpcc::schema::ITEMS;

use crate::engine::{Engine, Purpose, Relation, Row, Span, TRANSACTION_US, of_line};
use crate::hot_rows::RowsAsked;
use crate::job::Limits;
use crate::loaded::{Loaded, Records, UNDELIVERED};
use crate::pools::{Object, Objects, Pools};
use heap::Version;
use hot_rows::Ks;
use index::{Entry, Index};
use layout::{DELIVERED, Table, lay_out};
use record::Tuples;
use session::{FIRST, HELD, Now};

/// Bytes of a page, as the servers are compiled.
pub const PAGE_BYTES: u32 = 8192;

/// The number of catalogue pages that sessions read as they connect and plan statements, in the traced run.
const CATALOG_PAGES: u32 = 357;
/// The number of catalogue pages that the server reads each second because bufferlab asks for its counters, in the
/// traced run.
const CATALOG_PAGES_OF_COUNTERS: u32 = 20;
/// Gets of each catalogue page before the prefill; a buffer's usage count is five at most.
const CATALOG_GETS: u32 = 6;
/// The number of transactions in a second of the generator's clock. A simulation of fewer warehouses uses the same
/// number; otherwise the catalogue would have a larger share of its gets.
const COUNTERS_EVERY: u64 = 1_000_000 / TRANSACTION_US;

/// The number of transactions that each session commits while the oldest transaction is under way. It is 2 because a
/// New-Order has 46 statements and a Delivery 70, and the mean transaction only 27.
const OLDEST: u64 = 2;

/// A change that a rollback undoes: a version of a row, and the version before it.
struct Change {
    row: Row,
    before: Option<Version>,
    version: Version,
}

/// Returns the limits of PostgreSQL's rules: lines have 32-bit numbers, which limits the number of warehouses. Places
/// of new versions, and index entries of dead ones, take memory, as seen with 20 warehouses. All warehouses share ITEM,
/// its index, and some pages of the catalogue.
pub(crate) fn limits(page_bytes: u32) -> Limits {
    let shared_pages = 1300 + 276 + CATALOG_PAGES_OF_COUNTERS;
    Limits { transaction_bytes: 600, shared_pages, ..Limits::of(14_000, page_bytes) }
}

/// The data that give the place of each loaded row.
enum Source {
    /// The database of TPC-C, and the number of order lines before each district.
    Tpcc(Loaded, Vec<u32>),
    /// The table of hot_rows.
    HotRows(Ks),
}

impl Source {
    /// Returns the number of a loaded row in its table, and its bytes; `bytes` is the size of most rows of the table.
    fn row(&self, row: Row, bytes: u16) -> (u32, u16) {
        match (self, row.of) {
            (Source::Tpcc(loaded, _), Relation::Customer | Relation::Stock) => (row.number(), loaded.bytes(row)),
            (Source::Tpcc(loaded, lines), Relation::OrderLine) => {
                let (order, line) = of_line(row.key);
                let before = lines[row.group as usize] + loaded.district(row.group).lines_before(order);
                let is_delivered = order < UNDELIVERED.start;
                (before + line - 1, if is_delivered { bytes + DELIVERED } else { bytes })
            }
            _ => (row.number(), bytes),
        }
    }

    /// Returns the key of a row in the second index of its table.
    fn second(&self, row: Row) -> u32 {
        match (self, row.of) {
            (Source::Tpcc(loaded, _), Relation::Customer) => loaded.district(row.group).place_of(row.key),
            (Source::HotRows(ks), _) => ks.of(row.key),
            _ => row.entry,
        }
    }
}

/// PostgreSQL's pages and rules.
pub struct Postgres {
    objects: Objects,
    /// TPC-C's tables by relation, or the only table of hot_rows.
    tables: Vec<Table>,
    source: Source,
    /// The number, in the pools, of the catalogue's first page.
    catalog: u32,
    now: Now,
    sessions: u64,
    changes: Vec<Change>,
}

impl Postgres {
    /// Returns the rules for sizes of tuples, with which [`Loaded`] measures rows.
    pub fn records() -> impl Records {
        Tuples::default()
    }

    /// Lays a loaded database out. `transactions` bounds how much it may grow.
    pub fn new(loaded: &Loaded, transactions: u64) -> Self {
        let mut objects = Objects::default();
        let mut table = |of| lay_out(loaded, &mut objects, of, transactions);
        let tables = Relation::lay_out(|of| (of.table() == of).then(|| table(of)));
        let lines = (0..loaded.districts()).scan(0, |all, district| {
            let before = *all;
            *all += loaded.sizes(Relation::OrderLine, district).len() as u32;
            Some(before)
        });
        let source = Source::Tpcc(loaded.clone(), lines.collect());
        Postgres::of_tables(objects, tables, source)
    }

    /// Lays the table of hot_rows out. `transactions` bounds how much it may grow.
    pub fn of_rows(asked: &RowsAsked, transactions: u64) -> Self {
        let mut objects = Objects::default();
        let (table, ks) = hot_rows::lay_out(asked, &mut objects, transactions);
        Postgres::of_tables(objects, vec![table], Source::HotRows(ks))
    }

    fn of_tables(mut objects: Objects, tables: Vec<Table>, source: Source) -> Self {
        let catalog = objects.add("(catalog)", CATALOG_PAGES, CATALOG_PAGES);
        let (now, sessions, changes) = (Now::default(), 1, Vec::new());
        Postgres { objects, tables, source, catalog, now, sessions, changes }
    }

    /// Returns the position of a table in `tables`.
    fn place(&self, table: Relation) -> usize {
        (table as usize).min(self.tables.len() - 1)
    }

    fn table(&mut self, of: Relation) -> &mut Table {
        let place = self.place(of);
        &mut self.tables[place]
    }

    /// Returns a table's primary key, or a secondary index.
    fn index(&self, of: Relation) -> &Index {
        &self.tables[self.place(of.table())].indexes[usize::from(of.table() != of)]
    }

    fn version(&self, row: Row) -> Version {
        let Table { heap, bytes, .. } = &self.tables[self.place(row.of)];
        heap.version((row.group, row.key), || self.source.row(row, *bytes))
    }

    /// Reads a row by its primary key; returns its version.
    fn find(&mut self, pools: &mut Pools, row: Row) -> Version {
        let (version, now) = (self.version(row), self.now);
        let Table { heap, indexes, .. } = self.table(row.of);
        let at = indexes[0].seek(pools, (row.group, row.key));
        indexes[0].fetch(pools, heap, at, Some(version.block), &mut None, now);
        heap.hint(pools, (row.group, row.key), now);
        version
    }

    /// Returns a row's key in each index of its table.
    fn keys(&self, row: Row) -> [(u32, u32); 2] {
        [(row.group, row.key), (row.group, self.source.second(row))]
    }

    /// Writes a new version of a row whose page is pinned and, if the version is on another page, its entries in the
    /// indexes (nodeModifyTable.c, `ExecUpdate`).
    fn rewrite(&mut self, pools: &mut Pools, row: Row, before: Version, bytes: u16) {
        let (now, id) = (self.now, (row.group, row.key));
        let heap = &mut self.table(row.of).heap;
        // ExecModifyTable fetches the old version.
        pools.get(heap.page(before.block), HELD);
        let version = heap.update(pools, id, before, bytes, now);
        self.changes.push(Change { row, before: Some(before), version });
        if version.block != before.block {
            let keys = self.keys(row);
            let Table { heap, indexes, .. } = self.table(row.of);
            for (index, key) in indexes.iter_mut().zip(keys) {
                index.bury(key, before.block, false, now);
                index.insert(pools, heap, Entry { key, block: version.block, pinned: Some(before.block) }, now);
            }
        }
    }

    /// Reads the rows of a span after its leaves were read, and calls `heard` for each. `held` is the page that the
    /// scan has pinned.
    fn fetch_all(
        &mut self,
        pools: &mut Pools,
        span: Span,
        held: &mut Option<u32>,
        mut heard: impl FnMut(&mut Self, &mut Pools, u32, Version),
    ) {
        for place in 0..span.rows {
            let row = span.row(place);
            let (version, now) = (self.version(row), self.now);
            let Table { heap, indexes, .. } = self.table(row.of);
            let at = indexes[0].at((row.group, row.key));
            indexes[0].fetch(pools, heap, at, Some(version.block), held, now);
            heap.hint(pools, (row.group, row.key), now);
            heard(self, pools, place, version);
        }
    }

    /// Reads the leaves of a span.
    fn walk(&self, pools: &mut Pools, span: Span) {
        let (index, Row { group, key, .. }) = (self.index(span.first.of), span.row(span.rows - 1));
        let place = index.seek(pools, (group, span.first.key));
        index.go_on(pools, place, (group, key));
    }

    /// Reads a span of the index on names by an index-only scan. It keeps the leaf pinned, and reads only rows on pages
    /// that are not visible to all transactions (nodeIndexonlyscan.c, `IndexOnlyNext`).
    fn scan_names(&mut self, pools: &mut Pools, span: Span) {
        let Source::Tpcc(loaded, _) = &self.source else { return };
        let (now, district, group) = (self.now, loaded.district(span.first.group), span.first.group);
        let Table { heap, indexes, .. } = &mut self.tables[Relation::Customer as usize];
        let index = &mut indexes[1];
        let mut at = index.seek(pools, (group, span.first.key));
        let mut held = None;
        for number in span.first.key..span.first.key + span.rows {
            at = index.go_on(pools, at, (group, number));
            let row = Row::new(Relation::Customer, group, district.customer_at(number));
            let version = heap.version((group, row.key), || self.source.row(row, 0));
            if number == span.first.key {
                heap.read_visibility(pools, version.block);
            }
            let live = (!heap.is_all_visible(version.block)).then_some(version.block);
            index.fetch(pools, heap, at, live, &mut held, now);
        }
    }
}

impl Engine for Postgres {
    fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Returns the bytes of the main forks of tables and indexes, with each index's meta page, as `pg_relation_size`
    /// reports them. A pool's size in per cent refers to these bytes
    /// (python/bufferlab/engines/postgres/relation_sizes.py).
    fn bytes(&self) -> Option<u64> {
        let forks = self.objects.all().iter().filter(|object| !object.name.contains('('));
        let pages = |object: &Object| u64::from(object.pages) + u64::from(object.name.contains('.'));
        Some(forks.map(pages).sum::<u64>() * u64::from(PAGE_BYTES))
    }

    fn interior_pages(&self) -> Vec<u32> {
        self.tables.iter().flat_map(|table| &table.indexes).flat_map(|index| index.tree.interior.all()).collect()
    }

    /// Reads the catalogue, as sessions do when they connect and plan their statements.
    fn connect(&mut self, pools: &mut Pools) {
        let pages = self.catalog..self.catalog + CATALOG_PAGES;
        pages.for_each(|page| (0..CATALOG_GETS).for_each(|_| pools.get(page, FIRST)));
    }

    /// Reads each table through its key, in the order of rows
    /// (crates/bufferlab-drive/dialects/postgres/tpcc/prefill.sql). Before that, sessions read the catalogue, each page
    /// many times.
    fn prefill(&mut self, pools: &mut Pools) {
        self.connect(pools);
        for of in Relation::PREFILLED.into_iter().filter(|&of| of != Relation::History) {
            let heap = &self.tables[self.place(of.table())].heap;
            let blocks = if of.table() == of { u64::from(heap.blocks()) } else { 0 };
            self.index(of).scan(pools, |pools, leaf, leaves| {
                let first = |leaf: u32| (blocks * u64::from(leaf) / u64::from(leaves)) as u32;
                (first(leaf)..first(leaf + 1)).for_each(|block| pools.get(heap.page(block), FIRST));
            });
        }
    }

    /// Reads some pages of the catalogue once a second. On hot_rows each statement is a transaction, and each other
    /// session may have one under way.
    fn begin(&mut self, pools: &mut Pools) {
        let session = pools.thread();
        self.sessions = self.sessions.max(u64::from(session) + 1);
        let transaction = self.now.transaction + 1;
        let (older, counters_every) = match self.source {
            Source::Tpcc(..) => (OLDEST * self.sessions, COUNTERS_EVERY),
            Source::HotRows(_) => (self.sessions - 1, hot_rows::COUNTERS_EVERY),
        };
        self.now = Now { session, transaction, horizon: transaction.saturating_sub(older) };
        self.changes.clear();
        if transaction.is_multiple_of(counters_every) {
            let pages = self.catalog..self.catalog + CATALOG_PAGES_OF_COUNTERS;
            pages.for_each(|page| (0..2).for_each(|_| pools.get(page, FIRST)));
        }
    }

    /// Reads nothing: the transaction's versions are dead from now on.
    fn rollback(&mut self, _pools: &mut Pools) {
        let now = self.now;
        while let Some(Change { row, before, version }) = self.changes.pop() {
            let keys = self.keys(row);
            let Table { heap, indexes, .. } = self.table(row.of);
            heap.undo(keys[0], before, version, now);
            let stays = before.is_some_and(|before| before.block == version.block);
            for (index, key) in indexes.iter_mut().zip(keys).filter(|_| !stays) {
                before.into_iter().for_each(|before| index.unbury(key, before.block));
                index.bury(key, version.block, false, now);
            }
        }
    }

    fn read(&mut self, pools: &mut Pools, row: Row, purpose: Purpose) {
        if row.of == Relation::Item && row.key > ITEMS {
            self.index(row.of).seek(pools, (row.group, row.key));
            return;
        }
        let version = self.find(pools, row);
        if purpose == Purpose::Change {
            self.table(row.of).heap.fetch_to_change(pools, version.block);
        }
    }

    fn read_last(&mut self, pools: &mut Pools, order: Row) {
        let (version, key, now) = (self.version(order), (order.group, order.entry), self.now);
        let Table { heap, indexes, .. } = self.table(order.of);
        let at = indexes[1].seek(pools, key);
        indexes[1].fetch(pools, heap, at, Some(version.block), &mut None, now);
        heap.hint(pools, (order.group, order.key), now);
    }

    /// The scan skips killed entries of deleted rows, and looks up the versions of the other entries.
    fn read_first(&mut self, pools: &mut Pools, of: Relation, group: u32, lowest: Option<u32>) {
        let now = self.now;
        let end = lowest.unwrap_or(u32::MAX >> 1);
        let version = lowest.map(|key| self.version(Row::new(of, group, key)));
        let Table { heap, indexes, .. } = self.table(of);
        let index = &mut indexes[0];
        let at = index.seek(pools, (group, 0));
        let last = index.go_on(pools, at, (group, end));
        let mut held = None;
        for key in index.gone_until(group, end) {
            index.fetch(pools, heap, index.at((group, key)), None, &mut held, now);
        }
        let Some(version) = version else { return };
        index.fetch(pools, heap, last, Some(version.block), &mut held, now);
        heap.fetch_to_change(pools, version.block);
    }

    fn scan(&mut self, pools: &mut Pools, span: Span) {
        if span.first.of == Relation::ByName {
            return self.scan_names(pools, span);
        }
        self.walk(pools, span);
        self.fetch_all(pools, span, &mut None, |_, _, _, _| {});
    }

    fn join(&mut self, pools: &mut Pools, spans: &[(Span, Vec<Row>)]) {
        let Some((Span { first, .. }, _)) = spans.first() else { return };
        let mut place = self.index(first.of).seek(pools, (first.group, first.key));
        let mut held = None;
        for (span, joined) in spans {
            let last = span.row(span.rows - 1);
            place = self.index(first.of).go_on(pools, place, (last.group, last.key));
            self.fetch_all(pools, *span, &mut held, |own, pools, place, _| {
                own.find(pools, joined[place as usize]);
            });
        }
    }

    fn update(&mut self, pools: &mut Pools, row: Row, note: u32) {
        let before = self.find(pools, row);
        let most = self.table(row.of).bytes.max(before.bytes);
        self.rewrite(pools, row, before, (before.bytes + note as u16).min(most));
    }

    fn update_all(&mut self, pools: &mut Pools, span: Span) {
        self.walk(pools, span);
        let bytes = self.table(span.first.of).bytes + DELIVERED;
        self.fetch_all(pools, span, &mut None, |own, pools, place, version| {
            own.rewrite(pools, span.row(place), version, bytes);
        });
    }

    fn insert(&mut self, pools: &mut Pools, row: Row) {
        let (now, keys) = (self.now, self.keys(row));
        let Table { heap, indexes, bytes } = self.table(row.of);
        let version = heap.insert(pools, (!indexes.is_empty()).then_some(keys[0]), *bytes, now);
        for (index, key) in indexes.iter_mut().zip(keys) {
            index.insert(pools, heap, Entry { key, block: version.block, pinned: None }, now);
        }
        self.changes.push(Change { row, before: None, version });
    }

    fn delete(&mut self, pools: &mut Pools, row: Row) {
        let (version, id, now) = (self.find(pools, row), (row.group, row.key), self.now);
        let Table { heap, indexes, .. } = self.table(row.of);
        heap.delete(pools, id, version, now);
        indexes[0].bury(id, version.block, true, now);
    }
}
