//! The common part of the recorders of page accesses: their settings, the loop of a reader, and their output. The
//! output is a file of accesses, and the edges of the measured window on the clock of the accesses.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use bufferlab_model::trace::{KINDS, Kind, RECORD_BYTES, Record, Window};
use serde::{Deserialize, Serialize};

use super::carried::Carried;
use super::frames::FrameCounts;
use super::packed::Packed;
use crate::clock::monotonic_ns;
use crate::reading::{Probe, Reading, Table};
use crate::tracefs::TraceError;

const BUFFER_BYTES: usize = 1 << 20;

/// The file that a page trace writes once its run is over, and the most bytes that the trace may take.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpoolAsked {
    /// The file of accesses. The recorder makes it.
    pub path: PathBuf,
    /// The most bytes of the file. In memory, while the run goes on, a trace takes at most half of them.
    pub limit_bytes: u64,
}

/// A recorder's accesses. They stay in memory during the run, so that the trace writes nothing to the measured device.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    file: File,
    limit_bytes: u64,
    /// The accesses of each ring: they become one stream when the run is over.
    rings: Vec<Packed>,
    records: u64,
    /// Bytes of memory that the accesses of all rings take.
    bytes: u64,
    events: [u64; KINDS.len()],
    is_over_limit: bool,
}

/// A finished spool. If it is not complete, it has a problem, or a limit that it reached.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Spooled {
    /// The file of accesses.
    pub spool: PathBuf,
    /// Accesses by kind, without kinds that did not occur.
    pub events: BTreeMap<&'static str, u64>,
    /// The reason why the file lacks accesses.
    pub problem: Option<String>,
    /// The limit, in bytes, at which the trace ended.
    pub over_limit_bytes: Option<u64>,
}

impl Spool {
    /// Makes a spool and its empty file, or takes the file of one of this process's descriptors (/proc/self/fd), which
    /// may have no name.
    ///
    /// # Errors
    /// The system's error; also when a file with a name exists already.
    pub fn create(asked: &SpoolAsked) -> std::io::Result<Self> {
        let (path, limit_bytes) = (asked.path.clone(), asked.limit_bytes);
        let is_open = path.starts_with("/proc/self/fd");
        let file = File::options().write(true).create_new(!is_open).open(&path)?;
        let (rings, events) = (Vec::new(), [0; KINDS.len()]);
        Ok(Spool { path, file, limit_bytes, rings, records: 0, bytes: 0, events, is_over_limit: false })
    }

    /// Adds an access, in memory. A trace that reaches its limit ends: its memory is freed, and later accesses are only
    /// counted.
    #[inline]
    pub fn push(&mut self, access: &Record) {
        self.push_from(0, access);
    }

    /// Adds an access from one of several rings. The caller may take the rings in any order.
    #[inline]
    pub(super) fn push_from(&mut self, ring: usize, access: &Record) {
        self.events[access.kind as usize] += 1;
        if self.is_over_limit {
            return;
        }
        if ring >= self.rings.len() {
            self.rings.resize_with(ring + 1, Packed::new);
        }
        self.bytes += self.rings[ring].push(access) as u64;
        self.records += 1;
        if self.records * RECORD_BYTES as u64 > self.limit_bytes || self.bytes > self.limit_bytes / 2 {
            (self.is_over_limit, self.rings, self.bytes) = (true, Vec::new(), 0);
        }
    }

    /// Returns the accesses so far by kind, without kinds that did not occur.
    pub(super) fn events(&self) -> BTreeMap<&'static str, u64> {
        let events = KINDS.iter().zip(self.events).filter(|(_, count)| *count > 0);
        events.map(|((_, name), count)| (*name, count)).collect()
    }

    /// Returns the used fraction of the limit in bytes; 1 once the trace has ended at its limit.
    pub(super) fn used_ratio(&self) -> f64 {
        if self.is_over_limit {
            return 1.0;
        }
        let used_bytes = (self.records * RECORD_BYTES as u64).max(2 * self.bytes);
        used_bytes as f64 / self.limit_bytes.max(1) as f64
    }

    /// Writes the file, in the order of time; call it once the run is over. A file that cannot be whole is removed.
    #[must_use]
    pub fn finish(self) -> Spooled {
        self.finish_with(&Carried::default())
    }

    /// Writes the file as [`Spool::finish`] does, and fills in the pages of evictions whose records lack them.
    #[must_use]
    pub(super) fn finish_with(self, carried: &Carried) -> Spooled {
        let events = self.events();
        let Self { path, file, limit_bytes, rings, is_over_limit, .. } = self;
        let mut file = BufWriter::with_capacity(BUFFER_BYTES, file);
        let written =
            merge(rings, |access| file.write_all(&carried.named(*access).bytes())).and_then(|()| file.flush());
        if is_over_limit || written.is_err() {
            // Ignore an error: the file is then removed with the run's folder.
            let _ = std::fs::remove_file(&path);
        }
        Spooled {
            spool: path,
            events,
            problem: written.err().map(|error| format!("the page trace could not be written: {error}")),
            over_limit_bytes: is_over_limit.then_some(limit_bytes),
        }
    }
}

/// Passes the accesses of all streams to `out` in the order of time; at the same moment, the first stream's come first.
///
/// A stream keeps its order. If a recorder was interrupted between reading the clock and writing an access, the access
/// comes after a later one in the stream, and gets the later one's time.
///
/// # Errors
/// The first error of `out`.
fn merge<S: IntoIterator<Item = Record>, E>(
    streams: Vec<S>,
    mut out: impl FnMut(&Record) -> Result<(), E>,
) -> Result<(), E> {
    let mut streams: Vec<_> = streams.into_iter().map(|stream| stream.into_iter().peekable()).collect();
    let heads = streams.iter_mut().enumerate();
    let mut heads: BinaryHeap<_> =
        heads.filter_map(|(number, stream)| Some(Reverse((stream.peek()?.t_ns, number)))).collect();
    let mut last_ns = 0;
    while let Some(Reverse((_, number))) = heads.pop() {
        // Threads take turns on a processor, so that a stream often has many accesses before the next stream's first.
        let next = heads.peek().map_or((u64::MAX, usize::MAX), |Reverse(next)| *next);
        let stream = &mut streams[number];
        while let Some(access) = stream.next_if(|access| (access.t_ns, number) < next) {
            last_ns = access.t_ns.max(last_ns);
            out(&Record { t_ns: last_ns, ..access })?;
        }
        heads.extend(stream.peek().map(|access| Reverse((access.t_ns, number))));
    }
    Ok(())
}

/// The name of every probe of page accesses, and of its table.
pub const NAME: &str = "page_trace";

/// A run's request for a page trace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageTraceAsked {
    /// The file of the trace.
    pub spool: SpoolAsked,
    /// Whether a server that cannot be recorded ends the run.
    pub required: bool,
}

/// The probe of a run whose accesses are recorded: by its engine, or by the process that started the server.
pub struct WindowProbe<F> {
    window: Window,
    edges: Edges,
    /// The moment of [`Probe::before_edge`] in nanoseconds, before the engine's counters were read at this edge of the
    /// window.
    asked_ns: Option<u64>,
    rest: F,
}

/// The moments before and after a server's counters were read. The server's background threads may get pages between
/// two such moments. So the counts begin somewhere between `counters_start_ns` and the window's start, and end
/// somewhere between the window's end and `counters_end_ns`.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Edges {
    /// The moment before the counters were read at the window's start.
    counters_start_ns: Option<u64>,
    /// The moment after the counters were read at the window's end.
    counters_end_ns: Option<u64>,
}

impl<T: Serialize, F: FnOnce() -> T + Send> WindowProbe<F> {
    /// Makes a probe that notes the edges of the window. Once the engine has ended, the probe returns them with the
    /// value of `rest`.
    pub fn with(rest: F) -> Self {
        Self { window: Window::default(), edges: Edges::default(), asked_ns: None, rest }
    }
}

/// Makes a probe that also returns the kernel's IDs of bufferlab's threads, whose accesses the server's counters leave
/// out.
pub fn window_without(uncounted_threads: Vec<u32>) -> impl Probe {
    #[derive(Serialize)]
    struct Uncounted {
        uncounted_threads: Vec<u32>,
    }
    WindowProbe::with(|| Uncounted { uncounted_threads })
}

impl<T: Serialize, F: FnOnce() -> T + Send> Probe for WindowProbe<F> {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sample(&mut self, _out: &mut Vec<Reading>) {
        if self.window.window_end_ns.is_some() {
            self.edges.counters_end_ns.get_or_insert_with(monotonic_ns);
        }
    }

    fn before_edge(&mut self) {
        self.asked_ns = Some(monotonic_ns());
    }

    fn begin(&mut self) {
        self.edges.counters_start_ns = self.asked_ns;
        self.window.window_start_ns = Some(monotonic_ns());
    }

    fn end(&mut self) {
        self.window.window_end_ns = Some(monotonic_ns());
    }

    fn finish(self: Box<Self>) -> Option<Table> {
        #[derive(Serialize)]
        struct Told<T> {
            #[serde(flatten)]
            window: Window,
            #[serde(flatten)]
            edges: Edges,
            #[serde(flatten)]
            rest: T,
        }
        let Self { window, edges, rest, .. } = *self;
        Some(Table::new(NAME, &Told { window, edges, rest: rest() }))
    }
}

/// A place in a binary that marks an event of a page.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// The name of the function, for people.
    pub at: String,
    /// The kinds of events that the place marks for each page.
    pub kinds: Vec<Kind>,
    /// The kinds of events in place of `kinds`, if the field `flag` is not zero.
    pub kinds_if_flag: Option<Vec<Kind>>,
    /// Offset of the instruction in the file.
    pub offset: u64,
    /// The first byte of the instruction at the place.
    pub byte: u8,
    /// Offset of the counter that a statically defined tracepoint checks.
    pub semaphore: Option<u64>,
    /// Where the probe finds each field's value, in the order of the fields and in the kernel's notation.
    pub fetch: Vec<String>,
}

/// The binary to trace, and the place of the records.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The server's binary.
    pub binary: PathBuf,
    /// The file of records, which the recorder makes.
    pub spool: SpoolAsked,
    /// Fields of a record with their types, such as `space:u32`.
    pub fields: Vec<String>,
    /// Values of the field `mode` that mean: only if the page is in the pool.
    #[serde(default)]
    pub modes_if_in_pool: Vec<u64>,
    /// The places in the binary that mark events of pages.
    pub sites: Vec<Site>,
}

/// The most records that are moved between two calls of `goes_on`: a busy server may fill the ring as fast as the
/// reader empties it.
pub(super) const RECORDS_AT_ONCE: usize = 4096;

/// The numbers of records and stops so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Records read so far that the traced server made: accesses, or calls that read and write.
    pub own: u64,
    /// Stops of other processes of the same binary, which were not recorded.
    pub others: u64,
    /// Records of the server that were lost, because the ring buffer of the kernel's program was full.
    pub lost: u64,
    /// The process IDs of the other processes of the same binary that were stopped.
    pub strangers: Vec<u32>,
}

/// A recorder that is switched on, with the spool into which it moves records.
pub(super) trait Recorder: Send + 'static {
    /// The time for which the reader sleeps when there are no more records.
    const PAUSE: Duration;
    /// Moves records, a few thousand at most; returns whether there are no more.
    fn drain(&mut self) -> bool;
    /// Moves records until `goes_on` returns false. `goes_on` is called many times a second; its second argument is
    /// whether all records until then are moved.
    fn read_while(&mut self, mut goes_on: impl FnMut(&Self, bool) -> bool) {
        loop {
            let is_all = self.drain();
            if !goes_on(self, is_all) {
                return;
            }
            if is_all {
                std::thread::sleep(Self::PAUSE);
            }
        }
    }
    /// Switches the recorder off and moves the records that are left.
    fn close(&mut self);
    /// Returns the numbers of records and stops so far.
    fn seen(&self) -> Seen;
    /// Returns the spool with the accesses so far.
    fn spool(&self) -> &Spool;
    /// Writes the spool's file and returns the result of the trace. The thread that moved the records calls it.
    fn finish(self) -> Told;
}

/// Starts a thread with this body, which moves records into the spool at `spool`.
pub(super) fn spawned<T: Send + 'static>(
    spool: &Path,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, TraceError> {
    let thread = std::thread::Builder::new().name("page-trace".to_owned()).spawn(body);
    thread.map_err(|error| TraceError::io("the reading thread cannot be started", spool, &error))
}

/// The result of a trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Told {
    /// The file of records.
    #[serde(flatten)]
    pub spooled: Spooled,
    /// Accesses that were lost, because no buffer had room for their records.
    pub lost: u64,
    /// The number of records that are older than the thread's record before: the clocks of the processors disagree.
    pub steps_back: u64,
    /// Tablespace, database, relation and fork of each object, if objects have no single number.
    pub relations: Vec<[u32; 4]>,
    /// The kernel's ID of each thread, or in a trace of calls of each process. A thread's place in this list is its
    /// number in the records.
    pub threads: Vec<u32>,
    /// Processor time of the reading thread, in nanoseconds.
    pub reader_cpu_ns: u64,
    /// The time, in nanoseconds, that a server took to prepare its own recording before it ran its `main`.
    pub set_up_ns: u64,
    /// How often threads of a server that records itself waited because the reader had not emptied their ring.
    pub waits: u64,
    /// How long all threads of a server that records itself waited together for the reader, in nanoseconds.
    pub wait_ns: u64,
    /// In a trace of calls, device and inode of each object.
    pub files: Vec<(u32, u64)>,
    /// In a trace of calls, the counts of frames.
    pub frames: Option<FrameCounts>,
    /// In a trace of calls, the number of buffers and requests of the server that the kernel's program could not
    /// follow.
    pub left_out_calls: u64,
    /// In a trace of calls, the number of calls on descriptors of no file.
    pub calls_without_file: u64,
}

impl Told {
    /// Returns the result of a trace whose reading thread ended in a panic.
    pub(super) fn broken(spool: &Path) -> Self {
        let problem = Some("the reading thread ended in a panic".to_owned());
        Self { spooled: Spooled { spool: spool.to_owned(), problem, ..Spooled::default() }, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use bufferlab_model::trace::Kind;
    use proptest::prelude::*;

    use super::*;

    fn access(page: u32, kind: Kind) -> Record {
        Record { t_ns: 1, object: 0, page, thread: 0, kind, latch: 0, site: 0 }
    }

    fn spool(folder: &tempfile::TempDir, limit_bytes: u64) -> Spool {
        Spool::create(&SpoolAsked { path: folder.path().join("spool"), limit_bytes }).unwrap()
    }

    #[test]
    fn every_access_is_in_the_file_and_counted_under_its_kind_and_none_is_before_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = spool(&folder, 25_000 * RECORD_BYTES as u64);
        for page in 0..25_000 {
            spool.push(&access(page, if page % 5 == 0 { Kind::Read } else { Kind::Get }));
        }
        assert_eq!(std::fs::metadata(&spool.path).unwrap().len(), 0);
        let told = spool.finish();
        assert_eq!(told.events, BTreeMap::from([("get", 20_000), ("read", 5_000)]));
        assert_eq!((told.problem, told.over_limit_bytes), (None, None));
        let bytes = std::fs::read(told.spool).unwrap();
        let pages = bytes.chunks(RECORD_BYTES).map(|record| u32::from_le_bytes(record[12..16].try_into().unwrap()));
        assert!(pages.eq(0..25_000));
    }

    #[test]
    fn accesses_of_several_rings_are_in_the_file_in_the_order_of_time_and_count_together() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = spool(&folder, 300 * RECORD_BYTES as u64);
        for ring in [2, 0, 1] {
            (0..100).for_each(|page| {
                spool.push_from(ring, &Record { t_ns: u64::from(10 * page) + ring as u64, ..access(page, Kind::Get) });
            });
        }
        let bytes = std::fs::read(spool.finish().spool).unwrap();
        let times = bytes.chunks(RECORD_BYTES).map(|record| u64::from_le_bytes(record[..8].try_into().unwrap()));
        assert!(times.eq((0..100).flat_map(|page| [10 * page, 10 * page + 1, 10 * page + 2])));
    }

    #[test]
    fn a_trace_ends_at_its_limit_leaves_no_file_and_counts_on() {
        let folder = tempfile::tempdir().unwrap();
        let limit_bytes = 25_000 * RECORD_BYTES as u64 - 1;
        let mut spool = spool(&folder, limit_bytes);
        for page in 0..25_001 {
            spool.push_from(page as usize % 3, &access(page, Kind::Get));
            assert!(page < 24_999 || spool.bytes == 0);
        }
        let told = spool.finish();
        assert_eq!((told.problem, told.over_limit_bytes), (None, Some(limit_bytes)));
        assert_eq!(told.events, BTreeMap::from([("get", 25_001)]));
        assert!(!told.spool.exists());
    }

    #[test]
    fn a_trace_tells_how_much_of_its_limit_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = spool(&folder, 100 * RECORD_BYTES as u64);
        let told: Vec<f64> = (0..101)
            .map(|page| {
                spool.push(&access(page, Kind::Get));
                spool.used_ratio()
            })
            .collect();
        assert!(told.is_sorted() && (told[49] - 0.5).abs() < 0.3 && (told[99], told[100]) == (1.0, 1.0), "{told:?}");
        assert_eq!(spool.events(), BTreeMap::from([("get", 101)]));
    }

    #[test]
    fn in_memory_a_trace_takes_half_of_its_limit_at_most() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = spool(&folder, 100 * RECORD_BYTES as u64);
        for page in 0..90 {
            // Successive accesses differ much in every field, so that each takes more than half of a record's bytes.
            let (t_ns, far) = (u64::from(page % 2) << 60, page % 2 * u32::MAX);
            spool.push(&Record { t_ns, object: far, page: far, thread: far, kind: Kind::Get, latch: 0, site: 0 });
            assert!(spool.bytes <= 50 * RECORD_BYTES as u64);
        }
        assert!(spool.finish().over_limit_bytes.is_some());
    }

    #[test]
    fn the_edges_of_a_window_hold_the_reading_of_its_counters_and_later_samples_move_nothing() {
        let mut probe = window_without(vec![7]);
        probe.before_edge();
        probe.sample(&mut Vec::new());
        probe.begin();
        probe.sample(&mut Vec::new());
        probe.end();
        probe.before_edge();
        let before = monotonic_ns();
        probe.sample(&mut Vec::new());
        let after = monotonic_ns();
        probe.before_edge();
        probe.sample(&mut Vec::new());
        let told = Box::new(probe).finish().unwrap().told;
        let at = |name: &str| told[name].as_u64().unwrap();
        assert!(at("counters_start_ns") < at("window_start_ns") && at("window_end_ns") < before);
        assert!((before..=after).contains(&at("counters_end_ns")));
        assert_eq!(told["uncounted_threads"], serde_json::json!([7]));
    }

    #[test]
    fn a_file_without_a_name_is_written_too() {
        use std::os::fd::AsRawFd;

        let mut file = tempfile::tempfile().unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let mut spool = Spool::create(&SpoolAsked { path, limit_bytes: 1 << 20 }).unwrap();
        spool.push(&access(7, Kind::Read));
        assert_eq!(spool.finish().problem, None);
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
        assert_eq!(bytes, access(7, Kind::Read).bytes());
    }

    #[test]
    fn a_full_disk_is_told_at_the_end_and_stops_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = spool(&folder, u64::MAX);
        spool.file = File::options().write(true).open("/dev/full").unwrap();
        for page in 0..25_000 {
            spool.push(&access(page, Kind::Get));
        }
        let told = spool.finish();
        assert!(told.problem.unwrap().contains("No space left"));
        assert!(!told.spool.exists());
    }

    fn accesses(streams: &[Vec<u64>]) -> Vec<VecDeque<Record>> {
        let record = |thread: usize, page: usize, t_ns: u64| Record {
            t_ns,
            thread: thread as u32,
            ..access(page as u32, Kind::Get)
        };
        let of = |(thread, times): (usize, &Vec<u64>)| {
            times.iter().enumerate().map(|(page, t_ns)| record(thread, page, *t_ns)).collect()
        };
        streams.iter().enumerate().map(of).collect()
    }

    fn merged(streams: &[Vec<u64>]) -> Vec<Record> {
        let mut out = Vec::new();
        let done: Result<(), ()> = merge(accesses(streams), |access| {
            out.push(*access);
            Ok(())
        });
        done.expect("it is taken");
        out
    }

    /// Merges by looking at every stream for each access.
    fn slowly_merged(streams: &[Vec<u64>]) -> Vec<Record> {
        let (mut streams, mut out, mut last_ns) = (accesses(streams), Vec::new(), 0);
        while let Some(stream) = streams
            .iter_mut()
            .filter(|stream| !stream.is_empty())
            .min_by_key(|stream| (stream[0].t_ns, stream[0].thread))
        {
            let access = stream.pop_front().expect("it is not empty");
            last_ns = last_ns.max(access.t_ns);
            out.push(Record { t_ns: last_ns, ..access });
        }
        out
    }

    #[test]
    fn accesses_of_two_streams_come_in_the_order_of_time() {
        let out = merged(&[vec![10, 40, 60], vec![20, 30, 50]]);
        assert!(out.iter().map(|access| access.t_ns).eq([10, 20, 30, 40, 50, 60]));
        assert!(out.iter().map(|access| access.thread).eq([0, 1, 1, 0, 1, 0]));
    }

    #[test]
    fn an_access_behind_a_later_one_gets_the_time_of_that() {
        let out = merged(&[vec![10, 100, 90, 110], vec![95, 105]]);
        let told: Vec<_> = out.iter().map(|access| (access.t_ns, access.thread, access.page)).collect();
        assert_eq!(told, [(10, 0, 0), (95, 1, 0), (100, 0, 1), (100, 0, 2), (105, 1, 1), (110, 0, 3)]);
    }

    proptest! {
        #[test]
        fn any_streams_are_merged_as_by_looking_at_all_of_them(
            streams in prop::collection::vec(prop::collection::vec(0..30_u64, 0..20), 0..6),
        ) {
            let out = merged(&streams);
            prop_assert!(out.is_sorted_by_key(|access| access.t_ns));
            prop_assert_eq!(out, slowly_merged(&streams));
        }
    }
}
