//! A trait with operations on tables and indexes. An engine's implementation decides which pages each operation
//! touches.
//!
//! A row has a relation (a table or an index), a group and a key; rows are sorted by group, then by key. A group is a
//! district, counted from zero over all warehouses (`(warehouse - 1) * 10 + district - 1`). STOCK's groups are
//! warehouses, counted from zero; ITEM, WAREHOUSE, DISTRICT and HISTORY have one group. Customers of a district, items,
//! orders and lines are counted from one, as in the tables.

use bufferlab_workload::tpcc::schema::{CUSTOMERS, FIRST_UNDELIVERED_ORDER, ITEMS, ORDERS, TableId};

use crate::log_writes::LogWrites;
use crate::pools::{Objects, Pools};

/// Duration of a transaction of TPC-C on the generator's clock, in microseconds: 400 transactions a second.
pub const TRANSACTION_US: u64 = 2_500;

/// The number of low bits of an [`entry_key`] that hold the order; the customer is in the bits above.
pub const ORDER_BITS: u32 = 19;
/// The number of low bits of a [`line_key`] that hold the line; the order is in the bits above.
const LINE_BITS: u32 = 4;
/// The number of TPC-C's relations.
pub const RELATIONS: usize = Relation::ALL.len();

/// The number of orders of a district that the load leaves undelivered.
const UNDELIVERED: u32 = ORDERS + 1 - FIRST_UNDELIVERED_ORDER;
/// The number of rows of a group after the load, by relation; 0 if the relation has only one group, or its keys have
/// gaps.
const ROWS_OF_GROUP: [u32; 12] = [0, 0, 0, ITEMS, CUSTOMERS, 0, ORDERS, UNDELIVERED, 0, CUSTOMERS, 0, 0];
/// The first key of a loaded group, by relation. In ORDER-LINE and the index on customers it is the first row's number
/// in the group, not a key.
pub const FIRST_KEYS: [u32; 12] = [1, 0, 0, 1, 1, 0, 1, FIRST_UNDELIVERED_ORDER, 1, 0, 1, 1];

/// A table with its primary key, or a secondary index. Tables come first, in the order of [`TableId::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The table ITEM.
    Item,
    /// The table WAREHOUSE.
    Warehouse,
    /// The table DISTRICT.
    District,
    /// The table STOCK.
    Stock,
    /// The table CUSTOMER.
    Customer,
    /// The table HISTORY.
    History,
    /// The table ORDER.
    Orders,
    /// The table NEW-ORDER.
    NewOrder,
    /// The table ORDER-LINE.
    OrderLine,
    /// The index of CUSTOMER on names: a key is a position in the list of a district's customers, sorted by name.
    ByName,
    /// The index of ORDER on customers, by [`entry_key`].
    ByCustomer,
    /// The only table of the workload hot_rows.
    HotRows,
}

use Relation::{
    ByCustomer, ByName, Customer, District, History, HotRows, Item, NewOrder, OrderLine, Orders, Stock, Warehouse,
};

impl Relation {
    /// The relations of TPC-C.
    pub const ALL: [Relation; 11] =
        [Item, Warehouse, District, Stock, Customer, History, Orders, NewOrder, OrderLine, ByName, ByCustomer];
    /// The relations of TPC-C in the order in which a prefill reads them.
    pub const PREFILLED: [Relation; RELATIONS] =
        [History, OrderLine, Orders, NewOrder, ByCustomer, ByName, Customer, Stock, Item, District, Warehouse];

    /// Calls `lay` for each relation of TPC-C in the order of their names; returns the results in the order of
    /// [`Relation::ALL`].
    pub fn lay_out<T>(mut lay: impl FnMut(Relation) -> Option<T>) -> Vec<T> {
        let mut all = Relation::ALL;
        all.sort_by_key(|of| of.name());
        let mut laid: Vec<_> = all.into_iter().filter_map(|of| Some((of as usize, lay(of)?))).collect();
        laid.sort_by_key(|&(place, _)| place);
        laid.into_iter().map(|(_, laid)| laid).collect()
    }

    /// Returns the relation's name in page traces.
    pub fn name(self) -> &'static str {
        match self {
            ByName => "customer.customer_by_name",
            ByCustomer => "orders.orders_by_customer",
            HotRows => "sbtest1",
            table => TableId::ALL[table as usize].name(),
        }
    }

    /// Returns the table of an index; for a table, the table itself.
    pub fn table(self) -> Relation {
        match self {
            ByName => Customer,
            ByCustomer => Orders,
            table => table,
        }
    }

    /// Returns a table's second index, if it has one.
    pub fn second(self) -> Option<Relation> {
        match self {
            Customer => Some(ByName),
            Orders => Some(ByCustomer),
            _ => None,
        }
    }
}

/// A row by its primary key, or an entry of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The row's table, or the entry's index.
    pub of: Relation,
    /// The row's group: its district or warehouse, counted from zero over the whole database.
    pub group: u32,
    /// The row's key in the group, such as a customer's or an order's number.
    pub key: u32,
    /// The key of an order's entry in the secondary index of ORDERS by customer; 0 for other rows.
    pub entry: u32,
}

impl Row {
    /// Makes a row of a relation from its group and key.
    pub fn new(of: Relation, group: u32, key: u32) -> Self {
        Row { of, group, key, entry: 0 }
    }

    /// Returns the row of a customer's order.
    pub fn order(district: u32, order: u32, customer: u32) -> Self {
        Row { entry: entry_key(customer, order), ..Row::new(Orders, district, order) }
    }

    /// Returns an order's entry in the index on customers; none for a row of another table.
    pub fn second(self) -> Option<Row> {
        (self.of == Orders).then(|| Row::new(ByCustomer, self.group, self.entry))
    }

    /// Returns the row's number among the loaded rows of its relation, from zero. The relation's groups must have
    /// equally many rows.
    #[inline]
    pub fn number(self) -> u32 {
        self.group * ROWS_OF_GROUP[self.of as usize] + self.key - FIRST_KEYS[self.of as usize]
    }
}

/// Returns the key of an entry in the index of orders on customers.
pub fn entry_key(customer: u32, order: u32) -> u32 {
    customer << ORDER_BITS | order
}

/// Returns the customer and the order of an [`entry_key`].
pub fn of_entry(key: u32) -> (u32, u32) {
    (key >> ORDER_BITS, key & ((1 << ORDER_BITS) - 1))
}

/// Returns the key of an order's line.
pub fn line_key(order: u32, line: u32) -> u32 {
    order << LINE_BITS | line
}

/// Returns the order and the line of a [`line_key`].
pub fn of_line(key: u32) -> (u32, u32) {
    (key >> LINE_BITS, key & ((1 << LINE_BITS) - 1))
}

/// Rows of one group whose keys follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The span's first row.
    pub first: Row,
    /// The number of rows in the span.
    pub rows: u32,
    /// The highest key that the statement's condition allows.
    pub most: u32,
}

impl Span {
    /// Returns the span of an order's lines.
    pub fn lines(district: u32, order: u32, lines: u32) -> Self {
        Span { first: Row::new(OrderLine, district, line_key(order, 1)), rows: lines, most: line_key(order + 1, 0) - 1 }
    }

    /// Returns the row at a place of the span, counted from zero; at the place `rows`, the row after the span.
    #[inline]
    pub fn row(&self, place: u32) -> Row {
        debug_assert!(place <= self.rows, "a span of {} rows has no row {place}", self.rows);
        Row { key: self.first.key + place, ..self.first }
    }
}

/// The purpose of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The transaction reads the row and does not change it.
    Look,
    /// The read locks the row, because the transaction will change it.
    Change,
}

/// An engine's pages and its rules of access.
///
/// The caller guarantees that `begin` opens each transaction and `commit` or `rollback` ends it. It also guarantees
/// that rows are loaded or inserted ones, and that no district has more than `most_orders`. The engine guarantees that
/// it plays only pages of `objects`, and that it calls [`Pools::fill`] when their numbers are used up.
pub trait Engine {
    /// Returns the highest number that an order of a district can have.
    fn most_orders(&self) -> u32 {
        (1 << ORDER_BITS) - 1
    }

    /// Returns the engine's tables, indexes and other objects, with the numbers of their pages.
    fn objects(&self) -> &Objects;

    /// Returns the bytes of data and indexes after the load, as the engine itself reports them. Returns none if the
    /// layout leaves out an index.
    fn bytes(&self) -> Option<u64>;

    /// Returns the pages above the leaves of B-trees, as they are now.
    fn interior_pages(&self) -> Vec<u32>;

    /// Reads the pages that sessions read before their first statement.
    fn connect(&mut self, _pools: &mut Pools) {}

    /// Reads the pages that the prefill of TPC-C reads before the warm-up, table after table.
    fn prefill(&mut self, pools: &mut Pools);

    /// Begins a transaction of the connection whose turn it is.
    fn begin(&mut self, pools: &mut Pools);

    /// Commits the transaction of the connection whose turn it is.
    fn commit(&mut self, _pools: &mut Pools) {}

    /// Returns the writes of the engine's log since the run began. Returns zeros for an engine whose writes depend on
    /// the pool, and for a job that does not ask for writes.
    fn log_writes(&self) -> LogWrites {
        LogWrites::default()
    }

    /// Rolls back the transaction of the connection whose turn it is.
    fn rollback(&mut self, pools: &mut Pools);

    /// Reads a row by its whole primary key.
    fn read(&mut self, pools: &mut Pools, row: Row, purpose: Purpose);

    /// Reads an order as its customer's last one, through the index on customers.
    fn read_last(&mut self, pools: &mut Pools, order: Row);

    /// Searches for the lowest key of a group. The caller passes that key as `lowest`, or none if the group has no row.
    fn read_first(&mut self, pools: &mut Pools, of: Relation, group: u32, lowest: Option<u32>);

    /// Reads the rows of a span.
    fn scan(&mut self, pools: &mut Pools, span: Span);

    /// Reads the rows of some spans, and for each of these rows the row that the statement joins to it.
    fn join(&mut self, pools: &mut Pools, spans: &[(Span, Vec<Row>)]);

    /// Updates a row by its whole primary key; `note` is the number of bytes that the statement puts in front of a
    /// customer's text C_DATA.
    fn update(&mut self, pools: &mut Pools, row: Row, note: u32);

    /// Updates each row of a span of lines: sets the date of delivery.
    fn update_all(&mut self, pools: &mut Pools, span: Span);

    /// Inserts a row into its table and the table's indexes.
    fn insert(&mut self, pools: &mut Pools, row: Row);

    /// Deletes a row. The caller guarantees that the row has the lowest key of its group.
    fn delete(&mut self, pools: &mut Pools, row: Row);
}
