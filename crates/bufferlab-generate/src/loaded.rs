//! The loaded database of TPC-C as far as statements and layouts depend on it: sizes of rows, names, orders, lines.
//!
//! The rows are those of the workload's own population. Districts and warehouses above the first few repeat them: a
//! database of 10,000 warehouses would take minutes to generate, and its pages are filled alike.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;

use bufferlab_workload::client::Value;
use bufferlab_workload::population::RowBlock;
use bufferlab_workload::tpcc::TpccConfig;
use bufferlab_workload::tpcc::population::{Partition, generate, partitions};
use bufferlab_workload::tpcc::random::last_name;
use bufferlab_workload::tpcc::schema::{CUSTOMERS, DISTRICTS, FIRST_UNDELIVERED_ORDER, ORDERS, TableId};

/// Warehouses whose rows are generated; further ones repeat them.
const OWN_WAREHOUSES: u32 = 4;

/// The columns of a row.
pub struct Columns<'a> {
    block: &'a RowBlock,
    row: usize,
}

impl Columns<'_> {
    /// Returns the value of a column.
    pub fn value(&self, column: usize) -> Value<'_> {
        self.block.value(self.row, column)
    }

    /// Returns the value of every column.
    pub fn all(&self) -> impl Iterator<Item = Value<'_>> {
        (0..self.block.columns()).map(|column| self.value(column))
    }
}

/// Sizes of an engine's records in bytes.
pub trait Records {
    /// Returns the bytes of a table's row in a leaf page, with the record's own header.
    fn row(&self, table: TableId, columns: &Columns<'_>) -> u32;

    /// Returns the bytes of an entry in the index on names, of a customer's row.
    fn name_entry(&self, customer: &Columns<'_>) -> u32;

    /// Returns the bytes of an entry in the index of orders on customers.
    fn order_entry(&self, order: &Columns<'_>) -> u32;
}

/// An engine, and the warehouses that are generated and their seed.
type Data = (&'static str, u32, u64);
/// The last database of [`Loaded::kept`].
static LAST: Mutex<Option<(Data, Loaded)>> = Mutex::new(None);

/// One district as it was loaded.
#[derive(Clone, Debug, Default)]
pub struct District {
    /// Customers by the order that they gave: order 1 first.
    order_customers: Vec<u16>,
    /// Orders by customer.
    customer_orders: Vec<u16>,
    /// Lines of each order.
    line_counts: Vec<u8>,
    /// Where each last name's customers stand in the index.
    name_places: Vec<Range<u16>>,
    /// Customers in the order of the index on names.
    named: Vec<u16>,
    /// Bits of customers with bad credit.
    bad_credits: Vec<bool>,
    /// Bytes of each customer's row.
    pub customers: Vec<u16>,
    /// Bytes of each entry of the index on names, in its order.
    pub names: Vec<u16>,
    /// Bytes of each row of HISTORY.
    pub history: Vec<u16>,
    /// Bytes of each order's row.
    pub orders: Vec<u16>,
    /// Bytes of each entry of the index of orders on customers, by customer.
    pub order_entries: Vec<u16>,
    /// Bytes of each line's row, order after order.
    pub lines: Vec<u16>,
    /// Bytes of each row of NEW-ORDER.
    pub new_orders: Vec<u16>,
    /// Bytes of the district's own row.
    pub row: u16,
}

impl District {
    /// Returns the customer who gave a loaded order.
    pub fn customer_of(&self, order: u32) -> u32 {
        self.order_customers[order as usize - 1].into()
    }

    /// Returns the loaded order of a customer.
    pub fn order_of(&self, customer: u32) -> u32 {
        self.customer_orders[customer as usize - 1].into()
    }

    /// Returns the number of lines of a loaded order.
    pub fn lines_of(&self, order: u32) -> u32 {
        self.line_counts[order as usize - 1].into()
    }

    /// Returns the places of a last name in the index on names.
    pub fn places_of(&self, name: u16) -> Range<u32> {
        let Range { start, end } = self.name_places[name as usize];
        start.into()..end.into()
    }

    /// Returns the customer at a place of the index on names.
    pub fn customer_at(&self, place: u32) -> u32 {
        self.named[place as usize].into()
    }

    /// Returns whether a customer has bad credit.
    pub fn has_bad_credit(&self, customer: u32) -> bool {
        self.bad_credits[customer as usize - 1]
    }
}

/// The loaded database.
#[derive(Clone)]
pub struct Loaded {
    config: TpccConfig,
    districts: Vec<District>,
    /// Bytes of each warehouse's rows of STOCK.
    stock: Vec<Vec<u16>>,
    /// Bytes of each item's row.
    pub items: Vec<u16>,
    /// Bytes of a warehouse's row.
    pub warehouse: u16,
    names: HashMap<String, u16>,
}

impl Loaded {
    /// Generates the database's first warehouses and takes the sizes of their rows.
    pub fn new(config: &TpccConfig, records: &dyn Records) -> Self {
        let own = config.warehouses().min(OWN_WAREHOUSES);
        let mut loaded = Loaded {
            config: *config,
            districts: (0..own * DISTRICTS).map(|_| District::default()).collect(),
            stock: vec![Vec::new(); own as usize],
            items: Vec::new(),
            warehouse: 0,
            names: (0..1000).map(|name| (last_name(name.into()).as_str().to_owned(), name)).collect(),
        };
        let mut block = RowBlock::new();
        let mut met = [0usize; TableId::ALL.len()];
        for partition in partitions(own) {
            generate(&partition, config, &mut block);
            loaded.take(&partition, &block, records, &mut met);
        }
        loaded
    }

    /// Returns the same and keeps it: the runs of a sweep, each of which has a job of its own, want the same database,
    /// and its population takes longer than many a run. A database of more warehouses has the same first ones.
    pub fn kept(engine: &'static str, config: &TpccConfig, records: &dyn Records) -> Self {
        let data = (engine, config.warehouses().min(OWN_WAREHOUSES), config.load_seed());
        let Ok(mut last) = LAST.lock() else { return Self::new(config, records) };
        let loaded = match &*last {
            Some((known, loaded)) if *known == data => loaded.clone(),
            _ => last.insert((data, Self::new(config, records))).1.clone(),
        };
        Loaded { config: *config, ..loaded }
    }

    /// Takes what matters of one slice of the population. Slices come in the order of the primary key.
    fn take(&mut self, slice: &Partition, block: &RowBlock, records: &dyn Records, met: &mut [usize]) {
        let table = slice.table();
        for row in 0..block.rows() {
            let columns = Columns { block, row };
            let bytes = records.row(table, &columns) as u16;
            let place = &mut met[table as usize];
            let number = *place;
            *place += 1;
            match table {
                TableId::Item => self.items.push(bytes),
                TableId::Warehouse => self.warehouse = bytes,
                TableId::District => self.districts[number].row = bytes,
                TableId::Stock => self.stock[key(&columns, 0) as usize - 1].push(bytes),
                TableId::Customer => {
                    self.of(&columns, 0).customers.push(bytes);
                    let bad = columns.value(13) == Value::Text("BC");
                    self.of(&columns, 0).bad_credits.push(bad);
                }
                TableId::History => self.of_history(&columns).history.push(bytes),
                TableId::Orders => self.take_order(&columns, bytes, records),
                TableId::NewOrder => self.of(&columns, 0).new_orders.push(bytes),
                TableId::OrderLine => self.of(&columns, 0).lines.push(bytes),
            }
        }
        if table == TableId::Customer {
            self.take_names(block, records);
        }
    }

    fn take_order(&mut self, columns: &Columns<'_>, bytes: u16, records: &dyn Records) {
        let (customer, lines, entry) = (key(columns, 3), key(columns, 6), records.order_entry(columns));
        let district = self.of(columns, 0);
        district.orders.push(bytes);
        district.order_customers.push(customer as u16);
        district.line_counts.push(lines as u8);
        district.customer_orders.resize(CUSTOMERS as usize, 0);
        district.order_entries.resize(CUSTOMERS as usize, 0);
        district.customer_orders[customer as usize - 1] = district.order_customers.len() as u16;
        district.order_entries[customer as usize - 1] = entry as u16;
    }

    /// Sorts the customers of a whole district by last name, first name and number.
    fn take_names(&mut self, block: &RowBlock, records: &dyn Records) {
        let text = |row: usize, column: usize| match block.value(row, column) {
            Value::Text(text) => text,
            _ => "",
        };
        let mut rows: Vec<usize> = (0..block.rows()).collect();
        rows.sort_by_key(|&row| (text(row, 5), text(row, 3), row));
        let mut places = vec![0..0u16; 1000];
        for (place, &row) in (0u16..).zip(&rows) {
            let range = &mut places[self.names[text(row, 5)] as usize];
            let start = if range.start == range.end { place } else { range.start };
            *range = start..place + 1;
        }
        let district = self.of(&Columns { block, row: 0 }, 0);
        district.names = rows.iter().map(|&row| records.name_entry(&Columns { block, row }) as u16).collect();
        district.named = rows.iter().map(|&row| row as u16 + 1).collect();
        district.name_places = places;
    }

    fn of(&mut self, columns: &Columns<'_>, first_column: usize) -> &mut District {
        let district = (key(columns, first_column) - 1) * DISTRICTS + key(columns, first_column + 1) - 1;
        &mut self.districts[district as usize]
    }

    fn of_history(&mut self, columns: &Columns<'_>) -> &mut District {
        let district = (key(columns, 2) - 1) * DISTRICTS + key(columns, 1) - 1;
        &mut self.districts[district as usize]
    }

    /// Returns scale, seeds and skew.
    pub fn config(&self) -> &TpccConfig {
        &self.config
    }

    /// Returns the number of warehouses.
    pub fn warehouses(&self) -> u32 {
        self.config.warehouses()
    }

    /// Returns the number of districts.
    pub fn districts(&self) -> u32 {
        self.warehouses() * DISTRICTS
    }

    /// Returns a district, counted from zero.
    pub fn district(&self, district: u32) -> &District {
        &self.districts[district as usize % self.districts.len()]
    }

    /// Returns the bytes of a warehouse's rows of STOCK. Warehouses are counted from one.
    pub fn stock(&self, warehouse: u32) -> &[u16] {
        &self.stock[(warehouse as usize - 1) % self.stock.len()]
    }

    /// Returns the number of a last name.
    pub fn name(&self, text: &str) -> Option<u16> {
        self.names.get(text).copied()
    }
}

fn key(columns: &Columns<'_>, column: usize) -> u32 {
    match columns.value(column) {
        Value::Int(key) => key as u32,
        _ => 0,
    }
}

/// Returns whether a loaded order is delivered.
pub fn is_delivered(order: u32) -> bool {
    order < FIRST_UNDELIVERED_ORDER
}

/// The loaded orders of a district that are not delivered.
pub const UNDELIVERED: Range<u32> = FIRST_UNDELIVERED_ORDER..ORDERS + 1;
