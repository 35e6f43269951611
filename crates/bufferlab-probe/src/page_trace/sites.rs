//! Records the accesses at places in a server's code, through a program that the kernel runs there (BPF).
//!
//! Descriptors of this process keep the program (bpf/sites.bpf.c) in the kernel: one link to all places, or a perf
//! event for each place. They have no names in the kernel, so a killed process leaves nothing behind. If the server's
//! sessions are threads, the program is bound to its process, and no other process of its binary is stopped. If they
//! are processes, new ones must be seen from their first instruction. Then all processes of the binary are stopped, and
//! the program skips those of other servers.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use aya::maps::{HashMap, Map, MapData, PerCpuArray, RingBuf};
use aya_obj::generated::{bpf_attach_type, bpf_attr, bpf_cmd, bpf_insn, bpf_prog_type};
use bufferlab_inside::layout::SITE_AT;
use perf_event::events::Raw;
use perf_event::{Builder, Counter};

use super::bpf::{causes, kernel, refused};
use super::decode::Decoder;
use super::fetch::{self, Fetch, Kept, Part};
use super::recording::Spool;
use super::recording::{RECORDS_AT_ONCE, Recorder, Seen, Settings, Told};
use crate::process::DriverThread;
use crate::tracefs::{Field, TraceError};

/// The kernel's program (BPF) that records accesses, compiled from bpf/sites.bpf.c.
static PROGRAM: &[u8] = aya::include_bytes_aligned!("../../bpf/sites.bpf.o");
/// Bytes of a record (struct record), and of the part of it that the decoder reads.
const RECORD_BYTES: usize = 40;
const DECODED_BYTES: usize = SITE_AT + 1;
/// The first kernel with a ring buffer for programs.
const FIRST_KERNEL: (u32, u32) = (5, 8);
/// The first kernel with one link to many places.
const FIRST_WITH_LINK: (u32, u32) = (6, 6);
/// The first kernel whose link sees every thread of a process that it is bound to. The links of earlier kernels see
/// only one thread (`uprobe_prog_run` of kernel/trace/bpf_trace.c).
const FIRST_WITH_BOUND_LINK: (u32, u32) = (6, 10);
/// The first kernel that counts the memory of programs apart from locked memory.
const FIRST_UNLOCKED: (u32, u32) = (5, 11);
/// The kernel's folder for perf events at places in programs (uprobes).
const UPROBES: &str = "/sys/bus/event_source/devices/uprobe";
const WHAT: &str = "record a server's page accesses";

/// The way in which the program is attached to the places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// One link to all places (uprobe_multi).
    Link,
    /// A perf event for each place.
    Events,
}

/// Returns the way to attach the program on a kernel of this release, such as `6.1.0-18-amd64`; `forks` is whether each
/// session of the server is a process. Also returns whether the kernel counts maps as locked memory.
///
/// # Errors
/// For a kernel before 5.8, with its release.
fn way_of(release: &str, forks: bool) -> Result<(Way, bool), TraceError> {
    let mut numbers = release.split(|one: char| !one.is_ascii_digit()).map_while(|one| one.parse::<u32>().ok());
    let version = numbers.next().zip(numbers.next());
    let version = version.filter(|version| *version >= FIRST_KERNEL).ok_or_else(|| {
        let what = format!("page accesses of a server that runs need Linux 5.8 or later, and this kernel is {release}");
        TraceError::new(what, "uname -r", "use a newer kernel")
    })?;
    let first_with_link = if forks { FIRST_WITH_LINK } else { FIRST_WITH_BOUND_LINK };
    let way = if version >= first_with_link { Way::Link } else { Way::Events };
    Ok((way, version < FIRST_UNLOCKED))
}

/// Where the program finds a value (struct value).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Value {
    constant: u64,
    distances: [i32; 2],
    source: u8,
    steps: u8,
    bytes: u8,
    truth: u8,
    at: u8,
    unused: [u8; 3],
}

/// The values that the program reads at one place (struct site).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Values {
    server: i32,
    number: u8,
    count: u8,
    unused: [u8; 2],
    values: [Value; MOST_VALUES],
}

const MOST_VALUES: usize = 12;
/// A number in place of a register's, which means that the value is a constant.
const CONSTANT: u8 = 255;

// SAFETY: plain numbers without gaps, for which any bytes are valid.
unsafe impl aya::Pod for Values {}

/// Records lost, and stops of other processes, counted on one processor (struct counts of sites.bpf.c).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Counts {
    lost: u64,
    others: u64,
}

// SAFETY: plain numbers without gaps, for which any bytes are valid.
unsafe impl aya::Pod for Counts {}

/// Returns where the program finds a value; none if it cannot read it.
fn value_of(fetch: &Fetch, part: &Part) -> Option<Value> {
    let (bytes, truth) = (u8::try_from(part.read_bytes).ok()?, u8::from(part.kept == Kept::Truth));
    let at = u8::try_from(part.at).ok()?;
    let mut value = Value { bytes, truth, at, ..Value::default() };
    let (mut fetch, mut distances) = (fetch, Vec::new());
    while let Fetch::Memory(distance, inner) = fetch {
        distances.insert(0, *distance);
        fetch = inner;
    }
    (value.source, value.constant) = match fetch {
        Fetch::Constant(number) => (CONSTANT, *number),
        // The decoder needs one bit of the flags, so a record must keep their byte.
        Fetch::ZeroFlag if part.kept == Kept::Truth => return None,
        fetch => (fetch.place_in_registers()?, 0),
    };
    value.distances.get_mut(..distances.len())?.copy_from_slice(&distances);
    value.steps = distances.len() as u8;
    Some(value)
}

/// Returns the values of each site, or the reason why they cannot be read.
fn values_of(server: u32, settings: &Settings, parts: &[Part]) -> Result<Vec<Values>, String> {
    let mut all = Vec::new();
    for number in 0..settings.sites.len() {
        let fetches = fetch::fetches(settings, number, parts)?;
        let values = fetches.iter().zip(parts).map(|(fetch, part)| value_of(fetch, part));
        let found: Option<Vec<Value>> = values.collect();
        let found = found.filter(|found| found.len() <= MOST_VALUES && number < 256);
        let found = found.ok_or_else(|| format!("the values at {} cannot be read", settings.sites[number].at))?;
        let mut values = [Value::default(); MOST_VALUES];
        values[..found.len()].copy_from_slice(&found);
        let (server, number, count) = (server.cast_signed(), number as u8, found.len() as u8);
        all.push(Values { server, number, count, unused: [0; 2], values });
    }
    Ok(all)
}

/// Calls bpf(2); the call must return a descriptor.
fn bpf(command: bpf_cmd, asked: &bpf_attr) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads the fields of the command, whose addresses the caller keeps alive, and writes nothing.
    let made = unsafe { libc::syscall(libc::SYS_bpf, command as libc::c_long, asked, size_of::<bpf_attr>()) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(made as libc::c_int) })
}

fn nothing_asked() -> bpf_attr {
    // SAFETY: plain numbers, for which zeros are valid, and which mean that nothing is asked.
    unsafe { std::mem::zeroed() }
}

/// The loaded program, attached to no place yet, and its maps.
struct Loaded {
    program: OwnedFd,
    ring: RingBuf<MapData>,
    counts: PerCpuArray<MapData, Counts>,
    sites: HashMap<MapData, u64, Values>,
    strangers: HashMap<MapData, u32, u8>,
    way: Way,
}

/// Loads the program for this kernel, or for one of another `release`, with room for this number of sites at least.
/// `forks` is whether each session is a process.
fn loaded(release: Option<&str>, forks: bool, sites: usize) -> Result<Loaded, TraceError> {
    const NEEDED: &str = "5.8";
    let own = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let (way, locks) = way_of(release.unwrap_or(own.trim()), forks)?;
    let kernel = kernel()?;
    if !Path::new(UPROBES).exists() {
        let hint = "use a kernel with CONFIG_UPROBE_EVENTS, as distributions have; containers may hide /sys";
        return Err(TraceError::new("this kernel cannot watch programs", UPROBES, hint));
    }
    if locks {
        let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the kernel reads the two numbers. If it refuses them, it refuses the maps too, with a reason.
        unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const unlimited) };
    }
    let fault = |error: &dyn std::error::Error| refused(WHAT, NEEDED, causes(error));
    let mut object = aya_obj::Object::parse(PROGRAM).map_err(|error| fault(&error))?;
    object.relocate_btf(&kernel).map_err(|error| fault(&error))?;
    let mut maps = std::collections::HashMap::new();
    for (name, mut map) in std::mem::take(&mut object.maps) {
        if name == "sites" {
            map.set_max_entries(map.max_entries().max(u32::try_from(sites).unwrap_or(u32::MAX)));
        }
        let made = MapData::create(map.clone(), &name, None).map_err(|error| fault(&error))?;
        maps.insert(name, (map, made));
    }
    let sections = object.functions.keys().map(|(section, _)| *section).collect();
    let placed = maps.iter().map(|(name, (map, made))| (name.as_str(), made.fd().as_fd().as_raw_fd(), map));
    object.relocate_maps(placed, &sections).map_err(|error| fault(&error))?;
    object.relocate_calls(&sections).map_err(|error| fault(&error))?;
    let lacks = |name: &str| refused(WHAT, NEEDED, format!("it has no {name}"));
    let function = object.programs.get("site").and_then(|program| object.functions.get(&program.function_key()));
    let instructions = &function.ok_or_else(|| lacks("site"))?.instructions;
    let program = load(instructions, &object.license, way).map_err(|error| refused(WHAT, NEEDED, error))?;
    let mut map = |name: &str| maps.remove(name).map(|(_, made)| made).ok_or_else(|| lacks(name));
    Ok(Loaded {
        program,
        ring: RingBuf::try_from(Map::RingBuf(map("records")?)).map_err(|error| fault(&error))?,
        counts: PerCpuArray::try_from(Map::PerCpuArray(map("counted")?)).map_err(|error| fault(&error))?,
        sites: HashMap::try_from(Map::HashMap(map("sites")?)).map_err(|error| fault(&error))?,
        strangers: HashMap::try_from(Map::HashMap(map("strangers")?)).map_err(|error| fault(&error))?,
        way,
    })
}

/// Loads a program into the kernel; returns its descriptor.
fn load(instructions: &[bpf_insn], license: &CString, way: Way) -> io::Result<OwnedFd> {
    let mut asked = nothing_asked();
    // SAFETY: these are the fields of the command BPF_PROG_LOAD.
    let fields = unsafe { &mut asked.__bindgen_anon_3 };
    fields.prog_type = bpf_prog_type::BPF_PROG_TYPE_KPROBE as u32;
    fields.insns = instructions.as_ptr() as u64;
    fields.insn_cnt = instructions.len() as u32;
    fields.license = license.as_ptr() as u64;
    if way == Way::Link {
        fields.expected_attach_type = bpf_attach_type::BPF_TRACE_UPROBE_MULTI as u32;
    }
    bpf(bpf_cmd::BPF_PROG_LOAD, &asked)
}

/// The descriptors that bind the program to its places while they are open.
#[expect(dead_code, reason = "they only need to be closed")]
enum Bound {
    Link(OwnedFd),
    Events(Vec<Counter>),
}

/// Binds the program to all sites; only in one process, if `process` names it.
fn bound(program: &OwnedFd, way: Way, settings: &Settings, process: Option<u32>) -> io::Result<Bound> {
    let path = CString::new(settings.binary.as_os_str().as_bytes())?;
    let offsets: Vec<u64> = settings.sites.iter().map(|site| site.offset).collect();
    let semaphores: Vec<u64> = settings.sites.iter().map(|site| site.semaphore.unwrap_or(0)).collect();
    if way == Way::Events {
        let kind = std::fs::read_to_string(format!("{UPROBES}/type"))?;
        let kind = kind.trim().parse().map_err(io::Error::other)?;
        let event = |(offset, semaphore): (&u64, &u64)| {
            // The upper half of the configuration is the semaphore (format/ref_ctr_offset).
            let mut builder = Builder::new(Raw::new(semaphore << 32).config1(path.as_ptr() as u64).config2(*offset));
            builder.attrs_mut().type_ = kind;
            match process {
                Some(process) => builder.observe_pid(process.cast_signed()).any_cpu(),
                // The program runs on all processors, whichever the event has.
                None => builder.any_pid().one_cpu(0),
            };
            let mut event = builder.build()?;
            event.set_bpf(program.as_raw_fd())?;
            Ok(event)
        };
        return offsets.iter().zip(&semaphores).map(event).collect::<io::Result<_>>().map(Bound::Events);
    }
    let mut asked = nothing_asked();
    // SAFETY: these are the fields of the command BPF_LINK_CREATE.
    let fields = unsafe { &mut asked.link_create };
    fields.__bindgen_anon_1.prog_fd = program.as_raw_fd() as u32;
    fields.attach_type = bpf_attach_type::BPF_TRACE_UPROBE_MULTI as u32;
    // SAFETY: as above, for a link of this type.
    let places = unsafe { &mut fields.__bindgen_anon_3.uprobe_multi };
    places.path = path.as_ptr() as u64;
    places.offsets = offsets.as_ptr() as u64;
    places.ref_ctr_offsets = semaphores.as_ptr() as u64;
    places.cnt = offsets.len() as u32;
    places.pid = process.unwrap_or(0);
    bpf(bpf_cmd::BPF_LINK_CREATE, &asked).map(Bound::Link)
}

/// Checks whether this user and this kernel, or one of another `release`, can record a server; leaves nothing on.
///
/// # Errors
/// When they cannot, with what they lack.
pub fn check(release: Option<&str>) -> Result<(), TraceError> {
    loaded(release, false, 0).map(drop)
}

/// A server whose sites are recorded.
pub(super) struct Server<'a> {
    /// The process ID of the server's first process.
    pub pid: u32,
    /// Whether each session of the server is a process.
    pub forks: bool,
    /// The addresses of the sites, the same in all processes of the server.
    pub addresses: Vec<u64>,
    /// The release of another kernel, for tests: the reader then records as on that kernel.
    pub release: Option<&'a str>,
}

/// The attached program, and the reader of its records.
pub(super) struct SiteReader {
    /// The links or events that bind the program to the sites; none once the program is off.
    bound: Option<Bound>,
    ring: RingBuf<MapData>,
    counts: PerCpuArray<MapData, Counts>,
    strangers: HashMap<MapData, u32, u8>,
    decoder: Decoder,
    spool: Spool,
    records: u64,
    /// The number of records that could not be decoded, because they were malformed.
    unread: u64,
}

impl SiteReader {
    /// Switches the program on at all sites of a server.
    ///
    /// # Errors
    /// When the sites do not show the page of an access, the kernel refuses the program, or the spool cannot be made.
    /// Then the program is on at no site.
    pub fn open(server: &Server<'_>, settings: &Settings) -> Result<Self, TraceError> {
        let of_sites = |why: String| {
            let hint = "please report this with the server's version";
            TraceError::new(why, settings.binary.display().to_string(), hint)
        };
        let parts = fetch::parts(settings).map_err(of_sites)?;
        let decoder = Decoder::new(&fetch::format(&parts), settings)
            .ok_or_else(|| of_sites("the sites do not tell the page".to_owned()))?;
        let values = values_of(server.pid, settings, &parts).map_err(of_sites)?;
        let Loaded { program, ring, counts, mut sites, strangers, way } =
            loaded(server.release, server.forks, settings.sites.len())?;
        for (address, values) in server.addresses.iter().zip(values) {
            sites.insert(address, values, 0).map_err(|error| refused(WHAT, "5.8", causes(&error)))?;
        }
        let spool = Spool::create(&settings.spool)
            .map_err(|error| TraceError::io("the spool cannot be made", &settings.spool.path, &error))?;
        let process = (!server.forks).then_some(server.pid);
        let bound = bound(&program, way, settings, process).map_err(|error| refused(WHAT, "5.8", error))?;
        Ok(Self { bound: Some(bound), ring, counts, strangers, decoder, spool, records: 0, unread: 0 })
    }

    fn total(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        self.counts.get(&0, 0).map_or(0, |counts| counts.iter().map(of).sum())
    }
}

/// Adds the accesses of one record's bytes to a spool; returns none when the bytes are malformed.
fn accesses(decoder: &mut Decoder, record: &[u8], spool: &mut Spool) -> Option<()> {
    let record: &[u8; RECORD_BYTES] = record.try_into().ok()?;
    let number = |offset, size| Field { offset, size, signed: false }.number(record);
    let (t_ns, thread) = (number(0, 8)?, number(DECODED_BYTES, 4)?);
    let thread = decoder.thread(thread as u32);
    decoder.accesses(thread, t_ns, &record[..DECODED_BYTES], &mut |access| spool.push(&access))
}

impl Recorder for SiteReader {
    /// The reader sleeps this long. The ring buffer has ample room for the accesses of this time: its 32 MiB hold
    /// 700,000.
    const PAUSE: Duration = Duration::from_millis(10);

    fn drain(&mut self) -> bool {
        let Self { ring, decoder, spool, records, unread, .. } = self;
        for _ in 0..RECORDS_AT_ONCE {
            let Some(record) = ring.next() else { return true };
            *records += 1;
            let read = accesses(decoder, &record, spool);
            *unread += u64::from(read.is_none());
        }
        false
    }

    /// When the program is switched off, the kernel waits for threads that execute it, so the ring then has all their
    /// records.
    fn close(&mut self) {
        self.bound = None;
        while !self.drain() {}
    }

    fn seen(&self) -> Seen {
        let mut strangers: Vec<u32> = self.strangers.keys().filter_map(Result::ok).collect();
        strangers.sort_unstable();
        let (others, lost) = (self.total(|counts| counts.others), self.total(|counts| counts.lost));
        Seen { own: self.records, others, lost, strangers }
    }

    fn spool(&self) -> &Spool {
        &self.spool
    }

    fn finish(self) -> Told {
        let lost = self.total(|counts| counts.lost);
        let mut spooled = self.spool.finish_with(&self.decoder.carried);
        if self.unread > 0 {
            let unread = self.unread;
            spooled.problem.get_or_insert(format!("{unread} records of the page trace cannot be read"));
        }
        let reader_cpu_ns = DriverThread::current().cpu_ns().unwrap_or(0);
        let Decoder { relations, threads, .. } = self.decoder;
        Told { spooled, lost, relations, threads, reader_cpu_ns, ..Told::default() }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
