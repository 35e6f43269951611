//! The workloads, over the [`client`] trait: no sockets, no SQL text, no clocks.
//!
//! A workload is a folder: its tables, its population, its catalogue of statements, its driver, and the [`Bundle`] of
//! them that [`BUNDLES`] names. Dialects and clients live with the engines; all workloads share [`random`].

pub mod bundle;
pub mod client;
pub mod findings;
pub mod hot_rows;
pub mod index_scan;
pub mod permutation;
pub mod plan;
pub mod population;
pub mod random;
pub mod script;
pub mod tpcc;
pub mod zipf;

use bundle::Bundle;

/// Every workload that a job can name.
pub const BUNDLES: [Bundle; 4] = [tpcc::BUNDLE, hot_rows::BUNDLE, index_scan::BUNDLE, script::BUNDLE];
