//! The page pool behind SQLite's pager: aligned frames, a hash table and an LRU list, with exact counters.
//!
//! The replacement rules are those of SQLite's own `pcache1.c` (`pcache1FetchStage2`, `pcache1Unpin`,
//! `pcache1TruncateUnsafe`), so that runs with this pool and with SQLite's own differ only in their memory. This pool
//! divides one mapping into frames that are aligned to their size, so that direct reads can go into the frames. One
//! rule differs: SQLite's own cache of size N holds N-1 pages once it recycles; this pool holds N.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use bufferlab_model::trace::Kind;

use super::frames::{Frame, FrameMemory};
use super::page_trace::{Holder, Recorder, taken};
use crate::counter::Counter;

/// Cumulative counters of the pool's work, and gauges of its present state. Only the connection's thread writes them.
#[derive(Debug, Default)]
pub struct PoolCounters {
    /// Logical gets: fetches whose caller wants the page even if the pool lacks it.
    pub fetches: Counter,
    /// Logical gets that found the page in the pool.
    pub hits: Counter,
    /// Pages that got a frame because the pool lacked them.
    pub admissions: Counter,
    /// Pages that lost their frame: the pool recycled it for another page, or was over its size.
    pub evictions: Counter,
    /// Evictions whose frame went directly to the page that needed it.
    pub recycled: Counter,
    /// Gauge: the number of frames that the pool may hold, its size.
    pub frames: Counter,
    /// Gauge: the number of frames that hold a page, pinned or not.
    pub frames_used: Counter,
    /// Gauge: pages held beyond the pool's size because all other pages were pinned.
    pub overflow_frames: Counter,
}

/// How hard a fetch tries to get a frame for a page that is not in the pool. SQLite chooses this (`createFlag` of
/// `xFetch`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    /// The fetch only looks for the page, and takes no frame for it.
    No,
    /// The fetch takes a frame if that is cheap. Otherwise SQLite writes a dirty page first and asks again.
    IfEasy,
    /// The fetch takes a frame at any cost, even one beyond the pool's size.
    Always,
}

/// A page pool for one database file.
pub struct Pool {
    /// Frames that the pool may hold. The pool holds more only while all of its pages are pinned.
    capacity: usize,
    /// False for temporary in-memory databases, whose pages exist only in the pool and are never evicted.
    purgeable: bool,
    buckets: Vec<*mut Frame>,
    /// An upper bound of the numbers of the pages held.
    largest_key: u32,
    /// Head of the LRU list (most recently unpinned) and its tail.
    newest: *mut Frame,
    oldest: *mut Frame,
    /// The number of pages in the pool. The next field, `unpinned`, is the number of those that are not pinned.
    used: usize,
    unpinned: usize,
    free: Vec<*mut Frame>,
    memory: FrameMemory,
    /// The page of a fetch that the pool refused as "not easy". SQLite repeats such a fetch, which must not be counted
    /// twice.
    refused_key: Option<u32>,
    counters: Arc<PoolCounters>,
    /// The recorder of every access, if the run asks for a page trace.
    recorder: Option<Box<Recorder>>,
    /// The holder from which the pool takes the recorder with its first page. SQLite makes a pool of the file's page
    /// size before it ends the pool through which it read that size (pcache.c, `sqlite3PcacheSetPageSize`), and only
    /// that end frees the recorder.
    holder: Option<Holder>,
}

impl Pool {
    /// Makes an empty pool for pages of `page_bytes` bytes, each with `extra_bytes` bytes for SQLite's own use.
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
            holder: None,
        }
    }

    /// Reports every access to the recorder in `holder`, from the pool's first page on.
    pub fn record(&mut self, holder: Holder) {
        self.holder = Some(holder);
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
    pub fn len(&self) -> usize {
        self.used
    }

    /// Returns true when no page is held.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Finds or admits the page `key`, pins it, and returns its frame. Returns null when the pool lacks the page and
    /// `create` does not let it admit the page.
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

    /// Returns true when nine tenths of the pool are pinned: SQLite should then write dirty pages before it takes a
    /// frame. The rule is step 3 of `pcache1FetchStage2`.
    fn is_nearly_all_pinned(&self) -> bool {
        let pinned = self.used - self.unpinned;
        // pcache1's rule uses its cache size N, which is frames + 1. Its mxPinned is N + 10 - 10 for a single cache.
        let stock_size = self.capacity + 1;
        pinned >= stock_size || pinned >= stock_size * 9 / 10
    }

    fn admit(&mut self, key: u32) -> *mut Frame {
        if let Some(holder) = self.holder.take() {
            self.recorder = taken(&holder);
        }
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
        // SAFETY: the frame belongs to this pool and is in no list. SQLite wants the first word of the extra space to
        // be zero.
        unsafe { (*frame).page.pExtra.cast::<*mut c_void>().write(ptr::null_mut()) };
        self.enter(frame, key);
        self.publish();
        frame
    }

    /// Unpins a page, which becomes the most recently used one. The page leaves the pool instead if `discard` is true,
    /// because SQLite no longer needs it, or if the pool holds more pages than its size.
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

    /// Drops every page numbered `limit` or more, pinned ones too. SQLite calls this at the end of each transaction
    /// that wrote, with a limit that no page has reached. For such a limit the call returns at once: without this
    /// check, the walk through the table took half of a transaction's instructions.
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

    /// Puts a frame that is not in the hash table into it, as the page `key`.
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

    /// Takes a frame out of the hash table because its content is invalid.
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
#[path = "pool/tests.rs"]
mod tests;
