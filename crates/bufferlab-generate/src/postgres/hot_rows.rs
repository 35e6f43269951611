//! PostgreSQL's pages of the table of hot_rows (crates/bufferlab-drive/dialects/servers/hot_rows/schema.sql), of its
//! key, and of the index on k. That index takes an entry when an update moves a row to another page.

use super::heap::Heap;
use super::layout::{Laid, Table, index};
use super::record::{POINTER, max_aligned, number_entry, text, with_header};
use crate::engine::Relation;
use crate::hot_rows::RowsAsked;
use crate::pools::Objects;

/// Bytes of the columns id and k.
const NUMBERS: u32 = 4 + 4;
/// Characters of column c.
const C_CHARS: u32 = 120;
/// Bytes of a row's place in a posting list (itemptr.h, `ItemPointerData`).
const PLACE: u32 = 6;
/// Selects in a second of the generator's clock (job.rs, `transaction_us`).
pub(super) const COUNTERS_EVERY: u64 = 10_000;
/// The distance between the values of k of a generated row and of the row that repeats it: odd, so that values spread.
const STRIDE: u64 = 0x9E37_79B1;

/// The value of column k of each row: the generated value for the first rows, and equally spread values for further
/// rows.
pub(super) struct Ks {
    own: Vec<u32>,
    rows: u32,
}

impl Ks {
    fn new(asked: &RowsAsked) -> Self {
        Ks { own: asked.own_ks(), rows: asked.rows }
    }

    pub(super) fn of(&self, id: u32) -> u32 {
        let (own, place) = (self.own.len() as u32, id - 1);
        let k = u64::from(self.own[(place % own) as usize]) + u64::from(place / own) * STRIDE;
        ((k - 1) % u64::from(self.rows)) as u32 + 1
    }

    /// Returns, for each value of k from 1 on, the number of rows that have this value; 255 stands for 255 or more.
    fn counts(&self) -> Vec<u8> {
        let mut counts = vec![0_u8; self.rows as usize];
        for id in 1..=self.rows {
            let count = &mut counts[self.of(id) as usize - 1];
            *count = count.saturating_add(1);
        }
        counts
    }
}

/// Returns the bytes of an entry for `rows` rows, with its line pointer: a build merges equal entries (nbtdedup.c,
/// `_bt_form_posting`).
fn posting(rows: u8) -> u32 {
    let key = number_entry();
    if rows < 2 { key } else { max_aligned(key - POINTER + u32::from(rows) * PLACE) + POINTER }
}

/// Lays the table out; returns it and the values of k. `transactions` bounds how much it may grow.
pub(super) fn lay_out(asked: &RowsAsked, objects: &mut Objects, transactions: u64) -> (Table, Ks) {
    let row = with_header(text(text(NUMBERS, C_CHARS), asked.pad_chars + 1));
    let updates = transactions * u64::from(asked.update_percent) / 100;
    // At worst updates fill pages with moved rows only, and an index's leaf is half full after a split.
    let growth = |bytes: u32| (updates * u64::from(bytes) / 4000) as u32 + 64;
    let rows = std::iter::repeat_n(row as u16, asked.rows as usize);
    let heap = Heap::new(objects, Relation::HotRows.name(), rows, growth(max_aligned(row)));
    let (entry, ks) = (number_entry(), Ks::new(asked));
    let keys = (1, u64::from(asked.rows) + 1);
    let laid = |is_unique| Laid { keys, entry: (entry, entry), growth: growth(entry), is_unique, is_even: is_unique };
    let counts = ks.counts();
    let of_k = counts.iter().zip(1..).filter(|&(&rows, _)| rows > 0).map(|(&rows, k)| (0, k, posting(rows)));
    let by_k = index(objects, "sbtest1.k_1", of_k, &laid(false));
    let key = index(objects, "sbtest1.sbtest1_pkey", (1..=asked.rows).map(|id| (0, id, entry)), &laid(true));
    (Table { heap, indexes: vec![key, by_k], bytes: row as u16 }, ks)
}
