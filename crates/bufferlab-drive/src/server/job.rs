//! The jobs of a run and a load on a server, in the core's types.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::Sending;
use super::encode::Form;
use super::session::Course;
use crate::data::Data;
use crate::failure::Failure;
use crate::job::{Limit, Pace, PhaseJob, WarmUp, WorkloadJob, pairs, sample_interval};
use crate::probes::Asked;

/// The job of a run. `Target` is the engine's: a server, an account and a database.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run<Target> {
    /// A running server with a loaded database that this run may change.
    pub target: Target,
    /// The server's process, when it runs on this host.
    pub server_pid: Option<u32>,
    /// The server's data directory, when this host can see it.
    pub datadir: Option<PathBuf>,
    /// Whether the run may change settings of the server, because it is ours. MySQL: to switch metrics on, and to make
    /// replacement plain while it fills the pool.
    #[serde(default = "ours")]
    pub may_change_settings: bool,
    /// The number of connections that drive it.
    pub connections: usize,
    /// The way in which clients send statements.
    #[serde(rename = "statements")]
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

impl<Target> Run<Target> {
    /// Returns the parts of the run that no engine matters for.
    ///
    /// # Errors
    /// See [`Course::check`].
    pub fn course(&self) -> Result<Course<'_>, Failure> {
        let course = Course {
            connections: self.connections,
            frames: self.frames,
            pace: &self.pace,
            phases: &self.phases,
            warm_up: self.warm_up,
            measure: self.measure,
        };
        course.check()?;
        Ok(course)
    }
}

/// The job of a load.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load<Target> {
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
