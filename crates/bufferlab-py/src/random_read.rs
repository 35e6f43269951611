//! A run of random reads, and the file they read, as Python writes them; their conversion into the core's types.

use std::path::PathBuf;
use std::time::Duration;

use bufferlab_load::job::{Limit, Pace};
use bufferlab_load::probes::Asked;
use bufferlab_load::random_read::fill::Filled;
use bufferlab_load::random_read::io_uring_is_available;
use bufferlab_load::random_read::job::{Backend, Cache, IoMode, Order, Reads, Run};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::jobs::{Measure, Pacing, WarmUp, choice, parse, unusable};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Knobs {
    io_mode: String,
    advice: String,
    cache: String,
    backend: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Workload {
    #[serde(rename = "name")]
    _name: String,
    io_size_bytes: u64,
    alignment: String,
    offsets: String,
    zipf: f64,
    queue_depth: usize,
    threads: usize,
    /// Decides the bytes of a file of ours; a run takes them as they are.
    #[serde(rename = "load_seed", default)]
    _load_seed: u64,
    seed: u64,
}

impl Workload {
    fn typed(&self) -> PyResult<Reads> {
        let alignment_bytes = match self.alignment.as_str() {
            "512" => Some(512),
            "4096" => Some(4096),
            "io_size" => Some(self.io_size_bytes),
            _ => None,
        };
        let order = match self.offsets.as_str() {
            "random" => Some(Order::Random),
            "sequential" => Some(Order::Sequential),
            "zipf" => Some(Order::Zipf(self.zipf)),
            _ => None,
        };
        Ok(Reads {
            io_size_bytes: self.io_size_bytes,
            alignment_bytes: choice("alignment", &self.alignment, alignment_bytes)?,
            order: choice("offsets", &self.offsets, order)?,
            queue_depth: self.queue_depth,
            threads: self.threads,
            seed: self.seed,
        })
    }
}

/// A run of random reads.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomReadJob {
    path: PathBuf,
    range_bytes: u64,
    #[serde(default)]
    below: Vec<PathBuf>,
    knobs: Knobs,
    #[serde(default)]
    read_ahead_kib: Option<u64>,
    workload: Workload,
    #[serde(rename = "load", default)]
    pacing: Option<Pacing>,
    warm_up: WarmUp,
    measure: Measure,
    sample_interval_ms: u64,
    #[serde(default)]
    probes: Asked,
}

impl RandomReadJob {
    /// Reads a job; unknown fields are errors.
    pub fn parse(json: &str) -> PyResult<Self> {
        parse(json)
    }

    /// The job in the core's types.
    pub fn typed(&self) -> PyResult<Run> {
        let knobs = &self.knobs;
        let advise_random = match knobs.advice.as_str() {
            "none" => Some(false),
            "random" => Some(true),
            _ => None,
        };
        let pace = self.pacing.as_ref().map_or(Ok(Pace::Closed), Pacing::typed)?;
        if pace != Pace::Closed {
            let what = "a rate is given, and random reads keep a fixed number in flight (queue_depth, threads)";
            return Err(unusable(what.to_owned(), "load"));
        }
        Ok(Run {
            path: self.path.clone(),
            range_bytes: self.range_bytes,
            below: self.below.clone(),
            io_mode: choice("io_mode", &knobs.io_mode, IoMode::from_name(&knobs.io_mode))?,
            advise_random: choice("advice", &knobs.advice, advise_random)?,
            cache: choice("cache", &knobs.cache, Cache::from_name(&knobs.cache))?,
            backend: choice("backend", &knobs.backend, Backend::from_name(&knobs.backend))?,
            read_ahead_kib: self.read_ahead_kib,
            reads: self.workload.typed()?,
            warm_up: Limit { transactions: self.warm_up.max_transactions, seconds: self.warm_up.max_seconds },
            measure: Limit { transactions: self.measure.transactions, seconds: self.measure.max_seconds },
            sample_interval: Duration::from_millis(self.sample_interval_ms.max(10)),
            probes: self.probes.clone(),
        })
    }
}

/// A file to be made.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FillJob {
    pub path: PathBuf,
    pub bytes: u64,
    pub seed: u64,
}

impl FillJob {
    /// Reads a job; unknown fields are errors.
    pub fn parse(json: &str) -> PyResult<Self> {
        parse(json)
    }
}

/// A file that was made.
#[derive(Serialize)]
pub struct FillOutcome {
    bytes: u64,
    seconds: f64,
}

impl From<Filled> for FillOutcome {
    fn from(filled: Filled) -> Self {
        FillOutcome { bytes: filled.bytes, seconds: filled.seconds }
    }
}

/// Whether `io_uring` can be used by this process.
#[derive(Serialize)]
pub struct IoUringOutcome {
    available: bool,
    reason: Option<String>,
}

impl IoUringOutcome {
    /// Tries it.
    pub fn of_this_process() -> Self {
        let reason = io_uring_is_available().err().map(|error| error.to_string());
        IoUringOutcome { available: reason.is_none(), reason }
    }
}
