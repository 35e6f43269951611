//! The random texts of TPC-C's population (specification, 4.3.2): alphanumeric and numeric strings, last names by
//! syllables, zip codes, "ORIGINAL".
//!
//! All texts share one [`TextBuffer`], so making a text allocates no memory. One draw of 64 bits gives ten characters.
//! Draws for which the 62 characters would not be equally likely are repeated.

use crate::random::Random;

const ALPHANUMERIC: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// All pairs of characters: drawing two characters at a time halves the divisions, and 3844 pairs fit in the
/// processor's first-level cache.
const PAIRS: [[u8; 2]; 62 * 62] = {
    let mut pairs = [[0; 2]; 62 * 62];
    let mut pair = 0;
    while pair < pairs.len() {
        pairs[pair] = [ALPHANUMERIC[pair / 62], ALPHANUMERIC[pair % 62]];
        pair += 1;
    }
    pairs
};

const CHARS_PER_DRAW: usize = 10;
const TEXTS_PER_DRAW: u64 = 62_u64.pow(CHARS_PER_DRAW as u32);

/// Bytes of the longest text of the population (C_DATA), and room for the last draw to write past its end.
const CAPACITY: usize = 500 + CHARS_PER_DRAW;

/// The buffer of texts. Each call overwrites the text of the call before.
#[derive(Debug)]
pub struct TextBuffer {
    bytes: [u8; CAPACITY],
}

impl Default for TextBuffer {
    fn default() -> Self {
        TextBuffer { bytes: [b' '; CAPACITY] }
    }
}

impl TextBuffer {
    /// Returns a random alphanumeric string of `[min_chars .. max_chars]` characters, an "a-string" of the
    /// specification.
    pub fn alphanumeric(&mut self, random: &mut Random, min_chars: usize, max_chars: usize) -> &str {
        let chars = random.between(min_chars as u32, max_chars as u32) as usize;
        self.fill(random, chars);
        self.text(chars)
    }

    /// Returns a random alphanumeric string of exactly `chars` characters.
    pub fn alphanumeric_exact(&mut self, random: &mut Random, chars: usize) -> &str {
        self.fill(random, chars);
        self.text(chars)
    }

    /// Returns a text as [`TextBuffer::alphanumeric`] does. If `original`, the text contains "ORIGINAL" at a random
    /// place.
    pub fn data(&mut self, random: &mut Random, min_chars: usize, max_chars: usize, original: bool) -> &str {
        const ORIGINAL: &[u8] = b"ORIGINAL";
        let chars = random.between(min_chars as u32, max_chars as u32) as usize;
        self.fill(random, chars);
        if original {
            let start = random.below((chars - ORIGINAL.len()) as u64 + 1) as usize;
            self.bytes[start..start + ORIGINAL.len()].copy_from_slice(ORIGINAL);
        }
        self.text(chars)
    }

    /// Returns a random string of exactly `digits` digits, at most 19, an "n-string" of the specification.
    pub fn digits(&mut self, random: &mut Random, digits: usize) -> &str {
        let mut rest = random.below(10_u64.pow(digits as u32));
        for byte in self.bytes[..digits].iter_mut().rev() {
            *byte = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.text(digits)
    }

    /// Returns two random capital letters, for a state.
    pub fn state(&mut self, random: &mut Random) -> &str {
        let pair = random.below(26 * 26);
        self.bytes[..2].copy_from_slice(&[b'A' + (pair / 26) as u8, b'A' + (pair % 26) as u8]);
        self.text(2)
    }

    /// Returns a zip code (specification, 4.3.2.7): four random digits and "11111".
    pub fn zip(&mut self, random: &mut Random) -> &str {
        self.digits(random, 4);
        self.bytes[4..9].copy_from_slice(b"11111");
        self.text(9)
    }

    fn fill(&mut self, random: &mut Random, chars: usize) {
        for chunk in self.bytes[..chars.next_multiple_of(CHARS_PER_DRAW)].chunks_exact_mut(CHARS_PER_DRAW) {
            let mut rest = random.below(TEXTS_PER_DRAW);
            for two in chunk.chunks_exact_mut(2) {
                two.copy_from_slice(&PAIRS[(rest % PAIRS.len() as u64) as usize]);
                rest /= PAIRS.len() as u64;
            }
        }
    }

    fn text(&self, chars: usize) -> &str {
        // The buffer holds only ASCII, so this cannot fail.
        std::str::from_utf8(&self.bytes[..chars]).unwrap_or_default()
    }
}

/// Bytes of the longest last name: three times the longest syllable.
const LAST_NAME_CAPACITY: usize = 15;

/// A customer's last name, stored without an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastName {
    bytes: [u8; LAST_NAME_CAPACITY],
    chars: u8,
}

impl LastName {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Syllables are ASCII, so this cannot fail.
        std::str::from_utf8(&self.bytes[..usize::from(self.chars)]).unwrap_or_default()
    }
}

/// Returns the last name of a number within `[0 .. 999]`: one syllable for each of its three digits (specification,
/// 4.3.2.3).
pub fn last_name(number: u32) -> LastName {
    const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    debug_assert!(number <= 999, "last names end at 999, not {number}");
    let mut name = LastName { bytes: [b' '; LAST_NAME_CAPACITY], chars: 0 };
    for digit in [number / 100, number / 10 % 10, number % 10] {
        let syllable = SYLLABLES[digit as usize].as_bytes();
        let start = usize::from(name.chars);
        name.bytes[start..start + syllable.len()].copy_from_slice(syllable);
        name.chars += syllable.len() as u8;
    }
    name
}

/// Selects an exact share of a partition's rows at random: "10 % of the rows, selected at random" (specification,
/// 4.3.3.1).
///
/// The method is selection sampling (Knuth, volume 2, algorithm S): every choice of that number of rows is equally
/// likely.
#[derive(Clone, Copy, Debug)]
pub struct ExactShare {
    wanted: u64,
    left: u64,
}

impl ExactShare {
    /// Makes a picker of one in `one_in` of the next `rows` rows, rounded to the nearest number.
    pub fn one_in(one_in: u64, rows: u64) -> Self {
        ExactShare { wanted: (rows + one_in / 2) / one_in, left: rows }
    }

    /// Returns true when the picker selects the next row. Call it once for each row.
    pub fn next_is_chosen(&mut self, random: &mut Random) -> bool {
        let chosen = random.below(self.left) < self.wanted;
        self.left -= 1;
        self.wanted -= u64::from(chosen);
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random() -> Random {
        Random::stream(11, "text tests", &[])
    }

    #[test]
    fn last_names_are_built_from_the_digits() {
        assert_eq!(last_name(371).as_str(), "PRICALLYOUGHT");
        assert_eq!(last_name(40).as_str(), "BARPRESBAR");
        assert_eq!(last_name(0).as_str(), "BARBARBAR");
        assert_eq!(last_name(777).as_str(), "CALLYCALLYCALLY");
    }

    #[test]
    fn all_thousand_last_names_differ() {
        let names: std::collections::BTreeSet<String> = (0..1000).map(|n| last_name(n).as_str().to_owned()).collect();
        assert_eq!(names.len(), 1000);
    }

    #[test]
    fn every_length_and_every_character_of_an_a_string_occurs_equally_often() {
        let (mut random, mut buffer) = (random(), TextBuffer::default());
        let (mut lengths, mut chars, mut total) = ([0_u32; 6], [0_u32; 128], 0_u32);
        for _ in 0..60_000 {
            let text = buffer.alphanumeric(&mut random, 10, 15);
            lengths[text.len() - 10] += 1;
            total += text.len() as u32;
            text.bytes().for_each(|byte| chars[usize::from(byte)] += 1);
        }
        assert!(lengths.iter().all(|count| (9_500..10_500).contains(count)), "{lengths:?}");
        let expected = total / 62;
        for &byte in ALPHANUMERIC {
            let count = chars[usize::from(byte)];
            assert!(count.abs_diff(expected) < expected / 20, "{} occurs {count} times", byte as char);
        }
        assert_eq!(total, ALPHANUMERIC.iter().map(|&byte| chars[usize::from(byte)]).sum::<u32>());
    }

    #[test]
    fn original_lies_within_the_text_at_every_place() {
        let (mut random, mut buffer) = (random(), TextBuffer::default());
        let mut places = std::collections::BTreeSet::new();
        for _ in 0..2_000 {
            let text = buffer.data(&mut random, 26, 26, true);
            assert_eq!(text.len(), 26);
            places.insert(text.find("ORIGINAL").expect("the text must hold ORIGINAL"));
        }
        assert_eq!(places, (0..=18).collect());
    }

    #[test]
    fn zip_codes_states_and_phones_have_their_form() {
        let (mut random, mut buffer) = (random(), TextBuffer::default());
        for _ in 0..1_000 {
            let zip = buffer.zip(&mut random);
            assert!(zip.len() == 9 && zip.ends_with("11111") && zip.bytes().all(|b| b.is_ascii_digit()), "{zip}");
            let state = buffer.state(&mut random);
            assert!(state.len() == 2 && state.bytes().all(|b| b.is_ascii_uppercase()), "{state}");
            let phone = buffer.digits(&mut random, 16);
            assert!(phone.len() == 16 && phone.bytes().all(|b| b.is_ascii_digit()), "{phone}");
        }
    }

    #[test]
    fn an_exact_share_is_exact_and_reaches_every_row() {
        let mut random = random();
        let mut chosen_at = [0_u32; 30];
        for _ in 0..3_000 {
            let mut share = ExactShare::one_in(10, 30);
            let chosen: Vec<usize> = (0..30).filter(|_| share.next_is_chosen(&mut random)).collect();
            assert_eq!(chosen.len(), 3);
            chosen.iter().for_each(|&row| chosen_at[row] += 1);
        }
        assert!(chosen_at.iter().all(|count| (230..370).contains(count)), "{chosen_at:?}");
    }
}
