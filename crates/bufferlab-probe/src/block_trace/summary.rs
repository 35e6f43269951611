//! The result of a trace: whether to trust it, the lost events, and its cost.

use serde::Serialize;

/// Lost events, by the place of the loss. All counts must be zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Events in the trace buffer that later events overwrote.
    pub overrun: u64,
    /// Events that the kernel did not write, because the buffer was full.
    pub dropped_events: u64,
    /// Events that the kernel did not write, because interrupts were nested too deeply.
    pub commit_overrun: u64,
    /// Pages of the kernel's trace buffer with the mark that events were lost before them.
    pub pages_after_a_gap: u64,
}

impl Lost {
    /// Returns true when an event was lost.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

/// The result of a block trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The device that the run asked for.
    pub device: String,
    /// The devices whose events the trace kept, as `major:minor`: disks and their partitions.
    pub devices: Vec<String>,
    /// The partitions whose events the trace kept, each with its disk.
    pub partitions: Vec<(String, String)>,
    /// The number (`major:minor`) and the name of the device, and of each disk below it that the trace follows.
    pub names: Vec<(String, String)>,
    /// The path of the directory with the trace's pages.
    pub spool: String,
    /// The moment on CLOCK_MONOTONIC at which recording was switched on; none if it never was.
    pub window_start_ns: Option<u64>,
    /// The moment on CLOCK_MONOTONIC at which recording was switched off; none if it never was.
    pub window_end_ns: Option<u64>,
    /// The size of the kernel's trace buffer for each processor, in KiB.
    pub buffer_kib_per_cpu: u64,
    /// The number of processors that have a trace buffer.
    pub cpus: u32,
    /// Events that the reading thread took from the trace buffers, by the kernel's count.
    pub events_read: u64,
    /// The number of pages that the reading thread moved from the trace buffers to the spool.
    pub pages: u64,
    /// Bytes of the pages in the spool.
    pub spool_bytes: u64,
    /// Processor time of the reading thread in nanoseconds, in the kernel and outside, from window start to the last
    /// page.
    pub reader_cpu_ns: u64,
    /// The number of times that the reading thread woke to look for full pages.
    pub reader_wakeups: u64,
    /// The numbers of lost events.
    pub lost: Lost,
    /// The first thing that went wrong, such as a full disk of the spool; none for a trace without a problem.
    pub problem: Option<String>,
}
