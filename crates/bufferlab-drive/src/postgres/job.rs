//! What to run on a PostgreSQL server, in the core's types.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::target::Target;
use crate::job::{Limit, Pace, PhaseJob, WarmUp, WorkloadJob, sample_interval};
use crate::probes::Asked;
use crate::server::Sending;

/// What to run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// A running server with a loaded database that this run may change.
    pub target: Target,
    /// Its process, when it runs on this host.
    pub server_pid: Option<u32>,
    /// Its data directory, when this host can see it.
    pub datadir: Option<PathBuf>,
    /// How many connections drive it.
    pub connections: usize,
    /// How statements are sent.
    #[serde(rename = "statements")]
    pub sending: Sending,
    /// Pages really in its shared buffers.
    pub frames: u64,
    /// What is executed.
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
