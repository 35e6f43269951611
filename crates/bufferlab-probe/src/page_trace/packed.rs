//! Stores accesses in memory in a packed form. An access of TPC-C takes 6 to 7 bytes instead of a record's 24, because
//! successive accesses have much in common.
//!
//! An access has a head of two bytes with its kind and the lengths of its fields. The fields are the time and the page,
//! as differences from the previous access, then object, thread, latch and site if they have changed. The code stores
//! every number at its full length, and then the next one over the unused bytes at its end, so that it needs no
//! branches. Memory grows by blocks of one size, so that accesses are never copied.

use bufferlab_model::trace::{Kind, Record};

const BLOCK_BYTES: usize = 1 << 18;
/// The free bytes that a block must have before an access is stored: more than the longest access (24 bytes), and more
/// than the last store writes beyond the access.
const STORED_BYTES: usize = 32;
const _: () = assert!(STORED_BYTES < BLOCK_BYTES, "no block has room for an access");
const BEFORE_THE_FIRST: Record = Record { t_ns: 0, object: 0, page: 0, thread: 0, kind: Kind::Get, latch: 0, site: 0 };

/// Accesses in the order in which they were added.
#[derive(Debug)]
pub(super) struct Packed {
    /// The bytes of the blocks that are full.
    blocks: Vec<Vec<u8>>,
    /// The block that grows, at its full size, and how much of it is used.
    block: Vec<u8>,
    used: usize,
    last: Record,
}

impl Packed {
    pub fn new() -> Self {
        Self { blocks: Vec::new(), block: Vec::new(), used: 0, last: BEFORE_THE_FIRST }
    }

    /// Adds an access and returns the bytes that it takes. Allocates once in some 40,000 accesses.
    #[inline]
    pub fn push(&mut self, access: &Record) -> usize {
        if self.used + STORED_BYTES > self.block.len() {
            self.next_block();
        }
        let last = &self.last;
        let (t_ns, page) = (access.t_ns.wrapping_sub(last.t_ns), folded(access.page.wrapping_sub(last.page)));
        let same_object = access.object == last.object;
        let same_thread = access.thread == last.thread;
        let same_rest = access.latch == last.latch && access.site == last.site;
        let of_time = length(t_ns);
        let of_page = length(u64::from(page));
        let of_object = if same_object { 0 } else { length(u64::from(access.object)) };
        let head = access.kind as u16
            | (of_time as u16 - 1) << 4
            | (of_page as u16 - 1) << 7
            | (of_object as u16) << 9
            | u16::from(!same_thread) << 12
            | u16::from(!same_rest) << 13;
        let place = &mut self.block[self.used..];
        put(place, 0, head.to_le_bytes());
        put(place, 2, t_ns.to_le_bytes());
        let mut at = 2 + of_time;
        put(place, at, page.to_le_bytes());
        at += of_page;
        put(place, at, access.object.to_le_bytes());
        at += of_object;
        put(place, at, access.thread.to_le_bytes());
        at += if same_thread { 0 } else { 4 };
        put(place, at, [access.latch, access.site]);
        at += if same_rest { 0 } else { 2 };
        self.used += at;
        debug_assert!((4..=24).contains(&at), "an access takes {at} bytes");
        debug_assert!(self.used <= self.block.len(), "{} bytes of a block of {} are used", self.used, self.block.len());
        self.last = *access;
        at
    }

    #[cold]
    fn next_block(&mut self) {
        let mut whole = std::mem::replace(&mut self.block, vec![0; BLOCK_BYTES]);
        whole.truncate(self.used);
        self.used = 0;
        if !whole.is_empty() {
            self.blocks.push(whole);
        }
    }
}

impl IntoIterator for Packed {
    type Item = Record;
    type IntoIter = Unpacked;

    fn into_iter(mut self) -> Unpacked {
        self.next_block();
        Unpacked { blocks: self.blocks.into_iter(), block: Vec::new(), at: 0, last: BEFORE_THE_FIRST }
    }
}

/// An iterator over packed accesses. It frees each block before it reads the next one.
pub(super) struct Unpacked {
    blocks: std::vec::IntoIter<Vec<u8>>,
    block: Vec<u8>,
    at: usize,
    last: Record,
}

impl Iterator for Unpacked {
    type Item = Record;

    #[inline]
    fn next(&mut self) -> Option<Record> {
        if self.at == self.block.len() {
            (self.block, self.at) = (self.blocks.next()?, 0);
        }
        let mut rest = &self.block[self.at..];
        debug_assert!(taken(&mut { rest }, &self.last).is_some(), "a block ends within an access");
        self.last = taken(&mut rest, &self.last)?;
        self.at = self.block.len() - rest.len();
        Some(self.last)
    }
}

/// Stores bytes, if there is room for them.
#[inline]
fn put<const N: usize>(block: &mut [u8], at: usize, bytes: [u8; N]) {
    debug_assert!(at + N <= block.len(), "{} bytes have no room for {N} at {at}", block.len());
    if let Some(place) = block.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = bytes;
    }
}

/// Returns how many bytes a number needs, at least one.
#[inline]
fn length(number: u64) -> usize {
    (71 - (number | 1).leading_zeros() as usize) / 8
}

/// Encodes a signed difference as an unsigned number that is small if the difference is near zero.
#[inline]
fn folded(difference: u32) -> u32 {
    (difference << 1) ^ (difference.cast_signed() >> 31).cast_unsigned()
}

fn unfolded(number: u32) -> u32 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

#[inline]
fn number(rest: &mut &[u8], length: usize) -> Option<u64> {
    let (first, others) = rest.split_at_checked(length)?;
    // Eight bytes follow here, except for the last accesses of a block.
    let number = if let Some(word) = rest.first_chunk() {
        u64::from_le_bytes(*word) & u64::MAX >> (64 - 8 * length)
    } else {
        first.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    *rest = others;
    Some(number)
}

/// Takes the next access out of a block.
fn taken(rest: &mut &[u8], last: &Record) -> Option<Record> {
    let head = number(rest, 2)? as usize;
    let t_ns = last.t_ns.wrapping_add(number(rest, (head >> 4 & 7) + 1)?);
    let page = last.page.wrapping_add(unfolded(number(rest, (head >> 7 & 3) + 1)? as u32));
    let of_object = head >> 9 & 7;
    let object = if of_object == 0 { last.object } else { number(rest, of_object)? as u32 };
    let thread = if head >> 12 & 1 == 0 { last.thread } else { number(rest, 4)? as u32 };
    let (latch, site) = if head >> 13 & 1 == 0 {
        (last.latch, last.site)
    } else {
        let both = number(rest, 2)?;
        (both as u8, (both >> 8) as u8)
    };
    Some(Record { t_ns, object, page, thread, kind: Kind::of(head as u8 & 15)?, latch, site })
}

#[cfg(test)]
mod tests {
    use bufferlab_model::trace::{KINDS, RECORD_BYTES};
    use proptest::prelude::*;

    use super::*;

    fn packed(accesses: &[Record]) -> (Packed, usize) {
        let mut packed = Packed::new();
        let bytes = accesses.iter().map(|access| packed.push(access)).sum();
        (packed, bytes)
    }

    fn records() -> impl Strategy<Value = Vec<Record>> {
        let number = || prop_oneof![0..4u32, Just(u32::MAX), Just(1 << 31), any::<u32>()];
        let time = prop_oneof![0..300u64, Just(u64::MAX), any::<u64>()];
        let small = || prop_oneof![0..2u8, any::<u8>()];
        let record = (time, number(), number(), number(), 0..KINDS.len(), small(), small());
        let record = record.prop_map(|(t_ns, object, page, thread, kind, latch, site)| Record {
            t_ns,
            object,
            page,
            thread,
            kind: KINDS[kind].0,
            latch,
            site,
        });
        prop::collection::vec(record, 0..200)
    }

    proptest! {
        #[test]
        fn any_accesses_come_out_as_they_went_in(accesses in records()) {
            let (packed, bytes) = packed(&accesses);
            prop_assert!(bytes <= RECORD_BYTES * accesses.len());
            prop_assert_eq!(packed.into_iter().collect::<Vec<_>>(), accesses);
        }
    }

    #[test]
    fn accesses_of_many_blocks_take_half_of_their_records() {
        let accesses: Vec<Record> = (0..400_000u32)
            .map(|number| Record {
                t_ns: (1 << 50) + u64::from(number) * 4_000,
                object: number / 8 % 30,
                page: number.wrapping_mul(2_654_435_761) % 100_000,
                thread: number / 200 % 8,
                kind: if number % 20 == 0 { Kind::Read } else { Kind::Get },
                latch: (number % 2) as u8,
                site: 0,
            })
            .collect();
        let (packed, bytes) = packed(&accesses);
        assert!(packed.blocks.len() > 2 && packed.block.len() == BLOCK_BYTES);
        assert!(bytes < 12 * 400_000, "{bytes} bytes");
        assert!(packed.into_iter().eq(accesses));
    }
}
