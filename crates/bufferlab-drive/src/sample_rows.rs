//! Makes the rows of a sample from the tallies of one driver or several. Counters are added up, and histograms are
//! merged before quantiles are computed, so the rows that are stored do not depend on the number of drivers.
//!
//! Each driver hands its tallies over between two of its transactions. While a driver is inside a long transaction,
//! samples have the tallies that it handed over last, so that no sum ever falls.

use std::ops::AddAssign;
use std::sync::Arc;

use bufferlab_probe::Reading;

use crate::latency::Latency;

const PROBE: &str = "workload";

/// Counters of one transaction type, since its driver was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions that the engine committed.
    pub committed: u64,
    /// Transactions that the engine rolled back because the workload asked for it.
    pub rolled_back: u64,
    /// Executions that the engine ended with the request to repeat the transaction, as after a deadlock.
    pub retries: u64,
    /// Rows that the engine returned, those of repeated executions included.
    pub rows_returned: u64,
    /// Open loop: arrivals taken off the schedule, executed or dropped.
    pub arrivals: u64,
    /// Open loop: arrivals that the driver began more than a millisecond after their intended start.
    pub late: u64,
    /// Open loop: arrivals that waited longer than the patience. The driver did not execute them.
    pub dropped: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.retries += other.retries;
        self.rows_returned += other.rows_returned;
        self.arrivals += other.arrivals;
        self.late += other.late;
        self.dropped += other.dropped;
    }
}

/// The tallies that the drivers of one workload have handed over.
pub struct Merged {
    subjects: Vec<Arc<str>>,
    is_open: bool,
    /// The counters that each driver handed over last, by driver, then by transaction type.
    counts: Vec<Vec<Counts>>,
    lag_ns: Vec<Option<u64>>,
    /// Service and response times since the last sample, by transaction type.
    times: Vec<(Latency, Latency)>,
    no_subject: Arc<str>,
}

impl Merged {
    /// Makes empty tallies of `drivers` drivers, for transaction types of these names.
    pub fn new(subjects: &[Arc<str>], drivers: usize, is_open: bool) -> Self {
        Merged {
            subjects: subjects.to_vec(),
            is_open,
            counts: vec![vec![Counts::default(); subjects.len()]; drivers],
            lag_ns: vec![None; drivers],
            times: vec![<(Latency, Latency)>::default(); subjects.len()],
            no_subject: Arc::from(""),
        }
    }

    /// Stores one driver's counters of one transaction type, and adds the driver's times since its last hand-over.
    pub fn take(
        &mut self,
        driver: usize,
        transaction_type: usize,
        counts: Counts,
        service: &Latency,
        response: &Latency,
    ) {
        self.counts[driver][transaction_type] = counts;
        let times = &mut self.times[transaction_type];
        for (all, own) in [(&mut times.0, service), (&mut times.1, response)] {
            if own.count() > 0 {
                all.merge(own);
            }
        }
    }

    /// Stores the nanoseconds since a driver's next arrival was due; none before its schedule starts.
    pub fn set_lag(&mut self, driver: usize, lag_ns: Option<u64>) {
        self.lag_ns[driver] = lag_ns;
    }

    /// Begins the measured window: forgets the times of the warm-up.
    pub fn begin_window(&mut self) {
        for (service, response) in &mut self.times {
            service.clear();
            response.clear();
        }
    }

    /// Appends the rows of every transaction type, as if there were one driver. The lag is the largest of all drivers.
    pub fn sample(&mut self, out: &mut Vec<Reading>) {
        for (index, subject) in self.subjects.iter().enumerate() {
            let mut counts = Counts::default();
            self.counts.iter().for_each(|driver| counts += driver[index]);
            let (service, response) = &mut self.times[index];
            rows(&counts, service, response, subject, self.is_open, out);
            for times in [service, response] {
                if times.count() > 0 {
                    times.clear();
                }
            }
        }
        if let Some(lag_ns) = self.lag_ns.iter().flatten().max() {
            out.push(Reading::gauge(PROBE, "arrival_lag_us", &self.no_subject, *lag_ns as f64 / 1000.0));
        }
    }
}

/// Names of the mean, three quantiles and the maximum of a kind of time.
type TimeNames = [&'static str; 5];
const SERVICE_TIMES: TimeNames =
    ["service_mean_us", "service_p50_us", "service_p95_us", "service_p99_us", "service_max_us"];
const RESPONSE_TIMES: TimeNames =
    ["response_mean_us", "response_p50_us", "response_p95_us", "response_p99_us", "response_max_us"];

/// Appends the rows of one transaction type.
fn rows(
    counts: &Counts,
    service: &Latency,
    response: &Latency,
    subject: &Arc<str>,
    is_open: bool,
    out: &mut Vec<Reading>,
) {
    let counts = [
        ("transactions_committed", counts.committed),
        ("transactions_rolled_back", counts.rolled_back),
        ("transaction_retries", counts.retries),
        ("rows_returned", counts.rows_returned),
        ("arrivals", counts.arrivals),
        ("arrivals_late", counts.late),
        ("arrivals_dropped", counts.dropped),
    ];
    // A closed loop has no arrivals, so its samples have no rows for the last three counters.
    let counts = &counts[..if is_open { 7 } else { 4 }];
    out.extend(counts.iter().map(|&(metric, count)| Reading::counter(PROBE, metric, subject, count as i64)));
    times(SERVICE_TIMES, service, subject, out);
    times(RESPONSE_TIMES, response, subject, out);
}

fn times(names: TimeNames, interval: &Latency, subject: &Arc<str>, out: &mut Vec<Reading>) {
    // A type without a transaction since the last sample has no rows for latencies.
    if interval.count() == 0 {
        return;
    }
    let quantile = |share| interval.quantile_ns(share).map(|ns| ns as f64);
    let values =
        [interval.mean_ns(), quantile(0.50), quantile(0.95), quantile(0.99), interval.max_ns().map(|ns| ns as f64)];
    for (metric, ns) in names.into_iter().zip(values) {
        if let Some(ns) = ns {
            out.push(Reading::gauge(PROBE, metric, subject, ns / 1000.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One transaction: its driver, its type, its service time, and whether it was rolled back.
    type Played = (usize, usize, u64, bool);

    fn played(drivers: usize) -> impl Strategy<Value = Vec<Played>> {
        proptest::collection::vec((0..drivers, 0..2_usize, 1_000..2_000_000_000_u64, any::<bool>()), 0..120)
    }

    /// Returns the rows of a sample after the first half of the transactions, and after all. `owner` maps each
    /// transaction to its driver.
    fn samples(transactions: &[Played], drivers: usize, owner: impl Fn(usize) -> usize) -> [Vec<Reading>; 2] {
        let subjects = ["a", "b"].map(Arc::from);
        let mut merged = Merged::new(&subjects, drivers, false);
        let mut counts = vec![[Counts::default(); 2]; drivers];
        let (first, second) = transactions.split_at(transactions.len() / 2);
        [first, second].map(|part| {
            let mut times = vec![<[Latency; 2]>::default(); drivers];
            for &(by, kind, ns, rolled_back) in part {
                let driver = owner(by);
                times[driver][kind].record(ns);
                let counts = &mut counts[driver][kind];
                *(if rolled_back { &mut counts.rolled_back } else { &mut counts.committed }) += 1;
                counts.rows_returned += ns % 7;
            }
            for driver in 0..drivers {
                for kind in 0..2 {
                    merged.take(driver, kind, counts[driver][kind], &times[driver][kind], &Latency::default());
                }
            }
            let mut out = Vec::new();
            merged.sample(&mut out);
            out
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn several_drivers_tell_what_one_would(transactions in played(3)) {
            prop_assert_eq!(samples(&transactions, 3, |by| by), samples(&transactions, 1, |_| 0));
        }
    }

    #[test]
    fn a_driver_that_does_not_answer_keeps_its_counts_and_lends_no_times() {
        let subjects = [Arc::from("a")];
        let mut merged = Merged::new(&subjects, 2, false);
        let mut slow = Latency::default();
        slow.record(5_000);
        let counts = |committed| Counts { committed, ..Counts::default() };
        merged.take(0, 0, counts(7), &slow, &Latency::default());
        merged.take(1, 0, counts(1), &slow, &Latency::default());
        merged.sample(&mut Vec::new());
        merged.take(1, 0, counts(3), &Latency::default(), &Latency::default());
        let mut out = Vec::new();
        merged.sample(&mut out);
        assert_eq!(out[0].count, Some(10));
        assert!(out.iter().all(|row| row.value.is_none()), "{out:?}");
    }

    #[test]
    fn the_lag_is_the_largest() {
        let mut merged = Merged::new(&[Arc::from("a")], 3, true);
        merged.set_lag(0, Some(1_000));
        merged.set_lag(2, Some(9_000));
        let mut out = Vec::new();
        merged.sample(&mut out);
        let lag = out.iter().find(|row| row.metric == "arrival_lag_us").and_then(|row| row.value);
        assert_eq!(lag, Some(9.0));
        assert_eq!(out.iter().filter(|row| row.metric == "arrivals").count(), 1);
    }
}
