//! SQLite's dialect of SQL: how to change MySQL's wording of statements for SQLite.

use bufferlab_workload::plan::Plan;

use crate::dialect::{Dialect, literal};

/// SQLite's dialect. Money is integer cents and dates are integers, so the database stores both unchanged, and Q1's `1`
/// becomes 100 hundredths. SQLite locks the whole database, so no read takes a row lock. CROSS JOIN fixes the order of
/// a join. INDEXED BY fails if SQLite cannot use the index, so it is added only for the index that SQLite would not
/// choose by itself. A plus sign before a column forbids its index; NOT INDEXED would not, in a table WITHOUT ROWID.
pub const DIALECT: Dialect = Dialect {
    engine: "SQLite",
    folders: &["sqlite", "shared"],
    words: &[
        (" FOR UPDATE", ""),
        ("FROM_UNIXTIME(? DIV 1000000)", "?"),
        ("? / 100", "?"),
        (" FORCE INDEX (customer_by_name)", ""),
        ("FORCE INDEX (%)", "INDEXED BY %"),
        ("STRAIGHT_JOIN", "CROSS JOIN"),
        ("(1 - l_discount)", "(100 - l_discount)"),
        ("(1 + l_tax)", "(100 + l_tax)"),
        ("AVG(%) + 0e0", "avg(%) / 100"),
        ("DATE '1970-01-01' + INTERVAL ? DAY", "?"),
    ],
    plans: &[
        (Plan::IndexScan, &[("FROM lineitem", "FROM lineitem INDEXED BY lineitem_by_shipdate")]),
        (Plan::Sequential, &[(" l_shipdate", " +l_shipdate")]),
    ],
    without: "it fetches rows one by one, in the order of the index (PostgreSQL has bitmap scans)",
    keys_last: false,
    place: |_| "?".to_owned(),
    day: |day| day.to_string(),
    literal,
};
