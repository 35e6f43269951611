//! InnoDB's flush list (`buf_pool->flush_list`): the dirty pages, ordered by the redo position at which each became
//! dirty (buf0flu.cc, `buf_flush_insert_into_flush_list`).
//!
//! The redo position counts changes: accesses under an exclusive latch. On MySQL 5.7.22 the number of these accesses is
//! within 0.8 % of the server's `Innodb_buffer_pool_write_requests` (TPC-C, 9 warehouses). So within a run a change
//! stands for a constant number of redo bytes.

use serde::{Deserialize, Serialize};

use crate::managers::list::PageList;
use crate::replay::OneIn;

/// The largest age that the oldest dirty page may have, in changes, over the course of a run. Each step has the number
/// of a change, and the age that applies from this change on. The first age applies before its change, too.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Vec<(u32, u32)>", into = "Vec<(u32, u32)>")]
pub struct AgeCourse {
    steps: Vec<(u32, u32)>,
    /// The index of the step that applied at the last call of `at`.
    now: usize,
}

impl From<Vec<(u32, u32)>> for AgeCourse {
    fn from(steps: Vec<(u32, u32)>) -> Self {
        AgeCourse { steps, now: 0 }
    }
}

impl From<AgeCourse> for Vec<(u32, u32)> {
    fn from(course: AgeCourse) -> Self {
        course.steps
    }
}

impl AgeCourse {
    /// Refuses a course without steps, or with steps whose changes are not in order.
    pub fn check(&self) -> Result<(), String> {
        let is_sorted = self.steps.is_sorted_by_key(|&(change, _)| change);
        let refused = || "flush_age has steps of changes in order, at least one".to_owned();
        (is_sorted && !self.steps.is_empty()).then_some(()).ok_or_else(refused)
    }

    /// Adapts the course to a sample: a pool that gets only a share of the pages, and so of their changes.
    pub fn sample(&mut self, one_in: OneIn) {
        self.steps.iter_mut().for_each(|(change, age)| (*change, *age) = (one_in.of(*change), one_in.of(*age)));
    }

    /// Returns the largest age allowed at a change. The caller guarantees that the number of the change never
    /// decreases.
    pub fn at(&mut self, change: u32) -> u32 {
        while self.steps.get(self.now + 1).is_some_and(|&(from, _)| from <= change) {
            self.now += 1;
        }
        self.steps[self.now].1
    }
}

/// The dirty pages of a pool.
pub struct FlushList {
    /// The pages, in the order in which they became dirty, the latest first. Each has the position of the change that
    /// made it dirty (`oldest_modification`).
    list: PageList<u32>,
    /// The number of changes so far. It wraps around, so the code compares only differences of positions.
    position: u32,
}

impl FlushList {
    /// Makes an empty list for pages `0..pages`.
    pub fn new(pages: u32) -> Self {
        FlushList { list: PageList::new(pages), position: 0 }
    }

    /// Returns the number of changes so far.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// Returns the number of dirty pages.
    pub fn len(&self) -> u32 {
        self.list.len()
    }

    /// Returns whether the page is dirty.
    pub fn contains(&self, page: u32) -> bool {
        self.list.contains(page)
    }

    /// Notes a change of the page, which is dirty from then on.
    #[inline]
    pub fn change(&mut self, page: u32) {
        self.position = self.position.wrapping_add(1);
        if !self.list.contains(page) {
            self.list.push_newest(page);
            self.list[page] = self.position;
        }
    }

    /// Removes a page that was written, or that left the pool. Does nothing if the page is clean.
    pub fn remove(&mut self, page: u32) {
        if self.list.contains(page) {
            self.list.remove(page);
        }
    }

    /// Returns the number of pages that became dirty within `changes` changes after the oldest did.
    pub fn as_old(&self, changes: f64) -> u32 {
        let Some((mut page, _)) = self.oldest() else { return 0 };
        let first = self.list[page];
        for counted in 0..self.len() {
            if f64::from(self.list[page].wrapping_sub(first)) > changes {
                return counted;
            }
            if counted + 1 < self.len() {
                page = self.list.newer(page);
            }
        }
        self.len()
    }

    /// Returns the page that has been dirty for longest, and the number of changes since then (the age of the
    /// checkpoint that the server could make); none if no page is dirty.
    pub fn oldest(&self) -> Option<(u32, u32)> {
        (self.list.len() > 0).then(|| {
            let page = self.list.oldest();
            (page, self.position.wrapping_sub(self.list[page]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{AgeCourse, FlushList};

    #[test]
    fn an_age_holds_from_its_change_on_and_the_first_one_before() {
        let mut course = AgeCourse::from(vec![(10, 5), (20, 7), (20, 8), (30, 2)]);
        assert_eq!([0, 10, 19, 20, 29, 30, 99].map(|change| course.at(change)), [5, 5, 5, 8, 8, 2, 2]);
        assert!(course.check().is_ok());
        assert!(AgeCourse::from(vec![]).check().is_err() && AgeCourse::from(vec![(2, 1), (1, 1)]).check().is_err());
    }

    #[test]
    fn a_page_keeps_the_position_of_its_first_change_until_it_is_written() {
        let mut list = FlushList::new(10);
        assert_eq!(list.oldest(), None);
        [4, 2, 4, 4].into_iter().for_each(|page| list.change(page));
        assert_eq!((list.len(), list.oldest()), (2, Some((4, 3))));
        list.remove(4);
        list.remove(4);
        assert_eq!((list.contains(4), list.oldest()), (false, Some((2, 2))));
        list.change(4);
        assert_eq!((list.len(), list.oldest()), (2, Some((2, 3))));
    }
}
