//! This process: processor time, bytes through the storage layer, page faults, resident memory; and one thread's time.
//! Sources: getrusage(2), /proc/self/io, /proc/self/statm, and the driver thread's own clock.

use crate::clock::clock_ns;
use crate::parse::io;
use crate::proc_file::ProcFile;
use crate::reading::{Probe, Reading};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const NAME: &str = "process";

/// The clock of one thread's processor time; other threads of the process can read it.
#[derive(Debug, Clone, Copy)]
pub struct DriverThread {
    clock: libc::clockid_t,
}

impl DriverThread {
    /// Returns the clock of the calling thread.
    pub fn current() -> Self {
        let mut clock = libc::CLOCK_THREAD_CPUTIME_ID;
        // SAFETY: the calling thread exists, and `clock` is valid to write.
        // It cannot fail for the calling thread; if it did, `clock` stays the reader's own clock.
        unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
        Self { clock }
    }

    /// Returns the processor time of the thread in nanoseconds; None once it has ended.
    pub fn cpu_ns(&self) -> Option<u64> {
        clock_ns(self.clock)
    }
}

/// The source of `driver_cpu_us`.
enum Driver {
    Nobody,
    Thread(DriverThread),
    Threads(Arc<AtomicU64>),
}

/// The probe of this process's own counters. The process that samples must make the probe: after a fork, a probe made
/// before would read the parent's counters.
pub struct ProcessProbe {
    io: ProcFile,
    statm: ProcFile,
    page_bytes: f64,
    driver: Driver,
    subject: Arc<str>,
}

impl ProcessProbe {
    /// Makes a probe of the whole process; `driver_cpu_us` is null until the caller names a driver thread.
    pub fn new() -> Self {
        // SAFETY: sysconf only reads a constant of the system.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        Self {
            io: ProcFile::open("/proc/self/io"),
            statm: ProcFile::open("/proc/self/statm"),
            page_bytes: page_bytes as f64,
            driver: Driver::Nobody,
            subject: "".into(),
        }
    }

    /// Also watches the processor time of the thread that drives the workload.
    pub fn with_driver(mut self, driver: DriverThread) -> Self {
        self.driver = Driver::Thread(driver);
        self
    }

    /// Also watches the processor time of several threads that come and go: each adds its nanoseconds to `cpu_ns`.
    pub fn with_drivers(mut self, cpu_ns: Arc<AtomicU64>) -> Self {
        self.driver = Driver::Threads(cpu_ns);
        self
    }

    fn driver_cpu_us(&self) -> Result<i64, Arc<str>> {
        let nanoseconds = match &self.driver {
            Driver::Nobody => return Err("no driver thread is watched".into()),
            Driver::Thread(thread) => thread.cpu_ns().ok_or("the driver thread has ended")?,
            Driver::Threads(cpu_ns) => cpu_ns.load(Ordering::Relaxed),
        };
        counted(Some(nanoseconds / 1_000), "CLOCK_THREAD_CPUTIME_ID")
    }
}

impl Default for ProcessProbe {
    fn default() -> Self {
        Self::new()
    }
}

impl Probe for ProcessProbe {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sample(&mut self, out: &mut Vec<Reading>) {
        // Read the storage bytes first: at the edges of a window, no other part of this sample may come between the
        // edge and this reading.
        let bytes = self.io.read().map(io::storage_bytes);
        let resident_pages = self.statm.read().map(io::resident_pages);
        let usage = resource_usage();

        let of_bytes = |place: usize| bytes.clone().and_then(|bytes| counted(bytes[place], "/proc/self/io"));
        let counters = [
            ("process_read_bytes", of_bytes(0)),
            ("process_write_bytes", of_bytes(1)),
            ("process_user_us", Ok(microseconds(usage.ru_utime))),
            ("process_system_us", Ok(microseconds(usage.ru_stime))),
            ("process_minor_faults", Ok(usage.ru_minflt)),
            ("process_major_faults", Ok(usage.ru_majflt)),
            ("driver_cpu_us", self.driver_cpu_us()),
        ];
        out.extend(counters.map(|(metric, count)| Reading::counter_or(NAME, metric, &self.subject, count)));
        // Resident bytes are far below 2^53, so the float is exact.
        let resident_pages = resident_pages.and_then(|pages| counted(pages, "/proc/self/statm"));
        let resident_bytes = resident_pages.map(|pages| pages as f64 * self.page_bytes);
        out.push(Reading::gauge_or(NAME, "resident_bytes", &self.subject, resident_bytes));
    }
}

fn counted(value: Option<u64>, source: &str) -> Result<i64, Arc<str>> {
    value.and_then(|value| i64::try_from(value).ok()).ok_or_else(|| format!("{source} does not have it").into())
}

/// Returns this process's resource usage by getrusage, which has microseconds; /proc/self/stat has only ticks of 10 ms.
fn resource_usage() -> libc::rusage {
    // SAFETY: rusage is plain data, for which all zeros is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid to write; RUSAGE_SELF cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    usage
}

fn microseconds(time: libc::timeval) -> i64 {
    time.tv_sec * 1_000_000 + time.tv_usec
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn count(out: &[Reading], metric: &str) -> Option<i64> {
        out.iter().find(|reading| reading.metric == metric).and_then(|reading| reading.count)
    }

    #[test]
    fn work_of_the_driver_thread_shows_in_its_time_and_in_the_process_time() {
        let mut probe = ProcessProbe::new().with_driver(DriverThread::current());
        let (mut before, mut after) = (Vec::new(), Vec::new());
        probe.sample(&mut before);
        let start = Instant::now();
        let own = DriverThread::current();
        let from = own.cpu_ns().expect("this thread lives");
        while own.cpu_ns().expect("this thread lives") - from < 30_000_000 {
            assert!(start.elapsed() < Duration::from_secs(60), "30 ms of processor time took a minute");
        }
        probe.sample(&mut after);
        let grown = |metric| count(&after, metric).zip(count(&before, metric)).map(|(b, a)| b - a);
        let driver = grown("driver_cpu_us").expect("the driver is watched");
        assert!((30_000..200_000).contains(&driver), "driver_cpu_us grew by {driver}");
        let process = grown("process_user_us").zip(grown("process_system_us")).map(|(u, s)| u + s);
        assert!(process.is_some_and(|time| time >= 29_000), "process time grew by {process:?}");
    }

    #[test]
    fn another_thread_can_read_the_driver_and_learns_when_it_has_ended() {
        let (send, receive) = std::sync::mpsc::channel();
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            send.send(DriverThread::current()).ok();
            wait.recv().ok();
        });
        let driver = receive.recv().expect("the thread sends its clock");
        assert!(driver.cpu_ns().is_some());
        stop.send(()).ok();
        thread.join().expect("the thread ends well");
        // The join may return shortly before the kernel drops the thread's clock.
        let deadline = Instant::now() + Duration::from_secs(5);
        while driver.cpu_ns().is_some() {
            assert!(Instant::now() < deadline, "the clock of an ended thread is still read");
            std::thread::yield_now();
        }
    }

    #[test]
    fn without_a_driver_its_time_is_null_with_a_reason() {
        let mut out = Vec::new();
        ProcessProbe::new().sample(&mut out);
        let driver = out.iter().find(|reading| reading.metric == "driver_cpu_us").expect("emitted");
        assert_eq!(driver.reason.as_deref(), Some("no driver thread is watched"));
        assert_eq!(out.len(), 8);
    }

    #[test]
    fn touched_memory_becomes_resident() {
        let mut probe = ProcessProbe::new();
        let mut resident = || {
            let mut out = Vec::new();
            probe.sample(&mut out);
            out.iter().find_map(|reading| reading.value).expect("resident_bytes is a gauge")
        };
        let before = resident();
        let block = std::hint::black_box(vec![1_u8; 256 << 20]);
        let grown = resident() - before;
        // Other tests run in this process at the same time, and may free up to a tenth of that; 14 MiB were seen.
        assert!(grown > 0.9 * block.len() as f64, "resident_bytes grew by {grown}");
    }
}
