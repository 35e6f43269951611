//! The kernel's tracefs: finds one, reads its text, and finds the process that owns an object in it.
//!
//! If this user may mount, this module uses a mount in no directory: `fsmount(2)` returns a mount that exists only as a
//! descriptor. The kernel removes the mount when the descriptor is closed, however the process ends. Otherwise it uses
//! a tracefs that another user has mounted and given access to. An object in tracefs remains when the process that made
//! it ends, so the object's name contains that process's ID.

mod error;
mod format;
mod owner;

use std::ffi::CStr;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

pub use error::TraceError;
pub(crate) use format::{Field, Format, PageLayout};
pub(crate) use owner::{Owner, is_dead, namespace, started_at};

/// The usual places of a system's tracefs.
const USUAL: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
/// Bytes of the longest file of tracefs that this module reads.
const LONGEST_TEXT: usize = 1 << 16;

/// The root directory of a tracefs.
#[derive(Debug)]
pub struct Tracing {
    root: PathBuf,
    /// bufferlab's own mount, which ends when this descriptor is closed; none for another user's mount.
    _mount: Option<OwnedFd>,
}

impl Tracing {
    /// Opens a tracefs in which this user may make objects.
    ///
    /// # Errors
    /// When this user has no such tracefs.
    pub fn open() -> Result<Self, TraceError> {
        let own = match mount_unseen() {
            Ok(mount) => {
                let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
                return Ok(Self { root, _mount: Some(mount) });
            }
            Err(error) => error,
        };
        if let Some(root) = USUAL.iter().map(Path::new).find(|root| may_write(&root.join("instances"))) {
            return Ok(Self::at(root));
        }
        Err(match own.raw_os_error() {
            Some(libc::ENODEV) => TraceError::new(
                "this kernel has no tracefs",
                "/proc/filesystems",
                "use a kernel with CONFIG_FTRACE, CONFIG_BLK_DEV_IO_TRACE and CONFIG_UPROBE_EVENTS",
            ),
            Some(libc::ENOSYS) => TraceError::new(
                "this kernel cannot mount without a directory, and no tracefs is mounted",
                USUAL[0],
                "mount it: mount -t tracefs none /sys/kernel/tracing",
            ),
            _ => TraceError::new(
                format!("this user may not trace: {own}"),
                "tracefs",
                "run as root (a trace sees what other users do)",
            ),
        })
    }

    /// Returns the tracefs mounted at this directory.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_path_buf(), _mount: None }
    }

    /// Returns the root directory of the tracefs.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// Mounts tracefs without a directory; returns the mount's descriptor.
fn mount_unseen() -> io::Result<OwnedFd> {
    const TRACEFS: &CStr = c"tracefs";
    let descriptor = |result: libc::c_long| {
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just returned this descriptor, and no other code knows it.
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

/// Reads a file with one large read. Some files of tracefs (events/header_page) answer the first read in full and the
/// next one with nothing, and `fs::read_to_string` begins with a few bytes.
pub(crate) fn whole_text(path: &Path) -> io::Result<String> {
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
