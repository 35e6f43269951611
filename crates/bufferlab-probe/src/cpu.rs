//! The time of the processors, by use, per core and in total, in mpstat's columns. Source: /proc/stat. As in mpstat,
//! usr and nice exclude the time given to guests, which has separate columns.

use crate::parse::stat::{self, CpuTicks, Processor};
use crate::proc_file::ProcFile;
use crate::reading::{Probe, Reading};
use std::collections::BTreeMap;
use std::sync::Arc;

const NAME: &str = "cpu";
const METRICS: [&str; 10] = [
    "cpu_usr_us",
    "cpu_nice_us",
    "cpu_sys_us",
    "cpu_iowait_us",
    "cpu_irq_us",
    "cpu_soft_us",
    "cpu_steal_us",
    "cpu_guest_us",
    "cpu_gnice_us",
    "cpu_idle_us",
];

/// The probe of /proc/stat.
pub struct CpuProbe {
    file: ProcFile,
    microseconds_per_tick: u64,
    all: Arc<str>,
    cores: BTreeMap<u32, Arc<str>>,
    no_column: Arc<str>,
}

impl CpuProbe {
    /// Makes a probe of every processor that is online when it samples.
    pub fn new() -> Self {
        Self {
            file: ProcFile::open("/proc/stat"),
            microseconds_per_tick: microseconds_per_tick(),
            all: "all".into(),
            cores: BTreeMap::new(),
            no_column: "this kernel's /proc/stat does not have the column".into(),
        }
    }
}

impl Probe for CpuProbe {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sample(&mut self, out: &mut Vec<Reading>) {
        let text = match self.file.read() {
            Ok(text) => text,
            Err(reason) => {
                out.extend(METRICS.map(|metric| Reading::missing(NAME, metric, &self.all, &reason)));
                return;
            }
        };
        for (processor, ticks) in stat::processors(text) {
            let subject = match processor {
                Processor::All => &self.all,
                Processor::Core(core) => self.cores.entry(core).or_insert_with(|| format!("cpu{core}").into()),
            };
            for (metric, ticks) in METRICS.into_iter().zip(mpstat_columns(&ticks)) {
                let count = ticks
                    .and_then(|ticks| ticks.checked_mul(self.microseconds_per_tick))
                    .and_then(|microseconds| i64::try_from(microseconds).ok());
                let count = count.ok_or_else(|| Arc::clone(&self.no_column));
                out.push(Reading::counter_or(NAME, metric, subject, count));
            }
        }
    }
}

/// Returns the ticks in the order of `METRICS`.
fn mpstat_columns(ticks: &CpuTicks) -> [Option<u64>; 10] {
    let &[user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice] = ticks;
    let without = |whole: Option<u64>, guest: Option<u64>| whole.map(|whole| whole.saturating_sub(guest.unwrap_or(0)));
    let (user, nice) = (without(user, guest), without(nice, guest_nice));
    [user, nice, system, iowait, irq, softirq, steal, guest, guest_nice, idle]
}

pub(crate) fn microseconds_per_tick() -> u64 {
    // SAFETY: sysconf only reads a constant of the system.
    let ticks_per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    // Every Linux reports 100 ticks a second to programs, whichever tick the kernel uses itself.
    1_000_000 / u64::try_from(ticks_per_second).ok().filter(|ticks| *ticks > 0).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_time_is_taken_out_of_usr_and_nice_as_mpstat_does() {
        let text = include_bytes!("../testdata/stat-6.18");
        let (_, ticks) = stat::processors(text).next().expect("the sum line");
        let columns = mpstat_columns(&ticks);
        // The field user (5131) includes guest (700), and nice (40) includes guest_nice (30).
        assert_eq!(columns[0], Some(4_431));
        assert_eq!(columns[1], Some(10));
        assert_eq!((columns[7], columns[8]), (Some(700), Some(30)));
    }

    #[test]
    fn a_kernel_without_guest_columns_still_gives_usr() {
        let text = include_bytes!("../testdata/stat-2.6.18");
        let (_, ticks) = stat::processors(text).next().expect("the sum line");
        let columns = mpstat_columns(&ticks);
        assert_eq!(columns[0], ticks[0]);
        assert_eq!(columns[7], None);
    }

    #[test]
    fn this_host_has_a_sum_and_its_cores_and_every_metric_of_each() {
        let mut out = Vec::new();
        CpuProbe::new().sample(&mut out);
        let subjects: std::collections::BTreeSet<_> = out.iter().map(|reading| reading.subject.to_string()).collect();
        assert!(subjects.contains("all") && subjects.contains("cpu0"), "{subjects:?}");
        assert_eq!(out.len(), subjects.len() * METRICS.len());
        assert!(out.iter().all(|reading| reading.count.is_some() != reading.reason.is_some()));
    }
}
