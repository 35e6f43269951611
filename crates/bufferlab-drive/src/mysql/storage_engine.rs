//! The counters of a server whose tables are in another storage engine than InnoDB: `RocksDB`, Aria or `MyISAM`.
//!
//! InnoDB runs in such a server too, but has none of the workload's tables. Its counters are not sampled, because the
//! run does not affect them.

use std::path::PathBuf;
use std::sync::Arc;

use bufferlab_probe::Reading;

use super::control::Control;
use super::counters::{DEMAND_MISSES, PROBE, file_bytes, shared_metrics, status};
use crate::failure::Failure;
use crate::sampler::EngineCounters;
use crate::server::storage_engine::StorageEngine;

/// Status variables that count statements of all connections, for tables of any storage engine.
const STATEMENTS: [&str; 3] = ["com_commit", "com_rollback", "questions"];

/// A reader of the counters of one storage engine.
pub struct EngineOfTables {
    control: Control,
    engine: StorageEngine,
    frames: u64,
    /// The folder of the engine's files, if this host can read it.
    files: Option<PathBuf>,
    no_subject: Arc<str>,
}

impl EngineOfTables {
    /// Makes a reader of the counters of `engine`, whose cache has `frames` blocks. `schema` is the folder of the run's
    /// tables in the data directory, if this host can read it.
    pub fn new(control: Control, engine: StorageEngine, frames: u64, schema: Option<PathBuf>) -> Self {
        let files = match &engine.folder {
            Some(folder) => schema.and_then(|schema| Some(schema.parent()?.join(folder))),
            None => schema,
        };
        EngineOfTables { control, engine, frames, files, no_subject: Arc::from("") }
    }

    fn told(&self, out: &mut Vec<Reading>, metric: &'static str, value: Option<i64>) {
        let value = value.ok_or_else(|| format!("the storage engine {} does not count it", self.engine.name).into());
        out.push(Reading::counter_or(PROBE, metric, &self.no_subject, value));
    }
}

impl EngineCounters for EngineOfTables {
    fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), Failure> {
        let names: Vec<&str> = self.engine.counters.values().flatten().map(String::as_str).chain(STATEMENTS).collect();
        let status = status(&mut self.control, &names)?;
        let block_size_bytes = i64::try_from(self.engine.block_size_bytes).unwrap_or(0);
        for metric in shared_metrics().chain([DEMAND_MISSES]) {
            let value = match metric {
                "db_read_bytes" => self.engine.value("pages_read", &status).map(|blocks| blocks * block_size_bytes),
                _ => self.engine.value(metric, &status),
            };
            self.told(out, metric, value);
        }
        for metric in STATEMENTS {
            self.told(out, metric, status.get(metric).copied());
        }
        out.push(Reading::gauge(PROBE, "pool_frames", &self.no_subject, self.frames as f64));
        let endings: Vec<&str> = self.engine.endings.iter().map(String::as_str).collect();
        let unknown = || Err("bufferlab does not know the server's data directory".into());
        let bytes = self.files.as_deref().map_or_else(unknown, |folder| file_bytes(folder, &endings));
        out.push(Reading::gauge_or(PROBE, "db_bytes", &self.no_subject, bytes.map(|bytes| bytes as f64)));
        Ok(())
    }
}
