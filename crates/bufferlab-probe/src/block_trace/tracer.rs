//! Records the requests of one device between the edges of a window. It sets up an instance of tracefs early, and
//! switches it on and off at the edges. A thread reads it, and sleeps until a quarter of a buffer is full or a tenth of
//! a second has passed.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::event::{NEEDED, recorded};
use super::instance::{Instance, remove_stale, tracing};
use super::page;
use super::spool::{FORMAT, HEADER_PAGE, SpoolWriter};
use super::summary::{Lost, Summary};
use crate::clock::monotonic_ns;
use crate::device::{Device, Disk, has_requests, partitions_of};
use crate::process::DriverThread;
use crate::reading::{Probe, Reading, Table};
use crate::tracefs::PageLayout;
use crate::tracefs::TraceError;

/// The name of the probe, and of its table.
const NAME: &str = "block_trace";
const WAIT_MS: libc::c_int = 100;
const PAUSE: Duration = Duration::from_millis(2);
/// The kernel wakes the reader when this percentage of a buffer is full.
const WAKE_PERCENT: &str = "25";

/// The settings of a block trace: the device, the directory of its pages, the size of its buffers, and its events.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The device. If it passes bios down, the tracer traces its disks too.
    pub device: Device,
    /// A directory for the spool. The tracer makes it.
    pub spool: PathBuf,
    /// The size of the kernel's trace buffer for each processor, in KiB.
    pub buffer_kib_per_cpu: u64,
    /// Whether to record allocation, plugging and insertion of requests too.
    pub every_step: bool,
}

/// Checks whether this user can trace a device: tries every step that the kernel could refuse, and records nothing.
/// Removes instances of dead processes and returns their names.
///
/// # Errors
/// When this user cannot trace the device.
pub fn check(device: &Device) -> Result<Vec<String>, TraceError> {
    numbers_of(device)?;
    let tracing = tracing()?;
    let removed = remove_stale(&tracing)?;
    let instance = Instance::create(tracing)?;
    instance.write("tracing_on", "0")?;
    instance.read("events/header_page")?;
    Ok(removed)
}

/// The work of the reading thread so far: pages and bytes moved to the spool, wake-ups, processor time, and a problem.
#[derive(Default)]
struct ReadSoFar {
    pages: u64,
    bytes: u64,
    gaps: u64,
    wakeups: u64,
    cpu_ns: u64,
    problem: Option<String>,
}

/// A trace that is ready, on, or over. Dropping it leaves nothing in tracefs.
pub struct BlockTracer {
    // The reader must close its files and be joined before the instance is dropped: the kernel does not remove a
    // directory with open files.
    reader: Option<JoinHandle<ReadSoFar>>,
    stop: Arc<AtomicBool>,
    switch: Option<File>,
    instance: Instance,
    layout: PageLayout,
    cpus: Vec<u32>,
    summary: Summary,
    spool: PathBuf,
}

impl BlockTracer {
    /// Sets everything up and records nothing yet. Removes instances of dead processes first.
    ///
    /// # Errors
    /// When this user cannot trace the device, or the spool cannot be made; nothing is left in tracefs then.
    pub fn arm(settings: &Settings) -> Result<Self, TraceError> {
        let (numbers, partitions) = numbers_of(&settings.device)?;
        let tracing = tracing()?;
        remove_stale(&tracing)?;
        let instance = Instance::create(tracing)?;
        let spool = &settings.spool;
        fs::create_dir_all(spool).map_err(|error| TraceError::io("the spool cannot be made", spool, &error))?;
        instance.write("tracing_on", "0")?;
        instance.write("trace_clock", "mono").map_err(|error| TraceError {
            hint: "use a kernel of 4.0 or later: its trace clock `mono` is the clock of the samples".to_owned(),
            ..error
        })?;
        // A full buffer refuses new events and counts them. Overwriting would lose old events while the thread reads
        // them.
        instance.write("options/overwrite", "0")?;
        instance.write("buffer_size_kb", &settings.buffer_kib_per_cpu.to_string())?;
        if instance.has("buffer_percent") {
            instance.write("buffer_percent", WAKE_PERCENT)?;
        }
        // The trace needs no names of running tasks; to keep them the kernel would work at every switch of tasks.
        for option in ["record-cmd", "record-tgid"] {
            if instance.has(&format!("options/{option}")) {
                instance.write(&format!("options/{option}"), "0")?;
            }
        }
        let layout = keep_formats(&instance, spool, settings.every_step)?;
        enable(&instance, &numbers, settings.every_step)?;
        let cpus = instance.cpus()?;
        let path = instance.file("tracing_on");
        let switch = OpenOptions::new().write(true).open(&path);
        let switch = switch.map_err(|error| TraceError::io("recording cannot be switched", &path, &error))?;
        let text = |&(major, minor): &(u32, u32)| format!("{major}:{minor}");
        let summary = Summary {
            device: settings.device.major_minor.clone().unwrap_or_default(),
            devices: numbers.iter().map(text).collect(),
            partitions,
            names: names_of(&settings.device),
            spool: spool.display().to_string(),
            buffer_kib_per_cpu: settings.buffer_kib_per_cpu,
            cpus: cpus.len() as u32,
            ..Summary::default()
        };
        let stop = Arc::new(AtomicBool::new(false));
        Ok(Self { reader: None, stop, switch: Some(switch), instance, layout, cpus, summary, spool: spool.clone() })
    }

    fn switch_to(&mut self, state: &str) {
        let written = self.switch.as_mut().map_or(Ok(()), |file| file.write_all(state.as_bytes()));
        if let Err(error) = written {
            self.summary.problem.get_or_insert(format!("recording could not be switched: {error}"));
        }
    }

    fn join(&mut self) {
        self.stop.store(true, Ordering::Release);
        let Some(reader) = self.reader.take() else { return };
        let read = reader.join().unwrap_or_else(|_| ReadSoFar {
            problem: Some("the reading thread ended in a panic".to_owned()),
            ..ReadSoFar::default()
        });
        self.summary.pages = read.pages;
        self.summary.spool_bytes = read.bytes;
        self.summary.lost.pages_after_a_gap = read.gaps;
        self.summary.reader_wakeups = read.wakeups;
        self.summary.reader_cpu_ns = read.cpu_ns;
        if let Some(problem) = read.problem {
            self.summary.problem.get_or_insert(problem);
        }
    }

    fn count_lost(&self, summary: &mut Summary) -> Result<(), TraceError> {
        for cpu in &self.cpus {
            let stats = self.instance.read(&format!("per_cpu/cpu{cpu}/stats"))?;
            let count = |name: &str| stat(&stats, name).unwrap_or(0);
            let lost = &mut summary.lost;
            *lost = Lost {
                overrun: lost.overrun + count("overrun"),
                dropped_events: lost.dropped_events + count("dropped events"),
                commit_overrun: lost.commit_overrun + count("commit overrun"),
                ..*lost
            };
            summary.events_read += count("read events");
        }
        Ok(())
    }

    fn start_reader(&self) -> Result<JoinHandle<ReadSoFar>, TraceError> {
        let mut sources = Vec::with_capacity(self.cpus.len());
        for &cpu in &self.cpus {
            let path = self.instance.file(&format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
            let pipe = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
            let pipe = pipe.map_err(|error| TraceError::io("the trace cannot be read", &path, &error))?;
            let spool = SpoolWriter::create(&self.spool, cpu);
            let spool = spool.map_err(|error| TraceError::io("the spool cannot be written", &self.spool, &error))?;
            sources.push(Source { pipe, spool });
        }
        let (layout, stop) = (self.layout, Arc::clone(&self.stop));
        let named = std::thread::Builder::new().name("block-trace".to_owned());
        named
            .spawn(move || read_until(&stop, layout, sources))
            .map_err(|error| TraceError::io("the reading thread cannot be started", &self.spool, &error))
    }
}

impl Probe for BlockTracer {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sample(&mut self, _out: &mut Vec<Reading>) {}

    fn begin(&mut self) {
        if self.reader.is_none() && self.summary.window_start_ns.is_none() {
            match self.start_reader() {
                Ok(reader) => {
                    self.reader = Some(reader);
                    self.switch_to("1");
                    self.summary.window_start_ns = Some(monotonic_ns());
                }
                Err(error) => self.summary.problem = Some(error.to_string()),
            }
        }
    }

    /// The thread goes on to read the events that are left in the buffers.
    fn end(&mut self) {
        if self.reader.is_some() && self.summary.window_end_ns.is_none() {
            self.summary.window_end_ns = Some(monotonic_ns());
            self.switch_to("0");
            self.stop.store(true, Ordering::Release);
        }
    }

    /// Waits for the last page, removes the instance, and returns the result: a [`Summary`].
    fn finish(mut self: Box<Self>) -> Option<Table> {
        self.end();
        self.join();
        let mut summary = std::mem::take(&mut self.summary);
        if summary.window_start_ns.is_some()
            && let Err(error) = self.count_lost(&mut summary)
        {
            summary.problem.get_or_insert(error.to_string());
        }
        Some(Table::new(NAME, &summary))
    }
}

impl Drop for BlockTracer {
    fn drop(&mut self) {
        self.end();
        self.join();
        self.switch = None;
    }
}

struct Source {
    pipe: File,
    spool: SpoolWriter,
}

/// Moves pages to the spool until `stop` is set, and then the remaining pages. It is the body of the reading thread.
fn read_until(stop: &AtomicBool, layout: PageLayout, mut sources: Vec<Source>) -> ReadSoFar {
    let thread = DriverThread::current();
    let mut read = ReadSoFar::default();
    let mut page = vec![0; layout.page_bytes];
    loop {
        let last = stop.load(Ordering::Acquire);
        for source in &mut sources {
            if let Err(error) = drain(source, layout, &mut page, &mut read) {
                read.problem = Some(match error.raw_os_error() {
                    Some(libc::ENOSPC) => "the disk of the spool is nearly full".to_owned(),
                    _ => format!("moving the trace's pages: {error}"),
                });
            }
        }
        if last || read.problem.is_some() {
            break;
        }
        wait(&sources);
        read.wakeups += 1;
    }
    for source in sources {
        match source.spool.close() {
            Ok(bytes) => read.bytes += bytes,
            Err(error) => read.problem = Some(format!("writing the spool: {error}")),
        }
    }
    read.cpu_ns = thread.cpu_ns().unwrap_or(0);
    read
}

/// Moves one processor's available pages from its trace buffer to the spool.
fn drain(source: &mut Source, layout: PageLayout, page: &mut [u8], read: &mut ReadSoFar) -> io::Result<()> {
    loop {
        let length = match source.pipe.read(page) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock) => return Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted) => continue,
            Err(error) => return Err(error),
        };
        // Every page has the same length in the spool, even if the read was shorter.
        page[length..].fill(0);
        read.pages += 1;
        read.gaps += u64::from(page::facts(&layout, page).is_ok_and(|facts| facts.missed));
        source.spool.page(page)?;
    }
}

/// Waits until a buffer is filled to `WAKE_PERCENT`, or a limit of time has passed.
fn wait(sources: &[Source]) {
    let watched = |source: &Source| libc::pollfd { fd: source.pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut watched: Vec<libc::pollfd> = sources.iter().map(watched).collect();
    // SAFETY: the list is valid for its length, and the descriptors are open. The buffers are read next for any result.
    unsafe { libc::poll(watched.as_mut_ptr(), watched.len() as libc::nfds_t, WAIT_MS) };
    // Kernels differ in when they report a buffer as readable. Sleep, so that the reader never spins while it waits.
    std::thread::sleep(PAUSE);
}

/// Copies the formats of the available events; returns the layout of pages.
fn keep_formats(instance: &Instance, spool: &Path, every_step: bool) -> Result<PageLayout, TraceError> {
    let keep = |name: &str, text: &str| {
        let path = spool.join(name);
        fs::write(&path, text).map_err(|error| TraceError::io("the spool cannot be written", &path, &error))
    };
    let header = instance.read("events/header_page")?;
    let layout = PageLayout::parse(&header).ok_or_else(|| {
        TraceError::new(
            "bufferlab does not know the form of this kernel's trace pages",
            "tracefs:events/header_page",
            "please report this with the file's text",
        )
    })?;
    keep(HEADER_PAGE, &header)?;
    for name in recorded(every_step) {
        if instance.has(&format!("events/block/{name}")) {
            keep(&format!("{name}.{FORMAT}"), &instance.read(&format!("events/block/{name}/format"))?)?;
        } else if NEEDED.contains(&name) {
            let hint = "use a kernel with CONFIG_BLK_DEV_IO_TRACE";
            return Err(TraceError::new(format!("this kernel has no tracepoint {name}"), "tracefs:events/block", hint));
        }
    }
    Ok(layout)
}

/// Switches on the events of these devices. A plug belongs to a task, and names no device.
fn enable(instance: &Instance, numbers: &BTreeSet<(u32, u32)>, every_step: bool) -> Result<(), TraceError> {
    for name in recorded(every_step) {
        let directory = format!("events/block/{name}");
        if !instance.has(&directory) {
            continue;
        }
        if let Some(filter) = filter_of(name, numbers) {
            instance.write(&format!("{directory}/filter"), &filter)?;
        }
        instance.write(&format!("{directory}/enable"), "1")?;
    }
    Ok(())
}

fn filter_of(tracepoint: &str, numbers: &BTreeSet<(u32, u32)>) -> Option<String> {
    let fields: &[&str] = match tracepoint {
        "block_plug" | "block_unplug" => return None,
        "block_bio_remap" | "block_rq_remap" => &["dev", "old_dev"],
        _ => &["dev"],
    };
    let terms = numbers.iter().flat_map(|&(major, minor)| {
        let number = kernel_number(major, minor);
        fields.iter().map(move |field| format!("{field} == {number}"))
    });
    Some(terms.collect::<Vec<_>>().join(" || "))
}

/// Returns MKDEV of include/linux/kdev_t.h; user space packs a device's number in another way.
fn kernel_number(major: u32, minor: u32) -> u32 {
    major << 20 | minor
}

/// Returns the numbers of the device, of the disks below it, and of all their partitions, and the disk of each
/// partition.
#[allow(clippy::type_complexity, reason = "a set and a list, used once")]
fn numbers_of(device: &Device) -> Result<(BTreeSet<(u32, u32)>, Vec<(String, String)>), TraceError> {
    let own = device.major_minor.as_deref();
    let Some(own) = own else {
        let reason = device.reason.clone().unwrap_or_else(|| "the device has no number".to_owned());
        let hint = "choose a directory on a local disk with --data-dir";
        return Err(TraceError::new(format!("there is no block device to trace: {reason}"), "block-trace", hint));
    };
    let mut numbers = BTreeSet::new();
    let mut partitions = Vec::new();
    for disk in std::iter::once(own).chain(disks_below(device).iter().map(|disk| disk.major_minor.as_str())) {
        let Some(number) = parse_number(disk) else { continue };
        numbers.insert(number);
        for partition in partitions_of(number.0, number.1) {
            if let Some(number) = parse_number(&partition) {
                numbers.insert(number);
                partitions.push((partition, disk.to_owned()));
            }
        }
    }
    Ok((numbers, partitions))
}

/// Returns the further disks to trace below a device that has no requests itself and passes bios down, such as md.
/// Returns none for a device with requests, such as a loop device: its own events show all of them, and other programs
/// use its disk too.
fn disks_below(device: &Device) -> &[Disk] {
    let own = device.major_minor.as_deref().and_then(parse_number);
    if own.is_some_and(|(major, minor)| has_requests(major, minor)) { &[] } else { &device.disks }
}

fn names_of(device: &Device) -> Vec<(String, String)> {
    let own = device.major_minor.clone().zip(device.name.clone());
    own.into_iter()
        .chain(disks_below(device).iter().map(|disk| (disk.major_minor.clone(), disk.name.clone())))
        .collect()
}

fn parse_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the count of this name in the text of a per_cpu/cpu*/stats of tracefs.
fn stat(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_by_their_whole_name() {
        let text = "entries: 5\noverrun: 2\ncommit overrun: 3\nbytes: 7\ndropped events: 4\nread events: 9\n";
        let counts = ["overrun", "commit overrun", "dropped events", "read events"].map(|name| stat(text, name));
        assert_eq!(counts, [Some(2), Some(3), Some(4), Some(9)]);
        assert_eq!(stat(text, "events"), None);
    }

    #[test]
    fn remaps_are_let_through_from_and_to_the_device_and_plugs_always() {
        let numbers = BTreeSet::from([(7, 0), (254, 1)]);
        assert_eq!(filter_of("block_bio_queue", &numbers).as_deref(), Some("dev == 7340032 || dev == 266338305"));
        let remap = filter_of("block_bio_remap", &BTreeSet::from([(7, 0)]));
        assert_eq!(remap.as_deref(), Some("dev == 7340032 || old_dev == 7340032"));
        assert_eq!(filter_of("block_unplug", &numbers), None);
    }

    #[test]
    fn a_path_without_a_device_is_refused_with_the_reason() {
        let device = Device { reason: Some("/x is on tmpfs, which has no block device".into()), ..Device::default() };
        let error = numbers_of(&device).expect_err("no device");
        assert!(error.what.contains("tmpfs"), "{error}");
    }
}
