//! Code that the tests of the workloads share; each test crate uses a part of it.
#![allow(dead_code, reason = "each test crate uses a part of this module")]

pub mod canned;
pub mod checksum;
pub mod conditions;
pub mod model;
pub mod statistics;

use bufferlab_workload::tpcc::TpccConfig;

/// Returns a configuration that is known to be valid.
pub fn config(warehouses: u32, load_seed: u64, run_seed: u64) -> TpccConfig {
    TpccConfig::new(warehouses, load_seed, run_seed).expect("the scale is valid")
}
