//! What to run on a MySQL or MariaDB server, in the core's types.

use std::path::PathBuf;
use std::time::Duration;

use super::client::Sending;
use super::target::Target;
use super::version::Flavour;
use crate::job::{Limit, Pace, PhaseJob, WarmUp, WorkloadJob};
use crate::probes::Asked;

/// What to run.
pub struct Run {
    /// A running server with a loaded database that this run may change.
    pub target: Target,
    /// Which server it is said to be.
    pub flavour: Flavour,
    /// Its process, when it runs on this host.
    pub server_pid: Option<u32>,
    /// Its data directory, when this host can see it.
    pub datadir: Option<PathBuf>,
    /// Whether the server is ours, so that its settings may be changed for the run: metrics switched on, replacement made plain
    /// while the pool is filled.
    pub may_change_settings: bool,
    /// How many connections drive it.
    pub connections: usize,
    /// How statements are sent.
    pub sending: Sending,
    /// Pages really in its buffer pool.
    pub frames: u64,
    /// Who makes the transactions.
    pub load: Load,
    /// When transactions of the measured window are begun.
    pub pace: Pace,
    /// Further windows on the same warm database, after the measured one.
    pub phases: Vec<PhaseJob>,
    /// How the pool is warmed up.
    pub warm_up: WarmUp,
    /// The measured window.
    pub measure: Limit,
    /// Distance of two samples.
    pub sample_interval: Duration,
    /// Probes beyond those of every run.
    pub probes: Asked,
}

/// Who makes the transactions.
pub enum Load {
    /// A workload of our own.
    Workload(WorkloadJob),
    /// Another program.
    Program(ProgramJob),
}

/// Another program that drives the server.
#[derive(Clone, Debug)]
pub struct ProgramJob {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Added to its environment.
    pub env: Vec<(String, String)>,
    /// What of the server's counters is a transaction of it.
    pub counted: Counted,
}

/// What of the server's counters is a transaction of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// COMMIT and ROLLBACK: `Com_commit` and `Com_rollback`. Statements outside of transactions are in neither.
    Commits,
    /// Statements of all clients: `Questions`; the few of this run's own samples are among them.
    Questions,
}

impl Counted {
    /// The kind of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "com_commit" => Some(Counted::Commits),
            "questions" => Some(Counted::Questions),
            _ => None,
        }
    }
}
