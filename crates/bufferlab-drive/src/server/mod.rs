//! Code for database servers of any protocol: rows as text, bulk loads of several tables at a time, and runs by several
//! connections. The traits of [`session`] hold the differences between servers.

pub mod bulk;
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
pub mod storage_engine;
pub(crate) mod stream;
pub mod target;
pub(crate) mod unix;

use bufferlab_workload::client::ClientError;
use serde::Deserialize;

/// The way in which a client sends a workload's statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sending {
    /// One round trip for each call, statement by statement as in TPC-C's specification.
    #[default]
    Spec,
    /// As few round trips as possible with the same answers.
    Batched,
}

/// The meaning of a server's error. It decides which error the workload gets, and which failure the user sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Retry,
    Lost,
    DiskFull,
    Statement,
}

impl Meaning {
    /// Returns the error of a statement in the form that a workload gets.
    pub fn client_error(self, statement: &str, message: String) -> ClientError {
        match self {
            Meaning::Retry => ClientError::Retry { message },
            Meaning::Lost => ClientError::Lost { message },
            Meaning::DiskFull => ClientError::DiskFull { message },
            Meaning::Statement => ClientError::Statement { statement: statement.to_owned(), message },
        }
    }
}
