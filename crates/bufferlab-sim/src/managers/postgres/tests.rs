//! Tests of the model's clock, rings and writes. The expected states were computed by hand from the rules.

use super::*;

fn pool(frames: u32) -> Postgres {
    Postgres::new(NonZeroU32::new(frames).unwrap(), 100, &PostgresSettings::default())
}

/// Returns shared buffers with pages `0..2000`, of which those from 1000 on are a large table.
fn pool_with_table(frames: u32, ring_buffers: u32, had_rings: bool) -> Postgres {
    let large_tables = vec![LargeTable { first_page: 1000, pages: 1000, had_rings }];
    let settings = PostgresSettings { large_tables, ring_buffers, ..PostgresSettings::default() };
    Postgres::new(NonZeroU32::new(frames).unwrap(), 2000, &settings)
}

/// Returns shared buffers for at least pages `0..100`, with writers. Checkpoints spread their writes over half their
/// interval.
fn pool_with_writes(frames: u32, bgwriter_lru_maxpages: u32, checkpoint_timeout_us: u64) -> Postgres {
    let background_writer =
        BackgroundWriterRules { bgwriter_delay_us: 200_000, bgwriter_lru_maxpages, bgwriter_lru_multiplier: 2.0 };
    let checkpoints = CheckpointRules {
        checkpoint_timeout_us,
        checkpoint_completion_target: 0.5,
        bytes_to_checkpoint: 1 << 40,
        bytes_between: 1 << 40,
    };
    let log = LogRules { change_bytes: 100, image_bytes: 8192 };
    let writes = Some(WriteRules { background_writer, checkpoints, log });
    let settings = PostgresSettings { writes, ..PostgresSettings::default() };
    Postgres::new(NonZeroU32::new(frames).unwrap(), frames.max(100), &settings)
}

/// Changes pages. Each letter of `pages` names the page whose number is the letter's code.
fn dirty(pool: &mut Postgres, pages: &str) {
    for letter in pages.bytes() {
        pool.dirty(Access { page: u32::from(letter), thread: 0, latch: 1, now_us: 0 });
    }
}

/// Gets pages with a latch, by one session.
fn get_all(pool: &mut Postgres, pages: impl IntoIterator<Item = u32>, latch: u8) {
    for page in pages {
        pool.get(Access { page, thread: 3, latch, now_us: 0 });
    }
}

fn usage_counts(pool: &Postgres, pages: impl IntoIterator<Item = u32>) -> Vec<u8> {
    pages.into_iter().filter(|&page| pool.has(page)).map(|page| pool.pages[page as usize].usage_count).collect()
}

/// Gets pages. Each letter of `pages` names the page whose number is the letter's code.
fn get(pool: &mut Postgres, pages: &str) {
    for letter in pages.bytes() {
        pool.get(Access { page: u32::from(letter), thread: 0, latch: 0, now_us: 0 });
    }
}

/// Returns the page and the usage count of each buffer, and the hand.
fn state(pool: &Postgres) -> (String, Vec<u8>, u32) {
    let pages = pool.buffers.iter().map(|&page| char::from(page as u8)).collect();
    let usage_count = |page: &u32| pool.pages.get(*page as usize).map_or(0, |page| page.usage_count);
    (pages, pool.buffers.iter().map(usage_count).collect(), pool.hand.buffer)
}

#[test]
fn vector_p1_the_hand_lowers_usage_counts_and_takes_the_first_that_is_zero() {
    let mut pool = pool(4);
    get(&mut pool, "ABCDAAC");
    assert_eq!(state(&pool), ("ABCD".into(), vec![3, 1, 2, 1], 0));
    get(&mut pool, "E");
    assert_eq!(state(&pool), ("AECD".into(), vec![1, 1, 1, 0], 2));
    get(&mut pool, "F");
    assert_eq!(state(&pool), ("AECF".into(), vec![1, 1, 0, 1], 0));
    get(&mut pool, "AG");
    assert_eq!(state(&pool), ("AEGF".into(), vec![1, 0, 1, 1], 3));
}

#[test]
fn vector_p2_a_usage_count_ends_at_5() {
    let mut pool = pool(3);
    get(&mut pool, "ABCAAAAAAAAA");
    assert_eq!(state(&pool), ("ABC".into(), vec![5, 1, 1], 0));
    get(&mut pool, "X");
    assert_eq!(state(&pool), ("AXC".into(), vec![3, 1, 0], 2));
    get(&mut pool, "Y");
    assert_eq!(state(&pool), ("AXY".into(), vec![3, 1, 1], 0));
    get(&mut pool, "12");
    assert!(pool.has(u32::from(b'A')));
    get(&mut pool, "3");
    assert!(!pool.has(u32::from(b'A')));
    assert_eq!(pool.hand.buffer, 16 % 3);
}

#[test]
fn a_changed_page_is_written_once_by_the_session_that_takes_its_buffer() {
    let mut pool = pool_with_writes(2, 0, 1 << 40);
    get(&mut pool, "AB");
    dirty(&mut pool, "AAZ");
    get(&mut pool, "CD");
    assert_eq!((pool.counts().evictions, pool.counts().single_page_writes), (2, 1));
    get(&mut pool, "AB");
    assert_eq!((pool.counts().evictions, pool.counts().single_page_writes), (4, 1));
    let mut none = Postgres::new(NonZeroU32::new(2).unwrap(), 100, &PostgresSettings::default());
    get(&mut none, "AB");
    dirty(&mut none, "AB");
    get(&mut none, "CD");
    assert_eq!((none.counts().evictions, none.counts().single_page_writes), (2, 0));
}

#[test]
fn a_checkpoint_writes_the_pages_that_were_dirty_at_its_begin_spread_over_its_share_of_the_time() {
    let mut pool = pool_with_writes(100, 0, 10_000_000);
    get_all(&mut pool, 0..50, 5);
    (0..50).for_each(|page| pool.dirty(Access { page, thread: 0, latch: 1, now_us: 0 }));
    let mut written = |seconds: u64| {
        pool.get(Access { page: 0, thread: 0, latch: 6, now_us: seconds * 1_000_000 });
        pool.dirty(Access { page: 99, thread: 0, latch: 1, now_us: seconds * 1_000_000 });
        pool.counts().checkpoint_writes
    };
    // The checkpoint begins after 10 s. It writes half of its pages in a quarter of that time, because its target is
    // half.
    assert_eq!([9, 10, 12, 15, 19].map(&mut written), [0, 1, 21, 50, 50]);
    // Nothing has become dirty since, because page 99 is in no buffer.
    assert_eq!(written(40), 50);
    assert_eq!(pool.counts().single_page_writes, 0);
}

#[test]
fn vector_p5_a_round_of_the_background_writer_ends_at_its_most_pages() {
    let mut pool = pool_with_writes(200, 100, 1 << 40);
    get_all(&mut pool, 0..200, 5);
    (0..200).for_each(|page| pool.dirty(Access { page, thread: 0, latch: 1, now_us: 0 }));
    pool.pages.iter_mut().for_each(|page| page.usage_count = 0);
    // 200 buffers were taken before the first round, which therefore tries to clean twice as many.
    pool.get(Access { page: 0, thread: 0, latch: 6, now_us: 200_000 });
    assert_eq!(pool.counts().lru_writes, 100);
    assert!((0..200).all(|page| (pool.pages[page].marks & DIRTY == 0) == (page < 100)));
}

#[test]
fn a_pin_of_a_page_that_the_session_has_pinned_does_not_count() {
    let mut pool = pool(9);
    for latch in [1, 2, 2, 1, 0] {
        pool.get(Access { page: 7, thread: 0, latch, now_us: 0 });
    }
    assert_eq!(pool.pages[7].usage_count, 3);
}

#[test]
fn the_buffer_of_a_dropped_page_is_the_next_to_be_used() {
    let mut pool = pool(3);
    get(&mut pool, "AB");
    pool.drop_page(Access { page: u32::from(b'A'), thread: 0, latch: 0, now_us: 0 });
    assert_eq!(pool.frames_used(), 1);
    get(&mut pool, "C");
    assert_eq!(pool.buffers[..2], [u32::from(b'C'), u32::from(b'B')]);
}

#[test]
fn without_a_list_the_hand_evicts_pages_before_it_comes_to_the_buffer_of_a_dropped_one() {
    let settings = PostgresSettings { has_free_list: false, ..PostgresSettings::default() };
    let mut pool = Postgres::new(NonZeroU32::new(4).unwrap(), 100, &settings);
    get(&mut pool, "ABC");
    assert_eq!((state(&pool).2, pool.frames_used(), pool.counts().evictions), (3, 3, 0));
    get(&mut pool, "DE");
    assert_eq!(state(&pool), ("EBCD".into(), vec![1, 0, 0, 0], 1));
    pool.drop_page(Access { page: u32::from(b'C'), thread: 0, latch: 0, now_us: 0 });
    assert_eq!((pool.frames_used(), pool.counts().evictions), (3, 1));
    // The hand comes to buffer 1 before it comes to buffer 2, which has no page.
    get(&mut pool, "F");
    assert_eq!((pool.buffers[1], pool.counts().evictions), (u32::from(b'F'), 2));
    get(&mut pool, "G");
    assert_eq!((pool.buffers[2], pool.counts().evictions), (u32::from(b'G'), 2));
}

#[test]
fn without_a_list_a_ring_reuses_its_buffer_whose_page_was_dropped() {
    let large_tables = vec![LargeTable { first_page: 10, pages: 90, had_rings: true }];
    let settings = PostgresSettings { large_tables, ring_buffers: 1, has_free_list: false, writes: None };
    let mut pool = Postgres::new(NonZeroU32::new(8).unwrap(), 100, &settings);
    get_all(&mut pool, [11], 9);
    pool.drop_page(Access { page: 11, thread: 0, latch: 0, now_us: 0 });
    get_all(&mut pool, [12], 9);
    assert_eq!((pool.buffers[0], pool.counts().evictions, pool.counts().ring_reuses), (12, 0, 1));
}

#[test]
fn vector_p3_a_scan_of_1000_pages_takes_a_ring_of_32_buffers_from_the_others() {
    let mut pool = pool_with_table(256, 32, true);
    get_all(&mut pool, 0..256, 5);
    get_all(&mut pool, 1000..2000, 9);
    // The hand lowers all 256 usage counts once, then takes the first 32 buffers: 288 steps.
    assert_eq!(pool.hand.buffer, 32);
    assert_eq!(usage_counts(&pool, 0..256), [0; 224]);
    assert_eq!(usage_counts(&pool, 1000..2000), [1; 32]);
    assert!((1968..2000).all(|page| pool.has(page)));
    assert_eq!((pool.counts().misses, pool.counts().evictions, pool.counts().guessed_scan_gets), (1256, 1000, 0));
    assert_eq!(pool.counts().ring_reuses, 968, "all but those that first filled the ring");
}

#[test]
fn a_hit_of_a_scan_raises_a_usage_count_from_0_to_1_and_no_further() {
    let mut pool = pool_with_table(3, 1, true);
    get_all(&mut pool, [1000, 1001, 1002], 5);
    get_all(&mut pool, [1001, 1002, 1002], 5);
    get_all(&mut pool, [1000, 1001, 1002], 9);
    assert_eq!(usage_counts(&pool, 1000..1003), [1, 2, 3]);
    // The hand lowers the usage counts to 0, 1 and 2, and takes the first buffer.
    get_all(&mut pool, [7], 5);
    assert_eq!(usage_counts(&pool, 1001..1003), [1, 2]);
    pool.pages[1001].usage_count = 0;
    get_all(&mut pool, [1001], 10);
    assert_eq!(usage_counts(&pool, [1001]), [0]);
    get_all(&mut pool, [1001, 1001, 1001], 9);
    assert_eq!(usage_counts(&pool, [1001]), [1]);
}

#[test]
fn a_hit_with_the_ring_of_a_vacuum_raises_a_usage_count_no_further_than_1_in_any_table() {
    let mut pool = pool(3);
    get_all(&mut pool, [7, 7, 8, 8], 13);
    assert_eq!(usage_counts(&pool, [7, 8]), [1, 1]);
    get_all(&mut pool, [7], 5);
    assert_eq!(usage_counts(&pool, [7]), [2]);
}

#[test]
fn a_ring_gives_up_a_buffer_that_others_use_and_takes_one_whatever_page_it_has() {
    let mut pool = pool_with_table(4, 2, true);
    get_all(&mut pool, [1000, 1001], 9);
    get_all(&mut pool, [1000], 5);
    // Buffer 0 has a page with a usage count of 2, so the ring does not reuse it: the ring has buffers 2 and 1 now.
    get_all(&mut pool, [1002], 9);
    assert_eq!((pool.buffers[2], pool.has(1000)), (1002, true));
    get_all(&mut pool, [1003], 9);
    assert_eq!((pool.buffers[1], pool.has(1001)), (1003, false));
    // The hand takes buffer 2 for an ordinary page, whose usage count is 1: the ring takes it back.
    get_all(&mut pool, [1], 5);
    pool.pages[1002].usage_count = 0;
    pool.hand.buffer = 2;
    get_all(&mut pool, [2], 5);
    assert_eq!(pool.buffers[2], 2);
    get_all(&mut pool, [1004], 9);
    assert_eq!((pool.buffers[2], pool.has(2)), (1004, false));
}

#[test]
fn a_ring_is_new_when_a_session_gets_the_first_page_or_jumps_back() {
    for (next, stays) in [(1000, true), (1010, true), (1500, false), (1400, false)] {
        let mut pool = pool_with_table(64, 2, true);
        get_all(&mut pool, [1499, 1500], 9);
        get_all(&mut pool, [next, 1600], 9);
        // A new ring takes free buffers. An old ring takes the buffers of the pages that it read.
        assert_eq!(pool.has(1499), stays, "{next}");
    }
}

#[test]
fn a_guessed_scan_that_jumps_ahead_keeps_its_ring_and_one_that_goes_back_gets_a_new_one() {
    for (next, stays) in [(1900, false), (1410, false), (1300, true)] {
        let mut pool = pool_with_table(64, 1, true);
        get_all(&mut pool, 1401..=1406, 1);
        // A get of a distant page ends the sequence of near gets. The next three gets do not belong to a scan yet; the
        // fourth does, and takes the ring's only buffer.
        get_all(&mut pool, [5, next, next + 1, next + 2], 1);
        assert!(pool.has(1406));
        get_all(&mut pool, [next + 3], 1);
        assert_eq!(pool.has(1406), stays, "{next}");
    }
}

#[test]
fn four_gets_in_a_row_are_a_scan_where_the_trace_does_not_tell() {
    let guessed = |pages: &[u32], latch, had_rings| {
        let mut pool = pool_with_table(64, 2, had_rings);
        get_all(&mut pool, pages.iter().copied(), latch);
        pool.counts().guessed_scan_gets
    };
    assert_eq!(guessed(&[1000, 1001, 1002], 1, true), 0);
    assert_eq!(guessed(&[1000, 1001, 1002, 1003, 1004], 1, true), 2);
    assert_eq!(guessed(&[1256, 1000, 1256, 1512, 1512], 1, true), 2);
    assert_eq!(guessed(&[1000, 1001, 1002, 1259], 1, true), 0);
    assert_eq!(guessed(&[1000, 1001, 1001, 1001, 1001, 1001], 1, true), 0);
    // A get of a distant page interrupts the sequence of near gets.
    assert_eq!(guessed(&[1000, 1001, 5, 1002, 1003, 1004], 1, true), 0);
    // The traced server would have read the table with a ring if a scan had read it, but the gets have no ring.
    assert_eq!(guessed(&[1000, 1001, 1002, 1003, 1004], 5, true), 0);
    assert_eq!(guessed(&[1000, 1001, 1002, 1003, 1004], 5, false), 2);
    assert_eq!(guessed(&[1000, 1001, 1002, 1003, 1004], 9, true), 0);
    assert_eq!(guessed(&[1000, 1001, 1002, 1003, 1004], 13, false), 0);
}

#[test]
fn a_table_beyond_the_pages_is_ignored() {
    let large_tables = vec![
        LargeTable { first_page: 5, pages: u32::MAX, had_rings: true },
        LargeTable { first_page: 50, pages: 1, had_rings: true },
    ];
    let settings = PostgresSettings { large_tables, ..PostgresSettings::default() };
    let mut pool = Postgres::new(NonZeroU32::new(4).unwrap(), 9, &settings);
    get_all(&mut pool, 0..9, 9);
    assert_eq!(pool.counts().misses, 9);
    assert_eq!(pool.pages.iter().filter(|page| page.table == 0).count(), 4);
}
