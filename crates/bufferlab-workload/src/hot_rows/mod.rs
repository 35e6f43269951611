//! Hot rows: sysbench's table, of which a fixed set of rows is read at random, one row a transaction.
//!
//! The table follows oltp_common.lua of sysbench 1.0 (one table, an index on k). What sysbench draws from the whole
//! table is drawn here from a set of any size, so that the pages which hold it can be made to fit a pool or not.

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
