//! Compares `postgres` with a naive model: a vector of buffers that the test searches, a history of every session's
//! gets, and writers that follow the server's source line by line.

mod strings;

use std::collections::{HashMap, HashSet, VecDeque};

use bufferlab_model::trace::{Access, Kind, latch};
use bufferlab_sim::{
    BackgroundWriterRules, CheckpointRules, Counts, LargeTable, LogRules, Manager, Model, Postgres, PostgresSettings,
    WriteRules,
};
use proptest::prelude::*;

use strings::{Events, frames};

#[derive(Clone, Copy)]
struct Buffer {
    page: u32,
    usage: u8,
    is_dirty: bool,
    is_needed: bool,
}

/// The state of the processes that write.
#[derive(Default)]
struct NaiveWriters {
    /// The steps of the clock's hand, then of the writer, since the beginning. Each number counts the buffers of all
    /// passes.
    hand_steps: i64,
    clean_steps: i64,
    hand_steps_before: i64,
    has_run: bool,
    smoothed_alloc: f32,
    smoothed_density: f32,
    recent_alloc: i64,
    rounds: u64,
    log_bytes: u64,
    /// Pages of which the log has a full image.
    logged: HashSet<u32>,
    looks: u64,
    began: (u64, u64),
    /// The pages of the running checkpoint that are not processed yet, and the number of all its pages.
    left: VecDeque<u32>,
    all: usize,
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
    writers: NaiveWriters,
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
            writers: NaiveWriters { smoothed_density: 10.0, ..NaiveWriters::default() },
            counts: Counts::default(),
        }
    }

    fn find(&self, page: u32) -> Option<usize> {
        self.buffers.iter().position(|buffer| buffer.is_some_and(|buffer| buffer.page == page))
    }

    fn free_buffer(&mut self) -> usize {
        self.writers.recent_alloc += 1;
        if !self.free.is_empty() {
            return self.free.remove(0);
        }
        loop {
            let at = self.hand;
            self.hand = (at + 1) % self.buffers.len();
            self.writers.hand_steps += 1;
            let Some(buffer) = self.buffers[at].as_mut() else {
                assert!(!self.settings.has_free_list, "no buffer is free");
                return at;
            };
            if buffer.usage == 0 {
                self.counts.evictions += 1;
                self.counts.single_page_writes += u64::from(buffer.is_dirty);
                return at;
            }
            buffer.usage -= 1;
        }
    }

    fn table(&self, page: u32) -> Option<usize> {
        let has = |table: &LargeTable| page >= table.first_page && page - table.first_page < table.pages;
        self.settings.large_tables.iter().position(has)
    }

    /// Returns how many of the last gets of a history are each near the previous one, four at most. Four make a scan.
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

    /// Notes a get; returns its session and table if it belongs to a scan.
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
            self.buffers[at] = Some(Buffer { page: access.page, usage: 1, is_dirty: false, is_needed: false });
        }
        found.is_some()
    }

    /// Removes a ring's next slot; returns its buffer if the ring may use it again, and counts the eviction.
    fn take_from_ring(&mut self, scan: (u16, usize)) -> Option<usize> {
        let empty = || vec![None; self.settings.ring_buffers as usize].into();
        let next = self.rings.entry(scan).or_insert_with(empty).pop_front().expect("a ring has a slot");
        let unused = !self.settings.has_free_list;
        let usable = next.filter(|&at| self.buffers[at].map_or(unused, |buffer| buffer.usage <= 1));
        self.counts.evictions += u64::from(usable.is_some_and(|at| self.buffers[at].is_some()));
        self.counts.ring_reuses += u64::from(usable.is_some());
        let left = usable.and_then(|at| self.buffers[at]);
        self.counts.single_page_writes += u64::from(left.is_some_and(|buffer| buffer.is_dirty));
        usable
    }

    /// Does the due rounds of the writer and the due checks of the checkpointer, in the order of time.
    fn write(&mut self, now_us: u64) {
        let Some(WriteRules { background_writer, checkpoints, .. }) = self.settings.writes.clone() else { return };
        loop {
            let round_us = (self.writers.rounds + 1) * background_writer.bgwriter_delay_us;
            let look_us = (self.writers.looks + 1) * 100_000;
            if round_us.min(look_us) > now_us {
                return;
            }
            if round_us <= look_us {
                self.writers.rounds += 1;
                self.bg_buffer_sync(&background_writer);
            } else {
                self.writers.looks += 1;
                self.checkpoint(&checkpoints, look_us);
            }
        }
    }

    /// Does what bufmgr.c's `BgBufferSync` does.
    fn bg_buffer_sync(&mut self, rules: &BackgroundWriterRules) {
        let (frames, writers) = (self.buffers.len() as i64, &mut self.writers);
        let recent_alloc = std::mem::take(&mut writers.recent_alloc);
        if rules.bgwriter_lru_maxpages == 0 {
            writers.has_run = false;
            return;
        }
        let strategy_delta = if writers.has_run { writers.hand_steps - writers.hand_steps_before } else { 0 };
        if !writers.has_run || writers.clean_steps < writers.hand_steps {
            writers.clean_steps = writers.hand_steps;
        }
        let bufs_ahead = writers.clean_steps - writers.hand_steps;
        let bufs_to_lap = frames - bufs_ahead;
        (writers.hand_steps_before, writers.has_run) = (writers.hand_steps, true);
        if strategy_delta > 0 && recent_alloc > 0 {
            let scans_per_alloc = strategy_delta as f32 / recent_alloc as f32;
            writers.smoothed_density += (scans_per_alloc - writers.smoothed_density) / 16.0;
        }
        let reusable_est = (bufs_ahead as f64 / f64::from(writers.smoothed_density)) as i64;
        if writers.smoothed_alloc <= recent_alloc as f32 {
            writers.smoothed_alloc = recent_alloc as f32;
        } else {
            writers.smoothed_alloc += (recent_alloc as f32 - writers.smoothed_alloc) / 16.0;
        }
        let mut upcoming = (f64::from(writers.smoothed_alloc) * rules.bgwriter_lru_multiplier) as i64;
        if upcoming == 0 {
            writers.smoothed_alloc = 0.0;
        }
        let min_scan = (frames as f32 / (120_000.0 / (rules.bgwriter_delay_us as f32 / 1000.0))) as i64;
        if upcoming < min_scan + reusable_est {
            upcoming = min_scan + reusable_est;
        }
        let (mut to_scan, mut reusable, mut written) = (bufs_to_lap, reusable_est, 0);
        while to_scan > 0 && reusable < upcoming {
            let buffer = &mut self.buffers[(writers.clean_steps % frames) as usize];
            writers.clean_steps += 1;
            to_scan -= 1;
            let is_reusable = buffer.is_none_or(|buffer| buffer.usage == 0);
            reusable += i64::from(is_reusable);
            if let Some(buffer) = buffer.as_mut().filter(|buffer| is_reusable && buffer.is_dirty) {
                (buffer.is_dirty, buffer.is_needed) = (false, false);
                self.counts.lru_writes += 1;
                written += 1;
                if written >= rules.bgwriter_lru_maxpages {
                    break;
                }
            }
        }
        if bufs_to_lap > to_scan && reusable > reusable_est {
            let scans_per_alloc = (bufs_to_lap - to_scan) as f32 / (reusable - reusable_est) as f32;
            writers.smoothed_density += (scans_per_alloc - writers.smoothed_density) / 16.0;
        }
    }

    /// Does what bufmgr.c's `BufferSync` and checkpointer.c's `IsCheckpointOnSchedule` do.
    fn checkpoint(&mut self, rules: &CheckpointRules, now_us: u64) {
        let writers = &mut self.writers;
        let passed = |(began_us, began): (u64, u64)| (now_us - began_us, writers.log_bytes - began);
        let (us, log_bytes) = passed(writers.began);
        let is_due = us >= rules.checkpoint_timeout_us || log_bytes >= rules.bytes_to_checkpoint;
        if writers.left.is_empty() && is_due {
            writers.began = (now_us, writers.log_bytes);
            writers.logged.clear();
            let dirty = self.buffers.iter_mut().flatten().filter(|buffer| buffer.is_dirty);
            let mut pages: Vec<u32> = dirty
                .map(|buffer| {
                    buffer.is_needed = true;
                    buffer.page
                })
                .collect();
            pages.sort_unstable();
            (writers.all, writers.left) = (pages.len(), pages.into());
        }
        let (us, log_bytes) = (now_us - writers.began.0, writers.log_bytes - writers.began.1);
        while let Some(page) = writers.left.pop_front() {
            let found = self.buffers.iter_mut().flatten().find(|buffer| buffer.page == page);
            if let Some(buffer) = found.filter(|buffer| buffer.is_needed) {
                (buffer.is_dirty, buffer.is_needed) = (false, false);
                self.counts.checkpoint_writes += 1;
            }
            let done = (writers.all - writers.left.len()) as f64 / writers.all as f64;
            let progress = done * rules.checkpoint_completion_target;
            let by_log = log_bytes as f64 / rules.bytes_between as f64;
            if progress >= by_log && progress >= us as f64 / rules.checkpoint_timeout_us as f64 {
                return;
            }
        }
    }
}

impl Naive {
    /// For a get with the mark of a change or a hint, does what an event of kind dirty does.
    fn marked(&mut self, access: Access) {
        let change = access.latch & latch::CHANGED != 0;
        if change || access.latch & latch::HINTED != 0 {
            self.dirty(Access { latch: if change { 1 } else { 2 }, ..access });
        }
    }
}

impl Manager for Naive {
    fn hear(&mut self, kind: Kind, access: Access) {
        if matches!(kind, Kind::Read | Kind::Evict | Kind::Write) {
            return;
        }
        self.write(access.now_us);
        match kind {
            Kind::Get => {
                self.get(access);
                self.marked(access);
            }
            Kind::Create => {
                self.create(access);
                self.marked(access);
            }
            Kind::GetIfInPool => self.get_if_in_pool(access),
            Kind::Prefetch => self.prefetch(access),
            Kind::Drop => self.drop_page(access),
            _ => self.dirty(access),
        }
    }

    fn dirty(&mut self, access: Access) {
        if let Some(WriteRules { log, .. }) = &self.settings.writes {
            if access.latch % 4 != 2 {
                let is_first = self.writers.logged.insert(access.page);
                self.writers.log_bytes += log.change_bytes + if is_first { log.image_bytes } else { 0 };
                self.counts.page_images += u64::from(is_first);
            }
            if let Some(at) = self.find(access.page) {
                self.buffers[at].as_mut().expect("just found").is_dirty = true;
            }
        }
    }

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
        if !self.pin(access, None) {
            self.counts.creates += 1;
            self.writers.logged.insert(access.page);
        }
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
        let settings = PostgresSettings { ring_buffers: 1, has_free_list, ..PostgresSettings::default() };
        let (mut fast, mut naive) =
            (Postgres::new(frames(size), pages, &settings), Naive::new(size, &settings));
        Events::random(seed, pages, 0, 300).play_to_both(&mut fast, &mut naive, |pool| pool.frames_used() <= size);
    }

    /// Plays changes among other events, with all rules of writing. The reads must equal those of a pool without
    /// writes.
    #[test]
    fn dirty_pages_are_written_as_the_servers_processes_do_and_change_no_read(
        seed: u64,
        size in 1u32..60,
        pages in 1u32..90,
        maxpages in prop_oneof![Just(0u32), 1u32..4, Just(100u32)],
        multiplier in prop_oneof![Just(0.0), Just(2.0), 0.0..10.0],
        delay_us in 10_000u64..400_000,
        timeout_us in 100_000u64..3_000_000,
        target in prop_oneof![Just(0.0), Just(0.9), 0.0..1.0],
        between in prop_oneof![(1u64..20_000, 1u64..20_000), Just((1 << 40, 1 << 40))],
        log in (0u64..200, prop_oneof![Just(0u64), Just(1000)]),
        has_free_list: bool,
    ) {
        let background_writer = BackgroundWriterRules {
            bgwriter_delay_us: delay_us,
            bgwriter_lru_maxpages: maxpages,
            bgwriter_lru_multiplier: multiplier,
        };
        let checkpoints = CheckpointRules {
            checkpoint_timeout_us: timeout_us,
            checkpoint_completion_target: target,
            bytes_to_checkpoint: between.0,
            bytes_between: between.1,
        };
        let log = LogRules { change_bytes: log.0, image_bytes: log.1 };
        let large_tables = vec![LargeTable { first_page: 20, pages: 30, had_rings: true }];
        let writes = Some(WriteRules { background_writer, checkpoints, log });
        let settings = PostgresSettings { large_tables, ring_buffers: 2.min(size), has_free_list, writes };
        let mut events = Events::random(seed, pages, 0, 500);
        events.latch.iter_mut().step_by(7).for_each(|latch| *latch = 9);
        for (latch, mark) in events.latch.iter_mut().zip([0, 0, 32, 64, 96].into_iter().cycle()) {
            *latch |= mark;
        }
        let (mut fast, mut naive) =
            (Postgres::new(frames(size), pages, &settings), Naive::new(size, &settings));
        events.play_to_both(&mut fast, &mut naive, |pool| pool.frames_used() <= size);
        let mut clean = Postgres::new(frames(size), pages, &PostgresSettings { writes: None, ..settings });
        let mut again = Naive::new(size, &PostgresSettings { writes: None, ..naive.settings.clone() });
        events.play_to_both(&mut clean, &mut again, |pool| pool.frames_used() <= size);
        let of = fast.counts();
        let without = Counts { lru_writes: 0, single_page_writes: 0, checkpoint_writes: 0, page_images: 0, ..of };
        prop_assert_eq!(clean.counts(), without);
    }

    /// Plays scans of two tables among other events, by four sessions and with every mark that a trace may have.
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
        let settings = PostgresSettings { large_tables, ring_buffers, has_free_list, writes: None };
        let mut events = Events::random(seed, 80, 0, 200);
        for (row, latch) in events.latch.iter_mut().enumerate() {
            *latch = [0, 1, 2, 5, 6, 9, 10, 13, 14][((seed % 9) as usize + row * 7) % 9];
        }
        for (number, &(thread, first, pages, step, told)) in scans.iter().enumerate() {
            let place = number * events.page.len() / scans.len();
            for page in 0..pages {
                // Now and then place another event of the mix between two gets of the scan.
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
