//! Block devices in /sys: from a number to the whole disk and its properties. Follows
//! Documentation/ABI/stable/sysfs-block. The root is a parameter, so that tests bring their own tree.

use super::identity::Device;
use super::stack;
use std::fs;
use std::path::{Path, PathBuf};

/// A tree like /sys, by its root directory.
pub(super) struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    pub(super) fn of_host() -> Self {
        Self { root: "/sys".into() }
    }

    /// Returns the directory of the device with these numbers.
    pub(super) fn directory(&self, major: u32, minor: u32) -> Option<PathBuf> {
        self.root.join(format!("dev/block/{major}:{minor}")).canonicalize().ok()
    }

    /// Returns the directory of a partition's whole disk. A partition's directory lies inside its disk's; only
    /// partitions have a file `partition`.
    pub(super) fn whole_disk(&self, directory: &Path) -> PathBuf {
        match directory.parent() {
            Some(parent) if directory.join("partition").exists() => parent.to_path_buf(),
            _ => directory.to_path_buf(),
        }
    }

    /// Returns the whole disk of the device with these numbers.
    pub(super) fn describe(&self, major: u32, minor: u32) -> Device {
        let Some(directory) = self.directory(major, minor) else {
            let link = self.root.join(format!("dev/block/{major}:{minor}"));
            return Device::none(format!("{} is not there for device {major}:{minor}", link.display()));
        };
        let disk = self.whole_disk(&directory);
        let device = Device {
            name: kernel_name(&disk),
            partition: (disk != directory).then(|| kernel_name(&directory)).flatten(),
            major_minor: text(&disk.join("dev")),
            model: text(&disk.join("device/model")).or_else(|| text(&disk.join("dm/name"))),
            logical_block_size_bytes: number(&disk.join("queue/logical_block_size")),
            rotational: number(&disk.join("queue/rotational")).map(|flag| flag != 0),
            scheduler: text(&disk.join("queue/scheduler")).map(|line| chosen(&line)),
            read_ahead_bytes: number(&disk.join("queue/read_ahead_kb")).map(|kib| kib * 1024),
            ..Device::default()
        };
        device.with_stack(stack::below(self, &disk))
    }

    /// Returns the numbers of the partitions of the whole disk with these numbers.
    pub(super) fn partitions(&self, major: u32, minor: u32) -> Vec<String> {
        let Some(entries) = self.directory(major, minor).and_then(|disk| fs::read_dir(disk).ok()) else {
            return Vec::new();
        };
        let parts = entries.flatten().map(|entry| entry.path()).filter(|path| path.join("partition").exists());
        let mut numbers: Vec<String> = parts.filter_map(|path| text(&path.join("dev"))).collect();
        numbers.sort();
        numbers
    }

    /// Returns whether the device with these numbers has hardware queues: blk-mq has a directory `mq` for them.
    pub(super) fn has_requests(&self, major: u32, minor: u32) -> bool {
        self.directory(major, minor).is_some_and(|disk| disk.join("mq").is_dir())
    }

    /// Returns all devices of the btrfs file system that the device with these numbers belongs to; empty for other
    /// devices.
    pub(super) fn btrfs_members(&self, major: u32, minor: u32) -> Vec<String> {
        let wanted = format!("{major}:{minor}");
        let Ok(file_systems) = fs::read_dir(self.root.join("fs/btrfs")) else {
            return Vec::new();
        };
        for file_system in file_systems.flatten() {
            let Ok(devices) = fs::read_dir(file_system.path().join("devices")) else {
                continue;
            };
            let devices: Vec<PathBuf> = devices.flatten().map(|entry| entry.path()).collect();
            if devices.iter().any(|device| text(&device.join("dev")).as_deref() == Some(&wanted)) {
                let mut names: Vec<String> = devices.iter().filter_map(|path| kernel_name(path)).collect();
                names.sort();
                return names;
            }
        }
        Vec::new()
    }
}

/// Returns the name as /proc/diskstats writes it: sysfs cannot have a slash in a name and shows `!` instead.
pub(super) fn kernel_name(directory: &Path) -> Option<String> {
    Some(directory.file_name()?.to_str()?.replace('!', "/"))
}

/// Returns the scheduler in brackets; older kernels write only `none`, without brackets.
fn chosen(line: &str) -> String {
    line.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']')).unwrap_or(line).to_owned()
}

pub(super) fn text(path: &Path) -> Option<String> {
    let text = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A device that a test makes: (number, directory below `devices`, files with their texts).
    type MadeDevice<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

    /// Makes a tree like /sys with one device for each entry.
    pub(in crate::device) fn tree(devices: &[MadeDevice<'_>]) -> (tempfile::TempDir, Sysfs) {
        let root = tempfile::tempdir().expect("a directory");
        let links = root.path().join("dev/block");
        fs::create_dir_all(&links).expect("the links' directory");
        for (number, place, files) in devices {
            let directory = root.path().join("devices").join(place);
            fs::create_dir_all(&directory).expect("the device's directory");
            fs::write(directory.join("dev"), format!("{number}\n")).expect("its number");
            for (name, content) in *files {
                let file = directory.join(name);
                fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
                fs::write(file, content).expect("a file");
            }
            symlink(&directory, links.join(number)).expect("the link");
        }
        let sysfs = Sysfs { root: root.path().to_path_buf() };
        (root, sysfs)
    }

    #[test]
    fn an_nvme_partition_leads_to_its_whole_disk_and_the_disks_properties() {
        let (_root, sysfs) = tree(&[
            (
                "259:0",
                "pci/nvme/nvme0/nvme0n1",
                &[
                    ("device/model", "SAMSUNG MZVL2512  \n"),
                    ("queue/logical_block_size", "4096\n"),
                    ("queue/rotational", "0\n"),
                    ("queue/scheduler", "[none] mq-deadline kyber\n"),
                    ("queue/read_ahead_kb", "128\n"),
                ],
            ),
            ("259:1", "pci/nvme/nvme0/nvme0n1/nvme0n1p1", &[("partition", "1\n")]),
        ]);
        let device = sysfs.describe(259, 1);
        assert_eq!(device.name.as_deref(), Some("nvme0n1"));
        assert_eq!(device.partition.as_deref(), Some("nvme0n1p1"));
        assert_eq!(device.major_minor.as_deref(), Some("259:0"));
        assert_eq!(device.model.as_deref(), Some("SAMSUNG MZVL2512"));
        assert_eq!(device.logical_block_size_bytes, Some(4096));
        assert_eq!(device.rotational, Some(false));
        assert_eq!(device.scheduler.as_deref(), Some("none"));
        assert_eq!(device.read_ahead_bytes, Some(131_072));
        assert_eq!(device.reason, None);
    }

    #[test]
    fn the_partitions_of_a_disk_are_known_by_their_numbers() {
        let (_root, sysfs) = tree(&[
            ("8:0", "pci/sda", &[("mq/0/nr_tags", "64\n")]),
            ("8:1", "pci/sda/sda1", &[("partition", "1\n")]),
            ("8:2", "pci/sda/sda2", &[("partition", "2\n")]),
        ]);
        assert_eq!(sysfs.partitions(8, 0), ["8:1", "8:2"]);
        assert!(sysfs.partitions(8, 1).is_empty());
        assert!(sysfs.partitions(9, 9).is_empty());
        assert!(sysfs.has_requests(8, 0));
        assert!(!sysfs.has_requests(8, 1));
    }

    #[test]
    fn stacked_and_odd_devices_keep_their_own_names() {
        let (_root, sysfs) = tree(&[
            ("253:0", "virtual/block/dm-0", &[("dm/name", "vg0-data\n"), ("queue/scheduler", "none\n")]),
            ("9:127", "virtual/block/md127", &[]),
            ("252:0", "virtual/block/zram0", &[]),
            ("104:0", "pci/cciss!c0d0", &[("queue/scheduler", "noop deadline [cfq]\n")]),
        ]);
        let dm = sysfs.describe(253, 0);
        assert_eq!((dm.name.as_deref(), dm.model.as_deref()), (Some("dm-0"), Some("vg0-data")));
        assert_eq!(dm.scheduler.as_deref(), Some("none"));
        assert_eq!(sysfs.describe(9, 127).name.as_deref(), Some("md127"));
        assert_eq!(sysfs.describe(252, 0).name.as_deref(), Some("zram0"));
        let cciss = sysfs.describe(104, 0);
        assert_eq!(cciss.name.as_deref(), Some("cciss/c0d0"));
        assert_eq!(cciss.scheduler.as_deref(), Some("cfq"));
    }

    #[test]
    fn a_number_sysfs_does_not_know_gives_a_reason() {
        let (_root, sysfs) = tree(&[]);
        let device = sysfs.describe(8, 1);
        assert_eq!(device.name, None);
        assert!(device.reason.is_some_and(|reason| reason.contains("8:1")));
    }
}
