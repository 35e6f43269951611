//! Compares `opt` with every possible choice, on strings short enough to try all, and checks that no other manager
//! reads less.

mod strings;

use std::collections::HashMap;

use bufferlab_model::trace::Kind;
use bufferlab_sim::{
    Innodb57, Innodb57Settings, Innodb1011, Innodb1011Settings, Lru, Model, NoSettings, Opt, Postgres,
    PostgresSettings, Sqlite,
};
use proptest::prelude::*;

use strings::{Events, frames};

/// Returns the fewest reads. After each event it has, for every set of pages that the pool can hold (one bit for each
/// page), the fewest reads that lead to it.
fn fewest_reads(events: &Events, size: u32, pages: u32) -> u64 {
    let mut pools = HashMap::from([(0u32, 0u64)]);
    for (&page, &kind) in events.page.iter().zip(&events.kind) {
        let bit = 1 << page;
        let mut after = HashMap::new();
        for (pool, reads) in pools {
            // The sets of pages that the pool may hold after this event, each with its number of reads.
            let with = || {
                let shrunk = (0..pages).filter(|other| pool & 1 << other != 0).map(|other| pool & !(1 << other));
                let room = shrunk.chain([pool]).filter(|pool| pool.count_ones() < size);
                room.map(|pool| pool | bit).collect::<Vec<_>>()
            };
            let follow = match Kind::of(kind).expect("a kind") {
                Kind::Get if pool & bit == 0 => with().into_iter().map(|pool| (pool, reads + 1)).collect(),
                Kind::Create if pool & bit == 0 => with().into_iter().map(|pool| (pool, reads)).collect(),
                Kind::GetIfInPool if pool & bit == 0 => {
                    with().into_iter().chain([pool]).map(|pool| (pool, reads)).collect()
                }
                Kind::Prefetch if pool & bit == 0 => {
                    with().into_iter().map(|pool| (pool, reads + 1)).chain([(pool, reads)]).collect()
                }
                Kind::Drop => vec![(pool & !bit, reads)],
                _ => vec![(pool, reads)],
            };
            for (pool, reads) in follow {
                let fewest = after.entry(pool).or_insert(reads);
                *fewest = reads.min(*fewest);
            }
        }
        pools = after;
    }
    pools.into_values().min().expect("some pool")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn nobody_needs_fewer_reads(seed: u64, size in 1u32..4, pages in 1u32..7, length in 0usize..40) {
        let events = Events::random(seed, pages, 0, length);
        let reads = events.counts(Opt::new(frames(size), pages, &NoSettings {})).misses;
        prop_assert_eq!(reads, fewest_reads(&events, size, pages));
    }

    #[test]
    fn every_manager_reads_at_least_as_much(
        seed: u64,
        size in prop_oneof![1u32..60, 500u32..700],
        old_blocks_time_ms in prop::sample::select(vec![0, 2, 1000]),
        lru_scan_depth in 0u32..100,
    ) {
        let pages = size * 3 / 2;
        let events = Events::random(seed, pages, 0, 600);
        let floor = events.counts(Opt::new(frames(size), pages, &NoSettings {})).misses;
        let old = Innodb57Settings { old_blocks_time_ms, lru_scan_depth, ..Innodb57Settings::default() };
        let new = Innodb1011Settings { old_blocks_time_ms, lru_scan_depth, ..Innodb1011Settings::default() };
        let all = [
            events.counts(Lru::new(frames(size), pages, &NoSettings {})),
            events.counts(Sqlite::new(frames(size), pages, &NoSettings {})),
            events.counts(Postgres::new(frames(size), pages, &PostgresSettings::default())),
            events.counts(Innodb57::new(frames(size), pages, &old)),
            events.counts(Innodb1011::new(frames(size), pages, &new)),
        ];
        for counts in all {
            prop_assert!(floor <= counts.misses + counts.prefetch_reads, "{floor} against {counts:?}");
        }
    }
}

#[test]
fn of_three_pages_in_turn_two_frames_give_up_one_that_is_read_again() {
    let page = vec![0, 1, 2, 0, 1, 2];
    let events =
        Events { kind: vec![Kind::Get as u8; 6], latch: vec![0; 6], thread: vec![0; 6], delta_us: vec![0; 6], page };
    let counts = events.counts(Opt::new(frames(2), 3, &NoSettings {}));
    assert_eq!((counts.misses, counts.evictions), (4, 1));
}
