//! Records the page accesses of a server that is about to start, and of all its threads and children.
//!
//! An event belongs to a processor and sees every process of the binary; the reader keeps the server's own. Events of
//! the server's tasks would see no other process, but a PostgreSQL session vanished from such a trace when another
//! ended: the kernel exchanges the events of two children of one process when it switches between them
//! (`perf_event_context_sched_out` of kernel/events/core.c), and removes a probe from a process that no event's task
//! belongs to any more (`uprobe_perf_filter` of kernel/trace/trace_uprobe.c).
//!
//! A thread moves the rings' records into a spool. When this process is killed, the kernel closes the events, and the
//! server goes on without them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bufferlab_model::trace::Record;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Clock, SampleFlag, Sampler};

use super::decode::Decoder;
use super::definition::Definition;
use super::family::Family;
use super::recorder::{Method, Preload, Recorder, Settings, Told};
use super::recording::{Spool, Spooled};
use crate::process::DriverThread;
use crate::tracefs::{Field, TraceError};

/// A ring holds half a second of 400,000 accesses a second.
const RING_BYTES: usize = 16 << 20;
/// All rings together, on hosts of many processors.
const ALL_RINGS_BYTES: usize = 512 << 20;
const PAUSE: Duration = Duration::from_millis(10);
/// Types of records (perf_event_open(2)).
const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_SAMPLE: u32 = 9;
const PERF_RECORD_LOST_SAMPLES: u32 = 13;

/// Bytes of a sample before the event's own: process, thread, time, and their length (perf_event_open(2)).
const BEFORE_RAW: usize = 4 + 4 + 8 + 4;

/// A trace that is defined, on, or over. Dropping it leaves nothing behind.
pub struct PageTracer {
    // Join it before the definition goes: the kernel does not remove an open event.
    reader: Option<JoinHandle<Told>>,
    stop: Arc<AtomicBool>,
    definition: Definition,
    settings: Settings,
}

impl PageTracer {
    /// Defines the probes and records nothing yet. Removes definitions of dead processes first.
    ///
    /// # Errors
    /// When this user cannot trace the binary; nothing is left then.
    pub fn arm(settings: Settings) -> Result<Self, TraceError> {
        let definition = Definition::make(&settings)?;
        Ok(Self { reader: None, stop: Arc::default(), definition, settings })
    }

    fn join(&mut self) -> Option<Told> {
        self.stop.store(true, Ordering::Release);
        let spool = &self.settings.spool.path;
        Some(self.reader.take()?.join().unwrap_or_else(|_| Told::broken(Method::Uprobes, spool)))
    }
}

impl Recorder for PageTracer {
    fn preload(&self, _: &Path) -> Result<Option<Preload>, TraceError> {
        Ok(None)
    }

    fn attach(&mut self, pid: u32) -> Result<(), TraceError> {
        let format = self.definition.format()?;
        let decoder = Decoder::new(&format, &self.settings).ok_or_else(|| {
            TraceError::new(
                "the probes' records lack a field",
                "tracefs",
                "please report this with the server's version",
            )
        })?;
        let rings = rings_of(format.id)?;
        let path = &self.settings.spool.path;
        let spool = Spool::create(&self.settings.spool)
            .map_err(|error| TraceError::io("the spool cannot be made", path, &error))?;
        let stop = Arc::clone(&self.stop);
        let named = std::thread::Builder::new().name("page-trace".to_owned());
        let reader = named.spawn(move || Reader::new(rings, Family::of(pid), decoder, spool).read_until(&stop));
        let reader = reader.map_err(|error| TraceError::io("the reading thread cannot be started", path, &error))?;
        self.reader = Some(reader);
        Ok(())
    }

    /// The kernel has said so when it opened the events.
    fn require_on(&self) -> Result<(), TraceError> {
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Told {
        self.join().unwrap_or_else(|| Told::empty(Method::Uprobes, Spooled::default()))
    }
}

impl Drop for PageTracer {
    fn drop(&mut self) {
        self.join();
    }
}

fn refused(error: std::io::Error) -> TraceError {
    let hint = match error.raw_os_error() {
        Some(libc::ENOMEM | libc::EPERM) => "run as root, with CAP_PERFMON, CAP_IPC_LOCK and enough memory",
        Some(libc::EMFILE) => "raise the limit of open files: ulimit -n",
        _ => "please report this with the kernel's version (uname -r)",
    };
    TraceError::new(format!("the kernel opens no perf event: {error}"), "perf_event_open", hint)
}

/// Returns a switched-on ring of each processor.
fn rings_of(event_id: u64) -> Result<Vec<Sampler>, TraceError> {
    let cpus = online_cpus()?;
    let ring_bytes = RING_BYTES.min(ALL_RINGS_BYTES / cpus.len().max(1)).max(1 << 20);
    let mut rings = Vec::with_capacity(cpus.len());
    for cpu in cpus {
        let counter = Builder::new(Tracepoint::with_id(event_id))
            .any_pid()
            .one_cpu(cpu)
            .sample_period(1)
            .sample(SampleFlag::TID | SampleFlag::TIME | SampleFlag::RAW)
            .clockid(Clock::MONOTONIC)
            .enabled(true)
            .build();
        rings.push(counter.and_then(|counter| counter.sampled(ring_bytes)).map_err(refused)?);
    }
    Ok(rings)
}

/// Returns the numbers of the processors, from a text such as `0-3,8`.
fn online_cpus() -> Result<Vec<usize>, TraceError> {
    const PLACE: &str = "/sys/devices/system/cpu/online";
    let text = std::fs::read_to_string(PLACE);
    let text = text.map_err(|error| TraceError::io("the processors are not known", PLACE.as_ref(), &error))?;
    Ok(text
        .trim()
        .split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
        })
        .flatten()
        .collect())
}

struct Reader {
    rings: Vec<Sampler>,
    family: Family,
    decoder: Decoder,
    spool: Spool,
    lost: u64,
    /// Malformed records.
    unread: u64,
}

impl Reader {
    fn new(rings: Vec<Sampler>, family: Family, decoder: Decoder, spool: Spool) -> Self {
        Self { rings, family, decoder, spool, lost: 0, unread: 0 }
    }

    /// Moves records until told to stop, and then the rest; the body of the thread.
    fn read_until(mut self, stop: &AtomicBool) -> Told {
        let thread = DriverThread::current();
        loop {
            let last = stop.load(Ordering::Acquire);
            if last {
                for ring in &mut self.rings {
                    // Nobody reads later records; a failure would only let more of them in.
                    let _ = ring.as_counter_mut().disable();
                }
            }
            self.drain();
            if last {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        let mut spooled = self.spool.finish();
        if self.unread > 0 {
            let unread = self.unread;
            spooled.problem.get_or_insert(format!("{unread} records of the page trace cannot be read"));
        }
        let reader_cpu_ns = thread.cpu_ns().unwrap_or(0);
        let Decoder { relations, threads, .. } = self.decoder;
        Told { lost: self.lost, relations, threads, reader_cpu_ns, ..Told::empty(Method::Uprobes, spooled) }
    }

    fn drain(&mut self) {
        for (cpu, ring) in self.rings.iter_mut().enumerate() {
            while let Some(record) = ring.next_record() {
                let bytes = record.to_contiguous();
                let is_ours = |pid: &[u8; 4]| self.family.has(u32::from_le_bytes(*pid));
                let decoded = match record.ty() {
                    // A sample begins with its process.
                    PERF_RECORD_SAMPLE if !bytes.first_chunk().is_some_and(is_ours) => Some(()),
                    PERF_RECORD_SAMPLE => {
                        accesses(&mut self.decoder, &bytes, &mut |access| self.spool.push_from(cpu, &access))
                    }
                    // The event's number, and how many were lost; the other record has only the number.
                    PERF_RECORD_LOST => count(&bytes, 8).map(|lost| self.lost += lost),
                    PERF_RECORD_LOST_SAMPLES => count(&bytes, 0).map(|lost| self.lost += lost),
                    _ => Some(()),
                };
                self.unread += u64::from(decoded.is_none());
            }
        }
    }
}

fn count(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?))
}

/// Passes the accesses of one sample's bytes to `take`; returns none when the bytes are malformed.
fn accesses(decoder: &mut Decoder, sample: &[u8], take: &mut impl FnMut(Record)) -> Option<()> {
    let number = |from: usize, bytes: usize| Field { offset: from, size: bytes, signed: false }.number(sample);
    let (thread, t_ns, length) = (number(4, 4)?, number(8, 8)?, number(16, 4)?);
    let data = sample.get(BEFORE_RAW..)?.get(..length as usize)?;
    let thread = decoder.thread(thread as u32);
    decoder.accesses(thread, t_ns, data, take)
}
