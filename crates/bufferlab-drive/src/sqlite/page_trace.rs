//! Records every access to a page of the pool, from the opening of the database to its end.
//!
//! The recorder lives in the pool, on the connection's thread; SQLite may replace the pool (a page size is read from
//! the file), so a pool that ends hands the recorder to the next. The probe of the window's edges is that of servers.

use std::path::Path;
use std::sync::{Arc, Mutex};

use bufferlab_model::trace::{Kind, Record};
use bufferlab_probe::clock;
use bufferlab_probe::page_trace::{PageTraceAsked, Spool, Spooled};

use super::vfs::VfsCounters;
use crate::failure::Failure;
use crate::lock;

/// A recorder between two pools, or before the first and after the last.
pub type Holder = Arc<Mutex<Option<Box<Recorder>>>>;

/// Takes the recorder out of its holder.
pub fn taken(holder: &Holder) -> Option<Box<Recorder>> {
    lock(holder).take()
}

/// The recorder of a pool's accesses, which writes them into a spool.
#[derive(Debug)]
pub struct Recorder {
    holder: Holder,
    spool: Spool,
    /// SQLite's reads so far: a page that the pool admits and SQLite does not read then is new.
    vfs: Arc<VfsCounters>,
    /// The page that the pool admitted last, the time, and the reads before it.
    admitted: Option<(u32, u64, u64)>,
}

impl Recorder {
    /// Makes a recorder of this thread's pool, in a holder from which the pool takes it.
    ///
    /// # Errors
    /// When this user cannot make the spool.
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

    /// Records whether the last admitted page was read or made. SQLite reads a page before it asks the pool for
    /// another.
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

    /// Records that the page got a frame.
    pub fn admit(&mut self, page: u32) {
        self.admitted = Some((page, clock::monotonic_ns(), self.reads()));
    }

    /// Puts the recorder back, since the pool has ended; another pool may take it.
    pub fn give_back(mut self: Box<Self>) {
        self.settle();
        let holder = Arc::clone(&self.holder);
        *lock(&holder) = Some(self);
    }
}

/// Ends a recorder's trace. Call it once the engine has closed the database.
pub fn finish(holder: &Holder, spool: &Path) -> Spooled {
    let unclosed = || {
        let problem = Some("the pool was not closed".into());
        Spooled { spool: spool.to_owned(), problem, ..Spooled::default() }
    };
    taken(holder).map_or_else(unclosed, |recorder| recorder.spool.finish())
}
