//! How a trace went: whether it may be believed, what was lost, and what it cost.

use serde::Serialize;

/// Events that were made and not kept, by the place where they were lost. All of them must be zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Written over by later ones.
    pub overrun: u64,
    /// Not written, because the buffer was full.
    pub dropped_events: u64,
    /// Not written, because an interrupt came on top of too many others.
    pub commit_overrun: u64,
    /// Pages that say that something before them was lost.
    pub pages_after_a_gap: u64,
}

impl Lost {
    /// Returns whether anything was.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

/// How a trace went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The device that was asked for.
    pub device: String,
    /// The devices whose events were let through, as `major:minor`: disks and their partitions.
    pub devices: Vec<String>,
    /// Of those the partitions, each with its disk.
    pub partitions: Vec<(String, String)>,
    /// The disks' numbers and names.
    pub names: Vec<(String, String)>,
    /// Where the pages are.
    pub spool: String,
    /// CLOCK_MONOTONIC when recording was switched on; none if it never was.
    pub window_start_ns: Option<u64>,
    /// And off.
    pub window_end_ns: Option<u64>,
    /// Kernel buffer of each processor.
    pub buffer_kib_per_cpu: u64,
    /// Processors with a buffer.
    pub cpus: u32,
    /// Events the kernel says were read from its buffers.
    pub events_read: u64,
    /// Pages moved.
    pub pages: u64,
    /// Bytes of the spool.
    pub spool_bytes: u64,
    /// Processor time of the reading thread, in the kernel and outside, from window start to the last page.
    pub reader_cpu_ns: u64,
    /// How often it woke.
    pub reader_wakeups: u64,
    /// What was lost.
    pub lost: Lost,
    /// Why the reading thread gave up.
    pub problem: Option<String>,
}
