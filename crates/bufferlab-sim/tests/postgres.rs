//! `postgres` against a vector of buffers that the test searches, and a history of every session's gets.

mod strings;

use std::collections::{HashMap, VecDeque};

use bufferlab_model::trace::{Access, Kind};
use bufferlab_sim::{Counts, LargeTable, Manager, Model, Postgres, PostgresSettings};
use proptest::prelude::*;

use strings::{Events, frames};

#[derive(Clone, Copy)]
struct Buffer {
    page: u32,
    usage: u8,
}

/// The values of the column `latch` for a get's ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    NoRing,
    BulkRead,
    Other,
}

fn told(latch: u8) -> Told {
    [Told::Nothing, Told::NoRing, Told::BulkRead, Told::Other][(latch / 4) as usize % 4]
}

struct Naive {
    settings: PostgresSettings,
    /// The page of every get and its ring's mark, by session.
    history: HashMap<u16, Vec<(u32, Told)>>,
    /// The last page that belonged to a scan, by session and table.
    scanned: HashMap<(u16, usize), u32>,
    /// The slots of a ring, the next one first, by session and table.
    rings: HashMap<(u16, usize), VecDeque<Option<usize>>>,
    buffers: Vec<Option<Buffer>>,
    /// Empty buffers, the next one first.
    free: Vec<usize>,
    hand: usize,
    counts: Counts,
}

impl Naive {
    fn new(frames: u32, settings: &PostgresSettings) -> Self {
        Naive {
            settings: settings.clone(),
            history: HashMap::new(),
            scanned: HashMap::new(),
            rings: HashMap::new(),
            buffers: vec![None; frames as usize],
            free: if settings.has_free_list { (0..frames as usize).collect() } else { Vec::new() },
            hand: 0,
            counts: Counts::default(),
        }
    }

    fn find(&self, page: u32) -> Option<usize> {
        self.buffers.iter().position(|buffer| buffer.is_some_and(|buffer| buffer.page == page))
    }

    fn free_buffer(&mut self) -> usize {
        if !self.free.is_empty() {
            return self.free.remove(0);
        }
        loop {
            let at = self.hand;
            self.hand = (at + 1) % self.buffers.len();
            let Some(buffer) = self.buffers[at].as_mut() else {
                assert!(!self.settings.has_free_list, "no buffer is free");
                return at;
            };
            if buffer.usage == 0 {
                self.counts.evictions += 1;
                return at;
            }
            buffer.usage -= 1;
        }
    }

    fn table(&self, page: u32) -> Option<usize> {
        let has = |table: &LargeTable| page >= table.first_page && page - table.first_page < table.pages;
        self.settings.large_tables.iter().position(has)
    }

    /// Returns how many gets in a row, up to the last of a history, are near each other, four at most. Four are a scan.
    fn in_a_row(&self, history: &[(u32, Told)]) -> u32 {
        let Some((&(page, told), before)) = history.split_last() else { return 0 };
        let Some(table) = self.table(page) else { return 0 };
        let had_rings = self.settings.large_tables[table].had_rings;
        match told {
            Told::BulkRead => return 4,
            Told::Other => return 0,
            Told::NoRing if had_rings => return 0,
            Told::NoRing | Told::Nothing => {}
        }
        let goes_on = before.last().filter(|(last, _)| self.table(*last) == Some(table) && page.abs_diff(*last) <= 256);
        let so_far = goes_on.map_or(0, |_| self.in_a_row(before));
        if so_far == 0 { 1 } else { (so_far + u32::from(before.last().map(|(last, _)| *last) != Some(page))).min(4) }
    }

    /// Takes a get; returns its session and table when it belongs to a scan.
    fn scan(&mut self, access: Access) -> Option<(u16, usize)> {
        let mut history = self.history.remove(&access.thread).unwrap_or_default();
        history.push((access.page, told(access.latch)));
        let before = &history[..history.len() - 1];
        let (row_before, row) = (self.in_a_row(before), self.in_a_row(&history));
        let table = self.table(access.page).filter(|_| row == 4);
        if let Some(table) = table {
            let is_guessed = told(access.latch) != Told::BulkRead;
            self.counts.guessed_scan_gets += u64::from(is_guessed);
            let back = if is_guessed && row_before < 4 { 0 } else { 256 };
            let last = self.scanned.insert((access.thread, table), access.page);
            let begins = access.page == self.settings.large_tables[table].first_page
                || last.is_some_and(|last| access.page + back < last);
            if begins {
                self.rings.remove(&(access.thread, table));
            }
        }
        self.history.insert(access.thread, history);
        table.map(|table| (access.thread, table))
    }

    fn has_other_ring(access: Access) -> bool {
        told(access.latch) == Told::Other
    }

    /// Pins the page; returns whether it was in the pool.
    fn pin(&mut self, access: Access, scan: Option<(u16, usize)>) -> bool {
        let found = self.find(access.page);
        if let Some(at) = found {
            let buffer = self.buffers[at].as_mut().expect("just found");
            let with_ring = scan.is_some() || Self::has_other_ring(access);
            if access.latch % 4 != 2 && buffer.usage < (if with_ring { 1 } else { 5 }) {
                buffer.usage += 1;
            }
        } else {
            let at = scan.and_then(|scan| self.take_from_ring(scan)).unwrap_or_else(|| self.free_buffer());
            if let Some(scan) = scan {
                self.rings.get_mut(&scan).expect("it was asked").push_back(Some(at));
            }
            self.buffers[at] = Some(Buffer { page: access.page, usage: 1 });
        }
        found.is_some()
    }

    /// Takes a ring's next slot away; returns its buffer when the ring may use it again, as an eviction.
    fn take_from_ring(&mut self, scan: (u16, usize)) -> Option<usize> {
        let empty = || vec![None; self.settings.ring_buffers as usize].into();
        let next = self.rings.entry(scan).or_insert_with(empty).pop_front().expect("a ring has a slot");
        let unused = !self.settings.has_free_list;
        let usable = next.filter(|&at| self.buffers[at].map_or(unused, |buffer| buffer.usage <= 1));
        self.counts.evictions += u64::from(usable.is_some_and(|at| self.buffers[at].is_some()));
        self.counts.ring_reuses += u64::from(usable.is_some());
        usable
    }
}

impl Manager for Naive {
    fn get(&mut self, access: Access) {
        let scan = self.scan(access);
        self.counts.misses += u64::from(!self.pin(access, scan));
    }

    fn get_if_in_pool(&mut self, access: Access) {
        if self.find(access.page).is_some() {
            self.pin(access, None);
        }
    }

    fn create(&mut self, access: Access) {
        self.counts.creates += u64::from(!self.pin(access, None));
    }

    fn prefetch(&mut self, access: Access) {
        if self.find(access.page).is_none() {
            self.counts.prefetch_reads += 1;
            self.pin(access, None);
        }
    }

    fn drop_page(&mut self, access: Access) {
        if let Some(at) = self.find(access.page) {
            self.buffers[at] = None;
            if self.settings.has_free_list {
                self.free.insert(0, at);
            }
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn frames_used(&self) -> u32 {
        self.buffers.iter().flatten().count() as u32
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_clock_sweeps_as_a_searched_vector_does(
        seed: u64, size in 1u32..40, pages in 1u32..60, has_free_list: bool
    ) {
        let settings = PostgresSettings { large_tables: Vec::new(), ring_buffers: 1, has_free_list };
        let (mut fast, mut naive) =
            (Postgres::new(frames(size), pages, &settings), Naive::new(size, &settings));
        Events::random(seed, pages, 0, 300).play_to_both(&mut fast, &mut naive, |pool| pool.frames_used() <= size);
    }

    /// Scans of two tables, by four sessions and with every mark that a trace may have, among the other events.
    #[test]
    fn scans_use_their_rings_as_a_searched_history_says(
        seed: u64,
        size in 1u32..60,
        ring_buffers in 1u32..9,
        had_rings in any::<[bool; 2]>(),
        has_free_list: bool,
        scans in prop::collection::vec((0u16..4, 0u32..700, 1u32..40, 1u32..5, 0usize..6), 1..12),
    ) {
        let large_tables = vec![
            LargeTable { first_page: 20, pages: 30, had_rings: had_rings[0] },
            LargeTable { first_page: 50, pages: 650, had_rings: had_rings[1] },
        ];
        let settings = PostgresSettings { large_tables, ring_buffers, has_free_list };
        let mut events = Events::random(seed, 80, 0, 200);
        for (row, latch) in events.latch.iter_mut().enumerate() {
            *latch = [0, 1, 2, 5, 6, 9, 10, 13, 14][((seed % 9) as usize + row * 7) % 9];
        }
        for (number, &(thread, first, pages, step, told)) in scans.iter().enumerate() {
            let place = number * events.page.len() / scans.len();
            for page in 0..pages {
                // Now and then another event of the mix comes between two gets of the scan.
                let at = place + page as usize + page as usize * number / 20;
                events.page.insert(at, (first + page * step).min(699));
                events.kind.insert(at, Kind::Get as u8);
                events.latch.insert(at, [0, 1, 5, 9, 9, 13][told]);
                events.thread.insert(at, thread);
                events.delta_us.insert(at, 1);
            }
        }
        let (mut fast, mut naive) =
            (Postgres::new(frames(size), 700, &settings), Naive::new(size, &settings));
        events.play_to_both(&mut fast, &mut naive, |pool| pool.frames_used() <= size);
    }
}
