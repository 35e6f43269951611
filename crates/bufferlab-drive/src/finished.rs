//! The results of a run, except its samples, in the form in which Python receives them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bufferlab_probe::{Table, clock};
use bufferlab_workload::findings::Findings;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::driver::Tally;
use crate::gate::GateEnd;
use crate::latency::Latency;

/// The transactions and the time of a part of a run: its warm-up, its measured window or a phase.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Part {
    /// Transactions of any type that ended in the part.
    pub transactions: u64,
    /// Wall time of the part in seconds.
    pub seconds: f64,
}

/// A warm-up that has ended, or that the user interrupted.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct WarmedUp {
    /// The reason why the warm-up ended; none when the user interrupted the run.
    pub gate: Option<GateEnd>,
    /// Demand misses that count towards filling and turnover of the pool.
    pub misses: u64,
    /// True when the limit ended the warm-up while the gate waited for turnover or updates.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_cap: bool,
    /// The warm-up's transactions and time.
    #[serde(flatten)]
    pub part: Part,
}

/// A phase that has ended, or that the user interrupted.
#[derive(Clone, Debug, Serialize)]
pub struct PhasePart {
    /// The phase's name.
    pub name: Arc<str>,
    /// The phase's transactions and time.
    #[serde(flatten)]
    pub part: Part,
}

/// Latencies of one transaction type and one kind of time, in one window.
#[derive(Clone, Debug, Serialize)]
pub struct TypeLatency {
    /// The name of the transaction type.
    pub transaction_type: String,
    /// The kind of time: `service`, `queue` or, in an open loop, `response`.
    pub time: &'static str,
    /// All buckets with records, as (low, high, count): bounds in microseconds, both inclusive, and the number of
    /// records.
    pub buckets: Vec<(f64, f64, u64)>,
    /// Exact maximum of the latencies in microseconds; none if none was recorded.
    pub max_us: Option<f64>,
    /// Exact mean of the latencies in microseconds; none if none was recorded.
    pub mean_us: Option<f64>,
}

impl TypeLatency {
    /// Copies the records of one transaction type and one kind of time.
    pub fn new(transaction_type: &str, time: &'static str, latency: &Latency) -> Self {
        let us = |ns: u64| ns as f64 / 1000.0;
        let buckets = latency.buckets().into_iter().map(|bucket| (us(bucket.low_ns), us(bucket.high_ns), bucket.count));
        TypeLatency {
            transaction_type: transaction_type.to_owned(),
            time,
            buckets: buckets.collect(),
            max_us: latency.max_ns().map(us),
            mean_us: latency.mean_ns().map(|ns| ns / 1000.0),
        }
    }
}

/// Settings as the engine reports them after they were applied.
pub type Settings = BTreeMap<&'static str, Value>;

/// A finished run, or the part of a run so far.
#[derive(Debug, Default, Serialize)]
pub struct Finished {
    /// True when the user stopped the run before its end.
    #[serde(rename = "status", serialize_with = "status")]
    pub interrupted: bool,
    /// The engine's settings, as read back from it after they were applied.
    pub actual: Settings,
    /// The warm-up, up to its end or to the end of the run.
    pub warm_up: WarmedUp,
    /// The transactions and seconds of the measured window.
    pub measured: Part,
    /// The phases after the measured window that have ended, and the one that the user interrupted, if there is one.
    pub phases: Vec<PhasePart>,
    /// Latencies of the measured window and of the phases.
    #[serde(rename = "latency")]
    pub latencies: Vec<TypeLatency>,
    /// The workload's own counts over the warm-up and the window, summed over all connections.
    #[serde(flatten)]
    pub findings: Findings,
    /// The engine's version in its own words.
    pub engine_version: String,
    /// The tables that probes recorded over the measured window.
    #[serde(serialize_with = "by_probe")]
    pub recorded: Vec<Table>,
    /// The moment at which the run's clock started.
    pub clock: clock::Anchor,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn status<S: Serializer>(interrupted: &bool, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(if *interrupted { "interrupted" } else { "ok" })
}

fn by_probe<S: Serializer>(recorded: &[Table], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(recorded.iter().map(|table| (table.probe, &table.told)))
}

/// Returns the latencies of a window, by transaction type and kind of time. Response times exist only in an open loop.
pub fn latencies<'a>(tallies: impl Iterator<Item = (&'a str, &'a Tally)>, is_open: bool) -> Vec<TypeLatency> {
    let mut latencies = Vec::new();
    for (transaction_type, tally) in tallies {
        let times = [("service", &tally.service), ("queue", &tally.queue), ("response", &tally.response)];
        let kinds = if is_open { 3 } else { 2 };
        latencies
            .extend(times[..kinds].iter().map(|(time, latency)| TypeLatency::new(transaction_type, time, latency)));
    }
    latencies
}
