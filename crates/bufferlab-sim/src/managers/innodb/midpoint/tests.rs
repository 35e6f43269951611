//! Test vectors worked out by hand from InnoDB's source: section 11 of the project's specification of InnoDB. Pages are
//! numbered from 1 in the order of their reads.

use proptest::prelude::*;

use super::*;

fn list(frames: u32, settings: MidpointSettings) -> Midpoint {
    Midpoint::new(frames, 10_000, settings)
}

fn defaults() -> MidpointSettings {
    MidpointSettings { old_blocks_pct: 37, old_blocks_time_ms: 1000, sampled_one_in: OneIn::ONE }
}

/// Returns a list into which pages 1 to `count` were read, without an access.
fn read(count: u32) -> Midpoint {
    let mut lru = list(count, defaults());
    (1..=count).for_each(|page| lru.admit(page, true));
    lru
}

fn old_len_of(pct: u32, count: u32) -> u32 {
    let mut lru = list(count, MidpointSettings { old_blocks_pct: pct, ..defaults() });
    (1..=count).for_each(|page| lru.admit(page, true));
    lru.old_len
}

/// Accesses a page at a time of InnoDB's clock.
fn access(lru: &mut Midpoint, page: u32, ms: u64) {
    lru.access(page, (ms - 1) * 1000);
}

#[test]
fn vector_1_the_old_sublist_begins_at_512_pages() {
    let lru = read(511);
    assert_eq!((lru.list.newest(), lru.tail(), lru.old_len), (511, 1, 0));
    let lru = read(512);
    assert_eq!((lru.old_len, lru.first_old, lru.list.newest()), (209, 209, 512));
}

#[test]
fn vector_2_a_page_is_read_in_behind_the_first_old_page() {
    let lru = read(513);
    assert_eq!((lru.old_len, lru.first_old, lru.list[209].old), (209, 513, false));
    let lru = read(515);
    let around: Vec<_> = lru.list.iter().skip_while(|&page| page != 209).take(7).collect();
    assert_eq!(around, [209, 513, 514, 515, 208, 207, 206]);
    assert_eq!((lru.first_old, lru.old_len), (514, 210));
    assert!(!lru.list[513].old);
}

#[test]
fn vector_3_the_old_sublist_is_20_longer_than_its_target_after_reads_alone() {
    assert_eq!([600, 700, 1024].map(|count| old_len_of(37, count)), [241, 278, 398]);
    assert_eq!((old_len_of(5, 2000), old_len_of(95, 2000)), (119, 1918));
}

#[test]
fn vectors_4_and_5_an_old_page_is_made_young_when_its_time_is_over() {
    let mut lru = read(600);
    lru.freed_page_clock = 1;
    lru.list[1].first_access_ms = 1;
    access(&mut lru, 1, 500);
    assert_eq!((lru.not_made_young, lru.made_young, lru.tail()), (1, 0, 1));
    access(&mut lru, 1, 1001);
    assert_eq!((lru.not_made_young, lru.made_young), (1, 1));
    assert_eq!((lru.list.newest(), lru.tail(), lru.old_len, lru.list[1].freed_page_clock), (1, 2, 240, 1));
    let pointer = lru.first_old;
    for old_len in (210..240).rev() {
        let tail = lru.tail();
        lru.list[tail].first_access_ms = 1;
        access(&mut lru, tail, 1001);
        assert_eq!((lru.old_len, lru.first_old), (old_len, pointer));
    }
    assert_eq!(pointer, 600);
}

#[test]
fn vector_6_a_young_page_stays_where_it_is_for_a_quarter_of_the_young_part() {
    for (frames, evictions) in [(1024, 161), (2048, 323), (8192, 1292), (16384, 2584)] {
        let mut lru = list(frames, defaults());
        lru.freed_page_clock = 7;
        lru.admit(1, false);
        lru.admit(2, false);
        lru.freed_page_clock = 7 + evictions - 1;
        access(&mut lru, 1, 1);
        assert_eq!(lru.list.newest(), 2);
        lru.freed_page_clock = 7 + evictions;
        access(&mut lru, 1, 1);
        assert_eq!((lru.list.newest(), lru.made_young), (1, 0), "a young page's move is not counted");
    }
}

#[test]
fn vector_7_nothing_moves_before_the_first_eviction() {
    let mut lru = read(600);
    (1..=600).for_each(|page| access(&mut lru, page, 1));
    (1..=600).for_each(|page| access(&mut lru, page, 5000));
    assert_eq!((lru.made_young, lru.not_made_young, lru.tail()), (0, 0, 1));
}

/// Evicts the page at the tail and reads `page`, as a miss does in a full pool.
fn miss(lru: &mut Midpoint, page: u32) {
    lru.free(lru.tail());
    lru.admit(page, true);
    access(lru, page, 1);
}

#[test]
fn vector_8_a_scan_leaves_the_young_pages_alone() {
    let mut lru = read(1024);
    let head: Vec<_> = lru.list.iter().take(100).collect();
    (2000..7000).for_each(|page| miss(&mut lru, page));
    assert_eq!(lru.list.iter().take(100).collect::<Vec<_>>(), head);
    assert_eq!((lru.not_made_young, lru.made_young, lru.old_len), (5000, 0, 398));
    let scanned: Vec<_> = lru.list.iter().filter(|&page| page >= 2000).collect();
    assert_eq!((scanned.len(), scanned.iter().min()), (397, Some(&(2000 + 4603))));
}

#[test]
fn vector_9_promotions_keep_the_old_sublist_20_below_its_target() {
    let mut lru = read(1024);
    let mut next = 2000;
    for _ in 0..500 {
        for _ in 0..7 {
            miss(&mut lru, next);
            next += 1;
        }
        let tail = lru.tail();
        lru.make_young(tail);
    }
    assert_eq!(lru.old_len, 378 - 20);
}

#[test]
fn a_list_that_falls_below_512_pages_has_no_old_page() {
    let mut lru = read(512);
    lru.free(300);
    assert_eq!(lru.old_len, 0);
    assert!(lru.list.iter().all(|page| !lru.list[page].old));
}

proptest! {
    #[test]
    fn old_pages_are_the_last_of_the_list_and_about_as_many_as_they_should_be(
        one_in in prop::sample::select(vec![1.0, 16.0, 64.0]),
        old_blocks_pct in 5u32..=95,
        old_blocks_time_ms in prop::sample::select(vec![0, 5, u32::MAX]),
        steps in prop::collection::vec((0u32..900, 0..8), 0..1500),
    ) {
        let settings = MidpointSettings { old_blocks_pct, old_blocks_time_ms, sampled_one_in: OneIn::new(one_in) };
        let mut lru = list(600, settings);
        let check = |lru: &Midpoint| {
            let old: Vec<bool> = lru.list.iter().map(|page| lru.list[page].old).collect();
            let young = old.len() - lru.old_len as usize;
            prop_assert!(old.iter().enumerate().all(|(place, &old)| old == (place >= young)), "{old:?}");
            if lru.len() > lru.old_min_len {
                prop_assert!(lru.old_len.abs_diff(lru.target()) <= lru.old_tolerance);
                prop_assert_eq!(lru.list.iter().nth(young), Some(lru.first_old));
            }
            Ok(())
        };
        (900..1450).for_each(|page| lru.admit(page, page % 3 > 0));
        check(&lru)?;
        for ((page, step), now) in steps.into_iter().zip(0..) {
            match (step, lru.contains(page)) {
                (0, true) => lru.free(page),
                (1, _) if lru.len() > 0 => lru.free(lru.tail()),
                (_, true) => lru.access(page, now * 500),
                (_, false) if lru.len() < 600 => lru.admit(page, step > 3),
                _ => {}
            }
            if now % 16 == 0 {
                check(&lru)?;
            }
        }
        check(&lru)?;
    }
}
