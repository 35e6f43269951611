//! The workloads, over the trait [`client::Client`]. This crate has no sockets, no clocks, and of SQL only the texts of
//! users' scripts.
//!
//! A workload is a folder with its tables, its population, its catalogue of statements, its driver, and their
//! [`Bundle`], which is listed in [`BUNDLES`]. The crate bufferlab-drive has dialects and clients. All workloads share
//! [`random`].

pub mod bundle;
pub mod client;
pub mod datetime;
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
