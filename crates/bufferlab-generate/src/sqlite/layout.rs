//! SQLite's pages after the load: bytes of cells, and the trees that the loader's appends make.

use bufferlab_workload::client::Value;
use bufferlab_workload::population::RowBlock;
use bufferlab_workload::tpcc::TpccConfig;
use bufferlab_workload::tpcc::population::{generate, partitions};
use bufferlab_workload::tpcc::schema::{CUSTOMERS, ORDERS, TableId};

use super::btree::Btree;
use crate::loaded::{Columns, District, Loaded, Records, UNDELIVERED};
use crate::pools::{Objects, Pools};

/// Bits of an order's number in the key of a line; the largest is 262,143.
pub(super) const ORDER_BITS: u32 = 18;
const LINE_BITS: u32 = 4;
/// Keys of lines have 32 bits: ten for the district.
pub(super) const MAX_WAREHOUSES: u32 = 102;

pub(super) fn order_key(district: u32, order: u32) -> u32 {
    district << ORDER_BITS | order
}

pub(super) fn line_key(district: u32, order: u32, line: u32) -> u32 {
    order_key(district, order) << LINE_BITS | line
}

/// Key of an entry in the index of orders on customers. Orders of one customer share a key's last bits by turns: the
/// few that a customer has since the load have even numbers above that of the loaded one.
pub(super) fn entry_key(district: u32, customer: u32, order: u32) -> u32 {
    const SPACE: u32 = 1 << 10;
    let place = if order <= ORDERS { 0 } else { 2 + (order - ORDERS) / 256 % (SPACE / 2 - 2) * 2 };
    (district * CUSTOMERS + customer - 1) * SPACE + place
}

/// Bytes by which a line grows when its date of delivery is set: 0 for NULL, 8 for microseconds since 1970.
pub(super) const DELIVERY_DATE: u16 = 8;

/// Bytes of cells: a record of the file format's section 2.1, behind the length of its payload.
pub(super) struct Cells;

/// Returns the bytes of a varint.
pub(super) fn varint(number: u32) -> u32 {
    (32 - number.leading_zeros()).div_ceil(7).max(1)
}

/// Returns the serial type of a value and its bytes.
fn serial(value: Value<'_>) -> (u32, u32) {
    match value {
        Value::Null => (0, 0),
        Value::Int(0) => (8, 0),
        Value::Int(1) => (9, 0),
        Value::Int(int) => {
            let bits = 65 - if int < 0 { !int } else { int }.leading_zeros();
            match bits {
                0..=8 => (1, 1),
                9..=16 => (2, 2),
                17..=24 => (3, 3),
                25..=32 => (4, 4),
                33..=48 => (5, 6),
                _ => (6, 8),
            }
        }
        Value::Real(_) => (7, 8),
        Value::Text(text) => (13 + 2 * text.len() as u32, text.len() as u32),
    }
}

pub(super) fn cell<'a>(values: impl Iterator<Item = Value<'a>>) -> u32 {
    let (header, body) =
        values.map(serial).fold((0, 0), |(header, body), (kind, bytes)| (header + varint(kind), body + bytes));
    let payload = header + varint(header + 1) + body;
    (varint(payload) + payload).max(4)
}

/// Where the columns of a table's mean row begin and end in its payload.
pub(super) struct Places(Vec<(u32, u32)>);

impl Places {
    /// Takes the means of the table's first generated rows.
    pub(super) fn new(config: &TpccConfig, table: TableId) -> Self {
        let mut block = RowBlock::new();
        if let Some(first) = partitions(1).into_iter().find(|partition| partition.table() == table) {
            generate(&first, config, &mut block);
        }
        let (rows, columns) = (block.rows().max(1), block.columns());
        let sums = |of: fn((u32, u32)) -> u32, column: usize| {
            (0..block.rows()).map(|row| of(serial(block.value(row, column)))).sum::<u32>() as usize
        };
        let header: usize = (0..columns).map(|column| sums(|(kind, _)| varint(kind), column)).sum();
        let mut end = (header / rows + 1) as u32;
        let place = |column| {
            let begin = end;
            end += ((sums(|(_, bytes)| bytes, column) + rows / 2) / rows) as u32;
            (begin, end)
        };
        Places((0..columns).map(place).collect())
    }

    /// Returns the places of some columns.
    pub(super) fn of(&self, columns: impl Iterator<Item = usize>) -> impl Iterator<Item = (u32, u32)> {
        columns.filter_map(|column| self.0.get(column).copied())
    }
}

impl Records for Cells {
    /// Of HISTORY without its row id, whose bytes grow.
    fn row(&self, _table: TableId, columns: &Columns<'_>) -> u32 {
        cell(columns.all())
    }

    fn name_entry(&self, customer: &Columns<'_>) -> u32 {
        cell([0, 1, 5, 3, 2].into_iter().map(|column| customer.value(column)))
    }

    fn order_entry(&self, order: &Columns<'_>) -> u32 {
        cell([0, 1, 3, 2].into_iter().map(|column| order.value(column)))
    }
}

/// HISTORY, a table with row ids that is only appended to: full leaves, one after the other (`balance_quick`).
pub(super) struct History {
    /// The pages above the leaves, of which the root has always been one.
    interior: Btree,
    /// The leaf that takes rows.
    last: u32,
    first_leaf: u32,
    end: u32,
    used: u32,
    rows: u32,
}

impl History {
    /// Returns the pages above the leaves.
    pub(super) fn interior_pages(&self) -> impl Iterator<Item = u32> {
        self.interior.pages().into_iter()
    }

    /// Returns every page, interior ones first.
    pub(super) fn pages(&self) -> impl Iterator<Item = u32> {
        self.interior.pages().into_iter().chain(self.first_leaf..=self.last)
    }

    /// Appends a row; adds the pages that it changed to `dirty`.
    pub(super) fn append(&mut self, pools: &mut Pools, bytes: u16, page_bytes: u32, dirty: &mut Vec<u32>) {
        self.interior.seek(pools, u32::MAX);
        pools.get(self.last, 0);
        if self.used + u32::from(bytes) + 2 > page_bytes - 8 {
            if self.last + 1 == self.end {
                return pools.fill();
            }
            (self.last, self.used) = (self.last + 1, 0);
            pools.create(self.last);
            self.interior.append_on(pools, self.rows, varint(self.rows) as u16, dirty);
        }
        (self.used, self.rows) = (self.used + u32::from(bytes) + 2, self.rows + 1);
        dirty.push(self.last);
    }
}

/// The trees of the database.
pub(super) struct Trees {
    pub(super) schema: u32,
    pub(super) item: Btree,
    pub(super) warehouse: Btree,
    pub(super) district: Btree,
    pub(super) stock: Btree,
    pub(super) customer: Btree,
    pub(super) history: History,
    pub(super) orders: Btree,
    pub(super) new_order: Btree,
    pub(super) order_line: Btree,
    pub(super) customer_by_name: Btree,
    pub(super) orders_by_customer: Btree,
}

impl Trees {
    /// Returns the trees but HISTORY's, in the order in which the prefill reads them.
    pub(super) fn by_key(&self) -> [&Btree; 10] {
        [
            &self.order_line,
            &self.orders,
            &self.new_order,
            &self.orders_by_customer,
            &self.customer_by_name,
            &self.customer,
            &self.stock,
            &self.item,
            &self.district,
            &self.warehouse,
        ]
    }
}

/// Bytes of rows that the run inserts.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowBytes {
    pub(super) history: u16,
    pub(super) order: u16,
    pub(super) order_entry: u16,
    pub(super) new_order: u16,
    pub(super) line: u16,
}

/// Hears a key and the bytes of its row.
type Push<'a> = dyn FnMut(u32, u16) + 'a;
/// Tells all rows of a tree.
type Rows<'a> = dyn FnMut(&mut Push<'_>) + 'a;

/// Lays the database out. `transactions` bounds the growth.
pub(super) fn lay_out(page_bytes: u32, loaded: &Loaded, objects: &mut Objects, transactions: u64) -> (Trees, RowBytes) {
    let districts = || (0..loaded.districts()).map(|number| (number, loaded.district(number)));
    let bytes = inserted(loaded);
    let growth =
        |rows: u64, bytes: u16| (transactions * rows * u64::from(bytes) / u64::from(page_bytes) * 2) as u32 + 256;
    let schema = objects.add("sqlite_schema", 1, 1);
    let mut place = |name: &str, growth: u32, rows: &mut Rows<'_>, is_sorted: bool| {
        let mut tree = Btree::new(page_bytes);
        rows(&mut |key, bytes| tree.append(key, bytes, is_sorted));
        tree.place(objects, name, growth);
        tree
    };
    let numbered = |rows: &[u16], first: u32, push: &mut Push<'_>| {
        rows.iter().zip(first..).for_each(|(&bytes, key)| push(key, bytes));
    };
    let item = place("item", 0, &mut |push| numbered(&loaded.items, 0, push), false);
    let warehouse =
        place("warehouse", 0, &mut |push| (1..=loaded.warehouses()).for_each(|w| push(w, loaded.warehouse)), false);
    let district = place("district", 0, &mut |push| districts().for_each(|(d, own)| push(d, own.row)), false);
    let stock = place(
        "stock",
        loaded.warehouses() * 512,
        &mut |push| (1..=loaded.warehouses()).for_each(|w| numbered(loaded.stock(w), (w - 1) * 100_000, push)),
        false,
    );
    let customer = place(
        "customer",
        loaded.warehouses() * 512,
        &mut |push| districts().for_each(|(d, own)| numbered(&own.customers, d * CUSTOMERS, push)),
        false,
    );
    let orders = place(
        "orders",
        growth(1, bytes.order),
        &mut |push| districts().for_each(|(d, own)| numbered(&own.orders, order_key(d, 1), push)),
        false,
    );
    let new_order = place(
        "new_order",
        growth(1, bytes.new_order),
        &mut |push| districts().for_each(|(d, own)| numbered(&own.new_orders, order_key(d, UNDELIVERED.start), push)),
        false,
    );
    let order_line = place(
        "order_line",
        growth(8, bytes.line),
        &mut |push| districts().for_each(|(d, own)| lines(d, own, push)),
        false,
    );
    let customer_by_name = place(
        "customer_by_name",
        0,
        &mut |push| districts().for_each(|(d, own)| numbered(&own.names, d * CUSTOMERS, push)),
        true,
    );
    let orders_by_customer = place(
        "orders_by_customer",
        growth(1, bytes.order_entry) + loaded.districts() * 32,
        &mut |push| {
            for (d, own) in districts() {
                let entries = own.order_entries.iter().zip(1..);
                entries.for_each(|(&bytes, customer)| push(entry_key(d, customer, 1), bytes));
            }
        },
        true,
    );
    let history = lay_history(page_bytes, loaded, objects, growth(1, bytes.history));
    let trees = Trees {
        schema,
        item,
        warehouse,
        district,
        stock,
        customer,
        history,
        orders,
        new_order,
        order_line,
        customer_by_name,
        orders_by_customer,
    };
    (trees, bytes)
}

fn lay_history(page_bytes: u32, loaded: &Loaded, objects: &mut Objects, growth: u32) -> History {
    let mut interior = Btree::above_leaves(page_bytes);
    let (mut leaves, mut used, mut rows) = (1, 0, 0);
    for number in 0..loaded.districts() {
        for &bytes in &loaded.district(number).history {
            let bytes = u32::from(bytes) + varint(rows + 1) + 2;
            if used + bytes > page_bytes - 8 {
                interior.append(rows, varint(rows) as u16, false);
                (leaves, used) = (leaves + 1, 0);
            }
            (used, rows) = (used + bytes, rows + 1);
        }
    }
    let (above, more_above) = (interior.page_count(), growth / 16 + 16);
    let first = objects.add("history", above + leaves, above + more_above + leaves + growth);
    interior.number(first, more_above);
    let first_leaf = first + above + more_above;
    History { interior, last: first_leaf + leaves - 1, first_leaf, end: first_leaf + leaves + growth, used, rows }
}

fn lines(number: u32, district: &District, push: &mut Push<'_>) {
    let mut bytes = district.lines.iter();
    for order in 1..=ORDERS {
        let own = bytes.by_ref().take(district.lines_of(order) as usize);
        own.zip(1..).for_each(|(&bytes, line)| push(line_key(number, order, line), bytes));
    }
}

/// Returns the mean bytes of loaded rows that are as a run's: of orders that are not delivered.
fn inserted(loaded: &Loaded) -> RowBytes {
    let district = loaded.district(0);
    let mean = |bytes: &[u16]| {
        let sum: u32 = bytes.iter().map(|&bytes| u32::from(bytes)).sum();
        ((sum + bytes.len() as u32 / 2) / bytes.len() as u32) as u16
    };
    let last = |bytes: &[u16]| mean(&bytes[bytes.len() * 3 / 4..]);
    RowBytes {
        history: mean(&district.history) + 3,
        order: last(&district.orders),
        order_entry: mean(&district.order_entries),
        new_order: mean(&district.new_orders),
        line: last(&district.lines),
    }
}
