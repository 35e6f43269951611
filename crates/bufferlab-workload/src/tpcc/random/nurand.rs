//! NURand, the non-uniform distribution of TPC-C's specification (2.1.6), and the choice of its constants C.
//!
//! C decides which values are drawn most often, but not how often. The load and the run must not use the same C for
//! last names, nor two constants that are too close (2.1.6.1); results record both.

use serde::Serialize;

use crate::random::Random;

/// NURand(A, x, y) with its constant C: `(((random(0, A) | random(x, y)) + C) % (y - x + 1)) + x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NuRand {
    a: u32,
    x: u32,
    y: u32,
    c: u32,
}

impl NuRand {
    /// Returns the distribution of last names: NURand(255, 0, 999).
    pub const fn last_name(c: u32) -> Self {
        NuRand { a: 255, x: 0, y: 999, c }
    }

    /// Returns the distribution of customer numbers: NURand(1023, 1, 3000).
    pub const fn customer_id(c: u32) -> Self {
        NuRand { a: 1023, x: 1, y: 3_000, c }
    }

    /// Returns the distribution of item numbers: NURand(8191, 1, 100000).
    pub const fn item_id(c: u32) -> Self {
        NuRand { a: 8191, x: 1, y: 100_000, c }
    }

    /// Draws a number of `[x .. y]`.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u32 {
        let or = random.between(0, self.a) | random.between(self.x, self.y);
        (or + self.c) % (self.y - self.x + 1) + self.x
    }
}

/// The constants C of one load and one run, in the form that results record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NuRandConstants {
    /// The constant for last names in the population, within `[0 .. 255]`.
    #[serde(rename = "nurand_c_load_last_name")]
    pub load_last_name: u32,
    /// The constant for last names in the run, within `[0 .. 255]` and at a valid distance from the load's.
    #[serde(rename = "nurand_c_run_last_name")]
    pub run_last_name: u32,
    /// The constant for customer numbers in the run, within `[0 .. 1023]`.
    #[serde(rename = "nurand_c_customer_id")]
    pub run_customer_id: u32,
    /// The constant for item numbers in the run, within `[0 .. 8191]`.
    #[serde(rename = "nurand_c_item_id")]
    pub run_item_id: u32,
}

impl NuRandConstants {
    /// Chooses the constants: the load's by the load's seed only, the run's by the run's seed among all valid
    /// constants.
    pub fn choose(load_seed: u64, run_seed: u64) -> Self {
        let load_last_name = Random::stream(load_seed, "tpcc/nurand/load", &[]).between(0, 255);
        let mut run = Random::stream(run_seed, "tpcc/nurand/run", &[]);
        NuRandConstants {
            load_last_name,
            run_last_name: valid_run_constant(load_last_name, &mut run),
            run_customer_id: run.between(0, 1023),
            run_item_id: run.between(0, 8191),
        }
    }
}

/// Returns true if clause 2.1.6.1 allows the distance between the load's constant and the run's.
pub fn is_valid_delta(load: u32, run: u32) -> bool {
    let delta = load.abs_diff(run);
    (65..=119).contains(&delta) && delta != 96 && delta != 112
}

fn valid_run_constant(load: u32, random: &mut Random) -> u32 {
    // For any constant of the load at least a fifth of [0 .. 255] is valid, so this loop ends.
    loop {
        let run = random.between(0, 255);
        if is_valid_delta(load, run) {
            return run;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_constant_has_valid_run_constants() {
        for load in 0..=255 {
            let valid = (0..=255).filter(|&run| is_valid_delta(load, run)).count();
            assert!(valid >= 53, "only {valid} constants are valid beside {load}");
        }
    }

    #[test]
    fn the_delta_rule_excludes_what_the_specification_excludes() {
        let valid: Vec<u32> = (0..=255).filter(|&run| is_valid_delta(0, run)).collect();
        assert_eq!((valid[0], valid[valid.len() - 1], valid.len()), (65, 119, 53));
        assert!(!is_valid_delta(100, 196) && !is_valid_delta(120, 8), "96 and 112 are not allowed");
    }

    #[test]
    fn chosen_constants_obey_the_delta_rule_for_any_seeds() {
        for seed in 0..2_000 {
            let constants = NuRandConstants::choose(seed, seed * 31 + 7);
            assert!(is_valid_delta(constants.load_last_name, constants.run_last_name), "{constants:?}");
        }
    }

    #[test]
    fn the_load_constant_does_not_depend_on_the_run() {
        let constants = [1, 2, 3].map(|run_seed| NuRandConstants::choose(9, run_seed).load_last_name);
        assert!(constants.iter().all(|&c| c == constants[0]));
    }
}
