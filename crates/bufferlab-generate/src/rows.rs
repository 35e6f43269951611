//! The table of hot_rows without rows: a client that answers its driver, and asks an engine for each statement's row.
//!
//! The index on k is laid out by PostgreSQL alone: elsewhere no statement touches it.

use bufferlab_workload::client::{Batch, Client, ClientError, Value};
use bufferlab_workload::hot_rows::{HotRowsConfig, HotRowsConfigError, HotRowsPopulation, Layout, STATEMENTS};
use bufferlab_workload::population::{Population, RowBlock};
use serde::Deserialize;

use crate::engine::{Engine, Paging, Purpose, Relation, Row};
use crate::pools::Pools;

/// Characters of the text of sysbench's column pad.
const PAD_CHARS: u32 = 59;
/// Characters that it has at most: a row fits into the smallest page.
const MOST_PAD_CHARS: u32 = 1000;
/// Rows whose numbers k are generated; further rows have them again.
const OWN_ROWS: u32 = 100_000;
/// Every text that the driver reads.
const TEXT: &str = "TEXT";

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
    /// Their places in the table.
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

/// The client. Each statement is a transaction.
pub struct RowGhost {
    pools: Pools,
    engine: Box<dyn Engine>,
    rows: u64,
}

impl RowGhost {
    /// Makes a client of a loaded table.
    pub fn new(mut pools: Pools, mut engine: Box<dyn Engine>) -> Self {
        engine.connect(&mut pools);
        RowGhost { pools, engine, rows: 0 }
    }
}

impl Paging for RowGhost {
    fn parts(&mut self) -> (&mut Pools, &dyn Engine) {
        (&mut self.pools, &*self.engine)
    }
}

impl Client for RowGhost {
    fn begin(&mut self, _read_only: bool) -> Result<(), ClientError> {
        Ok(())
    }

    fn commit(&mut self) -> Result<(), ClientError> {
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), ClientError> {
        Ok(())
    }

    /// A statement's last parameter is the id; one that returns columns reads.
    fn execute(&mut self, batch: &mut Batch) -> Result<(), ClientError> {
        for call in 0..batch.len() {
            let id = match batch.param(call, batch.param_count(call) - 1) {
                Value::Int(id) => id as u32,
                _ => 0,
            };
            debug_assert!(id > 0, "ids are counted from one");
            let row = Row::new(Relation::HotRows, 0, id);
            self.engine.begin(&mut self.pools);
            if STATEMENTS[usize::from(batch.statement(call).0)].columns > 0 {
                self.engine.read(&mut self.pools, row, Purpose::Look);
                batch.begin_rows(call);
                batch.push_column(Value::Text(TEXT));
                batch.end_row(call);
                self.rows += 1;
            } else {
                self.engine.update(&mut self.pools, row, 0);
                self.engine.commit(&mut self.pools);
                batch.set_affected(call, 1);
            }
        }
        Ok(())
    }

    fn rows_returned(&self) -> u64 {
        self.rows
    }
}
