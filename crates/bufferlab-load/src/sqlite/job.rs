//! What to run on SQLite, in the core's types.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bufferlab_workload::hot_rows::HotRowsConfig;
use bufferlab_workload::script::Number;
use bufferlab_workload::tpcc::TpccConfig;

use super::knobs::SqliteKnobs;
pub use crate::arrivals::Spacing;

/// An end by count and by time, whichever comes first.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Transactions of any type.
    pub transactions: u64,
    /// Wall time.
    pub seconds: f64,
}

/// What to run.
pub struct Run {
    /// A loaded database that this run may change.
    pub database: PathBuf,
    /// Settings.
    pub knobs: SqliteKnobs,
    /// The workload with its scale and seeds.
    pub workload: WorkloadJob,
    /// When transactions of the measured window are begun.
    pub pace: Pace,
    /// Further windows on the same warm database, after the measured one.
    pub phases: Vec<PhaseJob>,
    /// The warm-up's cap.
    pub warm_up: Limit,
    /// The measured window.
    pub measure: Limit,
    /// Distance of two samples.
    pub sample_interval: Duration,
}

/// A workload with its parameters.
#[derive(Clone, Debug)]
pub enum WorkloadJob {
    /// TPC-C.
    Tpcc(TpccConfig),
    /// Selects of hot rows.
    HotRows(HotRowsConfig),
    /// A user's own script.
    Script(ScriptJob),
}

/// A script's text and what it may refer to.
#[derive(Clone, Debug)]
pub struct ScriptJob {
    /// Name of its file, for messages.
    pub source: String,
    /// The text.
    pub text: String,
    /// Seed of its random variables.
    pub seed: u64,
    /// Predefined variables.
    pub variables: Vec<(String, Number)>,
}

/// When transactions are begun.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each when its predecessor has ended.
    Closed,
    /// At the times of an arrival process, whether or not the engine keeps up.
    Open {
        /// Arrivals per second.
        rate_per_s: f64,
        /// Their distances.
        spacing: Spacing,
        /// How long an arrival waits before it is dropped.
        patience: Duration,
    },
}

/// A window of its own after the measured one: a script, in a closed loop.
#[derive(Clone, Debug)]
pub struct PhaseJob {
    /// The name its samples carry.
    pub name: Arc<str>,
    /// What it executes.
    pub script: ScriptJob,
    /// Its end.
    pub limit: Limit,
}
