//! InnoDB of MySQL 5.7: what each statement of TPC-C gets, by storage/innobase and sql of MySQL 5.7.
//!
//! The rules were set beside a page trace of MySQL 5.7.22 (TPC-C, 4 warehouses, 8 connections). Left out: old versions
//! of rows, waits for locks, and growing texts of customers.

mod latch;
mod layout;
mod rows;
mod space;
mod undo;

use std::ops::Range;

use bufferlab_workload::tpcc::schema::{CUSTOMERS, ITEMS};

use crate::engine::{Engine, Purpose, Row};
use crate::loaded::{Loaded, Records};
use crate::pools::{Objects, Pools};
use crate::tree::{Grown, Packed, Place};
use latch::{EXCLUSIVE, NO_LATCH, SHARED};
pub(crate) use layout::prefill_misses;
use layout::{
    CARRIER, Compact, DELIVERY_DATE, Growing, LINE_STRIDE, ORDER_BITS, PageSize, Trees, entry_key, lay_out, line_key,
};
pub use rows::Rows;
use space::Space;
pub use space::count_bitmaps;
use undo::{Log, Undo, record};

/// Leaves that the optimizer reads to count the rows of a range (btr0cur.cc, `N_PAGES_READ_LIMIT`).
const DIVED: usize = 10;
/// Rows that a cursor fetches at once (row0mysql.h, `MYSQL_FETCH_CACHE_SIZE`).
const FETCHED: u32 = 8;

/// InnoDB's pages and rules.
pub struct Innodb {
    size: PageSize,
    objects: Objects,
    trees: Trees,
    undo: Undo,
    space: Space,
    /// Rows that the open transaction changed, for its rollback.
    changed: Vec<(Row, Log)>,
    last_history: u32,
    bytes: u64,
}

impl Innodb {
    /// Returns the sizes of records, by which a database is loaded.
    pub fn records() -> impl Records {
        Compact::default()
    }

    /// Lays a loaded database out. `transactions` bounds how much it may grow.
    pub fn new(page_bytes: u32, loaded: &Loaded, transactions: u64) -> Self {
        let size = PageSize(page_bytes);
        let mut objects = Objects::default();
        let trees = lay_out(size, loaded, &mut objects, transactions);
        let space = Space::new(&mut objects);
        let undo = Undo::new(&mut objects, page_bytes);
        let (last_history, bytes) = (loaded.districts() * CUSTOMERS, trees.reserved_bytes(size));
        Innodb { size, objects, trees, undo, space, changed: Vec::new(), last_history, bytes }
    }
}

/// Goes down to a leaf (btr0cur.cc, `btr_cur_search_to_nth_level`).
fn descend(pools: &mut Pools, path: impl Iterator<Item = u32>, page: u32, latch: u8) {
    path.for_each(|page| pools.get(page, SHARED));
    pools.get(page, latch);
}

/// Looks for a row. Above the leaves the search goes to the last key below the row's (`PAGE_CUR_L` for `PAGE_CUR_GE`),
/// so that the first row of a leaf is sought in the leaf before it.
fn seek(pools: &mut Pools, tree: &Packed, row: u32) -> u32 {
    let leaf = tree.leaf(row);
    if leaf > 0 && tree.is_first(leaf, row) {
        descend(pools, tree.interior.path(leaf - 1), tree.page(leaf - 1), SHARED);
        pools.get(tree.page(leaf), SHARED);
    } else {
        descend(pools, tree.interior.path(leaf), tree.page(leaf), SHARED);
    }
    leaf
}

/// As [`seek`], for a SELECT: it gets the leaf behind a leaf's last row too, as seen row by row in MySQL 5.7's
/// INNODB_BUFFER_PAGE (experiments/hot-rows). An UPDATE does not: with it, a trace had 0.09 gets of STOCK a transaction and
/// 0.03 of CUSTOMER fewer.
fn look_up(pools: &mut Pools, tree: &Packed, row: u32) -> u32 {
    let leaf = seek(pools, tree, row);
    if leaf + 1 < tree.leaves() && tree.is_first(leaf + 1, row + 1) {
        pools.get(tree.page(leaf + 1), SHARED);
    }
    leaf
}

/// As [`seek`], in a tree that grows.
fn seek_grown(pools: &mut Pools, tree: &Grown, group: u32, key: u32) -> Place {
    let place = tree.place(group, key);
    match tree.before(place).filter(|_| tree.is_first(place, group, key)) {
        Some(before) => {
            reach(pools, tree, before, SHARED);
            pools.get(tree.leaf(place).page, SHARED);
        }
        None => reach(pools, tree, place, SHARED),
    }
    place
}

fn reach(pools: &mut Pools, tree: &Grown, place: Place, latch: u8) {
    let leaf = tree.leaf(place);
    descend(pools, tree.interior.path(leaf.origin), leaf.page, latch);
}

/// Estimates the rows of a range of keys for the optimizer: goes to both ends and, where they are not neighbours, along
/// the leaves from the first (btr0cur.cc, `btr_estimate_n_rows_in_range_low`, `btr_estimate_n_rows_on_level`).
fn dive(pools: &mut Pools, tree: &Grown, low: Place, high: Place) {
    reach(pools, tree, low, SHARED);
    reach(pools, tree, high, SHARED);
    let between = std::iter::successors(Some(low), |&place| tree.behind(place)).take_while(|&place| place != high);
    if between.clone().nth(1).is_some() {
        between.take(DIVED).for_each(|place| pools.get(tree.leaf(place).page, SHARED));
    }
}

/// Returns the leaf in which the search for the first key of a range begins.
fn low_end(tree: &Grown, group: u32, key: u32) -> Place {
    let place = tree.place(group, key);
    tree.before(place).filter(|_| tree.is_first(place, group, key)).unwrap_or(place)
}

impl Innodb {
    /// Asks the index on names for the rows of a district, as the optimizer does for each UPDATE of CUSTOMER by its
    /// primary key: the index begins with the same columns (sql/opt_range.cc, `check_quick_select`).
    fn dive_names(&self, pools: &mut Pools, places: Range<u32>) {
        Self::dive_fixed(pools, &self.trees.customer_by_name, places);
    }

    /// As [`dive`], in a tree that does not grow.
    fn dive_fixed(pools: &mut Pools, tree: &Packed, places: Range<u32>) {
        let first = tree.leaf(places.start);
        let low = first - u32::from(first > 0 && tree.is_first(first, places.start));
        let high = tree.leaf(places.end - 1);
        for leaf in [low, high] {
            descend(pools, tree.interior.path(leaf), tree.page(leaf), SHARED);
        }
        if high > low + 1 {
            (low..high).take(DIVED).for_each(|leaf| pools.get(tree.page(leaf), SHARED));
        }
    }

    /// The same for the index of orders on customers.
    fn dive_orders(&self, pools: &mut Pools, district: u32, low: u32, high: u32) {
        let tree = &self.trees.orders_by_customer;
        dive(pools, tree, low_end(tree, district, low), tree.place(district, high));
    }

    fn dive_lines(&self, pools: &mut Pools, district: u32, first: u32, last: u32) {
        let tree = &self.trees.order_line;
        let low = low_end(tree, district, line_key(first, 1));
        dive(pools, tree, low, tree.place(district, line_key(last, LINE_STRIDE - 1)));
    }

    /// Reads rows behind the first one: the cursor returns to the leaf for each fetch (row0sel.cc, `row_search_mvcc`).
    fn fetch(pools: &mut Pools, page: u32, rows: u32) {
        (0..rows / FETCHED + 1).for_each(|_| pools.get(page, SHARED));
    }

    fn write(&mut self, pools: &mut Pools, row: Row, log: Log, bytes: u32) {
        self.undo.write(pools, log, bytes);
        self.changed.push((row, log));
    }

    /// Seeks a row of a table that does not grow, in one of two ways; returns its page.
    fn seek_fixed(&self, pools: &mut Pools, row: Row, way: fn(&mut Pools, &Packed, u32) -> u32) -> Option<u32> {
        let trees = &self.trees;
        let (tree, number) = match row {
            Row::Warehouse(warehouse) => (&trees.warehouse, warehouse - 1),
            Row::District(district) => (&trees.district, district),
            Row::Customer(district, customer) => (&trees.customer, district * CUSTOMERS + customer - 1),
            Row::Item(item) => (&trees.item, item - 1),
            Row::Stock(warehouse, item) => (&trees.stock, (warehouse - 1) * ITEMS + item - 1),
            _ => return None,
        };
        let number = if let Row::Item(_) = row { number.min(ITEMS - 1) } else { number };
        let leaf = way(pools, tree, number);
        Some(tree.page(leaf))
    }

    /// Puts a row into a tree (btr0cur.cc, `btr_cur_optimistic_insert`, `btr_cur_pessimistic_insert`).
    fn insert_into(&mut self, pools: &mut Pools, table: Growing, group: u32, key: u32, log: Option<Row>) {
        let bytes = self.trees.bytes.of(table);
        let size = self.size;
        let tree = self.tree(table);
        let place = tree.place(group, key);
        reach(pools, tree, place, EXCLUSIVE);
        let leaf = *tree.leaf(place);
        let in_a_row = leaf.last_insert.is_some_and(|(last, before)| last == group && before < key);
        let is_clustered = table != Growing::Entries;
        let fits = if in_a_row && is_clustered {
            size.takes_next(leaf.rows, leaf.bytes, bytes)
        } else {
            size.takes(leaf.rows, leaf.bytes, bytes)
        };
        if fits {
            self.tree_mut(table).add(place, group, key, bytes);
            if let Some(row) = log {
                self.write(pools, row, Log::Insert, 30);
            }
            return;
        }
        self.latch_siblings(pools, table, place);
        if let Some(row) = log {
            self.write(pools, row, Log::Insert, 30);
        }
        self.split(pools, table, place, (group, key, bytes), in_a_row);
    }

    /// Latches a leaf and both its siblings, from the root again, because the tree may change (btr0cur.cc,
    /// `btr_cur_latch_leaves` with `BTR_MODIFY_TREE`).
    fn latch_siblings(&self, pools: &mut Pools, table: Growing, place: Place) {
        let tree = self.tree(table);
        let leaf = tree.leaf(place);
        tree.interior.path(leaf.origin).for_each(|page| pools.get(page, NO_LATCH));
        pools.get(leaf.page, NO_LATCH);
        for other in [tree.before(place), Some(place), tree.behind(place)].into_iter().flatten() {
            pools.get(tree.leaf(other).page, EXCLUSIVE);
        }
    }

    /// Splits a leaf (btr0btr.cc, `btr_page_split_and_insert`): one row behind the new one where rows come in a row
    /// (`btr_page_get_split_rec_to_right`), in the middle otherwise.
    fn split(
        &mut self,
        pools: &mut Pools,
        table: Growing,
        place: Place,
        (group, key, bytes): (u32, u32, u32),
        in_a_row: bool,
    ) {
        let tree = self.tree_mut(table);
        let leaf = *tree.leaf(place);
        let (later, later_bytes) = if in_a_row { tree.later_rows(place, group) } else { (0, 0) };
        let ((first_group, first), rows, moved) = match (in_a_row, later) {
            (false, _) => (tree.middle(place), leaf.rows / 2, leaf.bytes / 2),
            (true, 0 | 1) => ((group, key), later, later_bytes),
            _ => (tree.second_of_later_groups(group), later - 1, later_bytes - later_bytes / later),
        };
        let Some(new) = tree.split(place, first_group, first, rows, moved) else { return pools.fill() };
        if later > 1 {
            tree.note_begun(first_group, first, 1, later_bytes / later);
        }
        // The elder's place may have moved by one.
        let elder = tree.before(new).unwrap_or(place);
        let own = tree.leaf_mut(elder);
        (own.rows, own.bytes) = (leaf.rows - rows, leaf.bytes - moved);
        let target = tree.place(group, key);
        tree.add(target, group, key, bytes);
        let page = tree.leaf(new).page;
        let behind = tree.behind(new).map(|place| tree.leaf(place).page);
        self.space.reserve(pools, table);
        self.space.make(pools, table, self.tree(table), page);
        behind.into_iter().for_each(|page| pools.get(page, EXCLUSIVE));
        space::father(pools, self.tree(table), leaf.origin);
        if table == Growing::Entries {
            self.space.note_room(pools, table);
        }
        self.tree_mut(table).point_to(leaf.origin).into_iter().for_each(|page| pools.create_interior(page));
    }

    /// Merges a leaf that is less than half full into a neighbour that has room (btr0btr.cc, `btr_compress`).
    fn merge(&mut self, pools: &mut Pools, table: Growing, place: Place) {
        let size = self.size;
        let tree = self.tree(table);
        let leaf = *tree.leaf(place);
        let room = |other: &Place| size.takes(tree.leaf(*other).rows + leaf.rows, tree.leaf(*other).bytes, leaf.bytes);
        let latch = |pools: &mut Pools, place: Option<Place>| {
            place.into_iter().for_each(|place| pools.get(tree.leaf(place).page, EXCLUSIVE));
        };
        let (left, right) = (tree.before(place), tree.behind(place));
        space::father(pools, tree, leaf.origin);
        latch(pools, left);
        let to_left = left.filter(room);
        if to_left.is_none() {
            latch(pools, right);
        }
        let Some(into) = to_left.or_else(|| right.filter(room)) else { return };
        // The node pointer goes, and the leaf out of the list of its level.
        space::father(pools, tree, leaf.origin);
        latch(pools, left);
        latch(pools, right);
        self.space.give_back(pools, table, tree);
        let tree = self.tree_mut(table);
        if to_left.is_some() {
            let own = tree.leaf_mut(into);
            (own.rows, own.bytes) = (own.rows + leaf.rows, own.bytes + leaf.bytes);
            return tree.remove(place);
        }
        let other = *tree.leaf(into);
        // The right page stays, with the keys of both.
        let own = tree.leaf_mut(place);
        (own.rows, own.bytes) = (own.rows + other.rows, own.bytes + other.bytes);
        let freed = std::mem::replace(&mut own.page, other.page);
        own.last_insert = None;
        tree.leaf_mut(into).page = freed;
        tree.remove(into);
    }

    /// Whether a leaf is so empty that InnoDB tries to merge it (btr0cur.h, `BTR_CUR_PAGE_COMPRESS_LIMIT`).
    fn is_nearly_empty(&self, table: Growing, place: Place) -> bool {
        self.tree(table).leaf(place).bytes < self.size.0 / 2
    }

    /// Lets a row grow (btr0cur.cc, `btr_cur_optimistic_update`, `btr_cur_pessimistic_update`).
    fn grow(&mut self, pools: &mut Pools, table: Growing, place: Place, row: Row, by: u32) {
        let size = self.size;
        let leaf = *self.tree(table).leaf(place);
        pools.get(leaf.page, EXCLUSIVE);
        let old = self.trees.bytes.of(table);
        let left = old + size.max_insert(leaf.rows, leaf.bytes);
        let overflows = left < size.0 / 32 || left < old + by;
        let underflows = self.is_nearly_empty(table, place);
        if overflows || underflows {
            self.latch_siblings(pools, table, place);
        }
        let undo = if table == Growing::Lines { record::LINE } else { record::ORDER };
        self.write(pools, row, Log::Update, undo);
        if overflows && !underflows {
            self.space.reserve(pools, table);
        }
        let own = self.tree_mut(table).leaf_mut(place);
        own.bytes += by;
        if underflows {
            self.merge(pools, table, place);
        } else if left < old + by {
            let leaf = *self.tree(table).leaf(place);
            let (group, key) = self.tree(table).middle(place);
            let tree = self.tree_mut(table);
            // Rows grow in the order of their keys, so that those behind have not grown yet.
            let (upper, grown) = (leaf.rows / 2, leaf.bytes.saturating_sub(leaf.rows * old) / by);
            let moved = upper * old + by * grown.saturating_sub(leaf.rows - upper);
            if let Some(new) = tree.split(place, group, key, upper, moved) {
                let elder = tree.before(new).unwrap_or(place);
                let own = tree.leaf_mut(elder);
                (own.rows, own.bytes) = (leaf.rows - upper, leaf.bytes - moved);
                let page = tree.leaf(new).page;
                self.space.make(pools, table, self.tree(table), page);
                self.tree_mut(table).point_to(leaf.origin).into_iter().for_each(|page| pools.create_interior(page));
            } else {
                pools.fill();
            }
        }
    }

    /// Removes the row of a purged or rolled back transaction.
    fn remove(&mut self, pools: &mut Pools, table: Growing, group: u32, key: u32, next: Option<u32>) {
        let bytes = self.trees.bytes.of(table);
        let tree = self.tree_mut(table);
        let place = tree.place(group, key);
        reach(pools, tree, place, EXCLUSIVE);
        tree.take(place, group, bytes, next);
        if next.is_some() && self.is_nearly_empty(table, place) {
            self.latch_siblings(pools, table, place);
            self.space.reserve(pools, table);
            self.merge(pools, table, place);
        }
    }

    fn tree(&self, table: Growing) -> &Grown {
        self.trees.grown(table)
    }

    fn tree_mut(&mut self, table: Growing) -> &mut Grown {
        self.trees.grown_mut(table)
    }
}

impl Engine for Innodb {
    const MOST_ORDERS: u32 = (1 << ORDER_BITS) - 1;
    /// Rows of STOCK have 32-bit numbers.
    const MOST_WAREHOUSES: u32 = 40_000;

    /// Those of ITEM, the undo log, and the pages of the system that transactions use.
    fn shared_pages(page_bytes: u32) -> u32 {
        9_700_000 / page_bytes + undo::PAGES_IN_USE
    }

    fn objects(&self) -> &Objects {
        &self.objects
    }

    /// DATA_LENGTH and INDEX_LENGTH of all tables.
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn interior_pages(&self) -> Vec<u32> {
        self.trees.interior_pages()
    }

    /// crates/bufferlab-drive/dialects/mysql/tpcc/prefill.sql: each table once, several gets of each leaf.
    fn prefill(&mut self, pools: &mut Pools) {
        let twice = |pools: &mut Pools, page| (0..2).for_each(|_| pools.get(page, SHARED));
        for tree in self.trees.all_grown() {
            tree.interior.path(0).for_each(|page| pools.get(page, SHARED));
            tree.leaves().for_each(|leaf| twice(pools, leaf.page));
        }
        for tree in self.trees.all_packed() {
            tree.interior.path(0).for_each(|page| pools.get(page, SHARED));
            (0..tree.leaves()).for_each(|leaf| twice(pools, tree.page(leaf)));
        }
    }

    fn begin(&mut self, _pools: &mut Pools, _read_only: bool) {
        self.changed.clear();
    }

    fn commit(&mut self, pools: &mut Pools) {
        self.undo.commit(pools);
        for (district, order) in self.undo.purge(pools) {
            self.remove(pools, Growing::NewOrder, district, order, Some(order + 1));
        }
    }

    /// row0undo.cc, `row_undo`: the last change first.
    fn rollback(&mut self, pools: &mut Pools) {
        while let Some((row, log)) = self.changed.pop() {
            self.undo.read_back(pools, log);
            match row {
                Row::Order { district, order, customer } => {
                    self.remove(pools, Growing::Entries, district, entry_key(customer, order), None);
                    self.remove(pools, Growing::Orders, district, order, None);
                }
                Row::NewOrder(district, order) => self.remove(pools, Growing::NewOrder, district, order, None),
                Row::Line(district, order, line) => {
                    self.remove(pools, Growing::Lines, district, line_key(order, line), None);
                }
                row => {
                    let page = self.seek_fixed(pools, row, seek);
                    page.into_iter().for_each(|page| pools.get(page, EXCLUSIVE));
                }
            }
        }
        self.undo.forget(pools);
    }

    fn read(&mut self, pools: &mut Pools, row: Row, _purpose: Purpose) {
        if let Row::Order { district, order, .. } = row {
            seek_grown(pools, &self.trees.orders, district, order);
        } else {
            self.seek_fixed(pools, row, look_up);
        }
    }

    fn update(&mut self, pools: &mut Pools, row: Row, _note: u32) {
        match row {
            Row::Customer(district, _) => {
                self.dive_names(pools, district * CUSTOMERS..(district + 1) * CUSTOMERS);
            }
            Row::Order { district, order, .. } => {
                self.dive_orders(pools, district, 0, entry_key(CUSTOMERS, u32::MAX >> 13));
                let place = seek_grown(pools, &self.trees.orders, district, order);
                return self.grow(pools, Growing::Orders, place, row, CARRIER);
            }
            _ => {}
        }
        let Some(page) = self.seek_fixed(pools, row, seek) else { return };
        pools.get(page, EXCLUSIVE);
        let bytes = match row {
            Row::Warehouse(_) => record::WAREHOUSE,
            Row::District(_) => record::DISTRICT,
            Row::Customer(..) => record::CUSTOMER,
            _ => record::STOCK,
        };
        self.write(pools, row, Log::Update, bytes);
    }

    fn insert(&mut self, pools: &mut Pools, row: Row) {
        match row {
            Row::History => {
                let key = self.last_history;
                self.last_history += 1;
                self.insert_into(pools, Growing::History, 0, key, Some(row));
            }
            Row::Order { district, order, customer } => {
                self.insert_into(pools, Growing::Orders, district, order, Some(row));
                self.insert_into(pools, Growing::Entries, district, entry_key(customer, order), None);
            }
            Row::NewOrder(district, order) => {
                self.insert_into(pools, Growing::NewOrder, district, order, Some(row));
            }
            Row::Line(district, order, line) => {
                self.insert_into(pools, Growing::Lines, district, line_key(order, line), Some(row));
            }
            _ => {}
        }
    }

    fn read_names(&mut self, pools: &mut Pools, district: u32, places: Range<u32>) {
        let rows = district * CUSTOMERS + places.start..district * CUSTOMERS + places.end;
        self.dive_names(pools, rows.clone());
        let leaf = look_up(pools, &self.trees.customer_by_name, rows.start);
        Self::fetch(pools, self.trees.customer_by_name.page(leaf), rows.end - rows.start);
        let last = self.trees.customer_by_name.leaf(rows.end - 1);
        if last > leaf {
            pools.get(self.trees.customer_by_name.page(last), SHARED);
        }
    }

    fn read_last_order(&mut self, pools: &mut Pools, district: u32, customer: u32, order: u32) {
        self.dive_orders(pools, district, entry_key(customer, 0), entry_key(customer, order));
        let tree = &self.trees.orders_by_customer;
        let place = tree.place(district, entry_key(customer, order));
        reach(pools, tree, place, SHARED);
        seek_grown(pools, &self.trees.orders, district, order);
    }

    fn read_lines(&mut self, pools: &mut Pools, district: u32, order: u32, lines: u32) {
        self.dive_lines(pools, district, order, order);
        let place = seek_grown(pools, &self.trees.order_line, district, line_key(order, 1));
        Self::fetch(pools, self.trees.order_line.leaf(place).page, lines);
        let last = self.trees.order_line.place(district, line_key(order, lines));
        if last != place {
            pools.get(self.trees.order_line.leaf(last).page, SHARED);
        }
    }

    /// Each row is sought, changed, and left: the next one is sought from the root.
    fn deliver_lines(&mut self, pools: &mut Pools, district: u32, order: u32, lines: u32) {
        self.dive_lines(pools, district, order, order);
        for line in 1..=lines {
            let key = line_key(order, line);
            let place = if line == 1 {
                seek_grown(pools, &self.trees.order_line, district, key)
            } else {
                let place = self.trees.order_line.place(district, key);
                reach(pools, &self.trees.order_line, place, SHARED);
                place
            };
            self.grow(pools, Growing::Lines, place, Row::Line(district, order, line), DELIVERY_DATE);
        }
        let tree = &self.trees.order_line;
        reach(pools, tree, tree.place(district, line_key(order, lines)), SHARED);
    }

    /// The search for a district begins in the last leaf of the district before, and passes rows that wait for the
    /// purge.
    fn read_oldest(&mut self, pools: &mut Pools, district: u32, oldest: Option<u32>) {
        let tree = &self.trees.new_order;
        let low = low_end(tree, district, 0);
        dive(pools, tree, low, tree.place(district, u32::MAX >> 1));
        reach(pools, tree, low, SHARED);
        let target = tree.place(district, oldest.unwrap_or(u32::MAX >> 1));
        let along = std::iter::successors(Some(low), |&place| tree.behind(place).filter(|_| place != target));
        along.skip(1).take(DIVED).for_each(|place| pools.get(tree.leaf(place).page, SHARED));
    }

    /// The row is only marked; the purge removes it.
    fn delete_new_order(&mut self, pools: &mut Pools, district: u32, order: u32) {
        let place = seek_grown(pools, &self.trees.new_order, district, order);
        pools.get(self.trees.new_order.leaf(place).page, EXCLUSIVE);
        self.write(pools, Row::NewOrder(district, order), Log::Update, record::NEW_ORDER);
        self.undo.deletes(district, order);
    }

    fn read_low_stock(&mut self, pools: &mut Pools, district: u32, orders: Range<u32>, items: &[Vec<u32>]) {
        self.dive_lines(pools, district, orders.start, orders.end - 1);
        let warehouse = district / 10 + 1;
        // The join's range on STOCK is all of the warehouse.
        Self::dive_fixed(pools, &self.trees.stock, (warehouse - 1) * ITEMS..warehouse * ITEMS);
        let mut place = seek_grown(pools, &self.trees.order_line, district, line_key(orders.start, 1));
        let mut fetched = 0;
        for (order, items) in orders.zip(items) {
            for (&item, line) in items.iter().zip(1..) {
                let tree = &self.trees.order_line;
                let now = tree.place(district, line_key(order, line));
                if now != place || fetched == FETCHED {
                    pools.get(tree.leaf(now).page, SHARED);
                    (place, fetched) = (now, 0);
                }
                fetched += 1;
                self.seek_fixed(pools, Row::Stock(warehouse, item), look_up);
            }
        }
        // The last batch of rows goes on behind the range's end; the first four rows are no batch (row0sel.cc,
        // `row_search_mvcc`; row0mysql.h, `MYSQL_FETCH_CACHE_THRESHOLD`).
        let (tree, rows) = (&self.trees.order_line, items.iter().map(Vec::len).sum::<usize>() as u32);
        let beyond = FETCHED - rows.saturating_sub(4) % FETCHED;
        if tree.later_rows(place, district).0 < beyond {
            tree.behind(place).into_iter().for_each(|place| pools.get(tree.leaf(place).page, SHARED));
        }
    }
}
