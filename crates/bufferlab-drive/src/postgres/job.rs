//! The job of a run on a PostgreSQL server, in the core's types.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::target::Target;
use crate::job::{Limit, Pace, PhaseJob, WarmUp, WorkloadJob, sample_interval};
use crate::probes::Asked;
use crate::server::Sending;

/// The job of a run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// A running server with a loaded database that this run may change.
    pub target: Target,
    /// The server's process, when it runs on this host.
    pub server_pid: Option<u32>,
    /// The server's data directory, when this host can see it.
    pub datadir: Option<PathBuf>,
    /// The number of connections that drive it.
    pub connections: usize,
    /// The way in which clients send statements.
    #[serde(rename = "statements")]
    pub sending: Sending,
    /// Pages really in its shared buffers.
    pub frames: u64,
    /// The workload.
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
