//! The memory limit that binds this process: the smallest of its control groups' and all their ancestors'. This file
//! reads both versions of the memory controller, and does not watch usage.

use crate::parse::cgroup::{limit_bytes, membership};
use crate::parse::mountinfo::{Mount, mounts};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the smallest limit in bytes and the file that sets it; None when nothing limits this process.
pub(crate) fn memory_limit() -> Option<(u64, PathBuf)> {
    let mounts = mounts(&fs::read("/proc/self/mountinfo").ok()?);
    let groups = membership(&fs::read("/proc/self/cgroup").ok()?);
    let unified = groups.unified.as_deref().and_then(|group| {
        let mount = mounts.iter().find(|mount| mount.filesystem == "cgroup2")?;
        smallest_limit(mount, group, "memory.max")
    });
    let version_1 = groups.memory.as_deref().and_then(|group| {
        let has_memory = |mount: &&Mount| mount.super_options.split(',').any(|name| name == "memory");
        let mount = mounts.iter().filter(|mount| mount.filesystem == "cgroup").find(has_memory)?;
        smallest_limit(mount, group, "memory.limit_in_bytes")
    });
    unified.into_iter().chain(version_1).min()
}

fn smallest_limit(mount: &Mount, group: &Path, file: &str) -> Option<(u64, PathBuf)> {
    // In a container the mount shows only the part of the hierarchy below its root, while the group's path may begin at
    // the top.
    let below = group.strip_prefix(&mount.root).or_else(|_| group.strip_prefix("/")).ok()?;
    mount
        .mount_point
        .join(below)
        .ancestors()
        .take_while(|directory| directory.starts_with(&mount.mount_point))
        .filter_map(|directory| {
            let path = directory.join(file);
            Some((limit_bytes(&fs::read(&path).ok()?)?, path))
        })
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hierarchy(limits: &[(&str, &str)]) -> (tempfile::TempDir, Mount) {
        let root = tempfile::tempdir().expect("a directory");
        for (group, limit) in limits {
            let directory = root.path().join(group);
            fs::create_dir_all(&directory).expect("the group");
            fs::write(directory.join("memory.max"), limit).expect("its limit");
        }
        let line = format!("1 0 0:9 / {} rw - cgroup2 cgroup2 rw\n", root.path().display());
        let mount = mounts(line.as_bytes()).remove(0);
        (root, mount)
    }

    #[test]
    fn the_smallest_limit_of_a_group_and_its_ancestors_binds() {
        let (root, mount) = hierarchy(&[("a", "1000\n"), ("a/b", "4000\n"), ("a/b/c", "max\n")]);
        let limit = smallest_limit(&mount, Path::new("/a/b/c"), "memory.max");
        assert_eq!(limit, Some((1000, root.path().join("a/memory.max"))));
    }

    #[test]
    fn a_container_that_sees_only_its_own_part_finds_its_limit() {
        let (root, mut mount) = hierarchy(&[("", "5000\n")]);
        mount.root = "/docker/1234".into();
        let limit = smallest_limit(&mount, Path::new("/docker/1234"), "memory.max");
        assert_eq!(limit, Some((5000, root.path().join("memory.max"))));
    }

    #[test]
    fn no_limit_anywhere_is_none() {
        let (_root, mount) = hierarchy(&[("a", "max\n")]);
        assert_eq!(smallest_limit(&mount, Path::new("/a"), "memory.max"), None);
    }
}
