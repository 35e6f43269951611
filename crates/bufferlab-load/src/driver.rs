//! One driver thread: steps its terminals through transactions in a closed loop and keeps the tallies.
//!
//! With one connection for all terminals a transaction waits for its turn and is then served; both times are kept
//! apart. Nothing here is shared with another thread and nothing allocates per transaction.

use std::sync::Arc;

use bufferlab_probe::{Reading, clock};
use bufferlab_workload::client::{Client, ClientError, Outcome, Workload};

use crate::recorder::Latency;

/// How often a deadlock's victim is tried again before the run fails.
const MAX_RETRIES: u32 = 1000;

/// Counts and latencies of one transaction type.
#[derive(Clone, Default)]
pub struct Tally {
    /// Transactions committed.
    pub committed: u64,
    /// Transactions rolled back because the workload says so.
    pub rolled_back: u64,
    /// Executions repeated because the engine asked for it.
    pub retries: u64,
    /// Rows returned, those of repeated executions included.
    pub rows_returned: u64,
    /// From the moment a transaction is begun until it has ended, retries included.
    pub service: Latency,
    /// From the end of the terminal's previous transaction until this one is begun.
    pub queue: Latency,
    /// Service times since the last sample.
    interval: Latency,
}

impl Tally {
    fn transactions(&self) -> u64 {
        self.committed + self.rolled_back
    }
}

/// A workload, its client, and what they have done.
pub struct Driver<C: Client, W: Workload> {
    client: C,
    workload: W,
    tallies: Vec<Tally>,
    subjects: Vec<Arc<str>>,
    /// When each terminal ended its last transaction; zero before its first in this window.
    ended_ns: Vec<u64>,
}

impl<C: Client, W: Workload> Driver<C, W> {
    /// A driver that has done nothing yet.
    pub fn new(client: C, workload: W) -> Self {
        let types = workload.transaction_types();
        let terminals = workload.terminals();
        Driver {
            client,
            tallies: vec![Tally::default(); types.len()],
            subjects: types.iter().map(|name| Arc::from(name.as_str())).collect(),
            ended_ns: vec![0; terminals],
            workload,
        }
    }

    /// The workload, with whatever it has counted itself.
    pub fn workload(&self) -> &W {
        &self.workload
    }

    /// Gives the client back, at the end.
    pub fn into_client(self) -> C {
        self.client
    }

    /// Transactions ended so far, committed or rolled back, since the driver was made.
    pub fn transactions(&self) -> u64 {
        self.tallies.iter().map(Tally::transactions).sum()
    }

    /// One piece of the workload's own reading before the warm-up; true while there is more.
    ///
    /// # Errors
    /// The client's error.
    pub fn prefill_step(&mut self) -> Result<bool, ClientError> {
        self.workload.prefill_step(&mut self.client)
    }

    /// Plans and executes one transaction.
    ///
    /// # Errors
    /// The client's error, when it is not one that a retry cures.
    pub fn step(&mut self) -> Result<(), ClientError> {
        let planned = self.workload.plan();
        let tally = &mut self.tallies[planned.transaction_type];
        let rows_before = self.client.rows_returned();
        let begun_ns = clock::monotonic_ns();
        let mut attempts = 0;
        let outcome = loop {
            match self.workload.execute(&mut self.client) {
                Ok(outcome) => break outcome,
                Err(ClientError::Retry { .. }) if attempts < MAX_RETRIES => {
                    attempts += 1;
                    tally.retries += 1;
                    self.client.rollback()?;
                }
                Err(error) => return Err(error),
            }
        };
        let ended_ns = clock::monotonic_ns();
        match outcome {
            Outcome::Committed => tally.committed += 1,
            Outcome::RolledBack => tally.rolled_back += 1,
        }
        tally.rows_returned += self.client.rows_returned() - rows_before;
        tally.interval.record(ended_ns - begun_ns);
        let previous_ns = std::mem::replace(&mut self.ended_ns[planned.terminal], ended_ns);
        if previous_ns != 0 {
            tally.queue.record(begun_ns - previous_ns);
        }
        Ok(())
    }

    /// Forgets latencies and restarts the queue clocks: what was recorded so far belongs to the warm-up.
    pub fn restart_latencies(&mut self) {
        let now_ns = clock::monotonic_ns();
        self.ended_ns.fill(now_ns);
        for tally in &mut self.tallies {
            tally.service.clear();
            tally.queue.clear();
            tally.interval.clear();
        }
    }

    /// Counters of every type, and service times since the previous call.
    pub fn sample(&mut self, out: &mut Vec<Reading>) {
        for (tally, subject) in self.tallies.iter_mut().zip(&self.subjects) {
            let counts = [
                ("transactions_committed", tally.committed),
                ("transactions_rolled_back", tally.rolled_back),
                ("transaction_retries", tally.retries),
            ];
            out.extend(counts.map(|(metric, count)| Reading::counter(PROBE, metric, subject, count as i64)));
            let times = [
                ("service_mean_us", tally.interval.mean_ns()),
                ("service_p50_us", tally.interval.quantile_ns(0.50).map(|ns| ns as f64)),
                ("service_p95_us", tally.interval.quantile_ns(0.95).map(|ns| ns as f64)),
                ("service_p99_us", tally.interval.quantile_ns(0.99).map(|ns| ns as f64)),
                ("service_max_us", tally.interval.max_ns().map(|ns| ns as f64)),
            ];
            for (metric, ns) in times {
                // A type without a transaction in this second has no latency; the row is left out, not made up.
                if let Some(ns) = ns {
                    out.push(Reading::gauge(PROBE, metric, subject, ns / 1000.0));
                }
            }
            tally.service.merge(&tally.interval);
            tally.interval.clear();
        }
    }

    /// The tallies, by transaction type. Latencies are complete after a [`Driver::sample`].
    pub fn tallies(&self) -> impl Iterator<Item = (&str, &Tally)> {
        self.subjects.iter().map(AsRef::as_ref).zip(&self.tallies)
    }
}

const PROBE: &str = "workload";
