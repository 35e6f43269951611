//! Follows the calls by which a server reads and writes, through programs that the kernel runs at its own events (BPF).
//!
//! Only descriptors of this process keep the programs (bpf/calls.bpf.c): however the process ends, the kernel removes
//! them. They change nothing in the server and stop none of its threads. A traced call costs 0.5 us. While the programs
//! are on, any call of any process of the host costs 0.1 us (docs/benchmarks.md).

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use aya::maps::{MapData, PerCpuArray, RingBuf};
use aya::programs::{BtfTracePoint, ProgramError};
use aya::{BtfError, Ebpf, EbpfLoader};
use serde::Deserialize;

use super::bpf::causes;
use super::frames::{Buffers, Call, Frames, Pool};
use super::recording::{RECORDS_AT_ONCE, Recorder, Seen, Told};
use super::recording::{Spool, SpoolAsked};
use crate::process::DriverThread;
use crate::tracefs::TraceError;

/// The kernel's programs (BPF) that record calls, compiled from bpf/calls.bpf.c.
static PROGRAMS: &[u8] = aya::include_bytes_aligned!("../../bpf/calls.bpf.o");
/// Bytes of a record of a call (struct call of calls.bpf.c).
const CALL_BYTES: usize = 56;

/// The calls that the kernel's programs did not record, counted on one processor (struct counts of calls.bpf.c).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Counts {
    lost: u64,
    left_out: u64,
    no_file: u64,
}

// SAFETY: plain numbers without gaps, for which any bytes are valid.
unsafe impl aya::Pod for Counts {}

/// A server's pool, and the file for the records of its pages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallSettings {
    /// The pool whose pages the server reads and writes.
    pub pool: Pool,
    /// The file of records, which the recorder makes.
    pub spool: SpoolAsked,
}

/// The attached programs, and the reader of their records.
pub(super) struct CallReader {
    /// The kernel's programs; none once they are off.
    programs: Option<Ebpf>,
    ring: RingBuf<MapData>,
    counts: PerCpuArray<MapData, Counts>,
    frames: Frames,
    /// The server's own lists of its pool, which arrive while the recorder reads.
    lists: Receiver<Buffers>,
    /// The lists that wait until the records before them are read.
    waiting: Vec<Buffers>,
    spool: Spool,
    calls: u64,
    unread: u64,
}

impl CallReader {
    /// Switches the programs on for a server, its threads and its children. Returns the reader, and the channel for the
    /// server's lists of its buffers.
    ///
    /// # Errors
    /// When the kernel refuses the programs, or the spool cannot be made; nothing is on then.
    pub fn open(pid: u32, settings: CallSettings) -> Result<(Self, Sender<Buffers>), TraceError> {
        let CallSettings { pool, spool } = settings;
        let mut programs = loaded(pid)?;
        let mut map = |name: &str| programs.take_map(name).ok_or_else(|| refused(format!("no map {name}")));
        let ring = RingBuf::try_from(map("calls")?).map_err(refused)?;
        let counts = PerCpuArray::try_from(map("counted")?).map_err(refused)?;
        let spool =
            Spool::create(&spool).map_err(|error| TraceError::io("the spool cannot be made", &spool.path, &error))?;
        let frames = Frames::new(pool);
        let (sender, lists) = channel();
        let reader = Self {
            programs: Some(programs),
            ring,
            counts,
            frames,
            lists,
            waiting: Vec::new(),
            spool,
            calls: 0,
            unread: 0,
        };
        Ok((reader, sender))
    }

    fn total(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        self.counts.get(&0, 0).map_or(0, |counts| counts.iter().map(of).sum())
    }
}

impl Recorder for CallReader {
    /// The reader sleeps this long. The ring buffer has ample room for the calls of this time: its 8 MiB hold 130,000.
    const PAUSE: Duration = Duration::from_millis(20);

    fn drain(&mut self) -> bool {
        let Self { ring, frames, lists, waiting, spool, calls, unread, .. } = self;
        // A list describes the pool after all calls that came before its query, so read their records first.
        waiting.extend(lists.try_iter());
        for _ in 0..RECORDS_AT_ONCE {
            let Some(record) = ring.next() else {
                for buffers in waiting.drain(..) {
                    frames.listed(&buffers, &mut |access| spool.push(&access));
                }
                return true;
            };
            *calls += 1;
            match call_of(&record) {
                Some(call) => frames.call(&call, &mut |access| spool.push(&access)),
                None => *unread += 1,
            }
        }
        false
    }

    fn close(&mut self) {
        self.programs = None;
        while !self.drain() {}
    }

    fn seen(&self) -> Seen {
        Seen { own: self.calls, lost: self.total(|counts| counts.lost), ..Seen::default() }
    }

    fn spool(&self) -> &Spool {
        &self.spool
    }

    fn finish(self) -> Told {
        let [lost, left_out, no_file] =
            [|one: &Counts| one.lost, |one: &Counts| one.left_out, |one: &Counts| one.no_file].map(|of| self.total(of));
        let mut spooled = self.spool.finish();
        if self.unread > 0 {
            spooled.problem.get_or_insert(format!("{} records of calls cannot be read", self.unread));
        }
        Told {
            spooled,
            lost,
            reader_cpu_ns: DriverThread::current().cpu_ns().unwrap_or(0),
            files: self.frames.files(),
            frames: Some(self.frames.counts),
            threads: self.frames.processes,
            left_out_calls: left_out,
            calls_without_file: no_file,
            ..Told::default()
        }
    }
}

/// Checks whether this user and this kernel can follow calls; leaves nothing on.
///
/// # Errors
/// When they cannot, with the reason.
pub fn check() -> Result<(), TraceError> {
    loaded(std::process::id()).map(drop)
}

/// Loads the programs and switches them on.
fn loaded(pid: u32) -> Result<Ebpf, TraceError> {
    let btf = super::bpf::kernel()?;
    let pid = pid.cast_signed();
    let mut programs = EbpfLoader::new()
        .btf(Some(&btf))
        .override_global("server_pid", &pid, true)
        .load(PROGRAMS)
        .map_err(|error| refused(causes(&error)))?;
    for (name, event) in [("system_call", "sys_enter"), ("ring_request", "io_uring_complete")] {
        let program = programs.program_mut(name).ok_or_else(|| refused(format!("no program {name}")))?;
        let program: &mut BtfTracePoint = program.try_into().map_err(|error: ProgramError| refused(error))?;
        match program.load(event, &btf) {
            // A kernel without io_uring has no such event, and no server can use io_uring there.
            Err(ProgramError::Btf(BtfError::UnknownBtfTypeName { .. })) if name == "ring_request" => continue,
            loaded => loaded.map_err(|error| refused(causes(&error)))?,
        }
        program.attach().map_err(|error| refused(causes(&error)))?;
    }
    Ok(programs)
}

fn refused(error: impl std::fmt::Display) -> TraceError {
    super::bpf::refused("follow a server's calls", "5.17", error)
}

/// Returns the call of a record's bytes; none when they are of another length.
fn call_of(bytes: &[u8]) -> Option<Call> {
    let bytes: &[u8; CALL_BYTES] = bytes.try_into().ok()?;
    let long = |at: usize| bytes[at..].first_chunk().map_or(0, |number| u64::from_le_bytes(*number));
    let short = |at: usize| bytes[at..].first_chunk().map_or(0, |number| u32::from_le_bytes(*number));
    Some(Call {
        t_ns: long(0),
        address: long(8),
        offset: long(16),
        inode: long(24),
        device: short(32),
        process: short(36),
        bytes: short(40),
        writes: short(44) != 0,
        folder: *bytes[48..].first_chunk()?,
    })
}
