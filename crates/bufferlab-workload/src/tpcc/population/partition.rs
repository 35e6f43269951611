//! The slices of the population, and the order of their load.

use std::fmt;

use crate::tpcc::schema::{
    CUSTOMERS, DISTRICTS, FIRST_UNDELIVERED_ORDER, ITEMS, MAX_ORDER_LINES, MIN_ORDER_LINES, ORDERS, TableId,
};

/// Rows of ITEM and STOCK in one partition.
const ITEMS_PER_PARTITION: u32 = 5_000;
/// Warehouses whose rows of WAREHOUSE or DISTRICT form one partition.
const WAREHOUSES_PER_PARTITION: u32 = 500;
/// Orders whose lines form one partition: about 6,000 rows.
const ORDERS_PER_LINE_PARTITION: u32 = 600;

/// A slice of one table: a range of its rows in primary-key order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Partition {
    pub(super) table: TableId,
    /// Zero for ITEM, WAREHOUSE and DISTRICT, which are cut by `first` and `last` alone.
    pub(super) warehouse: u32,
    /// Zero for tables that are not kept by district.
    pub(super) district: u32,
    /// First item, warehouse, customer or order of the slice.
    pub(super) first: u32,
    /// Last of them, included.
    pub(super) last: u32,
}

impl Partition {
    /// Returns the table of these rows.
    pub fn table(&self) -> TableId {
        self.table
    }

    /// Returns the number of rows: exact, but for ORDER-LINE the expected number, since each order draws how many it
    /// has.
    #[must_use]
    pub fn rows(&self) -> usize {
        let slice = (self.last - self.first + 1) as usize;
        match self.table {
            TableId::District => slice * DISTRICTS as usize,
            TableId::OrderLine => slice * (MIN_ORDER_LINES + MAX_ORDER_LINES) as usize / 2,
            _ => slice,
        }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Partition { table, warehouse, district, first, last } = self;
        write!(f, "{}", table.name())?;
        if *warehouse > 0 {
            write!(f, " of warehouse {warehouse}")?;
        }
        if *district > 0 {
            write!(f, " district {district}")?;
        }
        write!(f, ", {first} to {last}")
    }
}

/// Returns every partition of a database of `warehouses` warehouses, table after table and each in primary-key order,
/// so that an engine that clusters rows by key only ever appends.
pub fn partitions(warehouses: u32) -> Vec<Partition> {
    let mut all = Vec::new();
    for table in TableId::ALL {
        match table {
            TableId::Item => cut(&mut all, table, (0, 0), (1, ITEMS), ITEMS_PER_PARTITION),
            TableId::Warehouse | TableId::District => {
                cut(&mut all, table, (0, 0), (1, warehouses), WAREHOUSES_PER_PARTITION);
            }
            TableId::Stock => {
                for warehouse in 1..=warehouses {
                    cut(&mut all, table, (warehouse, 0), (1, ITEMS), ITEMS_PER_PARTITION);
                }
            }
            TableId::Customer | TableId::History => {
                each_district(&mut all, table, warehouses, (1, CUSTOMERS), CUSTOMERS)
            }
            TableId::Orders => each_district(&mut all, table, warehouses, (1, ORDERS), ORDERS),
            TableId::NewOrder => {
                each_district(&mut all, table, warehouses, (FIRST_UNDELIVERED_ORDER, ORDERS), ORDERS);
            }
            TableId::OrderLine => each_district(&mut all, table, warehouses, (1, ORDERS), ORDERS_PER_LINE_PARTITION),
        }
    }
    all
}

fn each_district(all: &mut Vec<Partition>, table: TableId, warehouses: u32, range: (u32, u32), size: u32) {
    for warehouse in 1..=warehouses {
        for district in 1..=DISTRICTS {
            cut(all, table, (warehouse, district), range, size);
        }
    }
}

fn cut(all: &mut Vec<Partition>, table: TableId, place: (u32, u32), range: (u32, u32), size: u32) {
    let (warehouse, district) = place;
    let mut first = range.0;
    while first <= range.1 {
        let last = range.1.min(first + size - 1);
        all.push(Partition { table, warehouse, district, first, last });
        first = last + 1;
    }
}
