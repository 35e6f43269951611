//! Plays the columns of a page trace to one buffer manager and counts what it does in a window.
//!
//! A manager hears what the database wanted (gets, creations, prefetches, drops), never what the traced server did
//! about it (reads, evictions).

use std::ops::{Range, Sub};

/// Numbers of the column `kind` of a page trace; docs/page-trace.md lists them.
pub mod kind {
    /// A caller wanted the page.
    pub const GET: u8 = 0;
    /// A caller wanted the page only if it is in the pool.
    pub const GET_IF_IN_POOL: u8 = 1;
    /// A caller wanted a frame for the page without a read.
    pub const CREATE: u8 = 2;
    /// The traced server read the page.
    pub const READ: u8 = 3;
    /// A caller asked to read the page if it is not in the pool.
    pub const PREFETCH: u8 = 4;
    /// The traced server took the page's frame for another page.
    pub const EVICT: u8 = 5;
    /// The page left the pool, whatever the pool's size.
    pub const DROP: u8 = 6;
}

/// One event that a manager hears.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The page, below the number of pages that the manager was made for.
    pub page: u32,
    /// The thread or process, by its number in the trace.
    pub thread: u16,
    /// The latch that it takes, by the database's number; 0 where it has none.
    pub latch: u8,
    /// Microseconds since the trace began, by the trace's clock.
    pub now_us: u64,
}

/// The counts of a manager since it was made, or in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pages read because a caller wanted them.
    pub misses: u64,
    /// Pages read because of a prefetch.
    pub prefetch_reads: u64,
    /// Pages that got a frame without a read, because they are new.
    pub creates: u64,
    /// Pages that lost their frame because the manager wanted it. Drops do not count.
    pub evictions: u64,
    /// InnoDB's `Pages made young`: moves from the old sublist to the head. Zero in other managers.
    pub made_young: u64,
    /// InnoDB's `not young`: accesses to old pages that came too early to move them. Zero in other managers.
    pub not_made_young: u64,
    /// Gets that PostgreSQL's model took for those of a scan, although the trace does not tell. Zero in other managers.
    pub guessed_scan_gets: u64,
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(self, before: Counts) -> Counts {
        Counts {
            misses: self.misses - before.misses,
            prefetch_reads: self.prefetch_reads - before.prefetch_reads,
            creates: self.creates - before.creates,
            evictions: self.evictions - before.evictions,
            made_young: self.made_young - before.made_young,
            not_made_young: self.not_made_young - before.not_made_young,
            guessed_scan_gets: self.guessed_scan_gets - before.guessed_scan_gets,
        }
    }
}

/// A buffer manager: a pool of a fixed number of frames that holds pages `0..pages`.
pub trait Manager {
    /// Gives the page to a caller; reads it if the pool does not have it.
    fn get(&mut self, access: Access);

    /// Gives the page to a caller if the pool has it.
    fn get_if_in_pool(&mut self, access: Access);

    /// Gives the page a frame without a read, or touches it if it has one.
    fn create(&mut self, access: Access);

    /// Reads the page if the pool does not have it. This is not a use of the page.
    fn prefetch(&mut self, access: Access);

    /// Takes the page out of the pool.
    fn drop_page(&mut self, access: Access);

    /// Returns what the manager did so far.
    fn counts(&self) -> Counts;

    /// Returns how many frames hold a page now.
    fn frames_used(&self) -> u32;
}

/// The columns of a page trace, one row an event, in the order of time.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    /// The page of each event.
    pub page: &'a [u32],
    /// Its kind, a number of [`kind`].
    pub kind: &'a [u8],
    /// The latch that it takes, by the database's number.
    pub latch: &'a [u8],
    /// Its thread.
    pub thread: &'a [u16],
    /// Microseconds since the event before it.
    pub delta_us: &'a [u32],
}

/// The counts of a replay between the edges of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Events of kind get.
    pub gets: u64,
    /// Events of kind get_if_in_pool.
    pub gets_if_in_pool: u64,
    /// The manager's counts.
    pub counts: Counts,
    /// Frames that hold a page at the window's end.
    pub frames_used: u32,
}

/// Plays the events before the window and in it. Events before it fill the pool and do not count; it skips events after
/// it. `window` has the indices of its first event and of the first behind it.
///
/// # Panics
/// If the columns differ in length, the window is not within them, or a page is not one of the manager's.
pub fn replay<M: Manager>(manager: &mut M, columns: &Columns, window: Range<usize>) -> Replayed {
    let rows = columns.page.len();
    let lengths = [columns.kind.len(), columns.latch.len(), columns.thread.len(), columns.delta_us.len()];
    assert!(lengths == [rows; 4], "{rows} pages, but {lengths:?} kinds, latches, threads and times");
    let before_us = play(manager, columns, 0..window.start, 0);
    let before = manager.counts();
    play(manager, columns, window.clone(), before_us);
    let of_kind = |wanted| columns.kind[window.clone()].iter().filter(|&&kind| kind == wanted).count() as u64;
    Replayed {
        gets: of_kind(kind::GET),
        gets_if_in_pool: of_kind(kind::GET_IF_IN_POOL),
        counts: manager.counts() - before,
        frames_used: manager.frames_used(),
    }
}

/// Plays some rows; returns the time of the last one.
fn play<M: Manager>(manager: &mut M, columns: &Columns, rows: Range<usize>, from_us: u64) -> u64 {
    let mut now_us = from_us;
    let pages = columns.page[rows.clone()].iter().zip(&columns.kind[rows.clone()]);
    let holders = columns.thread[rows.clone()].iter().zip(&columns.latch[rows.clone()]);
    let moments = holders.zip(&columns.delta_us[rows]);
    for ((&page, &kind), ((&thread, &latch), &delta_us)) in pages.zip(moments) {
        now_us += u64::from(delta_us);
        let access = Access { page, thread, latch, now_us };
        match kind {
            kind::GET => manager.get(access),
            kind::GET_IF_IN_POOL => manager.get_if_in_pool(access),
            kind::CREATE => manager.create(access),
            kind::PREFETCH => manager.prefetch(access),
            kind::DROP => manager.drop_page(access),
            _ => {}
        }
    }
    now_us
}

#[cfg(test)]
mod tests {
    use super::Counts;

    #[test]
    fn a_window_has_what_each_count_grew_by() {
        let of = |counts: [u64; 7]| {
            let [misses, prefetch_reads, creates, evictions, made_young, not_made_young, guessed_scan_gets] = counts;
            Counts { misses, prefetch_reads, creates, evictions, made_young, not_made_young, guessed_scan_gets }
        };
        assert_eq!(of([11, 22, 33, 44, 55, 66, 77]) - of([1, 3, 5, 7, 9, 13, 17]), of([10, 19, 28, 37, 46, 53, 60]));
    }
}
