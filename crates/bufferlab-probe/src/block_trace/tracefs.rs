//! A tracefs to work in, and an instance of it that is ours alone and goes away with us.
//!
//! Where this user may mount, tracefs is mounted nowhere: `fsmount(2)` gives a mount that only its descriptor knows, and that
//! ends with it, however the process ends. Where it may not, a tracefs that somebody mounted and opened to us is used. An
//! instance is a directory of the kernel's and survives its maker, so its name says whose it is.

use std::ffi::CStr;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::TraceError;

/// Instances of ours begin with this; then come the process, when it was started, and a number.
const PREFIX: &str = "bufferlab-";
/// Where a system's own tracefs is found.
const USUAL: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
/// No file that is read here is longer.
const LONGEST_TEXT: usize = 1 << 16;
/// A directory whose files were closed a moment ago may be busy for another.
const REMOVE_ATTEMPTS: u32 = 50;

/// The root directory of a tracefs.
#[derive(Debug)]
pub struct Tracing {
    root: PathBuf,
    /// Our own mount ends when this is closed.
    _mount: Option<OwnedFd>,
}

impl Tracing {
    /// A tracefs in which this user may make an instance.
    ///
    /// # Errors
    /// Why there is none.
    pub fn open() -> Result<Self, TraceError> {
        let own = match mount_unseen() {
            Ok(mount) => {
                let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
                return Ok(Self { root, _mount: Some(mount) }).and_then(Self::checked);
            }
            Err(error) => error,
        };
        if let Some(root) = USUAL.iter().map(Path::new).find(|root| may_write(&root.join("instances"))) {
            return Self::at(root).checked();
        }
        Err(match own.raw_os_error() {
            Some(libc::ENODEV) => TraceError::new(
                "this kernel has no tracefs",
                "/proc/filesystems",
                "use a kernel with CONFIG_FTRACE and CONFIG_BLK_DEV_IO_TRACE",
            ),
            Some(libc::ENOSYS) => TraceError::new(
                "this kernel cannot mount without a directory, and no tracefs is mounted",
                USUAL[0],
                "mount it: mount -t tracefs none /sys/kernel/tracing",
            ),
            _ => TraceError::new(
                format!("this user may not trace: {own}"),
                "tracefs",
                "run as root (a trace shows the requests of everybody on the device)",
            ),
        })
    }

    /// The tracefs mounted there.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_path_buf(), _mount: None }
    }

    /// Its root directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Itself, when it has what a block trace is made from.
    fn checked(self) -> Result<Self, TraceError> {
        let missing = |what: &str, file: &str| {
            let hint = "use a kernel with CONFIG_BLK_DEV_IO_TRACE; containers may hide tracefs";
            TraceError::new(what, format!("tracefs:{file}"), hint)
        };
        if !self.root.join("instances").is_dir() {
            return Err(missing("tracefs has no instances here", "instances"));
        }
        if !self.root.join("events/block/block_bio_queue").is_dir() {
            return Err(missing("this kernel has no tracepoints of block requests", "events/block"));
        }
        Ok(self)
    }
}

/// A mount of tracefs in no directory.
fn mount_unseen() -> io::Result<OwnedFd> {
    const TRACEFS: &CStr = c"tracefs";
    let descriptor = |result: libc::c_long| {
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just returned this descriptor, and nobody else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(result as libc::c_int) })
    };
    // SAFETY: the name is a valid C string; FSOPEN_CLOEXEC is the only flag there is.
    let context = descriptor(unsafe { libc::syscall(libc::SYS_fsopen, TRACEFS.as_ptr(), 1) })?;
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: the command takes neither key nor value.
    let made =
        unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, nothing, nothing, 0) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is that of a created file system; FSMOUNT_CLOEXEC, no attributes.
    descriptor(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1, 0) })
}

/// Some files of tracefs (events/header_page) give a first read what it asks for and the next one nothing. So the first read
/// asks for more than there is; `fs::read_to_string` begins with a few bytes.
fn whole_text(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut bytes = vec![0; LONGEST_TEXT];
    let mut length = 0;
    loop {
        match file.read(&mut bytes[length..])? {
            0 => break,
            more => length += more,
        }
    }
    bytes.truncate(length);
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn may_write(directory: &Path) -> bool {
    let Ok(name) = std::ffi::CString::new(directory.as_os_str().as_encoded_bytes()) else { return false };
    // SAFETY: the name is a valid C string.
    directory.is_dir() && unsafe { libc::access(name.as_ptr(), libc::W_OK | libc::X_OK) } == 0
}

/// An instance: a buffer with events of its own. Removed when dropped; its files must be closed then.
#[derive(Debug)]
pub(super) struct Instance {
    path: PathBuf,
    _tracing: Tracing,
}

impl Instance {
    pub(super) fn create(tracing: Tracing) -> Result<Self, TraceError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let pid = std::process::id();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let started = started_at(pid).unwrap_or_default();
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

    /// Numbers of the processors that have a buffer.
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
        // A test's imaginary tracefs is an ordinary directory, which has no files of the kernel's; then nothing of this works.
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

/// Removes instances of ours whose process is no more; their names. One that is still read from is busy and stays.
///
/// # Errors
/// When there is no tracefs for this user: then it has no instances either.
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

/// Whether an instance is ours and its maker has gone; a process that has its number now was started at another time.
fn is_of_the_dead(name: &str) -> bool {
    let parts = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    let Some((Ok(pid), rest)) = parts.map(|(pid, rest)| (pid.parse::<u32>(), rest)) else { return false };
    let started: Option<u64> = rest.split_once('.').and_then(|(started, _)| started.parse().ok());
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

#[cfg(test)]
mod tests {
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
        let own = format!("bufferlab-{}-{}.0", std::process::id(), started_at(std::process::id()).expect("we live"));
        // Process numbers end at 4 Mi.
        let dead = "bufferlab-99999999-1.0";
        // Somebody else has the number now.
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
        let error = Tracing::at(root.path()).checked().expect_err("no events");
        assert!(error.what.contains("no tracepoints of block requests"), "{error}");
        assert!(error.hint.contains("CONFIG_BLK_DEV_IO_TRACE"), "{error}");
    }

    #[test]
    fn a_tracefs_of_this_host_is_found_or_refused_with_a_hint() {
        match Tracing::open() {
            Ok(tracing) => assert!(tracing.root().join("events/block/block_bio_queue").is_dir()),
            Err(error) => assert!(!error.hint.is_empty(), "{error}"),
        }
    }
}
