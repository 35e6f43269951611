//! The jobs of a run and a load on a server, in the core's types.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::Sending;
use super::encode::Form;
use super::target::Target;
use crate::data::Data;
use crate::failure::{Failure, FailureKind};
use crate::job::{Limit, Pace, PhaseJob, WarmUp, WorkloadJob, pairs, sample_interval};
use crate::probes::Asked;

/// The job of a run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run<T = Target> {
    /// A loaded database that this run may change: on a running server, or a file.
    pub target: T,
    /// The server's process, when it runs on this host.
    pub server_pid: Option<u32>,
    /// The server's data directory, when this host can see it.
    pub datadir: Option<PathBuf>,
    /// Whether the run may change settings of the server, because it is ours. MySQL: to switch metrics on, and to make
    /// replacement plain while it fills the pool.
    #[serde(default = "ours")]
    pub may_change_settings: bool,
    /// The number of connections that drive it.
    #[serde(default = "one")]
    pub connections: usize,
    /// The way in which clients send statements.
    #[serde(rename = "statements", default)]
    pub sending: Sending,
    /// Pages really in its buffer pool.
    pub frames: u64,
    /// The workload, unless a program makes the transactions.
    pub workload: Option<WorkloadJob>,
    /// Another program that makes the transactions; MySQL and MariaDB alone.
    pub program: Option<ProgramJob>,
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

impl<T> Run<T> {
    /// Checks the parts before the minutes that lead to them.
    ///
    /// # Errors
    /// When a phase is wrong, or no connection is asked for.
    pub fn check(&self) -> Result<(), Failure> {
        for phase in &self.phases {
            phase.check()?;
        }
        if self.connections == 0 {
            let (what, hint) = ("no connection drives the server", "use 1 or more");
            return Err(Failure::new(FailureKind::Usage, what, "connections", hint));
        }
        Ok(())
    }
}

/// The job of a load.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The server, and the database to load into. The load creates it when it does not exist.
    pub target: Target,
    /// The data to load.
    #[serde(rename = "workload")]
    pub data: Data,
    /// Tables written at a time; each has a connection and a thread that generates its rows.
    pub threads: usize,
    /// The form in which the load sends rows; without one the server decides.
    #[serde(skip)]
    pub form: Option<Form>,
}

/// Returns the default: servers are ours.
fn ours() -> bool {
    true
}

/// Returns the default: an engine inside this process has one connection.
fn one() -> usize {
    1
}

/// Another program that drives the server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramJob {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Variables that are added to its environment.
    #[serde(default, deserialize_with = "pairs")]
    pub env: Vec<(String, String)>,
    /// The counter of the server that counts transactions of it.
    #[serde(rename = "kind_of_transaction")]
    pub counted: Counted,
}

/// The counter of the server that counts transactions of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// COMMIT and ROLLBACK: `Com_commit` and `Com_rollback`. Statements outside of transactions are in neither.
    #[serde(rename = "com_commit")]
    Commits,
    /// Statements of all clients: `Questions`. It includes the few of this run's own samples.
    Questions,
}
