//! TPC-H's Q1 over a range of ship dates, by a forced plan. Each transaction is one long read-only query, whose answer
//! is checked.
//!
//! The tables are those of the TPC-H specification, and the crate `tpchgen` generates their rows. Q1 reads LINEITEM. A
//! dialect's text of the query forces the plan, and the code for the engine checks that the engine takes the plan.

mod answer;
mod bundle;
mod config;
mod days;
mod driver;
mod population;
mod statements;
mod tables;

pub use answer::{Answer, Group, Sums};
pub use bundle::BUNDLE;
pub use config::{
    IndexScanConfig, IndexScanConfigError, MAX_SCALE_FACTOR, MIN_SCALE_FACTOR, Q1_UNTIL_DAY, ScaleFactor,
};
pub use days::day_of;
pub use driver::{IndexScanDriver, TRANSACTION_TYPES};
pub use population::IndexScanPopulation;
pub use statements::STATEMENTS;
pub use tables::{Table, TableSet};

/// The workload's name.
const NAME: &str = "index_scan";

/// The table that Q1 reads.
pub const TABLE: &str = Table::LineItem.name();

/// The index on the ship date, under the same name in every dialect.
pub const SHIPDATE_INDEX: &str = "lineitem_by_shipdate";
