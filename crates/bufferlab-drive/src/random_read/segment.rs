//! Runs a part of a run that reads a file: prepares readers, starts all of them at once, and waits for them.
//!
//! It makes rings, buffers and mappings before the part begins, and frees them after the part's end, so that the part's
//! time contains only reads. While the function `before` runs, no reader reads.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::calls;
use super::job::{Backend, IoMode, Run};
use super::memory::{Buffers, Mapping};
use super::offsets::Offsets;
use super::opened_file::{OpenedFile, no_memory};
use super::reader::{Reader, Shared, now_ns};
use super::scoreboard::Scoreboard;
use super::uring::Ring;
use crate::failure::{Failure, FailureKind};
use crate::finished::Part;
use crate::job::Limit;
use crate::lock;
use crate::quota::Quota;

/// Returns the number of readers of a run, each of which has a thread. With `io_uring` a reader keeps many reads in
/// flight, otherwise only one.
pub(super) fn readers(job: &Run, backend: Backend) -> usize {
    match backend {
        Backend::IoUring => job.reads.threads,
        _ => job.reads.in_flight(),
    }
}

/// The results of a part of a run whose reads have all ended.
pub(super) struct PartOver {
    pub part: Part,
    /// Each reader's generator of offsets, as it was at the part's start, and the number of reads that the reader
    /// began.
    pub done: Vec<(Offsets, u64)>,
    /// Whether the kernel registered the buffers of all readers.
    pub buffers_registered: bool,
}

/// The state that the parts of a run share.
pub(super) struct Readers<'a> {
    pub job: &'a Run,
    pub opened: &'a OpenedFile,
    pub board: &'a Scoreboard,
    /// The interface that the run has chosen: `io_uring` or threads.
    pub backend: Backend,
    pub cancelled: &'a AtomicBool,
}

/// A barrier that holds the readers back until all of them are ready.
#[derive(Default)]
struct StartLine {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl StartLine {
    fn open(&self) {
        *lock(&self.is_open) = true;
        self.opened.notify_all();
    }

    fn wait(&self) {
        let opened = self.opened.wait_while(lock(&self.is_open), |is_open| !*is_open);
        drop(opened.unwrap_or_else(PoisonError::into_inner));
    }
}

/// A guard that opens the start line also when the calling thread fails, because the readers would otherwise wait for
/// ever.
struct OpenOnDrop<'a>(&'a StartLine);

impl Drop for OpenOnDrop<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

impl Readers<'_> {
    /// Runs part number `part` until its limit. Calls `before` when all readers are ready and none has read. The part
    /// begins at the moment at which `before` returns.
    pub fn run(
        &self,
        part: u64,
        limit: Limit,
        before: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<PartOver, Failure> {
        self.opened.check_unchanged()?;
        let count = readers(self.job, self.backend);
        let offsets: Vec<Offsets> =
            (0..count).map(|index| Offsets::new(&self.job.reads, self.job.range_bytes, part, index, count)).collect();
        let mapping = match self.job.io_mode {
            IoMode::Mmap => Some(self.opened.map(self.job.advise_random)?),
            _ => None,
        };
        let shared = Shared {
            board: self.board,
            path: &self.job.path,
            quota: Quota::new(limit.transactions, count),
            deadline_ns: AtomicU64::new(u64::MAX),
            halt: AtomicBool::new(false),
            cancelled: self.cancelled,
            io_size_bytes: self.job.reads.io_size_bytes,
        };
        let start = StartLine::default();
        let (sender, ready) = channel();
        let (began, ended) = std::thread::scope(|scope| {
            let threads: Vec<_> = offsets
                .iter()
                .enumerate()
                .map(|(index, offsets)| {
                    let (sender, shared, start, mapping) = (sender.clone(), &shared, &start, mapping.as_ref());
                    scope.spawn(move || self.read(index, offsets.clone(), shared, mapping, start, sender))
                })
                .collect();
            drop(sender);
            let opens = OpenOnDrop(&start);
            let began = wait_until_ready(&ready, count).and_then(|registered| {
                before()?;
                self.board.begin();
                let begun_ns = now_ns();
                shared.deadline_ns.store(begun_ns + limit.time().as_nanos() as u64, Ordering::Relaxed);
                Ok((begun_ns, registered))
            });
            if began.is_err() {
                shared.halt.store(true, Ordering::Relaxed);
            }
            drop(opens);
            let ended: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            (began, ended)
        });
        let ended_ns = now_ns();
        let mut begun_reads = Vec::with_capacity(count);
        let mut failed = None;
        for outcome in ended {
            match outcome {
                Ok(Ok(reads)) => begun_reads.push(reads),
                Ok(Err(failure)) => failed = failed.or(Some(failure)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        let (begun_ns, buffers_registered) = began?;
        if let Some(failure) = failed {
            return Err(failure);
        }
        self.opened.check_unchanged()?;
        let seconds = (ended_ns - begun_ns) as f64 / 1e9;
        let part = Part { transactions: begun_reads.iter().sum(), seconds };
        Ok(PartOver { part, done: offsets.into_iter().zip(begun_reads).collect(), buffers_registered })
    }

    /// Runs one reader, as the body of its thread. Returns the number of reads that it began.
    fn read(
        &self,
        index: usize,
        offsets: Offsets,
        shared: &Shared<'_>,
        mapping: Option<&Mapping>,
        start: &StartLine,
        ready: Sender<Result<bool, Failure>>,
    ) -> Result<u64, Failure> {
        let leaving = HaltOnPanic(shared);
        let made = self.make(shared.io_size_bytes as usize);
        let (mut way, registered) = match made {
            Ok(way) => way,
            Err(failure) => {
                // Send the failure to the caller that waits for the readers. Ignore an error: the caller may have
                // stopped waiting.
                let _ = ready.send(Err(failure));
                return Ok(0);
            }
        };
        let _ = ready.send(Ok(registered));
        drop(ready);
        start.wait();
        let mut reader = Reader::new(shared, index, offsets);
        let read = if shared.halt.load(Ordering::Relaxed) {
            Ok(())
        } else {
            match (&mut way, mapping) {
                (Made::Ring(ring), _) => ring.read_all(&mut reader),
                (Made::Buffers(buffers), None) => calls::with_pread(&mut reader, self.opened.file.as_raw_fd(), buffers),
                (Made::Buffers(buffers), Some(mapping)) => {
                    calls::with_mapping(&mut reader, mapping, buffers);
                    Ok(())
                }
            }
        };
        if read.is_err() {
            shared.halt.store(true, Ordering::Relaxed);
        }
        let begun = reader.leave();
        drop(leaving);
        read.map(|()| begun)
    }

    fn make(&self, bytes: usize) -> Result<(Made, bool), Failure> {
        match self.backend {
            Backend::IoUring => {
                Ring::new(self.opened.file.as_raw_fd(), self.job.reads.queue_depth, bytes).map(|ring| {
                    let registered = ring.buffers_registered;
                    (Made::Ring(Box::new(ring)), registered)
                })
            }
            _ => Buffers::new(1, bytes as u64).map(|buffers| (Made::Buffers(buffers), false)),
        }
        .map_err(|error| no_memory(&error))
    }
}

enum Made {
    Ring(Box<Ring>),
    Buffers(Buffers),
}

/// A guard that ends the part for all readers when one reader's thread panics.
struct HaltOnPanic<'a, 'b>(&'a Shared<'b>);

impl Drop for HaltOnPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.halt.store(true, Ordering::Relaxed);
        }
    }
}

/// Waits until all readers are ready. Returns true when the kernel has registered the buffers of all of them. Fails
/// with the first failure of a reader, or when one is not ready within 60 s.
fn wait_until_ready(ready: &Receiver<Result<bool, Failure>>, count: usize) -> Result<bool, Failure> {
    let mut registered = true;
    for _ in 0..count {
        let told = ready.recv_timeout(Duration::from_secs(60)).map_err(|_| {
            let hint = "ask for fewer threads, or fewer reads in flight";
            Failure::new(FailureKind::Environment, "a reader's thread did not get ready", "threads", hint)
        })?;
        registered &= told?;
    }
    Ok(registered)
}
