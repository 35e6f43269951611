//! Tests of unusual programs and systems: which programs are still recorded, and which run unchanged without a record.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use bufferlab_probe::page_trace::inside::{Inside, check};
use bufferlab_probe::tracefs::TraceError;

use super::{PLACE, TASK, Trace, offset, own_program, settings, touch};

const NOBODY: u32 = 65534;
/// The number of records that the task "threads" makes.
const CALLS: usize = 8 * 20_000;

/// Does a victim's task; see `victim`.
pub fn task(name: &str) {
    match name {
        "vfork" => (0..50).for_each(|number| {
            touch(0, number);
            in_shared_memory(number);
            touch(2, number);
        }),
        "drops its user" => {
            touch(0, 0);
            // SAFETY: only this process's rights change.
            assert_eq!(unsafe { (libc::setgid(NOBODY), libc::setuid(NOBODY)) }, (0, 0));
            super::forks(100);
        }
        "strict umask" => {
            // SAFETY: only this process's new files change.
            unsafe { libc::umask(0o077) };
            let folder = tempfile::tempdir().expect("a folder");
            let mut recorder =
                Inside::arm(settings(&own_program(), &folder.path().join("spool"))).expect("it can be recorded");
            recorder.begin(folder.path()).expect("the folder serves");
            let library = fs::metadata(folder.path().join("bufferlab-inside.so")).expect("it was written");
            assert_eq!(library.permissions().mode() & 0o777, 0o444);
        }
        other => panic!("no task {other}"),
    }
}

/// Touches a page in a child that has this process's memory until it ends, as after vfork(2).
fn in_shared_memory(number: u32) {
    extern "C" fn child(number: *mut libc::c_void) -> libc::c_int {
        touch(1, number as u32);
        0
    }
    let mut stack = vec![0_u128; 64 << 10];
    // SAFETY: the stack is the child's alone, and this thread goes on only when the child has ended.
    let process = unsafe {
        let end = stack.as_mut_ptr_range().end.cast();
        libc::clone(child, end, libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD, number as usize as *mut _)
    };
    // SAFETY: the child is ours.
    assert_eq!(unsafe { libc::waitpid(process, std::ptr::null_mut(), 0) }, process);
}

/// Copies this program into the trace's folder; returns the copy's path.
fn copy(trace: &Trace) -> PathBuf {
    let copy = trace.folder.path().join("copy");
    fs::copy(own_program(), &copy).expect("a file");
    copy
}

/// Runs a program that was just written to its end.
///
/// A child that another test's thread forked meanwhile holds the file open for writing until it starts a program of its
/// own. Until then the kernel refuses to start the file.
fn run(command: &mut Command) -> ExitStatus {
    loop {
        match command.status() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::sleep(Duration::from_millis(1)),
            started => return started.expect("it starts"),
        }
    }
}

/// Requires that the program runs to its end without a record; returns the reason why it was not recorded.
fn require_left_alone(trace: Trace, mut command: Command) -> TraceError {
    let ended = run(command.stdout(Stdio::null()).stderr(Stdio::null()));
    assert!(ended.success(), "{ended}");
    let refused = trace.recorder.require_on().expect_err("it was not recorded");
    assert_eq!(trace.end().1.len(), 0);
    refused
}

fn is_root() -> bool {
    // SAFETY: the call only returns this process's user.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        eprintln!("NOT TESTED: this needs root");
    }
    root
}

/// The values of an argument with which a system call is refused.
#[derive(Clone, Copy)]
enum Values {
    All,
    WithOneOf(u32),
    Only(u32),
}

/// Makes one system call fail in the calling thread and its children.
fn refuse(call: libc::c_long, argument: usize, values: Values, error: i32) -> std::io::Result<()> {
    let step = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = |at: usize| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at as u32, 0, 0);
    let end = |with: u32| step(libc::BPF_RET | libc::BPF_K, with, 0, 0);
    let (asks, value) = match values {
        Values::All => (libc::BPF_JGE, 0),
        Values::WithOneOf(bits) => (libc::BPF_JSET, bits),
        Values::Only(value) => (libc::BPF_JEQ, value),
    };
    let mut steps = [
        load(std::mem::offset_of!(libc::seccomp_data, nr)),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32, 0, 3),
        load(std::mem::offset_of!(libc::seccomp_data, args) + 8 * argument),
        step(libc::BPF_JMP | asks | libc::BPF_K, value, 0, 1),
        end(libc::SECCOMP_RET_ERRNO | error as u32),
        end(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: both calls only take rights away from this thread.
    let done = unsafe {
        let (none, filter) = (libc::c_ulong::from(0_u8), libc::c_ulong::from(libc::SECCOMP_MODE_FILTER));
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, libc::c_ulong::from(1_u8), none, none, none) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, filter, &raw const program) == 0
    };
    if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[test]
fn a_child_in_its_parents_memory_is_recorded_as_its_parent() {
    let trace = Trace::new();
    trace.run("vfork");
    let (told, records) = trace.end();
    assert_eq!((told.lost, told.spooled.problem, told.threads.len()), (0, None, 1));
    let wanted = (0..50).flat_map(|number| (0..3).map(move |space| (space, number)));
    assert!(records.iter().map(|record| (record.1, record.2)).eq(wanted));
}

#[test]
fn a_program_that_gives_up_its_user_is_recorded_with_its_children() {
    if !is_root() {
        return;
    }
    let trace = Trace::new();
    trace.run("drops its user");
    let (told, records) = trace.end();
    assert_eq!((told.lost, told.spooled.problem, told.threads.len()), (0, None, 101));
    assert_eq!(records.len(), 1 + 1 + 100 * 51);
}

#[test]
fn a_library_can_be_loaded_by_another_user_whatever_the_umask_is() {
    let mut command = Command::new(own_program());
    command.args(["victim", "--exact", "--nocapture"]).env(TASK, "strict umask").env(PLACE, "");
    assert!(run(command.stdout(Stdio::null())).success());
}

#[test]
fn a_stripped_program_is_the_same_program() {
    let trace = Trace::new();
    let stripped = copy(&trace);
    match Command::new("strip").arg(&stripped).status() {
        Ok(ended) if ended.success() => {}
        _ => return eprintln!("NOT TESTED: there is no strip(1)"),
    }
    assert!(fs::metadata(&stripped).unwrap().len() < fs::metadata(own_program()).unwrap().len());
    assert!(run(trace.command(&stripped, "threads").stdout(Stdio::null())).success());
    trace.recorder.require_on().expect("it recorded");
    assert_eq!(trace.end().1.len(), CALLS);
}

#[test]
fn a_program_that_was_updated_after_its_plan_was_made_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program");
    fs::copy(own_program(), &program).expect("a file");
    let trace = Trace::of(&program);
    let mut bytes = fs::read(&program).expect("ours");
    bytes[offset() as usize + 9] ^= 1;
    fs::write(&program, bytes).expect("a file");
    let command = trace.command(&program, "threads");
    assert!(require_left_alone(trace, command).what.contains("its code is not that of its file"));
}

#[test]
fn a_program_with_the_rights_of_its_file_is_left_alone() {
    if !is_root() {
        return;
    }
    let trace = Trace::new();
    let owned = copy(&trace);
    chown(&owned, Some(NOBODY), Some(NOBODY)).expect("root may");
    fs::set_permissions(&owned, fs::Permissions::from_mode(0o4755)).expect("ours");
    let command = trace.command(&owned, "threads");
    assert!(require_left_alone(trace, command).what.contains("the loader did not take the recorder into it"));
}

#[test]
fn a_program_that_no_loader_loads_is_left_alone() {
    // This program is linked statically in every distribution, because it repairs the loader's own files.
    let program = Path::new("/sbin/ldconfig");
    let has_loader = |bytes: &[u8]| bytes.windows(9).any(|some| some == b"/ld-linux");
    if !fs::read(program).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF") && !has_loader(&bytes[..4096])) {
        return eprintln!("NOT TESTED: there is no static program {}", program.display());
    }
    let trace = Trace::new();
    let mut command = trace.preloaded(Command::new(program));
    command.arg("--help");
    assert!(require_left_alone(trace, command).what.contains("the loader did not take the recorder into it"));
}

#[test]
fn a_program_without_memory_for_the_rings_is_left_alone() {
    let trace = Trace::new();
    let mut command = trace.command(&own_program(), "threads");
    // The rings need 132 MiB, more than this limit.
    let most = libc::rlimit { rlim_cur: 100 << 20, rlim_max: 100 << 20 };
    // SAFETY: between fork and exec only the process's own limit changes.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_AS, &raw const most) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    assert!(require_left_alone(trace, command).what.contains("the loader did not take the recorder into it"));
}

/// Requires that a program runs unchanged if the system refuses changes of its memory, and that the reason names the
/// right that the system must grant.
fn require_named(values: Values, error: i32, words: &str) {
    let trace = Trace::new();
    let mut command = trace.command(&own_program(), "threads");
    // SAFETY: between fork and exec only the process's own rights change.
    unsafe { command.pre_exec(move || refuse(libc::SYS_mprotect, 2, values, error)) };
    let refused = require_left_alone(trace, command);
    let wanted = format!("this system lets no program change its own code: {words}");
    assert!(refused.what.contains(&wanted), "{refused}");
    assert!(refused.hint.contains("execmod and execmem"), "{refused}");
}

#[test]
fn a_program_that_may_make_no_memory_executable_is_left_alone() {
    // systemd's MemoryDenyWriteExecute refuses the same calls.
    require_named(Values::WithOneOf(libc::PROT_EXEC as u32), libc::EPERM, "Operation not permitted");
}

#[test]
fn a_program_that_may_not_write_its_own_code_is_left_alone_as_under_selinux() {
    // SELinux without execmod (selinux_file_mprotect) gives executable memory, and refuses the right to change code.
    let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    require_named(Values::Only(all as u32), libc::EACCES, "Permission denied");
}

#[test]
fn a_program_whose_memory_may_gain_no_execution_is_left_alone() {
    // Forbids this process to make memory executable: PR_SET_MDWE with PR_MDWE_REFUSE_EXEC_GAIN of linux/prctl.h, since
    // Linux 6.3.
    fn forbid() -> std::io::Result<()> {
        let (gain, none) = (libc::c_ulong::from(1_u8), libc::c_ulong::from(0_u8));
        // SAFETY: the call only takes a right away from this process.
        match unsafe { libc::prctl(65, gain, none, none, none) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
    let trace = Trace::new();
    let mut command = trace.command(&own_program(), "threads");
    // SAFETY: between fork and exec only the process's own rights change.
    unsafe { command.pre_exec(forbid) };
    let mut tries = Command::new("true");
    // SAFETY: between fork and exec only the process's own rights change.
    unsafe { tries.pre_exec(forbid) };
    if tries.status().is_err() {
        return eprintln!("NOT TESTED: this kernel has no PR_SET_MDWE");
    }
    let refused = require_left_alone(trace, command);
    assert!(refused.what.contains("lets no program change its own code: Permission denied"), "{refused}");
}

#[test]
fn a_system_that_shares_no_memory_is_named() {
    let asked = || {
        refuse(libc::SYS_memfd_create, 0, Values::All, libc::EPERM).expect("rights can be given up");
        check(&settings(&own_program(), Path::new("spool"))).expect_err("no memory")
    };
    // Only this thread has given up its right.
    let refused = std::thread::spawn(asked).join().expect("it ends");
    assert!(refused.what.contains("no memory can be shared with the server: Operation not permitted"), "{refused}");
    assert!(refused.hint.contains("memfd_create"), "{refused}");
}

#[test]
fn a_library_on_a_disk_without_programs_leaves_a_program_alone() {
    if !is_root() {
        return;
    }
    let trace = Trace::new();
    let mut command = trace.preloaded(Command::new("unshare"));
    let closed = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,noexec \"$1\" && exec \"$2\" victim --exact";
    command.args(["--mount", "sh", "-c", closed, "sh"]).arg(trace.folder.path()).arg(own_program());
    command.env(TASK, "threads").env(PLACE, trace.folder.path());
    assert!(require_left_alone(trace, command).what.contains("the loader did not take the recorder into it"));
}
