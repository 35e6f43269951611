//! Random numbers from seeds: independent named streams, unbiased bounded integers, shuffles.
//!
//! The generator is xoshiro256++ (Blackman and Vigna). Its authors have fixed its output, so a seed in a stored result
//! stays valid. Bounded integers follow Lemire, "Fast random integer generation in an interval" (2019). Any change in
//! this file changes every loaded database, and fails the tests with golden checksums.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// One stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    generator: Xoshiro256PlusPlus,
}

impl Random {
    /// Returns the random stream for a seed, a name and numbers. The name is the stream's purpose; the numbers
    /// distinguish it from other streams of that name.
    ///
    /// The seed is mixed with the name's bytes (as 64-bit FNV-1a) and then with each number: `state = mix(state ^
    /// part)`, where `mix` is one step of SplitMix64. Mixing is a bijection at every step, so streams that differ in
    /// one part never coincide. A stream does not depend on which other streams were made.
    pub fn stream(seed: u64, name: &str, numbers: &[u64]) -> Self {
        let mut state = split_mix(seed ^ fnv_1a(name.as_bytes()));
        for &number in numbers {
            state = split_mix(state ^ number);
        }
        Random { generator: Xoshiro256PlusPlus::seed_from_u64(state) }
    }

    /// Returns sixty-four random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// Returns a random number of [0, 1), a multiple of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a random number below `bound`, each with exactly the same probability.
    ///
    /// # Panics
    /// When `bound` is zero.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below zero");
        let mut product = u128::from(self.bits()) * u128::from(bound);
        if (product as u64) < bound {
            // Of 2^64 inputs, 2^64 mod bound would favour some results, so draw again for these inputs.
            let unfair = bound.wrapping_neg() % bound;
            while (product as u64) < unfair {
                product = u128::from(self.bits()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// Returns a random number of `[low .. high]`, both included, as random(low, high) in TPC-C's specification.
    #[inline]
    pub fn between(&mut self, low: u32, high: u32) -> u32 {
        debug_assert!(low <= high, "[{low} .. {high}] is empty");
        low + self.below(u64::from(high - low) + 1) as u32
    }

    /// Returns true with a probability of `percent` / 100.
    #[inline]
    pub fn percent(&mut self, percent: u32) -> bool {
        self.between(1, 100) <= percent
    }

    /// Puts the values in a random order, each order with the same probability (Fisher and Yates).
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            values.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Does one step of SplitMix64 (Steele, Lea and Flood, 2014).
pub fn split_mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_gives_the_published_sequence() {
        // The expected numbers are those of Vigna's splitmix64.c from state 1234567. Each step adds the golden gamma to
        // the state.
        let gamma = 0x9e37_79b9_7f4a_7c15_u64;
        let outputs: Vec<u64> = (0..3).map(|n| split_mix(1_234_567_u64.wrapping_add(gamma.wrapping_mul(n)))).collect();
        assert_eq!(outputs, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn a_stream_depends_on_seed_name_and_every_number() {
        let first = |seed, name, numbers: &[u64]| Random::stream(seed, name, numbers).bits();
        let base = first(1, "stock", &[3, 4]);
        assert_eq!(base, first(1, "stock", &[3, 4]));
        let others = [
            first(2, "stock", &[3, 4]),
            first(1, "item", &[3, 4]),
            first(1, "stock", &[4, 3]),
            first(1, "stock", &[3]),
        ];
        assert!(!others.contains(&base), "two different streams begin alike");
    }

    #[test]
    fn bounds_are_reached_and_kept() {
        let mut random = Random::stream(7, "bounds", &[]);
        let mut seen = [0_u32; 6];
        for _ in 0..6_000 {
            seen[(random.between(10, 15) - 10) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (850..1150).contains(&count)), "uneven: {seen:?}");
        assert_eq!(random.between(9, 9), 9);
    }

    #[test]
    fn a_bound_near_two_to_the_64_is_not_biased_to_small_numbers() {
        // Without redrawing, a third of the results below 3 * 2^62 would come up twice as often.
        let bound = 3_u64 << 62;
        let mut random = Random::stream(7, "large bound", &[]);
        let mut thirds = [0_u32; 3];
        for _ in 0..9_000 {
            thirds[(random.below(bound) / (1 << 62)) as usize] += 1;
        }
        assert!(thirds.iter().all(|&count| (2_800..3_200).contains(&count)), "uneven: {thirds:?}");
    }

    #[test]
    fn a_shuffle_keeps_every_value_and_moves_them() {
        let mut values: Vec<u32> = (0..100).collect();
        Random::stream(7, "shuffle", &[]).shuffle(&mut values);
        assert_ne!(values, (0..100).collect::<Vec<_>>());
        values.sort_unstable();
        assert_eq!(values, (0..100).collect::<Vec<_>>());
    }
}
