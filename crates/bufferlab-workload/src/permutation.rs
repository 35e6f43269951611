//! A random permutation of `0..n` in constant memory. Callers may ask for its places in any order.
//!
//! It is a generalised Feistel network over the smallest power of two that is not below n, repeated until the value is
//! below n (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). It is not for secrets, because its
//! rounds are SplitMix64.

use crate::random::{Random, split_mix};

/// Number of half-rounds. After four half-rounds every input bit affects both halves; the other four are a margin.
const ROUNDS: usize = 8;

/// A random permutation of `0..n`.
#[derive(Clone, Debug)]
pub struct Permutation {
    n: u64,
    keys: [u64; ROUNDS],
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
}

impl Permutation {
    /// Makes a permutation of `0..n` that `random` chooses.
    ///
    /// # Panics
    /// When `n` is zero.
    pub fn new(n: u64, random: &mut Random) -> Self {
        assert!(n > 0, "a permutation has at least one place");
        let bits = (u64::BITS - (n - 1).leading_zeros()).max(2);
        let low_bits = bits / 2;
        Permutation {
            n,
            keys: std::array::from_fn(|_| random.bits()),
            low_bits,
            low_mask: (1 << low_bits) - 1,
            high_mask: (1 << (bits - low_bits)) - 1,
        }
    }

    /// Returns the number at `place`.
    ///
    /// # Panics
    /// When `place` is not below n.
    #[inline]
    pub fn at(&self, place: u64) -> u64 {
        assert!(place < self.n, "there is no place {place} among {}", self.n);
        let mut value = self.network(place);
        // The power of two is less than twice n (except for n below 3), so on average this takes at most one step more.
        while value >= self.n {
            value = self.network(value);
        }
        value
    }

    /// Does one pass of the network, which permutes all numbers below the power of two.
    #[inline]
    fn network(&self, value: u64) -> u64 {
        let (mut low, mut high) = (value & self.low_mask, value >> self.low_bits);
        for keys in self.keys.chunks_exact(2) {
            low ^= split_mix(high ^ keys[0]) & self.low_mask;
            high ^= split_mix(low ^ keys[1]) & self.high_mask;
        }
        high << self.low_bits | low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permutation(n: u64, number: u64) -> Permutation {
        Permutation::new(n, &mut Random::stream(3, "permutation test", &[number]))
    }

    #[test]
    fn every_value_stands_at_exactly_one_place() {
        for n in (1..70).chain([100, 127, 128, 129, 1_000, 65_535, 65_537]) {
            let one = permutation(n, n);
            let mut values: Vec<u64> = (0..n).map(|place| one.at(place)).collect();
            values.sort_unstable();
            assert_eq!(values, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn each_value_is_as_likely_at_each_place() {
        // A cell counts how often a place gets a value: each of the 7 x 7 cells expects 1,000 hits.
        let mut cells = [[0_u32; 7]; 7];
        for number in 0..7_000 {
            let one = permutation(7, number);
            (0..7).for_each(|place| cells[place][one.at(place as u64) as usize] += 1);
        }
        assert!(cells.as_flattened().iter().all(|count| (880..1_120).contains(count)), "{cells:?}");
    }

    #[test]
    fn neighbours_do_not_stay_neighbours() {
        let one = permutation(1_000_000, 1);
        let near = (1..100_000).filter(|&place| one.at(place).abs_diff(one.at(place - 1)) <= 1_000).count();
        // Two random values are this near in two of a thousand cases: in 200 of the 100,000 pairs, with a standard
        // deviation of 14.
        assert!((130..270).contains(&near), "{near} of 100,000 neighbours are near each other");
    }
}
