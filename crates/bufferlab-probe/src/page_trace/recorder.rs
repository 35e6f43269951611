//! The settings and answers that both recorders of a server's page accesses have in common.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use bufferlab_model::trace::Kind;
use serde::{Deserialize, Serialize};

use super::frames::FrameCounts;
use super::recording::{Spool, SpoolAsked, Spooled};
use crate::tracefs::TraceError;

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
    /// The instruction's first byte.
    pub byte: u8,
    /// Offset of the counter that a statically defined tracepoint checks.
    pub semaphore: Option<u64>,
    /// The places of the fields' values, in the order of the fields and in the kernel's notation.
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
    /// The places in the binary.
    pub sites: Vec<Site>,
}

/// The most records that are moved between two calls of `goes_on`: a busy server may fill the ring as fast as we empty
/// it.
pub(super) const RECORDS_AT_ONCE: usize = 4096;

/// The numbers of records and stops so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Records of the server.
    pub own: u64,
    /// Stops of other processes of the same binary, which were not recorded.
    pub others: u64,
    /// Records that were lost, because a buffer was full.
    pub lost: u64,
    /// The numbers of other processes of the same binary.
    pub strangers: Vec<u32>,
}

/// A recorder that is switched on, and the file it fills.
pub(super) trait Recorder: Send + 'static {
    /// How long the reader sleeps when there are no more records.
    const PAUSE: Duration;
    /// Moves records, a few thousand at most; returns whether there are no more.
    fn drain(&mut self) -> bool;
    /// Moves records until `goes_on` returns false. It is asked many times a second; its second argument is whether all
    /// records until then are moved.
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
    /// Returns the counts so far.
    fn seen(&self) -> Seen;
    /// Returns the file, as far as it is filled.
    fn spool(&self) -> &Spool;
    /// Writes the file; it is called in the thread that has read.
    fn finish(self) -> Told;
}

/// Starts the thread that reads.
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
    /// Records of a thread that are older than the one before: the clocks of the processors disagree.
    pub steps_back: u64,
    /// Tablespace, database, relation and fork of each object, if objects have no single number.
    pub relations: Vec<[u32; 4]>,
    /// The kernel's number of each thread.
    pub threads: Vec<u32>,
    /// Processor time of the reading thread, in nanoseconds.
    pub reader_cpu_ns: u64,
    /// The time that the server took, before its first instruction, to prepare its own recording, in nanoseconds.
    pub set_up_ns: u64,
    /// How often a thread of the server waited for the reader.
    pub waits: u64,
    /// How long all threads together waited for the reader, in nanoseconds.
    pub wait_ns: u64,
    /// In a trace of calls, device and inode of each object.
    pub files: Vec<(u32, u64)>,
    /// In a trace of calls, the counts of frames.
    pub frames: Option<FrameCounts>,
    /// In a trace of calls, the number of buffers and requests that were not read.
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
