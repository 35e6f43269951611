//! The job of a run on SQLite, in the core's types.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::knobs::SqliteKnobs;
use crate::job::sample_interval;
pub use crate::job::{Limit, Pace, PhaseJob, ScriptJob, Spacing, WarmUp, WorkloadJob};
use crate::probes::Asked;

/// The job of a run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// A loaded database that this run may change.
    pub database: PathBuf,
    /// Settings.
    pub knobs: SqliteKnobs,
    /// The workload with its scale and seeds.
    pub workload: WorkloadJob,
    /// The pace of transactions in the measured window.
    #[serde(rename = "load", default)]
    pub pace: Pace,
    /// Further windows on the same warm database, after the measured one.
    #[serde(default)]
    pub phases: Vec<PhaseJob>,
    /// The warm-up of the pool.
    pub warm_up: WarmUp,
    /// The measured window.
    pub measure: Limit,
    /// Distance of two samples.
    #[serde(rename = "sample_interval_ms", deserialize_with = "sample_interval")]
    pub sample_interval: Duration,
    /// Probes beyond those of every run.
    #[serde(default)]
    pub probes: Asked,
}
