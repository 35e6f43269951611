//! TPC-H's eight tables (specification, 1.4.1): names, columns in order, kinds, and the number of rows at a scale
//! factor.
//!
//! Q1 reads only LINEITEM. A load makes the other tables for users who want a database as large as the specification's.

use serde::Deserialize;

use super::config::ScaleFactor;
use crate::population::{Column, cents, days, int, text};

const REGION: &[Column] = &[int("r_regionkey"), text("r_name", 25), text("r_comment", 152)];

const NATION: &[Column] = &[int("n_nationkey"), text("n_name", 25), int("n_regionkey"), text("n_comment", 152)];

const SUPPLIER: &[Column] = &[
    int("s_suppkey"),
    text("s_name", 25),
    text("s_address", 40),
    int("s_nationkey"),
    text("s_phone", 15),
    cents("s_acctbal"),
    text("s_comment", 101),
];

const PART: &[Column] = &[
    int("p_partkey"),
    text("p_name", 55),
    text("p_mfgr", 25),
    text("p_brand", 10),
    text("p_type", 25),
    int("p_size"),
    text("p_container", 10),
    cents("p_retailprice"),
    text("p_comment", 23),
];

const PARTSUPP: &[Column] =
    &[int("ps_partkey"), int("ps_suppkey"), int("ps_availqty"), cents("ps_supplycost"), text("ps_comment", 199)];

const CUSTOMER: &[Column] = &[
    int("c_custkey"),
    text("c_name", 25),
    text("c_address", 40),
    int("c_nationkey"),
    text("c_phone", 15),
    cents("c_acctbal"),
    text("c_mktsegment", 10),
    text("c_comment", 117),
];

const ORDERS: &[Column] = &[
    int("o_orderkey"),
    int("o_custkey"),
    text("o_orderstatus", 1),
    cents("o_totalprice"),
    days("o_orderdate"),
    text("o_orderpriority", 15),
    text("o_clerk", 15),
    int("o_shippriority"),
    text("o_comment", 79),
];

const LINEITEM: &[Column] = &[
    int("l_orderkey"),
    int("l_partkey"),
    int("l_suppkey"),
    int("l_linenumber"),
    cents("l_quantity"),
    cents("l_extendedprice"),
    cents("l_discount"),
    cents("l_tax"),
    text("l_returnflag", 1),
    text("l_linestatus", 1),
    days("l_shipdate"),
    days("l_commitdate"),
    days("l_receiptdate"),
    text("l_shipinstruct", 25),
    text("l_shipmode", 10),
    text("l_comment", 44),
];

/// One of the eight tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// REGION: five regions.
    Region,
    /// NATION: the regions' 25 nations.
    Nation,
    /// SUPPLIER: 10,000 suppliers at scale factor 1.
    Supplier,
    /// PART: 200,000 parts at scale factor 1.
    Part,
    /// PARTSUPP: four suppliers for each part.
    PartSupp,
    /// CUSTOMER: 150,000 customers at scale factor 1.
    Customer,
    /// ORDERS: 1,500,000 orders at scale factor 1.
    Orders,
    /// LINEITEM: one to seven lines of each order.
    LineItem,
}

/// The tables that a load makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableSet {
    /// Only LINEITEM, which Q1 reads.
    LineItem,
    /// All eight tables.
    All,
}

impl TableSet {
    /// Returns the tables of the set, in the order in which a load writes them.
    #[must_use]
    pub fn tables(self) -> &'static [Table] {
        match self {
            TableSet::LineItem => &Table::ALL[Table::ALL.len() - 1..],
            TableSet::All => &Table::ALL,
        }
    }
}

/// Name and columns of each table, in the order of [`Table`].
const DECLARED: [(&str, &[Column]); Table::ALL.len()] = [
    ("region", REGION),
    ("nation", NATION),
    ("supplier", SUPPLIER),
    ("part", PART),
    ("partsupp", PARTSUPP),
    ("customer", CUSTOMER),
    ("orders", ORDERS),
    ("lineitem", LINEITEM),
];

impl Table {
    /// All tables, of which LINEITEM is the last.
    pub const ALL: [Table; 8] = [
        Table::Region,
        Table::Nation,
        Table::Supplier,
        Table::Part,
        Table::PartSupp,
        Table::Customer,
        Table::Orders,
        Table::LineItem,
    ];

    /// Returns the table's name, the same in every dialect.
    #[must_use]
    pub const fn name(self) -> &'static str {
        DECLARED[self as usize].0
    }

    /// Returns the table's columns, in the order of every dialect's schema.
    #[must_use]
    pub const fn columns(self) -> &'static [Column] {
        DECLARED[self as usize].1
    }

    /// Returns the number of units by which the generators divide the table into partitions. A unit is a row; in
    /// PARTSUPP it is a part, and in LINEITEM an order.
    fn units(self, scale_factor: ScaleFactor) -> u64 {
        let scaled = |rows: f64| (rows * scale_factor.get()) as u64;
        match self {
            Table::Region => 5,
            Table::Nation => 25,
            Table::Supplier => scaled(10_000.0),
            Table::Part | Table::PartSupp => scaled(200_000.0),
            Table::Customer => scaled(150_000.0),
            Table::Orders | Table::LineItem => scale_factor.orders(),
        }
    }

    /// Returns the number of units in one partition, which has about a megabyte.
    const fn units_per_partition(self) -> u64 {
        match self {
            Table::PartSupp | Table::LineItem => 1_500,
            _ => 6_000,
        }
    }

    /// Returns the number of partitions of the table at a scale factor.
    #[must_use]
    pub fn partitions(self, scale_factor: ScaleFactor) -> i32 {
        self.units(scale_factor).div_ceil(self.units_per_partition()).max(1) as i32
    }

    /// Returns the number of rows of the table at a scale factor. It is exact except for LINEITEM, whose generator
    /// draws one to seven rows for each order, four on average.
    #[must_use]
    pub fn expected_rows(self, scale_factor: ScaleFactor) -> u64 {
        let details = if matches!(self, Table::PartSupp | Table::LineItem) { 4 } else { 1 };
        details * self.units(scale_factor)
    }
}
