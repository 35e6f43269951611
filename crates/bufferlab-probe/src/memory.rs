//! Memory and the run queue: sizes, paging, context switches, waiting tasks (vmstat's columns). Sources: /proc/meminfo,
//! /proc/vmstat, /proc/stat.

use crate::parse::named_numbers;
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

    /// Appends one reading per metric: its value, or a null with the reason.
    fn push<const N: usize>(
        &self,
        out: &mut Vec<Reading>,
        metrics: &[Metric; N],
        values: Result<[Option<u64>; N], Arc<str>>,
        path: &str,
    ) {
        for (place, &(metric, .., make)) in metrics.iter().enumerate() {
            let value =
                values.as_ref().map(|values| values[place].and_then(|value| make(metric, &self.subject, value)));
            out.push(match value {
                Ok(Some(reading)) => reading,
                Ok(None) => Reading::missing(NAME, metric, &self.subject, &format!("{path} does not have it").into()),
                Err(reason) => Reading::missing(NAME, metric, &self.subject, reason),
            });
        }
    }
}

/// A metric: its name, the kernel's name of the number, the metric's units in one of the kernel's, and how a reading is
/// made of it.
type Metric = (&'static str, &'static str, u64, Make);

/// Makes a reading of a number, if the number fits.
type Make = fn(&'static str, &Arc<str>, u64) -> Option<Reading>;

fn gauge(metric: &'static str, subject: &Arc<str>, value: u64) -> Option<Reading> {
    // Sizes and queue lengths are far below 2^53, so the float is exact.
    Some(Reading::gauge(NAME, metric, subject, value as f64))
}

fn counter(metric: &'static str, subject: &Arc<str>, value: u64) -> Option<Reading> {
    Some(Reading::counter(NAME, metric, subject, i64::try_from(value).ok()?))
}

/// Returns the values of metrics in a file's text.
fn values<const N: usize>(text: &[u8], metrics: &[Metric; N]) -> [Option<u64>; N] {
    let numbers = named_numbers(text, metrics.map(|(_, name, ..)| name));
    std::array::from_fn(|place| numbers[place]?.checked_mul(metrics[place].2))
}

/// Returns the bytes of memory of this host, from the text of /proc/meminfo.
pub(crate) fn total_bytes(text: &[u8]) -> Option<u64> {
    values(text, &SIZES)[0]
}

impl Probe for MemoryProbe {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sample(&mut self, out: &mut Vec<Reading>) {
        let sizes = self.meminfo.read().map(|text| values(text, &SIZES));
        self.push(out, &SIZES, sizes, "/proc/meminfo");
        let paging = self.vmstat.read().map(|text| values(text, &PAGING));
        self.push(out, &PAGING, paging, "/proc/vmstat");
        let scheduling = self.stat.read().map(|text| values(text, &SCHEDULING));
        self.push(out, &SCHEDULING, scheduling, "/proc/stat");
    }
}

const KIB: u64 = 1024;
const SIZES: [Metric; 7] = [
    ("memory_total_bytes", "MemTotal", KIB, gauge),
    ("memory_free_bytes", "MemFree", KIB, gauge),
    // Kernels before 3.14 lack it.
    ("memory_available_bytes", "MemAvailable", KIB, gauge),
    ("memory_buffers_bytes", "Buffers", KIB, gauge),
    ("memory_cached_bytes", "Cached", KIB, gauge),
    ("memory_dirty_bytes", "Dirty", KIB, gauge),
    ("memory_writeback_bytes", "Writeback", KIB, gauge),
];
const PAGING: [Metric; 4] = [
    ("swap_in_pages", "pswpin", 1, counter),
    ("swap_out_pages", "pswpout", 1, counter),
    ("paged_in_bytes", "pgpgin", KIB, counter),
    ("paged_out_bytes", "pgpgout", KIB, counter),
];
const SCHEDULING: [Metric; 4] = [
    ("run_queue_length", "procs_running", 1, gauge),
    ("blocked_processes", "procs_blocked", 1, gauge),
    ("context_switches", "ctxt", 1, counter),
    // The line has the total as its first value; no code reads the counts per interrupt after it.
    ("interrupts", "intr", 1, counter),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        probe.push(&mut out, &SCHEDULING, Ok([Some(1), None, Some(2), None]), "/proc/stat");
        assert_eq!((out[0].value, out[2].count), (Some(1.0), Some(2)));
        assert_eq!((out[1].value, out[1].count), (None, None));
        assert_eq!(out[1].reason.as_deref(), Some("/proc/stat does not have it"));

        out.clear();
        probe.push(&mut out, &SCHEDULING, Err("cannot open /proc/stat".into()), "/proc/stat");
        assert!(out.iter().all(|row| row.reason.as_deref() == Some("cannot open /proc/stat")));
    }

    const MEMINFO_3_10: &[u8] = include_bytes!("../testdata/meminfo-3.10");
    const MEMINFO_6_18: &[u8] = include_bytes!("../testdata/meminfo-6.18");
    const VMSTAT_6_18: &[u8] = include_bytes!("../testdata/vmstat-6.18");
    const STAT_6_18: &[u8] = include_bytes!("../testdata/stat-6.18");

    #[test]
    fn sizes_are_bytes_and_similar_names_are_told_apart() {
        let [.., cached, _, writeback] = values(MEMINFO_6_18, &SIZES);
        assert_eq!(total_bytes(MEMINFO_6_18), Some(24_684_096 * 1024));
        // The same file has SwapCached and WritebackTmp, which must not match.
        assert_eq!((cached, writeback), (Some(173_592 * 1024), Some(16 * 1024)));
    }

    #[test]
    fn an_old_kernel_has_no_available_memory_and_that_is_not_zero() {
        let [_, free, available, ..] = values(MEMINFO_3_10, &SIZES);
        assert_eq!((available, free), (None, Some(1_503_320 * 1024)));
    }

    #[test]
    fn paging_is_bytes_and_swapping_is_pages() {
        let [_, swapped_out, paged_in, _] = values(VMSTAT_6_18, &PAGING);
        assert_eq!((paged_in, swapped_out), (Some(1_842_233 * 1024), Some(7)));
    }

    #[test]
    fn scheduling_is_read_from_behind_the_interrupt_line() {
        let expected = [Some(3), Some(1), Some(302_223), Some(182_780)];
        assert_eq!(values(STAT_6_18, &SCHEDULING), expected);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..400)) {
            values(&text, &SIZES);
            values(&text, &PAGING);
            values(&text, &SCHEDULING);
        }

        #[test]
        fn a_damaged_file_is_survived(cut in 0..600_usize, at in 0..600_usize, byte: u8) {
            let mut text = STAT_6_18[..cut.min(STAT_6_18.len())].to_vec();
            if let Some(place) = text.get_mut(at) { *place = byte; }
            values(&text, &SCHEDULING);
        }
    }
}
