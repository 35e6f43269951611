//! Accesses in memory, where one of TPC-C takes 5 to 7 bytes in place of a record's 24: neighbours have much in common.
//!
//! An access is a byte of its kind and of what is as in the access before it, the time and the page as differences from
//! that access in seven bits a byte, and what is not as before. Blocks of one size grow without a copy.

use bufferlab_model::trace::{Kind, RECORD_BYTES, Record};

const BLOCK_BYTES: usize = 1 << 20;
/// The most that one access takes: a byte, ten of time, five each of page, object and thread, latch and site.
const MOST_BYTES: usize = 28;
const KIND: u8 = 7;
const SAME_OBJECT: u8 = 8;
const SAME_THREAD: u8 = 16;
const SAME_LATCH_AND_SITE: u8 = 32;

const BEFORE_THE_FIRST: Record = Record { t_ns: 0, object: 0, page: 0, thread: 0, kind: Kind::Get, latch: 0, site: 0 };

/// Accesses in the order in which they were added.
#[derive(Debug)]
pub(super) struct Packed {
    blocks: Vec<Vec<u8>>,
    last: Record,
    records: u64,
}

impl Packed {
    pub fn new() -> Self {
        Self { blocks: Vec::new(), last: BEFORE_THE_FIRST, records: 0 }
    }

    /// The number of accesses.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The bytes that they take.
    pub fn bytes(&self) -> u64 {
        let last = self.blocks.last().map_or(0, Vec::len);
        (self.blocks.len().saturating_sub(1) * BLOCK_BYTES + last) as u64
    }

    /// Adds an access. Allocates once in some 100,000 accesses.
    #[inline]
    pub fn push(&mut self, access: &Record) {
        if self.blocks.last().is_none_or(|block| block.len() + MOST_BYTES > BLOCK_BYTES) {
            self.blocks.push(Vec::with_capacity(BLOCK_BYTES));
        }
        let Some(block) = self.blocks.last_mut() else { return };
        let last = &self.last;
        let object = if access.object == last.object { SAME_OBJECT } else { 0 };
        let thread = if access.thread == last.thread { SAME_THREAD } else { 0 };
        let is_alike = (access.latch, access.site) == (last.latch, last.site);
        let latch_and_site = if is_alike { SAME_LATCH_AND_SITE } else { 0 };
        block.push(access.kind as u8 | object | thread | latch_and_site);
        put(block, access.t_ns.wrapping_sub(last.t_ns));
        put(block, folded(access.page.wrapping_sub(last.page).cast_signed()));
        if object == 0 {
            put(block, u64::from(access.object));
        }
        if thread == 0 {
            put(block, u64::from(access.thread));
        }
        if latch_and_site == 0 {
            block.extend([access.latch, access.site]);
        }
        self.last = *access;
        self.records += 1;
    }

    /// Passes the bytes of all records to `write`, a block after the other, each of which is given back before the next.
    ///
    /// # Errors
    /// The first of `write`.
    pub fn unpack<E>(self, mut write: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
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

/// Small numbers of either sign as small numbers.
fn folded(number: i32) -> u64 {
    u64::from(((number << 1) ^ (number >> 31)).cast_unsigned())
}

fn unfolded(number: u64) -> u32 {
    let number = number as u32;
    (number >> 1) ^ (number & 1).wrapping_neg()
}

/// Appends a number, seven bits a byte, the lowest first.
#[inline]
fn put(block: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        block.push(number as u8 | 0x80);
        number >>= 7;
    }
    block.push(number as u8);
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = byte(rest)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
        shift += 7;
    }
}

fn byte(rest: &mut &[u8]) -> Option<u8> {
    let (first, others) = rest.split_first()?;
    *rest = others;
    Some(*first)
}

/// Takes the next access out of a block; none at its end.
fn taken(rest: &mut &[u8], last: &Record) -> Option<Record> {
    let head = byte(rest)?;
    let t_ns = last.t_ns.wrapping_add(number(rest)?);
    let page = last.page.wrapping_add(unfolded(number(rest)?));
    let object = if head & SAME_OBJECT == 0 { number(rest)? as u32 } else { last.object };
    let thread = if head & SAME_THREAD == 0 { number(rest)? as u32 } else { last.thread };
    let (latch, site) =
        if head & SAME_LATCH_AND_SITE == 0 { (byte(rest)?, byte(rest)?) } else { (last.latch, last.site) };
    Some(Record { t_ns, object, page, thread, kind: Kind::of(head & KIND)?, latch, site })
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
            prop_assert!(packed.bytes() <= (MOST_BYTES * accesses.len()) as u64);
            prop_assert_eq!(packed.records(), accesses.len() as u64);
            let bytes: Vec<u8> = accesses.iter().flat_map(Record::bytes).collect();
            prop_assert_eq!(unpacked(packed), bytes);
        }
    }

    #[test]
    fn accesses_of_many_blocks_take_a_third_of_their_records() {
        let accesses: Vec<Record> = (0..400_000u32)
            .map(|number| Record {
                t_ns: 1 << 50 | u64::from(number) * 4_000,
                object: number / 8 % 30,
                page: number.wrapping_mul(2_654_435_761) % 100_000,
                thread: number / 200 % 8,
                kind: if number % 20 == 0 { Kind::Read } else { Kind::Get },
                latch: (number % 2) as u8,
                site: 0,
            })
            .collect();
        let packed = packed(&accesses);
        assert!(packed.blocks.len() > 2 && packed.blocks.iter().all(|block| block.capacity() == BLOCK_BYTES));
        assert!(packed.bytes() < 10 * 400_000, "{} bytes", packed.bytes());
        let bytes: Vec<u8> = accesses.iter().flat_map(Record::bytes).collect();
        assert!(unpacked(packed) == bytes);
    }
}
