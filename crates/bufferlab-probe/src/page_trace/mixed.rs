//! A hash of small numbers, for maps that the code looks up once for each page access.

use std::hash::Hasher;

/// A hash of a few small numbers, which no attacker chooses to collide.
#[derive(Default)]
pub(super) struct Mixed(u64);

impl Hasher for Mixed {
    /// Hashes bytes: `Hash` passes an array of numbers as its bytes.
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.write_u64(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(26) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}
