//! Whose a thing in tracefs is: it carries the number of the process that made it, and when that was started.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

/// A process, as a thing in tracefs names it, and the thing's number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub pid: u32,
    /// In clock ticks since boot.
    pub started: u64,
    /// No two things of one process have the same.
    pub number: u32,
}

impl Owner {
    /// This process, with a number that it has not used yet.
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let pid = std::process::id();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self { pid, started: started_at(pid).unwrap_or_default(), number }
    }
}

/// Returns whether this process has gone; one that has its number now was started at another time.
pub(crate) fn is_dead(pid: u32, started: Option<u64>) -> bool {
    match (started_at(pid), started) {
        (None, _) => true,
        (Some(now), Some(then)) => now != then,
        (Some(_), None) => false,
    }
}

/// When a process was started, in clock ticks since boot: field 22 of /proc/PID/stat.
fn started_at(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}
