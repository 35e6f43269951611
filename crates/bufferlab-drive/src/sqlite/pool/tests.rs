//! Tests of the pool against a naive pool of plain collections, against known vectors of misses, and of the events that
//! it sends to a recorder.

use super::*;
use bufferlab_probe::page_trace::{PageTraceAsked, SpoolAsked};

use crate::sqlite::page_trace::finish;
use crate::sqlite::vfs::VfsCounters;
use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};

/// A naive pool with the same rules over plain collections, written from the comments of SQLite's
/// `sqlite3_pcache_methods2`.
#[derive(Default)]
struct NaivePool {
    capacity: usize,
    pinned: Vec<u32>,
    lru: VecDeque<u32>, // front = most recent
    evictions: u64,
}

impl NaivePool {
    fn used(&self) -> usize {
        self.pinned.len() + self.lru.len()
    }
    fn fetch(&mut self, key: u32, create: Create) -> bool {
        if self.pinned.contains(&key) {
            return true;
        }
        if let Some(position) = self.lru.iter().position(|&k| k == key) {
            self.lru.remove(position);
            self.pinned.push(key);
            return true;
        }
        let nearly = self.pinned.len() > self.capacity || self.pinned.len() >= (self.capacity + 1) * 9 / 10;
        if create == Create::No || (create == Create::IfEasy && nearly) {
            return false;
        }
        if self.used() >= self.capacity && self.lru.pop_back().is_some() {
            self.evictions += 1;
        }
        self.pinned.push(key);
        true
    }
    fn unpin(&mut self, key: u32, discard: bool) {
        let over = self.used() > self.capacity;
        self.pinned.retain(|&k| k != key);
        if !discard && !over {
            self.lru.push_front(key);
        } else if !discard {
            self.evictions += 1;
        }
    }
    fn truncate(&mut self, limit: u32) {
        self.pinned.retain(|&k| k < limit);
        self.lru.retain(|&k| k < limit);
    }
    fn resize(&mut self, capacity: usize) {
        self.capacity = capacity;
        while self.used() > capacity && self.lru.pop_back().is_some() {
            self.evictions += 1;
        }
    }
}

fn pool(capacity: usize) -> Pool {
    let mut pool = Pool::new(512, 24, true, Arc::default());
    pool.set_capacity(capacity);
    pool
}

proptest! {
    #[test]
    fn every_operation_leaves_the_same_pages_as_the_naive_pool(
        capacity in 1usize..24,
        operations in proptest::collection::vec((0u8..16, 1u32..48), 1..400),
    ) {
        let mut fast = pool(capacity);
        let mut naive = NaivePool { capacity, ..NaivePool::default() };
        let mut held: HashMap<u32, *mut Frame> = HashMap::new();
        for (operation, key) in operations {
            match operation {
                0..=7 => {
                    let create = [Create::Always, Create::IfEasy, Create::No][operation as usize % 3];
                    let frame = fast.fetch(key, create);
                    prop_assert_eq!(!frame.is_null(), naive.fetch(key, create));
                    if !frame.is_null() {
                        // SAFETY: the frame is pinned, so its buffers belong to it until it is unpinned.
                        unsafe {
                            prop_assert_eq!((*frame).key, key);
                            prop_assert_eq!((*frame).page.pBuf as usize % 512, 0);
                            prop_assert!(held.get(&key).is_none_or(|&known| known == frame));
                            (*frame).page.pBuf.cast::<u8>().write_bytes(key as u8, 512);
                            (*frame).page.pExtra.cast::<u8>().write_bytes(key as u8, 24);
                        }
                        held.insert(key, frame);
                    }
                }
                8..=12 => {
                    let Some(&key) = held.keys().min_by_key(|&&k| k.abs_diff(key)) else { continue };
                    let frame = held.remove(&key).expect("just found");
                    // SAFETY: an earlier fetch pinned the frame, so no other frame wrote over its memory.
                    unsafe {
                        prop_assert_eq!((*frame).page.pBuf.cast::<u8>().read(), key as u8);
                        fast.unpin(frame, operation == 12);
                    }
                    naive.unpin(key, operation == 12);
                }
                13 => {
                    fast.truncate(key);
                    naive.truncate(key);
                    held.retain(|&k, _| k < key);
                }
                14 => {
                    let capacity = key as usize % 24 + 1;
                    fast.set_capacity(capacity);
                    naive.resize(capacity);
                }
                _ => {
                    let Some(&old) = held.keys().min() else { continue };
                    if held.contains_key(&key) { continue }
                    let frame = held.remove(&old).expect("just found");
                    // SAFETY: an earlier fetch pinned the frame.
                    unsafe {
                        fast.rekey(frame, key);
                        (*frame).page.pBuf.cast::<u8>().write_bytes(key as u8, 512);
                    }
                    naive.lru.retain(|&k| k != key);
                    naive.pinned.retain(|&k| k != old);
                    naive.pinned.push(key);
                    held.insert(key, frame);
                }
            }
            prop_assert_eq!(fast.len(), naive.used());
            prop_assert_eq!(fast.unpinned, naive.lru.len());
            prop_assert_eq!(fast.counters.evictions.get(), naive.evictions);
            let mut frame = fast.newest;
            for &key in &naive.lru {
                // SAFETY: the frame is on the pool's list.
                unsafe {
                    prop_assert_eq!((*frame).key, key);
                    frame = (*frame).older;
                }
            }
            prop_assert!(frame.is_null());
        }
    }
}

fn read(pool: &mut Pool, key: u32) -> bool {
    let hits = pool.counters.hits.get();
    let frame = pool.fetch(key, Create::Always);
    // SAFETY: the fetch above pinned the frame.
    unsafe { pool.unpin(frame, false) };
    pool.counters.hits.get() > hits
}

#[test]
fn reading_pages_in_a_cycle_longer_than_the_pool_never_hits() {
    // The misses of SQLite's own cache of size 10, which holds nine pages.
    let mut pool = pool(9);
    assert_eq!((1..=20).filter(|&key| read(&mut pool, key)).count(), 0);
    assert_eq!(pool.len(), 9);
    assert_eq!((12..=20).filter(|&key| read(&mut pool, key)).count(), 9);
    let cyclic = (0..50).filter(|index| read(&mut pool, 100 + index % 10)).count();
    assert_eq!(cyclic, 0);
}

fn asked(spool: &std::path::Path) -> PageTraceAsked {
    PageTraceAsked { spool: SpoolAsked { path: spool.to_owned(), limit_bytes: 1 << 20 }, required: true }
}

/// Returns the events (kind, page) that a pool of two pages sends to its recorder while `act` uses it.
fn recorded(act: impl FnOnce(&mut Pool, &VfsCounters)) -> Vec<(u8, u32)> {
    let folder = tempfile::tempdir().unwrap();
    let (spool, vfs) = (folder.path().join("spool"), Arc::<VfsCounters>::default());
    let holder = Recorder::ready(&asked(&spool), Arc::clone(&vfs)).unwrap();
    let mut pool = pool(2);
    pool.record(Arc::clone(&holder));
    act(&mut pool, &vfs);
    drop(pool);
    assert_eq!(finish(&holder, &spool).problem, None);
    let bytes = std::fs::read(spool).unwrap();
    let pages = bytes.chunks(24).map(|one| (one[20], u32::from_le_bytes(one[12..16].try_into().unwrap())));
    pages.collect()
}

#[test]
fn a_recorder_hears_of_gets_reads_creations_evictions_and_drops_in_their_order() {
    let [get, if_in_pool, create, read, evict, drop] = [0, 1, 2, 3, 5, 6];
    let told = recorded(|pool, vfs| {
        // SAFETY: each page is unpinned once after it was fetched.
        unsafe {
            let first = pool.fetch(1, Create::Always);
            vfs.pages_read.add(1);
            pool.unpin(first, false);
            let new = pool.fetch(2, Create::Always);
            pool.unpin(new, false);
            let again = pool.fetch(1, Create::IfEasy);
            let third = pool.fetch(3, Create::Always);
            vfs.wal_reads.add(1);
            pool.unpin(again, true);
            pool.unpin(third, false);
            assert!(pool.fetch(2, Create::No).is_null());
            let looked = pool.fetch(3, Create::No);
            pool.unpin(looked, false);
        }
    });
    let expected =
        [(get, 1), (read, 1), (create, 2), (get, 1), (evict, 2), (get, 3), (read, 3), (drop, 1), (if_in_pool, 3)];
    assert_eq!(told, expected);
}

#[test]
fn a_pool_that_sqlite_makes_anew_goes_on_with_the_same_trace() {
    let folder = tempfile::tempdir().unwrap();
    let asked = asked(&folder.path().join("spool"));
    let holder = Recorder::ready(&asked, Arc::default()).unwrap();
    let [mut first, mut second] = [pool(2), pool(2)];
    first.record(Arc::clone(&holder));
    second.record(Arc::clone(&holder));
    first.fetch(7, Create::Always);
    drop(first);
    second.fetch(8, Create::Always);
    drop(second);
    assert_eq!(finish(&holder, &asked.spool.path).events, [("create", 2)].into());
}

#[test]
fn a_fetch_that_is_refused_and_repeated_counts_once() {
    let mut pool = pool(10);
    for key in 1..=10 {
        pool.fetch(key, Create::Always);
    }
    let before = pool.counters.fetches.get();
    assert!(pool.fetch(99, Create::IfEasy).is_null());
    assert!(!pool.fetch(99, Create::Always).is_null());
    assert_eq!(pool.counters.fetches.get(), before + 1);
    assert_eq!(pool.counters.overflow_frames.get(), 1);
}
