//! The page pool behind SQLite's pager: aligned frames, a hash table and an LRU list, with exact counters.
//!
//! The replacement rules are those of SQLite's own `pcache1.c` (`pcache1FetchStage2`, `pcache1Unpin`,
//! `pcache1TruncateUnsafe`), so that a run with this pool and a run with the stock one differ only in their memory.
//! This pool cuts frames from one mapping and aligns them to their size, so that a direct read can land in them. One
//! rule differs: a stock cache of size N holds N-1 pages once it recycles; this pool holds N.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use bufferlab_model::trace::Kind;

use super::frames::{Frame, FrameMemory};
use super::page_trace::Recorder;
use crate::counter::Counter;

/// Cumulative counters of the pool's work, and gauges of its present state. Only the connection's thread writes them.
#[derive(Debug, Default)]
pub struct PoolCounters {
    /// Logical gets: fetches that ask for a page with the intent to have it.
    pub fetches: Counter,
    /// Fetches that found the page.
    pub hits: Counter,
    /// Pages that got a frame because the pool lacked them.
    pub admissions: Counter,
    /// Pages that lost their frame: the pool recycled it for another page, or was over its size.
    pub evictions: Counter,
    /// Evictions whose frame went directly to the page that needed it.
    pub recycled: Counter,
    /// Gauge: frames the pool may hold.
    pub frames: Counter,
    /// Gauge: frames that hold a page.
    pub frames_used: Counter,
    /// Gauge: pages held beyond the pool's size because all others were pinned.
    pub overflow_frames: Counter,
}

/// Cost of not having a page, chosen by SQLite (`createFlag` of `xFetch`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    /// Look only.
    No,
    /// Take a frame if that is cheap; SQLite will otherwise write a dirty page first and ask again.
    IfEasy,
    /// Take a frame, whatever it costs.
    Always,
}

/// A page pool for one database file.
pub struct Pool {
    /// Frames the pool may hold; SQLite may exceed it while everything is pinned.
    capacity: usize,
    /// False for temporary in-memory databases, whose pages have no other home and are never evicted.
    purgeable: bool,
    buckets: Vec<*mut Frame>,
    /// No page held has a larger number.
    largest_key: u32,
    /// Head of the LRU list (most recently unpinned) and its tail.
    newest: *mut Frame,
    oldest: *mut Frame,
    /// Pages held, and how many of them are unpinned.
    used: usize,
    unpinned: usize,
    free: Vec<*mut Frame>,
    memory: FrameMemory,
    /// The page of a fetch that the pool refused as "not easy". SQLite repeats the fetch, and it must not count twice.
    refused_key: Option<u32>,
    counters: Arc<PoolCounters>,
    /// The recorder of every access, where a run asks for a page trace.
    recorder: Option<Box<Recorder>>,
}

impl Pool {
    /// Makes an empty pool of pages of `page_bytes`, each with `extra_bytes` for SQLite's own use.
    #[must_use]
    pub fn new(page_bytes: usize, extra_bytes: usize, purgeable: bool, counters: Arc<PoolCounters>) -> Self {
        Pool {
            capacity: 0,
            purgeable,
            buckets: vec![ptr::null_mut(); 256],
            largest_key: 0,
            newest: ptr::null_mut(),
            oldest: ptr::null_mut(),
            used: 0,
            unpinned: 0,
            free: Vec::new(),
            memory: FrameMemory::new(page_bytes, extra_bytes),
            refused_key: None,
            counters,
            recorder: None,
        }
    }

    /// Tells the recorder of every access from now on.
    pub fn record(&mut self, recorder: Option<Box<Recorder>>) {
        self.recorder = recorder;
    }

    /// Sets the number of frames that the pool may hold; a smaller size evicts the oldest unpinned pages at once.
    pub fn set_capacity(&mut self, frames: usize) {
        self.capacity = frames;
        self.counters.frames.set(frames as u64);
        if self.purgeable {
            self.evict_down_to(frames);
        }
    }

    /// Returns the number of pages held, pinned ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.used
    }

    /// Returns true when no page is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Finds or admits the page `key` and pins it; null when the page is absent and `create` forbids more.
    pub fn fetch(&mut self, key: u32, create: Create) -> *mut Frame {
        let found = self.find(key);
        let repeated = self.refused_key.take() == Some(key) && create == Create::Always;
        if create != Create::No && !repeated {
            self.counters.fetches.add(1);
            self.counters.hits.add(u64::from(!found.is_null()));
        }
        if !found.is_null() {
            if let Some(recorder) = &mut self.recorder {
                recorder.note(key, if create == Create::No { Kind::GetIfInPool } else { Kind::Get });
            }
            // SAFETY: frames in the table are alive.
            if unsafe { (*found).in_lru } {
                self.unlink(found);
            }
            return found;
        }
        if create == Create::No {
            return ptr::null_mut();
        }
        if create == Create::IfEasy && self.is_nearly_all_pinned() {
            self.refused_key = Some(key);
            return ptr::null_mut();
        }
        self.admit(key)
    }

    /// Returns true when nine tenths of the pool are pinned: SQLite should then write dirty pages first. The rule is
    /// step 3 of `pcache1FetchStage2`.
    fn is_nearly_all_pinned(&self) -> bool {
        let pinned = self.used - self.unpinned;
        // pcache1 counts in its cache size N = frames + 1; mxPinned is N + 10 - 10 for a single cache.
        let stock_size = self.capacity + 1;
        pinned >= stock_size || pinned >= stock_size * 9 / 10
    }

    fn admit(&mut self, key: u32) -> *mut Frame {
        if let Some(recorder) = &mut self.recorder {
            recorder.settle();
        }
        if self.used >= self.buckets.len() {
            self.grow_table();
        }
        let frame = if self.purgeable && self.used >= self.capacity && !self.oldest.is_null() {
            let victim = self.oldest;
            self.unlink(victim);
            self.evict(victim);
            self.counters.recycled.add(1);
            victim
        } else {
            self.take_free_frame()
        };
        self.counters.admissions.add(1);
        if let Some(recorder) = &mut self.recorder {
            recorder.admit(key);
        }
        // SAFETY: the frame is ours and in no list. SQLite wants the first word of the extra space to be zero.
        unsafe { (*frame).page.pExtra.cast::<*mut c_void>().write(ptr::null_mut()) };
        self.enter(frame, key);
        self.publish();
        frame
    }

    /// Unpins a page. It becomes the most recently used one, or the pool drops it, when SQLite will not want it again
    /// or the pool is over its size.
    ///
    /// # Safety
    /// `frame` was returned by [`Pool::fetch`] and is pinned.
    pub unsafe fn unpin(&mut self, frame: *mut Frame, discard: bool) {
        let over = self.purgeable && self.used > self.capacity;
        if let Some(recorder) = &mut self.recorder {
            recorder.settle();
        }
        if discard || over {
            if discard {
                self.drop_page(frame);
            } else {
                self.evict(frame);
            }
            self.release(frame);
            self.publish();
            return;
        }
        // SAFETY: the caller's frame is alive and on no list.
        unsafe {
            (*frame).in_lru = true;
            (*frame).newer = ptr::null_mut();
            (*frame).older = self.newest;
            if self.newest.is_null() {
                self.oldest = frame;
            } else {
                (*self.newest).newer = frame;
            }
        }
        self.newest = frame;
        self.unpinned += 1;
    }

    /// Gives a page another number, and drops an unpinned page that had that number.
    ///
    /// # Safety
    /// `frame` was returned by [`Pool::fetch`] and holds a page.
    pub unsafe fn rekey(&mut self, frame: *mut Frame, key: u32) {
        let other = self.find(key);
        if !other.is_null() && other != frame {
            // SAFETY: frames in the table are alive.
            if unsafe { (*other).in_lru } {
                self.unlink(other);
            }
            self.drop_page(other);
            self.release(other);
        }
        self.drop_page(frame);
        self.enter(frame, key);
        if let Some(recorder) = &mut self.recorder {
            recorder.note(key, Kind::Create);
        }
        self.publish();
    }

    /// Drops every page numbered `limit` or more, pinned ones too. SQLite asks at the end of each transaction that wrote,
    /// with a limit that no page has reached; a walk through the table took half of a transaction's instructions.
    pub fn truncate(&mut self, limit: u32) {
        if limit > self.largest_key {
            return;
        }
        self.largest_key = limit.saturating_sub(1);
        for bucket in 0..self.buckets.len() {
            let mut frame = self.buckets[bucket];
            while !frame.is_null() {
                // SAFETY: frames in the table are alive; the successor is read before the frame is released.
                let (next, key, in_lru) = unsafe { ((*frame).hash_next, (*frame).key, (*frame).in_lru) };
                if key >= limit {
                    if in_lru {
                        self.unlink(frame);
                    }
                    self.drop_page(frame);
                    self.release(frame);
                }
                frame = next;
            }
        }
        self.publish();
    }

    /// Drops every unpinned page (`xShrink`).
    pub fn shrink(&mut self) {
        self.evict_down_to(0);
    }

    fn evict_down_to(&mut self, frames: usize) {
        while self.used > frames && !self.oldest.is_null() {
            let victim = self.oldest;
            self.unlink(victim);
            self.evict(victim);
            self.release(victim);
        }
        self.publish();
    }

    fn find(&self, key: u32) -> *mut Frame {
        let mut frame = self.buckets[key as usize & (self.buckets.len() - 1)];
        // SAFETY: frames in the table are alive.
        unsafe {
            while !frame.is_null() && (*frame).key != key {
                frame = (*frame).hash_next;
            }
        }
        frame
    }

    /// Puts a frame that is in no chain into the hash table, as the page `key`.
    fn enter(&mut self, frame: *mut Frame, key: u32) {
        let bucket = key as usize & (self.buckets.len() - 1);
        // SAFETY: the callers' frames are alive.
        unsafe {
            (*frame).key = key;
            (*frame).hash_next = self.buckets[bucket];
        }
        self.buckets[bucket] = frame;
        self.largest_key = self.largest_key.max(key);
        self.used += 1;
    }

    /// Takes a frame out of the hash table because another page or a smaller pool needs it.
    fn evict(&mut self, frame: *mut Frame) {
        self.counters.evictions.add(1);
        self.tell_left(frame, Kind::Evict);
        self.forget(frame);
    }

    /// Takes a frame out of the hash table because its content is no longer true.
    fn drop_page(&mut self, frame: *mut Frame) {
        self.tell_left(frame, Kind::Drop);
        self.forget(frame);
    }

    fn tell_left(&mut self, frame: *mut Frame, kind: Kind) {
        if let Some(recorder) = &mut self.recorder {
            // SAFETY: the caller's frame is in the table and alive.
            recorder.note(unsafe { (*frame).key }, kind);
        }
    }

    /// Takes a frame out of the hash table.
    fn forget(&mut self, frame: *mut Frame) {
        // SAFETY: the frame is in the table, so its chain leads to it.
        unsafe {
            let bucket = (*frame).key as usize & (self.buckets.len() - 1);
            let mut link: *mut *mut Frame = &raw mut self.buckets[bucket];
            while *link != frame {
                link = &raw mut (**link).hash_next;
            }
            *link = (*frame).hash_next;
        }
        self.used -= 1;
    }

    /// Takes a frame off the LRU list, that is, pins it.
    fn unlink(&mut self, frame: *mut Frame) {
        // SAFETY: the frame is on the list, so its neighbours are alive.
        unsafe {
            let (newer, older) = ((*frame).newer, (*frame).older);
            if newer.is_null() {
                self.newest = older
            } else {
                (*newer).older = older
            }
            if older.is_null() {
                self.oldest = newer
            } else {
                (*older).newer = newer
            }
            (*frame).in_lru = false;
        }
        self.unpinned -= 1;
    }

    fn take_free_frame(&mut self) -> *mut Frame {
        if let Some(frame) = self.free.pop() {
            return frame;
        }
        let frames = self.memory.frames();
        if self.purgeable && frames < self.capacity {
            self.memory.add_region(self.capacity - frames, &mut self.free);
        } else if !self.purgeable {
            // In-memory databases (sorters, temporary indexes) grow by doubling.
            self.memory.add_region(frames.clamp(8, 1024), &mut self.free);
        }
        self.free.pop().unwrap_or_else(|| self.memory.overflow_frame())
    }

    /// Returns the memory of a frame that holds no page any more.
    fn release(&mut self, frame: *mut Frame) {
        // SAFETY: the frame is in no list and came from this pool's memory.
        unsafe {
            if (*frame).in_region {
                self.free.push(frame);
            } else {
                self.memory.free_overflow_frame(frame);
            }
        }
    }

    fn grow_table(&mut self) {
        let buckets = self.buckets.len() * 2;
        let old = std::mem::replace(&mut self.buckets, vec![ptr::null_mut(); buckets]);
        for mut frame in old {
            while !frame.is_null() {
                // SAFETY: frames in the table are alive; the successor is read before the link is overwritten.
                unsafe {
                    let next = (*frame).hash_next;
                    let bucket = (*frame).key as usize & (buckets - 1);
                    (*frame).hash_next = self.buckets[bucket];
                    self.buckets[bucket] = frame;
                    frame = next;
                }
            }
        }
    }

    fn publish(&self) {
        self.counters.frames_used.set(self.used as u64);
        self.counters.overflow_frames.set(self.used.saturating_sub(self.capacity) as u64);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(recorder) = self.recorder.take() {
            recorder.give_back();
        }
        self.truncate(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bufferlab_probe::page_trace::PageTraceAsked;

    use crate::sqlite::page_trace::{probe, taken};
    use crate::sqlite::vfs::VfsCounters;
    use bufferlab_probe::Probe as _;
    use proptest::prelude::*;
    use std::collections::{HashMap, VecDeque};

    /// The same rules over plain collections, written from the comments of SQLite's `sqlite3_pcache_methods2`.
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
                            // SAFETY: a pinned frame; its buffers are its own until it is unpinned.
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
                        // SAFETY: pinned by an earlier fetch; no other frame wrote over its memory.
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
                        // SAFETY: pinned by an earlier fetch.
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
                    // SAFETY: a frame of the list.
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
        // SAFETY: just pinned.
        unsafe { pool.unpin(frame, false) };
        pool.counters.hits.get() > hits
    }

    #[test]
    fn reading_pages_in_a_cycle_longer_than_the_pool_never_hits() {
        // The vector of a stock cache of size 10, which holds nine pages.
        let mut pool = pool(9);
        assert_eq!((1..=20).filter(|&key| read(&mut pool, key)).count(), 0);
        assert_eq!(pool.len(), 9);
        assert_eq!((12..=20).filter(|&key| read(&mut pool, key)).count(), 9);
        let cyclic = (0..50).filter(|index| read(&mut pool, 100 + index % 10)).count();
        assert_eq!(cyclic, 0);
    }

    /// Returns what a pool of two pages tells its recorder while `act` uses it, as (kind, page).
    fn recorded(act: impl FnOnce(&mut Pool, &VfsCounters)) -> Vec<(u8, u32)> {
        let folder = tempfile::tempdir().unwrap();
        let (spool, vfs) = (folder.path().join("spool"), Arc::<VfsCounters>::default());
        let holder = Recorder::ready(&PageTraceAsked { spool: spool.clone() }, Arc::clone(&vfs)).unwrap();
        let mut pool = pool(2);
        pool.record(taken(&holder));
        act(&mut pool, &vfs);
        drop(pool);
        let table = Box::new(probe(holder, &spool)).finish().unwrap();
        assert_eq!(table.told["problem"], serde_json::Value::Null);
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
        let asked = PageTraceAsked { spool: folder.path().join("spool") };
        let holder = Recorder::ready(&asked, Arc::default()).unwrap();
        for key in [7, 8] {
            let mut pool = pool(2);
            pool.record(taken(&holder));
            pool.fetch(key, Create::Always);
        }
        let table = Box::new(probe(holder, &asked.spool)).finish().unwrap();
        assert_eq!(table.told["events"], serde_json::json!({ "create": 2 }));
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
}
