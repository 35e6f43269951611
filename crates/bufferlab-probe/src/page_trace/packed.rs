//! Accesses in memory, where one of TPC-C takes 6 to 7 bytes in place of a record's 24: neighbours have much in common.
//!
//! An access is a head of two bytes with its kind and the lengths of what follows: the time and the page as differences
//! from the access before it, then object, thread, latch and site where they are not as before. Every number is stored
//! at its full length and the next one over its empty end, so that nothing branches. Blocks of one size grow without a
//! copy.

use bufferlab_model::trace::{Kind, RECORD_BYTES, Record};

const BLOCK_BYTES: usize = 1 << 20;
/// More than the longest access, of 24 bytes, and more than a store at its end touches.
const STORED_BYTES: usize = 32;
const BEFORE_THE_FIRST: Record = Record { t_ns: 0, object: 0, page: 0, thread: 0, kind: Kind::Get, latch: 0, site: 0 };

/// Accesses in the order in which they were added.
#[derive(Debug)]
pub(super) struct Packed {
    /// Whole blocks: their bytes.
    blocks: Vec<Vec<u8>>,
    /// The block that grows, at its full size, and how much of it is used.
    block: Vec<u8>,
    used: usize,
    last: Record,
    records: u64,
}

impl Packed {
    pub fn new() -> Self {
        Self { blocks: Vec::new(), block: Vec::new(), used: 0, last: BEFORE_THE_FIRST, records: 0 }
    }

    /// The number of accesses.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The bytes that they take.
    pub fn bytes(&self) -> u64 {
        (self.blocks.len() * BLOCK_BYTES + self.used) as u64
    }

    /// Adds an access. Allocates once in some 100,000 accesses.
    #[inline]
    pub fn push(&mut self, access: &Record) {
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
            | (of_time as u16 - 1) << 3
            | (of_page as u16 - 1) << 6
            | (of_object as u16) << 8
            | u16::from(!same_thread) << 11
            | u16::from(!same_rest) << 12;
        let mut bytes = [0; STORED_BYTES];
        bytes[..2].copy_from_slice(&head.to_le_bytes());
        bytes[2..10].copy_from_slice(&t_ns.to_le_bytes());
        let mut at = 2 + of_time;
        bytes[at..at + 4].copy_from_slice(&page.to_le_bytes());
        at += of_page;
        bytes[at..at + 4].copy_from_slice(&access.object.to_le_bytes());
        at += of_object;
        bytes[at..at + 4].copy_from_slice(&access.thread.to_le_bytes());
        at += if same_thread { 0 } else { 4 };
        bytes[at..at + 2].copy_from_slice(&[access.latch, access.site]);
        at += if same_rest { 0 } else { 2 };
        self.block[self.used..self.used + STORED_BYTES].copy_from_slice(&bytes);
        self.used += at;
        self.last = *access;
        self.records += 1;
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

    /// Passes the bytes of all records to `write`, a block after the other, each of which is given back before the next.
    ///
    /// # Errors
    /// The first of `write`.
    pub fn unpack<E>(mut self, mut write: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.next_block();
        let (mut last, mut out) = (BEFORE_THE_FIRST, Vec::new());
        for block in self.blocks {
            out.clear();
            let mut rest = block.as_slice();
            while let Some(access) = taken(&mut rest, &last) {
                out.extend_from_slice(&access.bytes());
                last = access;
            }
            debug_assert!(rest.is_empty() && out.len().is_multiple_of(RECORD_BYTES));
            write(&out)?;
        }
        Ok(())
    }
}

/// The bytes that a number needs, one at least.
#[inline]
fn length(number: u64) -> usize {
    (71 - (number | 1).leading_zeros() as usize) / 8
}

/// Small differences of either sign as small numbers.
#[inline]
fn folded(difference: u32) -> u32 {
    (difference << 1) ^ (difference.cast_signed() >> 31).cast_unsigned()
}

fn unfolded(number: u32) -> u32 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

fn number(rest: &mut &[u8], length: usize) -> Option<u64> {
    let (first, others) = rest.split_at_checked(length)?;
    *rest = others;
    let mut bytes = [0; 8];
    bytes[..length].copy_from_slice(first);
    Some(u64::from_le_bytes(bytes))
}

/// Takes the next access out of a block; none at its end.
fn taken(rest: &mut &[u8], last: &Record) -> Option<Record> {
    let head = number(rest, 2)? as usize;
    let t_ns = last.t_ns.wrapping_add(number(rest, (head >> 3 & 7) + 1)?);
    let page = last.page.wrapping_add(unfolded(number(rest, (head >> 6 & 3) + 1)? as u32));
    let of_object = head >> 8 & 7;
    let object = if of_object == 0 { last.object } else { number(rest, of_object)? as u32 };
    let thread = if head >> 11 & 1 == 0 { last.thread } else { number(rest, 4)? as u32 };
    let (latch, site) = if head >> 12 & 1 == 0 {
        (last.latch, last.site)
    } else {
        let both = number(rest, 2)?;
        (both as u8, (both >> 8) as u8)
    };
    Some(Record { t_ns, object, page, thread, kind: Kind::of(head as u8 & 7)?, latch, site })
}

#[cfg(test)]
mod tests {
    use bufferlab_model::trace::KINDS;
    use proptest::prelude::*;

    use super::*;

    fn unpacked(packed: Packed) -> Vec<u8> {
        let mut bytes = Vec::new();
        let done: Result<(), ()> = packed.unpack(|block| {
            bytes.extend_from_slice(block);
            Ok(())
        });
        done.expect("it is written");
        bytes
    }

    fn packed(accesses: &[Record]) -> Packed {
        let mut packed = Packed::new();
        accesses.iter().for_each(|access| packed.push(access));
        packed
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
            let packed = packed(&accesses);
            prop_assert!(packed.bytes() <= (RECORD_BYTES * accesses.len()) as u64);
            prop_assert_eq!(packed.records(), accesses.len() as u64);
            let bytes: Vec<u8> = accesses.iter().flat_map(Record::bytes).collect();
            prop_assert_eq!(unpacked(packed), bytes);
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
        let packed = packed(&accesses);
        assert!(packed.blocks.len() > 2 && packed.block.len() == BLOCK_BYTES);
        assert!(packed.bytes() < 12 * 400_000, "{} bytes", packed.bytes());
        let bytes: Vec<u8> = accesses.iter().flat_map(Record::bytes).collect();
        assert!(unpacked(packed) == bytes);
    }
}
