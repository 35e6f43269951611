//! The recorder of latencies: HDR histograms in nanoseconds, one for each transaction type and kind of time.
//!
//! Three significant figures bound the relative error by 0.1 % from 1 us to 1 h. The memory for the whole range is
//! allocated at once, so recording never allocates. The maximum is exact. Histograms of several drivers merge without
//! loss.

use hdrhistogram::Histogram;

/// The longest latency that a histogram distinguishes from shorter ones: one hour. It counts longer latencies as one
/// hour.
pub const MAX_LATENCY_NS: u64 = 3_600_000_000_000;

/// A histogram of latencies.
#[derive(Clone)]
pub struct Latency {
    histogram: Histogram<u32>,
    max_ns: u64,
    sum_ns: u64,
}

/// One bucket with records: latencies from `low_ns` to `high_ns`, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Smallest latency that the bucket counts, in nanoseconds.
    pub low_ns: u64,
    /// Largest latency that the bucket counts, in nanoseconds.
    pub high_ns: u64,
    /// Number of recorded latencies in the bucket.
    pub count: u64,
}

impl Default for Latency {
    fn default() -> Self {
        #[expect(clippy::expect_used, reason = "the bounds are constants that the histogram accepts")]
        let histogram = Histogram::new_with_bounds(1, MAX_LATENCY_NS, 3).expect("constant bounds are valid");
        Latency { histogram, max_ns: 0, sum_ns: 0 }
    }
}

impl Latency {
    /// Records one latency. One of more than an hour counts as an hour, except in the mean and the maximum.
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns.clamp(1, MAX_LATENCY_NS));
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns += ns;
    }

    /// Adds another recorder's records.
    pub fn merge(&mut self, other: &Latency) {
        #[expect(clippy::expect_used, reason = "both histograms have the same constant bounds")]
        self.histogram.add(&other.histogram).expect("same bounds");
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
    }

    /// Forgets all records, and keeps their memory for later ones.
    pub fn clear(&mut self) {
        self.histogram.reset();
        self.max_ns = 0;
        self.sum_ns = 0;
    }

    /// Returns the number of recorded latencies.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the exact mean; none without records.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// Returns the exact maximum; none without records.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max_ns)
    }

    /// Returns the latency that `quantile` (0 to 1) of the records do not exceed, at most 0.1 % too high.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        (self.count() > 0).then(|| self.histogram.value_at_quantile(quantile).min(self.max_ns))
    }

    /// Returns all buckets with records, in ascending order. The last bucket ends at the exact maximum.
    pub fn buckets(&self) -> Vec<Bucket> {
        let recorded = self.histogram.iter_recorded();
        let mut buckets: Vec<Bucket> = recorded
            .map(|step| {
                let value = step.value_iterated_to();
                Bucket {
                    low_ns: self.histogram.lowest_equivalent(value),
                    high_ns: self.histogram.highest_equivalent(value),
                    count: step.count_since_last_iteration(),
                }
            })
            .collect();
        if let Some(last) = buckets.last_mut() {
            last.high_ns = self.max_ns;
        }
        buckets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_err_by_at_most_a_thousandth(mut latencies in proptest::collection::vec(1_000u64..3_600_000_000_000, 1..300), quantile in 0.0f64..=1.0) {
            let mut recorder = Latency::default();
            for &ns in &latencies {
                recorder.record(ns);
            }
            latencies.sort_unstable();
            // The exact quantile of HDR histograms: the smallest value with at least ceil(q * n) records up to it.
            let rank = ((quantile * latencies.len() as f64).ceil() as usize).clamp(1, latencies.len());
            let exact = latencies[rank - 1] as f64;
            let estimate = recorder.quantile_ns(quantile).expect("records exist") as f64;
            prop_assert!((estimate - exact).abs() <= exact / 1000.0 + 1.0, "{estimate} for {exact}");
            prop_assert_eq!(recorder.max_ns(), latencies.last().copied());
        }

        #[test]
        fn merging_equals_recording_together(left in proptest::collection::vec(1u64..1_000_000_000, 0..100), right in proptest::collection::vec(1u64..1_000_000_000, 0..100)) {
            let (mut a, mut b, mut both) = (Latency::default(), Latency::default(), Latency::default());
            left.iter().for_each(|&ns| { a.record(ns); both.record(ns) });
            right.iter().for_each(|&ns| { b.record(ns); both.record(ns) });
            a.merge(&b);
            prop_assert_eq!(a.buckets(), both.buckets());
            prop_assert_eq!((a.count(), a.max_ns(), a.sum_ns), (both.count(), both.max_ns(), both.sum_ns));
        }
    }

    #[test]
    fn the_maximum_is_exact_beyond_the_range() {
        let mut recorder = Latency::default();
        recorder.record(2 * MAX_LATENCY_NS + 7);
        assert_eq!(recorder.max_ns(), Some(2 * MAX_LATENCY_NS + 7));
        assert_eq!(recorder.buckets().iter().map(|bucket| bucket.count).sum::<u64>(), 1);
        assert_eq!(recorder.buckets()[0].high_ns, 2 * MAX_LATENCY_NS + 7);
    }

    #[test]
    fn an_empty_recorder_has_no_figures() {
        let recorder = Latency::default();
        assert_eq!((recorder.mean_ns(), recorder.max_ns(), recorder.quantile_ns(0.5)), (None, None, None));
    }
}
