//! The scoreboard to which readers write their counts: once a second, when the sampler asks, and when they stop.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use bufferlab_probe::Reading;

use crate::counter::Counter;
use crate::latency::Latency;
use crate::lock;
use crate::sample_rows::{Counts, Merged};
use crate::sampler::Telling;

/// The transaction type of a read.
pub(super) const READ: &str = "read";
const PROBE: &str = "engine";

/// The counts of all readers of a run, and the number of the sampler's last request for counts (its "question").
pub(super) struct Scoreboard {
    asked: AtomicU64,
    /// The number of reads that each reader has completed so far in the run.
    reads: Vec<Counter>,
    told: Mutex<Told>,
    changed: Condvar,
    io_size_bytes: u64,
    no_subject: Arc<str>,
    /// Processor time of the readers' threads, in nanoseconds.
    cpu_ns: Arc<AtomicU64>,
}

struct Told {
    merged: Merged,
    reads: Vec<u64>,
    pages: Vec<u64>,
    /// Latencies in the window, of all readers together.
    window: Latency,
    nothing: Latency,
    /// The number of the sampler's last question that each reader has answered; none while the reader is idle.
    answered: Vec<Option<u64>>,
}

/// The numbers that a reader hands over: totals since the run's start, and latencies and processor time since its last
/// hand-over.
pub(super) struct HandOver<'a> {
    pub reads: u64,
    pub pages: u64,
    pub latency: &'a mut Latency,
    pub cpu_ns: u64,
}

impl Scoreboard {
    pub fn new(readers: usize, io_size_bytes: u64, cpu_ns: Arc<AtomicU64>) -> Self {
        let told = Told {
            merged: Merged::new(&[Arc::from(READ)], readers, false),
            reads: vec![0; readers],
            pages: vec![0; readers],
            window: Latency::default(),
            nothing: Latency::default(),
            answered: vec![None; readers],
        };
        Scoreboard {
            asked: AtomicU64::new(0),
            reads: std::iter::repeat_with(Counter::default).take(readers).collect(),
            told: Mutex::new(told),
            changed: Condvar::new(),
            io_size_bytes,
            no_subject: Arc::from(""),
            cpu_ns,
        }
    }

    /// Returns the number of the sampler's last question. This is one relaxed load, because readers call it after every
    /// round of completed reads.
    #[inline]
    pub fn question(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Sets the number of reads that the reader has completed so far in the run.
    #[inline]
    pub fn count(&self, reader: usize, reads: u64) {
        self.reads[reader].set(reads);
    }

    /// Returns a reader's numbers of reads and of pages so far. In the next part of the run the reader goes on counting
    /// from them.
    pub fn counted(&self, reader: usize) -> (u64, u64) {
        let told = lock(&self.told);
        (told.reads[reader], told.pages[reader])
    }

    /// Notes that all readers begin a part of the run.
    pub fn begin(&self) {
        let question = self.question();
        lock(&self.told).answered.fill(Some(question));
    }

    /// Begins the measured window: forgets the latencies of the warm-up.
    pub fn begin_window(&self) {
        let mut told = lock(&self.told);
        told.merged.begin_window();
        told.window.clear();
    }

    /// Adds the numbers that a reader hands over, as the reader's answer to `question`. Without a question, marks the
    /// reader as idle.
    pub fn tell(&self, reader: usize, question: Option<u64>, given: &mut HandOver<'_>) {
        self.cpu_ns.fetch_add(given.cpu_ns, Ordering::Relaxed);
        self.count(reader, given.reads);
        let mut told = lock(&self.told);
        let Told { merged, window, nothing, reads, pages, answered } = &mut *told;
        let counts = Counts { committed: given.reads, ..Counts::default() };
        merged.take(reader, 0, counts, given.latency, nothing);
        if given.latency.count() > 0 {
            window.merge(given.latency);
            given.latency.clear();
        }
        (reads[reader], pages[reader]) = (given.reads, given.pages);
        answered[reader] = question;
        drop(told);
        self.changed.notify_all();
    }

    /// Returns the latencies of the window so far.
    pub fn window(&self) -> Latency {
        lock(&self.told).window.clone()
    }
}

impl Telling for Scoreboard {
    fn steps(&self) -> u64 {
        self.reads.iter().map(Counter::get).sum()
    }

    fn sample(&self, deadline: Instant, out: &mut Vec<Reading>) {
        let question = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let mut told = lock(&self.told);
        let patience = deadline.saturating_duration_since(Instant::now());
        let is_late = |told: &mut Told| told.answered.iter().flatten().any(|&answer| answer < question);
        told = self.changed.wait_timeout_while(told, patience, is_late).unwrap_or_else(PoisonError::into_inner).0;
        told.merged.sample(out);
        let (reads, pages): (u64, u64) = (told.reads.iter().sum(), told.pages.iter().sum());
        let counts =
            [("logical_reads", reads), ("logical_read_bytes", reads * self.io_size_bytes), ("pages_touched", pages)];
        out.extend(counts.map(|(metric, count)| Reading::counter(PROBE, metric, &self.no_subject, count as i64)));
    }
}
