//! The error of a trace that cannot be made.

use std::fmt;
use std::io;
use std::path::Path;

/// The reason for a missing trace: what happened, where, and what to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// What happened.
    pub what: String,
    /// The file, device or process that the error is about.
    pub place: String,
    /// What to try.
    pub hint: String,
}

impl TraceError {
    pub(crate) fn new(what: impl Into<String>, place: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), place: place.into(), hint: hint.into() }
    }

    pub(crate) fn io(action: &str, path: &Path, error: &io::Error) -> Self {
        let hint = match error.raw_os_error() {
            Some(libc::EACCES) => "run as root: only root may trace",
            // The kernel's lockdown refuses root too.
            Some(libc::EPERM) => {
                "run as root; where the kernel is locked down (/sys/kernel/security/lockdown) not even root may"
            }
            Some(libc::ENOSPC | libc::EDQUOT) => "free some space, or name a directory on another disk with --data-dir",
            Some(libc::ENOMEM) => "use a smaller buffer",
            _ => "look at the kernel log (dmesg) for the reason",
        };
        Self::new(format!("{action}: {error}"), shown(path), hint)
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}); {}", self.what, self.place, self.hint)
    }
}

impl std::error::Error for TraceError {}

/// Returns a path for messages. bufferlab's own mount of tracefs has no directory, so its paths begin with a descriptor
/// of this process; a message shows `tracefs:` instead.
fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    match text.strip_prefix("/proc/self/fd/").and_then(|rest| rest.split_once('/')) {
        Some((_, inside)) => format!("tracefs:{inside}"),
        None => text,
    }
}
