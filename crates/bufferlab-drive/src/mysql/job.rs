//! What to run on a MySQL or MariaDB server, in the core's types.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::client::Sending;
use super::target::Target;
use crate::job::{Limit, Pace, PhaseJob, WarmUp, WorkloadJob, pairs, sample_interval};
use crate::probes::Asked;

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
    /// Whether the server is ours, so that its settings may be changed for the run: metrics switched on, replacement made plain
    /// while the pool is filled.
    #[serde(default = "ours")]
    pub may_change_settings: bool,
    /// How many connections drive it.
    pub connections: usize,
    /// How statements are sent.
    #[serde(rename = "statements")]
    pub sending: Sending,
    /// Pages really in its buffer pool.
    pub frames: u64,
    /// What is executed, unless a program does it.
    pub workload: Option<WorkloadJob>,
    /// Another program that makes the transactions.
    pub program: Option<ProgramJob>,
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

/// Servers are ours unless said otherwise.
fn ours() -> bool {
    true
}

/// Another program that drives the server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramJob {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Added to its environment.
    #[serde(default, deserialize_with = "pairs")]
    pub env: Vec<(String, String)>,
    /// What of the server's counters is a transaction of it.
    #[serde(rename = "kind_of_transaction")]
    pub counted: Counted,
}

/// What of the server's counters is a transaction of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// COMMIT and ROLLBACK: `Com_commit` and `Com_rollback`. Statements outside of transactions are in neither.
    #[serde(rename = "com_commit")]
    Commits,
    /// Statements of all clients: `Questions`; the few of this run's own samples are among them.
    Questions,
}
