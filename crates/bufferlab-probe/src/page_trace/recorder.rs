//! What all recorders of a server's page accesses have in common: what they are asked, and what they tell.

use std::path::{Path, PathBuf};

use bufferlab_model::trace::Kind;
use serde::{Deserialize, Serialize};

use super::inside::Inside;
use super::recording::{SpoolAsked, Spooled};
use super::tracer::PageTracer;
use crate::tracefs::TraceError;

/// A place in a binary that tells an event of a page.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// The function, for people.
    pub at: String,
    /// The events of each page there.
    pub kinds: Vec<Kind>,
    /// The events instead, when the field `flag` is not zero.
    pub kinds_if_flag: Option<Vec<Kind>>,
    /// Offset of the instruction in the file.
    pub offset: u64,
    /// Its first byte.
    pub byte: u8,
    /// Offset of the counter that a statically defined tracepoint checks.
    pub semaphore: Option<u64>,
    /// The places of the fields' values, in the order of the fields and in the kernel's notation.
    pub fetch: Vec<String>,
}

/// Who records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Code of ours in the server's process.
    Inside,
    /// The kernel.
    Uprobes,
}

/// The binary to trace, and the place of the records.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Who records.
    pub way: Method,
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

/// The result of a trace.
#[derive(Clone, Debug, Serialize)]
pub struct Told {
    /// The file of records.
    #[serde(flatten)]
    pub spooled: Spooled,
    /// Who recorded.
    pub recorder: Method,
    /// Records for which there was no room.
    pub lost: u64,
    /// Records of a thread that are older than the one before: the clocks of the processors disagree.
    pub steps_back: u64,
    /// Tablespace, database, relation and fork of each object, where objects have no number of their own.
    pub relations: Vec<[u32; 4]>,
    /// The kernel's number of each thread.
    pub threads: Vec<u32>,
    /// Processor time of the reading thread.
    pub reader_cpu_ns: u64,
    /// What the server did before its first instruction to record itself.
    pub set_up_ns: u64,
    /// How often a thread of the server waited for the reader.
    pub waits: u64,
    /// How long, over all threads.
    pub wait_ns: u64,
}

impl Told {
    /// The result of a trace of which nothing is known but its file.
    pub(super) fn empty(recorder: Method, spooled: Spooled) -> Self {
        let (relations, threads) = (Vec::new(), Vec::new());
        Self {
            spooled,
            recorder,
            lost: 0,
            steps_back: 0,
            relations,
            threads,
            reader_cpu_ns: 0,
            set_up_ns: 0,
            waits: 0,
            wait_ns: 0,
        }
    }

    /// The result of a trace whose reading thread ended in a panic.
    pub(super) fn broken(recorder: Method, spool: &Path) -> Self {
        let problem = Some("the reading thread ended in a panic".to_owned());
        Self::empty(recorder, Spooled { spool: spool.to_owned(), problem, ..Spooled::default() })
    }
}

/// What a server must be started with so that it records itself.
#[derive(Clone, Debug, Serialize)]
pub struct Preload {
    /// Variables of its environment.
    pub environment: Vec<(String, String)>,
    /// A descriptor that it inherits.
    pub descriptor: i32,
}

/// A recorder of one server's page accesses. Dropping it leaves nothing behind.
pub trait Recorder: Send {
    /// Returns what the server must be started with, and writes into its folder what that needs; none when nothing.
    ///
    /// # Errors
    /// When the folder cannot be used for it.
    fn preload(&self, folder: &Path) -> Result<Option<Preload>, TraceError>;

    /// Begins to record a process that will become the server, and all processes that it will start.
    ///
    /// # Errors
    /// When it cannot be recorded.
    fn attach(&mut self, pid: u32) -> Result<(), TraceError>;

    /// Makes sure that the server, which has answered, is recorded.
    ///
    /// # Errors
    /// When it is not, with the reason.
    fn require_on(&self) -> Result<(), TraceError>;

    /// Ends the trace and returns the result.
    #[must_use]
    fn finish(self: Box<Self>) -> Told;
}

/// Prepares a trace and records nothing yet.
///
/// # Errors
/// When this build cannot be recorded in this way, or this user cannot do it; nothing is left then.
pub fn arm(settings: Settings) -> Result<Box<dyn Recorder>, TraceError> {
    Ok(match settings.way {
        Method::Inside => Box::new(Inside::arm(settings)?),
        Method::Uprobes => Box::new(PageTracer::arm(settings)?),
    })
}

/// Makes sure that a build can be recorded in this way here and now.
///
/// # Errors
/// With the reason why not.
pub fn check(settings: &Settings) -> Result<(), TraceError> {
    match settings.way {
        Method::Inside => super::inside::check(settings),
        Method::Uprobes => super::definition::check().map(drop),
    }
}
