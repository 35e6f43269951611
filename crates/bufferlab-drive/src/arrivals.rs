//! The schedule of an open loop: the times at which transactions are due, in whole nanoseconds. They depend only on the
//! rate, the spacing and the seed.
//!
//! The schedule does not wait for transactions, so a late answer shows as a late start of the arrivals after it. The
//! fraction that rounding a due time to nanoseconds cuts off is added to the next gap, so the rate does not drift.

use bufferlab_workload::random::Random;
use serde::Deserialize;

/// An arrival that the driver begins later than this after its intended start counts as late.
pub const LATE_AFTER_NS: u64 = 1_000_000;

/// The rates that the schedule accepts, in transactions per second.
pub const RATE_RANGE_PER_S: std::ops::RangeInclusive<f64> = 0.001..=10_000_000.0;

/// The distribution of the gaps between arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// Independent exponential gaps, as between requests of many independent users.
    Poisson,
    /// Equal gaps between arrivals, each of one second divided by the rate.
    Constant,
}

/// The parameters of an open loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpenLoop {
    /// Mean number of arrivals per second.
    pub rate_per_s: f64,
    /// Distribution of the gaps between arrivals.
    pub spacing: Spacing,
    /// The longest wait in nanoseconds; the driver drops an arrival that has waited longer.
    pub patience_ns: u64,
    /// Seed of the gaps; the workload's choices have other streams.
    pub seed: u64,
}

/// The schedule of one driver: intended starts of transactions, in nanoseconds since the window began.
#[derive(Clone, Debug)]
pub struct Arrivals {
    gaps: Gaps,
    next_ns: u64,
    patience_ns: u64,
}

#[derive(Clone, Debug)]
enum Gaps {
    /// Equal gaps of exactly 1 s / rate: `whole_ns` nanoseconds, and `numerator / denominator` of a nanosecond.
    Constant { whole_ns: u64, numerator: u128, denominator: u128, carried: u128 },
    /// Exponential gaps with this mean. `carried_ns` is the fraction of a nanosecond that rounding cut off from the
    /// gaps so far.
    Poisson { mean_ns: f64, carried_ns: f64, random: Box<Random> },
}

impl Arrivals {
    /// Returns the schedule, with its first arrival one gap after the start; none when the rate is out of
    /// [`RATE_RANGE_PER_S`].
    pub fn new(asked: &OpenLoop) -> Option<Self> {
        if !RATE_RANGE_PER_S.contains(&asked.rate_per_s) {
            return None;
        }
        let gaps = match asked.spacing {
            Spacing::Constant => constant_gaps(asked.rate_per_s),
            Spacing::Poisson => Gaps::Poisson {
                mean_ns: 1e9 / asked.rate_per_s,
                carried_ns: 0.0,
                random: Box::new(Random::stream(asked.seed, "arrivals", &[])),
            },
        };
        let mut arrivals = Arrivals { gaps, next_ns: 0, patience_ns: asked.patience_ns };
        arrivals.advance();
        Some(arrivals)
    }

    /// Returns the intended start of the next arrival, in nanoseconds since the window began.
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Returns the longest wait before the driver drops an arrival, in nanoseconds.
    pub fn patience_ns(&self) -> u64 {
        self.patience_ns
    }

    /// Takes the next arrival off the schedule and returns its intended start.
    #[inline]
    pub fn take(&mut self) -> u64 {
        let intended_ns = self.next_ns;
        self.advance();
        intended_ns
    }

    #[inline]
    fn advance(&mut self) {
        let gap_ns = match &mut self.gaps {
            Gaps::Constant { whole_ns, numerator, denominator, carried } => {
                *carried += *numerator;
                let extra = *carried >= *denominator;
                if extra {
                    *carried -= *denominator;
                }
                *whole_ns + u64::from(extra)
            }
            Gaps::Poisson { mean_ns, carried_ns, random } => {
                // 1 - U lies in (0, 1], so its logarithm is finite.
                let gap_ns = *carried_ns - (1.0 - random.unit()).ln() * *mean_ns;
                let whole_ns = gap_ns.floor();
                *carried_ns = gap_ns - whole_ns;
                whole_ns as u64
            }
        };
        self.next_ns = self.next_ns.saturating_add(gap_ns);
    }
}

/// Returns equal gaps of 10^9 / rate nanoseconds. A rate is a binary fraction, `mantissa * 2^exponent`, so a gap is an
/// exact fraction of integers.
fn constant_gaps(rate_per_s: f64) -> Gaps {
    let bits = rate_per_s.to_bits();
    // The rate is a normal floating-point number, because the range begins far above the subnormal numbers.
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1075;
    let mantissa = u128::from(bits & ((1 << 52) - 1) | 1 << 52);
    // The range keeps the exponent within -62..=-29: 10^9 * 2^62 has 92 bits.
    let dividend = 1_000_000_000_u128 << -exponent;
    Gaps::Constant {
        whole_ns: (dividend / mantissa) as u64,
        numerator: dividend % mantissa,
        denominator: mantissa,
        carried: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(rate_per_s: f64, spacing: Spacing, seed: u64) -> Arrivals {
        Arrivals::new(&OpenLoop { rate_per_s, spacing, patience_ns: 0, seed }).expect("the rate is in range")
    }

    #[test]
    fn constant_arrivals_are_exact_over_ten_million() {
        // 1024.5 = 2049 / 2 is a binary fraction. A second's 10^9 ns are a multiple of 1000, and not of 3 or 7000.
        for (rate_per_s, numerator, denominator) in
            [(1000.0, 1000, 1), (3.0, 3, 1), (7_000.0, 7_000, 1), (1024.5, 2049, 2), (10_000_000.0, 10_000_000, 1)]
        {
            let mut schedule = arrivals(rate_per_s, Spacing::Constant, 0);
            for n in 1..=10_000_000_u64 {
                let exact = u128::from(n) * 1_000_000_000 * denominator / numerator;
                let taken = schedule.take();
                assert!(u128::from(taken) == exact, "arrival {n} at {rate_per_s}/s: {taken} ns for {exact}");
            }
        }
    }

    #[test]
    fn the_slowest_and_the_fastest_rate_have_their_gaps() {
        assert_eq!(arrivals(1e7, Spacing::Constant, 0).take(), 100);
        let mut slowest = arrivals(0.001, Spacing::Constant, 0);
        assert_eq!((slowest.take(), slowest.take()), (999_999_999_999, 1_999_999_999_999), "0.001 is a little more");
        for rate in [0.0, -1.0, 1e-4, 1e8, f64::NAN, f64::INFINITY] {
            let asked = OpenLoop { rate_per_s: rate, spacing: Spacing::Constant, patience_ns: 0, seed: 0 };
            assert!(Arrivals::new(&asked).is_none(), "{rate} was taken for a rate");
        }
    }

    #[test]
    fn poisson_gaps_are_exponential_with_the_asked_mean() {
        let mut schedule = arrivals(2_500.0, Spacing::Poisson, 3);
        let mut last = 0;
        let mut gaps: Vec<f64> = (0..1_000_000)
            .map(|_| {
                let at = schedule.take();
                let gap = (at - std::mem::replace(&mut last, at)) as f64;
                gap / 400_000.0
            })
            .collect();
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
        // Standard errors: 1/sqrt(n) of the mean, sqrt(8/n) of the variance.
        assert!((mean - 1.0).abs() < 4.0 / n.sqrt(), "mean {mean}");
        assert!((variance - 1.0).abs() < 4.0 * (8.0 / n).sqrt(), "variance {variance}");
        // Kolmogorov and Smirnov: the distance exceeds 1.95 / sqrt(n) once in a thousand samples.
        gaps.sort_by(f64::total_cmp);
        let distance = gaps.iter().enumerate().fold(0.0_f64, |worst, (index, gap)| {
            let exact = 1.0 - (-gap).exp();
            worst.max((exact - index as f64 / n).abs()).max((exact - (index as f64 + 1.0) / n).abs())
        });
        assert!(distance < 1.95 / n.sqrt(), "distance {distance}");
    }

    #[test]
    fn poisson_counts_per_second_have_a_variance_equal_to_their_mean() {
        let mut schedule = arrivals(50.0, Spacing::Poisson, 8);
        let mut counts = vec![0_u32; 20_000];
        while let Some(count) = counts.get_mut((schedule.next_ns() / 1_000_000_000) as usize) {
            *count += 1;
            schedule.take();
        }
        let n = counts.len() as f64;
        let mean = counts.iter().copied().map(f64::from).sum::<f64>() / n;
        let variance = counts.iter().map(|&count| (f64::from(count) - mean).powi(2)).sum::<f64>() / n;
        assert!((mean - 50.0).abs() < 4.0 * (50.0 / n).sqrt(), "mean {mean}");
        assert!((variance / mean - 1.0).abs() < 4.0 * (2.0 / n).sqrt(), "variance {variance} for mean {mean}");
    }

    #[test]
    fn the_same_seed_gives_the_same_arrivals_at_every_rate_but_for_scale() {
        let (mut slow, mut fast) = (arrivals(10.0, Spacing::Poisson, 4), arrivals(1000.0, Spacing::Poisson, 4));
        for _ in 0..10_000 {
            let (slow_ns, fast_ns) = (slow.take(), fast.take());
            assert!(slow_ns.abs_diff(100 * fast_ns) <= 101, "{slow_ns} is not a hundred times {fast_ns}");
        }
        let mut other = arrivals(10.0, Spacing::Poisson, 5);
        assert_ne!(other.take(), arrivals(10.0, Spacing::Poisson, 4).take());
    }

    #[test]
    fn fast_poisson_arrivals_do_not_drift_from_rounding() {
        // Gaps are 100 ns on average. A schedule that only cuts fractions off would lose half a nanosecond of each gap,
        // that is, 0.5 %.
        let mut schedule = arrivals(1e7, Spacing::Poisson, 6);
        let n = 10_000_000;
        let end_ns = (0..n).map(|_| schedule.take()).last().expect("there are arrivals") as f64;
        let error = (end_ns / 1e9 - 1.0).abs();
        assert!(error < 4.0 / f64::from(n).sqrt(), "off by {error}");
    }
}
