//! What an engine does to its pages when a statement of TPC-C comes: one implementation for each engine.
//!
//! Districts are counted from zero over all warehouses: `(warehouse - 1) * 10 + district - 1`. Warehouses, customers of
//! a district, items, orders and lines are counted from one, as in the tables.

use std::ops::Range;

use crate::pools::{Objects, Pools};

/// Microseconds of a transaction of TPC-C by the generator's clock: 400 a second.
pub const TRANSACTION_US: u64 = 2_500;

/// A row, by its primary key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// A warehouse.
    Warehouse(u32),
    /// A district.
    District(u32),
    /// A customer of a district.
    Customer(u32, u32),
    /// An item; 100,001 does not exist.
    Item(u32),
    /// A warehouse's stock of an item.
    Stock(u32, u32),
    /// An order of a district, by the customer who gave it.
    Order {
        /// Its district.
        district: u32,
        /// Its number.
        order: u32,
        /// The customer's number.
        customer: u32,
    },
    /// The note that an order of a district is not delivered.
    NewOrder(u32, u32),
    /// A line of an order of a district.
    Line(u32, u32, u32),
    /// A payment.
    History,
}

/// What a read does besides reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Nothing.
    Look,
    /// It locks the row, because the transaction will change it.
    Change,
}

/// An engine's pages and its rules of access.
///
/// The caller guarantees that `begin` opens each transaction and `commit` or `rollback` ends it, that rows are those of
/// the loaded database or were inserted, and that no district has more than `MOST_ORDERS`. The engine guarantees that it
/// plays pages of `objects` alone, and calls [`Pools::fill`] where their numbers are used up.
pub trait Engine {
    /// Orders that a district has numbers for.
    const MOST_ORDERS: u32;
    /// Warehouses that the layout has numbers for. More are simulated by fewer.
    const MOST_WAREHOUSES: u32;
    /// Bytes of memory for a transaction, about: its order, its customer, and the rows that it inserts.
    const TRANSACTION_BYTES: u64 = 40;

    /// Returns the bytes of memory that the layout of one warehouse takes, about.
    fn layout_bytes(page_bytes: u32) -> u64
    where
        Self: Sized,
    {
        60_000 + 2_000_000_000 / u64::from(page_bytes)
    }

    /// Returns how many pages do not become more with warehouses and are always in use: those of ITEM, about.
    fn shared_pages(page_bytes: u32) -> u32
    where
        Self: Sized,
    {
        9_700_000 / page_bytes
    }

    /// Returns the tables and indexes.
    fn objects(&self) -> &Objects;

    /// Returns the bytes of data and indexes after the load, as the engine itself tells them.
    fn bytes(&self) -> u64;

    /// Returns the pages above the leaves of B-trees, as they are now.
    fn interior_pages(&self) -> Vec<u32>;

    /// Reads what the prefill reads before the warm-up, table after table.
    fn prefill(&mut self, pools: &mut Pools);

    /// Begins a transaction of a connection.
    fn begin(&mut self, pools: &mut Pools, read_only: bool);

    /// Commits it.
    fn commit(&mut self, pools: &mut Pools);

    /// Rolls it back.
    fn rollback(&mut self, pools: &mut Pools);

    /// Reads a row by its whole primary key.
    fn read(&mut self, pools: &mut Pools, row: Row, purpose: Purpose);

    /// Updates a row by its whole primary key; `note` has the bytes of text that are put in front of a customer's data.
    fn update(&mut self, pools: &mut Pools, row: Row, note: u32);

    /// Inserts a row.
    fn insert(&mut self, pools: &mut Pools, row: Row);

    /// Reads the entries of one last name in the index on names: those at these places of the district, one at least.
    fn read_names(&mut self, pools: &mut Pools, district: u32, places: Range<u32>);

    /// Reads the last order of a customer through the index on customers.
    fn read_last_order(&mut self, pools: &mut Pools, district: u32, customer: u32, order: u32);

    /// Reads the lines of an order.
    fn read_lines(&mut self, pools: &mut Pools, district: u32, order: u32, lines: u32);

    /// Sets the date of delivery of each line of an order.
    fn deliver_lines(&mut self, pools: &mut Pools, district: u32, order: u32, lines: u32);

    /// Looks for a district's oldest order in NEW-ORDER; none where all are delivered. The caller knows which it is.
    fn read_oldest(&mut self, pools: &mut Pools, district: u32, oldest: Option<u32>);

    /// Deletes an order's row of NEW-ORDER. The caller guarantees that it is the district's oldest.
    fn delete_new_order(&mut self, pools: &mut Pools, district: u32, order: u32);

    /// Reads the lines of some orders, and the stock of each line's item. `items` has the items of each order.
    fn read_low_stock(&mut self, pools: &mut Pools, district: u32, orders: Range<u32>, items: &[Vec<u32>]);
}
