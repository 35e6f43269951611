//! Statistical tests of the shares and distributions that TPC-C's specification fixes.

use statrs::distribution::{ChiSquared, ContinuousCDF};

/// A test rejects a sample with a p-value below this: its distribution is another one. Seeds are fixed, so a sample
/// passes always or never.
pub const SIGNIFICANCE: f64 = 0.001;

/// Returns the p-value of a chi-square test: the probability of a worse fit than that of `observed` counts to the exact
/// `probabilities`.
///
/// It combines cells with fewer than 20 expected counts with their neighbours in the order of probability, because with
/// fewer counts the statistic does not follow chi-square.
pub fn chi_square_p_value(observed: &[u64], probabilities: &[f64]) -> f64 {
    assert_eq!(observed.len(), probabilities.len());
    let total = observed.iter().sum::<u64>() as f64;
    let mut order: Vec<usize> = (0..observed.len()).collect();
    order.sort_by(|&one, &other| probabilities[other].total_cmp(&probabilities[one]));
    let (mut statistic, mut cells) = (0.0, 0_u32);
    let (mut pooled_observed, mut pooled_expected) = (0.0, 0.0);
    for index in order {
        pooled_observed += observed[index] as f64;
        pooled_expected += probabilities[index] * total;
        if pooled_expected >= 20.0 {
            statistic += (pooled_observed - pooled_expected).powi(2) / pooled_expected;
            cells += 1;
            (pooled_observed, pooled_expected) = (0.0, 0.0);
        }
    }
    // The remaining cells together expect fewer than 20 counts. They form a cell that expects at least one, so that
    // impossible values still lower the p-value.
    if pooled_observed > 0.0 || pooled_expected > 0.0 {
        statistic += (pooled_observed - pooled_expected).powi(2) / pooled_expected.max(1.0);
        cells += 1;
    }
    let freedom = f64::from(cells - 1);
    ChiSquared::new(freedom).expect("there is more than one cell").sf(statistic)
}

/// Returns the distance of a share from its probability, in standard errors of a binomial count.
pub fn standard_errors(successes: u64, trials: u64, probability: f64) -> f64 {
    let trials = trials as f64;
    (successes as f64 - trials * probability) / (trials * probability * (1.0 - probability)).sqrt()
}

/// Returns the exact probabilities of NURand(A, x, y) with the constant `c`, from the value `x` on. It goes through
/// every pair that the two uniform draws can give.
pub fn nurand_probabilities(a: u32, x: u32, y: u32, c: u32) -> Vec<f64> {
    let values = (y - x + 1) as usize;
    let mut pairs = vec![0_u64; values];
    for first in 0..=a {
        for second in x..=y {
            pairs[((first | second) + c) as usize % values] += 1;
        }
    }
    let all = (u64::from(a) + 1) as f64 * values as f64;
    pairs.into_iter().map(|count| count as f64 / all).collect()
}
