//! Code for database servers of any protocol: rows as text, bulk loads of several tables at a time, and runs by several
//! connections. The traits of [`session`] hold the differences between servers.

pub mod bulk;
pub mod datetime;
pub mod encode;
pub(crate) mod input;
pub mod job;
pub mod patience;
pub mod prefill;
pub mod python_session;
pub mod refusal;
pub mod run;
pub mod security;
pub mod session;
pub mod set_up;
pub mod target;
pub(crate) mod unix;

use bufferlab_workload::client::ClientError;
use serde::Deserialize;

/// The way in which a client sends a workload's statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sending {
    /// One round trip for each call, as the specification's profiles are written.
    #[default]
    Spec,
    /// In as few round trips as give the same answers.
    Batched,
}

/// The meaning of a server's error, from which errors for workloads and users are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Retry,
    Lost,
    DiskFull,
    Statement,
}

impl Meaning {
    /// Returns the error of a statement for its workload.
    pub fn client_error(self, statement: &str, message: String) -> ClientError {
        match self {
            Meaning::Retry => ClientError::Retry { message },
            Meaning::Lost => ClientError::Lost { message },
            Meaning::DiskFull => ClientError::DiskFull { message },
            Meaning::Statement => ClientError::Statement { statement: statement.to_owned(), message },
        }
    }
}
