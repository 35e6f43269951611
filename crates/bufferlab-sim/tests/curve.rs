//! Compares the fast stack with a list that the test searches from its front, and with a replay of each pool size.

use std::collections::{HashSet, VecDeque};

use bufferlab_model::trace::Kind;
use bufferlab_sim::{Curve, PageStack, TooManyPages};
use proptest::prelude::*;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A naive LRU stack: pages, the newest first. A page's distance is its place in the list.
#[derive(Default)]
struct List(Vec<u32>);

impl List {
    fn access(&mut self, page: u32) -> Option<u32> {
        let place = self.0.iter().position(|&other| other == page);
        if let Some(place) = place {
            self.0.remove(place);
        }
        self.0.insert(0, page);
        place.map(|place| place as u32 + 1)
    }
}

/// Returns the number of misses of one LRU pool, by replay.
fn replay(accesses: &[u32], pool_pages: usize) -> u64 {
    let mut pool = VecDeque::new();
    let mut misses = 0;
    for &page in accesses {
        if let Some(place) = pool.iter().position(|&other| other == page) {
            pool.remove(place);
        } else {
            misses += 1;
        }
        pool.push_front(page);
        pool.truncate(pool_pages);
    }
    misses
}

/// Returns accesses with skewed pages: each is the smaller of two draws.
fn skewed(seed: u64, pages: u32, accesses: usize) -> Vec<u32> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..accesses).map(|_| (random.next_u32() % pages).min(random.next_u32() % pages)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn distances_are_those_of_a_list(accesses in prop::collection::vec(0u32..40, 0..300)) {
        let (mut stack, mut list) = (PageStack::new(40).expect("few pages"), List::default());
        for page in accesses {
            prop_assert_eq!(stack.access(page), list.access(page));
        }
    }
}

#[test]
fn distances_stay_right_over_compactions_and_every_level_of_counts() {
    // 20,000 pages have 98,304 slots: 130,000 accesses compact them once, and distances reach over three groups.
    let pages = 20_000;
    let (mut stack, mut list) = (PageStack::new(u64::from(pages)).expect("few pages"), List::default());
    for (number, page) in skewed(7, pages, 130_000).into_iter().enumerate() {
        let distance = stack.access(page);
        if number % 16 == 0 || number > 129_000 {
            assert_eq!(distance, list.access(page), "access {number}");
        } else {
            list.access(page);
        }
    }
}

#[test]
fn the_curve_is_the_replay_of_each_size() {
    let accesses = skewed(11, 500, 20_000);
    let mut curve = Curve::new(500, 0..500).expect("few pages");
    curve.feed(&accesses, &vec![Kind::Get as u8; accesses.len()], 0);
    let misses = curve.misses();
    for pool_pages in [1, 2, 3, 10, 50, 200, 499, 500] {
        assert_eq!(misses[pool_pages], replay(&accesses, pool_pages), "{pool_pages} pages");
    }
    assert_eq!(misses[0], 20_000, "a pool of no pages misses everything");
    let touched: HashSet<_> = accesses.iter().collect();
    assert_eq!(misses[500], touched.len() as u64, "a pool of all pages misses each page once");
    assert!(misses.is_sorted_by(|small, large| small >= large), "misses fall with size");
}

#[test]
fn accesses_before_the_window_warm_the_pool_and_do_not_count() {
    let mut curve = Curve::new(4, 0..4).expect("few pages");
    let [get, create] = [Kind::Get as u8, Kind::Create as u8];
    curve.feed(&[0, 1, 2, 2], &[get; 4], 3);
    curve.feed(&[0, 3], &[get, create], 0);
    assert_eq!(curve.misses(), [2, 1, 1, 0, 0]);
}

#[test]
fn a_page_that_had_to_leave_is_missed_by_every_pool() {
    let mut curve = Curve::new(2, 0..2).expect("few pages");
    let [get, drop] = [Kind::Get as u8, Kind::Drop as u8];
    curve.feed(&[0, 0, 0, 0, 1, 0], &[get, get, drop, get, get, get], 0);
    // First accesses and the third access miss everywhere; the last has distance 2.
    assert_eq!(curve.misses(), [5, 4, 3]);
}

#[test]
fn pages_that_are_not_counted_warm_the_pool() {
    let mut curve = Curve::new(3, 1..2).expect("few pages");
    curve.feed(&[1, 0, 2, 1, 0], &[Kind::Get as u8; 5], 0);
    assert_eq!(curve.misses(), [2, 2, 2, 1]);
}

#[test]
fn a_page_that_was_made_or_looked_at_after_its_drop_is_in_the_pool() {
    let [get, look, create, drop] = [Kind::Get, Kind::GetIfInPool, Kind::Create, Kind::Drop].map(|kind| kind as u8);
    for touch in [look, create] {
        let mut curve = Curve::new(1, 0..1).expect("few pages");
        curve.feed(&[0; 5], &[get, drop, touch, get, get], 0);
        assert_eq!(curve.misses(), [3, 1]);
    }
}

#[test]
fn a_stack_of_no_pages_is_empty_and_one_of_too_many_is_refused() {
    assert_eq!(Curve::new(0, 0..0).expect("no page").misses(), [0]);
    assert_eq!(PageStack::new(1 << 40).err(), Some(TooManyPages(1 << 40)));
}
