//! The table of hot_rows, as a job asks for it. The index on k is laid out by PostgreSQL alone: elsewhere no statement touches it.

use bufferlab_workload::client::Value;
use bufferlab_workload::hot_rows::{HotRowsConfig, HotRowsConfigError, HotRowsPopulation, Layout};
use bufferlab_workload::population::{Population, RowBlock};
use serde::Deserialize;

/// Characters of the text of sysbench's column pad.
const PAD_CHARS: u32 = 59;
/// The most characters of pad: a row then still fits into the smallest page.
const MOST_PAD_CHARS: u32 = 1000;
/// Rows whose numbers k are generated; further rows have them again.
const OWN_ROWS: u32 = 100_000;

/// The hot rows and their table, as a job asks for them.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowsAsked {
    /// Rows of the table.
    pub rows: u32,
    /// Seed of the table.
    pub load_seed: u64,
    /// Seed of the hot set and of every choice of the run.
    pub seed: u64,
    /// Rows that the run reads.
    pub hot_rows: u32,
    /// The places of the hot rows in the table.
    pub layout: Layout,
    /// Exponent of Zipf's law over their ranks.
    #[serde(default)]
    pub zipf: f64,
    /// Of a hundred transactions, those that update a row and do not read it.
    #[serde(default)]
    pub update_percent: u32,
    /// Characters of a row's last text, which decide how many rows a page has: 59 in sysbench's table.
    #[serde(default = "pad_chars")]
    pub pad_chars: u32,
}

fn pad_chars() -> u32 {
    PAD_CHARS
}

impl RowsAsked {
    /// Returns what the workload's driver is made of.
    ///
    /// # Errors
    /// When a bound is not kept.
    pub fn config(&self) -> Result<HotRowsConfig, HotRowsConfigError> {
        let RowsAsked { rows, seed: run_seed, hot_rows, layout, zipf, update_percent, .. } = *self;
        let config = HotRowsConfig { rows, run_seed, hot_rows, layout, zipf, update_percent };
        config.check().map(|()| config)
    }

    /// Refuses texts that no page takes.
    pub fn refusal(&self) -> Option<String> {
        (self.pad_chars > MOST_PAD_CHARS).then(|| format!("pad_chars is at most {MOST_PAD_CHARS}"))
    }

    /// Returns the numbers k of the table's rows, in the order of their ids.
    pub fn ks(&self) -> impl Iterator<Item = u32> {
        self.own_ks().into_iter().cycle().take(self.rows as usize)
    }

    /// Returns those of the first rows that are generated.
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
