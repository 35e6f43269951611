//! /proc/self/mountinfo: the mounts, with their places, sources and options. Layout: proc(5). Blanks and backslashes in
//! paths are octal escapes; a path need not be UTF-8.

use super::{fields, lines, number};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Major number of the file system's device; 0 if it has no block device.
    pub major: u32,
    /// Minor number of the file system's device.
    pub minor: u32,
    /// The directory of the file system that is this mount's root: a bind mount shows only a part of a file system.
    pub root: PathBuf,
    /// The directory on which the file system is mounted.
    pub mount_point: PathBuf,
    /// Options of this mount.
    pub mount_options: String,
    /// The file system's kind: `ext4`, `tmpfs`, `overlay`...
    pub filesystem: String,
    /// The mounted source: a device's path, or a word that the file system chose.
    pub source: PathBuf,
    /// Options of the file system.
    pub super_options: String,
}

impl Mount {
    /// Returns the value of a `name=value` option of the file system.
    pub fn super_option(&self, name: &str) -> Option<&str> {
        self.super_options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }
}

/// Returns all mounts, in the file's order; skips lines that are not mounts.
pub fn mounts(text: &[u8]) -> Vec<Mount> {
    lines(text).filter_map(mount).collect()
}

/// Returns the mount on which a path lies: the one with the deepest mount point above the path, and of several at the
/// same mount point the last.
pub fn mount_of<'a>(mounts: &'a [Mount], absolute_path: &Path) -> Option<&'a Mount> {
    mounts
        .iter()
        .filter(|mount| absolute_path.starts_with(&mount.mount_point))
        .max_by_key(|mount| mount.mount_point.components().count())
}

fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = fields(line);
    let _mount_id = fields.next()?;
    let _parent_id = fields.next()?;
    let mut numbers = fields.next()?.splitn(2, |byte| *byte == b':');
    let major = u32::try_from(number(numbers.next()?)?).ok()?;
    let minor = u32::try_from(number(numbers.next()?)?).ok()?;
    let root = path(fields.next()?);
    let mount_point = path(fields.next()?);
    let mount_options = text(fields.next()?);
    // Any number of optional fields precedes the single hyphen.
    fields.by_ref().find(|field| *field == b"-")?;
    let filesystem = text(fields.next()?);
    let source = path(fields.next()?);
    let super_options = fields.next().map(text).unwrap_or_default();
    Some(Mount { major, minor, root, mount_point, mount_options, filesystem, source, super_options })
}

fn path(field: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(unescaped(field)))
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(&unescaped(field)).into_owned()
}

/// Undoes the kernel's `\040` escapes.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        match tail {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..] if first == b'\\' => {
                bytes.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest = tail;
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOUNTINFO: &[u8] = include_bytes!("../../testdata/mountinfo");

    #[test]
    fn the_deepest_mount_above_a_path_wins_and_of_equals_the_last() {
        let mounts = mounts(MOUNTINFO);
        let on = |path: &str| mount_of(&mounts, Path::new(path)).map(|mount| mount.filesystem.as_str());
        assert_eq!(on("/home/data.db"), Some("ext4"));
        assert_eq!(on("/dev/shm/x"), Some("tmpfs"));
        assert_eq!(on("/srv/pool/data.db"), Some("btrfs"));
        // A second file system mounted over the first hides it.
        assert_eq!(on("/mnt/twice/x"), Some("xfs"));
        // A longer name is not a deeper directory.
        assert_eq!(on("/srv/pool2/x"), Some("ext4"));
    }

    #[test]
    fn escaped_blanks_and_optional_fields_are_understood() {
        let mounts = mounts(MOUNTINFO);
        let mount = mount_of(&mounts, Path::new("/mnt/my disk/x")).expect("the mount with a blank");
        assert_eq!(mount.source, Path::new("/dev/nvme0n1p1"));
        assert_eq!((mount.major, mount.minor), (259, 1));
        assert_eq!(mount.super_options, "rw");
    }

    #[test]
    fn an_option_of_the_file_system_is_found_by_its_whole_name() {
        let mounts = mounts(MOUNTINFO);
        let overlay = mount_of(&mounts, Path::new("/merged/x")).expect("the overlay");
        assert_eq!(overlay.super_option("upperdir"), Some("/var/upper"));
        assert_eq!(overlay.super_option("upper"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..400)) {
            mount_of(&mounts(&text), Path::new("/a/b"));
        }

        #[test]
        fn a_damaged_file_is_survived(cut in 0..1500_usize, at in 0..1500_usize, byte: u8) {
            let mut text = MOUNTINFO[..cut.min(MOUNTINFO.len())].to_vec();
            if let Some(place) = text.get_mut(at) { *place = byte; }
            mounts(&text);
        }
    }
}
