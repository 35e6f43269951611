//! A set of small numbers that finds its highest number fast. It has one bit for each number, one bit for each word of
//! these bits that is not zero, and so on.

/// A set of small numbers. Each level has a bit for every word of the level before it; the last level is one word.
pub(crate) struct Bits {
    levels: Vec<Vec<u64>>,
    len: u32,
}

impl Bits {
    /// Makes an empty set of numbers below `bound`.
    pub(crate) fn new(bound: usize) -> Self {
        let words = |bits: usize| bits.div_ceil(64).max(1);
        let mut levels = vec![vec![0; words(bound)]];
        while levels[levels.len() - 1].len() > 1 {
            levels.push(vec![0; words(levels[levels.len() - 1].len())]);
        }
        Bits { levels, len: 0 }
    }

    /// Returns how many numbers are in the set.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    fn contains(&self, number: u32) -> bool {
        self.levels[0][number as usize / 64] & 1 << (number % 64) != 0
    }

    /// Puts a number into the set. It must not be in it.
    pub(crate) fn insert(&mut self, number: u32) {
        debug_assert!(!self.contains(number), "{number} is in the set already");
        let mut at = number as usize;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            let is_known = *word != 0;
            *word |= 1 << (at % 64);
            if is_known {
                break;
            }
            at /= 64;
        }
        self.len += 1;
    }

    /// Takes a number out of the set; returns whether it was in the set.
    pub(crate) fn remove(&mut self, number: u32) -> bool {
        let mut at = number as usize;
        if !self.contains(number) {
            return false;
        }
        debug_assert!(self.highest() >= Some(number), "{number} is in the set, and above its highest");
        self.len -= 1;
        for level in &mut self.levels {
            level[at / 64] &= !(1 << (at % 64));
            if level[at / 64] != 0 {
                break;
            }
            at /= 64;
        }
        true
    }

    /// Returns the highest number; none if the set is empty.
    pub(crate) fn highest(&self) -> Option<u32> {
        let down = |at: usize, level: &Vec<u64>| at * 64 + 63 - level[at].leading_zeros() as usize;
        (self.len > 0).then(|| self.levels.iter().rev().fold(0, down) as u32)
    }

    /// Takes the highest number out of the set.
    pub(crate) fn remove_highest(&mut self) {
        if let Some(highest) = self.highest() {
            self.remove(highest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_set_is_that_of_the_standard_library(steps in prop::collection::vec((0u32..9000, 0..4), 0..300)) {
            let (mut fast, mut plain) = (Bits::new(9000), BTreeSet::new());
            for (number, step) in steps {
                match step {
                    0 => prop_assert_eq!(fast.remove(number), plain.remove(&number)),
                    1 => {
                        fast.remove_highest();
                        plain.pop_last();
                    }
                    _ => if plain.insert(number) { fast.insert(number) },
                }
                prop_assert_eq!((fast.highest(), fast.len() as usize), (plain.last().copied(), plain.len()));
            }
        }
    }
}
