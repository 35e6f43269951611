//! Compares the ghost list with a list that the test searches from its front, and with larger pools of LRU. Also
//! compares slices of a replay with replays that end at the same rows.

mod strings;

use bufferlab_model::trace::{Columns, Kind, latch};
use bufferlab_sim::{BY_RING, Depths, Lru, MODELS, Model, NoSettings, PageStack, TooManyPages};
use bufferlab_sim::{Manager, ghost_depths, replay_slices};
use proptest::prelude::*;

use strings::{Events, frames};

/// Returns the depths, from a vector of pages in the order of their evictions, the last first, and a list of all
/// earlier reads.
fn naive_depths(columns: &Columns, ring_reads: u32) -> Depths {
    let (mut list, mut found) = (Vec::<u32>::new(), Depths::default());
    let mut reads: Vec<(u16, u32, u8)> = Vec::new();
    let mut by_ring = Vec::<u32>::new();
    for row in 0..columns.page.len() {
        let (page, thread, latch) = (columns.page[row], columns.thread[row], columns.latch[row]);
        found.len.push(list.len() as u32);
        let place = list.iter().position(|&other| other == page);
        let mut depth = 0;
        match Kind::of(columns.kind[row]) {
            Some(Kind::Read) => {
                depth = place.map_or(0, |place| place as u32 + 1);
                if by_ring.contains(&page) {
                    depth = BY_RING;
                }
                reads.push((thread, page, latch));
            }
            Some(Kind::Evict) => {
                let last = reads.iter().rposition(|&(_, other, _)| other == page);
                let left_by_ring = last.is_some_and(|last| {
                    let (by, _, latch) = reads[last];
                    let since = reads[last + 1..].iter().filter(|&&(other, ..)| other == thread).count();
                    by == thread && latch & latch::RING != latch::NO_RING && since < ring_reads as usize
                });
                by_ring.retain(|&other| other != page);
                if left_by_ring || latch & latch::LEFT_BY_RING != 0 {
                    by_ring.push(page);
                } else {
                    list.retain(|&other| other != page);
                    list.insert(0, page);
                }
                found.depth.push(0);
                continue;
            }
            // A page's earlier reads do not count once the page is created again.
            Some(Kind::Create) => reads.iter_mut().filter(|read| read.1 == page).for_each(|read| read.1 = u32::MAX),
            _ => {
                found.depth.push(0);
                continue;
            }
        }
        list.retain(|&other| other != page);
        by_ring.retain(|&other| other != page);
        found.depth.push(depth);
    }
    found
}

fn events(rows: &[(u32, u8, u16, u8)]) -> Events {
    Events {
        page: rows.iter().map(|row| row.0).collect(),
        kind: rows.iter().map(|row| row.1).collect(),
        latch: rows.iter().map(|row| row.3).collect(),
        thread: rows.iter().map(|row| row.2).collect(),
        delta_us: vec![1; rows.len()],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn depths_are_those_of_a_list(
        rows in prop::collection::vec((0u32..20, 0u8..8, 0u16..3, prop::sample::select(vec![0u8, 5, 9, 13, 20])), 0..200),
        ring_reads in 0u32..5,
    ) {
        let events = events(&rows);
        let columns = events.columns();
        prop_assert_eq!(ghost_depths(&columns, ring_reads).expect("few pages"), naive_depths(&columns, ring_reads));
    }

    /// Checks that the reads and evictions of LRU with `small` frames give the exact misses of larger pools.
    #[test]
    fn a_ghost_list_of_lru_is_every_larger_pool(
        pages in prop::collection::vec(0u32..60, 0..400),
        small in 1u32..30,
        more in 1u32..40,
    ) {
        let misses_of = |size: u32| {
            let mut pool = Lru::new(frames(size), 60, &NoSettings {});
            let get = |&page| pool.get(bufferlab_model::trace::Access { page, thread: 0, latch: 0, now_us: 0 });
            pages.iter().for_each(get);
            pool.counts().misses
        };
        // The reads and evictions of the small pool.
        let (mut pool, mut told) = (Vec::<u32>::new(), Vec::new());
        for &page in &pages {
            match pool.iter().position(|&other| other == page) {
                Some(place) => drop(pool.remove(place)),
                None => {
                    // In this trace the read comes before the eviction. A server frees the frame before the read, so
                    // its depths are larger by one.
                    told.push((page, Kind::Read as u8, 0, 0));
                    if pool.len() == small as usize {
                        told.push((pool.pop().expect("it is full"), Kind::Evict as u8, 0, 0));
                    }
                }
            }
            pool.insert(0, page);
        }
        let told = events(&told);
        let found = ghost_depths(&told.columns(), 0).expect("few pages");
        let spared = found.depth.iter().filter(|&&depth| (1..=more).contains(&depth)).count() as u64;
        prop_assert_eq!(misses_of(small) - spared, misses_of(small + more));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_slice_is_a_replay_up_to_its_end_of_every_model(seed: u64, size in 1u32..200) {
        let events = Events::random(seed, 300, 50, 1000);
        let (columns, ends) = (events.columns(), [0, 1, 400, 400, 1050]);
        for model in MODELS {
            // Settings that follow from a server's version and tables have no default.
            let mut settings = (model.defaults)();
            match model.name {
                "innodb57" => settings["wakes_cleaner"] = true.into(),
                "postgres" => settings = serde_json::json!({"large_tables": [], "ring_buffers": 1}),
                _ => {}
            }
            let settings = settings.to_string();
            let slices = replay_slices(model.name, &settings, size, &columns, &ends).expect("it can be");
            for (slice, end) in slices.iter().zip(ends) {
                let whole = (model.replay)(&settings, size, &columns, 0, 0..end, &mut |_| true).expect("it can be");
                let told = (slice.counts, slice.frames_used);
                prop_assert_eq!(told, (whole.counts, whole.frames_used), "{} up to {}", model.name, end);
            }
        }
    }
}

#[test]
fn depths_stay_right_over_compactions() {
    // 10,000 pages have 65,536 slots: 200,000 evictions compact them thrice.
    let mut list = PageStack::new(10_000).expect("few pages");
    let mut naive = std::collections::VecDeque::<u32>::new();
    let mut random = 1_u64;
    for step in 0..200_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let page = (random >> 40) as u32 % 10_000;
        if step % 1000 == 0 {
            let place = naive.iter().position(|&other| other == page);
            assert_eq!(list.take(page), place.map(|place| place as u32 + 1), "step {step}");
            naive.retain(|&other| other != page);
        } else if naive.len() < 2000 || step > 199_000 {
            list.access(page);
            naive.retain(|&other| other != page);
            naive.push_front(page);
        } else {
            // The newest page is evicted again: it stays at the head, and uses up another slot.
            let newest = *naive.front().expect("it has pages");
            list.access(newest);
        }
        assert_eq!((list.len() as usize, list.is_empty()), (naive.len(), naive.is_empty()));
    }
}

#[test]
fn what_cannot_be_is_refused() {
    assert_eq!(PageStack::new(1 << 40).err(), Some(TooManyPages(1 << 40)));
    let events = Events::random(1, 9, 0, 10);
    let slices = |manager, settings, size, ends: &[usize]| {
        replay_slices(manager, settings, size, &events.columns(), ends).unwrap_err().to_string()
    };
    assert!(slices("lru", "{}", 1, &[5, 4]).contains("order"));
    assert!(slices("lru", "{}", 1, &[11]).contains("order"));
    assert!(slices("fifo", "{}", 1, &[]).contains("no manager fifo"));
    assert!(slices("lru", "{\"depth\": 1}", 1, &[]).contains("settings"));
    assert!(slices("lru", "{}", 0, &[]).contains("frames"));
}
