//! The bundle of the workload tpcc.

use super::NAME;
use super::config::TpccConfig;
use super::driver::TpccDriver;
use super::population::TpccPopulation;
use crate::bundle::{Bundle, Refused, boxed, read};

/// TPC-C's nine tables, and a [`TpccDriver`] for each connection.
pub const BUNDLE: Bundle = Bundle {
    name: NAME,
    tables: Some(|job| Ok(Box::new(TpccPopulation::new(read(job)?)))),
    drivers: |job, connections| {
        let (config, drivers): (TpccConfig, u32) = (read(job)?, connections as u32);
        let each: Result<Vec<_>, _> = (0..drivers).map(|index| TpccDriver::new(config, index, drivers)).collect();
        let hint = "choose another number of warehouses, or fewer connections";
        Ok(boxed(each.map_err(|error| Refused::at("workload", error, hint))?))
    },
};
