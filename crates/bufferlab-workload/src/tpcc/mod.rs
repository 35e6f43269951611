//! TPC-C revision 5.11 as a load driver: nine tables, their population, five transactions and their mix.
//!
//! The data and the transactions are complete. Left out are keying and think times, terminals' screens and the pricing
//! clauses. Results are "TPC-C-derived" and cannot be compared with published TPC-C results. Clause numbers in this
//! folder are those of the TPC Benchmark C Standard Specification, revision 5.11.

mod bundle;
mod config;
mod driver;
pub mod population;
pub mod random;
pub mod schema;
pub mod statements;

pub use bundle::BUNDLE;
pub use config::{MAX_WAREHOUSES, TpccConfig, TpccConfigError};
pub use driver::{InputCounts, TRANSACTION_TYPES, TpccDriver, TransactionOutput};

/// The workload's name.
const NAME: &str = "tpcc";
