//! Decides when the page cleaner writes pages of the flush list: because of their age, or because too many pages are
//! dirty.
//!
//! A server computes the number of pages for each second from the age, the redo rate, the dirty pages and `io_capacity`
//! (buf0flu.cc, `page_cleaner_flush_pages_recommendation`, `af_get_pct_for_lsn`, `af_get_pct_for_dirty`). So the age
//! settles at a value that depends on the load's speed. The caller gives the model this age, or the number of pages a
//! second at one age.

use serde::{Deserialize, Serialize};

use super::Pool;
use super::flush_list::{AgeCourse, FlushList};
use super::neighbors::Neighbors;
use crate::replay::OneIn;

/// The rounds over which the cleaner averages its rates (`innodb_flushing_avg_loops`).
const LOOPS: u32 = 30;
/// The cleaner counts as due the pages that became dirty within this many rounds' mean number of changes after the
/// oldest one (buf0flu.cc, `buf_flush_lsn_scan_factor`).
const SCAN_FACTOR: f64 = 3.0;

/// The pages that adaptive flushing writes in a round, by the age of the oldest dirty page.
///
/// The number grows with the age to the power of 1.5 (buf0flu.cc, `af_get_pct_for_lsn`). In a steady state the other
/// two terms of `page_cleaner_flush_pages_recommendation`, the mean rate of writes and the number of old pages, equal
/// this number.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlushRate {
    /// The number of pages that a round writes if the oldest dirty page has the age `age_changes`.
    pub pages: f64,
    /// The age at which a round writes `pages` pages, in changes; above 0.
    pub age_changes: f64,
}

impl FlushRate {
    /// Refuses numbers that no server has.
    pub fn check(&self) -> Result<(), String> {
        let fits = (0.0..1e9).contains(&self.pages) && self.age_changes > 0.0 && self.age_changes.is_finite();
        fits.then_some(()).ok_or_else(|| "flush_rate has pages from 0 on, at an age above 0".to_owned())
    }

    /// Adapts the rate to a sample: a pool that gets only a share of the pages, and so of their changes.
    pub fn sample(&mut self, one_in: OneIn) {
        let share = f64::from(one_in.of(1 << 20)) / f64::from(1 << 20);
        (self.pages, self.age_changes) = (self.pages * share, self.age_changes * share);
    }

    fn at(&self, age: u32) -> f64 {
        let ages = f64::from(age) / self.age_changes;
        self.pages * ages * ages.sqrt()
    }
}

/// The settings by which the cleaner of a server computes each round's pages from the share of dirty pages (buf0flu.cc,
/// `page_cleaner_flush_pages_recommendation`, `af_get_pct_for_dirty`; in MySQL from 8.0.22 on `Adaptive_flush`). These
/// settings decide while no page is so old that adaptive flushing would write more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoCapacity {
    /// `innodb_io_capacity`.
    pub pages: f64,
    /// `innodb_io_capacity_max`.
    pub most_pages: f64,
    /// `innodb_max_dirty_pages_pct_lwm`: below this share of dirty pages the cleaner writes no page because of the
    /// share.
    pub least_dirty_pct: f64,
    /// `innodb_max_dirty_pages_pct`.
    pub most_dirty_pct: f64,
    /// The speed of the load, as a multiple of the traced load's speed; it is also the number of the trace's seconds
    /// between two rounds.
    pub speed: f64,
}

impl IoCapacity {
    /// Refuses numbers that no server has.
    pub fn check(&self) -> Result<(), String> {
        let numbers = [self.pages, self.most_pages, self.least_dirty_pct, self.most_dirty_pct];
        let fits = numbers.iter().all(|number| (0.0..=f64::from(u32::MAX)).contains(number))
            && (0.01..=100.0).contains(&self.speed);
        fits.then_some(()).ok_or_else(|| "io_capacity has numbers from 0 on, and a speed of 0.01 to 100".to_owned())
    }

    /// Adapts the settings to a sample: a pool that gets only a share of the pages, and so of their changes.
    pub fn sample(&mut self, one_in: OneIn) {
        let share = f64::from(one_in.of(1 << 20)) / f64::from(1 << 20);
        (self.pages, self.most_pages) = (self.pages * share, self.most_pages * share);
    }
}

/// The cleaner's settings, and its record of the rounds so far.
struct Rounds {
    settings: IoCapacity,
    /// The mean numbers of pages written and of changes in one round.
    mean_pages: f64,
    mean_changes: f64,
    /// The number of rounds since the means were last computed. The next two fields are the pages written since then,
    /// and the flush list's position at that time.
    rounds: u32,
    pages: u32,
    position: u32,
}

impl Rounds {
    fn new(settings: IoCapacity) -> Self {
        Rounds { settings, mean_pages: 0.0, mean_changes: 0.0, rounds: 0, pages: 0, position: 0 }
    }

    /// Returns the pages that a round writes.
    fn recommended(&mut self, pool: &Pool, list: &FlushList) -> f64 {
        if self.rounds >= LOOPS {
            let changes = f64::from(list.position().wrapping_sub(self.position));
            let loops = f64::from(LOOPS);
            self.mean_pages = f64::midpoint(self.mean_pages, f64::from(self.pages) / loops);
            self.mean_changes = f64::midpoint(self.mean_changes, changes / loops);
            (self.rounds, self.pages, self.position) = (0, 0, list.position());
        }
        self.rounds += 1;
        let of = &self.settings;
        let dirty_pct = 100.0 * f64::from(list.len()) / (1.0 + f64::from(pool.frames));
        let pct = if dirty_pct < of.least_dirty_pct { 0.0 } else { dirty_pct * 100.0 / (of.most_dirty_pct + 1.0) };
        let due = f64::from(list.as_old(self.mean_changes * SCAN_FACTOR)) / SCAN_FACTOR;
        ((of.pages * pct / 100.0 + self.mean_pages + due) / 3.0).min(of.most_pages)
    }
}

/// The limits that make the cleaner write dirty pages.
pub struct Flushing {
    /// The largest age of a dirty page; none for no limit.
    age: Option<AgeCourse>,
    /// The pages that each round writes; none if rounds write pages only because of the other limits.
    rate: Option<FlushRate>,
    /// The state of a cleaner that decides the pages of a round by the share of dirty pages; none for another cleaner.
    by_capacity: Option<Rounds>,
    /// The fraction of a page that rounding to whole pages has left unwritten so far.
    rest: f64,
    /// The share of dirty pages, in percent, from which on the cleaner writes the oldest; none for no limit.
    max_dirty_pages_pct: Option<u32>,
}

impl Flushing {
    /// Returns the limits of a cleaner that has had no round yet.
    pub fn new(
        age: Option<&AgeCourse>,
        rate: Option<FlushRate>,
        io_capacity: Option<IoCapacity>,
        max_dirty_pages_pct: Option<u32>,
    ) -> Self {
        let by_capacity = io_capacity.map(Rounds::new);
        Flushing { age: age.cloned(), rate, by_capacity, rest: 0.0, max_dirty_pages_pct }
    }

    /// Returns the time between two rounds of the cleaner: a second of the load, which may be faster than the trace's.
    pub fn round_us(&self, second_us: u64) -> u64 {
        self.by_capacity.as_ref().map_or(second_us, |rounds| (second_us as f64 * rounds.settings.speed) as u64)
    }

    /// Returns whether any limit makes the cleaner write from the flush list.
    pub fn is_on(&self) -> bool {
        self.age.is_some() || self.rate.is_some() || self.by_capacity.is_some() || self.max_dirty_pages_pct.is_some()
    }

    /// Writes the pages that have been dirty for longest, and, if `any`, their dirty neighbours. Stops when the round
    /// has written its pages, no dirty page is too old, and the number of dirty pages is within its limit (buf0flu.cc,
    /// `buf_do_flush_list_batch`). The pages stay in the pool.
    pub fn batch(&mut self, pool: &mut Pool, neighbors: &Neighbors, any: bool) {
        let Some(list) = &pool.flush_list else { return };
        let most_age = self.age.as_mut().map(|course| course.at(list.position()));
        let oldest_age = list.oldest().map_or(0, |(_, age)| age);
        let by_age = self.rate.map_or(0.0, |rate| rate.at(oldest_age));
        let by_share = self.by_capacity.as_mut().map_or(0.0, |rounds| rounds.recommended(pool, list));
        let has_rate = self.rate.is_some() || self.by_capacity.is_some();
        let asked = if has_rate { by_age.max(by_share) + self.rest } else { 0.0 };
        let mut written = 0;
        while let Some(page) = self.due(pool, most_age, f64::from(written) + 1.0 <= asked) {
            let chosen = neighbors.of(page, u32::MAX, any, |page| pool.is_dirty(page));
            chosen.pages().iter().for_each(|&page| pool.clean(page));
            written += chosen.len();
        }
        if let Some(rounds) = &mut self.by_capacity {
            rounds.pages += written;
        }
        pool.counts.flush_list_writes += u64::from(written);
        // If neighbours made the round write more pages than asked, later rounds do not write fewer.
        self.rest = (asked - f64::from(written)).clamp(0.0, 1.0);
    }

    /// Returns the page that has been dirty for longest, if it must be written: because the round wants more
    /// (`wanted`), the page is older than `most_age` changes, or the pool has too many dirty pages (buf0buf.cc,
    /// `buf_get_modified_ratio_pct`).
    fn due(&self, pool: &Pool, most_age: Option<u32>, wanted: bool) -> Option<u32> {
        let list = pool.flush_list.as_ref()?;
        let (page, age) = list.oldest()?;
        let is_old = most_age.is_some_and(|most| age > most);
        let share = u64::from(list.len()) * 100;
        let are_many = |most: u32| share >= u64::from(most) * (u64::from(pool.frames) + 1);
        (wanted || is_old || self.max_dirty_pages_pct.is_some_and(are_many)).then_some(page)
    }
}
