//! The block device that really holds a path: its identity, its properties, and its counters. `resolve` finds it once;
//! `DeviceProbe` reads at each sample all columns of /proc/diskstats that iostat -x uses.

mod identity;
mod mounted;
mod probe;
mod stack;
mod sysfs;

pub use identity::{Device, Disk};
pub use probe::DeviceProbe;

use identity::device_number;
use std::fs;
use std::path::{Path, PathBuf};
use sysfs::Sysfs;

/// Returns the device that holds a path. The path need not exist yet: its nearest existing ancestor counts. A path that
/// is a block device means that device.
pub fn resolve(path: &Path) -> Device {
    let mountinfo = fs::read("/proc/self/mountinfo").unwrap_or_default();
    resolve_with(&Sysfs::of_host(), &mountinfo, path)
}

/// Returns the device numbers (`major:minor`) of the partitions of a whole disk, which has the numbers `major` and
/// `minor`.
pub(crate) fn partitions_of(major: u32, minor: u32) -> Vec<String> {
    Sysfs::of_host().partitions(major, minor)
}

/// Returns true when the device with these numbers has requests, because it has its own hardware queues.
pub(crate) fn has_requests(major: u32, minor: u32) -> bool {
    Sysfs::of_host().has_requests(major, minor)
}

fn resolve_with(sysfs: &Sysfs, mountinfo: &[u8], path: &Path) -> Device {
    let existing = match nearest_existing(path) {
        Ok(existing) => existing,
        Err(error) => return Device::none(format!("cannot look at {}: {error}", path.display())),
    };
    match device_number(&existing) {
        Ok((0, _)) => mounted::resolve(sysfs, mountinfo, &existing),
        Ok((major, minor)) => sysfs.describe(major, minor),
        Err(error) => Device::none(format!("cannot look at {}: {error}", existing.display())),
    }
}

/// Returns the canonical path of the path or of its nearest ancestor that exists.
pub(crate) fn nearest_existing(path: &Path) -> std::io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    let mut candidate = absolute.as_path();
    loop {
        match (candidate.canonicalize(), candidate.parent()) {
            (Ok(existing), _) => return Ok(existing),
            (Err(error), Some(parent)) if error.kind() == std::io::ErrorKind::NotFound => {
                candidate = parent;
            }
            (Err(error), _) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_does_not_exist_yet_is_on_its_ancestors_device() {
        let directory = tempfile::tempdir().expect("a directory");
        let missing = directory.path().join("not/yet/there.db");
        assert_eq!(resolve(&missing), resolve(directory.path()));
    }

    #[test]
    fn a_file_system_without_a_block_device_says_so_and_names_the_path() {
        let device = resolve(Path::new("/proc/self/status"));
        assert_eq!(device.name, None);
        let reason = device.reason.expect("a reason");
        assert!(reason.contains("is on proc, which has no block device"), "{reason}");
    }
}
