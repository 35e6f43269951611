//! Sequential scans of PostgreSQL's large tables: decides which gets belong to a scan, and keeps the buffers of its
//! ring.
//!
//! src/backend/access/heap/heapam.c, `initscan`: a scan of a table of more than a quarter of the buffers has its own
//! ring. src/backend/storage/buffer/freelist.c, `GetBufferFromRing` and `AddBufferToRing`: the scan's misses take the
//! ring's buffers in turn.
//!
//! A trace marks the gets that had a ring (its column `latch`). If the trace has no marks, or the traced pool was so
//! large that the server read the table without a ring, the order of a session's gets decides. A trace does not show
//! where a scan begins: the model starts a new ring when its session gets the table's first page, or goes back. The
//! processes of a parallel scan skip pages that others read: about 20 times, by 300 to 1,100 pages, in a scan of 10,715
//! pages on two busy processors.

use std::mem::replace;

use bufferlab_model::trace::Access;
use bufferlab_model::trace::latch::{BULK_READ, NO_RING, OTHER_RING, RING};
use serde::Deserialize;

/// A value that means no buffer, or no page.
const NONE: u32 = u32::MAX;
/// The table number of a page that belongs to no large table.
pub(super) const NO_TABLE: u8 = u8::MAX;
/// The most pages between two gets of one scan: since PostgreSQL 17 a scan pins pages in the pool before it reads the
/// others.
const NEAR: u32 = 256;
/// The number of consecutive gets of one session that make a scan, if each is of another page near the previous one.
const LEAST_IN_A_ROW: u8 = 4;

/// A table with more pages than a quarter of the shared buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LargeTable {
    /// The table's first page. The table's pages have consecutive numbers.
    pub first_page: u32,
    /// The number of the table's pages.
    pub pages: u32,
    /// Whether the table was larger than a quarter of the traced pool, too: a get without a ring then belongs to no
    /// scan.
    pub had_rings: bool,
}

/// A session's current or last scan of a large table.
#[derive(Clone, Copy)]
struct Scan {
    last_page: u32,
    /// The number of consecutive gets near each other, up to `LEAST_IN_A_ROW`; 0 after a get that is known to belong to
    /// no scan.
    in_a_row: u8,
    /// The last page of a get that belonged to a scan, or `NONE`.
    last_scanned: u32,
    /// The number of the scan's ring, or `NONE`.
    ring: u32,
    /// The slot of the ring whose buffer the scan used last.
    slot: u32,
}

const NEVER: Scan = Scan { last_page: NONE, in_a_row: 0, last_scanned: NONE, ring: NONE, slot: 0 };

/// All sessions' scans of large tables.
pub(super) struct Scans {
    tables: Vec<LargeTable>,
    ring_buffers: u32,
    /// Scans by session, then by table. It grows when a session appears.
    scans: Vec<Scan>,
    /// The table of each session's last get.
    last_table: Vec<u8>,
    /// The buffers of all rings, by slot. A ring grows as it fills, because a trace from another source may have many
    /// sessions.
    rings: Vec<Vec<u32>>,
    guessed: u64,
}

impl Scans {
    pub fn new(tables: &[LargeTable], ring_buffers: u32) -> Self {
        Scans {
            tables: tables[..tables.len().min(NO_TABLE as usize)].to_vec(),
            ring_buffers: ring_buffers.max(1),
            scans: Vec::new(),
            last_table: Vec::new(),
            rings: Vec::new(),
            guessed: 0,
        }
    }

    /// Returns the number of gets that the model ascribed to a scan without a mark in the trace.
    pub fn guessed(&self) -> u64 {
        self.guessed
    }

    /// Returns the scan that a get belongs to, as a number for `next_buffer` and `replace_buffer`.
    #[inline]
    pub fn scan_of(&mut self, access: Access, table: u8) -> Option<usize> {
        if self.tables.is_empty() {
            return None;
        }
        let session = access.thread as usize;
        if session >= self.last_table.len() {
            self.last_table.resize(session + 1, NO_TABLE);
            self.scans.resize((session + 1) * self.tables.len(), NEVER);
        }
        let is_in_a_row = replace(&mut self.last_table[session], table) == table;
        let LargeTable { first_page, had_rings, .. } = *self.tables.get(table as usize)?;
        let number = session * self.tables.len() + table as usize;
        let scan = &mut self.scans[number];
        let page = access.page;
        let before = scan.last_page;
        let known = scan.in_a_row;
        match access.latch & RING {
            BULK_READ => scan.in_a_row = LEAST_IN_A_ROW,
            told if told == OTHER_RING || told == NO_RING && had_rings => {
                scan.in_a_row = 0;
                return None;
            }
            _ => {
                let goes_on = is_in_a_row && known > 0 && page.abs_diff(before) <= NEAR;
                scan.in_a_row = if goes_on { LEAST_IN_A_ROW.min(known + u8::from(page != before)) } else { 1 };
            }
        }
        scan.last_page = page;
        if scan.in_a_row < LEAST_IN_A_ROW {
            return None;
        }
        let is_guessed = access.latch & RING != BULK_READ;
        self.guessed += u64::from(is_guessed);
        let goes_on = !is_guessed || known == LEAST_IN_A_ROW;
        let reach = if goes_on { NEAR } else { 0 };
        let goes_back = page.saturating_add(reach) < replace(&mut scan.last_scanned, page);
        if page == first_page || goes_back {
            self.empty_ring(number);
        }
        debug_assert!(number < self.scans.len(), "session {session} has no scan {number}");
        Some(number)
    }

    /// Moves to the next slot of a scan's ring; returns its buffer.
    pub fn next_buffer(&mut self, number: usize) -> Option<u32> {
        let scan = &mut self.scans[number];
        if scan.ring == NONE {
            scan.ring = self.rings.len() as u32;
            self.rings.push(Vec::new());
            scan.slot = self.ring_buffers - 1;
        }
        scan.slot = if scan.slot + 1 == self.ring_buffers { 0 } else { scan.slot + 1 };
        self.rings[scan.ring as usize].get(scan.slot as usize).copied().filter(|&buffer| buffer != NONE)
    }

    /// Puts a buffer into the slot of a scan's ring that the scan used last.
    pub fn replace_buffer(&mut self, number: usize, buffer: u32) {
        let Scan { ring, slot, .. } = self.scans[number];
        debug_assert_ne!(ring, NONE, "a scan asks for its ring's next buffer before it replaces that");
        debug_assert!(slot < self.ring_buffers, "a ring of {} buffers has no slot {slot}", self.ring_buffers);
        let (ring, slot) = (&mut self.rings[ring as usize], slot as usize);
        if slot >= ring.len() {
            ring.resize(slot + 1, NONE);
        }
        ring[slot] = buffer;
    }

    fn empty_ring(&mut self, number: usize) {
        let scan = &mut self.scans[number];
        if scan.ring != NONE {
            self.rings[scan.ring as usize].clear();
            // A new ring is empty. The scan fills it slot by slot, and may begin at any slot.
            scan.slot = self.ring_buffers - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rings_of_many_sessions_take_memory_for_the_buffers_that_they_have() {
        let table = LargeTable { first_page: 0, pages: 1 << 20, had_rings: true };
        let mut scans = Scans::new(&[table], 100_000);
        for thread in 0..1000 {
            let access = Access { page: 100 + u32::from(thread), thread, latch: BULK_READ, now_us: 0 };
            let scan = scans.scan_of(access, 0).expect("the trace tells that it is one");
            assert_eq!(scans.next_buffer(scan), None);
            scans.replace_buffer(scan, u32::from(thread));
        }
        assert!(scans.rings.iter().map(Vec::capacity).sum::<usize>() < 10_000);
    }
}
