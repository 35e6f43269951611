//! The workload hot_rows: random reads of a fixed set of rows of sysbench's table, one row in each transaction.
//!
//! The table follows oltp_common.lua of sysbench 1.0 (one table, an index on k). sysbench draws rows from the whole
//! table. This workload draws from a set of any size, so that an experiment decides whether the set's pages fit into a
//! pool.

mod bundle;
mod config;
mod digits;
mod driver;
mod hot_set;
mod population;
mod statements;

pub use bundle::BUNDLE;
pub use config::{HotRowsConfig, HotRowsConfigError, Layout, MAX_ROWS};
pub use driver::{HotRowsDriver, TRANSACTION_TYPES};
pub use hot_set::HotSet;
pub use population::{HotRowsPopulation, TABLE};
pub use statements::STATEMENTS;

/// The workload's name.
const NAME: &str = "hot_rows";
