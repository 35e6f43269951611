//! Facts about a block device: its names, its properties, its number.

use serde::Serialize;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// The whole disk under a path, or the reason why none was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Device {
    /// Name of the whole disk as in /proc/diskstats, such as `vda`, `nvme0n1`, `md0`.
    pub name: Option<String>,
    /// Name of the partition that holds the path, when it is on one.
    pub partition: Option<String>,
    /// Number of the whole disk, as `major:minor`.
    pub major_minor: Option<String>,
    /// The disk's name by the manufacturer or the device mapper.
    pub model: Option<String>,
    /// The device's logical block in bytes, the smallest unit of a direct transfer.
    pub logical_block_size_bytes: Option<u64>,
    /// Whether the device claims to have moving parts (virtual disks often do so wrongly).
    pub rotational: Option<bool>,
    /// The request scheduler that the kernel uses for the disk.
    pub scheduler: Option<String>,
    /// Bytes that the kernel reads ahead on buffered sequential reads.
    pub read_ahead_bytes: Option<u64>,
    /// For a stacked device (device mapper, md, loop): its layers from the top, each with its name and kind.
    pub layers: Vec<String>,
    /// For a stacked device: the whole disks at its bottom.
    pub disks: Vec<Disk>,
    /// The reason why no device was found.
    pub reason: Option<String>,
}

impl Device {
    pub(super) fn none(reason: String) -> Self {
        Self { reason: Some(reason), ..Self::default() }
    }
}

/// A whole disk at the bottom of a stacked device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Disk {
    /// The disk's name as in /proc/diskstats.
    pub name: String,
    /// The disk's number, as `major:minor`.
    pub major_minor: String,
}

/// Returns (major, minor) of the device that holds a file, or of a block device's node itself.
pub(super) fn device_number(path: &Path) -> std::io::Result<(u32, u32)> {
    let metadata = fs::metadata(path)?;
    let number = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    Ok((libc::major(number), libc::minor(number)))
}
