//! The texts of sysbench's table: groups of eleven digits joined by hyphens.
//!
//! All texts share one buffer, so making a text allocates no memory. Each group is one random number.

use crate::random::Random;

const GROUP_DIGITS: usize = 11;
const GROUPS_DRAWN_FROM: u64 = 10_u64.pow(GROUP_DIGITS as u32);

/// Number of groups in the column c.
pub(super) const C_GROUPS: usize = 10;
/// Number of groups in the column pad.
pub(super) const PAD_GROUPS: usize = 5;

const CAPACITY: usize = chars(C_GROUPS);

const fn chars(groups: usize) -> usize {
    groups * (GROUP_DIGITS + 1) - 1
}

/// The buffer of texts. Each call overwrites the text of the call before.
#[derive(Debug)]
pub(super) struct Digits {
    bytes: [u8; CAPACITY],
}

impl Default for Digits {
    fn default() -> Self {
        Digits { bytes: [b'-'; CAPACITY] }
    }
}

impl Digits {
    /// Makes and returns a text of `groups` random groups, at most as many as the column c has.
    pub(super) fn groups(&mut self, random: &mut Random, groups: usize) -> &str {
        for group in 0..groups {
            let start = group * (GROUP_DIGITS + 1);
            let mut rest = random.below(GROUPS_DRAWN_FROM);
            for byte in self.bytes[start..start + GROUP_DIGITS].iter_mut().rev() {
                *byte = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
        self.text(groups)
    }

    /// Returns the first `groups` groups of the last text.
    pub(super) fn text(&self, groups: usize) -> &str {
        // The buffer holds only ASCII, so this cannot fail.
        std::str::from_utf8(&self.bytes[..chars(groups)]).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_sysbenchs_form_and_every_digit_occurs_as_often() {
        let mut random = Random::stream(1, "digits test", &[]);
        let mut digits = Digits::default();
        let mut seen = [0_u32; 10];
        for _ in 0..2_000 {
            let c = digits.groups(&mut random, C_GROUPS);
            assert_eq!(c.len(), 119);
            for (at, byte) in c.bytes().enumerate() {
                assert_eq!(byte == b'-', at % 12 == 11, "{c}");
                if byte != b'-' {
                    seen[usize::from(byte - b'0')] += 1;
                }
            }
        }
        assert!(seen.iter().all(|count| (21_400..22_600).contains(count)), "{seen:?}");
        assert_eq!(digits.groups(&mut random, PAD_GROUPS).len(), 59);
    }
}
