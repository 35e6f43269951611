//! The owner of an object in tracefs: its name holds the number of the process that made it, and its start time.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

/// A process that made an object in tracefs, and the object's number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub pid: u32,
    /// Its start time in clock ticks since boot.
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

/// Returns true when this process has gone; another process with its number has another start time.
pub(crate) fn is_dead(pid: u32, started: Option<u64>) -> bool {
    match (started_at(pid), started) {
        (None, _) => true,
        (Some(now), Some(then)) => now != then,
        (Some(_), None) => false,
    }
}

/// Returns the start time of a process, in clock ticks since boot: field 22 of /proc/PID/stat. None when it has gone:
/// all that is left of a zombie is what its parent will ask for.
pub(crate) fn started_at(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    (fields.next()? != "Z").then(|| fields.nth(18)?.parse().ok())?
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
}
