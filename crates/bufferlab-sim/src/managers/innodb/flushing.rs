//! When the page cleaner writes pages of the flush list: because of their age, or because too many pages are dirty.
//!
//! A server finds the number of pages for each second from the age, the redo rate, the dirty pages and `io_capacity`
//! (buf0flu.cc, `page_cleaner_flush_pages_recommendation`, `af_get_pct_for_lsn`, `af_get_pct_for_dirty`), and so holds
//! an age that depends on the device and on the load's speed. The model takes this age as given.

use super::Pool;
use super::flush_list::{AgeCourse, FlushList};
use super::neighbors::Neighbors;

/// The limits up to which pages stay dirty.
pub struct Flushing {
    /// The largest age; none for any age.
    pub age: Option<AgeCourse>,
    /// The share of dirty pages from which on the oldest are written, in percent; none for any share.
    pub max_dirty_pages_pct: Option<u32>,
}

impl Flushing {
    /// Returns whether there is a limit.
    pub fn is_on(&self) -> bool {
        self.age.is_some() || self.max_dirty_pages_pct.is_some()
    }

    /// Writes the pages that have been dirty for longest, with their dirty neighbours if `any` may be written, until
    /// none is too old and there are not too many (buf0flu.cc, `buf_do_flush_list_batch`). The pages stay in the pool.
    pub fn batch(&mut self, pool: &mut Pool, neighbors: &Neighbors, any: bool) {
        let Some(position) = pool.flush_list.as_ref().map(FlushList::position) else { return };
        let most_age = self.age.as_mut().map(|course| course.at(position));
        while let Some(page) = self.overdue(pool, most_age) {
            let chosen = neighbors.of(page, u32::MAX, any, |page| pool.is_dirty(page));
            chosen.pages().iter().for_each(|&page| pool.clean(page));
            pool.counts.flush_list_writes += u64::from(chosen.len());
        }
    }

    /// Returns the page that has been dirty for longest if it must be written: it is older than `most_age` changes, or
    /// the pool has too many dirty pages (buf0buf.cc, `buf_get_modified_ratio_pct`).
    fn overdue(&self, pool: &Pool, most_age: Option<u32>) -> Option<u32> {
        let list = pool.flush_list.as_ref()?;
        let (page, age) = list.oldest()?;
        let is_old = most_age.is_some_and(|most| age > most);
        let share = u64::from(list.len()) * 100;
        let are_many = |most: u32| share >= u64::from(most) * (u64::from(pool.frames) + 1);
        (is_old || self.max_dirty_pages_pct.is_some_and(are_many)).then_some(page)
    }
}
