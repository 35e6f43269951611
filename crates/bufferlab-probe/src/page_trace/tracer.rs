//! Reads the kernel's records of a server's page accesses, at a defined event, and moves them into a spool.
//!
//! An event belongs to a processor and sees every process of the binary; the reader keeps the server's own. Events of
//! the server's tasks would see no other process, but a PostgreSQL session vanished from such a trace when another
//! ended: the kernel exchanges the events of two children of one process when it switches between them
//! (`perf_event_context_sched_out` of kernel/events/core.c), and removes a probe from a process that no event's task
//! belongs to any more (`uprobe_perf_filter` of kernel/trace/trace_uprobe.c).

use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use bufferlab_model::trace::Record;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Clock, SampleFlag, Sampler};

use super::decode::Decoder;
use super::definition::Definition;
use super::family::Family;
use super::recorder::{Recorder, Seen, Settings, Told};
use super::recording::Spool;
use crate::process::DriverThread;
use crate::tracefs::{Field, TraceError};

/// A ring holds half a second of 400,000 accesses a second.
const RING_BYTES: usize = 16 << 20;
/// All rings together, on hosts of many processors.
const ALL_RINGS_BYTES: usize = 512 << 20;
const PAUSE: Duration = Duration::from_millis(10);
/// Records of a ring that are moved at once: a busy server fills it as fast as a starved reader empties it.
const RECORDS_AT_ONCE: usize = 4096;
/// Types of records (perf_event_open(2)).
const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_SAMPLE: u32 = 9;
const PERF_RECORD_LOST_SAMPLES: u32 = 13;

/// Bytes of a sample before the event's own: process, thread, time, and their length (perf_event_open(2)).
const BEFORE_RAW: usize = 4 + 4 + 8 + 4;

/// Starts the thread that reads.
pub(super) fn spawned<T: Send + 'static>(
    spool: &Path,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, TraceError> {
    let thread = std::thread::Builder::new().name("page-trace".to_owned()).spawn(body);
    thread.map_err(|error| TraceError::io("the reading thread cannot be started", spool, &error))
}

fn refused(error: std::io::Error) -> TraceError {
    let hint = match error.raw_os_error() {
        Some(libc::ENOMEM | libc::EPERM) => "run as root, with CAP_PERFMON, CAP_IPC_LOCK and enough memory",
        Some(libc::EMFILE) => "raise the limit of open files: ulimit -n",
        _ => "please report this with the kernel's version (uname -r)",
    };
    TraceError::new(format!("the kernel opens no perf event: {error}"), "perf_event_open", hint)
}

/// Returns the bytes of each of `rings` rings: a power of two, because others would be rounded up to one.
fn ring_bytes(rings: usize) -> usize {
    let most = RING_BYTES.min(ALL_RINGS_BYTES / rings.max(1)).max(1 << 20);
    1 << most.ilog2()
}

/// Returns a switched-on ring of each processor; `ring_bytes` returns a ring's bytes for their number.
fn rings_of(event_id: u64, ring_bytes: impl FnOnce(usize) -> usize) -> Result<Vec<Sampler>, TraceError> {
    let cpus = online_cpus()?;
    let ring_bytes = ring_bytes(cpus.len());
    let mut rings = Vec::with_capacity(cpus.len());
    for cpu in cpus {
        let counter = Builder::new(Tracepoint::with_id(event_id))
            .any_pid()
            .one_cpu(cpu)
            .sample_period(1)
            .sample(SampleFlag::TID | SampleFlag::TIME | SampleFlag::RAW)
            .clockid(Clock::MONOTONIC)
            .build();
        let mut ring = counter.and_then(|counter| counter.sampled(ring_bytes)).map_err(refused)?;
        // Switched on only once it has its ring, so that the event's count is that of kept and lost records.
        ring.as_counter_mut().enable().map_err(refused)?;
        rings.push(ring);
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

/// Switched-on rings, and where their records go.
pub(super) struct Reader {
    rings: Vec<Sampler>,
    pub family: Family,
    decoder: Decoder,
    pub spool: Spool,
    /// Records of the server.
    pub records: u64,
    /// Records of other processes: each stopped one of them.
    pub strangers: u64,
    pub lost: u64,
    /// Malformed records.
    unread: u64,
}

impl Reader {
    /// Switches a defined event on, of which the family's records are kept.
    ///
    /// # Errors
    /// When the kernel opens no event, or a spool has no room; nothing is on then.
    pub fn open(definition: &Definition, settings: &Settings, family: Family) -> Result<Self, TraceError> {
        Self::with_rings(definition, settings, family, ring_bytes)
    }

    fn with_rings(
        definition: &Definition,
        settings: &Settings,
        family: Family,
        ring_bytes: impl FnOnce(usize) -> usize,
    ) -> Result<Self, TraceError> {
        let format = definition.format()?;
        let decoder = Decoder::new(&format, settings).ok_or_else(|| {
            TraceError::new(
                "the probes' records lack a field",
                "tracefs",
                "please report this with the server's version",
            )
        })?;
        let spool = Spool::create(&settings.spool)
            .map_err(|error| TraceError::io("the spool cannot be made", &settings.spool.path, &error))?;
        let rings = rings_of(format.id, ring_bytes)?;
        Ok(Self { rings, family, decoder, spool, records: 0, strangers: 0, lost: 0, unread: 0 })
    }

    fn drain_all(&mut self) {
        for cpu in 0..self.rings.len() {
            while !self.drain(cpu) {}
        }
    }

    /// Moves records of a ring, [`RECORDS_AT_ONCE`] at most; returns whether it has no more.
    fn drain(&mut self, cpu: usize) -> bool {
        let Self { rings, family, decoder, spool, .. } = self;
        for _ in 0..RECORDS_AT_ONCE {
            let Some(record) = rings[cpu].next_record() else { return true };
            let bytes = record.to_contiguous();
            let decoded = match record.ty() {
                PERF_RECORD_SAMPLE => {
                    // A sample begins with its process.
                    if bytes.first_chunk().is_some_and(|pid: &[u8; 4]| family.has(u32::from_le_bytes(*pid))) {
                        self.records += 1;
                        accesses(decoder, &bytes, &mut |access| spool.push_from(cpu, &access))
                    } else {
                        self.strangers += 1;
                        Some(())
                    }
                }
                // The event's number, and how many were lost; the other record has only the number.
                PERF_RECORD_LOST => count(&bytes, 8).map(|lost| self.lost += lost),
                PERF_RECORD_LOST_SAMPLES => count(&bytes, 0).map(|lost| self.lost += lost),
                _ => Some(()),
            };
            self.unread += u64::from(decoded.is_none());
        }
        false
    }
}

impl Recorder for Reader {
    /// Moves records until `goes_on` says no. It is asked before [`RECORDS_AT_ONCE`] of each ring.
    fn read_while(&mut self, mut goes_on: impl FnMut(&Self) -> bool) {
        loop {
            let mut is_behind = false;
            for cpu in 0..self.rings.len() {
                if !goes_on(self) {
                    return;
                }
                is_behind |= !self.drain(cpu);
            }
            if !is_behind {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Switches the event off and moves the rest. The kernel takes its probes away when the last ring is closed.
    fn close(&mut self) {
        for ring in &mut self.rings {
            // Later records are not read; a failure would only let more of them in.
            let _ = ring.as_counter_mut().disable();
        }
        self.drain_all();
        // The kernel reports lost records with the next one that it has room for. Where none came, only its count has
        // them.
        let hits: u64 = self.rings.iter_mut().filter_map(|ring| ring.as_counter_mut().read().ok()).sum();
        let told = |reader: &Self| reader.records + reader.strangers + reader.lost;
        if told(self) < hits {
            // A thread may be about to write the record that its processor has counted.
            std::thread::sleep(PAUSE);
            self.drain_all();
            self.lost += hits.saturating_sub(told(self));
        }
        self.rings.clear();
    }

    fn seen(&self) -> Seen {
        let strangers = self.family.strangers();
        Seen { own: self.records, others: self.strangers, lost: self.lost, strangers }
    }

    fn spool(&self) -> &Spool {
        &self.spool
    }

    /// Writes the file; call it in the thread that has read.
    fn finish(self) -> Told {
        let mut spooled = self.spool.finish();
        if self.unread > 0 {
            let unread = self.unread;
            spooled.problem.get_or_insert(format!("{unread} records of the page trace cannot be read"));
        }
        let reader_cpu_ns = DriverThread::current().cpu_ns().unwrap_or(0);
        let Decoder { relations, threads, .. } = self.decoder;
        Told { spooled, lost: self.lost, relations, threads, reader_cpu_ns, ..Told::default() }
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

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
