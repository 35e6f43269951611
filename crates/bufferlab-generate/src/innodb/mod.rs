//! InnoDB of MySQL: which pages each operation gets, after the sources of MySQL 5.7 (storage/innobase and sql). MySQL
//! from 8.0 on differs in its rollback segments (`undo::Segments`).
//!
//! The rules were compared with a page trace of MySQL 5.7.22 (TPC-C, 4 warehouses, 8 connections). Not simulated: old
//! versions of rows, waits for locks, and growing texts of customers.

mod change;
mod latch;
mod layout;
mod space;
mod undo;

use bufferlab_workload::tpcc::schema::{CUSTOMERS, ITEMS};

use crate::engine::{Engine, ORDER_BITS, Purpose, RELATIONS, Relation, Row, Span, entry_key, of_entry};
use crate::hot_rows::RowsAsked;
use crate::job::Limits;
use crate::loaded::{Loaded, Records};
use crate::pools::{Objects, Pools};
use crate::tree::{Packed, Place, Tree, pack};
pub(crate) use latch::CHANGING;
use latch::{EXCLUSIVE, SHARED};
pub(crate) use layout::prefill_misses;
use layout::{Compact, HEADER, PageSize, SYSTEM_COLUMNS, lay_out, reserved_bytes};
use space::Space;
pub use space::count_bitmaps;
pub(crate) use undo::Segments;
use undo::{Log, Undo, record_bytes};

/// The most leaves that the optimizer reads to count the rows of a range (btr0cur.cc, `N_PAGES_READ_LIMIT`).
const DIVED: usize = 10;
/// Rows that a cursor fetches at once (row0mysql.h, `MYSQL_FETCH_CACHE_SIZE`).
const FETCHED: u32 = 8;
/// Bytes of id, k and c of a row of hot_rows; c is a CHAR of one byte a character.
const HOT_COLUMNS: u32 = 4 + 4 + 120;

/// Returns the limits of InnoDB's rules: rows of STOCK have 32-bit numbers, which limits the number of warehouses. All
/// warehouses share pages of ITEM, of the undo log, and system pages that transactions use.
pub(crate) fn limits(page_bytes: u32, segments: Segments) -> Limits {
    let limits = Limits::of(40_000, page_bytes);
    Limits { shared_pages: limits.shared_pages + segments.pages_in_use(), ..limits }
}

/// InnoDB's pages and rules.
pub struct Innodb {
    size: PageSize,
    objects: Objects,
    /// TPC-C's trees by relation, or the only tree of hot_rows.
    trees: Vec<Tree>,
    /// Bytes of one row that the run inserts, by relation.
    inserted: [u32; RELATIONS],
    undo: Undo,
    space: Space,
    /// Rows that the open transaction changed, for its rollback.
    changed: Vec<(Row, Log)>,
    last_history: u32,
    bytes: Option<u64>,
}

impl Innodb {
    /// Returns the rules for sizes of records, with which [`Loaded`] measures rows.
    pub fn records() -> impl Records {
        Compact::default()
    }

    /// Lays a loaded database of MySQL 5.7 out. `transactions` bounds how much it may grow.
    pub fn new(page_bytes: u32, loaded: &Loaded, transactions: u64) -> Self {
        Innodb::with(Segments::OF_5_7, page_bytes, loaded, transactions)
    }

    /// Does what [`Innodb::new`] does, for a server with these rollback segments.
    pub(crate) fn with(segments: Segments, page_bytes: u32, loaded: &Loaded, transactions: u64) -> Self {
        let (size, mut objects) = (PageSize(page_bytes), Objects::default());
        let trees = Relation::lay_out(|of| Some(lay_out(size, loaded, of, &mut objects, transactions)));
        let (space, bytes) = (Space::new(&mut objects), Some(reserved_bytes(size, &trees)));
        let inserted = Relation::ALL.map(|of| loaded.inserted(of).into());
        Innodb {
            inserted,
            last_history: loaded.districts() * CUSTOMERS,
            bytes,
            ..Innodb::of_trees(size, objects, trees, space, segments)
        }
    }

    /// Lays the table of hot_rows out (crates/bufferlab-drive/dialects/servers/hot_rows/schema.sql).
    pub fn of_rows(page_bytes: u32, asked: &RowsAsked) -> Self {
        Innodb::with_rows(Segments::OF_5_7, page_bytes, asked)
    }

    /// Does what [`Innodb::of_rows`] does, for a server with these rollback segments.
    pub(crate) fn with_rows(segments: Segments, page_bytes: u32, asked: &RowsAsked) -> Self {
        let (size, mut objects) = (PageSize(page_bytes), Objects::default());
        // CHAR(60) has one character more than sysbench's text.
        let bytes = HEADER + SYSTEM_COLUMNS + HOT_COLUMNS + asked.pad_chars + 1;
        let rows = std::iter::repeat_n(bytes as u16, asked.rows as usize);
        let packing = pack(rows, true, |rows, bytes, record| size.takes_next(rows, bytes, record));
        let tree = Packed::new(&mut objects, Relation::HotRows.name(), packing, 1000, size.fan_out(4));
        Innodb::of_trees(size, objects, vec![Tree::Packed(tree)], Space::default(), segments)
    }

    fn of_trees(size: PageSize, mut objects: Objects, trees: Vec<Tree>, space: Space, segments: Segments) -> Self {
        let undo = Undo::new(&mut objects, size.0, segments);
        let (inserted, changed) = ([0; RELATIONS], Vec::new());
        Innodb { size, objects, trees, inserted, undo, space, changed, last_history: 0, bytes: None }
    }

    #[inline]
    fn tree(&self, of: Relation) -> &Tree {
        &self.trees[(of as usize).min(self.trees.len() - 1)]
    }

    fn write(&mut self, pools: &mut Pools, row: Row, log: Log, bytes: u32) {
        self.undo.write(pools, log, bytes);
        self.changed.push((row, log));
    }

    /// Estimates the rows of a whole group in an index for the optimizer (sql/opt_range.cc, `check_quick_select`).
    fn dive_group(&self, pools: &mut Pools, of: Relation, group: u32) {
        let (low, high) = match of {
            Relation::Stock => (1, ITEMS),
            Relation::ByName => (0, CUSTOMERS - 1),
            _ => (0, entry_key(CUSTOMERS, (1 << ORDER_BITS) - 1)),
        };
        dive(pools, self.tree(of), Row::new(of, group, low), Row::new(of, group, high));
    }
}

/// Goes down from the root to a leaf (btr0cur.cc, `btr_cur_search_to_nth_level`).
#[inline(always)]
fn reach(pools: &mut Pools, tree: &Tree, place: Place, latch: u8) {
    let (page, origin) = tree.leaf(place);
    tree.interior().path(origin).for_each(|page| pools.get(page, SHARED));
    pools.get(page, latch);
}

/// Gets a leaf at which a cursor arrives from its neighbour.
#[inline]
fn pass(pools: &mut Pools, tree: &Tree, place: Place) {
    pools.get(tree.leaf(place).0, SHARED);
}

/// Returns the leaf in which the search for a row begins. Above the leaves the search goes to the last key below the
/// row's (`PAGE_CUR_L` for `PAGE_CUR_GE`). So the search for the first row of a leaf begins in the leaf before it.
#[inline(always)]
fn low_end(tree: &Tree, place: Place, row: Row) -> Place {
    if tree.is_first(place, row) { tree.before(place).unwrap_or(place) } else { place }
}

/// Goes down to the leaf that holds a row; returns the leaf's place.
#[inline(always)]
fn seek(pools: &mut Pools, tree: &Tree, row: Row) -> Place {
    let place = tree.place(row);
    let low = low_end(tree, place, row);
    reach(pools, tree, low, SHARED);
    if low != place {
        pass(pools, tree, place);
    }
    place
}

/// Does what [`seek`] does, for a SELECT. In a tree that does not grow, a SELECT of a leaf's last row also gets the
/// next leaf. This was seen row by row in MySQL 5.7's INNODB_BUFFER_PAGE (experiments/hot-rows). An UPDATE does not: if
/// it did, there would be 0.09 gets of STOCK a transaction and 0.03 of CUSTOMER more than in a trace.
#[inline(always)]
fn look_up(pools: &mut Pools, tree: &Tree, row: Row) -> Place {
    let place = seek(pools, tree, row);
    if matches!(tree, Tree::Packed(_))
        && let Some(behind) = tree.behind(place)
        && tree.is_first(behind, Row { key: row.key + 1, ..row })
    {
        pass(pools, tree, behind);
    }
    place
}

/// Estimates the rows of a range of keys for the optimizer. Goes to both ends and, if these leaves are not neighbours,
/// along the leaves from the first (btr0cur.cc, `btr_estimate_n_rows_in_range_low`, `btr_estimate_n_rows_on_level`).
fn dive(pools: &mut Pools, tree: &Tree, first: Row, last: Row) {
    let (low, high) = (low_end(tree, tree.place(first), first), tree.place(last));
    reach(pools, tree, low, SHARED);
    reach(pools, tree, high, SHARED);
    let between = std::iter::successors(Some(low), |&place| tree.behind(place)).take_while(|&place| place != high);
    if between.clone().nth(1).is_some() {
        between.take(DIVED).for_each(|place| pass(pools, tree, place));
    }
}

impl Engine for Innodb {
    fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Returns DATA_LENGTH and INDEX_LENGTH of all tables; none for hot_rows.
    fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    fn interior_pages(&self) -> Vec<u32> {
        self.trees.iter().flat_map(|tree| tree.interior().all()).collect()
    }

    /// Reads each table once, with several gets of each leaf (crates/bufferlab-drive/dialects/mysql/tpcc/prefill.sql).
    fn prefill(&mut self, pools: &mut Pools) {
        for tree in Relation::PREFILLED.map(|of| self.tree(of)) {
            tree.interior().path(0).for_each(|page| pools.get(page, SHARED));
            tree.leaf_pages().into_iter().for_each(|page| (0..2).for_each(|_| pools.get(page, SHARED)));
        }
    }

    fn begin(&mut self, _pools: &mut Pools) {
        self.changed.clear();
    }

    fn commit(&mut self, pools: &mut Pools) {
        self.undo.commit(pools);
        for (district, order) in self.undo.purge(pools) {
            self.remove(pools, Row::new(Relation::NewOrder, district, order), Some(order + 1));
        }
    }

    /// Undoes the transaction's changes, the last one first (row0undo.cc, `row_undo`).
    fn rollback(&mut self, pools: &mut Pools) {
        while let Some((row, log)) = self.changed.pop() {
            self.undo.read_back(pools, log);
            if log == Log::Insert {
                row.second().into_iter().chain([row]).for_each(|row| self.remove(pools, row, None));
            } else {
                let tree = self.tree(row.of);
                let place = seek(pools, tree, row);
                pools.get(tree.leaf(place).0, EXCLUSIVE);
            }
        }
        self.undo.forget(pools);
    }

    fn read(&mut self, pools: &mut Pools, row: Row, _purpose: Purpose) {
        // The search for an item that does not exist ends on the leaf of the last item.
        let key = if row.of == Relation::Item { row.key.min(ITEMS) } else { row.key };
        look_up(pools, self.tree(row.of), Row { key, ..row });
    }

    fn read_last(&mut self, pools: &mut Pools, order: Row) {
        let entry = Row::new(Relation::ByCustomer, order.group, order.entry);
        let (customer, _) = of_entry(order.entry);
        let tree = self.tree(entry.of);
        dive(pools, tree, Row { key: entry_key(customer, 0), ..entry }, entry);
        reach(pools, tree, tree.place(entry), SHARED);
        seek(pools, self.tree(order.of), order);
    }

    /// The search for a district begins in the last leaf of the district before, and passes deleted rows that are not
    /// purged yet.
    fn read_first(&mut self, pools: &mut Pools, of: Relation, group: u32, lowest: Option<u32>) {
        let tree = self.tree(of);
        let [first, last] = [0, u32::MAX >> 1].map(|key| Row::new(of, group, key));
        dive(pools, tree, first, last);
        let low = low_end(tree, tree.place(first), first);
        reach(pools, tree, low, SHARED);
        let target = tree.place(lowest.map_or(last, |key| Row { key, ..first }));
        let along = std::iter::successors(Some(low), |&place| tree.behind(place).filter(|_| place != target));
        along.skip(1).take(DIVED).for_each(|place| pass(pools, tree, place));
    }

    /// After the first row the cursor returns to the leaf for each fetch (row0sel.cc, `row_search_mvcc`).
    fn scan(&mut self, pools: &mut Pools, span: Span) {
        let tree = self.tree(span.first.of);
        dive(pools, tree, span.first, Row { key: span.most, ..span.first });
        let place = look_up(pools, tree, span.first);
        (0..span.rows / FETCHED + 1).for_each(|_| pass(pools, tree, place));
        let last = tree.place(span.row(span.rows - 1));
        if last != place {
            pass(pools, tree, last);
        }
    }

    fn join(&mut self, pools: &mut Pools, spans: &[(Span, Vec<Row>)]) {
        let (Some((Span { first, .. }, joined)), Some((Span { most, .. }, _))) = (spans.first(), spans.last()) else {
            return;
        };
        let tree = self.tree(first.of);
        dive(pools, tree, *first, Row { key: *most, ..*first });
        // The join's range on STOCK is the whole warehouse.
        self.dive_group(pools, joined[0].of, joined[0].group);
        let (mut place, mut fetched, mut rows) = (seek(pools, tree, *first), 0, 0);
        for (span, joined) in spans {
            for (row, joined) in (0..).map(|place| span.row(place)).zip(joined) {
                let now = tree.place(row);
                if now != place || fetched == FETCHED {
                    pass(pools, tree, now);
                    (place, fetched) = (now, 0);
                }
                (fetched, rows) = (fetched + 1, rows + 1);
                look_up(pools, self.tree(joined.of), *joined);
            }
        }
        // From the fifth row on the cursor fetches rows in batches, and the last batch may pass the range's end
        // (row0sel.cc, `row_search_mvcc`; row0mysql.h, `MYSQL_FETCH_CACHE_THRESHOLD`).
        let beyond = FETCHED - u32::saturating_sub(rows, 4) % FETCHED;
        if self.grown(first.of).later_rows(place, first.group).0 < beyond {
            tree.behind(place).into_iter().for_each(|place| pass(pools, tree, place));
        }
    }

    /// For each UPDATE by the primary key the optimizer also estimates the rows of a range in the table's other index,
    /// because that index begins with the same columns.
    fn update(&mut self, pools: &mut Pools, row: Row, _note: u32) {
        row.of.second().into_iter().for_each(|second| self.dive_group(pools, second, row.group));
        let tree = self.tree(row.of);
        let place = seek(pools, tree, row);
        if row.of == Relation::Orders {
            return self.grow(pools, row, place);
        }
        pools.get(tree.leaf(place).0, EXCLUSIVE);
        self.write(pools, row, Log::Update, record_bytes(row.of));
    }

    /// Seeks each row from the root, and changes it.
    fn update_all(&mut self, pools: &mut Pools, span: Span) {
        dive(pools, self.tree(span.first.of), span.first, Row { key: span.most, ..span.first });
        for row in (0..span.rows).map(|place| span.row(place)) {
            let tree = self.tree(row.of);
            let place = tree.place(row);
            let low = if row == span.first { low_end(tree, place, row) } else { place };
            reach(pools, tree, low, SHARED);
            if low != place {
                pass(pools, tree, place);
            }
            self.grow(pools, row, place);
        }
        let tree = self.tree(span.first.of);
        reach(pools, tree, tree.place(span.row(span.rows - 1)), SHARED);
    }

    fn insert(&mut self, pools: &mut Pools, row: Row) {
        if row.of == Relation::History {
            self.insert_into(pools, Row { key: self.last_history, ..row }, true);
            self.last_history += 1;
        } else {
            self.insert_into(pools, row, true);
            row.second().into_iter().for_each(|entry| self.insert_into(pools, entry, false));
        }
    }

    /// Only marks the row as deleted; the purge removes it.
    fn delete(&mut self, pools: &mut Pools, row: Row) {
        let tree = self.tree(row.of);
        let place = seek(pools, tree, row);
        pools.get(tree.leaf(place).0, EXCLUSIVE);
        self.write(pools, row, Log::Update, record_bytes(row.of));
        self.undo.deletes(row.group, row.key);
    }
}
