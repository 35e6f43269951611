//! The rows of sysbench's table: an id, a random k from 1 to the number of rows, and two texts of digits.
//!
//! Every partition has a separate random stream, named by the partition's first row, so rows depend neither on the
//! number of threads nor on the order of generation.

use serde::{Deserialize, Deserializer, de};

use super::NAME;
use super::config::{HotRowsConfigError, MAX_ROWS};
use super::digits::{C_GROUPS, Digits, PAD_GROUPS};
use crate::population::{ColumnKind, LoadedTable, Population, RowBlock};
use crate::random::Random;

/// Name of the table.
pub const TABLE: &str = "sbtest1";

const COLUMNS: [ColumnKind; 4] =
    [ColumnKind::Integer, ColumnKind::Integer, ColumnKind::Text { max_chars: 120 }, ColumnKind::Text { max_chars: 60 }];

/// Rows of one partition. They are about a megabyte, so that generating any table needs bounded memory.
const ROWS_PER_PARTITION: u32 = 5_000;

/// The rows of sysbench's table, which the table's size and the load seed determine.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HotRowsPopulation {
    #[serde(deserialize_with = "rows")]
    rows: u32,
    load_seed: u64,
}

impl HotRowsPopulation {
    /// Makes the population of a table of `rows` rows.
    ///
    /// # Errors
    /// [`HotRowsConfigError::Rows`] when `rows` is zero or too large.
    pub fn new(rows: u32, load_seed: u64) -> Result<Self, HotRowsConfigError> {
        if !(1..=MAX_ROWS).contains(&rows) {
            return Err(HotRowsConfigError::Rows { rows });
        }
        Ok(HotRowsPopulation { rows, load_seed })
    }
}

fn rows<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let population = HotRowsPopulation::new(u32::deserialize(from)?, 0);
    population.map(|population| population.rows).map_err(de::Error::custom)
}

impl Population for HotRowsPopulation {
    fn workload(&self) -> &'static str {
        NAME
    }

    fn tables(&self) -> Vec<LoadedTable> {
        vec![LoadedTable { name: TABLE, columns: COLUMNS.to_vec() }]
    }

    fn partitions(&self) -> usize {
        self.rows.div_ceil(ROWS_PER_PARTITION) as usize
    }

    fn table_of(&self, _partition: usize) -> usize {
        0
    }

    fn expected_rows(&self) -> u64 {
        self.rows.into()
    }

    fn generate(&self, partition: usize, block: &mut RowBlock) {
        let first = partition as u32 * ROWS_PER_PARTITION + 1;
        let last = self.rows.min(first + ROWS_PER_PARTITION - 1);
        let mut random = Random::stream(self.load_seed, TABLE, &[u64::from(first)]);
        let mut digits = Digits::default();
        block.reset(0, COLUMNS.len());
        for id in first..=last {
            block.int(id);
            block.int(random.between(1, self.rows));
            block.text(digits.groups(&mut random, C_GROUPS));
            block.text(digits.groups(&mut random, PAD_GROUPS));
        }
    }
}
