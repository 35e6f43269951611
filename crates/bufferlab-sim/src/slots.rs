//! A set of time slots that counts the slots after a given one. It has one bit for each slot, in words, and the number
//! of set bits in each block of 512 slots and each group of 32,768 slots.
//!
//! To count, it walks from a slot to the end of the slot's block, then to the end of its group, then over the later
//! groups. It reads at most 8 words, 63 block counts and all group counts. For a recent slot the count needs only a few
//! additions on one cache line.

const WORD: usize = 64;
const BLOCK: usize = 512;
const GROUP: usize = 32_768;
const WORDS_PER_BLOCK: usize = BLOCK / WORD;
const BLOCKS_PER_GROUP: usize = GROUP / BLOCK;

/// A set of time slots.
pub(crate) struct Slots {
    words: Vec<u64>,
    /// The number of set bits in each block.
    blocks: Vec<u16>,
    /// The number of set bits in each group.
    groups: Vec<u32>,
}

impl Slots {
    /// Makes an empty set of at least `slots` slots.
    pub(crate) fn new(slots: usize) -> Self {
        let groups = slots.div_ceil(GROUP).max(1);
        Slots {
            words: vec![0; groups * GROUP / WORD],
            blocks: vec![0; groups * BLOCKS_PER_GROUP],
            groups: vec![0; groups],
        }
    }

    /// Returns the number of slots that the set has room for.
    pub(crate) fn len(&self) -> usize {
        self.words.len() * WORD
    }

    #[inline]
    fn contains(&self, slot: usize) -> bool {
        self.words[slot / WORD] & 1 << (slot % WORD) != 0
    }

    /// Puts a slot into the set. It must not be in it.
    #[inline]
    pub(crate) fn insert(&mut self, slot: usize) {
        debug_assert!(!self.contains(slot), "slot {slot} is in the set already");
        self.words[slot / WORD] |= 1 << (slot % WORD);
        self.blocks[slot / BLOCK] += 1;
        self.groups[slot / GROUP] += 1;
    }

    /// Takes a slot out of the set. It must be in it.
    #[inline]
    pub(crate) fn remove(&mut self, slot: usize) {
        debug_assert!(self.contains(slot), "slot {slot} is not in the set");
        self.words[slot / WORD] &= !(1 << (slot % WORD));
        self.blocks[slot / BLOCK] -= 1;
        self.groups[slot / GROUP] -= 1;
    }

    /// Returns how many slots of the set are greater than `slot`. `last` is the largest slot of the set: the count
    /// stops there.
    #[inline]
    pub(crate) fn behind(&self, slot: usize, last: usize) -> u32 {
        debug_assert!(slot <= last, "slot {slot} lies behind the last one, {last}");
        let (word, block, group) = (slot / WORD, slot / BLOCK, slot / GROUP);
        // Shift twice, because the shift by the sum could be 64, which overflows.
        let own = (self.words[word] >> (slot % WORD) >> 1).count_ones();
        let words = self.words[word + 1..(block + 1) * WORDS_PER_BLOCK].iter().map(|word| word.count_ones());
        let end_of_group = (group + 1) * BLOCKS_PER_GROUP;
        let blocks = self.blocks[block + 1..end_of_group.min(last / BLOCK + 1).max(block + 1)].iter();
        let groups = self.groups[group + 1..(last / GROUP + 1).max(group + 1)].iter();
        own + words.sum::<u32>() + blocks.map(|&count| u32::from(count)).sum::<u32>() + groups.sum::<u32>()
    }

    /// Moves the slots of the set to 0, 1, 2, ..., in their order; `Ranks::of` returns their new places.
    pub(crate) fn compact(&mut self) -> Ranks {
        let mut before = Vec::with_capacity(self.words.len());
        let mut seen = 0;
        for word in &self.words {
            before.push(seen);
            seen += word.count_ones();
        }
        let ranks = Ranks { words: std::mem::take(&mut self.words), before, len: seen as usize };
        *self = Slots::new(ranks.words.len() * WORD);
        (0..ranks.len).for_each(|slot| self.insert(slot));
        ranks
    }
}

/// The new places of slots after a compaction.
pub(crate) struct Ranks {
    words: Vec<u64>,
    before: Vec<u32>,
    /// The number of slots that were in the set.
    pub(crate) len: usize,
}

impl Ranks {
    /// Returns the new place of a slot that was in the set.
    #[inline]
    pub(crate) fn of(&self, slot: usize) -> u32 {
        let below = (1u64 << (slot % WORD)) - 1;
        self.before[slot / WORD] + (self.words[slot / WORD] & below).count_ones()
    }
}
