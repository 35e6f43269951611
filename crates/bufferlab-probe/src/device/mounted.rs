//! Devices of file systems whose files do not have a block device's number: btrfs, overlay, tmpfs, network file
//! systems. The mount table has their source. Only a source that is exactly one block device has counters.

use super::identity::{Device, device_number};
use super::sysfs::Sysfs;
use crate::parse::mountinfo::{Mount, mount_of, mounts};
use std::path::Path;

/// Returns the device under an existing canonical path whose own device number has major 0.
pub(super) fn resolve(sysfs: &Sysfs, mountinfo: &[u8], path: &Path) -> Device {
    let mounts = mounts(mountinfo);
    let Some(mount) = mount_of(&mounts, path) else {
        return Device::none(format!("{} is on no mount of /proc/self/mountinfo", path.display()));
    };
    if mount.filesystem == "overlay" {
        resolve_overlay(sysfs, &mounts, path, mount)
    } else {
        resolve_source(sysfs, path, mount)
    }
}

/// Returns the device of an overlay's upper directory, to which writes to the overlay go.
fn resolve_overlay(sysfs: &Sysfs, mounts: &[Mount], path: &Path, overlay: &Mount) -> Device {
    let upper = overlay.super_option("upperdir").map(Path::new);
    let Some(upper) = upper.and_then(|upper| upper.canonicalize().ok()) else {
        return Device::none(format!(
            "{} is on an overlay whose upper directory cannot be seen from here (a container's root)",
            path.display()
        ));
    };
    match (device_number(&upper), mount_of(mounts, &upper)) {
        (Ok((major, minor)), _) if major != 0 => sysfs.describe(major, minor),
        // Do not follow an overlay on an overlay: container engines make one level.
        (_, Some(mount)) if mount.filesystem != "overlay" => resolve_source(sysfs, &upper, mount),
        _ => Device::none(no_device(path, overlay)),
    }
}

/// Returns the device from which a file system was mounted, if it is one block device.
fn resolve_source(sysfs: &Sysfs, path: &Path, mount: &Mount) -> Device {
    let number = match mount.source.is_absolute().then(|| device_number(&mount.source)) {
        Some(Ok(number)) if number.0 != 0 => number,
        _ => return Device::none(no_device(path, mount)),
    };
    let members = sysfs.btrfs_members(number.0, number.1);
    if members.len() > 1 {
        return Device::none(format!(
            "{} is on {} over several devices ({})",
            path.display(),
            mount.filesystem,
            members.join(", ")
        ));
    }
    sysfs.describe(number.0, number.1)
}

fn no_device(path: &Path, mount: &Mount) -> String {
    format!("{} is on {}, which has no block device", path.display(), mount.filesystem)
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
        let device = on("25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw\n", "/dev/shm/x.db");
        assert_eq!(device.reason.as_deref(), Some("/dev/shm/x.db is on tmpfs, which has no block device"));
        let device = on("25 24 0:23 / /mnt rw - nfs4 server:/export rw\n", "/mnt/x.db");
        assert_eq!(device.reason.as_deref(), Some("/mnt/x.db is on nfs4, which has no block device"));
    }

    #[test]
    fn a_containers_root_says_that_its_upper_directory_is_out_of_sight() {
        let line = "1 0 0:50 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/no/such/upper,workdir=/w\n";
        let reason = on(line, "/data/x.db").reason.expect("a reason");
        assert!(reason.contains("overlay whose upper directory cannot be seen"), "{reason}");
    }

    #[test]
    fn an_overlay_whose_upper_directory_is_visible_is_on_that_directorys_device() {
        let upper = tempfile::tempdir().expect("a directory");
        let (major, minor) = device_number(upper.path()).expect("its number");
        let number = format!("{major}:{minor}");
        let (_root, sysfs) = tree(&[(number.as_str(), "virtual/block/under0", &[])]);
        let line = format!("1 0 0:50 / /m rw - overlay overlay rw,upperdir={}\n", upper.path().display());
        let device = resolve(&sysfs, line.as_bytes(), Path::new("/m/x.db"));
        if major == 0 {
            assert!(device.reason.is_some(), "the test's own directory has no block device");
        } else {
            assert_eq!(device.name.as_deref(), Some("under0"));
        }
    }

    #[test]
    fn btrfs_on_one_device_is_that_device_and_over_several_is_none_with_their_names() {
        // The source must be an existing device node: take any block device of this host.
        let Some((node, number)) = some_block_device() else {
            return;
        };
        let line = format!("1 0 0:45 /@ /srv rw - btrfs {node} rw,subvol=/@\n");
        let member = |place| (number.as_str(), place, &[][..]);
        let (root, sysfs) = tree(&[member("virtual/block/one0")]);
        let device = resolve(&sysfs, line.as_bytes(), Path::new("/srv/x.db"));
        assert_eq!(device.name.as_deref(), Some("one0"));

        let devices = root.path().join("fs/btrfs/some-uuid/devices");
        std::fs::create_dir_all(devices.join("two0")).expect("the second member");
        std::os::unix::fs::symlink(root.path().join("devices/virtual/block/one0"), devices.join("one0"))
            .expect("the first member");
        let reason = resolve(&sysfs, line.as_bytes(), Path::new("/srv/x.db")).reason;
        assert_eq!(reason.as_deref(), Some("/srv/x.db is on btrfs over several devices (one0, two0)"));
    }

    /// Returns a block device's node and number.
    fn some_block_device() -> Option<(String, String)> {
        std::fs::read_dir("/dev").ok()?.flatten().find_map(|entry| {
            use std::os::unix::fs::FileTypeExt;
            let path = entry.path();
            if !std::fs::metadata(&path).ok()?.file_type().is_block_device() {
                return None;
            }
            let (major, minor) = device_number(&path).ok()?;
            Some((path.to_str()?.to_owned(), format!("{major}:{minor}")))
        })
    }

    #[test]
    fn a_mount_table_that_cannot_be_read_gives_a_reason() {
        assert!(on("", "/x").reason.is_some_and(|reason| reason.contains("mountinfo")));
    }
}
