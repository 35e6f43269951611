//! Draws ranks with probabilities proportional to 1 / rank^exponent, exactly, and in constant time and memory.
//!
//! The method is rejection-inversion after Hörmann and Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions" (1996). It needs no table of ranks, takes any exponent from 0 (uniform) upwards,
//! and is exact but for rounding. The caller scatters ranks over keys.

use crate::random::Random;

/// Zipf's distribution of the ranks `1..=n`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zipf {
    n: u64,
    exponent: f64,
    /// Areas under the hat function from position 1 on: to the left edge of the first rank's share, and to the right
    /// edge of the last rank's.
    area_low: f64,
    area_high: f64,
    /// A candidate position that lies at most this far below its rank is accepted without a further test.
    squeeze: f64,
}

impl Zipf {
    /// Makes the distribution of ranks `1..=n` with this exponent. An `n` of zero counts as one, because there is
    /// always a first rank.
    ///
    /// # Panics
    /// When the exponent is negative or not finite.
    pub fn new(n: u64, exponent: f64) -> Self {
        assert!(exponent >= 0.0 && exponent.is_finite(), "no Zipf distribution has the exponent {exponent}");
        let n = n.max(1);
        Zipf {
            n,
            exponent,
            area_low: area(1.5, exponent) - 1.0,
            area_high: area(n as f64 + 0.5, exponent),
            squeeze: 2.0 - inverse_area(area(2.5, exponent) - weight(2.0, exponent), exponent),
        }
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> u64 {
        self.n
    }

    /// Returns the exponent.
    pub fn exponent(&self) -> f64 {
        self.exponent
    }

    /// Draws a rank of `1..=n`.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u64 {
        if self.exponent == 0.0 {
            return 1 + random.below(self.n);
        }
        loop {
            let below_area = self.area_high + random.unit() * (self.area_low - self.area_high);
            let position = inverse_area(below_area, self.exponent);
            // The cast saturates, so a position that rounding pushes out of range becomes the nearest rank.
            let rank = ((position + 0.5) as u64).clamp(1, self.n);
            let at = rank as f64;
            if at - position <= self.squeeze || below_area >= area(at + 0.5, self.exponent) - weight(at, self.exponent)
            {
                return rank;
            }
        }
    }
}

/// Returns the unnormalised probability of a rank, as a function of any real position.
fn weight(x: f64, exponent: f64) -> f64 {
    (-exponent * x.ln()).exp()
}

/// Returns the integral of [`weight`] from 1 to `x`. The form with `exp_m1` is also right for the exponent 1.
fn area(x: f64, exponent: f64) -> f64 {
    let ln = x.ln();
    exp_m1_over((1.0 - exponent) * ln) * ln
}

/// Returns the position `x` at which [`area`] has this value.
fn inverse_area(area: f64, exponent: f64) -> f64 {
    // Rounding may push the argument of the logarithm just below zero.
    let t = (area * (1.0 - exponent)).max(-1.0);
    (ln_1p_over(t) * area).exp()
}

/// Returns (e^x - 1) / x, and its limit 1 at zero.
fn exp_m1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 * (1.0 + x / 3.0) }
}

/// Returns ln(1 + x) / x, and its limit 1 at zero.
fn ln_1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x * (0.5 - x / 3.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{ChiSquared, ContinuousCDF};

    /// Returns the p-value of a chi-square test of draws against the exact probabilities, with 1 / rank^exponent summed
    /// directly.
    fn p_value(n: u64, exponent: f64, draws: u32) -> f64 {
        let mut random = Random::stream(11, "zipf test", &[n, exponent.to_bits()]);
        let zipf = Zipf::new(n, exponent);
        let mut observed = vec![0_u32; n as usize];
        for _ in 0..draws {
            observed[zipf.draw(&mut random) as usize - 1] += 1;
        }
        let weights: Vec<f64> = (1..=n).map(|rank| (rank as f64).powf(-exponent)).collect();
        let total: f64 = weights.iter().sum();
        let (mut statistic, mut cells, mut rest) = (0.0, 0, (0.0, 0.0));
        for (&count, weight) in observed.iter().zip(weights) {
            rest = (rest.0 + f64::from(count), rest.1 + weight / total * f64::from(draws));
            // Combine ranks that have few expected draws with their neighbours.
            if rest.1 >= 20.0 {
                statistic += (rest.0 - rest.1).powi(2) / rest.1;
                cells += 1;
                rest = (0.0, 0.0);
            }
        }
        statistic += (rest.0 - rest.1).powi(2) / rest.1.max(1.0);
        ChiSquared::new(f64::from(cells)).expect("there are cells").sf(statistic)
    }

    #[test]
    fn ranks_have_the_exact_distribution_for_exponents_below_at_and_above_one() {
        for exponent in [0.0, 0.5, 0.9, 0.99, 1.0, 1.000_000_001, 1.2, 2.5] {
            for n in [2, 3, 100, 5_000] {
                let p = p_value(n, exponent, 200_000);
                assert!(p > 0.001, "n = {n}, exponent = {exponent}: p = {p}");
            }
        }
    }

    #[test]
    fn a_slightly_different_exponent_would_be_noticed() {
        // Check that the test distinguishes exponents: it must reject draws of the exponent 0.9 if 0.93 is expected.
        let mut random = Random::stream(5, "zipf test", &[]);
        let zipf = Zipf::new(100, 0.9);
        let firsts = (0..200_000).filter(|_| zipf.draw(&mut random) == 1).count() as f64 / 200_000.0;
        let share = |exponent: f64| 1.0 / (1..=100).map(|rank| f64::from(rank).powf(-exponent)).sum::<f64>();
        let error = (share(0.9) * (1.0 - share(0.9)) / 200_000.0).sqrt();
        assert!((firsts - share(0.9)).abs() < 4.0 * error, "{firsts} for {}", share(0.9));
        assert!((firsts - share(0.93)).abs() > 4.0 * error, "{firsts} cannot be told from {}", share(0.93));
    }

    #[test]
    fn ranks_stay_in_range_for_one_rank_and_for_very_many() {
        let mut random = Random::stream(1, "zipf test", &[]);
        for (n, exponent) in [(0, 1.0), (1, 0.0), (1, 3.0), (1 << 53, 0.1), (1 << 53, 1.0), (u64::MAX, 0.5), (9, 1e3)] {
            let zipf = Zipf::new(n, exponent);
            for _ in 0..2_000 {
                let rank = zipf.draw(&mut random);
                assert!((1..=n.max(1)).contains(&rank), "{rank} of {n} with {exponent}");
            }
        }
    }
}
