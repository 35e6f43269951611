//! The pages and buffers of PostgreSQL's model, as the processes that write dirty pages see them.

/// A value that means no buffer, or no page.
pub const NONE: u32 = u32::MAX;
/// The mark of a dirty page (buf_internals.h, `BM_DIRTY`).
pub const DIRTY: u8 = 1;
/// The mark of a page that the checkpoint wants to write (`BM_CHECKPOINT_NEEDED`).
const CHECKPOINT_NEEDED: u8 = 2;
/// The mark of a page of which the log has a full image since the last checkpoint began. The page keeps the mark when
/// it is evicted.
pub const LOGGED: u8 = 4;

/// A page, and its place in the pool.
#[derive(Clone, Copy)]
pub struct Page {
    /// The page's buffer, or `NONE`.
    pub buffer: u32,
    /// The large table that the page belongs to, or `NO_TABLE`.
    pub table: u8,
    /// The usage count of its buffer, which pins raise and the clock's hand lowers (buf_internals.h).
    pub usage_count: u8,
    /// Whether the page is dirty, whether a checkpoint wants to write it, and whether the log has a full image of it.
    pub marks: u8,
}

impl Page {
    /// Makes the page clean, as a write does; returns whether it was dirty.
    pub fn clean(&mut self) -> bool {
        let is_dirty = self.marks & DIRTY != 0;
        self.marks &= LOGGED;
        is_dirty
    }
}

/// The buffers, as the processes that write dirty pages see them.
pub struct Buffers<'a> {
    /// Every page of the database.
    pub pages: &'a mut [Page],
    /// The page in each buffer, or `NONE`.
    pub buffers: &'a [u32],
}

impl Buffers<'_> {
    /// Returns the number of buffers.
    pub fn frames(&self) -> u32 {
        self.buffers.len() as u32
    }

    /// Returns whether a buffer's usage count is 0, or it has no page (bufmgr.c, `SyncOneBuffer`: `BUF_REUSABLE`).
    pub fn is_reusable(&self, buffer: u32) -> bool {
        let page = self.buffers[buffer as usize];
        page == NONE || self.pages[page as usize].usage_count == 0
    }

    /// Writes the page in a buffer if it is dirty; returns whether it did (bufmgr.c, `FlushBuffer`).
    pub fn write(&mut self, buffer: u32) -> bool {
        let page = self.buffers[buffer as usize];
        page != NONE && self.pages[page as usize].clean()
    }

    /// Marks every dirty page for a checkpoint, and puts these pages into `marked`, in the order of their numbers,
    /// which is also their order in files (bufmgr.c, `BufferSync`). From then on every page counts as without a full
    /// image in the log.
    pub fn begin_checkpoint(&mut self, marked: &mut Vec<u32>) {
        marked.clear();
        for (number, page) in (0..).zip(self.pages.iter_mut()) {
            page.marks &= !LOGGED;
            if page.marks & DIRTY != 0 {
                debug_assert_ne!(page.buffer, NONE, "page {number} is dirty and in no buffer");
                page.marks |= CHECKPOINT_NEEDED;
                marked.push(number);
            }
        }
    }

    /// Writes a page that still has the checkpoint's mark; returns whether it did. A page that was written since, or
    /// that left its buffer, has lost the mark.
    pub fn write_marked(&mut self, page: u32) -> bool {
        let page = &mut self.pages[page as usize];
        page.marks & CHECKPOINT_NEEDED != 0 && page.clean()
    }
}
