//! The listeners of generated accesses: several pools at once, and a census of pages by table and index.

use std::ops::Range;

use bufferlab_model::trace::{Access, Kind};
use bufferlab_sim::{Counts, Manager};
use serde::Serialize;

use crate::run::{ByType, TYPES};
use crate::shares::Shares;

/// The pages of one table, index or other object of the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Object {
    /// The name that a page trace has for it.
    pub name: String,
    /// Its first page.
    pub first_page: u32,
    /// Pages that the object has after the load.
    pub pages: u32,
    /// Pages for which it has numbers: the object grows into them.
    pub room: u32,
}

/// The objects of a database, with dense numbers of pages.
#[derive(Debug, Default)]
pub struct Objects {
    objects: Vec<Object>,
    next: u32,
}

impl Objects {
    /// Adds an object of so many pages that may grow to `room`; returns its first page.
    pub fn add(&mut self, name: &str, pages: u32, room: u32) -> u32 {
        let first_page = self.next;
        let room = room.max(pages);
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

/// Transactions within which the census counts distinct pages.
pub const SPANS: [u64; 3] = [50, 500, 2000];

/// What the leaves of an object, or its pages above them, were asked for, over the census.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tally {
    /// Gets and creations, by the transaction's type.
    gets: [u64; TYPES],
    /// Distinct pages, by the transaction's type.
    pages: [u64; TYPES],
    /// Distinct pages of the spans under way.
    current: [u64; SPANS.len()],
    /// Distinct pages of each span, summed over the spans of [`SPANS`] that ended.
    distinct: [u64; SPANS.len()],
}

/// The bit of a page above the leaves of a B-tree; those below it are of the types of transactions that wanted the page.
const INTERIOR: u8 = 1 << TYPES;

/// A count of gets and distinct pages of each object.
struct Census {
    starts: Vec<u32>,
    /// Of each object its leaves, and its pages above them.
    tallies: Vec<[Tally; 2]>,
    /// For each page the last span, counted from one, in which it was wanted.
    seen: Vec<[u32; SPANS.len()]>,
    /// For each page its level, and who wanted it.
    flags: Vec<u8>,
    span: [u32; SPANS.len()],
    spans_done: [u64; SPANS.len()],
    transactions: u64,
}

impl Census {
    fn hear(&mut self, page: u32, transaction_type: usize) {
        let object = self.starts.partition_point(|&start| start <= page) - 1;
        let flags = &mut self.flags[page as usize];
        let tally = &mut self.tallies[object][usize::from(*flags & INTERIOR != 0)];
        tally.gets[transaction_type] += 1;
        tally.pages[transaction_type] += u64::from(*flags & 1 << transaction_type == 0);
        *flags |= 1 << transaction_type;
        let seen = &mut self.seen[page as usize];
        for (place, last) in seen.iter_mut().enumerate() {
            if *last != self.span[place] {
                *last = self.span[place];
                tally.current[place] += 1;
            }
        }
    }

    fn transaction(&mut self) {
        self.transactions += 1;
        for (place, span) in SPANS.iter().enumerate() {
            if self.transactions.is_multiple_of(*span) {
                for tally in self.tallies.iter_mut().flatten() {
                    tally.distinct[place] += std::mem::take(&mut tally.current[place]);
                }
                self.span[place] += 1;
                self.spans_done[place] += 1;
            }
        }
    }

    /// Returns what some pages were asked for, by the tallies of their levels.
    fn wanted(&self, levels: &[Tally]) -> Wanted {
        let per = |count: u64, of: u64| (of > 0).then(|| count as f64 / of as f64);
        let sum = |of: &dyn Fn(&Tally) -> u64| levels.iter().map(of).sum::<u64>();
        let gets_by_type = std::array::from_fn(|place| sum(&|tally| tally.gets[place]));
        let gets_per_transaction = per(gets_by_type.iter().sum(), self.transactions).unwrap_or(0.0);
        let distinct = std::array::from_fn(|place| per(sum(&|tally| tally.distinct[place]), self.spans_done[place]));
        let pages_by_type = std::array::from_fn(|place| sum(&|tally| tally.pages[place]));
        Wanted { gets_per_transaction, distinct, gets_by_type, pages_by_type }
    }
}

/// What some pages were asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wanted {
    /// Gets and creations for each transaction.
    pub gets_per_transaction: f64,
    /// Mean of distinct pages in each of [`SPANS`] transactions; none where no span of that length ended.
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
    /// All of its pages.
    #[serde(flatten)]
    pub all: Wanted,
    /// Those above the leaves of a B-tree.
    pub interior: Wanted,
}

/// The pools that are played one share of the pages: the shares, this one's number, and the pools.
pub type PoolsOfShare = (Shares, u32, Vec<Box<dyn Manager + Send>>);

/// Shares of one size, and of each that is played its number and where its pools stand.
type Rate = (Shares, Vec<(u32, Range<usize>)>);

/// Several pools and a clock. Each access goes to all pools of the page's share.
pub struct Pools {
    pools: Vec<Box<dyn Manager + Send>>,
    rates: Vec<Rate>,
    census: Option<Census>,
    gets: u64,
    creates: u64,
    thread: u16,
    now_us: u64,
    transaction_type: usize,
    is_full: bool,
}

impl Pools {
    /// Makes pools that are played all pages, without a census.
    pub fn new(pools: Vec<Box<dyn Manager + Send>>) -> Self {
        Pools::of_shares(vec![(Shares::ALL, 0, pools)])
    }

    /// Makes pools that are each played a share of the pages, without a census. Shares of one size must be neighbours.
    pub fn of_shares(all: Vec<PoolsOfShare>) -> Self {
        let (mut pools, mut rates) = (Vec::new(), Vec::<Rate>::new());
        for (shares, number, own) in all {
            let place = pools.len()..pools.len() + own.len();
            pools.extend(own);
            match rates.last_mut().filter(|(before, _)| *before == shares) {
                Some((_, members)) => members.push((number, place)),
                None => rates.push((shares, vec![(number, place)])),
            }
        }
        let (census, thread, now_us, transaction_type) = (None, 0, 0, 0);
        Pools { pools, rates, census, gets: 0, creates: 0, thread, now_us, transaction_type, is_full: false }
    }

    /// Begins to count the pages of each object; `interior` are those above the leaves of B-trees.
    pub fn begin_census(&mut self, objects: &Objects, interior: &[u32]) {
        let mut flags = vec![0; objects.pages() as usize];
        interior.iter().for_each(|&page| flags[page as usize] = INTERIOR);
        self.census = Some(Census {
            starts: objects.all().iter().map(|object| object.first_page).collect(),
            tallies: vec![[Tally::default(); 2]; objects.all().len()],
            seen: vec![[0; SPANS.len()]; objects.pages() as usize],
            flags,
            span: [1; SPANS.len()],
            spans_done: [0; SPANS.len()],
            transactions: 0,
        });
    }

    /// Hears that a page is above the leaves from now on.
    pub fn mark_interior(&mut self, page: u32) {
        if let Some(census) = &mut self.census {
            census.flags[page as usize] |= INTERIOR;
        }
    }

    /// Ends the census; returns it, empty if none was begun.
    pub fn end_census(&mut self, objects: &Objects) -> Vec<Counted> {
        let Some(census) = self.census.take() else { return Vec::new() };
        let counted = |(object, levels): (&Object, &[Tally; 2])| Counted {
            name: object.name.clone(),
            all: census.wanted(levels),
            interior: census.wanted(&levels[1..]),
        };
        objects.all().iter().zip(&census.tallies).map(counted).collect()
    }

    /// Hears that the next accesses are of another connection, at another time, in a transaction of this type.
    pub fn turn(&mut self, thread: u16, now_us: u64, transaction_type: usize) {
        (self.thread, self.now_us, self.transaction_type) = (thread, now_us, transaction_type);
    }

    /// Returns the connection whose accesses come.
    pub fn thread(&self) -> u16 {
        self.thread
    }

    /// Hears that a transaction has ended.
    pub fn transaction_done(&mut self) {
        if let Some(census) = &mut self.census {
            census.transaction();
        }
    }

    /// Wants a page.
    #[inline]
    pub fn get(&mut self, page: u32, latch: u8) {
        self.gets += 1;
        self.hear(Kind::Get, page, latch);
    }

    /// Makes a page.
    pub fn create(&mut self, page: u32) {
        self.creates += 1;
        self.hear(Kind::Create, page, 0);
    }

    /// Makes a page above the leaves.
    pub fn create_interior(&mut self, page: u32) {
        self.mark_interior(page);
        self.create(page);
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
            let access = Access { page, thread: self.thread, latch, now_us: self.now_us };
            for (_, place) in members.iter().filter(|&&(number, _)| number == share) {
                self.pools[place.clone()].iter_mut().for_each(|pool| pool.hear(kind, access));
            }
        }
    }

    /// Hears that the numbers of an object's pages, or of a district's orders, are used up: the run is worth nothing.
    #[cold]
    pub fn fill(&mut self) {
        self.is_full = true;
    }

    /// Returns whether some numbers are used up.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns the gets so far.
    pub fn gets(&self) -> u64 {
        self.gets
    }

    /// Returns the number of pools.
    pub fn len(&self) -> usize {
        self.pools.len()
    }

    /// Returns whether there is no pool.
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// Returns what a pool did so far.
    pub fn counts(&self, pool: usize) -> Counts {
        self.pools[pool].counts()
    }

    /// Returns how many frames of a pool hold a page.
    pub fn frames_used(&self, pool: usize) -> u32 {
        self.pools[pool].frames_used()
    }
}
