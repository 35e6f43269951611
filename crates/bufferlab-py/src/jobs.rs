//! Jobs as Python writes them, and their conversion into the core's types.

use std::path::PathBuf;
use std::time::Duration;

use bufferlab_load::failure::{Failure, FailureKind};
use bufferlab_load::sqlite::knobs::{IoChoice, LockingMode, Pcache, SqliteKnobs, Synchronous};
use bufferlab_load::sqlite::loader::Load;
use bufferlab_load::sqlite::run::{Limit, Run};
use bufferlab_model::PageSize;
use bufferlab_workload::tpcc::TpccConfig;
use pyo3::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::to_python;

fn unusable(what: String, place: &str) -> PyErr {
    to_python(Failure::new(FailureKind::Usage, what, place, "see `bufferlab list engines` for what is possible"))
}

fn parse<T: DeserializeOwned>(json: &str) -> PyResult<T> {
    serde_json::from_str(json).map_err(|error| unusable(error.to_string(), "job"))
}

fn page_size(bytes: u64) -> PyResult<PageSize> {
    let allowed = "a page size is a power of two from 512 to 65,536 bytes";
    PageSize::new(bytes).ok_or_else(|| unusable(format!("{bytes} bytes: {allowed}"), "page_size"))
}

fn choice<T>(knob: &str, name: &str, value: Option<T>) -> PyResult<T> {
    value.ok_or_else(|| unusable(format!("{knob} has no value {name:?}"), knob))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Workload {
    name: String,
    warehouses: u32,
    #[serde(default)]
    seed: u64,
    load_seed: u64,
}

impl Workload {
    fn tpcc(&self) -> PyResult<TpccConfig> {
        if self.name != "tpcc" {
            return Err(unusable(format!("there is no workload {:?}", self.name), "workload"));
        }
        TpccConfig::new(self.warehouses, self.load_seed, self.seed)
            .map_err(|error| unusable(error.to_string(), "workload"))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Knobs {
    page_size_bytes: u64,
    pool_size_bytes: u64,
    io_mode: String,
    pcache: String,
    synchronous: String,
    wal_autocheckpoint_bytes: u64,
    locking_mode: String,
}

impl Knobs {
    fn typed(&self) -> PyResult<SqliteKnobs> {
        let page_size = page_size(self.page_size_bytes)?;
        Ok(SqliteKnobs {
            page_size,
            pool_frames: page_size.frames_in(self.pool_size_bytes),
            io_mode: choice("io_mode", &self.io_mode, IoChoice::from_name(&self.io_mode))?,
            pcache: choice("pcache", &self.pcache, Pcache::from_name(&self.pcache))?,
            synchronous: choice("synchronous", &self.synchronous, Synchronous::from_name(&self.synchronous))?,
            wal_autocheckpoint_bytes: self.wal_autocheckpoint_bytes,
            locking_mode: choice("locking_mode", &self.locking_mode, LockingMode::from_name(&self.locking_mode))?,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WarmUp {
    max_transactions: u64,
    max_seconds: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Measure {
    transactions: u64,
    max_seconds: f64,
}

/// A run on SQLite.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunJob {
    database: PathBuf,
    knobs: Knobs,
    workload: Workload,
    warm_up: WarmUp,
    measure: Measure,
    sample_interval_ms: u64,
}

impl RunJob {
    /// Reads a job; unknown fields are errors, so that a misspelt setting cannot pass unnoticed.
    pub fn parse(json: &str) -> PyResult<Self> {
        parse(json)
    }

    /// The job in the core's types.
    pub fn typed(&self) -> PyResult<Run> {
        Ok(Run {
            database: self.database.clone(),
            knobs: self.knobs.typed()?,
            config: self.workload.tpcc()?,
            warm_up: Limit { transactions: self.warm_up.max_transactions, seconds: self.warm_up.max_seconds },
            measure: Limit { transactions: self.measure.transactions, seconds: self.measure.max_seconds },
            sample_interval: Duration::from_millis(self.sample_interval_ms.max(10)),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadKnobs {
    page_size_bytes: u64,
}

/// A bulk load into SQLite.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadJob {
    database: PathBuf,
    knobs: LoadKnobs,
    workload: Workload,
    threads: usize,
}

impl LoadJob {
    /// Reads a job; unknown fields are errors.
    pub fn parse(json: &str) -> PyResult<Self> {
        parse(json)
    }

    /// The job in the core's types.
    pub fn typed(&self) -> PyResult<Load> {
        Ok(Load {
            database: self.database.clone(),
            page_size: page_size(self.knobs.page_size_bytes)?,
            config: self.workload.tpcc()?,
            generators: self.threads,
        })
    }
}
