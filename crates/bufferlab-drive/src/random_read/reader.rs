//! One reader of a file. It takes offsets while its part of the run lasts, counts and times its reads, and answers the
//! sampler through the scoreboard.
//!
//! The loops of `uring` and `calls` ask the reader for the next offset, and report each completed read. A read
//! allocates no memory, and the clock is read only once for each round, that is, for all reads that have completed
//! together.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bufferlab_probe::{DriverThread, clock};

use super::offsets::Offsets;
use super::pages::pages_of;
use super::scoreboard::{HandOver, Scoreboard};
use crate::latency::Latency;
use crate::quota::Quota;

/// The state that the readers of one part of a run share.
pub(super) struct Shared<'a> {
    pub board: &'a Scoreboard,
    pub path: &'a Path,
    pub quota: Quota,
    /// Readers begin no read after this moment of the monotonic clock.
    pub deadline_ns: AtomicU64,
    /// A flag that a reader sets when it fails.
    pub halt: AtomicBool,
    /// A flag that the caller sets to stop the run.
    pub cancelled: &'a AtomicBool,
    pub io_size_bytes: u64,
}

/// A reader at work.
pub(super) struct Reader<'a> {
    shared: &'a Shared<'a>,
    index: usize,
    offsets: Offsets,
    claimed: u64,
    is_open: bool,
    reads: u64,
    pages: u64,
    begun: u64,
    latency: Latency,
    answered: u64,
    thread: DriverThread,
    cpu_ns: u64,
}

impl<'a> Reader<'a> {
    /// Makes a reader on the calling thread.
    pub fn new(shared: &'a Shared<'a>, index: usize, offsets: Offsets) -> Self {
        let (reads, pages) = shared.board.counted(index);
        let thread = DriverThread::current();
        Reader {
            shared,
            index,
            offsets,
            claimed: 0,
            is_open: true,
            reads,
            pages,
            begun: 0,
            latency: Latency::default(),
            answered: shared.board.question(),
            cpu_ns: thread.cpu_ns().unwrap_or(0),
            thread,
        }
    }

    /// Returns the file's name, for messages.
    pub fn path(&self) -> &'a Path {
        self.shared.path
    }

    /// Returns the number of bytes of a read.
    pub fn io_size(&self) -> usize {
        self.shared.io_size_bytes as usize
    }

    /// Returns the offset of the next read; none when the part is over.
    #[inline]
    pub fn take(&mut self) -> Option<u64> {
        if !self.is_open {
            return None;
        }
        if self.claimed == 0 {
            self.claimed = self.shared.quota.claim();
            if self.claimed == 0 {
                self.is_open = false;
                return None;
            }
        }
        self.claimed -= 1;
        self.begun += 1;
        Some(self.offsets.draw())
    }

    /// Records that a read has ended.
    #[inline]
    pub fn done(&mut self, offset: u64, ns: u64) {
        self.reads += 1;
        self.pages += pages_of(offset, self.shared.io_size_bytes);
        self.latency.record(ns);
    }

    /// Ends a round of completed reads at the moment `now_ns`: checks whether the part is over, and answers the sampler
    /// if it has asked. Returns the moment from which the next read's time counts, which is after the answer.
    #[inline]
    pub fn round(&mut self, now_ns: u64) -> u64 {
        let shared = self.shared;
        if now_ns >= shared.deadline_ns.load(Ordering::Relaxed)
            || shared.halt.load(Ordering::Relaxed)
            || shared.cancelled.load(Ordering::Relaxed)
        {
            self.is_open = false;
        }
        let question = shared.board.question();
        let is_asked = question != self.answered;
        if is_asked {
            self.answered = question;
            self.tell(Some(question));
        }
        shared.board.count(self.index, self.reads);
        if is_asked { self::now_ns() } else { now_ns }
    }

    fn tell(&mut self, question: Option<u64>) {
        let now_ns = self.thread.cpu_ns().unwrap_or(self.cpu_ns);
        let spent_ns = now_ns.saturating_sub(self.cpu_ns);
        self.cpu_ns = now_ns;
        let mut given = HandOver { reads: self.reads, pages: self.pages, latency: &mut self.latency, cpu_ns: spent_ns };
        self.shared.board.tell(self.index, question, &mut given);
    }

    /// Writes the last counts to the scoreboard and ends the reader. Returns the number of reads that the reader began.
    pub fn leave(mut self) -> u64 {
        self.tell(None);
        self.begun
    }
}

/// Returns the time of the monotonic clock in nanoseconds.
#[inline]
pub(super) fn now_ns() -> u64 {
    clock::monotonic_ns()
}
