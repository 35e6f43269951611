//! File systems whose files carry no block device's number: btrfs, overlay, tmpfs, network file systems.
//! The mount table tells their source; only where that is exactly one block device is there something to count.

use super::sysfs::Sysfs;
use super::{Device, device_number};
use crate::parse::mountinfo::{Mount, mount_of, mounts};
use std::path::Path;

/// The device under an existing canonical path whose own device number has major 0.
pub(super) fn resolve(sysfs: &Sysfs, mountinfo: &[u8], path: &Path) -> Device {
    let mounts = mounts(mountinfo);
    let Some(mount) = mount_of(&mounts, path) else {
        return Device::none(format!(
            "{} is on no mount of /proc/self/mountinfo",
            path.display()
        ));
    };
    if mount.filesystem == "overlay" {
        return resolve_overlay(sysfs, mountinfo, path, mount);
    }
    match device_number(&mount.source) {
        Ok((major, minor)) if major != 0 && mount.source.is_absolute() => {
            resolve_source(sysfs, path, mount, major, minor)
        }
        _ => Device::none(no_device(path, mount)),
    }
}

/// Writes to an overlay land in its upper directory, so that directory's device is the one that works.
fn resolve_overlay(sysfs: &Sysfs, mountinfo: &[u8], path: &Path, mount: &Mount) -> Device {
    let upper = mount.super_option("upperdir").map(Path::new);
    match upper.and_then(|upper| upper.canonicalize().ok()) {
        // An overlay on an overlay would recurse; one level is what container engines make.
        Some(upper) => match device_number(&upper) {
            Ok((major, minor)) if major != 0 => sysfs.describe(major, minor),
            _ => Device::none(no_device(path, mount)),
        },
        None => Device::none(format!(
            "{} is on an overlay whose upper directory cannot be seen from here (a container's root)",
            path.display()
        )),
    }
}

fn resolve_source(sysfs: &Sysfs, path: &Path, mount: &Mount, major: u32, minor: u32) -> Device {
    let members = sysfs.btrfs_members(major, minor);
    if members.len() > 1 {
        return Device::none(format!(
            "{} is on {} over several devices ({})",
            path.display(),
            mount.filesystem,
            members.join(", ")
        ));
    }
    sysfs.describe(major, minor)
}

fn no_device(path: &Path, mount: &Mount) -> String {
    format!(
        "{} is on {}, which has no block device",
        path.display(),
        mount.filesystem
    )
}

#[cfg(test)]
mod tests {
    use super::super::sysfs::tests::tree;
    use super::*;

    fn on(line: &str, path: &str) -> Device {
        let (_root, sysfs) = tree(&[]);
        resolve(&sysfs, line.as_bytes(), Path::new(path))
    }

    #[test]
    fn tmpfs_and_network_file_systems_have_no_block_device() {
        let device = on(
            "25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw\n",
            "/dev/shm/x.db",
        );
        assert_eq!(
            device.reason.as_deref(),
            Some("/dev/shm/x.db is on tmpfs, which has no block device")
        );
        let device = on(
            "25 24 0:23 / /mnt rw - nfs4 server:/export rw\n",
            "/mnt/x.db",
        );
        assert_eq!(
            device.reason.as_deref(),
            Some("/mnt/x.db is on nfs4, which has no block device")
        );
    }

    #[test]
    fn a_containers_root_says_that_its_upper_directory_is_out_of_sight() {
        let line =
            "1 0 0:50 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/no/such/upper,workdir=/w\n";
        let reason = on(line, "/data/x.db").reason.expect("a reason");
        assert!(
            reason.contains("overlay whose upper directory cannot be seen"),
            "{reason}"
        );
    }

    #[test]
    fn an_overlay_whose_upper_directory_is_visible_is_on_that_directorys_device() {
        let upper = tempfile::tempdir().expect("a directory");
        let (major, minor) = device_number(upper.path()).expect("its number");
        let number = format!("{major}:{minor}");
        let (_root, sysfs) = tree(&[(number.as_str(), "virtual/block/under0", &[])]);
        let line = format!(
            "1 0 0:50 / /m rw - overlay overlay rw,upperdir={}\n",
            upper.path().display()
        );
        let device = resolve(&sysfs, line.as_bytes(), Path::new("/m/x.db"));
        if major == 0 {
            assert!(
                device.reason.is_some(),
                "the test's own directory has no block device"
            );
        } else {
            assert_eq!(device.name.as_deref(), Some("under0"));
        }
    }

    #[test]
    fn a_mount_table_that_cannot_be_read_gives_a_reason() {
        assert!(
            on("", "/x")
                .reason
                .is_some_and(|reason| reason.contains("mountinfo"))
        );
    }
}
