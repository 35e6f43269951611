//! PostgreSQL's pages of the table of hot_rows (crates/bufferlab-drive/dialects/servers/hot_rows/schema.sql), of its key and
//! of the index on k, which takes an entry where an update moves a row to another page.

use super::heap::{Heap, Version};
use super::index::{Built, Entry, Index, fan_out};
use super::layout::Table;
use super::record::{POINTER, max_aligned, number_entry, text, with_header};
use super::session::Now;
use super::{CATALOG_PAGES, read_catalog, read_counters, relation_bytes};
use crate::pools::{Objects, Pools};
use crate::rows::{RowTable, RowsAsked};
use crate::tree::{Grown, Loading};

/// Bytes of id and k.
const NUMBERS: u32 = 4 + 4;
/// Characters of c.
const C_CHARS: u32 = 120;
/// Bytes of a row's place in a posting list (itemptr.h, `ItemPointerData`).
const PLACE: u32 = 6;
/// Selects in a second by the generator's clock (job.rs, `transaction_us`).
const COUNTERS_EVERY: u64 = 10_000;
/// Numbers k of rows whose texts were not generated lie so far from those that were: odd, so that they spread.
const STRIDE: u64 = 0x9E37_79B1;

/// The table, its indexes and the catalogue.
pub struct Rows {
    objects: Objects,
    table: Table,
    by_k: Index,
    bytes: u16,
    ks: Ks,
    catalog: u32,
    now: Now,
    sessions: u64,
}

/// The number k of each row: those of the first rows as they were loaded, of further ones as evenly spread.
struct Ks {
    own: Vec<u32>,
    rows: u32,
}

impl Ks {
    fn new(asked: &RowsAsked) -> Self {
        Ks { own: asked.own_ks(), rows: asked.rows }
    }

    fn of(&self, id: u32) -> u32 {
        let (own, place) = (self.own.len() as u32, id - 1);
        let k = u64::from(self.own[(place % own) as usize]) + u64::from(place / own) * STRIDE;
        ((k - 1) % u64::from(self.rows)) as u32 + 1
    }

    /// Returns how many rows have each number from 1 on.
    fn counts(&self) -> Vec<u8> {
        let mut counts = vec![0_u8; self.rows as usize];
        for id in 1..=self.rows {
            let count = &mut counts[self.of(id) as usize - 1];
            *count = count.saturating_add(1);
        }
        counts
    }
}

/// Bytes of an entry of so many rows with its line pointer: a build makes equal ones one (nbtdedup.c,
/// `_bt_form_posting`).
fn posting(rows: u8) -> u32 {
    let key = number_entry();
    if rows < 2 { key } else { max_aligned(key - POINTER + u32::from(rows) * PLACE) + POINTER }
}

impl Rows {
    /// Lays the table out. `transactions` bounds how much it may grow.
    pub fn new(asked: &RowsAsked, transactions: u64) -> Self {
        let row = with_header(text(text(NUMBERS, C_CHARS), asked.pad_chars + 1));
        let updates = transactions * u64::from(asked.update_percent) / 100;
        // Updates fill pages with moved rows at most, and an index's leaf is half full after a split.
        let growth = |bytes: u32| (updates * u64::from(bytes) / 4000) as u32 + 64;
        let mut objects = Objects::default();
        let rows = std::iter::repeat_n(row as u16, asked.rows as usize);
        let heap = Heap::new(&mut objects, "sbtest1", rows, growth(max_aligned(row)));
        let entry = number_entry();
        let ks = Ks::new(asked);
        let mut index = |name: &str, entries: &mut dyn Iterator<Item = (u32, u32)>, is_unique: bool| {
            let mut loading = Loading::new(1, u64::from(asked.rows) + 1);
            entries.for_each(|(key, bytes)| loading.push(0, key, bytes, &Built));
            let tree = Grown::new(&mut objects, name, loading, fan_out(entry), growth(entry));
            Index::new(tree, entry, 1, is_unique, is_unique)
        };
        let counts = ks.counts();
        let of_k = counts.iter().zip(1..).filter(|&(&rows, _)| rows > 0);
        let by_k = index("sbtest1.k_1", &mut of_k.map(|(&rows, k)| (k, posting(rows))), false);
        let key = index("sbtest1.sbtest1_pkey", &mut (1..=asked.rows).map(|id| (id, entry)), true);
        let catalog = objects.add("(catalog)", CATALOG_PAGES, CATALOG_PAGES);
        let (table, now) = (Table { heap, key }, Now::default());
        Rows { objects, table, by_k, bytes: row as u16, ks, catalog, now, sessions: 1 }
    }

    /// Begins a statement, which is a transaction. Those of the other sessions may be under way.
    fn begin(&mut self, pools: &mut Pools) {
        let session = pools.thread();
        self.sessions = self.sessions.max(u64::from(session) + 1);
        let transaction = self.now.transaction + 1;
        self.now = Now { session, transaction, horizon: transaction.saturating_sub(self.sessions - 1) };
        if transaction.is_multiple_of(COUNTERS_EVERY) {
            read_counters(pools, self.catalog);
        }
    }

    fn find(&mut self, pools: &mut Pools, id: u32) -> Version {
        let bytes = self.bytes;
        self.table.find(pools, (0, id), || (id - 1, bytes), self.now)
    }
}

impl RowTable for Rows {
    fn objects(&self) -> &Objects {
        &self.objects
    }

    fn interior_pages(&self) -> Vec<u32> {
        self.table.key.interior_pages().chain(self.by_k.interior_pages()).collect()
    }

    fn bytes(&self) -> Option<u64> {
        Some(relation_bytes(&self.objects))
    }

    fn connect(&mut self, pools: &mut Pools) {
        read_catalog(pools, self.catalog);
    }

    fn read(&mut self, pools: &mut Pools, id: u32) {
        self.begin(pools);
        self.find(pools, id);
    }

    fn update(&mut self, pools: &mut Pools, id: u32) {
        self.begin(pools);
        let before = self.find(pools, id);
        let updated = self.table.rewrite(pools, (0, id), before, self.bytes, self.now);
        if updated.has_moved() {
            let key = (0, self.ks.of(id));
            self.by_k.bury(key, before.block, false, self.now);
            let entry = Entry { key, block: updated.block, pinned: Some(before.block) };
            self.by_k.insert(pools, &mut self.table.heap, entry, self.now);
        }
    }
}
