//! The ghost list: the pages that left a pool, the latest first. If a page is read again while it is at depth `d` of
//! the list, a pool of `d` more frames would still have had it.
//!
//! The depth is exact for LRU: a larger pool holds the pages of the smaller pool, and also the pages that left the
//! smaller pool latest (Mattson, Gecsei, Slutz, Traiger: "Evaluation techniques for storage hierarchies", IBM Systems
//! Journal 9(2), 1970). For other managers it is an estimate. If a trace records each eviction before the read that
//! needs the frame, each depth is larger by one. The list needs only the reads, creations and evictions of a trace, and
//! not its hits.

use bufferlab_model::trace::latch::{LEFT_BY_RING, NO_RING, RING};
use bufferlab_model::trace::{Columns, Kind};

use crate::stack::{PageStack, TooManyPages};

/// This value in place of a depth marks a read that a larger pool would not have saved, because the buffer ring of a
/// scan evicted its page.
pub const BY_RING: u32 = u32::MAX;

/// The ghost list's values for each row of a trace.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Depths {
    /// For a read, the depth of its page, or 0 if the page is not in the list, or [`BY_RING`]. For other rows, 0.
    pub depth: Vec<u32>,
    /// For each row, the number of pages in the ghost list before the row.
    pub len: Vec<u32>,
}

/// A page's last read: its thread, and its number among that thread's reads.
#[derive(Clone, Copy, Default)]
struct LastRead {
    thread: u16,
    number: u32,
    /// Whether the read may have used a buffer ring: the trace says so, or has no mark.
    may_have_ring: bool,
    left_by_ring: bool,
}

/// Passes the reads, creations and evictions of a trace to a ghost list. The trace may lack gets.
///
/// A scan of PostgreSQL reuses the buffers of its ring, so its pages would leave a larger pool just as early. An
/// eviction counts as one by a ring if two conditions hold: the evicting thread itself read the page, fewer than
/// `ring_reads` of its reads ago, and the trace does not mark that read as one without a ring. Pass 0 if the database
/// has no rings. A trace of frames marks the evictions by rings itself.
///
/// # Errors
/// `TooManyPages` for more than 2^29 pages.
///
/// # Panics
/// If the columns differ in length.
pub fn ghost_depths(columns: &Columns, ring_reads: u32) -> Result<Depths, TooManyPages> {
    assert!(columns.rows().is_some(), "the columns differ in length");
    let pages = columns.page.iter().max().map_or(0, |&page| u64::from(page) + 1);
    // The pages that left the pool and did not come back.
    let mut list = PageStack::new(pages)?;
    let mut last_read = vec![LastRead::default(); pages as usize];
    let mut reads_of = vec![0_u32; usize::from(u16::MAX) + 1];
    let mut found = Depths::default();
    for (row, (&page, &kind)) in columns.page.iter().zip(columns.kind).enumerate() {
        let (thread, len) = (columns.thread[row], list.len());
        let state = &mut last_read[page as usize];
        let depth = match Kind::of(kind) {
            Some(Kind::Read) => {
                let number = &mut reads_of[usize::from(thread)];
                *number = number.wrapping_add(1);
                let depth = list.take(page);
                let depth = if state.left_by_ring { BY_RING } else { depth.unwrap_or(0) };
                let may_have_ring = columns.latch[row] & RING != NO_RING;
                *state = LastRead { thread, number: *number, may_have_ring, left_by_ring: false };
                depth
            }
            Some(Kind::Evict) => {
                let reads_since = reads_of[usize::from(thread)].wrapping_sub(state.number);
                let is_own = state.thread == thread && state.number > 0;
                // A trace of frames marks evictions by a ring itself.
                let is_told = columns.latch[row] & LEFT_BY_RING != 0;
                state.left_by_ring = is_told || (state.may_have_ring && is_own && reads_since < ring_reads);
                if !state.left_by_ring {
                    list.access(page);
                }
                0
            }
            Some(Kind::Create) => {
                list.take(page);
                *state = LastRead::default();
                0
            }
            _ => 0,
        };
        found.depth.push(depth);
        found.len.push(len);
    }
    Ok(found)
}
