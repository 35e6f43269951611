//! What can be loaded into SQLite: for each workload its population, its schema as SQLite spells it, and the loader's
//! version.

use bufferlab_workload::hot_rows::HotRowsPopulation;
use bufferlab_workload::population::Population;
use bufferlab_workload::tpcc::TpccConfig;
use bufferlab_workload::tpcc::population::TpccPopulation;

/// Data of one workload, of some scale and seed.
#[derive(Clone, Debug)]
pub enum Data {
    /// TPC-C's nine tables.
    Tpcc(TpccConfig),
    /// Sysbench's table.
    HotRows(HotRowsPopulation),
}

/// Versions of everything that decides a loaded file beside its schema, scale, seed and page size: the population and
/// the order and manner of writing it. Raise one when any of them changes, or cached databases will be taken for new.
const TPCC_LOADER_VERSION: u32 = 1;
const HOT_ROWS_LOADER_VERSION: u32 = 1;

impl Data {
    /// Tables and indexes.
    #[must_use]
    pub fn schema_sql(&self) -> &'static str {
        match self {
            Data::Tpcc(_) => include_str!("../../dialects/sqlite/tpcc/schema.sql"),
            Data::HotRows(_) => include_str!("../../dialects/sqlite/hot_rows/schema.sql"),
        }
    }

    /// What else decides the file.
    #[must_use]
    pub fn loader_version(&self) -> u32 {
        match self {
            Data::Tpcc(_) => TPCC_LOADER_VERSION,
            Data::HotRows(_) => HOT_ROWS_LOADER_VERSION,
        }
    }

    /// The rows.
    #[must_use]
    pub fn population(&self) -> Box<dyn Population> {
        match self {
            Data::Tpcc(config) => Box::new(TpccPopulation::new(*config)),
            Data::HotRows(population) => Box::new(*population),
        }
    }
}
