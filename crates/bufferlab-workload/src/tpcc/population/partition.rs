//! The partitions of TPC-C's population, and the order in which a load writes them.

use std::fmt;

use crate::tpcc::schema::{
    CUSTOMERS, DISTRICTS, FIRST_UNDELIVERED_ORDER, ITEMS, MAX_ORDER_LINES, MIN_ORDER_LINES, ORDERS, TableId,
};

/// Rows of ITEM and STOCK in one partition.
const ITEMS_PER_PARTITION: u32 = 5_000;
/// Number of warehouses whose rows of WAREHOUSE or DISTRICT form one partition.
const WAREHOUSES_PER_PARTITION: u32 = 500;
/// Number of orders whose lines form one partition, of about 6,000 rows.
const ORDERS_PER_LINE_PARTITION: u32 = 600;

/// A slice of one table: a range of its rows in primary-key order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Partition {
    pub(super) table: TableId,
    /// The warehouse; zero for ITEM, WAREHOUSE and DISTRICT, which only `first` and `last` divide.
    pub(super) warehouse: u32,
    /// The district; zero for tables that are not divided by districts.
    pub(super) district: u32,
    /// First item, warehouse, customer or order of the slice.
    pub(super) first: u32,
    /// Last item, warehouse, customer or order of the slice.
    pub(super) last: u32,
}

impl Partition {
    /// Returns the table of the partition's rows.
    pub fn table(&self) -> TableId {
        self.table
    }

    /// Returns the number of rows. It is exact, except for ORDER-LINE, for which it is the expected number, because the
    /// generator draws the number of lines of each order.
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

/// Returns every partition of a database of `warehouses` warehouses, table after table and each table in the order of
/// its primary key. So an engine that stores rows by key appends all of them.
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
