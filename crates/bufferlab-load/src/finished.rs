//! What a run came to, beside the samples it has sent.

use std::sync::Arc;

use bufferlab_probe::{Table, clock};

use crate::driver::Tally;
use crate::findings::Findings;
use crate::gate::GateEnd;
use crate::recorder::Bucket;

/// A part of a run that is over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    /// Transactions of any type.
    pub transactions: u64,
    /// Wall time.
    pub seconds: f64,
}

/// Latencies of one transaction type.
#[derive(Clone, Debug)]
pub struct TypeLatency {
    /// The type.
    pub transaction_type: String,
    /// `service`, `queue` or, in an open loop, `response`.
    pub time: &'static str,
    /// All buckets with records.
    pub buckets: Vec<Bucket>,
    /// Exact maximum, if anything was recorded.
    pub max_ns: Option<u64>,
    /// Exact mean, if anything was recorded.
    pub mean_ns: Option<f64>,
}

/// A setting as the engine reports it after it was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actual {
    /// A number.
    Int(i64),
    /// A word.
    Text(String),
}

/// A finished run.
pub struct Finished {
    /// True when it was stopped before its time.
    pub interrupted: bool,
    /// Settings as read back.
    pub actual: Vec<(&'static str, Actual)>,
    /// How the warm-up ended; none when it was interrupted.
    pub gate: Option<GateEnd>,
    /// Demand misses during the warm-up.
    pub warm_up_misses: u64,
    /// The warm-up.
    pub warm_up: Part,
    /// The measured window.
    pub measured: Part,
    /// The phases after it, by name, as far as they were begun.
    pub phases: Vec<(Arc<str>, Part)>,
    /// Latencies of the measured window and of the phases.
    pub latencies: Vec<TypeLatency>,
    /// What the workload tells of itself.
    pub findings: Findings,
    /// The engine's own name of its version.
    pub engine_version: String,
    /// What probes have recorded over the measured window.
    pub recorded: Vec<Table>,
    /// When the run's clock was started.
    pub clock: clock::Anchor,
}

/// The latencies of a window, by type and kind of time; response times exist in an open loop alone.
pub fn latencies<'a>(tallies: impl Iterator<Item = (&'a str, &'a Tally)>, is_open: bool) -> Vec<TypeLatency> {
    let mut latencies = Vec::new();
    for (transaction_type, tally) in tallies {
        let mut times = vec![("service", &tally.service), ("queue", &tally.queue)];
        if is_open {
            times.push(("response", &tally.response));
        }
        for (time, latency) in times {
            latencies.push(TypeLatency {
                transaction_type: transaction_type.to_owned(),
                time,
                buckets: latency.buckets(),
                max_ns: latency.max_ns(),
                mean_ns: latency.mean_ns(),
            });
        }
    }
    latencies
}
