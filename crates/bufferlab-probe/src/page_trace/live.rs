//! Records the page accesses of a server that runs already, and of its children. No code of bufferlab enters these
//! processes.
//!
//! A probe stops each thread that reaches it. So the reader checks the rate of stops ten times a second, and ends the
//! trace when the rate is above its limit. If this process is killed, the kernel removes the probes, and nothing
//! remains.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};

use super::calls::{CallReader, CallSettings};
use super::frames::Buffers;
use super::recording::{Recorder, Seen, Settings, Site, Told, spawned};
use super::sites::{Server, SiteReader};
use crate::clock::monotonic_ns;
use crate::tracefs::{TraceError, is_dead, started_at};

/// Time between two checks of the rate of events.
const LOOK_NS: u64 = 100_000_000;
/// Time over which a rate is averaged, so that one burst between two checks does not end a trace by itself.
const RATE_SPAN_NS: u64 = 200_000_000;
/// The fraction of its limit in bytes at which a trace ends by itself, because a trace that exceeds the limit has no
/// file.
const MOST_USED: f64 = 0.9;

/// A running server, the events to record, and the highest rate of events.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveSettings {
    /// The server's first process, whose program is the binary.
    pub pid: u32,
    /// The highest number of events (stops or calls) a second at which the trace goes on. Events of other processes of
    /// the same binary count, too.
    pub events_per_s_max: f64,
    /// Whether each session is a process that the first one starts.
    #[serde(default)]
    pub forks: bool,
    /// The release of another kernel, such as `6.1.0`, for tests: they record as on that kernel.
    pub release: Option<String>,
    /// The events to record (accesses at the sites of a binary, or calls), and the file of records.
    pub trace: What,
}

/// The events that are recorded of a server.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// The accesses at places in the server's binary.
    Sites(Settings),
    /// The calls that read and write pages.
    Calls(CallSettings),
}

/// Whether a trace is on, or why it ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// The trace is on; in a result, it was ended on request.
    Attached,
    /// The trace ended because more events a second came than allowed: stops of processes, or calls.
    Rate,
    /// The trace ended because it had used most of its limit in bytes.
    Limit,
    /// The trace ended because the server ended.
    Gone,
}

/// The state of a trace at one moment.
#[derive(Clone, Debug, Serialize)]
struct Moment {
    state: State,
    /// Whether all probes are removed.
    detached: bool,
    /// The first moment at which all processors recorded.
    start_ns: u64,
    /// The moment of this state; at the trace's end the last at which all processors recorded.
    end_ns: u64,
    /// The number of events a second, stops of processes or calls, at the last check.
    stops_per_s: f64,
    /// Number of events of the server since the trace began: stops of its threads or, in a trace of calls, its calls.
    stops: u64,
    /// Number of stops of other processes of the same binary since the trace began.
    other_stops: u64,
    /// The process IDs of the other processes of the binary; 0 for a process outside of this PID namespace.
    other_processes: Vec<u32>,
}

/// The state of a trace at one moment, and the number of its accesses so far.
#[derive(Clone, Debug, Serialize)]
struct Now {
    #[serde(flatten)]
    moment: Moment,
    /// Number of accesses so far, by kind.
    events: BTreeMap<&'static str, u64>,
}

/// The result of a trace.
#[derive(Clone, Debug, Serialize)]
struct Ended {
    /// The recorder's result, with all accesses by kind.
    #[serde(flatten)]
    told: Told,
    #[serde(flatten)]
    end: Moment,
    /// How long it took to remove the probes, in nanoseconds.
    detach_ns: u64,
}

/// A trace of a server that runs. Dropping it ends it and leaves nothing behind.
pub struct LiveTrace {
    reader: Option<JoinHandle<(Told, u64)>>,
    stop: Arc<AtomicBool>,
    now: Arc<Mutex<Now>>,
    spool: std::path::PathBuf,
    /// The channel for lists of the server's buffers to the reader; none if no frames are followed.
    lists: Option<Sender<Buffers>>,
}

impl LiveTrace {
    /// Begins to record.
    ///
    /// # Errors
    /// When the process has ended, this kernel or user cannot trace it, its code at a site is not that of its file, or
    /// the spool cannot be made; nothing is on then.
    pub fn attach(settings: LiveSettings) -> Result<Self, TraceError> {
        let LiveSettings { pid, events_per_s_max, forks, release, trace } = settings;
        let started = started_at(pid);
        if started.is_none() {
            return Err(gone(pid));
        }
        let limits = (pid, started, events_per_s_max);
        match trace {
            What::Calls(settings) => {
                let spool = settings.spool.path.clone();
                let (reader, lists) = CallReader::open(pid, settings)?;
                let mut trace = Self::begin(limits, reader, &spool)?;
                trace.lists = Some(lists);
                Ok(trace)
            }
            What::Sites(settings) => {
                let addresses = untouched(pid, &settings)?;
                let server = Server { pid, forks, addresses, release: release.as_deref() };
                Self::begin(limits, SiteReader::open(&server, &settings)?, &settings.spool.path)
            }
        }
    }

    /// Starts the thread that moves a recorder's records into its spool, and returns the trace.
    fn begin<R: Recorder>(
        (pid, started, events_per_s_max): (u32, Option<u64>, f64),
        mut reader: R,
        spool: &Path,
    ) -> Result<Self, TraceError> {
        let start_ns = monotonic_ns();
        let stop = Arc::<AtomicBool>::default();
        let now = Arc::new(Mutex::new(now_of(&reader, State::Attached, start_ns, start_ns, 0.0)));
        let mut look = Look {
            pid,
            started,
            events_per_s_max,
            counts: vec![(start_ns, 0)],
            looked_ns: start_ns,
            start_ns,
            stop: Arc::clone(&stop),
            now: Arc::clone(&now),
        };
        let reader = spawned(spool, move || {
            reader.read_while(|reader, is_all| look.goes_on(reader, is_all));
            let end_ns = monotonic_ns();
            reader.close();
            let detach_ns = monotonic_ns() - end_ns;
            look.tell_end(&reader, end_ns);
            (reader.finish(), detach_ns)
        })?;
        Ok(Self { reader: Some(reader), stop, now, spool: spool.to_owned(), lists: None })
    }

    /// Passes the server's own list of its buffers to the reader. Has no effect if the trace does not follow frames, or
    /// has ended.
    pub fn name_frames(&self, buffers: Buffers) {
        if let Some(lists) = &self.lists {
            drop(lists.send(buffers));
        }
    }

    /// Returns the present state as a JSON value.
    #[must_use]
    pub fn told(&self) -> impl Serialize + use<> {
        lock(&self.now).clone()
    }

    /// Ends the trace and returns its result as a JSON value; none at a second call.
    #[must_use]
    pub fn finish(&mut self) -> Option<impl Serialize + use<>> {
        self.stop.store(true, Ordering::Release);
        let joined = self.reader.take()?.join();
        let (told, detach_ns) = joined.unwrap_or_else(|_| (Told::broken(&self.spool), 0));
        Some(Ended { told, end: lock(&self.now).moment.clone(), detach_ns })
    }
}

impl Drop for LiveTrace {
    fn drop(&mut self) {
        drop(self.finish());
    }
}

fn lock(now: &Mutex<Now>) -> std::sync::MutexGuard<'_, Now> {
    now.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_of(reader: &impl Recorder, state: State, start_ns: u64, end_ns: u64, stops_per_s: f64) -> Now {
    let Seen { own, others, strangers, .. } = reader.seen();
    let moment = Moment {
        state,
        detached: false,
        start_ns,
        end_ns,
        stops_per_s,
        stops: own,
        other_stops: others,
        other_processes: strangers,
    };
    Now { moment, events: reader.spool().events() }
}

/// The state of the reading thread's checks of the rate of events.
struct Look {
    pid: u32,
    started: Option<u64>,
    events_per_s_max: f64,
    /// For each check within the last [`RATE_SPAN_NS`], its moment and the number of events until then.
    counts: Vec<(u64, u64)>,
    looked_ns: u64,
    start_ns: u64,
    stop: Arc<AtomicBool>,
    now: Arc<Mutex<Now>>,
}

impl Look {
    /// Checks the rate of events, if a check is due; returns whether the trace goes on. `is_all` is whether all events
    /// until now are counted.
    fn goes_on(&mut self, reader: &impl Recorder, is_all: bool) -> bool {
        let now_ns = monotonic_ns();
        if self.stop.load(Ordering::Acquire) {
            return false;
        }
        if now_ns < self.looked_ns + LOOK_NS {
            return true;
        }
        self.looked_ns = now_ns;
        let seen = reader.seen();
        self.counts.push((now_ns, seen.own + seen.others + seen.lost));
        let stops_per_s = per_s(&self.counts);
        keep(&mut self.counts, is_all);
        let state = if stops_per_s > self.events_per_s_max {
            State::Rate
        } else if is_dead(self.pid, self.started) {
            State::Gone
        } else if reader.spool().used_ratio() > MOST_USED {
            State::Limit
        } else {
            State::Attached
        };
        *lock(&self.now) = now_of(reader, state, self.start_ns, now_ns, stops_per_s);
        state == State::Attached
    }

    /// Stores the trace's last state, with its probes detached.
    fn tell_end(&self, reader: &impl Recorder, end_ns: u64) {
        let mut now = lock(&self.now);
        *now = now_of(reader, now.moment.state, self.start_ns, end_ns, now.moment.stops_per_s);
        now.moment.detached = true;
    }
}

/// Returns the mean number of events a second over the last [`RATE_SPAN_NS`]. `counts` has moments in order, each with
/// the number of events until then; the first is the beginning of the trace.
///
/// A trace that is younger than the span is treated as just as long, so that its first events do not make a high rate.
fn per_s(counts: &[(u64, u64)]) -> f64 {
    let (Some(first), Some((now_ns, count))) = (counts.first(), counts.last()) else { return 0.0 };
    let in_span = |(at_ns, _): &&(u64, u64)| now_ns - at_ns >= RATE_SPAN_NS;
    let (since_ns, before) = counts.iter().rev().find(in_span).unwrap_or(first);
    (count - before) as f64 * 1e9 / (now_ns - since_ns).max(RATE_SPAN_NS) as f64
}

/// Keeps the counts that the next rate needs. Drops a last count that lacks events until its moment: they would seem to
/// belong to the next interval, and could exceed any rate of a server after a pause of this process.
fn keep(counts: &mut Vec<(u64, u64)>, is_all: bool) {
    if !is_all {
        counts.pop();
    } else if counts.len() > (RATE_SPAN_NS / LOOK_NS) as usize + 1 {
        counts.remove(0);
    }
}

fn gone(pid: u32) -> TraceError {
    let hint = "the server has ended, or runs on another host: look at it again";
    TraceError::new("this process has ended", format!("process {pid}"), hint)
}

/// Returns the addresses of the sites in a process, after checking that the process's code at the sites is that of its
/// binary's file.
///
/// # Errors
/// When the code differs, because another program has a probe or a patch there. When the file has another instruction
/// at a site than expected, or one that the kernel would have to single-step. When a file of the process cannot be
/// read.
fn untouched(pid: u32, settings: &Settings) -> Result<Vec<u64>, TraceError> {
    let unread = |path: &str| {
        let path = path.to_owned();
        move |error: std::io::Error| TraceError::io("the server's code cannot be read", Path::new(&path), &error)
    };
    let [exe, maps, mem] = ["exe", "maps", "mem"].map(|name| format!("/proc/{pid}/{name}"));
    // A dynamic loader may have started the program. The binary's path is then the one that the process sees.
    let program = match settings.binary.strip_prefix(format!("/proc/{pid}/root")) {
        Ok(inside) => Path::new("/").join(inside),
        Err(_) => fs::read_link(&exe).map_err(unread(&exe))?,
    };
    let program = program.display().to_string();
    let code = mapped_code(&fs::read_to_string(&maps).map_err(unread(&maps))?, &program);
    let file = File::open(&settings.binary).map_err(unread(&exe))?;
    let memory = File::open(&mem).map_err(unread(&mem))?;
    let address_of = |site: &Site| {
        let (at, mut both) = (format!("{} ({:#x})", site.at, site.offset), [[0; 2]; 2]);
        let place = code.iter().find(|code| (code.offset..code.offset + code.bytes).contains(&site.offset));
        let address = place.map(|code| code.address + (site.offset - code.offset)).filter(|address| {
            file.read_exact_at(&mut both[0], site.offset).is_ok()
                && memory.read_exact_at(&mut both[1], *address).is_ok()
                && both[0] == both[1]
        });
        let place = format!("process {pid}, {program}");
        match address {
            Some(address) if both[0][0] == site.byte && is_emulated(both[0]) => Ok(address),
            Some(_) => {
                let hint = "please report this with the server's version";
                Err(TraceError::new(format!("the instruction at {at} is not the expected one"), place, hint))
            }
            None => {
                let hint = "another program traces or patches this server: end that trace first";
                let what = format!("the running server has other code at {at} than its file");
                Err(TraceError::new(what, place, hint))
            }
        }
    };
    settings.sites.iter().map(address_of).collect()
}

/// Returns true when the kernel emulates an instruction: a push, a near jump, a conditional jump, a call or a one-byte
/// nop.
///
/// The kernel single-steps other instructions, which costs twenty times as much on a virtual machine. See
/// `branch_setup_xol_ops` and `push_setup_xol_ops` of arch/x86/kernel/uprobes.c.
fn is_emulated(instruction: [u8; 2]) -> bool {
    matches!(
        instruction,
        [0x50..=0x57 | 0x70..=0x7f | 0x90 | 0xe8 | 0xe9 | 0xeb, _] | [0x0f, 0x80..=0x8f] | [0x41, 0x50..=0x57]
    )
}

/// A part of a binary's file that a process has mapped as executable code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub address: u64,
    pub bytes: u64,
    pub offset: u64,
}

/// Returns where a program's code is, from the text of /proc/PID/maps (proc_pid_maps(5)).
pub(super) fn mapped_code(maps: &str, program: &str) -> Vec<Code> {
    let code = |line: &str| {
        let mut fields = line.splitn(6, ' ');
        let (first, end) = fields.next()?.split_once('-')?;
        let (rights, offset) = (fields.next()?, fields.next()?);
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (address, end, offset) = (number(first)?, number(end)?, number(offset)?);
        let is_its = rights.contains('x') && fields.nth(2)?.trim_start() == program;
        is_its.then_some(Code { address, bytes: end.checked_sub(address)?, offset })
    };
    maps.lines().filter_map(code).collect()
}

#[cfg(test)]
mod tests {
    use bufferlab_model::trace::Kind;
    use proptest::prelude::*;

    use super::super::recording::Site;
    use super::super::recording::SpoolAsked;
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns the first of the checks `looks_ms` at which a trace ends, in milliseconds. `events_at` has the number of
    /// events until a moment.
    fn ends_at_ms(per_s_max: f64, looks_ms: &[u64], events_at: impl Fn(u64) -> u64) -> Option<u64> {
        let mut counts = vec![(0, 0)];
        looks_ms.iter().copied().find(|at_ms| {
            counts.push((at_ms * MS, events_at(*at_ms)));
            per_s(&counts) > per_s_max
        })
    }

    #[test]
    fn a_rate_is_that_of_the_last_span_and_a_young_trace_is_taken_as_old() {
        assert_eq!(per_s(&[]), 0.0);
        assert_eq!(per_s(&[(5, 0)]), 0.0);
        assert_eq!(per_s(&[(0, 0), (100 * MS, 1000)]), 5_000.0);
        assert_eq!(per_s(&[(0, 0), (100 * MS, 1000), (200 * MS, 2000)]), 10_000.0);
        assert_eq!(per_s(&[(0, 0), (100 * MS, 1000), (200 * MS, 2000), (300 * MS, 2000)]), 5_000.0);
        // A check that came late: the rate covers all the time since the previous check.
        assert_eq!(per_s(&[(0, 0), (100 * MS, 1000), (1100 * MS, 2000)]), 1_000.0);
    }

    #[test]
    fn a_jump_above_the_limit_ends_the_trace_within_three_looks_and_a_burst_does_not() {
        let looks: Vec<u64> = (1..50).map(|look| 100 * look).collect();
        // There are 9,000 events a second until 1.03 s, and 11,000 a second from then on.
        let jump = |at_ms: u64| 9 * at_ms + 2 * at_ms.saturating_sub(1030);
        assert_eq!(ends_at_ms(10_000.0, &looks, jump), Some(1200));
        let high = |at_ms: u64| 100 * at_ms.saturating_sub(1030);
        assert_eq!(ends_at_ms(10_000.0, &looks, high), Some(1100));
        let burst = |at_ms: u64| 5 * at_ms + if at_ms > 1030 { 900 } else { 0 };
        assert_eq!(ends_at_ms(10_000.0, &looks, burst), None);
    }

    #[test]
    fn a_reader_that_was_held_takes_what_gathered_meanwhile_for_no_rate() {
        // No event occurred until 10 s ago. Since then 20,000 events have occurred, and the reader has moved some of
        // them.
        let rate_of = |moved: &[(u64, bool)]| {
            let now_ns = monotonic_ns();
            let mut counts = vec![(now_ns - 10_000 * MS, 0)];
            let mut last = 0.0;
            for (place, (events, is_all)) in moved.iter().enumerate() {
                counts.push((now_ns + place as u64 * 100 * MS, *events));
                last = per_s(&counts);
                keep(&mut counts, *is_all);
            }
            last
        };
        assert!(rate_of(&[(4_096, false), (12_000, false), (20_000, true), (20_000, true)]) < 2_100.0);
        assert!(rate_of(&[(4_096, true), (12_000, true), (20_000, true)]) > 50_000.0, "else it would be one");
    }

    proptest! {
        #[test]
        fn a_steady_rate_is_told_and_ends_the_trace_within_four_looks_if_it_is_too_high(
            rate in 100_u64..100_000, limit in 100_u64..100_000, jitter_ms in prop::collection::vec(100_u64..115, 20),
        ) {
            let looks: Vec<u64> =
                jitter_ms.iter().scan(0, |at_ms, pause| { *at_ms += pause; Some(*at_ms) }).collect();
            let ended = ends_at_ms(limit as f64, &looks, |at_ms| rate * at_ms / 1000);
            // Allow one event more or less at each end of the span.
            if rate + 20 < limit {
                prop_assert_eq!(ended, None);
            }
            if rate > limit + 20 {
                prop_assert!(ended.is_some_and(|at_ms| at_ms <= 230), "{:?}", ended);
            }
        }
    }

    #[test]
    fn code_is_where_the_maps_have_the_program_itself_with_the_right_to_run_it() {
        let maps = "00400000-00401000 r--p 00000000 08:01 7    /opt/my server\n\
            00401000-00501000 r-xp 00001000 08:01 7    /opt/my server\n\
            7f0000000000-7f0000001000 r-xp 00001000 08:01 9    /lib/libc.so.6\n\
            7f0000002000-7f0000003000 rw-p 00000000 00:00 0 \n\
            nonsense\n";
        let code = Code { address: 0x40_1000, bytes: 0x10_0000, offset: 0x1000 };
        assert_eq!(mapped_code(maps, "/opt/my server"), [code]);
        assert_eq!(mapped_code(maps, "/opt/my"), []);
    }

    fn settings(pid: u32, offset: u64) -> Settings {
        let site = Site {
            at: "a_function".into(),
            kinds: vec![Kind::Get],
            kinds_if_flag: None,
            offset,
            byte: 0x55,
            semaphore: None,
            fetch: Vec::new(),
        };
        let (binary, spool) = (format!("/proc/{pid}/exe").into(), SpoolAsked::default());
        let (fields, modes_if_in_pool) = (Vec::new(), Vec::new());
        Settings { binary, spool, fields, modes_if_in_pool, sites: vec![site] }
    }

    #[test]
    fn a_process_has_the_code_of_its_file_where_the_file_is_mapped_and_only_there() {
        let pid = std::process::id();
        let (offset, _) = super::super::executable_segments(Path::new("/proc/self/exe")).expect("our own")[0];
        let byte = |at: u64| {
            let mut byte = [0; 1];
            File::open("/proc/self/exe").and_then(|file| file.read_exact_at(&mut byte, at)).expect("our own");
            byte[0]
        };
        // The first instruction there that is a push or a nop.
        let there = (offset..).find(|at| is_emulated([byte(*at), byte(at + 1)])).expect("there is one");
        let at = |offset, byte| {
            let mut settings = settings(pid, offset);
            settings.sites[0].byte = byte;
            untouched(pid, &settings)
        };
        assert_eq!(at(there, byte(there)).expect("nobody has patched this test").len(), 1);
        let refused = at(0, 0x55).expect_err("the head of the file is no code");
        assert!(refused.what.contains("other code at a_function"), "{refused}");
        let refused = at(there, byte(there) ^ 1).expect_err("another instruction");
        assert!(refused.what.contains("not the expected one"), "{refused}");
    }

    #[test]
    fn an_instruction_that_the_kernel_would_single_step_is_not_emulated() {
        // These are the first bytes of `push %rbp`, `push %r14`, `call`, `addq` and `mov`.
        let told = [[0x55, 0x48], [0x41, 0x56], [0xe8, 0], [0x48, 0x83], [0x48, 0x89]].map(is_emulated);
        assert_eq!(told, [true, true, true, false, false]);
    }

    #[test]
    fn a_process_that_has_ended_is_told_by_name() {
        let mut child = std::process::Command::new("true").spawn().expect("a child");
        let pid = child.id();
        child.wait().expect("it ends");
        let trace = What::Sites(settings(pid, 0));
        let settings = LiveSettings { pid, events_per_s_max: 1.0, forks: false, release: None, trace };
        let refused = LiveTrace::attach(settings).err().expect("it has ended");
        assert!(refused.to_string().contains(&format!("process {pid}")), "{refused}");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_frames_of_a_pool_are_told_by_the_calls_that_fill_them_and_nothing_is_left() {
        use super::super::calls;
        use super::super::frames::Pool;
        if let Err(why) = calls::check() {
            return println!("NOT TESTED: {why}");
        }
        const PAGE: usize = 4096;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pages");
        std::fs::write(&path, vec![7; 8 * PAGE]).expect("a file");
        let file = File::open(&path).expect("it is there");
        let mut pool = vec![0_u8; 9 * PAGE];
        let first = pool.as_ptr().align_offset(PAGE);
        let begin = pool.as_ptr() as u64 + first as u64;
        let pool_of = Pool {
            page_size_bytes: PAGE as u64,
            regions: vec![(begin, begin + 8 * PAGE as u64)],
            ring_reads: 0,
            sweep_reads: 0,
            is_shared: false,
        };
        let spool = SpoolAsked { path: folder.path().join("spool"), limit_bytes: 1 << 20 };
        let trace = What::Calls(CallSettings { pool: pool_of, spool });
        let mut trace = LiveTrace::attach(LiveSettings {
            pid: std::process::id(),
            events_per_s_max: 1e9,
            forks: false,
            release: None,
            trace,
        })
        .expect("on");
        let mut read = |page: usize, frame: usize| {
            let place = first + frame * PAGE;
            file.read_exact_at(&mut pool[place..place + PAGE], (page * PAGE) as u64).expect("it is read");
        };
        for (page, frame) in [(0, 0), (1, 1), (2, 0), (0, 1)] {
            read(page, frame);
        }
        let told: serde_json::Value =
            serde_json::from_str(&serde_json::to_string(&trace.finish()).expect("JSON")).expect("JSON");
        let frames = &told["frames"];
        assert_eq!((frames["read_pages"].as_u64(), frames["unnamed_pages"].as_u64()), (Some(4), Some(2)), "{told}");
        assert_eq!((told["events"]["evict"].as_u64(), told["lost"].as_u64()), (Some(2), Some(0)));
        assert_eq!(told["files"].as_array().map(Vec::len), Some(1));
        let records = std::fs::read(folder.path().join("spool")).expect("a spool");
        let kinds_and_pages: Vec<_> =
            records.chunks(24).map(|one| (one[20], u32::from_le_bytes(one[12..16].try_into().unwrap()))).collect();
        assert_eq!(kinds_and_pages, [(3, 0), (3, 1), (5, 0), (3, 2), (5, 1), (3, 0)]);
        // After the trace's end nothing is recorded.
        read(3, 2);
        assert!(trace.finish().is_none());
    }

    /// The releases of two kernels: of this one, which is none here, and of one that records in the other way.
    #[cfg(target_arch = "x86_64")]
    const RELEASES: [Option<&str>; 2] = [None, Some("5.15.0-91-generic")];

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_trace_of_a_process_that_runs_tells_its_calls_and_leaves_nothing_however_it_ends() {
        use super::super::test_program::{Probed, call, is_probed};
        let Some(probed) = Probed::new() else { return };
        for (number, (release, forks)) in RELEASES.into_iter().flat_map(|one| [(one, false), (one, true)]).enumerate() {
            let attach = |file: &str, events_per_s_max| {
                let (pid, trace) = (std::process::id(), What::Sites(probed.settings(&format!("{file}-{number}"))));
                let release = release.map(str::to_owned);
                LiveTrace::attach(LiveSettings { pid, events_per_s_max, forks, release, trace })
                    .expect("it can be traced")
            };
            let ended = |trace: &mut LiveTrace| serde_json::to_string(&trace.finish()).expect("JSON");
            let mut trace = attach("asked", 1e9);
            call(1000);
            assert!(is_probed());
            let text = ended(&mut trace);
            assert!(!is_probed() && trace.finish().is_none());
            assert_eq!(text.matches("\"events\":").count(), 1, "{text}");
            let told: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            let counts = ["stops", "other_stops", "lost"].map(|name| told[name].as_u64());
            assert_eq!((counts, told["events"]["get"].as_u64()), ([Some(1000), Some(0), Some(0)], Some(1000)));
            assert_eq!((told["state"].as_str(), told["detached"].as_bool()), (Some("attached"), Some(true)));

            drop(attach("dropped", 1e9));
            assert!(!is_probed());

            let mut trace = attach("rate", 100.0);
            while is_probed() {
                call(100);
            }
            assert!(ended(&mut trace).contains("\"state\":\"rate\""));
        }
    }
}
