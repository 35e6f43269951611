//! The facts of the loaded database of TPC-C on which statements and layouts depend: sizes of rows, names, orders,
//! lines.
//!
//! The rows are those of the workload's own population. Districts and warehouses above the first few repeat them: a
//! database of 10,000 warehouses would take minutes to generate, and repeated rows fill pages to the same degree.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bufferlab_workload::client::Value;
use bufferlab_workload::population::RowBlock;
use bufferlab_workload::tpcc::TpccConfig;
use bufferlab_workload::tpcc::population::{Partition, generate, partitions};
use bufferlab_workload::tpcc::random::last_name;
use bufferlab_workload::tpcc::schema::{CUSTOMERS, DISTRICTS, FIRST_UNDELIVERED_ORDER, ORDERS, TableId};

use crate::engine::{FIRST_KEYS, RELATIONS, Relation, Row, entry_key, line_key};

/// The number of warehouses whose rows are generated; further warehouses repeat these rows.
const OWN_WAREHOUSES: u32 = 4;

/// The values of one generated row, by column.
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

    /// Returns the bytes of an index entry that holds the columns `columns` of a table's row.
    fn entry(&self, table: TableId, row: &Columns<'_>, columns: &[usize]) -> u32;
}

/// The key of a generated database: its engine, the number of its generated warehouses, and the seed of the load.
type Data = (String, u32, u64);
/// The database that [`Loaded::kept`] returned last.
static LAST: Mutex<Option<(Data, Loaded)>> = Mutex::new(None);

/// One district as it was loaded.
#[derive(Debug, Default)]
pub struct District {
    /// The customer of each order, order 1 first.
    order_customers: Vec<u16>,
    /// The loaded order of each customer, customer 1 first.
    customer_orders: Vec<u16>,
    /// For each order the number of lines of all orders before it; at the end, the number of all lines.
    lines_before: Vec<u32>,
    /// The [`line_key`](crate::engine::line_key) of each line, in order.
    line_keys: Vec<u16>,
    /// For each last name, the places of its customers in the index on names.
    name_places: Vec<Range<u16>>,
    /// The customers in the order of the index on names, then each customer's position in that order.
    named: Vec<u16>,
    places: Vec<u16>,
    /// For each customer, whether its credit is bad.
    bad_credits: Vec<bool>,
}

impl District {
    /// Returns the customer who gave a loaded order.
    pub fn customer_of(&self, order: u32) -> u32 {
        self.order_customers[order as usize - 1].into()
    }

    /// Returns the order that a customer has after the load.
    pub fn order_of(&self, customer: u32) -> u32 {
        self.customer_orders[customer as usize - 1].into()
    }

    /// Returns the number of lines of a loaded order.
    pub fn lines_of(&self, order: u32) -> u32 {
        self.lines_before(order + 1) - self.lines_before(order)
    }

    /// Returns the number of lines of all loaded orders before this one.
    pub fn lines_before(&self, order: u32) -> u32 {
        self.lines_before[order as usize - 1]
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

    /// Returns a customer's place in the index on names.
    pub fn place_of(&self, customer: u32) -> u32 {
        self.places[customer as usize - 1].into()
    }

    /// Returns whether a customer has bad credit.
    pub fn has_bad_credit(&self, customer: u32) -> bool {
        self.bad_credits[customer as usize - 1]
    }
}

/// The warehouses whose rows are generated; further warehouses repeat them.
struct Own {
    districts: Vec<District>,
    /// For each relation and each of its groups (warehouses or districts), the bytes of each row.
    sizes: [Vec<Vec<u16>>; RELATIONS],
    names: HashMap<String, u16>,
}

/// The loaded database.
#[derive(Clone)]
pub struct Loaded {
    config: TpccConfig,
    own: Arc<Own>,
}

impl Loaded {
    /// Generates the database's first warehouses and takes the sizes of their rows.
    pub fn new(config: &TpccConfig, records: &dyn Records) -> Self {
        let warehouses = config.warehouses().min(OWN_WAREHOUSES);
        let groups = |of| match of {
            Relation::Item | Relation::Warehouse => 1,
            Relation::Stock => warehouses,
            _ => warehouses * DISTRICTS,
        };
        let mut own = Own {
            districts: (0..warehouses * DISTRICTS).map(|_| District::default()).collect(),
            sizes: Relation::ALL.map(|of| vec![Vec::new(); groups(of) as usize]),
            names: (0..1000).map(|name| (last_name(name.into()).as_str().to_owned(), name)).collect(),
        };
        let mut block = RowBlock::new();
        for partition in partitions(warehouses) {
            generate(&partition, config, &mut block);
            own.take(&partition, &block, records);
        }
        Loaded { config: *config, own: Arc::new(own) }
    }

    /// Returns the same as [`Loaded::new`], and keeps it for the next call. All runs of a sweep want the same database,
    /// though each is a separate job, and generating the rows takes longer than many runs. A database of more
    /// warehouses has the same first warehouses, and so the same key.
    pub fn kept(engine: &str, config: &TpccConfig, records: &dyn Records) -> Self {
        let data = (engine.to_owned(), config.warehouses().min(OWN_WAREHOUSES), config.load_seed());
        let Ok(mut last) = LAST.lock() else { return Self::new(config, records) };
        let loaded = match &*last {
            Some((known, loaded)) if *known == data => loaded.clone(),
            _ => last.insert((data, Self::new(config, records))).1.clone(),
        };
        Loaded { config: *config, ..loaded }
    }

    /// Returns scale, seeds and skew.
    pub fn config(&self) -> &TpccConfig {
        &self.config
    }

    /// Returns the number of warehouses of the whole database, repeated ones included.
    pub fn warehouses(&self) -> u32 {
        self.config.warehouses()
    }

    /// Returns the number of districts of the whole database, ten for each warehouse.
    pub fn districts(&self) -> u32 {
        self.warehouses() * DISTRICTS
    }

    /// Returns a district, counted from zero.
    pub fn district(&self, district: u32) -> &District {
        &self.own.districts[district as usize % self.own.districts.len()]
    }

    /// Returns the number of a last name, 0 to 999; none for a text that is not a last name of TPC-C.
    pub fn name(&self, text: &str) -> Option<u16> {
        self.own.names.get(text).copied()
    }

    /// Returns the bytes of each row of a relation in a group: a district or a warehouse.
    pub fn sizes(&self, of: Relation, group: u32) -> &[u16] {
        let groups = &self.own.sizes[of as usize];
        &groups[group as usize % groups.len()]
    }

    /// Returns the mean bytes of a relation's rows in the first district.
    pub fn mean(&self, of: Relation) -> u16 {
        let sizes = self.sizes(of, 0);
        (sizes.iter().map(|&bytes| u32::from(bytes)).sum::<u32>() / sizes.len() as u32) as u16
    }

    /// Returns the bytes of each row that a run inserts: those of the first district's last loaded row, which belongs
    /// to an undelivered order, as inserted rows do. For HISTORY, the mean.
    pub fn inserted(&self, of: Relation) -> u16 {
        let last = self.sizes(of, 0).last().copied().unwrap_or_default();
        if of == Relation::History { self.mean(of) } else { last }
    }

    /// Returns group, key and bytes of each row or entry of a relation, in the order of keys.
    pub fn rows(&self, of: Relation) -> impl Iterator<Item = (u32, u32, u16)> + '_ {
        let groups = match of {
            Relation::Item => 1,
            Relation::Warehouse | Relation::Stock => self.warehouses(),
            _ => self.districts(),
        };
        (0..groups).flat_map(move |number| {
            let (group, first) = match of {
                Relation::Warehouse | Relation::District => (0, number),
                Relation::History => (0, number * CUSTOMERS),
                _ => (number, FIRST_KEYS[of as usize]),
            };
            let district = self.district(number);
            self.sizes(of, number).iter().zip(first..).map(move |(&bytes, key)| {
                let key = match of {
                    Relation::OrderLine => district.line_keys[key as usize - 1].into(),
                    Relation::ByCustomer => entry_key(key, district.order_of(key)),
                    _ => key,
                };
                (group, key, bytes)
            })
        })
    }

    /// Returns the bytes of a loaded row of a relation whose keys are counted from one.
    pub fn bytes(&self, row: Row) -> u16 {
        self.sizes(row.of, row.group)[row.key as usize - 1]
    }
}

impl Own {
    /// Records the sizes of the rows in one slice of the population, and the slice's orders, lines or names. Slices
    /// come in the order of the primary key.
    fn take(&mut self, slice: &Partition, block: &RowBlock, records: &dyn Records) {
        let table = slice.table();
        for row in 0..block.rows() {
            let columns = Columns { block, row };
            let number = match table {
                TableId::Item | TableId::Warehouse => 0,
                TableId::Stock => key(&columns, 0) - 1,
                TableId::History => district_of(&columns, 2, 1),
                _ => district_of(&columns, 0, 1),
            } as usize;
            let sizes = &mut self.sizes[table as usize][number];
            if table == TableId::Warehouse {
                // The row of the last generated warehouse represents all warehouses.
                sizes.clear();
            }
            sizes.push(records.row(table, &columns) as u16);
            match table {
                TableId::Customer => {
                    self.districts[number].bad_credits.push(columns.value(13) == Value::Text("BC"));
                }
                TableId::Orders => self.take_order(number, &columns, records),
                TableId::OrderLine => {
                    let key = line_key(key(&columns, 2), key(&columns, 3));
                    self.districts[number].line_keys.push(key as u16);
                }
                _ => {}
            }
        }
        if table == TableId::Customer {
            self.take_names(block, records);
        }
    }

    fn take_order(&mut self, number: usize, columns: &Columns<'_>, records: &dyn Records) {
        let (customer, lines) = (key(columns, 3), key(columns, 6));
        let entry = records.entry(TableId::Orders, columns, &[0, 1, 3, 2]);
        let entries = &mut self.sizes[Relation::ByCustomer as usize][number];
        entries.resize(CUSTOMERS as usize, 0);
        entries[customer as usize - 1] = entry as u16;
        let district = &mut self.districts[number];
        district.order_customers.push(customer as u16);
        district.customer_orders.resize(CUSTOMERS as usize, 0);
        district.customer_orders[customer as usize - 1] = district.order_customers.len() as u16;
        if district.lines_before.is_empty() {
            district.lines_before.push(0);
        }
        district.lines_before.extend(district.lines_before.last().map(|before| before + lines));
    }

    /// Sorts the customers of a whole district by last name, first name and number.
    fn take_names(&mut self, block: &RowBlock, records: &dyn Records) {
        let text = |row: usize, column: usize| match block.value(row, column) {
            Value::Text(text) => text,
            _ => "",
        };
        let mut rows: Vec<usize> = (0..block.rows()).collect();
        rows.sort_by_key(|&row| (text(row, 5), text(row, 3), row));
        let number = district_of(&Columns { block, row: 0 }, 0, 1) as usize;
        let district = &mut self.districts[number];
        district.name_places = vec![0..0; 1000];
        district.places = vec![0; rows.len()];
        for (place, &row) in (0u16..).zip(&rows) {
            let range = &mut district.name_places[self.names[text(row, 5)] as usize];
            let start = if range.start == range.end { place } else { range.start };
            *range = start..place + 1;
            district.places[row] = place;
        }
        let entry = |&row: &usize| records.entry(TableId::Customer, &Columns { block, row }, &[0, 1, 5, 3, 2]) as u16;
        self.sizes[Relation::ByName as usize][number] = rows.iter().map(entry).collect();
        district.named = rows.iter().map(|&row| row as u16 + 1).collect();
    }
}

/// Returns the district of a row, from the numbers of the columns that hold its warehouse and its district.
fn district_of(columns: &Columns<'_>, warehouse: usize, district: usize) -> u32 {
    (key(columns, warehouse) - 1) * DISTRICTS + key(columns, district) - 1
}

fn key(columns: &Columns<'_>, column: usize) -> u32 {
    match columns.value(column) {
        Value::Int(key) => key as u32,
        _ => 0,
    }
}

/// The loaded orders of a district that are not delivered.
pub const UNDELIVERED: Range<u32> = FIRST_UNDELIVERED_ORDER..ORDERS + 1;
