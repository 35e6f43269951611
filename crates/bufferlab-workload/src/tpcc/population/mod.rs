//! TPC-C's initial database (specification, 4.3.3): its partitions, their order, and the rows of each.
//!
//! Rows do not depend on the number of warehouses, so a larger database contains the smaller one.

mod partition;
mod rows;

pub use partition::{Partition, partitions};
pub use rows::{LOAD_DATE_US, generate};

use crate::bundle::Refused;
pub use crate::population::RowBlock;
use crate::population::{LoadedTable, Population};
use crate::tpcc::schema::TableId;
use crate::tpcc::{NAME, TpccConfig};

/// The largest number of a warehouse in servers' tables, in which the numbers are SMALLINT as in tpcc-mysql.
const MAX_SMALLINT: u32 = 32_767;

/// TPC-C's population of one scale and load seed.
pub struct TpccPopulation {
    config: TpccConfig,
    partitions: Vec<Partition>,
}

impl TpccPopulation {
    /// Returns the population of this configuration.
    pub fn new(config: TpccConfig) -> Self {
        TpccPopulation { config, partitions: partitions(config.warehouses()) }
    }
}

impl Population for TpccPopulation {
    fn workload(&self) -> &'static str {
        NAME
    }

    fn check_columns(&self) -> Result<(), Refused> {
        let warehouses = self.config.warehouses();
        let what = format!("{warehouses} warehouses do not fit into SMALLINT, tpcc-mysql's type");
        let refused = || Refused::at("warehouses", what, &format!("use at most {MAX_SMALLINT}"));
        (warehouses <= MAX_SMALLINT).then_some(()).ok_or_else(refused)
    }

    fn tables(&self) -> Vec<LoadedTable> {
        TableId::ALL.map(|table| LoadedTable::of(table.name(), table.columns())).to_vec()
    }

    fn partitions(&self) -> usize {
        self.partitions.len()
    }

    fn table_of(&self, partition: usize) -> usize {
        self.partitions[partition].table() as usize
    }

    fn expected_rows(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.rows() as u64).sum()
    }

    fn generate(&self, partition: usize, block: &mut RowBlock) {
        generate(&self.partitions[partition], &self.config, block);
    }
}
