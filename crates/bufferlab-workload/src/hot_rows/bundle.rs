//! The bundle of the workload hot_rows.

use super::NAME;
use super::config::{HotRowsConfig, HotRowsConfigError};
use super::driver::HotRowsDriver;
use super::population::HotRowsPopulation;
use crate::bundle::{Bundle, Refused, boxed, read};

/// Sysbench's table, and a [`HotRowsDriver`] for each connection.
pub const BUNDLE: Bundle = Bundle {
    name: NAME,
    tables: Some(|job| Ok(Box::new(read::<HotRowsPopulation>(job)?))),
    drivers: |job, connections| {
        let config: HotRowsConfig = read(job)?;
        let each = (0..connections as u64).map(|index| Ok(HotRowsDriver::new(&config)?.numbered(index)));
        let each: Result<Vec<_>, HotRowsConfigError> = each.collect();
        Ok(boxed(each.map_err(Refused::parameters)?))
    },
};
