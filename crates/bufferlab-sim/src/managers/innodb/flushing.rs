//! When the page cleaner writes pages of the flush list: because of their age, or because too many pages are dirty.
//!
//! A server computes the number of pages for each second from the age, the redo rate, the dirty pages and `io_capacity`
//! (buf0flu.cc, `page_cleaner_flush_pages_recommendation`, `af_get_pct_for_lsn`, `af_get_pct_for_dirty`). So the age
//! settles at a value that depends on the load's speed. The model takes this age as given, or the pages for each second
//! at one age.

use serde::{Deserialize, Serialize};

use super::Pool;
use super::flush_list::AgeCourse;
use super::neighbors::Neighbors;
use crate::replay::OneIn;

/// The pages that adaptive flushing writes in a round, by the age of the oldest dirty page.
///
/// The number grows with the age to the power of 1.5 (buf0flu.cc, `af_get_pct_for_lsn`). In a steady state the other
/// terms of `page_cleaner_flush_pages_recommendation`, the mean rate and the pages by age, are the same number.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlushRate {
    /// The pages of a round at the age `age_changes`.
    pub pages: f64,
    /// An age, in changes; above 0.
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

/// The pages that the cleaner writes in a round because of the share of dirty pages (buf0flu.cc,
/// `af_get_pct_for_dirty`). In a steady state the other terms of `page_cleaner_flush_pages_recommendation` are the same
/// number.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirtyRate {
    /// The dirty pages, in percent of the pool, from which on the cleaner writes (`innodb_max_dirty_pages_pct_lwm`).
    pub from_pct: u32,
    /// The dirty pages, in percent of the pool, at which a round writes nearly `io_capacity` pages
    /// (`innodb_max_dirty_pages_pct`).
    pub most_pct: u32,
    /// Pages a second that the server takes the device to write (`innodb_io_capacity`).
    pub io_capacity: f64,
}

impl DirtyRate {
    /// Refuses numbers that no server has.
    pub fn check(&self) -> Result<(), String> {
        let fits = (1..=self.most_pct).contains(&self.from_pct) && (0.0..1e10).contains(&self.io_capacity);
        fits.then_some(()).ok_or_else(|| "dirty_rate has a share from 1 % to most_pct, and a capacity from 0 on".into())
    }

    /// Adapts the rate to a sample: a pool that gets only a share of the pages.
    pub fn sample(&mut self, one_in: OneIn) {
        self.io_capacity *= f64::from(one_in.of(1 << 20)) / f64::from(1 << 20);
    }

    /// Returns the pages of a round with `dirty` dirty pages among `frames` frames.
    fn at(&self, dirty: u32, frames: u32) -> f64 {
        let pct = 100.0 * f64::from(dirty) / (f64::from(frames) + 1.0);
        if pct < f64::from(self.from_pct) { 0.0 } else { self.io_capacity * pct / (f64::from(self.most_pct) + 1.0) }
    }
}

/// The limits that make the cleaner write dirty pages.
pub struct Flushing {
    /// The largest age of a dirty page; none for no limit.
    age: Option<AgeCourse>,
    /// The pages that each round writes; none if it writes only for the other limits.
    rate: Option<FlushRate>,
    /// The pages that each round writes because of the share of dirty pages; none if it does not look at the share.
    dirty_rate: Option<DirtyRate>,
    /// The fraction of a page that the rounds so far should have written in addition.
    rest: f64,
    /// The share of dirty pages, in percent, from which on the cleaner writes the oldest; none for no limit.
    max_dirty_pages_pct: Option<u32>,
}

impl Flushing {
    /// Returns the limits of a cleaner that has had no round yet.
    pub fn new(
        age: Option<&AgeCourse>,
        rate: Option<FlushRate>,
        dirty_rate: Option<DirtyRate>,
        max_dirty_pages_pct: Option<u32>,
    ) -> Self {
        Flushing { age: age.cloned(), rate, dirty_rate, rest: 0.0, max_dirty_pages_pct }
    }

    /// Returns whether there is a limit.
    pub fn is_on(&self) -> bool {
        self.age.is_some() || self.rate.is_some() || self.dirty_rate.is_some() || self.max_dirty_pages_pct.is_some()
    }

    /// Writes the pages that have been dirty for longest, and, if `any`, their dirty neighbours. Stops when the round
    /// has written its pages, no dirty page is too old, and their number is within its limit (buf0flu.cc,
    /// `buf_do_flush_list_batch`). The pages stay in the pool.
    pub fn batch(&mut self, pool: &mut Pool, neighbors: &Neighbors, any: bool) {
        let Some(list) = &pool.flush_list else { return };
        let most_age = self.age.as_mut().map(|course| course.at(list.position()));
        let oldest_age = list.oldest().map_or(0, |(_, age)| age);
        let by_age = self.rate.map_or(0.0, |rate| rate.at(oldest_age));
        let by_share = self.dirty_rate.map_or(0.0, |rate| rate.at(list.len(), pool.frames));
        let has_rate = self.rate.is_some() || self.dirty_rate.is_some();
        let asked = if has_rate { by_age.max(by_share) + self.rest } else { 0.0 };
        let mut written = 0;
        while let Some(page) = self.due(pool, most_age, f64::from(written) + 1.0 <= asked) {
            let chosen = neighbors.of(page, u32::MAX, any, |page| pool.is_dirty(page));
            chosen.pages().iter().for_each(|&page| pool.clean(page));
            written += chosen.len();
        }
        pool.counts.flush_list_writes += u64::from(written);
        // Neighbours beyond the round's pages do not make later rounds shorter.
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
