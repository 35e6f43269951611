//! The one type of error of loads and runs. Each kind of failure requires a different next step of the user. Python's
//! `bufferlab.errors` has all kinds, and says what each of them means.

use std::fmt;
use std::io;
use std::path::Path;

use bufferlab_workload::client::ClientError;

/// The kind of a failure, which run.json keeps for a failed run. The kind decides whether `--resume` tries one run of a
/// point before its other runs. It also decides the exit code of a failed load; a failed run's exit code is always 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// An impossible or contradictory setting.
    Usage,
    /// The machine lacks something: a permission, O_DIRECT, a file system.
    Environment,
    /// A file or database that is corrupt, or is not the expected one.
    Data,
    /// The operating system or the device answered with an error.
    Io,
    /// The device has no space left.
    FullDisk,
    /// The user asked the run to stop.
    Interrupted,
    /// A bug in bufferlab.
    Internal,
}

impl FailureKind {
    /// Returns the kind's name in Python and in run.json.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FailureKind::Usage => "usage",
            FailureKind::Environment => "environment",
            FailureKind::Data => "data",
            FailureKind::Io => "io",
            FailureKind::FullDisk => "full_disk",
            FailureKind::Interrupted => "interrupted",
            FailureKind::Internal => "internal",
        }
    }
}

/// An error: what happened, where, and what to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// What happened.
    pub what: String,
    /// The path, setting or statement that failed.
    pub place: String,
    /// What to try.
    pub hint: String,
}

impl Failure {
    /// Makes a failure from its kind and its texts.
    pub fn new(kind: FailureKind, what: impl Into<String>, place: impl Into<String>, hint: impl Into<String>) -> Self {
        Failure { kind, what: what.into(), place: place.into(), hint: hint.into() }
    }

    /// Makes a failure from an error of the operating system on a path.
    pub fn from_io(action: &str, path: &Path, error: &io::Error) -> Self {
        let (kind, hint) = match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => (FailureKind::FullDisk, FULL_DISK_HINT),
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
                (FailureKind::Environment, "choose a directory that this user can write")
            }
            Some(libc::ENOENT) => (FailureKind::Environment, "check the path"),
            _ => (FailureKind::Io, DEVICE_ERROR_HINT),
        };
        Failure::new(kind, format!("{action}: {error}"), path.display().to_string(), hint)
    }

    /// Makes a failure from the error of a workload's client and the place of its database. `lost_hint` says what to
    /// try when the engine is gone.
    pub fn from_client(error: &ClientError, place: &str, lost_hint: &str) -> Self {
        if let ClientError::Script { place, message, hint } = error {
            return Failure::new(FailureKind::Usage, message, place, hint);
        }
        let (kind, hint) = match error {
            ClientError::DiskFull { .. } => (FailureKind::FullDisk, FULL_DISK_HINT),
            ClientError::Lost { .. } => (FailureKind::Io, lost_hint),
            ClientError::Data { .. } => (FailureKind::Data, "the database differs from the loaded one: load it again"),
            ClientError::Retry { .. } => (
                FailureKind::Io,
                "transactions block each other: use fewer connections, or statements that wait for locks",
            ),
            ClientError::Statement { .. } | ClientError::Script { .. } => {
                (FailureKind::Internal, "please report this with the run's worker.log")
            }
        };
        Failure::new(kind, error.to_string(), place, hint)
    }
}

/// The hint when the disk is full.
pub(crate) const FULL_DISK_HINT: &str = "free some space, or name a directory on another disk with --data-dir";
/// The hint when the device answers with an error.
pub(crate) const DEVICE_ERROR_HINT: &str = "look at the kernel log (dmesg) for the device's own words";
/// The hint when a loaded database is damaged, or is another database than expected.
pub(crate) const RELOAD_HINT: &str = "remove the cached database; it will be loaded again";

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}); {}", self.what, self.place, self.hint)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_that_block_each_other_to_the_last_are_no_bug_and_say_what_to_try() {
        let error = ClientError::Retry { message: "deadlock detected".to_owned() };
        let failure = Failure::from_client(&error, "a socket", "start it again");
        assert_eq!((failure.kind, failure.place.as_str()), (FailureKind::Io, "a socket"));
        assert!(failure.what.contains("deadlock detected"), "{failure}");
        assert!(failure.hint.contains("use fewer connections"), "{failure}");
    }
}
