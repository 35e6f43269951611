//! Memory and the run queue: sizes, paging, context switches, waiting tasks (vmstat's columns). Sources: /proc/meminfo,
//! /proc/vmstat, /proc/stat.

use crate::parse::{memory, stat};
use crate::proc_file::ProcFile;
use crate::reading::{Probe, Reading};
use std::sync::Arc;

const NAME: &str = "memory";

/// The probe of /proc/meminfo, /proc/vmstat and /proc/stat.
pub struct MemoryProbe {
    meminfo: ProcFile,
    vmstat: ProcFile,
    stat: ProcFile,
    subject: Arc<str>,
}

impl MemoryProbe {
    /// Makes a probe of the whole host's memory.
    pub fn new() -> Self {
        Self {
            meminfo: ProcFile::open("/proc/meminfo"),
            vmstat: ProcFile::open("/proc/vmstat"),
            stat: ProcFile::open("/proc/stat"),
            subject: "".into(),
        }
    }

    /// Appends one reading per metric: a value made by `reading`, or a null with its reason.
    fn push<const N: usize>(
        &self,
        out: &mut Vec<Reading>,
        reading: Make,
        metrics: [&'static str; N],
        values: Result<[Option<u64>; N], Arc<str>>,
        path: &str,
    ) {
        let (values, unread) = match values {
            Ok(values) => (values, None),
            Err(reason) => ([None; N], Some(reason)),
        };
        for (metric, value) in metrics.into_iter().zip(values) {
            out.push(value.and_then(|value| reading(metric, &self.subject, value)).unwrap_or_else(|| {
                let reason = unread.clone().unwrap_or_else(|| format!("{path} does not have it").into());
                Reading::missing(NAME, metric, &self.subject, &reason)
            }));
        }
    }
}

/// Makes a reading of a kernel's number, if the number fits.
type Make = fn(&'static str, &Arc<str>, u64) -> Option<Reading>;

fn gauge(metric: &'static str, subject: &Arc<str>, value: u64) -> Option<Reading> {
    // Sizes and queue lengths are far below 2^53, so the float is exact.
    Some(Reading::gauge(NAME, metric, subject, value as f64))
}

fn counter(metric: &'static str, subject: &Arc<str>, value: u64) -> Option<Reading> {
    Some(Reading::counter(NAME, metric, subject, i64::try_from(value).ok()?))
}

impl Probe for MemoryProbe {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sample(&mut self, out: &mut Vec<Reading>) {
        let sizes = self.meminfo.read().map(|text| {
            let memory = memory::meminfo(text);
            [
                memory.total_bytes,
                memory.free_bytes,
                memory.available_bytes,
                memory.buffers_bytes,
                memory.cached_bytes,
                memory.dirty_bytes,
                memory.writeback_bytes,
            ]
        });
        self.push(out, gauge, SIZES, sizes, "/proc/meminfo");

        let paging = self.vmstat.read().map(|text| {
            let paging = memory::vmstat(text);
            [paging.swap_in_pages, paging.swap_out_pages, paging.paged_in_bytes, paging.paged_out_bytes]
        });
        self.push(out, counter, PAGING, paging, "/proc/vmstat");

        let scheduling = self.stat.read().map(stat::scheduling);
        let queue = scheduling.clone().map(|scheduling| [scheduling.running, scheduling.blocked]);
        self.push(out, gauge, QUEUE, queue, "/proc/stat");
        let events = scheduling.map(|scheduling| [scheduling.context_switches, scheduling.interrupts]);
        self.push(out, counter, EVENTS, events, "/proc/stat");
    }
}

const SIZES: [&str; 7] = [
    "memory_total_bytes",
    "memory_free_bytes",
    "memory_available_bytes",
    "memory_buffers_bytes",
    "memory_cached_bytes",
    "memory_dirty_bytes",
    "memory_writeback_bytes",
];
const PAGING: [&str; 4] = ["swap_in_pages", "swap_out_pages", "paged_in_bytes", "paged_out_bytes"];
const QUEUE: [&str; 2] = ["run_queue_length", "blocked_processes"];
const EVENTS: [&str; 2] = ["context_switches", "interrupts"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_gives_sizes_as_gauges_and_events_as_counters() {
        let mut out = Vec::new();
        MemoryProbe::new().sample(&mut out);
        let find = |metric: &str| out.iter().find(|reading| reading.metric == metric).expect("the metric was emitted");
        assert!(find("memory_total_bytes").value.is_some_and(|bytes| bytes > 64e6));
        assert!(find("run_queue_length").value.is_some_and(|tasks| tasks >= 1.0));
        assert!(find("context_switches").count.is_some_and(|switches| switches > 0));
        assert_eq!(out.len(), 15);
    }

    #[test]
    fn a_value_that_is_not_there_is_a_null_with_its_reason() {
        let mut out = Vec::new();
        let probe = MemoryProbe::new();
        probe.push(&mut out, gauge, QUEUE, Ok([Some(1), None]), "/proc/stat");
        assert_eq!(out[0].value, Some(1.0));
        assert_eq!((out[1].value, out[1].count), (None, None));
        assert_eq!(out[1].reason.as_deref(), Some("/proc/stat does not have it"));

        out.clear();
        probe.push(&mut out, counter, EVENTS, Err("cannot open /proc/stat".into()), "/proc/stat");
        assert!(out.iter().all(|row| row.reason.as_deref() == Some("cannot open /proc/stat")));
    }
}
