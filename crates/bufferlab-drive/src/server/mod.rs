//! Database servers, whatever their protocol: rows as text, bulk loads of several tables at a time, and runs by several
//! connections. What differs between servers comes in through the traits of [`session`].

pub mod bulk;
pub mod datetime;
pub mod encode;
pub mod prefill;
pub mod run;
pub mod session;
pub mod set_up;

use serde::Deserialize;

/// How a workload's statements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sending {
    /// Each call in a round trip of its own, as the specification's profiles are written.
    Spec,
    /// In as few round trips as give the same answers.
    Batched,
}
