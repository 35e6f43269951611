//! Compares `innodb57` and `innodb1011` with a vector of pages, the head first, which the test searches and counts at
//! every step.

mod strings;

use bufferlab_model::trace::Access;
use bufferlab_sim::{
    AgeCourse, Counts, FlushRate, Innodb57, Innodb57Settings, Innodb1011, Innodb1011Settings, IoCapacity, Manager,
    Model, OneIn,
};
use proptest::prelude::*;

use strings::{Events, frames};

struct Page {
    number: u32,
    old: bool,
    /// The position of the change that made the page dirty.
    dirty_since: Option<u32>,
    first_access_ms: Option<u64>,
    clock: u64,
}

/// The rule that wakes the cleaner.
enum Cleaner {
    /// The clock wakes the cleaner of MySQL 5.6. In MySQL 5.7 a thread that finds no free frame and no clean page wakes
    /// it, too.
    Clock { round_us: u64, next_round_us: u64, threads_too: bool, neighbors: u32, flushing: Flushing },
    /// MariaDB 10.5: a thread that leaves few free frames wakes the cleaner to evict; the clock wakes it for the flush
    /// list.
    FewFrames { next_round_us: u64, neighbors: u32, flushing: Flushing },
}

/// The rules by which the cleaner writes from the flush list.
#[derive(Clone)]
struct Flushing {
    /// Pairs: the number of a change, and the largest allowed age from this change on.
    most_ages: Option<Vec<(u32, u32)>>,
    rate: Option<(f64, f64)>,
    io_capacity: Option<IoCapacity>,
    /// The position at the begin of each round of a cleaner with `io_capacity`, and the pages that the round wrote.
    rounds: Vec<(u32, f64)>,
    rest: f64,
    most_pct: Option<u32>,
}

struct Naive {
    frames: usize,
    depth: usize,
    ratio: usize,
    old_blocks_time_ms: u32,
    cleaner: Cleaner,
    one_in: f64,
    woken: bool,
    list: Vec<Page>,
    clock: u64,
    /// The number of changes.
    position: u32,
    counts: Counts,
}

impl Flushing {
    fn is_on(&self) -> bool {
        self.most_ages.is_some() || self.rate.is_some() || self.io_capacity.is_some() || self.most_pct.is_some()
    }
}

impl Naive {
    fn new(frames: u32, depth: u32, pct: u32, old_blocks_time_ms: u32, cleaner: Cleaner, one_in: f64) -> Self {
        let least = if matches!(cleaner, Cleaner::Clock { .. }) { depth.min(1) as usize } else { 0 };
        Naive {
            frames: frames as usize,
            depth: share(depth, one_in).max(least),
            ratio: (pct as usize * 1024 / 100).max(51),
            old_blocks_time_ms,
            cleaner,
            one_in,
            woken: false,
            list: Vec::new(),
            clock: 0,
            position: 0,
            counts: Counts::default(),
        }
    }

    /// Returns the share of a constant that a sample gets.
    fn share(&self, count: u32) -> usize {
        share(count, self.one_in)
    }

    fn free(&self) -> usize {
        self.frames - self.list.len()
    }

    fn find(&self, page: u32) -> Option<usize> {
        self.list.iter().position(|other| other.number == page)
    }

    fn first_old(&self) -> usize {
        self.list.iter().position(|page| page.old).unwrap_or(self.list.len())
    }

    fn adjust(&mut self) {
        let (target, tolerance) = target(self.list.len(), self.ratio, self.one_in);
        loop {
            let first_old = self.first_old();
            let old_len = self.list.len() - first_old;
            if old_len + tolerance < target {
                self.list[first_old - 1].old = true;
            } else if old_len > target + tolerance {
                self.list[first_old].old = false;
            } else {
                return;
            }
        }
    }

    fn add(&mut self, mut page: Page, old: bool) {
        page.old = old && self.list.len() >= self.share(512).max(2);
        if page.old {
            self.list.insert(self.first_old() + 1, page);
        } else {
            page.clock = self.clock;
            self.list.insert(0, page);
        }
        if self.list.len() == self.share(512).max(2) {
            self.list.iter_mut().for_each(|page| page.old = true);
        }
        if self.list.len() >= self.share(512).max(2) {
            self.adjust();
        }
    }

    fn remove(&mut self, place: usize) -> Page {
        if self.list.len() >= self.share(512).max(2) && place == self.first_old() {
            self.list[place - 1].old = true;
        }
        let page = self.list.remove(place);
        if self.list.len() >= self.share(512).max(2) {
            self.adjust();
        } else {
            self.list.iter_mut().for_each(|page| page.old = false);
        }
        page
    }

    fn lose(&mut self, place: usize) {
        self.remove(place);
        self.clock += 1;
    }

    fn evict(&mut self) {
        self.lose(self.list.len() - 1);
        self.counts.evictions += 1;
    }

    fn clean(&mut self, now_us: u64) {
        match &mut self.cleaner {
            Cleaner::Clock { round_us, next_round_us, neighbors, flushing, .. } => {
                let (neighbors, mut listed) = (*neighbors, flushing.clone());
                let timely = now_us >= *next_round_us;
                if timely {
                    *next_round_us = now_us + *round_us;
                }
                if std::mem::take(&mut self.woken) || timely {
                    self.batch(neighbors);
                }
                if timely {
                    self.flush(neighbors, &mut listed);
                    if let Cleaner::Clock { flushing, .. } = &mut self.cleaner {
                        *flushing = listed;
                    }
                }
            }
            Cleaner::FewFrames { next_round_us, neighbors, flushing } => {
                let (neighbors, mut listed) = (*neighbors, flushing.clone());
                let timely = now_us >= *next_round_us && flushing.is_on();
                if timely {
                    *next_round_us = now_us + 1_000_000;
                }
                let least = ((self.frames / 20).max(1) - 1).min(self.share(256));
                if std::mem::take(&mut self.woken) {
                    while self.free() < self.depth && self.list.len() > least {
                        self.write_and_evict();
                    }
                }
                if timely {
                    self.flush(neighbors, &mut listed);
                    if let Cleaner::FewFrames { flushing, .. } = &mut self.cleaner {
                        flushing.rest = listed.rest;
                    }
                }
            }
        }
    }

    /// Evicts the page at the tail, as MariaDB does: a dirty page is first written with its neighbours.
    fn write_and_evict(&mut self) {
        let Cleaner::FewFrames { neighbors, flushing, .. } = &self.cleaner else { unreachable!("of MariaDB alone") };
        let tail = self.list.last().expect("a page to evict");
        if flushing.is_on() && tail.dirty_since.is_some() {
            for page in self.with_neighbors(tail.number, *neighbors, usize::MAX, false) {
                let place = self.find(page).expect("it is in the list");
                self.list[place].dirty_since = None;
                self.counts.lru_writes += 1;
            }
        }
        self.evict();
    }

    /// Evicts a batch of pages, as MySQL 5.7 does.
    fn batch(&mut self, neighbors: u32) {
        let most = self.depth.min(self.list.len());
        let (mut taken, mut written) = (0, 0);
        // The frames of written pages become free once 120 pages are collected.
        while taken < most
            && self.free() - written % self.share(120).max(1) < self.depth
            && self.list.len() > self.share(256)
        {
            let tail = self.list.last().expect("more than a share of 256");
            if tail.dirty_since.is_none() {
                self.evict();
                taken += 1;
                continue;
            }
            for page in self.with_neighbors(tail.number, neighbors, most - written.min(most), true) {
                let place = self.find(page).expect("it is in the list");
                self.lose(place);
                self.counts.evictions += 1;
                self.counts.lru_writes += 1;
                (taken, written) = (taken + 1, written + 1);
            }
        }
    }

    /// Writes pages from the flush list, as the cleaner does once a second.
    fn flush(&mut self, neighbors: u32, flushing: &mut Flushing) {
        let first = self.list.iter().filter_map(|page| page.dirty_since).min();
        let by_age = flushing.rate.map(|(pages, at)| {
            let ages = first.map_or(0.0, |since| f64::from(self.position - since)) / at;
            pages * ages * ages.sqrt()
        });
        let by_share = flushing.io_capacity.map(|of| {
            let dirty: Vec<u32> = self.list.iter().filter_map(|page| page.dirty_since).collect();
            let pct = 100.0 * dirty.len() as f64 / (self.frames + 1) as f64;
            let share = if pct < of.least_dirty_pct { 0.0 } else { pct * 100.0 / (of.most_dirty_pct + 1.0) };
            // The means are of whole groups of 30 rounds, the latest with the weight of all groups before it.
            let begins: Vec<u32> = flushing.rounds.iter().map(|&(begin, _)| begin).chain([self.position]).collect();
            let (mut pages, mut changes) = (0.0, 0.0);
            for (number, group) in flushing.rounds.chunks_exact(30).enumerate() {
                let begin = if number == 0 { 0 } else { begins[30 * number] };
                pages = (pages + group.iter().map(|&(_, written)| written).sum::<f64>() / 30.0) / 2.0;
                changes = (changes + f64::from(begins[30 * number + 30] - begin) / 30.0) / 2.0;
            }
            let oldest = first.unwrap_or(0);
            let due = dirty.iter().filter(|&&since| f64::from(since - oldest) <= 3.0 * changes).count();
            ((of.pages * share / 100.0 + pages + due as f64 / 3.0) / 3.0).min(of.most_pages)
        });
        let begin = self.position;
        let larger = by_age.into_iter().chain(by_share).reduce(f64::max);
        let asked = larger.map_or(0.0, |pages| pages + flushing.rest);
        let before = self.counts.flush_list_writes;
        self.flush_asked(neighbors, flushing, asked);
        let written = (self.counts.flush_list_writes - before) as f64;
        flushing.rounds.push((begin, written));
        flushing.rest = if written >= asked { 0.0 } else { (asked - written).min(1.0) };
    }

    fn flush_asked(&mut self, neighbors: u32, flushing: &Flushing, asked: f64) {
        let before = self.counts.flush_list_writes;
        let most_age = flushing.most_ages.as_ref().map(|steps| {
            let begun = steps.iter().rev().find(|(change, _)| *change <= self.position);
            begun.unwrap_or(&steps[0]).1
        });
        loop {
            let dirty: Vec<(u32, u32)> =
                self.list.iter().filter_map(|page| Some((page.dirty_since?, page.number))).collect();
            let Some(&(since, oldest)) = dirty.iter().min() else { return };
            let too_old = most_age.is_some_and(|most| self.position - since > most);
            let too_many = flushing.most_pct.is_some_and(|most| 100 * dirty.len() >= most as usize * (self.frames + 1));
            let wanted = (self.counts.flush_list_writes - before) as f64 + 1.0 <= asked;
            if !too_old && !too_many && !wanted {
                return;
            }
            for page in self.with_neighbors(oldest, neighbors, usize::MAX, false) {
                let place = self.find(page).expect("it is in the list");
                self.list[place].dirty_since = None;
                self.counts.flush_list_writes += 1;
            }
        }
    }

    /// Returns a dirty page, and the neighbours that are written with it; `old_only` is whether neighbours must be old.
    fn with_neighbors(&self, page: u32, neighbors: u32, most: usize, old_only: bool) -> Vec<u32> {
        if neighbors == 0 || self.list.len() < self.share(512) {
            return vec![page];
        }
        let power = (0..).map(|bit| 1usize << bit).find(|&power| power >= self.frames / 32).expect("some power");
        let area = power.min(64).min(self.frames / 16).max(1) as u32;
        let dirty = |number: u32| {
            let fits = |page: &Page| page.dirty_since.is_some() && (page.old || !old_only);
            self.list.iter().any(|page| page.number == number && fits(page))
        };
        let extent: Vec<u32> = (page / area * area..(page / area + 1) * area).collect();
        let mut chosen: Vec<u32> = Vec::new();
        for &other in &extent {
            let between = other.min(page)..=other.max(page);
            let joined = neighbors == 2 || between.into_iter().all(|between| between == page || dirty(between));
            if other == page || joined && dirty(other) && chosen.len() < most {
                chosen.push(other);
            }
        }
        chosen
    }

    /// Leaves a free frame for a page that enters the list next.
    fn take_frame(&mut self) {
        let none_free = self.free() == 0;
        let mut none_clean = false;
        if none_free {
            let searched = match self.cleaner {
                Cleaner::Clock { threads_too: true, .. } => self.share(100).max(1),
                Cleaner::Clock { threads_too: false, .. } => self.depth.max(1),
                Cleaner::FewFrames { .. } => 0,
            };
            match self.list.iter().rev().take(searched).position(|page| page.dirty_since.is_none()) {
                Some(from_tail) => {
                    self.lose(self.list.len() - 1 - from_tail);
                    self.counts.evictions += 1;
                }
                None if matches!(self.cleaner, Cleaner::FewFrames { .. }) => self.write_and_evict(),
                None => {
                    none_clean = true;
                    self.counts.single_page_writes += 1;
                    self.evict();
                }
            }
        }
        self.woken |= match self.cleaner {
            Cleaner::Clock { threads_too, .. } => none_clean && threads_too,
            Cleaner::FewFrames { .. } => self.list.len() > self.share(256) && self.free() - 1 < self.depth / 2,
        };
    }

    fn admit(&mut self, page: u32, old: bool) {
        self.add(Page { number: page, old, dirty_since: None, first_access_ms: None, clock: 0 }, old);
    }

    fn access(&mut self, access: Access) {
        let (now_ms, place) = (access.now_us / 1000, self.find(access.page).expect("in the pool"));
        let first_ms = *self.list[place].first_access_ms.get_or_insert(now_ms);
        if access.latch == 2 || access.latch == 4 {
            self.position += 1;
            self.list[place].dirty_since.get_or_insert(self.position);
        }
        let page = &self.list[place];
        if self.clock == 0 {
            return;
        }
        let young = if page.old && self.old_blocks_time_ms > 0 {
            let over = now_ms - first_ms >= u64::from(self.old_blocks_time_ms);
            self.counts.not_made_young += u64::from(!over);
            over
        } else {
            self.clock >= page.clock + (self.frames * (1024 - self.ratio) / 4096) as u64
        };
        if young {
            self.counts.made_young += u64::from(page.old);
            let page = self.remove(place);
            self.add(page, false);
        }
    }
}

impl Manager for Naive {
    fn get(&mut self, access: Access) {
        self.clean(access.now_us);
        if self.find(access.page).is_none() {
            self.counts.misses += 1;
            self.take_frame();
            self.admit(access.page, true);
        }
        self.access(access);
    }

    fn get_if_in_pool(&mut self, access: Access) {
        self.clean(access.now_us);
        if self.find(access.page).is_some() {
            self.access(access);
        }
    }

    fn create(&mut self, access: Access) {
        self.clean(access.now_us);
        self.take_frame();
        if self.find(access.page).is_none() {
            self.counts.creates += 1;
            self.admit(access.page, false);
        }
        self.access(Access { latch: 2, ..access });
    }

    fn prefetch(&mut self, access: Access) {
        self.clean(access.now_us);
        if self.find(access.page).is_none() {
            self.counts.prefetch_reads += 1;
            self.take_frame();
            self.admit(access.page, true);
        }
    }

    fn drop_page(&mut self, access: Access) {
        self.clean(access.now_us);
        if let Some(place) = self.find(access.page) {
            self.lose(place);
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn frames_used(&self) -> u32 {
        self.list.len() as u32
    }
}

fn share(count: u32, one_in: f64) -> usize {
    (f64::from(count) / one_in).round() as usize
}

/// Returns how long the old sublist of a list should be, and by how much it may differ: at least one page is old, and
/// at least one is not.
fn target(len: usize, ratio: usize, one_in: f64) -> (usize, usize) {
    let tolerance = share(20, one_in);
    ((len * ratio / 1024).min(len - tolerance - share(5, one_in).max(1)).max(tolerance + 1), tolerance)
}

/// Returns whether a pool's invariants hold, judged by the lengths of its lists.
fn holds(size: u32, pct: u32, one_in: f64, [free_len, lru_len, old_len]: [u32; 3]) -> bool {
    let (len, old) = (lru_len as usize, old_len as usize);
    let sublist = if len < share(512, one_in).max(2) {
        old == 0
    } else {
        let (target, tolerance) = target(len, (pct as usize * 1024 / 100).max(51), one_in);
        (1..len).contains(&old) && old.abs_diff(target) <= tolerance
    };
    free_len + lru_len == size && sublist
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn both_generations_do_what_a_searched_vector_does(
        seed: u64,
        size in prop_oneof![1u32..300, 480u32..800],
        more_pages in 1u32..400,
        old_blocks_pct in prop::sample::select(vec![5, 37, 95]),
        old_blocks_time_ms in prop::sample::select(vec![0, 5, 1000, u32::MAX]),
        lru_scan_depth in prop_oneof![0u32..120, 400u32..900],
        flush_neighbors in 0u32..3,
        wakes_cleaner: bool,
        flush_age in prop::option::of(prop::collection::btree_map(0u32..400, 0u32..200, 1..4)),
        max_dirty_pages_pct in prop::option::of(0u32..60),
        rate in prop::option::of((0.0..20.0f64, 1.0..300.0f64)),
        io_capacity in prop::option::of((0.0..5000.0f64, 0.0..60.0f64, 0.0..20.0f64, 20.0..99.0f64, 0.01..2.0f64)),
        one_in in prop::sample::select(vec![1.0, 1.0, 1.5, 3.0, 9.0, 50.0, 700.0]),
    ) {
        let pages = size + more_pages;
        let events = Events::random(seed, pages, size.min(pages), 600);
        let sampled_one_in = OneIn::new(one_in);
        let steps: Option<Vec<(u32, u32)>> = flush_age.map(|steps| steps.into_iter().collect());
        let course = steps.clone().map(AgeCourse::from);
        let old = Innodb57Settings {
            old_blocks_pct, old_blocks_time_ms, lru_scan_depth, flush_neighbors, wakes_cleaner, flush_age: course,
            flush_rate: rate.map(|(pages, age_changes)| FlushRate { pages, age_changes }),
            io_capacity: io_capacity.map(|(pages, most_pages, least_dirty_pct, most_dirty_pct, speed)| IoCapacity {
                pages, most_pages, least_dirty_pct, most_dirty_pct, speed,
            }),
            max_dirty_pages_pct, sampled_one_in,
        };
        let mut fast = Innodb57::new(frames(size), pages, &old);
        let new = Innodb1011Settings {
            old_blocks_pct, old_blocks_time_ms, lru_scan_depth, flush_neighbors, flush_age: old.flush_age.clone(),
            flush_rate: old.flush_rate, max_dirty_pages_pct, sampled_one_in,
        };
        let flushing = Flushing {
            most_ages: steps, rate, io_capacity: old.io_capacity, rounds: vec![], rest: 0.0, most_pct: max_dirty_pages_pct,
        };
        let round_us = old.io_capacity.map_or(1_000_000, |of| (1e6 * of.speed) as u64);
        let few = Cleaner::FewFrames {
            next_round_us: 1_000_000, neighbors: flush_neighbors, flushing: Flushing { io_capacity: None, ..flushing.clone() },
        };
        let clock =
            Cleaner::Clock { round_us, next_round_us: round_us, threads_too: wakes_cleaner, neighbors: flush_neighbors, flushing };
        let mut naive = Naive::new(size, lru_scan_depth, old_blocks_pct, old_blocks_time_ms, clock, one_in);
        events.play_to_both(&mut fast, &mut naive, |pool| {
            holds(size, old_blocks_pct, one_in, [pool.free_len(), pool.lru_len(), pool.old_len()])
        });
        let mut fast = Innodb1011::new(frames(size), pages, &new);
        let mut naive = Naive::new(size, lru_scan_depth, old_blocks_pct, old_blocks_time_ms, few, one_in);
        events.play_to_both(&mut fast, &mut naive, |pool| {
            holds(size, old_blocks_pct, one_in, [pool.free_len(), pool.lru_len(), pool.old_len()])
        });
        // In this generation writes do not change reads.
        let clean = Innodb1011Settings { flush_age: None, flush_rate: None, max_dirty_pages_pct: None, ..new };
        let (mut clean, mut again) = (Innodb1011::new(frames(size), pages, &clean), Innodb1011::new(frames(size), pages, &clean));
        events.play_to_both(&mut clean, &mut again, |_| true);
        prop_assert_eq!(clean.counts(), Counts { lru_writes: 0, flush_list_writes: 0, ..fast.counts() });
    }
}
