//! The jobs of a run and of a load on a server, as types of Rust.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::Sending;
use super::encode::Form;
use super::storage_engine::StorageEngine;
use super::target::Target;
use crate::data::Data;
use crate::failure::{Failure, FailureKind};
use crate::job::{Limit, Pace, PhaseJob, WarmUp, WorkloadJob, pairs, sample_interval};
use crate::probes::Asked;

/// The job of a run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run<T = Target> {
    /// A loaded database, which the run may change: on a running server, or in a file.
    pub target: T,
    /// The id of the server's process, when the server runs on this host.
    pub server_pid: Option<u32>,
    /// The server's data directory, when this host can see it.
    pub datadir: Option<PathBuf>,
    /// Whether the run may change settings of the server, because bufferlab started it. On MySQL the run then switches
    /// InnoDB's metrics on, and sets the replacement to plain LRU while it fills the pool.
    #[serde(default = "ours")]
    pub may_change_settings: bool,
    /// The number of connections that drive the server.
    #[serde(default = "one")]
    pub connections: usize,
    /// The way in which clients send statements.
    #[serde(rename = "statements", default)]
    pub sending: Sending,
    /// The number of frames of the server's buffer pool, as read from the server.
    pub frames: u64,
    /// The storage engine of the tables, if it is not InnoDB; only for MariaDB.
    pub storage_engine: Option<StorageEngine>,
    /// The workload; none if another program makes the transactions.
    pub workload: Option<WorkloadJob>,
    /// Another program that makes the transactions; only for MySQL and MariaDB.
    pub program: Option<ProgramJob>,
    /// The pace of transactions in the measured window.
    #[serde(rename = "load", default)]
    pub pace: Pace,
    /// Further windows on the same warm database, after the measured one.
    #[serde(default)]
    pub phases: Vec<PhaseJob>,
    /// The warm-up of the pool.
    pub warm_up: WarmUp,
    /// The limit of the measured window.
    pub measure: Limit,
    /// Time between two samples.
    #[serde(rename = "sample_interval_ms", deserialize_with = "sample_interval")]
    pub sample_interval: Duration,
    /// Probes in addition to those of every run.
    #[serde(default)]
    pub probes: Asked,
}

impl<T> Run<T> {
    /// Checks the job's phases and connections when the run begins, minutes before it uses them.
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
    /// The server, and the database to load into. The load creates the database if it does not exist.
    pub target: Target,
    /// The data to load.
    #[serde(rename = "workload")]
    pub data: Data,
    /// The number of tables written at a time, each by one connection, with a thread that generates the table's rows.
    pub threads: usize,
    /// The name of the storage engine of the tables, if it is not InnoDB; only for MariaDB.
    pub storage_engine: Option<String>,
    /// The form in which the load sends rows to MySQL or MariaDB; without one it uses LOAD DATA LOCAL if the server
    /// allows that.
    #[serde(skip)]
    pub form: Option<Form>,
}

/// Returns the default of `may_change_settings`: bufferlab started the server.
fn ours() -> bool {
    true
}

/// Returns the default of `connections`: an engine inside this process has one connection.
fn one() -> usize {
    1
}

/// Another program that drives the server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramJob {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Variables that are added to the program's environment.
    #[serde(default, deserialize_with = "pairs")]
    pub env: Vec<(String, String)>,
    /// The server's counter that counts the program's transactions.
    #[serde(rename = "kind_of_transaction")]
    pub counted: Counted,
}

/// The server's counter that counts a program's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// COMMIT and ROLLBACK: `Com_commit` and `Com_rollback`. Neither counts statements outside of transactions.
    #[serde(rename = "com_commit")]
    Commits,
    /// Statements of all clients: `Questions`. It includes the few statements of this run's own samples.
    Questions,
}
