//! Frames and their memory: one mapping with pages that are aligned to their size. SQLite's extra space and the pool's
//! links for each page are in separate memory.
//!
//! This file does not decide which page is replaced. A region holds the frames up to the pool's size; each frame beyond
//! this size is allocated separately.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::ptr;

use rusqlite::ffi::sqlite3_pcache_page;

/// Readable bytes after the last page of a mapping and after a separate page.
///
/// `vdbeRecordCompareInt` reads up to 72 bytes past the end of a record that lies at the end of its page. It relies on
/// 74
/// bytes of padding there (`sqlite3VdbeFindCompare`), where SQLite's own cache has its headers. Between two pages of a
/// region the next page serves as padding, because SQLite never uses the excess bytes.
const OVERREAD_BYTES: usize = 128;

/// A frame of the pool. SQLite sees only the first field, and gives its address back to the pool.
#[repr(C)]
pub struct Frame {
    pub(super) page: sqlite3_pcache_page,
    pub(super) hash_next: *mut Frame,
    pub(super) newer: *mut Frame,
    pub(super) older: *mut Frame,
    pub(super) key: u32,
    /// True when the page is unpinned, that is, on the LRU list.
    pub(super) in_lru: bool,
    /// True when the frame belongs to a region, false for a frame that was allocated separately.
    pub(super) in_region: bool,
}

impl Frame {
    fn blank(page: *mut u8, extra: *mut u8, in_region: bool) -> Self {
        Frame {
            page: sqlite3_pcache_page { pBuf: page.cast(), pExtra: extra.cast() },
            hash_next: ptr::null_mut(),
            newer: ptr::null_mut(),
            older: ptr::null_mut(),
            key: 0,
            in_lru: false,
            in_region,
        }
    }
}

/// The memory of one pool.
pub struct FrameMemory {
    page_bytes: usize,
    extra_bytes: usize,
    regions: Vec<Region>,
    frames: usize,
}

impl FrameMemory {
    /// Makes the memory of a pool, without frames at first, for pages of `page_bytes` bytes, each with `extra_bytes`
    /// bytes for SQLite's own use.
    pub fn new(page_bytes: usize, extra_bytes: usize) -> Self {
        FrameMemory { page_bytes, extra_bytes: extra_bytes.next_multiple_of(16), regions: Vec::new(), frames: 0 }
    }

    /// Returns the number of frames in regions.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Adds a region of `count` frames and pushes them on `free`; the region's first frame is the last one pushed.
    pub fn add_region(&mut self, count: usize, free: &mut Vec<*mut Frame>) {
        let region = Region::new(count, self.page_bytes, self.extra_bytes);
        free.reserve(count);
        for index in (0..count).rev() {
            // SAFETY: index is within the region's arrays, which were allocated for `count` frames.
            unsafe {
                let frame = region.frames.add(index);
                let (page, extra) = (index * self.page_bytes, index * self.extra_bytes);
                frame.write(Frame::blank(region.pages.add(page), region.extras.add(extra), true));
                free.push(frame);
            }
        }
        self.frames += count;
        self.regions.push(region);
    }

    /// Allocates one frame beyond the regions, because every page is pinned.
    pub fn overflow_frame(&self) -> *mut Frame {
        let page = zeroed(self.overflow_page_layout());
        let extra = zeroed(layout(self.extra_bytes, 16));
        Box::into_raw(Box::new(Frame::blank(page, extra, false)))
    }

    /// Frees an overflow frame.
    ///
    /// # Safety
    /// `frame` was made by [`FrameMemory::overflow_frame`] of this memory, is in no list and is not used again.
    pub unsafe fn free_overflow_frame(&self, frame: *mut Frame) {
        // SAFETY: the caller promises a frame of this memory; the layouts are those of overflow_frame().
        unsafe {
            dealloc((*frame).page.pBuf.cast(), self.overflow_page_layout());
            dealloc((*frame).page.pExtra.cast(), layout(self.extra_bytes, 16));
            drop(Box::from_raw(frame));
        }
    }

    fn overflow_page_layout(&self) -> Layout {
        layout(self.page_bytes + OVERREAD_BYTES, self.page_bytes.max(4096))
    }
}

/// Memory for a number of frames, mapped at once. The kernel provides physical memory only as the pool uses frames.
struct Region {
    frames: *mut Frame,
    frames_layout: Layout,
    extras: *mut u8,
    extras_layout: Layout,
    pages: *mut u8,
    pages_layout: Layout,
}

impl Region {
    fn new(count: usize, page_bytes: usize, extra_bytes: usize) -> Self {
        let frames_layout = layout(count * size_of::<Frame>(), align_of::<Frame>());
        let extras_layout = layout(count * extra_bytes, 16);
        let pages_layout = layout(count * page_bytes + OVERREAD_BYTES, page_bytes.max(4096));
        Region {
            frames: zeroed(frames_layout).cast(),
            frames_layout,
            extras: zeroed(extras_layout),
            extras_layout,
            pages: mapped(pages_layout),
            pages_layout,
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: each part was allocated in new() with the stored layout, and is freed once.
        unsafe {
            dealloc(self.frames.cast(), self.frames_layout);
            dealloc(self.extras, self.extras_layout);
            unmap(self.pages, self.pages_layout);
        }
    }
}

fn layout(bytes: usize, alignment: usize) -> Layout {
    #[expect(clippy::expect_used, reason = "sizes are bounded by SQLite's page count; alignments are powers of two")]
    Layout::from_size_align(bytes.max(1), alignment).expect("a valid layout")
}

fn zeroed(layout: Layout) -> *mut u8 {
    // SAFETY: layouts made by layout() are never empty.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    memory
}

/// Maps zeroed anonymous memory, aligned as the layout asks. Its pages become resident when they are touched.
fn mapped(layout: Layout) -> *mut u8 {
    let slack = if layout.align() > 4096 { layout.align() } else { 0 };
    // SAFETY: the call makes an anonymous private mapping at an address that the kernel chooses.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            layout.size() + slack,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        handle_alloc_error(layout);
    }
    if slack == 0 {
        return start.cast();
    }
    let address = start as usize;
    let aligned = address.next_multiple_of(layout.align());
    // SAFETY: the calls unmap the unused head and tail of the new mapping, which are whole system pages.
    unsafe {
        if aligned > address {
            libc::munmap(start, aligned - address);
        }
        let tail = address + slack - aligned;
        if tail > 0 {
            libc::munmap((aligned + layout.size().next_multiple_of(4096)) as *mut c_void, tail);
        }
    }
    aligned as *mut u8
}

/// Unmaps memory that [`mapped`] has mapped.
///
/// # Safety
/// `memory` came from [`mapped`] with this layout and is not used afterwards.
unsafe fn unmap(memory: *mut u8, layout: Layout) {
    // SAFETY: the caller promises that the memory came from `mapped` with this layout.
    unsafe { libc::munmap(memory.cast(), layout.size()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true when the kernel maps all of `bytes` at `start`.
    fn is_mapped(start: *const u8, bytes: usize) -> bool {
        let page = start as usize / 4096 * 4096;
        let length = start as usize + bytes - page;
        let mut residency = vec![0u8; length.div_ceil(4096)];
        // SAFETY: mincore only looks the range up, and writes one byte for each of its system pages.
        unsafe { libc::mincore(page as *mut c_void, length, residency.as_mut_ptr().cast()) == 0 }
    }

    #[test]
    fn every_page_may_be_overread_by_a_few_bytes() {
        for page_bytes in [512, 4096, 65536] {
            let mut memory = FrameMemory::new(page_bytes, 24);
            let mut frames = Vec::new();
            // The regions have whole system pages, so that only the padding follows the last page. Try many regions,
            // because the memory after a region may happen to be mapped.
            for _ in 0..40 {
                memory.add_region(64, &mut frames);
            }
            for &frame in &frames {
                // SAFETY: the frame belongs to this memory.
                let page = unsafe { (*frame).page.pBuf.cast::<u8>() };
                assert!(is_mapped(page, page_bytes + OVERREAD_BYTES));
            }
            assert!(memory.regions.iter().all(|region| region.pages_layout.size() >= 64 * page_bytes + OVERREAD_BYTES));
            assert!(memory.overflow_page_layout().size() >= page_bytes + OVERREAD_BYTES);
        }
    }
}
