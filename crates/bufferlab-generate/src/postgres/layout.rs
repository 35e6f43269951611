//! PostgreSQL's pages after the load: COPY fills heaps in the order of keys, then builds each index, sorted
//! (crates/bufferlab-drive/src/postgres/loader.rs).

use bufferlab_workload::tpcc::schema::{CUSTOMERS, DISTRICTS, ITEMS, ORDERS, TableId};

use super::heap::{Heap, RowId, Updated, Version};
use super::index::{Built, Entry, Index, fan_out};
use super::record::{Tuples, max_aligned};
use super::session::{HELD, Now};
use crate::loaded::{District, Loaded, UNDELIVERED};
use crate::pools::{Objects, Pools};
use crate::tree::{Grown, Loading, Packed, pack};

/// Districts whose rows are generated at most; further ones repeat them.
pub(super) const OWN_DISTRICTS: u32 = 40;

/// Bits by which a key holds a customer above an order.
pub(super) const ORDER_BITS: u32 = 19;
/// Lines of an order at most, as a stride of keys.
const LINE_STRIDE: u32 = 16;
/// Bytes by which a line's length grows when it is delivered: null bits of two bytes, rounded up, are no longer needed
/// (24 for 32), and a date comes, with six bytes to align it.
const DELIVERED: u16 = 6;

/// Key of an entry in the index of orders on customers.
pub(super) fn entry_key(customer: u32, order: u32) -> u32 {
    customer << ORDER_BITS | order
}

/// Key of a line.
pub(super) fn line_key(order: u32, line: u32) -> u32 {
    order * LINE_STRIDE + line
}

/// A table with an index of its primary key.
pub(super) struct Table {
    pub(super) heap: Heap,
    pub(super) key: Index,
}

impl Table {
    /// Reads a row by its key; `loaded` tells number and bytes of one that is as it was loaded. Returns its version.
    pub(super) fn find(
        &mut self,
        pools: &mut Pools,
        id: RowId,
        loaded: impl FnOnce() -> (u32, u16),
        now: Now,
    ) -> Version {
        let version = self.heap.version(id, loaded);
        self.key.seek(pools, id);
        self.key.fetch(pools, &mut self.heap, id, Some(version.block), &mut None, now);
        version
    }

    /// Writes a new version of a row whose page is pinned, and its entry in the key where the version moved
    /// (nodeModifyTable.c, `ExecUpdate`).
    pub(super) fn rewrite(&mut self, pools: &mut Pools, id: RowId, before: Version, bytes: u16, now: Now) -> Updated {
        // ExecModifyTable fetches the old version.
        pools.get(self.heap.page(before.block), HELD);
        let updated = self.heap.update(pools, id, before, bytes, now);
        if updated.has_moved() {
            self.key.bury(id, before.block, false, now);
            let entry = Entry { key: id, block: updated.block, pinned: Some(before.block) };
            self.key.insert(pools, &mut self.heap, entry, now);
        }
        updated
    }
}

/// Bytes of tuples, not rounded up.
pub(super) struct Bytes {
    stock: Vec<Vec<u16>>,
    customers: Vec<Vec<u16>>,
    /// Lines of a district before each order.
    lines_before: Vec<Vec<u32>>,
    /// Lines before each district.
    lines: Vec<u32>,
    pub(super) warehouse: u16,
    pub(super) district: u16,
    pub(super) history: u16,
    pub(super) order: u16,
    pub(super) new_order: u16,
    pub(super) line: u16,
    pub(super) delivered_line: u16,
    /// A customer with the longest text.
    pub(super) longest_customer: u16,
}

/// Returns the sum of the numbers before each.
fn sums(numbers: impl Iterator<Item = u32>) -> Vec<u32> {
    let before = |sum: &mut u32, number| {
        let before = *sum;
        *sum += number;
        Some(before)
    };
    numbers.scan(0, before).collect()
}

impl Bytes {
    fn new(loaded: &Loaded) -> Self {
        let own = loaded.districts().min(OWN_DISTRICTS);
        let districts = || (0..own).map(|number| loaded.district(number));
        let first = loaded.district(0);
        let mean =
            |bytes: &[u16]| (bytes.iter().map(|&bytes| u32::from(bytes)).sum::<u32>() / bytes.len() as u32) as u16;
        let last = |bytes: &[u16]| bytes.last().copied().unwrap_or_default();
        let before = |district: &District| sums((1..=ORDERS).map(|order| district.lines_of(order)));
        let line = last(&first.lines);
        Bytes {
            lines: sums((0..loaded.districts()).map(|number| loaded.district(number).lines.len() as u32)),
            stock: (1..=own.div_ceil(DISTRICTS)).map(|warehouse| loaded.stock(warehouse).to_vec()).collect(),
            customers: districts().map(|district| district.customers.clone()).collect(),
            lines_before: districts().map(before).collect(),
            warehouse: loaded.warehouse,
            district: first.row,
            history: mean(&first.history),
            order: last(&first.orders),
            new_order: last(&first.new_orders),
            line,
            delivered_line: line + DELIVERED,
            // Texts have 300 to 500 bytes, each length as often (4.3.3.1).
            longest_customer: mean(&first.customers) + 100,
        }
    }

    /// Returns a customer's number among all, and the bytes of the loaded row.
    pub(super) fn customer(&self, district: u32, customer: u32) -> (u32, u16) {
        let own = &self.customers[district as usize % self.customers.len()];
        (district * CUSTOMERS + customer - 1, own[customer as usize - 1])
    }

    /// The same of a warehouse's stock.
    pub(super) fn stock(&self, warehouse: u32, item: u32) -> (u32, u16) {
        let own = &self.stock[(warehouse as usize - 1) % self.stock.len()];
        ((warehouse - 1) * ITEMS + item - 1, own[item as usize - 1])
    }

    /// The same of a loaded line.
    pub(super) fn line(&self, district: u32, order: u32, line: u32) -> (u32, u16) {
        let own = &self.lines_before[district as usize % self.lines_before.len()];
        let is_delivered = order < UNDELIVERED.start;
        let bytes = if is_delivered { self.delivered_line } else { self.line };
        (self.lines[district as usize] + own[order as usize - 1] + line - 1, bytes)
    }
}

/// The tables and indexes of the database.
pub(super) struct Trees {
    pub(super) warehouse: Table,
    pub(super) district: Table,
    pub(super) item: Heap,
    pub(super) item_key: Packed,
    pub(super) stock: Table,
    pub(super) customer: Table,
    pub(super) customer_by_name: Index,
    pub(super) history: Heap,
    pub(super) orders: Table,
    pub(super) orders_by_customer: Index,
    pub(super) new_order: Table,
    pub(super) order_line: Table,
}

/// Hears an entry's group, key and bytes.
type Push<'a> = dyn FnMut(u32, u32, u32) + 'a;
/// Tells all entries of an index.
type Rows<'a> = dyn FnMut(&mut Push<'_>) + 'a;

/// Adds objects in the order of their names, as a page trace has them.
struct Layout<'a> {
    loaded: &'a Loaded,
    objects: &'a mut Objects,
    transactions: u64,
}

impl Layout<'_> {
    /// Most pages that a heap grows by: each transaction adds so many rows.
    fn growth(&self, rows: u64, bytes: u16) -> u32 {
        (self.transactions * rows * u64::from(max_aligned(bytes.into()) + 4) / 8000) as u32 + 256
    }

    fn heap(&mut self, name: &str, rows: impl Iterator<Item = u16>, growth: u32) -> Heap {
        Heap::new(self.objects, name, rows, growth)
    }

    /// Builds an index of entries and of keys above the leaves of so many bytes; `rows` tells groups, keys and bytes of
    /// all entries. Columns that do not tell two leaves apart are left out of a key (nbtutils.c, `_bt_truncate`).
    fn index(
        &mut self,
        name: &str,
        (groups, keys): (u32, u64),
        (entry, above): (u32, u32),
        rows: &mut Rows<'_>,
        growth: u32,
        kind: (bool, bool),
    ) -> Index {
        let mut loading = Loading::new(groups, keys);
        rows(&mut |group, key, bytes| loading.push(group, key, bytes, &Built));
        let tree = Grown::new(self.objects, name, loading, fan_out(above), growth);
        Index::new(tree, entry, groups, kind.0, kind.1)
    }
}

const UNIQUE: (bool, bool) = (true, true);

/// Lays the database out. `transactions` bounds the growth.
pub(super) fn lay_out(loaded: &Loaded, objects: &mut Objects, transactions: u64) -> (Trees, Bytes) {
    let bytes = Bytes::new(loaded);
    let tuples = Tuples::default();
    let (warehouses, districts) = (loaded.warehouses(), loaded.districts());
    let all = || (0..districts).map(|number| (number, loaded.district(number)));
    let of_districts = |of: fn(&District) -> &[u16]| all().flat_map(move |(_, own)| of(own).iter().copied());
    let mut lay = Layout { loaded, objects, transactions };
    // A tenth of a table's pages take moved rows until each page has room of its own; more where pages are few.
    let spare = |pages: u32| pages / 2 + 512;
    let customer_pages = districts * CUSTOMERS / 12;
    let customers = lay.heap("customer", of_districts(|own| &own.customers), spare(customer_pages));
    let mean = |own: &[u16]| own.iter().map(|&bytes| u32::from(bytes)).sum::<u32>() / own.len() as u32;
    let name_entry = mean(&loaded.district(0).names);
    let customer_by_name = lay.index(
        "customer.customer_by_name",
        (districts, CUSTOMERS.into()),
        (name_entry, name_entry),
        &mut |push| {
            for (district, own) in all() {
                own.names.iter().zip(0..).for_each(|(&bytes, place)| push(district, place, bytes.into()));
            }
        },
        districts * 10 + 64,
        (false, false),
    );
    let entry = tuples.key_entry(TableId::Customer);
    let every = |count: u32| {
        move |push: &mut Push<'_>| {
            (0..districts).for_each(|district| (1..=count).for_each(|key| push(district, key, entry)));
        }
    };
    let room = districts * 4 + 64;
    let key =
        lay.index("customer.customer_pkey", (districts, 3001), (entry, entry), &mut every(CUSTOMERS), room, UNIQUE);
    let customer = Table { heap: customers, key };
    let district = lay.small("district", districts, bytes.district);
    let room = lay.growth(1, bytes.history);
    let history = lay.heap("history", of_districts(|own| &own.history), room);
    let item = lay.heap("item", loaded.items.iter().copied(), 0);
    let entry_item = tuples.key_entry(TableId::Item);
    let packing = pack((0..ITEMS).map(|_| entry_item as u16), &Built);
    let item_key = Packed::new(lay.objects, "item.item_pkey", packing, ITEMS, fan_out(entry_item));
    let room = lay.growth(1, bytes.new_order);
    let heap = lay.heap("new_order", of_districts(|own| &own.new_orders), room);
    let mut undelivered = |push: &mut Push<'_>| {
        (0..districts).for_each(|district| UNDELIVERED.for_each(|order| push(district, order, entry)));
    };
    let room = lay.growth(1, 24) + 4 * districts;
    let key =
        lay.index("new_order.new_order_pkey", (districts, 1 << 31), (entry, entry), &mut undelivered, room, UNIQUE);
    let new_order = Table { heap, key };
    let order_line = lay.lines(&bytes, tuples.key_entry(TableId::OrderLine));
    let room = lay.growth(1, bytes.order) + districts * 30;
    let heap = lay.heap("orders", of_districts(|own| &own.orders), room);
    let by_customer = u32::from(loaded.district(0).order_entries[0]);
    let room = lay.growth(1, 48) + districts * 16;
    let orders_by_customer = lay.index(
        "orders.orders_by_customer",
        (districts, u64::from(CUSTOMERS + 1) << ORDER_BITS),
        (by_customer, entry),
        &mut |push| {
            for (district, own) in all() {
                (1..=CUSTOMERS).for_each(|c| push(district, entry_key(c, own.order_of(c)), by_customer));
            }
        },
        room,
        (false, true),
    );
    let room = lay.growth(1, 24) + 4 * districts;
    let key = lay.index("orders.orders_pkey", (districts, 1 << 31), (entry, entry), &mut every(ORDERS), room, UNIQUE);
    let orders = Table { heap, key };
    let rows = (1..=warehouses).flat_map(|warehouse| loaded.stock(warehouse).iter().copied());
    let heap = lay.heap("stock", rows, spare(warehouses * ITEMS / 23));
    let mut stocks = |push: &mut Push<'_>| {
        (0..warehouses).for_each(|warehouse| (1..=ITEMS).for_each(|item| push(warehouse, item, entry)));
    };
    let room = warehouses * 100 + 64;
    let key = lay.index("stock.stock_pkey", (warehouses, 100_001), (entry, entry), &mut stocks, room, UNIQUE);
    let stock = Table { heap, key };
    let warehouse = lay.small("warehouse", warehouses, bytes.warehouse);
    let trees = Trees {
        warehouse,
        district,
        item,
        item_key,
        stock,
        customer,
        customer_by_name,
        history,
        orders,
        orders_by_customer,
        new_order,
        order_line,
    };
    (trees, bytes)
}

impl Layout<'_> {
    /// Lays a table of a few rows out.
    fn small(&mut self, name: &str, rows: u32, bytes: u16) -> Table {
        let heap = self.heap(name, (0..rows).map(|_| bytes), rows + 64);
        let entry = Tuples::default().key_entry(TableId::District);
        let mut keys = |push: &mut Push<'_>| (0..rows).for_each(|row| push(0, row, entry));
        let key =
            self.index(&format!("{name}.{name}_pkey"), (1, 1 << 31), (entry, entry), &mut keys, rows + 64, UNIQUE);
        Table { heap, key }
    }

    fn lines(&mut self, bytes: &Bytes, entry: u32) -> Table {
        let loaded = self.loaded;
        let all = || (0..loaded.districts()).map(|number| (number, loaded.district(number)));
        let room = self.growth(15, bytes.delivered_line) + loaded.districts() * 64;
        let heap = self.heap("order_line", all().flat_map(|(_, own)| own.lines.iter().copied()), room);
        let mut keys = |push: &mut Push<'_>| {
            for (district, own) in all() {
                for order in 1..=ORDERS {
                    (1..=own.lines_of(order)).for_each(|line| push(district, line_key(order, line), entry));
                }
            }
        };
        let room = self.growth(15, 32) + loaded.districts() * 32;
        let name = "order_line.order_line_pkey";
        // One leaf in ten begins with an order, and its key above needs no number of a line.
        let above = (9 * entry + Tuples::default().key_entry(TableId::Orders)) / 10;
        let key = self.index(name, (loaded.districts(), 1 << 31), (entry, above), &mut keys, room, UNIQUE);
        Table { heap, key }
    }
}
