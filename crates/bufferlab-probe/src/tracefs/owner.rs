//! The owner of an object in tracefs. The object's name contains the ID and the start time of the process that made it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering};

/// A process that made an object in tracefs, and the object's number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub pid: u32,
    /// The process's start time in clock ticks since boot.
    pub started: u64,
    /// The number of the object, unique within its process.
    pub number: u32,
}

impl Owner {
    /// Returns this process, with a number that it has not used yet.
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let pid = std::process::id();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self { pid, started: started_at(pid).unwrap_or_default(), number }
    }
}

/// Returns the number of this process's PID namespace, which differs between containers. 0 if /proc does not show it.
pub(crate) fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map(|link| link.ino()).unwrap_or_default()
}

/// Returns true when the process has ended. A later process with the same ID has another start time.
pub(crate) fn is_dead(pid: u32, started: Option<u64>) -> bool {
    match (started_at(pid), started) {
        (None, _) => true,
        (Some(now), Some(then)) => now != then,
        (Some(_), None) => false,
    }
}

/// Returns the start time of a process, in clock ticks since boot: field 22 of /proc/PID/stat. None when it has ended.
/// A zombie has ended: only its exit status is left, for its parent. But the kernel shows a killed process as a zombie
/// as soon as its first thread has ended, while its files stay open until its last thread has ended.
pub(crate) fn started_at(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    (fields.next()? != "Z" || has_threads(pid)).then(|| fields.nth(18)?.parse().ok())?
}

/// Returns whether a process has threads besides its first one.
fn has_threads(pid: u32) -> bool {
    fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.count() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_until_it_ends_even_if_its_parent_does_not_ask() {
        let Owner { pid, started, .. } = Owner::new();
        assert!(started > 0 && !is_dead(pid, Some(started)) && is_dead(pid, Some(started + 1)));
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().expect("a child");
        let started = started_at(child.id());
        assert!(!is_dead(child.id(), started));
        drop(child.stdin.take());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !is_dead(child.id(), started) && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert!(is_dead(child.id(), started));
        child.wait().expect("it was ours");
    }

    extern "C" fn wait_for_the_end(_: *mut libc::c_void) -> *mut libc::c_void {
        loop {
            // SAFETY: it waits for a signal.
            unsafe { libc::pause() };
        }
    }

    #[test]
    fn a_zombie_lives_as_long_as_one_of_its_threads() {
        // SAFETY: the child calls only the C library, and allocates nothing of ours.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above; the first thread ends here, and the process does not.
            unsafe {
                let mut thread = std::mem::zeroed();
                libc::pthread_create(&mut thread, std::ptr::null(), wait_for_the_end, std::ptr::null_mut());
                libc::syscall(libc::SYS_exit, 0);
            }
        }
        let pid = u32::try_from(child).expect("a child");
        let state = || fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is not reaped");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !state().contains(") Z ") && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        let started = started_at(pid);
        assert!(started.is_some() && !is_dead(pid, started));
        // SAFETY: it is our child, and not reaped yet.
        unsafe { libc::kill(child, libc::SIGKILL) };
        while !is_dead(pid, started) && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert!(is_dead(pid, started));
        // SAFETY: as above; no other code asks for it.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    }
}
