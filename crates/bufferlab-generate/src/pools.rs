//! The receivers of generated accesses: several pools at once, and a census of pages by table and index.

use std::ops::Range;

use bufferlab_model::trace::{Access, Kind, latch};
use bufferlab_sim::{Counts, Manager};
use bufferlab_workload::tpcc::TRANSACTION_TYPES;
use serde::Serialize;

use crate::page_shares::Shares;

/// The most types of transactions that a workload has: TPC-C's.
pub(crate) const TYPES: usize = TRANSACTION_TYPES.len();
/// A number for each type of transaction, in the order of the workload's own list.
pub type ByType = [u64; TYPES];

/// The pages of one table, index or other object of the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Object {
    /// The object's name in page traces.
    pub name: String,
    /// The number of the object's first page.
    pub first_page: u32,
    /// Pages that the object has after the load.
    pub pages: u32,
    /// The number of pages that the object may grow to; each of them has a number from the start.
    pub room: u32,
}

/// The objects of a database. Their pages are numbered from 0 on, with numbers left for growth.
#[derive(Debug, Default)]
pub struct Objects {
    objects: Vec<Object>,
    next: u32,
}

impl Objects {
    /// Adds an object of `pages` pages that may grow to `room`; returns its first page.
    pub fn add(&mut self, name: &str, pages: u32, room: u32) -> u32 {
        let first_page = self.next;
        let room = room.max(pages);
        assert!(
            first_page.checked_add(room).is_some(),
            "{name} needs {room} pages, and {first_page} have numbers already"
        );
        debug_assert!(self.objects.iter().all(|object| object.name != name), "there is an object {name} already");
        self.objects.push(Object { name: name.to_owned(), first_page, pages, room });
        self.next += room;
        first_page
    }

    /// Returns the number of pages that have a number.
    pub fn pages(&self) -> u32 {
        self.next
    }

    /// Returns all objects, in the order of their pages.
    pub fn all(&self) -> &[Object] {
        &self.objects
    }
}

/// The lengths of the stretches in which the census counts distinct pages, in transactions.
pub const SPANS: [u64; 3] = [50, 500, 2000];
/// The most accesses that a census keeps; the first accesses of a longer window represent all.
const KEPT: usize = 1 << 24;

/// The census's counts for the leaves of an object, or for its pages above the leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tally {
    /// Number of gets and creations of pages, by the transaction's type.
    gets: [u64; TYPES],
    /// Number of distinct pages that transactions wanted, by the transaction's type.
    pages: [u64; TYPES],
}

/// The bit of a page above the leaves of a B-tree. The lower bits say which types of transactions wanted the page.
const INTERIOR: u8 = 1 << TYPES;

/// The counts of gets and of distinct pages of each object.
#[derive(Default)]
struct Census {
    starts: Vec<u32>,
    /// For each object, the counts of its leaves and of its pages above them.
    tallies: Vec<[Tally; 2]>,
    /// For each page, bits: its level, and the types of transactions that wanted it.
    flags: Vec<u8>,
    /// The page of each access, [`KEPT`] at most.
    accesses: Vec<u32>,
    all_accesses: u64,
    transactions: u64,
}

impl Census {
    fn hear(&mut self, page: u32, transaction_type: usize) {
        let object = self.object(page);
        debug_assert!(transaction_type < TYPES, "no workload has a transaction of type {transaction_type}");
        let flags = &mut self.flags[page as usize];
        let tally = &mut self.tallies[object][usize::from(*flags & INTERIOR != 0)];
        tally.gets[transaction_type] += 1;
        tally.pages[transaction_type] += u64::from(*flags & 1 << transaction_type == 0);
        *flags |= 1 << transaction_type;
        self.all_accesses += 1;
        if self.accesses.len() < KEPT {
            self.accesses.push(page);
        }
    }

    fn object(&self, page: u32) -> usize {
        self.starts.partition_point(|&start| start <= page) - 1
    }

    /// Returns, for each object, the mean number of distinct leaves and of distinct pages above them in `span`
    /// transactions. Returns none if the census has fewer transactions. It counts in stretches of as many accesses as
    /// `span` transactions have on average, because a page trace does not record where a transaction ends
    /// (python/bufferlab/report/comparison/touched_pages.py). Stretches of whole transactions vary in their number of
    /// Deliveries, and have up to 4 % fewer pages.
    fn distinct(&self, span: u64) -> Option<Vec<[f64; 2]>> {
        let length = span as f64 / self.transactions as f64 * self.all_accesses as f64;
        let stretches = (self.accesses.len() as f64 / length + 1e-9) as u32;
        if span > self.transactions || stretches == 0 {
            return None;
        }
        let edge = |stretch: u32| ((f64::from(stretch) * length).round() as usize).min(self.accesses.len());
        let mut last = vec![0; self.flags.len()];
        let mut distinct = vec![[0_u64; 2]; self.starts.len()];
        for stretch in 1..=stretches {
            for &page in &self.accesses[edge(stretch - 1)..edge(stretch)] {
                if std::mem::replace(&mut last[page as usize], stretch) != stretch {
                    distinct[self.object(page)][usize::from(self.flags[page as usize] & INTERIOR != 0)] += 1;
                }
            }
        }
        Some(distinct.into_iter().map(|levels| levels.map(|pages| pages as f64 / f64::from(stretches))).collect())
    }

    /// Returns the counts of an object's pages at some levels: 0 is the leaves, 1 the pages above. `distinct` has, for
    /// each of [`SPANS`], the distinct pages of all objects.
    fn wanted(&self, object: usize, levels: Range<usize>, distinct: &[Option<Vec<[f64; 2]>>; SPANS.len()]) -> Wanted {
        let own = &self.tallies[object][levels.clone()];
        let sum = |of: &dyn Fn(&Tally) -> u64| own.iter().map(of).sum::<u64>();
        let gets_by_type = std::array::from_fn(|place| sum(&|tally| tally.gets[place]));
        let all: u64 = gets_by_type.iter().sum();
        let gets_per_transaction = if self.transactions > 0 { all as f64 / self.transactions as f64 } else { 0.0 };
        let pages_by_type = std::array::from_fn(|place| sum(&|tally| tally.pages[place]));
        let distinct = std::array::from_fn(|span| {
            distinct[span].as_ref().map(|objects| objects[object][levels.clone()].iter().sum())
        });
        Wanted { gets_per_transaction, distinct, gets_by_type, pages_by_type }
    }
}

/// The counts of gets of some pages, and of the distinct pages among them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wanted {
    /// Mean number of gets and creations of a transaction of any type.
    pub gets_per_transaction: f64,
    /// Mean number of distinct pages in as many accesses as each of [`SPANS`] transactions has on average; none for a
    /// span that is longer than the census.
    pub distinct: [Option<f64>; SPANS.len()],
    /// Gets and creations by the transaction's type, in the order of the workload's own list.
    pub gets_by_type: ByType,
    /// Distinct pages that the transactions of each type wanted.
    pub pages_by_type: ByType,
}

/// The census of one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counted {
    /// The object's name.
    pub name: String,
    /// The counts of all pages of the object.
    #[serde(flatten)]
    pub all: Wanted,
    /// The counts of the pages above the leaves, if the object is a B-tree.
    pub interior: Wanted,
}

/// Pools that get only the accesses to one share of the pages: the shares' size, this share's number, and the pools.
pub type PoolsOfShare = (Shares, u32, Vec<Box<dyn Manager + Send>>);

/// Shares of one size: for each share that is played, its number and the positions of its pools.
type Rate = (Shares, Vec<(u32, Range<usize>)>);

/// A pool with the present time on its own clock.
struct Clocked {
    pool: Box<dyn Manager + Send>,
    /// The factor on times of the generator's clock: at 2 everything takes twice as long.
    time: f64,
    now_us: u64,
}

/// Several pools and a clock. Each access goes to all pools of the page's share.
#[derive(Default)]
pub struct Pools {
    pools: Vec<Clocked>,
    rates: Vec<Rate>,
    census: Option<Census>,
    gets: u64,
    changes: u64,
    /// The bits of a latch under which a get is a change.
    changing: u8,
    /// Whether the pools get changes and hints as events.
    marks: bool,
    thread: u16,
    now_us: u64,
    transaction_type: usize,
    is_full: bool,
}

impl Pools {
    /// Makes pools that get the accesses to all pages, without a census.
    pub fn new(pools: Vec<Box<dyn Manager + Send>>) -> Self {
        Pools::of_shares(vec![(Shares::ALL, 0, pools)])
    }

    /// Makes pools that each get only the accesses to one share of the pages, without a census. Shares of one size must
    /// be neighbours in `all`.
    pub fn of_shares(all: Vec<PoolsOfShare>) -> Self {
        let (mut pools, mut rates) = (Vec::new(), Vec::<Rate>::new());
        for (shares, number, own) in all {
            assert!(number < shares.one_in(), "one page in {} has no share {number}", shares.one_in());
            let place = pools.len()..pools.len() + own.len();
            pools.extend(own.into_iter().map(|pool| Clocked { pool, time: 1.0, now_us: 0 }));
            match rates.last_mut().filter(|(before, _)| *before == shares) {
                Some((_, members)) => members.push((number, place)),
                None => {
                    assert!(rates.iter().all(|(before, _)| *before != shares), "shares of one size are not neighbours");
                    rates.push((shares, vec![(number, place)]));
                }
            }
        }
        Pools { pools, rates, ..Pools::default() }
    }

    /// Gives each pool its own clock, on which everything takes `times` times as long.
    pub fn with_times(mut self, times: impl Iterator<Item = f64>) -> Self {
        self.pools.iter_mut().zip(times).for_each(|(pool, time)| pool.time = time);
        self
    }

    /// Counts a get as a change if its latch has one of the bits `changing`. If `marks` is true, passes changes and
    /// hints to the pools.
    pub fn with_changes(self, changing: u8, marks: bool) -> Self {
        Pools { changing, marks, ..self }
    }

    /// Begins to count the pages of each object; `interior` has the pages above the leaves of B-trees.
    pub fn begin_census(&mut self, objects: &Objects, interior: &[u32]) {
        assert!(self.census.is_none(), "a census is under way already");
        let mut flags = vec![0; objects.pages() as usize];
        interior.iter().for_each(|&page| flags[page as usize] = INTERIOR);
        self.census = Some(Census {
            starts: objects.all().iter().map(|object| object.first_page).collect(),
            tallies: vec![[Tally::default(); 2]; objects.all().len()],
            flags,
            ..Census::default()
        });
    }

    /// Notes that a page is above the leaves from now on.
    pub fn mark_interior(&mut self, page: u32) {
        if let Some(census) = &mut self.census {
            census.flags[page as usize] |= INTERIOR;
        }
    }

    /// Ends the census; returns it, empty if none was begun.
    pub fn end_census(&mut self, objects: &Objects) -> Vec<Counted> {
        let Some(census) = self.census.take() else { return Vec::new() };
        let gets = census.tallies.iter().flatten().flat_map(|tally| tally.gets).sum::<u64>();
        assert_eq!(gets, census.all_accesses, "each access of a census is of one object and one type");
        let distinct = SPANS.map(|span| census.distinct(span));
        let counted = |(place, object): (usize, &Object)| Counted {
            name: object.name.clone(),
            all: census.wanted(place, 0..2, &distinct),
            interior: census.wanted(place, 1..2, &distinct),
        };
        objects.all().iter().enumerate().map(counted).collect()
    }

    /// Notes the connection, the time and the type of transaction of the next accesses.
    pub fn turn(&mut self, thread: u16, now_us: u64, transaction_type: usize) {
        debug_assert!(now_us >= self.now_us, "the clock goes back from {} to {now_us} us", self.now_us);
        (self.thread, self.now_us, self.transaction_type) = (thread, now_us, transaction_type);
        for pool in &mut self.pools {
            pool.now_us = if pool.time == 1.0 { now_us } else { (now_us as f64 * pool.time) as u64 };
        }
    }

    /// Returns the connection of the next accesses.
    pub fn thread(&self) -> u16 {
        self.thread
    }

    /// Notes that a transaction has ended.
    pub fn transaction_done(&mut self) {
        if let Some(census) = &mut self.census {
            census.transactions += 1;
        }
    }

    /// Counts a get of a page, and passes it to the pools.
    #[inline]
    pub fn get(&mut self, page: u32, latch: u8) {
        self.gets += 1;
        self.changes += u64::from(latch & self.changing != 0);
        self.hear(Kind::Get, page, latch);
    }

    /// Passes the creation of a page to the pools.
    pub fn create(&mut self, page: u32) {
        self.changes += u64::from(self.changing != 0);
        self.hear(Kind::Create, page, 0);
    }

    /// Passes the creation of a page above the leaves to the pools.
    pub fn create_interior(&mut self, page: u32) {
        self.mark_interior(page);
        self.create(page);
    }

    /// Notes that a session changed a page, which is dirty from then on.
    #[inline]
    pub fn change(&mut self, page: u32) {
        self.changes += 1;
        if self.marks {
            self.play(Kind::Dirty, page, 0);
        }
    }

    /// Notes that a session set a hint in a page, which is dirty from then on; the log does not contain hints.
    #[inline]
    pub fn hint(&mut self, page: u32) {
        if self.marks {
            self.play(Kind::Dirty, page, latch::BY_HINT);
        }
    }

    /// Takes a page out of the pools.
    pub fn drop_page(&mut self, page: u32) {
        self.play(Kind::Drop, page, 0);
    }

    #[inline]
    fn hear(&mut self, kind: Kind, page: u32, latch: u8) {
        self.play(kind, page, latch);
        if let Some(census) = &mut self.census {
            census.hear(page, self.transaction_type);
        }
    }

    #[inline]
    fn play(&mut self, kind: Kind, page: u32, latch: u8) {
        for (shares, members) in &self.rates {
            let (share, page) = shares.of(page);
            debug_assert!(share < shares.one_in(), "one page in {} has no share {share}", shares.one_in());
            for (_, place) in members.iter().filter(|&&(number, _)| number == share) {
                for Clocked { pool, now_us, .. } in &mut self.pools[place.clone()] {
                    pool.hear(kind, Access { page, thread: self.thread, latch, now_us: *now_us });
                }
            }
        }
    }

    /// Notes that an object needs another page number or a district another order number, and none is left. The run is
    /// then invalid.
    #[cold]
    pub fn fill(&mut self) {
        self.is_full = true;
    }

    /// Returns whether an object has run out of page numbers, or a district out of order numbers.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns the number of gets since the pools were made, of pages in any share.
    pub fn gets(&self) -> u64 {
        self.gets
    }

    /// Returns the number of changes since the pools were made, of pages in any share: creations, and gets under a latch
    /// that allows a change.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the number of pools.
    pub fn count(&self) -> usize {
        self.pools.len()
    }

    /// Returns a pool's counts since it was made.
    pub fn counts(&self, pool: usize) -> Counts {
        self.pools[pool].pool.counts()
    }

    /// Returns how many frames of a pool hold a page.
    pub fn frames_used(&self, pool: usize) -> u32 {
        self.pools[pool].pool.frames_used()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the census of two objects of 100 pages each, after these accesses of transactions. The second object's
    /// first page is above its leaves.
    fn census(accesses: impl IntoIterator<Item = Vec<u32>>) -> Vec<Counted> {
        let mut objects = Objects::default();
        objects.add("one", 100, 100);
        objects.add("other", 100, 100);
        let mut pools = Pools::new(Vec::new());
        pools.begin_census(&objects, &[100]);
        for of_transaction in accesses {
            of_transaction.into_iter().for_each(|page| pools.get(page, 0));
            pools.transaction_done();
        }
        pools.end_census(&objects)
    }

    #[test]
    fn distinct_pages_are_those_of_stretches_of_equally_many_accesses() {
        // 100 transactions of one access, then 100 of three: 400 accesses, so 50 transactions have 100 on average.
        let page = |at: u32| if at.is_multiple_of(4) { 100 + at / 4 % 2 } else { at % 7 };
        let mut next = 0..;
        let transactions =
            (0..200).map(|number| next.by_ref().take(if number < 100 { 1 } else { 3 }).map(page).collect());
        let counted = census(transactions);
        let all: Vec<u32> = (0..400).map(page).collect();
        let mean = |of: Range<u32>| {
            let distinct = all.chunks(100).map(|stretch| {
                stretch.iter().filter(|page| of.contains(page)).collect::<std::collections::BTreeSet<_>>().len()
            });
            distinct.sum::<usize>() as f64 / 4.0
        };
        assert_eq!(counted[0].all.distinct, [Some(mean(0..100)), None, None]);
        assert_eq!(counted[1].all.distinct, [Some(mean(100..200)), None, None]);
        assert_eq!(counted[1].interior.distinct, [Some(mean(100..101)), None, None]);
        assert_eq!(counted[1].all.gets_per_transaction, 0.5);
    }

    #[test]
    fn a_census_that_is_shorter_than_a_span_does_not_tell_it() {
        assert_eq!(census((0..49).map(|_| vec![3]))[0].all.distinct, [None; 3]);
        assert_eq!(census((0..500).map(|_| vec![3, 4]))[0].all.distinct, [Some(2.0), Some(2.0), None]);
        assert_eq!(census([])[0].all.distinct, [None; 3]);
    }
}
