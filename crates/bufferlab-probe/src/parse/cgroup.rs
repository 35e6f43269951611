//! /proc/self/cgroup and the limit files of the memory controller, of both versions.
//! Layout: cgroups(7), cgroup-v1/memory.rst and cgroup-v2.rst in the kernel's admin guide.

use super::{lines, number};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A limit of version 1 at or above this means no limit: the kernel then writes the largest multiple of the page size
/// that 63 bits can hold.
const NO_LIMIT_BYTES: u64 = 1 << 60;

/// The group of this process in each hierarchy of control groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Membership {
    /// The path of this process's group in the unified hierarchy (version 2), if there is that hierarchy.
    pub unified: Option<PathBuf>,
    /// The path of this process's group in the memory controller's version-1 hierarchy, if there is that hierarchy.
    pub memory: Option<PathBuf>,
}

/// Reads /proc/self/cgroup.
pub fn membership(text: &[u8]) -> Membership {
    let mut membership = Membership::default();
    for line in lines(text) {
        let mut parts = line.splitn(3, |byte| *byte == b':');
        let (Some(id), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let path = Path::new(OsStr::from_bytes(path)).to_path_buf();
        if id == b"0" && controllers.is_empty() {
            membership.unified = Some(path);
        } else if controllers.split(|byte| *byte == b',').any(|name| name == b"memory") {
            membership.memory = Some(path);
        }
    }
    membership
}

/// Returns the limit in bytes in the text of memory.max or memory.limit_in_bytes; None without one.
pub fn limit_bytes(text: &[u8]) -> Option<u64> {
    number(text.trim_ascii()).filter(|limit| *limit < NO_LIMIT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_versions_are_found_side_by_side() {
        let text = b"9:name=systemd:/\n5:cpu,memory:/jobs/7\n0::/user.slice\n";
        let membership = membership(text);
        assert_eq!(membership.memory, Some(PathBuf::from("/jobs/7")));
        assert_eq!(membership.unified, Some(PathBuf::from("/user.slice")));
    }

    #[test]
    fn no_limit_is_written_differently_by_the_two_versions() {
        assert_eq!(limit_bytes(b"max\n"), None);
        assert_eq!(limit_bytes(b"9223372036854771712\n"), None);
        assert_eq!(limit_bytes(b"2147483648\n"), Some(2_147_483_648));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            membership(&text);
            limit_bytes(&text);
        }
    }
}
