//! The scale and the seeds of a TPC-C database and its run. This file checks them, so that later code need not.

use serde::{Deserialize, Deserializer, de};

use crate::tpcc::random::Skew;
use crate::tpcc::schema::TERMINALS_PER_WAREHOUSE;

/// Most warehouses accepted: they are 10 TB of data, and every number of rows still fits its type.
pub const MAX_WAREHOUSES: u32 = 100_000;

/// Scale and seeds of one TPC-C database and of one run over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpccConfig {
    #[serde(deserialize_with = "warehouses")]
    warehouses: u32,
    load_seed: u64,
    /// The seed of the run; zero in a load.
    #[serde(rename = "seed", default)]
    run_seed: u64,
    #[serde(default)]
    skew: Skew,
}

impl TpccConfig {
    /// Makes a configuration of this scale and these seeds, with the specification's skew.
    ///
    /// `load_seed` decides every row of the population, `run_seed` every input of the run. A run also needs the load
    /// seed: clause 2.1.6.1 ties the run's constant for last names to the load's constant.
    ///
    /// # Errors
    /// [`TpccConfigError::Warehouses`] when the number of warehouses is zero or above [`MAX_WAREHOUSES`].
    pub fn new(warehouses: u32, load_seed: u64, run_seed: u64) -> Result<Self, TpccConfigError> {
        if warehouses == 0 || warehouses > MAX_WAREHOUSES {
            return Err(TpccConfigError::Warehouses { warehouses });
        }
        Ok(TpccConfig { warehouses, load_seed, run_seed, skew: Skew::Spec })
    }

    /// Returns the configuration with another skew, that is, another rule by which the run chooses items, customers and
    /// last names.
    #[must_use]
    pub fn with_skew(self, skew: Skew) -> Self {
        TpccConfig { skew, ..self }
    }

    /// Returns the skew of the run.
    pub fn skew(&self) -> Skew {
        self.skew
    }

    /// Returns the number of warehouses, which scales every table but ITEM.
    pub fn warehouses(&self) -> u32 {
        self.warehouses
    }

    /// Returns the seed of the population.
    pub fn load_seed(&self) -> u64 {
        self.load_seed
    }

    /// Returns the seed of the run.
    pub fn run_seed(&self) -> u64 {
        self.run_seed
    }

    /// Returns the number of terminals of all drivers together: ten for each warehouse (specification, 4.2).
    pub fn terminals(&self) -> u32 {
        self.warehouses * TERMINALS_PER_WAREHOUSE
    }
}

fn warehouses<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let config = TpccConfig::new(u32::deserialize(from)?, 0, 0);
    config.map(|config| config.warehouses).map_err(de::Error::custom)
}

/// The error of a configuration that cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TpccConfigError {
    /// The number of warehouses is out of range.
    #[error("warehouses = {warehouses} is not between 1 and {MAX_WAREHOUSES}")]
    Warehouses {
        /// The number of warehouses asked for.
        warehouses: u32,
    },
    /// There are more drivers than terminals.
    #[error("{drivers} drivers cannot share {terminals} terminals; use at most one driver per terminal")]
    IdleDrivers {
        /// The number of drivers asked for.
        drivers: u32,
        /// The number of terminals, ten for each warehouse.
        terminals: u32,
    },
    /// A driver's index is not below the number of drivers.
    #[error("driver {driver_index} does not exist: there are {drivers}, counted from zero")]
    DriverIndex {
        /// The driver's index, counted from zero, that was asked for.
        driver_index: u32,
        /// The number of drivers.
        drivers: u32,
    },
}
