//! An instance of tracefs: a trace buffer with its own list of enabled events. Its process removes it; `remove_stale`
//! removes instances of processes that have died.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::tracefs::{Owner, TraceError, Tracing, is_dead, whole_text};

/// The beginning of the names of bufferlab's instances. The process ID, the process's start time and a number follow.
const PREFIX: &str = "bufferlab-";
/// The most attempts to remove a directory, which may stay busy for a moment after its files are closed.
const REMOVE_ATTEMPTS: u32 = 50;

/// Returns a tracefs that has everything a block trace needs.
///
/// # Errors
/// When this user has no tracefs, or it lacks something.
pub(super) fn tracing() -> Result<Tracing, TraceError> {
    checked(Tracing::open()?)
}

fn checked(tracing: Tracing) -> Result<Tracing, TraceError> {
    let missing = |what: &str, file: &str| {
        let hint = "use a kernel with CONFIG_BLK_DEV_IO_TRACE; containers may hide tracefs";
        TraceError::new(what, format!("tracefs:{file}"), hint)
    };
    if !tracing.root().join("instances").is_dir() {
        return Err(missing("tracefs has no instances here", "instances"));
    }
    if !tracing.root().join("events/block/block_bio_queue").is_dir() {
        return Err(missing("this kernel has no tracepoints of block requests", "events/block"));
    }
    Ok(tracing)
}

/// An instance: a trace buffer with its own list of enabled events. Dropping removes the instance; close its files
/// before.
#[derive(Debug)]
pub(super) struct Instance {
    path: PathBuf,
    _tracing: Tracing,
}

impl Instance {
    pub(super) fn create(tracing: Tracing) -> Result<Self, TraceError> {
        let Owner { pid, started, number, .. } = Owner::new();
        let path = tracing.root().join("instances").join(format!("{PREFIX}{pid}-{started}.{number}"));
        fs::create_dir(&path)
            .map_err(|error| TraceError::io("an instance of tracefs cannot be made", &path, &error))?;
        Ok(Self { path, _tracing: tracing })
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    pub(super) fn read(&self, name: &str) -> Result<String, TraceError> {
        let path = self.file(name);
        whole_text(&path).map_err(|error| TraceError::io("tracefs cannot be read", &path, &error))
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), TraceError> {
        let path = self.file(name);
        let action = format!("tracefs does not take {text:?}");
        fs::write(&path, text).map_err(|error| TraceError::io(&action, &path, &error))
    }

    /// Returns the numbers of the processors that have a buffer.
    pub(super) fn cpus(&self) -> Result<Vec<u32>, TraceError> {
        let path = self.file("per_cpu");
        let entries = fs::read_dir(&path).map_err(|error| TraceError::io("tracefs cannot be read", &path, &error))?;
        let mut cpus: Vec<u32> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok())
            .collect();
        cpus.sort_unstable();
        Ok(cpus)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Ignore errors: a test's tracefs is an ordinary directory without the kernel's files.
        let _ = fs::write(self.file("tracing_on"), "0");
        for _ in 0..REMOVE_ATTEMPTS {
            match fs::remove_dir(&self.path) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                _ => return,
            }
        }
    }
}

/// Removes bufferlab's instances whose process has ended; returns their names. An instance with an open reader is busy
/// and stays.
///
/// # Errors
/// When this user has no tracefs, and so no instances either.
pub fn remove_stale(tracing: &Tracing) -> Result<Vec<String>, TraceError> {
    let path = tracing.root().join("instances");
    let entries = fs::read_dir(&path).map_err(|error| TraceError::io("tracefs cannot be read", &path, &error))?;
    let mut removed = Vec::new();
    for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        if is_of_the_dead(&name) && fs::remove_dir(path.join(&name)).is_ok() {
            removed.push(name);
        }
    }
    removed.sort();
    Ok(removed)
}

/// Returns whether bufferlab made an instance, in a process that has ended.
fn is_of_the_dead(name: &str) -> bool {
    let parts = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    let Some((Ok(pid), rest)) = parts.map(|(pid, rest)| (pid.parse::<u32>(), rest)) else { return false };
    is_dead(pid, rest.split_once('.').and_then(|(started, _)| started.parse().ok()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn imaginary() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(root.path().join("instances")).expect("instances");
        fs::create_dir_all(root.path().join("events/block/block_bio_queue")).expect("events");
        root
    }

    fn names(root: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(root.join("instances"))
            .expect("instances")
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn instances_of_the_dead_are_removed_and_those_of_the_living_and_of_others_stay() {
        let root = imaginary();
        let own = format!("bufferlab-{}-{}.0", std::process::id(), Owner::new().started);
        // The largest process ID is 4,194,304, so this process is dead.
        let dead = "bufferlab-99999999-1.0";
        // This process has the ID, but did not start at the time in the name.
        let reused = format!("bufferlab-{}-1.3", std::process::id());
        let strangers = ["perf", "bufferlab-", "bufferlab-x-1.0", "bufferlab"];
        for name in [own.as_str(), dead, &reused].iter().chain(&strangers) {
            fs::create_dir(root.path().join("instances").join(name)).expect("an instance");
        }
        let removed = remove_stale(&Tracing::at(root.path())).expect("they can be listed");
        assert_eq!(removed, [reused, dead.to_owned()].to_vec());
        let mut left: Vec<String> = strangers.iter().map(|&name| name.to_owned()).collect();
        left.push(own);
        left.sort();
        assert_eq!(names(root.path()), left);
    }

    #[test]
    fn a_tracefs_without_block_events_is_refused_with_a_reason() {
        let root = imaginary();
        fs::remove_dir(root.path().join("events/block/block_bio_queue")).expect("it was there");
        let error = checked(Tracing::at(root.path())).expect_err("no events");
        assert!(error.what.contains("no tracepoints of block requests"), "{error}");
        assert!(error.hint.contains("CONFIG_BLK_DEV_IO_TRACE"), "{error}");
    }

    #[test]
    fn a_tracefs_of_this_host_is_found_or_refused_with_a_hint() {
        match tracing() {
            Ok(tracing) => assert!(tracing.root().join("events/block/block_bio_queue").is_dir()),
            Err(error) => assert!(!error.hint.is_empty(), "{error}"),
        }
    }
}
