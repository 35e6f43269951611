//! Infers which page each frame of a pool holds, from nothing but the calls that read into the frame and write from it.
//!
//! PostgreSQL and InnoDB read a page straight into its frame. So the buffer's address in a read identifies the frame:
//! the page that is read enters it, and the page that it held has left. A page that was made without a read becomes
//! known by its first write, whose buffer is the frame, too. Reads and writes of other memory (a backup's, the
//! doublewrite buffer's, local buffers of temporary tables) change no frame. If a server writes a copy of a page that a
//! frame holds (PostgreSQL up to 18, for the page's checksum), that is a write of the page.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use bufferlab_model::trace::latch::{LEFT_BY_RING, NO_RING};
use bufferlab_model::trace::{Kind, Record};
use serde::{Deserialize, Serialize};

use super::decode::{Numbers, numbered};
use super::mixed::Mixed;

mod names;

pub use names::Buffers;

/// The mark of a read whose page seemed to be in another frame, which had been freed without a call.
pub const MOVED: u8 = 1;
/// The mark of a read into a frame whose page was not known yet.
pub const UNNAMED: u8 = 2;

/// A server's pool: its addresses, the size of its pages, and two numbers of reads. By these numbers an eviction by a
/// scan's ring is distinguished from one by the pool's own replacement.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Bytes of a page of the pool.
    pub page_size_bytes: u64,
    /// Begin and end of the pool's memory in the server's address space.
    pub regions: Vec<(u64, u64)>,
    /// If a session fills a frame again within this many of its reads, the frame belongs to the ring of a scan. 0 if no
    /// pool has rings.
    pub ring_reads: u64,
    /// The number of reads of all sessions within which the pool's own replacement cannot reach a frame again.
    pub sweep_reads: u64,
    /// Whether the memory has other pages than the pool's: PostgreSQL's buffers of the log and of transactions' states.
    pub is_shared: bool,
}

/// One call that reads or writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The time of the call in nanoseconds, on CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// The address of the call's buffer in the server's memory.
    pub address: u64,
    /// The place of the first byte in the file, in bytes.
    pub offset: u64,
    /// The inode of the file that the call reads or writes.
    pub inode: u64,
    /// The number of the device of the file's file system.
    pub device: u32,
    /// The ID of the process that calls.
    pub process: u32,
    /// Bytes of the call's buffer.
    pub bytes: u32,
    /// Whether the call writes to the file; otherwise it reads.
    pub writes: bool,
    /// The first bytes of the name of the folder that holds the file.
    pub folder: [u8; 8],
}

impl Call {
    /// Returns whether the file is of a relation of PostgreSQL: in a database's folder, which is a number, or in
    /// `global` (relpath.c). Logs and transactions' states are in folders with other names.
    fn is_of_relation(&self) -> bool {
        self.folder[0].is_ascii_digit() || self.folder.starts_with(b"global\0")
    }
}

/// The counts of pages and calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FrameCounts {
    /// Number of reads of a page into a frame.
    pub read_pages: u64,
    /// Number of reads of a page into a frame whose former page was not known.
    pub unnamed_pages: u64,
    /// Number of reads of a page into a frame, while the page was thought to be in another one.
    pub moved_pages: u64,
    /// Number of writes of a page from a frame, or of a copy of a page that a frame holds.
    pub written_pages: u64,
    /// Number of pages that a write or a list showed in a frame, in place of a known page and without a read.
    pub created_pages: u64,
    /// Frames of the pool that any read, write or list has shown.
    pub frames: u64,
    /// Number of reads into the pool that were not of whole pages.
    pub odd_reads: u64,
    /// Bytes that the server read into memory outside of the pool.
    pub elsewhere_read_bytes: u64,
    /// Number of the server's lists of its buffers for which the address of the first buffer was found.
    pub used_lists: u64,
    /// Number of times that one of the server's lists of its buffers gave the page of a frame.
    pub listed_frames: u64,
}

/// A page: its file's number, and its number in the file.
type Page = (u32, u32);

/// The known state of a frame.
#[derive(Clone, Copy)]
struct Held {
    /// The frame's page; none if the page has left and no call shows which page came.
    page: Option<Page>,
    /// The process that filled the frame. The next two fields are the number of that read among all reads, and among
    /// the process's own.
    filled_by: u32,
    filled_at: u64,
    filled_at_own: u64,
    /// When a call last showed the frame's page, in nanoseconds on CLOCK_MONOTONIC.
    seen_ns: u64,
}

impl Held {
    /// The state of a frame of which nothing is known, or whose page came without a read and so without a ring.
    const UNKNOWN: Self = Self { page: None, filled_by: 0, filled_at: 0, filled_at_own: 0, seen_ns: 0 };
}

type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mixed>>;

/// The frames of one pool, as far as calls have shown them.
#[derive(Default)]
pub struct Frames {
    pool: Pool,
    /// The remainder of each frame's address divided by the page's size, equal for all frames; none before the first
    /// read or write.
    remainder: Option<u64>,
    held: Map<u64, Held>,
    frame_of: Map<Page, u64>,
    reads_of: Map<u32, u64>,
    /// The time of the last call, in nanoseconds on CLOCK_MONOTONIC.
    last_ns: u64,
    files: Map<(u32, u64), u32>,
    process_numbers: Numbers<u32>,
    /// The processes. A process's place in this list is its number in the trace's records.
    pub processes: Vec<u32>,
    /// The counts of pages and calls so far.
    pub counts: FrameCounts,
}

impl Frames {
    /// Makes frames of which nothing is known.
    pub fn new(pool: Pool) -> Self {
        Self { pool, ..Self::default() }
    }

    /// Returns the device and inode of each file, in the order of the numbers that records have as objects.
    pub fn files(&self) -> Vec<(u32, u64)> {
        let mut files: Vec<_> = self.files.iter().map(|(file, number)| (*number, *file)).collect();
        files.sort_unstable();
        files.into_iter().map(|(_, file)| file).collect()
    }

    /// Processes a call; passes the page events that follow from it to `take`.
    pub fn call(&mut self, call: &Call, take: &mut impl FnMut(Record)) {
        let size = self.pool.page_size_bytes;
        let (first, end) = (call.address, call.address.saturating_add(u64::from(call.bytes)));
        if !self.pool.regions.iter().any(|&(begin, last)| begin <= first && end <= last) {
            if call.writes {
                self.copy_written(call, take);
            } else {
                self.counts.elsewhere_read_bytes += u64::from(call.bytes);
            }
            return;
        }
        if self.pool.is_shared && !call.is_of_relation() {
            return;
        }
        let is_whole = call.bytes > 0 && u64::from(call.bytes).is_multiple_of(size) && call.offset.is_multiple_of(size);
        if !is_whole || *self.remainder.get_or_insert(first % size) != first % size {
            self.counts.odd_reads += u64::from(!call.writes);
            return;
        }
        self.last_ns = call.t_ns;
        let object = self.object((call.device, call.inode));
        let thread = numbered(&mut self.process_numbers, &mut self.processes, call.process);
        for place in 0..u64::from(call.bytes) / size {
            let (frame, page) = (first + place * size, (object, (call.offset / size + place) as u32));
            let record = |kind, (object, page): Page, latch, site| Record {
                t_ns: call.t_ns,
                object,
                page,
                thread,
                kind,
                latch,
                site,
            };
            let mut tell = |kind, page, latch, site| take(record(kind, page, latch, site));
            if call.writes {
                self.written(frame, page, call.t_ns, &mut tell)
            } else {
                self.read(frame, page, call, &mut tell)
            }
        }
        debug_assert!(self.frame_of.len() <= self.held.len(), "each page is in a frame of its own");
    }

    /// Returns the number of a file, by its device and inode.
    fn object(&mut self, file: (u32, u64)) -> u32 {
        let numbers = self.files.len() as u32;
        *self.files.entry(file).or_insert(numbers)
    }

    /// Notes that a page is read into a frame: the page that the frame held has left.
    fn read(&mut self, frame: u64, page: Page, call: &Call, tell: &mut impl FnMut(Kind, Page, u8, u8)) {
        self.counts.read_pages += 1;
        let own = self.reads_of.entry(call.process).or_default();
        *own += 1;
        let now = Held {
            page: Some(page),
            filled_by: call.process,
            filled_at: self.counts.read_pages,
            filled_at_own: *own,
            seen_ns: call.t_ns,
        };
        let before = self.held.insert(frame, now);
        self.counts.frames += u64::from(before.is_none());
        let mut site = 0;
        match before.and_then(|held| held.page.map(|page| (held, page))) {
            Some((held, left)) => {
                let Pool { ring_reads, sweep_reads, .. } = self.pool;
                let distance = now.filled_at - held.filled_at;
                let is_own = held.filled_by == now.filled_by && now.filled_at_own - held.filled_at_own < ring_reads;
                let is_ring = held.filled_at > 0 && (distance < ring_reads || is_own && distance < sweep_reads);
                self.frame_of.remove(&left);
                tell(Kind::Evict, left, if is_ring { LEFT_BY_RING } else { NO_RING }, 0);
            }
            None => {
                site |= UNNAMED;
                self.counts.unnamed_pages += 1;
            }
        }
        if let Some(old) = self.frame_of.insert(page, frame)
            && old != frame
        {
            site |= MOVED;
            self.counts.moved_pages += 1;
            self.forget(old);
            // The moment at which the page left is unknown: report the latest possible one, now.
            tell(Kind::Evict, page, NO_RING, MOVED);
        }
        tell(Kind::Read, page, NO_RING, site);
    }

    /// Notes that a page is written from a frame: the frame holds it.
    fn written(&mut self, frame: u64, page: Page, t_ns: u64, tell: &mut impl FnMut(Kind, Page, u8, u8)) {
        self.counts.written_pages += 1;
        self.holds(frame, page, t_ns, tell);
        tell(Kind::Write, page, NO_RING, 0);
    }

    /// Processes a write of memory outside of the pool: counts a write of each whole page of it that a frame holds.
    fn copy_written(&mut self, call: &Call, take: &mut impl FnMut(Record)) {
        let size = self.pool.page_size_bytes;
        let is_whole = u64::from(call.bytes).is_multiple_of(size) && call.offset.is_multiple_of(size);
        let Some(&object) = self.files.get(&(call.device, call.inode)).filter(|_| is_whole) else { return };
        let thread = numbered(&mut self.process_numbers, &mut self.processes, call.process);
        for place in 0..u64::from(call.bytes) / size {
            let page = (call.offset / size + place) as u32;
            if self.frame_of.contains_key(&(object, page)) {
                self.counts.written_pages += 1;
                take(Record { t_ns: call.t_ns, object, page, thread, kind: Kind::Write, latch: NO_RING, site: 0 });
            }
        }
    }

    /// Notes that a frame holds a page. If the page was not known to be there, it came without a read.
    fn holds(&mut self, frame: u64, page: Page, seen_ns: u64, tell: &mut impl FnMut(Kind, Page, u8, u8)) {
        let is_new_frame = !self.held.contains_key(&frame);
        let held = self.held.entry(frame).or_insert(Held::UNKNOWN);
        self.counts.frames += u64::from(is_new_frame);
        let before = held.page;
        held.seen_ns = seen_ns;
        if before == Some(page) {
            return;
        }
        *held = Held { page: Some(page), seen_ns, ..Held::UNKNOWN };
        if let Some(left) = before {
            self.counts.created_pages += 1;
            self.frame_of.remove(&left);
            tell(Kind::Evict, left, NO_RING, 0);
            tell(Kind::Create, page, NO_RING, 0);
        }
        if let Some(old) = self.frame_of.insert(page, frame)
            && old != frame
        {
            self.forget(old);
        }
    }

    fn forget(&mut self, frame: u64) {
        if let Some(held) = self.held.get_mut(&frame) {
            held.page = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    const SIZE: u64 = 8192;
    const BEGIN: u64 = 0x7f00_0000_1000;

    fn pool(frames: u64, ring_reads: u64) -> Frames {
        Frames::new(Pool {
            page_size_bytes: SIZE,
            regions: vec![(BEGIN, BEGIN + frames * SIZE)],
            ring_reads,
            sweep_reads: frames,
            is_shared: false,
        })
    }

    fn call(frame: u64, page: u64, writes: bool) -> Call {
        let (address, offset) = (BEGIN + frame * SIZE, page * SIZE);
        Call {
            t_ns: 1,
            address,
            offset,
            inode: 7,
            device: 8,
            process: 9,
            bytes: SIZE as u32,
            writes,
            folder: *b"5\0\0\0\0\0\0\0",
        }
    }

    fn told(frames: &mut Frames, calls: impl IntoIterator<Item = Call>) -> Vec<(Kind, u32, u8, u8)> {
        let mut found = Vec::new();
        for call in calls {
            frames.call(&call, &mut |record| found.push((record.kind, record.page, record.latch, record.site)));
        }
        found
    }

    #[test]
    fn a_read_tells_that_its_page_came_and_what_its_frame_held_left() {
        let mut frames = pool(4, 0);
        let found = told(&mut frames, [call(0, 10, false), call(1, 11, false), call(0, 12, false)]);
        let read = |page, site| (Kind::Read, page, NO_RING, site);
        assert_eq!(found, [read(10, UNNAMED), read(11, UNNAMED), (Kind::Evict, 10, NO_RING, 0), read(12, 0)]);
        assert_eq!((frames.counts.read_pages, frames.counts.frames, frames.files()), (3, 2, vec![(8, 7)]));
    }

    #[test]
    fn neighbours_that_one_call_reads_fill_neighbouring_frames() {
        let mut frames = pool(8, 0);
        let wide = Call { bytes: 3 * SIZE as u32, ..call(2, 20, false) };
        let found = told(&mut frames, [wide, call(3, 30, false)]);
        let pages: Vec<_> = found.iter().map(|&(kind, page, ..)| (kind, page)).collect();
        let read = |page| (Kind::Read, page);
        assert_eq!(pages, [read(20), read(21), read(22), (Kind::Evict, 21), read(30)]);
    }

    #[test]
    fn a_write_names_a_page_that_was_made_and_one_that_was_there_before() {
        let mut frames = pool(4, 0);
        let found = told(&mut frames, [call(0, 1, true), call(0, 2, false), call(0, 3, true), call(0, 3, true)]);
        let pages: Vec<_> = found.iter().map(|&(kind, page, ..)| (kind, page)).collect();
        // Page 1 was there when the trace began; page 3 took the frame of page 2 without a read.
        let came = [(Kind::Write, 1), (Kind::Evict, 1), (Kind::Read, 2), (Kind::Evict, 2), (Kind::Create, 3)];
        assert_eq!(pages[..5], came);
        assert_eq!(pages[5..], [(Kind::Write, 3), (Kind::Write, 3)]);
        let FrameCounts { unnamed_pages, created_pages, written_pages, .. } = frames.counts;
        assert_eq!((unnamed_pages, created_pages, written_pages), (0, 1, 3));
    }

    #[test]
    fn a_copy_that_is_written_is_a_write_of_the_page_if_a_frame_holds_it() {
        let mut frames = pool(4, 0);
        let copy = |page, pages: u32| Call { address: 0x5000_0000, bytes: pages * SIZE as u32, ..call(0, page, true) };
        // The file is not known yet.
        assert_eq!(told(&mut frames, [copy(1, 1)]), []);
        told(&mut frames, [call(0, 1, false), call(1, 3, false)]);
        let write = |page| (Kind::Write, page, NO_RING, 0);
        // The write covers pages 0 to 3, and frames hold two of them.
        assert_eq!(told(&mut frames, [copy(0, 4)]), [write(1), write(3)]);
        let other_file = Call { inode: 8, ..copy(1, 1) };
        let part = Call { bytes: 512, ..copy(1, 1) };
        let askew = Call { offset: SIZE + 512, ..copy(1, 1) };
        assert_eq!(told(&mut frames, [other_file, part, askew]), []);
        assert_eq!((frames.counts.written_pages, frames.held.len()), (2, 2));
    }

    #[test]
    fn a_page_that_moved_has_left_just_before_it_is_read() {
        let mut frames = pool(4, 0);
        let found = told(&mut frames, [call(0, 1, false), call(1, 2, false), call(1, 1, false)]);
        let moved = [(Kind::Evict, 2, NO_RING, 0), (Kind::Evict, 1, NO_RING, MOVED), (Kind::Read, 1, NO_RING, MOVED)];
        assert_eq!(found[2..], moved);
        // The decoder does not know the page that is now in frame 0.
        assert_eq!(told(&mut frames, [call(0, 5, false)]), [(Kind::Read, 5, NO_RING, UNNAMED)]);
    }

    #[test]
    fn other_memory_tells_nothing_and_parts_of_pages_are_counted() {
        let mut frames = pool(4, 0);
        let backup = Call { address: 0x5000_0000, ..call(0, 1, false) };
        let part = Call { bytes: 512, ..call(0, 1, false) };
        let askew = Call { address: BEGIN + SIZE + 512, ..call(0, 1, false) };
        assert_eq!(told(&mut frames, [call(0, 1, false), backup, part, askew]).len(), 1);
        assert_eq!((frames.counts.elsewhere_read_bytes, frames.counts.odd_reads), (SIZE, 2));
    }

    #[test]
    fn in_shared_memory_pages_of_logs_are_none_of_the_pool() {
        let mut frames = pool(4, 0);
        frames.pool.is_shared = true;
        let folders = [b"16384\0\0\0", b"global\0\0", b"pg_wal\0\0", b"pg_xact\0", b"members\0", b"globals\0"];
        let calls = folders.map(|folder| Call { folder: *folder, ..call(0, u64::from(folder[0]), true) });
        // The second page takes the frame of the first; both are written.
        assert_eq!((told(&mut frames, calls).len(), frames.counts.written_pages, frames.files().len()), (4, 2, 1));
    }

    #[test]
    fn a_frame_that_is_filled_again_soon_is_of_a_ring() {
        let mut frames = pool(256, 33);
        // A scan of 32 frames, and a session that reads other pages.
        let scan = (0..128)
            .flat_map(|page| [call(page % 32, page, false), Call { process: 1, ..call(33, 200 + page, false) }]);
        let found = told(&mut frames, scan);
        let of = |wanted: &dyn Fn(u32) -> bool| {
            let evicted: Vec<_> = found.iter().filter(|row| row.0 == Kind::Evict && wanted(row.1)).collect();
            (evicted.len(), evicted.iter().filter(|row| row.2 == LEFT_BY_RING).count())
        };
        assert_eq!(of(&|page| page < 128), (96, 96));
    }

    #[test]
    fn a_frame_that_its_session_fills_again_when_the_sweep_may_have_come_back_is_of_no_ring() {
        for (others, latch) in [(60, LEFT_BY_RING), (61, NO_RING)] {
            let mut frames = pool(64, 40);
            let of_others = (0..others).map(|page| Call { process: 1, ..call(1 + page % 60, 100 + page, false) });
            let calls = [call(0, 1, false), call(62, 2, false), call(63, 3, false)].into_iter().chain(of_others);
            let found = told(&mut frames, calls.chain([call(0, 9, false)]));
            assert_eq!(found[found.len() - 2], (Kind::Evict, 1, latch, 0), "{others}");
        }
    }

    proptest! {
        /// Checks that reads, writes and evictions are inferred from the calls of a pool that replaces by LRU and frees
        /// no page.
        #[test]
        fn the_calls_of_a_pool_tell_its_reads_writes_and_evictions(
            gets in prop::collection::vec((0_u64..40, any::<bool>()), 1..400), size in 2_u64..12,
        ) {
            let (mut frames, mut lru) = (pool(size, 0), VecDeque::<(u64, u64, bool)>::new());
            let (mut truth, mut found) = (Vec::new(), Vec::new());
            for (page, dirties) in gets {
                let mut calls = Vec::new();
                if let Some(place) = lru.iter().position(|held| held.0 == page) {
                    let mut held = lru.remove(place).expect("it is there");
                    held.2 |= dirties;
                    lru.push_back(held);
                } else {
                    let mut frame = lru.len() as u64;
                    if lru.len() as u64 == size {
                        let (left, its, dirty) = lru.pop_front().expect("it is full");
                        if dirty {
                            calls.push(call(its, left, true));
                            truth.push((Kind::Write, left as u32));
                        }
                        truth.push((Kind::Evict, left as u32));
                        frame = its;
                    }
                    calls.push(call(frame, page, false));
                    truth.push((Kind::Read, page as u32));
                    lru.push_back((page, frame, dirties));
                }
                found.extend(told(&mut frames, calls).into_iter().map(|(kind, page, ..)| (kind, page)));
            }
            prop_assert_eq!(truth, found);
            prop_assert_eq!(frames.counts.moved_pages, 0);
        }

        #[test]
        fn any_calls_are_survived(
            calls in prop::collection::vec((0_u64..8, 0_u64..20, any::<bool>(), 0_u32..5), 0..300),
        ) {
            let mut frames = pool(6, 3);
            let calls = calls.into_iter().map(|(frame, page, writes, pages)| {
                Call { bytes: pages * SIZE as u32, ..call(frame, page, writes) }
            });
            let found = told(&mut frames, calls);
            let reads = found.iter().filter(|row| row.0 == Kind::Read).count() as u64;
            prop_assert_eq!(reads, frames.counts.read_pages);
            for (page, frame) in &frames.frame_of {
                prop_assert_eq!(frames.held[frame].page, Some(*page));
            }
        }
    }
}
