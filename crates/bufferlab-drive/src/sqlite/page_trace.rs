//! Records every access to a page of the pool, from the opening of the database to its end.
//!
//! The recorder lives in the pool, on the connection's thread. SQLite replaces the pool once it has read the page size
//! from the file, so a pool that ends passes the recorder to the next pool. The probe that marks the window's edges is
//! the same as for servers.

use std::path::Path;
use std::sync::{Arc, Mutex};

use bufferlab_model::trace::{Kind, Record};
use bufferlab_probe::clock;
use bufferlab_probe::page_trace::{PageTraceAsked, Spool, Spooled};

use super::vfs::VfsCounters;
use crate::failure::Failure;
use crate::lock;

/// The holder of a recorder while no pool has it: before the first pool, between two pools, and after the last pool.
pub type Holder = Arc<Mutex<Option<Box<Recorder>>>>;

/// Takes the recorder out of its holder.
pub fn taken(holder: &Holder) -> Option<Box<Recorder>> {
    lock(holder).take()
}

/// The recorder of a pool's accesses, which writes them to a spool file.
#[derive(Debug)]
pub struct Recorder {
    holder: Holder,
    spool: Spool,
    /// The counters of SQLite's reads. If SQLite does not read a page after the pool has admitted it, the page is new.
    vfs: Arc<VfsCounters>,
    /// The page that the pool admitted last, the time of its admission in nanoseconds, and the number of SQLite's reads
    /// until then.
    admitted: Option<(u32, u64, u64)>,
}

impl Recorder {
    /// Makes a recorder, and returns the holder from which this thread's pool takes it.
    ///
    /// # Errors
    /// When this user cannot make the spool file.
    pub fn ready(asked: &PageTraceAsked, vfs: Arc<VfsCounters>) -> Result<Holder, Failure> {
        let spool = Spool::create(&asked.spool)
            .map_err(|error| Failure::from_io("making the page trace's file", &asked.spool.path, &error))?;
        let holder = Holder::default();
        let recorder = Recorder { holder: Arc::clone(&holder), spool, vfs, admitted: None };
        *lock(&holder) = Some(Box::new(recorder));
        Ok(holder)
    }

    fn push(&mut self, t_ns: u64, page: u32, kind: Kind) {
        self.spool.push(&Record { t_ns, object: 0, page, thread: 0, kind, latch: 0, site: 0 });
    }

    fn reads(&self) -> u64 {
        self.vfs.pages_read.get() + self.vfs.wal_reads.get()
    }

    /// Records whether SQLite has read or created the page that was admitted last. SQLite reads a page before it asks
    /// the pool for another page, so the next request decides.
    pub fn settle(&mut self) {
        if let Some((page, t_ns, reads_before)) = self.admitted.take() {
            if self.reads() > reads_before {
                self.push(t_ns, page, Kind::Get);
                self.push(t_ns, page, Kind::Read);
            } else {
                self.push(t_ns, page, Kind::Create);
            }
        }
    }

    /// Records that the pool held the page, or that the page lost its frame.
    pub fn note(&mut self, page: u32, kind: Kind) {
        self.settle();
        self.push(clock::monotonic_ns(), page, kind);
    }

    /// Notes that the page got a frame; [`Recorder::settle`] records it.
    pub fn admit(&mut self, page: u32) {
        self.admitted = Some((page, clock::monotonic_ns(), self.reads()));
    }

    /// Puts the recorder back into its holder when its pool has ended. Another pool may take it.
    pub fn give_back(mut self: Box<Self>) {
        self.settle();
        let holder = Arc::clone(&self.holder);
        *lock(&holder) = Some(self);
    }
}

/// Ends the trace of the recorder in `holder`, and returns its file with any problem. Call it after the engine has
/// closed the database.
pub fn finish(holder: &Holder, spool: &Path) -> Spooled {
    let unclosed = || {
        let problem = Some("the pool was not closed".into());
        Spooled { spool: spool.to_owned(), problem, ..Spooled::default() }
    };
    taken(holder).map_or_else(unclosed, |recorder| recorder.spool.finish())
}
