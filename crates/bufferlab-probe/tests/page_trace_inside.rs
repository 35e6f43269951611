//! Tests a program that records itself: threads, forks, full rings, readers that stop or die, and refusals.
//!
//! The traced programs ("victims") are copies of this test program's process: it is started again with the name of one
//! test, and with a task in the environment. Forks are made by direct calls of the C library.

#![cfg(target_arch = "x86_64")]

use std::arch::global_asm;
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bufferlab_probe::page_trace::inside::{Inside, Preload};
use bufferlab_probe::page_trace::{Settings, Site, SpoolAsked, Told};
use serde_json::Value;

#[path = "page_trace_inside/odd_programs.rs"]
mod odd_programs;
#[path = "page_trace_inside/reader_cost.rs"]
mod reader_cost;

const TASK: &str = "BUFFERLAB_TEST_TASK";
const PLACE: &str = "BUFFERLAB_TEST_PLACE";

// The function of the victim that touches a page: space in edi, page in esi.
global_asm!(
    ".pushsection .text",
    ".balign 16",
    "bufferlab_test_touch:",
    "push rbp",
    "mov rbp, rsp",
    "lea eax, [rdi + rsi]",
    "pop rbp",
    "ret",
    ".balign 16",
    ".popsection",
);

unsafe extern "C" {
    fn bufferlab_test_touch(space: u32, page: u32) -> u32;
}

fn touch(space: u32, page: u32) {
    // SAFETY: the function adds two numbers.
    assert_eq!(unsafe { bufferlab_test_touch(space, page) }, space + page);
}

/// Returns where the function is in the program's file.
fn offset() -> u64 {
    let address = bufferlab_test_touch as *const () as u64;
    let maps = fs::read_to_string("/proc/self/maps").expect("our own");
    let hex = |text: &str| u64::from_str_radix(text, 16).expect("a number");
    maps.lines()
        .find_map(|line| {
            let mut words = line.split_whitespace();
            let (first, end) = words.next()?.split_once('-')?;
            let offset = hex(words.nth(1)?);
            (hex(first)..hex(end)).contains(&address).then(|| address - hex(first) + offset)
        })
        .expect("the function is somewhere")
}

/// A trace of this program, or of a copy of its file.
struct Trace {
    folder: tempfile::TempDir,
    recorder: Inside,
    preload: Preload,
}

fn settings(binary: &Path, spool: &Path) -> Settings {
    let site = Site {
        at: "touch".into(),
        kinds: vec![bufferlab_model::trace::Kind::Get],
        kinds_if_flag: None,
        offset: offset(),
        byte: 0x55,
        semaphore: None,
        fetch: vec!["%di".into(), "%si".into()],
    };
    let fields = vec!["space:u32".into(), "page:u32".into()];
    let (binary, spool) = (binary.to_owned(), SpoolAsked { path: spool.to_owned(), limit_bytes: 1 << 31 });
    Settings { binary, spool, fields, modes_if_in_pool: vec![], sites: vec![site] }
}

fn own_program() -> PathBuf {
    env::current_exe().expect("a program")
}

impl Trace {
    fn new() -> Self {
        Self::of(&own_program())
    }

    fn of(program: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut recorder = Inside::arm(settings(program, &folder.path().join("spool"))).expect("it can be recorded");
        let preload = recorder.begin(folder.path()).expect("the folder serves");
        Self { folder, recorder, preload }
    }

    /// Returns a command that runs a task, recorded.
    fn command(&self, program: &Path, task: &str) -> Command {
        let mut command = self.preloaded(Command::new(program));
        command.args(["victim", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(TASK, task).env(PLACE, self.folder.path());
        command
    }

    /// Prepares a command so that its program is recorded, if it is the program of the plan.
    fn preloaded(&self, mut command: Command) -> Command {
        command.envs(self.preload.environment.iter().map(|(name, value)| (name, value)));
        let descriptor = self.preload.descriptor;
        // SAFETY: between fork and exec only a flag of a descriptor changes.
        unsafe {
            command.pre_exec(move || {
                libc::fcntl(descriptor, libc::F_SETFD, 0);
                Ok(())
            });
        }
        command
    }

    fn start(&self, task: &str) -> Child {
        self.command(&own_program(), task).stdout(Stdio::null()).spawn().expect("it starts")
    }

    fn run(&self, task: &str) {
        let ended = self.start(task).wait().expect("our child");
        assert!(ended.success(), "{task}: {ended}");
    }

    /// Ends the trace; returns its answer, and time, space, page and thread of each record.
    fn end(self) -> (Told, Vec<(u64, u32, u32, u32)>) {
        let told = self.recorder.finish();
        assert_eq!(told.steps_back, 0, "the counters of this host's processors disagree");
        let bytes = fs::read(&told.spooled.spool).expect("a spool");
        let word = |record: &[u8], at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("four"));
        let time = |record: &[u8]| u64::from_le_bytes(record[..8].try_into().expect("eight"));
        let read = |record: &[u8]| (time(record), word(record, 8), word(record, 12), word(record, 16));
        (told, bytes.chunks_exact(24).map(read).collect())
    }
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The work of a victim. Every call of `touch` must be a record.
#[test]
fn victim() {
    let (Ok(task), Ok(place)) = (env::var(TASK), env::var(PLACE)) else { return };
    let place = PathBuf::from(place);
    match task.as_str() {
        "threads" => each_thread(8, |number| (0..20_000).for_each(|page| touch(number, page))),
        "short threads" => {
            for number in 0..2_500 {
                each_thread(1, |_| (0..3).for_each(|page| touch(number, page)));
            }
        }
        "many threads" => {
            let all = std::sync::Barrier::new(1_000);
            each_thread(1_000, |number| {
                touch(number, 0);
                all.wait();
                touch(number, 1);
            });
        }
        "forks" => forks(300),
        "flood" => (0..3_000_000).for_each(|page| touch(1, page)),
        "long" => {
            for page in 0..u32::MAX {
                touch(1, page);
                if page == 1000 {
                    fs::write(place.join("begun"), "").expect("a file");
                }
                if page % 4096 == 0 && place.join("enough").exists() {
                    fs::write(place.join("pages"), (page + 1).to_string()).expect("a file");
                    break;
                }
            }
        }
        "environment" => {
            let ours = ["LD_PRELOAD", "BUFFERLAB_INSIDE"].map(|name| env::var(name).unwrap_or_default());
            touch(0, 0);
            let child = Command::new("/bin/sh").args(["-c", "echo \"$LD_PRELOAD|$BUFFERLAB_INSIDE\""]).output();
            let child = String::from_utf8(child.expect("a shell").stdout).expect("text");
            let open = fs::read_dir("/proc/self/fd").expect("ours").flatten();
            let shared = open.filter(|one| {
                fs::read_link(one.path()).is_ok_and(|to| to.to_string_lossy().contains("bufferlab-page-trace"))
            });
            let told = serde_json::json!({ "own": ours, "child": child.trim(), "open": shared.count() });
            fs::write(place.join("told"), told.to_string()).expect("a file");
        }
        "signals" => {
            let signals = signals_every(20, || (0..1_000_000).for_each(|page| touch(1, page)));
            fs::write(place.join("told"), signals.to_string()).expect("a file");
        }
        "host" => host(&place),
        "clients" => reader_cost::clients(),
        other => odd_programs::task(other),
    }
}

fn each_thread(threads: u32, work: impl Fn(u32) + Sync) {
    std::thread::scope(|scope| {
        let work = &work;
        for number in 0..threads {
            std::thread::Builder::new()
                .stack_size(64 << 10)
                .spawn_scoped(scope, move || work(number))
                .expect("a thread");
        }
    });
}

/// Makes children of a program that has touched pages itself. Every second child ends without freeing its slot.
fn forks(children: u32) {
    touch(0, 0);
    for number in 1..=children {
        // SAFETY: the child calls nothing that another thread of the parent could have locked.
        let child = unsafe { libc::fork() };
        if child == 0 {
            (0..50).for_each(|page| touch(number, page));
            // SAFETY: the child does not call anything that another thread could have locked; `exit` runs the library's
            // handlers of the end.
            unsafe { if number % 2 == 0 { libc::_exit(0) } else { libc::exit(0) } }
        }
        let mut status = 0;
        // SAFETY: the child is ours.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        touch(0, number);
    }
}

static SIGNALS: AtomicU64 = AtomicU64::new(0);

/// A handler that overwrites as much of the stack as it may.
extern "C" fn at_signal(_: libc::c_int) {
    std::hint::black_box([0xa5_u8; 2048]);
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// Calls `work` while SIGALRM comes at intervals of `microseconds`, and SIGUSR1 as fast as a thread can send it.
/// Returns the number of signals.
fn signals_every(microseconds: libc::suseconds_t, work: impl Fn()) -> u64 {
    let every = [microseconds, 0].map(|tv_usec| libc::timeval { tv_sec: 0, tv_usec });
    let [on, off] = every.map(|every| libc::itimerval { it_interval: every, it_value: every });
    // SAFETY: zeros are a set of signals without any, and system calls that a signal interrupts begin anew.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = at_signal as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        for signal in [libc::SIGALRM, libc::SIGUSR1] {
            assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
        }
        assert_eq!(libc::setitimer(libc::ITIMER_REAL, &raw const on, std::ptr::null_mut()), 0);
    }
    let is_over = AtomicBool::new(false);
    // SAFETY: the call only returns this thread's number.
    let worker = unsafe { libc::pthread_self() };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // SAFETY: the scope ends before that thread does.
                unsafe { libc::pthread_kill(worker, libc::SIGUSR1) };
            }
        });
        work();
        is_over.store(true, Ordering::Relaxed);
    });
    // SAFETY: zeros switch the timer off.
    assert_eq!(unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const off, std::ptr::null_mut()) }, 0);
    SIGNALS.load(Ordering::Relaxed)
}

/// Records a victim in another process than the test's, so that the test can stop and kill it.
fn host(place: &Path) {
    let trace = Trace::new();
    fs::write(place.join("victims-folder"), trace.folder.path().to_str().expect("text")).expect("a file");
    let mut victim = trace.start("long");
    victim.wait().expect("our child");
    let calls = fs::read_to_string(trace.folder.path().join("pages")).expect("the victim ended");
    let calls: u64 = calls.parse().expect("a number");
    let (told, records) = trace.end();
    let told = serde_json::json!({
        "calls": calls, "lost": told.lost, "records": records.len(), "problem": told.spooled.problem, "waits": told.waits,
    });
    fs::write(place.join("told"), told.to_string()).expect("a file");
}

struct Host {
    place: tempfile::TempDir,
    process: Child,
    victims: PathBuf,
}

impl Host {
    fn start() -> Self {
        let place = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(own_program());
        command.args(["victim", "--exact", "--nocapture"]).env(TASK, "host").env(PLACE, place.path());
        let process = command.stdout(Stdio::null()).spawn().expect("it starts");
        let note = place.path().join("victims-folder");
        wait_for("the host did not begin", || fs::read_to_string(&note).is_ok_and(|text| !text.is_empty()));
        let victims = PathBuf::from(fs::read_to_string(&note).expect("written"));
        wait_for("the victim did not begin", || victims.join("begun").exists());
        Self { place, process, victims }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the process is ours.
        assert_eq!(unsafe { libc::kill(self.process.id().cast_signed(), signal) }, 0);
    }

    /// Lets the victim end; returns its number of calls.
    fn end_victim(&self) -> u64 {
        fs::write(self.victims.join("enough"), "").expect("a file");
        let pages = self.victims.join("pages");
        wait_for("the victim did not end", || fs::read_to_string(&pages).is_ok_and(|text| !text.is_empty()));
        fs::read_to_string(pages).expect("written").parse().expect("a number")
    }
}

#[test]
fn every_call_of_every_thread_is_recorded_once_and_in_order() {
    let trace = Trace::new();
    trace.run("threads");
    trace.recorder.require_on().expect("it recorded");
    let (told, records) = trace.end();
    assert_eq!((told.lost, told.spooled.problem), (0, None));
    assert_eq!(records.len(), 8 * 20_000);
    assert!(records.is_sorted_by_key(|record| record.0));
    for number in 0..8 {
        let of_thread: Vec<_> = records.iter().filter(|record| record.1 == number).collect();
        assert!(of_thread.iter().map(|record| record.2).eq(0..20_000));
        assert!(of_thread.iter().all(|record| record.3 == of_thread[0].3), "one thread has one number");
    }
    assert_eq!(told.threads.len(), 8);
    assert!(told.set_up_ns > 0);
}

#[test]
fn more_threads_than_rings_may_come_one_after_another() {
    let trace = Trace::new();
    trace.run("short threads");
    let (told, records) = trace.end();
    assert_eq!((told.lost, records.len()), (0, 3 * 2_500));
}

#[test]
fn a_thousand_threads_at_once_have_a_ring_each() {
    let trace = Trace::new();
    trace.run("many threads");
    let (told, records) = trace.end();
    assert_eq!((told.lost, records.len()), (0, 2_000));
}

#[test]
fn a_forked_session_has_a_ring_of_its_own_however_it_ends() {
    let trace = Trace::new();
    trace.run("forks");
    let (told, mut records) = trace.end();
    assert_eq!((told.lost, told.spooled.problem), (0, None));
    assert_eq!(told.threads.len(), 301);
    records.sort_by_key(|record| (record.1, record.2));
    let wanted =
        (0..=300).map(|page| (0, page)).chain((1..=300).flat_map(|child| (0..50).map(move |page| (child, page))));
    assert!(records.iter().map(|record| (record.1, record.2)).eq(wanted));
}

#[test]
fn a_program_faster_than_its_reader_waits_and_loses_nothing() {
    let trace = Trace::new();
    trace.run("flood");
    let (told, records) = trace.end();
    assert_eq!((told.lost, records.len()), (0, 3_000_000));
    assert!(records.iter().map(|record| record.2).eq(0..3_000_000));
    assert!(told.waits > 0 && told.wait_ns > 0);
    eprintln!("the reader took {} ns a record", told.reader_cpu_ns / 3_000_000);
}

#[test]
fn a_program_under_a_storm_of_signals_is_recorded_call_for_call() {
    let trace = Trace::new();
    trace.run("signals");
    let signals = fs::read_to_string(trace.folder.path().join("told")).expect("the victim ended");
    let signals: u64 = signals.parse().expect("a number");
    let (told, records) = trace.end();
    assert_eq!((told.lost, told.spooled.problem, records.len()), (0, None, 1_000_000));
    assert!(records.iter().map(|record| (record.1, record.2)).eq((0..1_000_000).map(|page| (1, page))));
    assert!(signals > 1_000, "{signals} signals");
    eprintln!("{signals} signals came");
}

#[test]
fn the_programs_children_see_nothing_of_it() {
    let trace = Trace::new();
    let ended = trace.command(&own_program(), "environment").stdout(Stdio::null()).status().expect("it runs");
    assert!(ended.success());
    let told: Value =
        serde_json::from_str(&fs::read_to_string(trace.folder.path().join("told")).expect("told")).expect("JSON");
    assert_eq!(told, serde_json::json!({ "own": ["", ""], "child": "|", "open": 0 }));
    assert_eq!(trace.end().1.len(), 1);
}

#[test]
fn other_libraries_to_preload_stay() {
    let trace = Trace::new();
    let ours = &trace.preload.environment.iter().find(|(name, _)| name == "LD_PRELOAD").expect("named").1;
    let other = trace.folder.path().join("other.so");
    // The loader reports that the other library does not exist, and goes on.
    let mut command = trace.command(&own_program(), "environment");
    command.env("LD_PRELOAD", format!("{ours}:{}", other.display())).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().expect("it runs").success());
    let told: Value =
        serde_json::from_str(&fs::read_to_string(trace.folder.path().join("told")).expect("told")).expect("JSON");
    assert_eq!(told["own"], serde_json::json!([other.to_str().expect("text"), ""]));
}

#[test]
fn a_program_with_one_other_byte_is_left_alone() {
    let trace = Trace::new();
    let copy = trace.folder.path().join("copy");
    let mut bytes = fs::read(own_program()).expect("ours");
    // After the function's return there is padding, which is never executed.
    let at = offset() as usize + 9;
    bytes[at] ^= 1;
    fs::write(&copy, bytes).expect("a file");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("ours");
    assert!(trace.command(&copy, "threads").stdout(Stdio::null()).status().expect("it runs").success());
    let refused = trace.recorder.require_on().expect_err("it is another program");
    assert!(refused.what.contains("its code is not that of its file"), "{refused}");
    assert_eq!(trace.end().1.len(), 0);
}

#[test]
fn a_program_that_may_not_change_its_code_goes_on_unrecorded() {
    const PR_SET_MDWE: i32 = 65;
    const REFUSE_EXEC_GAIN: usize = 1;
    let trace = Trace::new();
    let mut command = trace.command(&own_program(), "threads");
    // SAFETY: between fork and exec only the process's own rights change.
    unsafe {
        command.pre_exec(|| match libc::prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    match command.stdout(Stdio::null()).status() {
        Ok(ended) => assert!(ended.success()),
        Err(error) => return eprintln!("NOT TESTED: this kernel has no PR_SET_MDWE: {error}"),
    }
    let refused = trace.recorder.require_on().expect_err("it may not");
    assert!(refused.what.contains("lets no program change its own code: Permission denied"), "{refused}");
    assert_eq!(trace.end().1.len(), 0);
}

#[test]
fn a_program_that_was_never_started_is_not_recorded() {
    let trace = Trace::new();
    // Another program, which does not execute the traced one.
    let mut other = trace.command(Path::new("/bin/true"), "threads");
    assert!(other.status().expect("it runs").success());
    let refused = trace.recorder.require_on().expect_err("nobody recorded");
    assert!(refused.what.contains("the loader did not take the recorder into it"), "{refused}");
}

#[test]
fn all_that_a_killed_program_wrote_is_told() {
    for round in 0..20 {
        let trace = Trace::new();
        let mut victim = trace.start("long");
        wait_for("the victim did not begin", || trace.folder.path().join("begun").exists());
        std::thread::sleep(Duration::from_micros(700 * round));
        victim.kill().expect("it lives");
        victim.wait().expect("our child");
        let (told, records) = trace.end();
        assert_eq!((told.lost, told.spooled.problem), (0, None));
        assert!(records.len() > 1000);
        assert!(records.iter().map(|record| record.2).eq(0..records.len() as u32));
    }
}

#[test]
fn a_folder_from_which_nobody_may_run_code_leaves_a_program_unrecorded() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let spool = folder.path().join("spool");
    let mut recorder = Inside::arm(settings(&own_program(), &spool)).expect("it can be recorded");
    let preload = recorder.begin(folder.path()).expect("the folder serves");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "true"]).envs(preload.environment.iter().map(|(name, value)| (name, value)));
    let said = command.output().expect("it runs");
    assert!(said.status.success());
    if said.stderr.is_empty() {
        return eprintln!("NOT TESTED: programs may be run from /dev/shm");
    }
    assert!(String::from_utf8_lossy(&said.stderr).contains("cannot be preloaded"));
    let refused = recorder.require_on().expect_err("nobody recorded");
    assert!(refused.hint.contains("noexec"), "{refused}");
}

#[test]
fn a_killed_reader_leaves_a_program_that_goes_on() {
    for _ in 0..5 {
        let mut host = Host::start();
        host.signal(libc::SIGKILL);
        host.process.wait().expect("our child");
        std::thread::sleep(Duration::from_millis(100));
        assert!(host.end_victim() > 1000);
        let _ = fs::remove_dir_all(&host.victims);
    }
}

#[test]
fn what_a_stopped_reader_missed_is_counted() {
    let mut host = Host::start();
    host.signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_millis(2500));
    host.signal(libc::SIGCONT);
    fs::write(host.victims.join("enough"), "").expect("a file");
    assert!(host.process.wait().expect("our child").success());
    let told = fs::read_to_string(host.place.path().join("told")).expect("the host ended");
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let number = |name: &str| told[name].as_u64().expect("a number");
    assert!(number("lost") > 0, "{told}");
    // The record that names the ring's owner may be among the missed records.
    let missed = number("lost") + number("records") - number("calls");
    assert!(missed <= 1, "{told}");
}

#[test]
fn a_folder_that_the_loader_cannot_be_told_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut trace = Inside::arm(settings(&own_program(), &folder.path().join("spool"))).expect("it can be recorded");
    let refused = trace.begin(&folder.path().join("a b")).expect_err("a space separates");
    assert!(refused.what.contains("the loader cannot be told this path"), "{refused}");
}
