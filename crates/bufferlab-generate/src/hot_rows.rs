//! The parameters that a job gives for the workload hot_rows and its table. Only PostgreSQL's layout has the index on
//! k: on other engines no statement touches this index.

use bufferlab_workload::client::Value;
use bufferlab_workload::hot_rows::{HotRowsConfig, HotRowsConfigError, HotRowsPopulation, Layout};
use bufferlab_workload::population::{Population, RowBlock};
use serde::Deserialize;

/// Characters of sysbench's column pad.
const PAD_CHARS: u32 = 59;
/// The most characters that column pad may have: a row then still fits into the smallest page.
const MOST_PAD_CHARS: u32 = 1000;
/// The number of rows whose values of column k are generated; further rows repeat these values.
const OWN_ROWS: u32 = 100_000;

/// The parameters of the hot rows and their table in a job.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowsAsked {
    /// The number of rows of the table.
    pub rows: u32,
    /// The seed from which the table is loaded.
    pub load_seed: u64,
    /// Seed of the hot set and of every choice of the run.
    pub seed: u64,
    /// The number of rows that the run reads.
    pub hot_rows: u32,
    /// The places of the hot rows in the table.
    pub layout: Layout,
    /// Exponent of Zipf's law over the hot rows' ranks.
    #[serde(default)]
    pub zipf: f64,
    /// The percentage of transactions that update a row instead of reading it.
    #[serde(default)]
    pub update_percent: u32,
    /// Characters of a row's column pad, which decide how many rows fit into a page: 59 in sysbench's table.
    #[serde(default = "pad_chars")]
    pub pad_chars: u32,
}

fn pad_chars() -> u32 {
    PAD_CHARS
}

impl RowsAsked {
    /// Returns the configuration of the workload's driver.
    ///
    /// # Errors
    /// When a value is out of its bounds.
    pub fn config(&self) -> Result<HotRowsConfig, HotRowsConfigError> {
        let RowsAsked { rows, seed: run_seed, hot_rows, layout, zipf, update_percent, .. } = *self;
        let config = HotRowsConfig { rows, run_seed, hot_rows, layout, zipf, update_percent };
        config.check().map(|()| config)
    }

    /// Returns why `pad_chars` is refused; none if a row fits into a page.
    pub fn refusal(&self) -> Option<String> {
        (self.pad_chars > MOST_PAD_CHARS).then(|| format!("pad_chars is at most {MOST_PAD_CHARS}"))
    }

    /// Returns the value of column k of each row, in the order of ids.
    pub fn ks(&self) -> impl Iterator<Item = u32> {
        self.own_ks().into_iter().cycle().take(self.rows as usize)
    }

    /// Returns the generated values of column k: those of the first rows.
    pub fn own_ks(&self) -> Vec<u32> {
        let (mut own, mut block) = (Vec::new(), RowBlock::new());
        if let Ok(table) = HotRowsPopulation::new(self.rows, self.load_seed) {
            for partition in 0..table.partitions() {
                table.generate(partition, &mut block);
                let k = |row| if let Value::Int(k) = block.value(row, 1) { k as u32 } else { 0 };
                own.extend((0..block.rows()).map(k));
                if own.len() >= OWN_ROWS as usize {
                    break;
                }
            }
        }
        own
    }
}
