//! Block requests one by one: queued, split, merged, issued, completed, unplugged, each with device, sector and process.
//!
//! The events are the kernel's own tracepoints, recorded by a private instance of tracefs (Documentation/trace/ftrace.rst,
//! events.rst): a buffer of our own, filtered in the kernel to one device, on from one edge of the measured window to the
//! other. A thread moves the buffer's pages as they are to files (the spool); they are decoded after the run. An event
//! that the kernel had no room for is counted, and makes the trace a failed one. The cost is the thread's processor time,
//! which is kept with the trace, and the tracepoints' own: `benches` of the trace tell it per request.

mod decode;
mod event;
mod format;
mod page;
mod spool;
mod summary;
mod tracefs;
mod tracer;

pub use decode::{Decoded, decode};
pub use event::{Event, RECORD_BYTES};
pub use summary::{Lost, Summary};
pub use tracefs::{Tracing, remove_stale};
pub use tracer::{BlockTracer, Settings, check};

use std::fmt;
use std::io;
use std::path::Path;

/// Why there is no trace: what happened, where, and what to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// What happened.
    pub what: String,
    /// The file or device concerned.
    pub place: String,
    /// What to try.
    pub hint: String,
}

impl TraceError {
    fn new(what: impl Into<String>, place: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), place: place.into(), hint: hint.into() }
    }

    fn io(action: &str, path: &Path, error: &io::Error) -> Self {
        let hint = match error.raw_os_error() {
            Some(libc::EACCES) => "run as root: only root may trace a device",
            // Root is refused by what the kernel calls lockdown.
            Some(libc::EPERM) => {
                "run as root; where the kernel is locked down (/sys/kernel/security/lockdown) nobody may"
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

/// A path as a person knows it: our own mount of tracefs has no name but that of a descriptor.
fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    match text.strip_prefix("/proc/self/fd/").and_then(|rest| rest.split_once('/')) {
        Some((_, inside)) => format!("tracefs:{inside}"),
        None => text,
    }
}
