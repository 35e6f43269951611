//! Compares `lru` and `sqlite` with vectors, the newest page first, and `lru` with the curve.

mod strings;

use bufferlab_model::trace::{Access, Kind};
use bufferlab_sim::{Counts, Curve, Lru, Manager, Model, NoSettings, Sqlite, replay};
use proptest::prelude::*;

use strings::{Events, frames};

/// Pages in the pool, and whether their frame has content.
struct Naive {
    frames: usize,
    newest_first: Vec<(u32, bool)>,
    /// Whether the list follows the rules of `lru`; otherwise it follows those of SQLite's pool.
    yardstick: bool,
    counts: Counts,
}

impl Naive {
    fn new(frames: u32, yardstick: bool) -> Self {
        Naive { frames: frames as usize, newest_first: Vec::new(), yardstick, counts: Counts::default() }
    }

    fn has(&self, page: u32) -> bool {
        self.newest_first.contains(&(page, true))
    }

    fn touch(&mut self, page: u32) {
        self.newest_first.retain(|&(other, _)| other != page);
        self.newest_first.insert(0, (page, true));
        self.counts.evictions += u64::from(self.newest_first.len() > self.frames);
        self.newest_first.truncate(self.frames);
    }
}

impl Manager for Naive {
    fn get(&mut self, access: Access) {
        self.counts.misses += u64::from(!self.has(access.page));
        self.touch(access.page);
    }

    fn get_if_in_pool(&mut self, access: Access) {
        if self.yardstick || self.has(access.page) {
            self.touch(access.page);
        }
    }

    fn create(&mut self, access: Access) {
        self.counts.creates += u64::from(!self.has(access.page));
        self.touch(access.page);
    }

    fn prefetch(&mut self, _access: Access) {}

    fn drop_page(&mut self, access: Access) {
        if !self.yardstick {
            self.newest_first.retain(|&(page, _)| page != access.page);
        }
        for (page, content) in &mut self.newest_first {
            *content &= *page != access.page;
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn frames_used(&self) -> u32 {
        self.newest_first.len() as u32
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn both_do_what_a_vector_does(seed: u64, size in 1u32..40, pages in 1u32..60) {
        let events = Events::random(seed, pages, 0, 300);
        let none = NoSettings {};
        let full = |manager: &dyn Manager| manager.frames_used() <= size;
        events.play_to_both(&mut Lru::new(frames(size), pages, &none), &mut Naive::new(size, true), |lru| full(lru));
        events.play_to_both(&mut Sqlite::new(frames(size), pages, &none), &mut Naive::new(size, false), |pool| full(pool));
    }

    #[test]
    fn lru_misses_what_the_curve_says_at_every_size(seed: u64, pages in 1u32..60) {
        let events = Events::random(seed, pages, 0, 300);
        let mut curve = Curve::new(pages, 0..pages).expect("few pages");
        curve.feed(&events.page, &events.kind, 0);
        let lru = |size| Lru::new(frames(size), pages, &NoSettings {});
        let misses: Vec<_> = (1..=pages).map(|size| events.counts(lru(size)).misses).collect();
        prop_assert_eq!(&misses[..], &curve.misses()[1..]);
        prop_assert!(misses.is_sorted_by(|small, large| small >= large), "reads fall with size");
    }
}

#[test]
fn a_pool_of_nine_frames_is_a_stock_cache_of_size_ten() {
    // Vector P8 of the project's specification of SQLite.
    let page: Vec<u32> = (1..=20).chain(12..=20).chain((0..50).map(|index| 30 + index % 10)).collect();
    let events = Events {
        kind: vec![Kind::Get as u8; 79],
        latch: vec![0; 79],
        thread: vec![0; 79],
        delta_us: vec![0; 79],
        page,
    };
    let misses =
        |window| replay(&mut Sqlite::new(frames(9), 40, &NoSettings {}), &events.columns(), 0, window).counts.misses;
    assert_eq!([misses(0..20), misses(20..29), misses(29..79)], [20, 0, 50]);
}

#[test]
fn the_frame_of_a_dropped_page_is_free_at_once_in_sqlite_and_not_in_the_yardstick() {
    let events = Events {
        page: vec![0, 1, 1, 2, 0],
        kind: [Kind::Get, Kind::Get, Kind::Drop, Kind::Get, Kind::Get].map(|kind| kind as u8).to_vec(),
        latch: vec![0; 5],
        thread: vec![0; 5],
        delta_us: vec![0; 5],
    };
    assert_eq!(events.counts(Sqlite::new(frames(2), 3, &NoSettings {})).misses, 3);
    assert_eq!(events.counts(Lru::new(frames(2), 3, &NoSettings {})).misses, 4);
}

#[test]
#[should_panic(expected = "the columns differ in length")]
fn columns_of_unlike_length_are_refused() {
    let events =
        Events { page: vec![0, 1], kind: vec![0, 0], latch: vec![0, 0], thread: vec![0], delta_us: vec![0, 0] };
    events.counts(Lru::new(frames(1), 2, &NoSettings {}));
}

#[test]
fn events_before_the_window_fill_the_pool_and_do_not_count() {
    let events = Events {
        page: vec![0, 1, 2, 0, 1, 2],
        kind: vec![0, 0, 0, 0, 1, 0],
        latch: vec![0; 6],
        thread: vec![0; 6],
        delta_us: vec![0; 6],
    };
    let seen = replay(&mut Sqlite::new(frames(2), 3, &NoSettings {}), &events.columns(), 1, 2..5);
    assert_eq!((seen.gets, seen.gets_if_in_pool, seen.frames_used), (2, 1, 2));
    assert_eq!(seen.counts, Counts { misses: 2, evictions: 2, ..Counts::default() });
    assert_eq!(seen.brought_in_since_start, 3, "the first of four came before the load");
}
