//! The bundle of the workload index_scan.

use super::NAME;
use super::driver::IndexScanDriver;
use super::population::IndexScanPopulation;
use crate::bundle::{Bundle, Refused, boxed, read};

/// TPC-H's tables, and an [`IndexScanDriver`] for each connection.
pub const BUNDLE: Bundle = Bundle {
    name: NAME,
    tables: Some(|job| Ok(Box::new(read::<IndexScanPopulation>(job)?))),
    drivers: |job, connections| {
        let first = IndexScanDriver::new(&read(job)?).map_err(Refused::parameters)?;
        Ok(boxed((0..connections).map(|_| first.another())))
    },
};
