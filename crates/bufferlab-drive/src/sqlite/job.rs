//! What to run on SQLite, in the core's types.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::knobs::SqliteKnobs;
use crate::job::sample_interval;
pub use crate::job::{Limit, Pace, PhaseJob, ScriptJob, Spacing, WarmUp, WorkloadJob};
use crate::probes::Asked;

/// What to run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// A loaded database that this run may change.
    pub database: PathBuf,
    /// Settings.
    pub knobs: SqliteKnobs,
    /// The workload with its scale and seeds.
    pub workload: WorkloadJob,
    /// When transactions of the measured window are begun.
    #[serde(rename = "load", default)]
    pub pace: Pace,
    /// Further windows on the same warm database, after the measured one.
    #[serde(default)]
    pub phases: Vec<PhaseJob>,
    /// How the pool is warmed up.
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
