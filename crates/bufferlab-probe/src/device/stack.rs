//! The devices below a stacked device: LVM, dm-crypt, multipath (device mapper), md RAID and loop devices. This file
//! walks `slaves/` of Documentation/ABI/stable/sysfs-block, and a loop device's backing file, down to whole disks. The
//! walk ends at a depth and a number of disks that no real machine has.

use super::identity::{Device, Disk, device_number};
use super::sysfs::{Sysfs, kernel_name, text};
use std::fs;
use std::path::{Path, PathBuf};

const MAX_DEPTH: usize = 16;
const MAX_DISKS: usize = 256;

/// The layers of a stack, from the top, and the disks at its bottom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Stack {
    /// The kind of each stacked device, such as `dm-0 (lvm vg0-data)`, `md127 (raid1)`, `loop0 (/srv/disk.img)`.
    pub(super) layers: Vec<String>,
    /// Every whole disk at the bottom of the stack once, in the order of names.
    pub(super) disks: Vec<Disk>,
}

/// Returns the stack below the device in this directory of /sys; empty for a plain disk.
pub(super) fn below(sysfs: &Sysfs, directory: &Path) -> Stack {
    let mut stack = Stack::default();
    descend(sysfs, directory, 0, &mut stack);
    if stack.layers.is_empty() {
        return Stack::default();
    }
    stack.disks.sort();
    stack.disks.dedup();
    stack
}

fn descend(sysfs: &Sysfs, directory: &Path, depth: usize, stack: &mut Stack) {
    if depth > MAX_DEPTH || stack.disks.len() >= MAX_DISKS {
        return;
    }
    let disk = sysfs.whole_disk(directory);
    // Partitions may be slaves themselves, and dm devices may lie on partitions of an md device.
    let below = lower_devices(sysfs, &disk);
    let Some(name) = kernel_name(&disk) else { return };
    if below.is_empty() {
        if let Some(major_minor) = text(&disk.join("dev")) {
            stack.disks.push(Disk { name, major_minor });
        }
        return;
    }
    let layer = describe(&disk, &name);
    if !stack.layers.contains(&layer) {
        stack.layers.push(layer);
    }
    for lower in below {
        descend(sysfs, &lower, depth + 1, stack);
    }
}

/// Returns the directories of the devices directly below, in the order of their names.
fn lower_devices(sysfs: &Sysfs, disk: &Path) -> Vec<PathBuf> {
    let mut lower: Vec<PathBuf> = fs::read_dir(disk.join("slaves"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.path().canonicalize().ok())
        .collect();
    lower.sort();
    if lower.is_empty()
        && let Some(backing) = text(&disk.join("loop/backing_file"))
        && let Ok((major, minor)) = device_number(Path::new(&backing))
        && let Some(directory) = sysfs.directory(major, minor)
    {
        lower.push(directory);
    }
    lower
}

fn describe(disk: &Path, name: &str) -> String {
    let kind = if let Some(mapped) = text(&disk.join("dm/name")) {
        // The prefix of the uuid names the tool that made the mapping: LVM-, CRYPT-, mpath-, part1-mpath-...
        let uuid = text(&disk.join("dm/uuid")).unwrap_or_default();
        let maker = uuid.split_once('-').map_or("device mapper", |(maker, _)| maker).to_lowercase();
        format!("{maker} {mapped}")
    } else if let Some(level) = text(&disk.join("md/level")) {
        level
    } else if let Some(backing) = text(&disk.join("loop/backing_file")) {
        backing
    } else {
        return name.to_owned();
    };
    format!("{name} ({kind})")
}

impl Device {
    /// Returns the device with the stack below it.
    pub(super) fn with_stack(mut self, stack: Stack) -> Self {
        self.layers = stack.layers;
        self.disks = stack.disks;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::sysfs::tests::tree;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    /// Puts `lower` (a directory below devices) among the slaves of `upper`.
    fn lay_on(root: &Path, upper: &str, lower: &str) {
        let slaves = root.join("devices").join(upper).join("slaves");
        fs::create_dir_all(&slaves).expect("the slaves' directory");
        let name = Path::new(lower).file_name().expect("a name");
        symlink(root.join("devices").join(lower), slaves.join(name)).expect("the link");
    }

    fn names(device: &super::Device) -> Vec<&str> {
        device.disks.iter().map(|disk| disk.name.as_str()).collect()
    }

    #[test]
    fn lvm_on_a_mirror_of_two_partitions_names_every_layer_and_both_whole_disks() {
        let (root, sysfs) = tree(&[
            ("8:0", "pci/sda", &[]),
            ("8:1", "pci/sda/sda1", &[("partition", "1\n")]),
            ("8:16", "pci/sdb", &[]),
            ("8:17", "pci/sdb/sdb1", &[("partition", "1\n")]),
            ("9:127", "virtual/block/md127", &[("md/level", "raid1\n")]),
            ("253:0", "virtual/block/dm-0", &[("dm/name", "vg0-data\n"), ("dm/uuid", "LVM-abc\n")]),
        ]);
        lay_on(root.path(), "virtual/block/md127", "pci/sda/sda1");
        lay_on(root.path(), "virtual/block/md127", "pci/sdb/sdb1");
        lay_on(root.path(), "virtual/block/dm-0", "virtual/block/md127");
        let device = sysfs.describe(253, 0);
        assert_eq!(device.name.as_deref(), Some("dm-0"));
        assert_eq!(device.layers, ["dm-0 (lvm vg0-data)", "md127 (raid1)"]);
        assert_eq!(names(&device), ["sda", "sdb"]);
        assert_eq!(device.disks[1].major_minor, "8:16");
    }

    #[test]
    fn two_ways_to_one_disk_count_it_once() {
        let (root, sysfs) = tree(&[
            ("8:0", "pci/sda", &[]),
            ("8:1", "pci/sda/sda1", &[("partition", "1\n")]),
            ("8:2", "pci/sda/sda2", &[("partition", "2\n")]),
            ("253:1", "virtual/block/dm-1", &[("dm/name", "striped\n")]),
        ]);
        lay_on(root.path(), "virtual/block/dm-1", "pci/sda/sda1");
        lay_on(root.path(), "virtual/block/dm-1", "pci/sda/sda2");
        let device = sysfs.describe(253, 1);
        assert_eq!(names(&device), ["sda"]);
        assert_eq!(device.layers, ["dm-1 (device mapper striped)"]);
    }

    #[test]
    fn a_plain_disk_and_its_partition_have_no_stack() {
        let (_root, sysfs) = tree(&[("8:0", "pci/sda", &[]), ("8:1", "pci/sda/sda1", &[("partition", "1\n")])]);
        for minor in [0, 1] {
            let device = sysfs.describe(8, minor);
            assert!(device.layers.is_empty() && device.disks.is_empty(), "{device:?}");
        }
    }

    #[test]
    fn a_loop_of_slaves_ends() {
        let (root, sysfs) = tree(&[
            ("253:0", "virtual/block/dm-0", &[("dm/name", "a\n")]),
            ("253:1", "virtual/block/dm-1", &[("dm/name", "b\n")]),
        ]);
        lay_on(root.path(), "virtual/block/dm-0", "virtual/block/dm-1");
        lay_on(root.path(), "virtual/block/dm-1", "virtual/block/dm-0");
        let device = sysfs.describe(253, 0);
        assert_eq!(device.layers.len(), 2);
        assert!(device.disks.is_empty());
    }
}
