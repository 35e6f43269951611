//! What the workloads do, over the [`client`] trait: no sockets, no SQL text, no clocks.
//!
//! A workload is a folder: its tables, its population, its catalogue of statements and its driver. Dialects
//! and clients live with the engines; [`random`] is shared by all.

pub mod client;
pub mod hot_rows;
pub mod index_scan;
pub mod permutation;
pub mod population;
pub mod random;
pub mod script;
pub mod tpcc;
pub mod zipf;
