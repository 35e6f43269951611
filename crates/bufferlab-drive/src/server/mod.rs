//! Code for database servers of any protocol: rows as text, bulk loads of several tables at a time, and runs by several
//! connections. The traits of [`session`] hold the differences between servers.

pub mod bulk;
pub mod datetime;
pub mod encode;
pub mod job;
pub mod prefill;
pub mod run;
pub mod session;
pub mod set_up;

use serde::Deserialize;

/// The way in which a client sends a workload's statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sending {
    /// One round trip for each call, as the specification's profiles are written.
    Spec,
    /// In as few round trips as give the same answers.
    Batched,
}
