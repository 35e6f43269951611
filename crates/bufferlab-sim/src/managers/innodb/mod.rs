//! InnoDB: an LRU list with a midpoint, a list of free frames, and a page cleaner that refills the list of free frames.
//!
//! Two generations of servers differ in who frees frames and when: [`Innodb57`] and [`Innodb1011`]. This file and
//! `midpoint.rs` have everything else. The rules are those of storage/innobase; each names its file and function.
//!
//! A page is dirty from the first time that a thread takes its exclusive latch, or makes the page. This rule was
//! compared with MySQL 5.7.22 (TPC-C, 1 warehouse, pool of 30 %, `lru_scan_depth` 100, 400 and 1024). Of the pages that
//! the server's I/O threads freed after a write, 98 to 100 % are dirty by the rule. Of the pages that its cleaner freed
//! without a write, 98 to 99 % are clean by the rule.
//!
//! A page that the cleaner writes from the flush list stays in the pool, clean. The cleaner does so when the oldest
//! dirty page exceeds an age that the caller gives: on a server this age depends on the device and on the speed of the
//! load.
//!
//! Left out: pages in use; more than one buffer pool instance; the change buffer; and the duration of every action. The
//! model reads ahead the pages that the traced server read ahead, although a server with a pool of another size may
//! read ahead more or fewer. `frames` is the server's `Innodb_buffer_pool_pages_total` without the pages that it uses
//! itself (`pages_misc`), not its bytes divided by the page size.

mod flush_list;
mod flushing;
mod innodb1011;
mod innodb57;
mod midpoint;
mod neighbors;

use std::num::NonZeroU32;

pub use flush_list::AgeCourse;
pub use flushing::{FlushRate, IoCapacity};
pub use innodb57::{Innodb57, Innodb57Settings};
pub use innodb1011::{Innodb1011, Innodb1011Settings};

use bufferlab_model::trace::Access;

use self::flush_list::FlushList;
use self::midpoint::{Midpoint, MidpointSettings};
use crate::replay::{Counts, Manager};

/// Latches under which a thread changes a page (sync0types.h, `RW_X_LATCH`, `RW_SX_LATCH`; MySQL 5.6 has only the
/// first).
const EXCLUSIVE: [u8; 2] = [2, 4];

/// The page cleaner: it frees frames, by the rules of one generation.
///
/// It removes pages from the list only by the pool's functions, so that each frame is either free or in the list. The
/// pool calls `work` before each event; the times of these calls never decrease.
pub trait Cleaner {
    /// Does the work that is due before an event at `now_us`.
    fn work(&mut self, pool: &mut Pool, now_us: u64);

    /// Leaves a free frame in the pool for a user thread that takes it (`buf_LRU_get_free_block`).
    fn provide_frame(&mut self, pool: &mut Pool);

    /// Notes that the thread has taken the frame.
    fn frame_taken(&mut self, pool: &Pool);
}

/// The frames: each is free or in the LRU list.
pub struct Pool {
    lru: Midpoint,
    /// The dirty pages by age; none in a pool whose cleaner does not write from the flush list.
    flush_list: Option<FlushList>,
    free: u32,
    /// The number of the pool's frames, free ones included.
    frames: u32,
    counts: Counts,
}

impl Pool {
    /// Takes a page out of the LRU list; the page's frame is free from then on.
    fn release(&mut self, page: u32) {
        if let Some(list) = &mut self.flush_list {
            list.remove(page);
        }
        self.lru.free(page);
        self.free += 1;
        debug_assert!(self.free <= self.frames, "{} of {} frames are free", self.free, self.frames);
    }

    /// Frees the frame of a page (`buf_LRU_free_page`).
    fn evict(&mut self, page: u32) {
        self.release(page);
        self.counts.evictions += 1;
    }

    /// Notes an access to a page that is in the list.
    #[inline]
    fn access(&mut self, access: Access) {
        self.lru.access(access.page, access.now_us);
        if EXCLUSIVE.contains(&access.latch) {
            self.change(access.page);
        }
    }

    /// Notes a change of a page that is in the list (buf0flu.ic, `buf_flush_note_modification`).
    #[inline]
    fn change(&mut self, page: u32) {
        if let Some(list) = &mut self.flush_list {
            debug_assert_eq!(list.contains(page), self.lru.is_dirty(page), "page {page} is dirty in one list alone");
            list.change(page);
        }
        self.lru.set_dirty(page, true);
    }

    /// Returns whether a page is in the list and dirty.
    fn is_dirty(&self, page: u32) -> bool {
        self.lru.contains(page) && self.lru.is_dirty(page)
    }

    /// Marks a page as clean that was written and stays in the list (buf0flu.cc, `buf_flush_write_complete`).
    fn clean(&mut self, page: u32) {
        self.lru.set_dirty(page, false);
        self.flush_list.as_mut().expect("a cleaner that writes from the flush list has one").remove(page);
    }
}

/// An InnoDB buffer pool with the cleaner of one generation.
pub struct Innodb<C> {
    pool: Pool,
    cleaner: C,
}

impl<C: Cleaner> Innodb<C> {
    /// Makes an empty pool. `flushes` is whether the cleaner writes from the flush list.
    fn with(frames: NonZeroU32, pages: u32, midpoint: MidpointSettings, cleaner: C, flushes: bool) -> Self {
        let frames = frames.get();
        let lru = Midpoint::new(frames, pages, midpoint);
        let flush_list = flushes.then(|| FlushList::new(pages));
        Innodb { pool: Pool { lru, flush_list, free: frames, frames, counts: Counts::default() }, cleaner }
    }

    /// Returns whether the pool has a page.
    pub fn has(&self, page: u32) -> bool {
        self.pool.lru.contains(page)
    }

    /// Returns the length of the free list (`Free buffers` of the monitor).
    pub fn free_len(&self) -> u32 {
        self.pool.free
    }

    /// Returns the length of the LRU list (`Database pages` of the monitor).
    pub fn lru_len(&self) -> u32 {
        self.pool.lru.len()
    }

    /// Returns the length of the flush list (`Modified db pages` of the monitor); none if the pool has none.
    pub fn flush_list_len(&self) -> Option<u32> {
        self.pool.flush_list.as_ref().map(FlushList::len)
    }

    /// Returns the length of the old sublist (`Old database pages` of the monitor); 0 below 512 pages, which have none.
    pub fn old_len(&self) -> u32 {
        self.pool.lru.old_len
    }

    /// Begins an event: the cleaner first does the work that is due.
    #[inline]
    fn begin(&mut self, access: Access) {
        let Pool { lru, free, frames, .. } = &self.pool;
        debug_assert_eq!(lru.len() + free, *frames, "each frame is free or in the list");
        self.cleaner.work(&mut self.pool, access.now_us);
    }

    fn take_frame(&mut self) {
        self.cleaner.provide_frame(&mut self.pool);
        assert!(self.pool.free > 0, "the cleaner left no frame to a thread that needs one");
        self.pool.free -= 1;
        self.cleaner.frame_taken(&self.pool);
    }
}

impl<C: Cleaner> Manager for Innodb<C> {
    /// Gives the page to a caller (buf0buf.cc, `buf_page_get_gen`). A page that is read enters the old sublist
    /// (`buf_page_init_for_read`).
    #[inline]
    fn get(&mut self, access: Access) {
        self.begin(access);
        if !self.pool.lru.contains(access.page) {
            self.pool.counts.misses += 1;
            self.take_frame();
            self.pool.lru.admit(access.page, true);
        }
        self.pool.access(access);
    }

    /// Accesses the page if the pool has it, and does not read it otherwise (buf0buf.cc, `buf_page_get_gen` with
    /// `BUF_GET_IF_IN_POOL`).
    fn get_if_in_pool(&mut self, access: Access) {
        self.begin(access);
        if self.pool.lru.contains(access.page) {
            self.pool.access(access);
        }
    }

    /// Takes a frame before it looks for the page, and returns the frame if the page is in the pool (buf0buf.cc,
    /// `buf_page_create`).
    fn create(&mut self, access: Access) {
        self.begin(access);
        self.take_frame();
        if self.pool.lru.contains(access.page) {
            self.pool.free += 1;
        } else {
            self.pool.counts.creates += 1;
            self.pool.lru.admit(access.page, false);
        }
        self.pool.lru.access(access.page, access.now_us);
        self.pool.change(access.page);
    }

    /// Reads the page without a get of it. InnoDB does so for read-ahead, and by `buf_read_page_background`
    /// (buf0rea.cc), which `btr_cur_prefetch_siblings` (btr0cur.cc) calls.
    fn prefetch(&mut self, access: Access) {
        self.begin(access);
        if !self.pool.lru.contains(access.page) {
            self.pool.counts.prefetch_reads += 1;
            self.take_frame();
            self.pool.lru.admit(access.page, true);
        }
    }

    fn drop_page(&mut self, access: Access) {
        self.begin(access);
        if self.pool.lru.contains(access.page) {
            self.pool.release(access.page);
        }
    }

    fn counts(&self) -> Counts {
        let &Midpoint { made_young, not_made_young, .. } = &self.pool.lru;
        Counts { made_young, not_made_young, ..self.pool.counts }
    }

    fn frames_used(&self) -> u32 {
        self.lru_len()
    }
}
