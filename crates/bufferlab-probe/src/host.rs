//! Describes the machine on which a result was measured: system, processors, memory, file system, device. The
//! description has no names of hosts or users and no serial numbers, so that users may publish it with the results.

use crate::cgroup;
use crate::device::{self, Device};
use crate::memory;
use crate::parse::mountinfo::{mount_of, mounts};
use serde::Serialize;
use std::fs;
use std::path::Path;

mod virtualisation;

/// The machine, and the place on it that holds the data.
#[derive(Debug, Clone, Serialize)]
pub struct HostFingerprint {
    /// Name and version of the Linux distribution.
    pub os: Option<String>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Processor architecture.
    pub architecture: &'static str,
    /// Model of the processor.
    pub cpu_model: Option<String>,
    /// The number of processors that this process may run on.
    pub cores: Option<usize>,
    /// Bytes of memory of the machine.
    pub memory_total_bytes: Option<u64>,
    /// The tightest limit that control groups set for this process; null without one.
    pub memory_limit_bytes: Option<u64>,
    /// The control group's file that sets this memory limit.
    pub memory_limit_source: Option<String>,
    /// `none` on bare metal, else the hypervisor; null when unknown.
    pub virtualisation: Option<String>,
    /// The container engine around this process, if it leaves a marker.
    pub container: Option<String>,
    /// The file system that holds the data's path.
    pub filesystem: Option<Filesystem>,
    /// The block device that holds the data's path.
    pub device: Device,
}

/// The file system that holds a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Filesystem {
    /// The file system's kind: `ext4`, `xfs`, `overlay`...
    pub kind: String,
    /// The directory on which the file system is mounted.
    pub mount_point: String,
    /// The mounted device or source.
    pub source: String,
    /// Options of the mount and of the file system.
    pub options: String,
}

/// Returns the fingerprint of this machine for data at `path`, which need not exist yet.
pub fn fingerprint(path: &Path) -> HostFingerprint {
    let (memory_limit_bytes, memory_limit_source) = match cgroup::memory_limit() {
        Some((bytes, file)) => (Some(bytes), Some(file.display().to_string())),
        None => (None, None),
    };
    let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
    HostFingerprint {
        os: text("/etc/os-release").and_then(|release| pretty_name(&release)),
        kernel: text("/proc/sys/kernel/osrelease").map(|release| release.trim().to_owned()),
        architecture: std::env::consts::ARCH,
        cpu_model: cpu_model(&cpuinfo).or_else(|| {
            // ARM machines keep the name in the device tree.
            Some(text("/proc/device-tree/model")?.trim_end_matches('\0').to_owned())
        }),
        cores: std::thread::available_parallelism().ok().map(usize::from),
        memory_total_bytes: fs::read("/proc/meminfo").ok().and_then(|text| memory::total_bytes(&text)),
        memory_limit_bytes,
        memory_limit_source,
        virtualisation: virtualisation::hypervisor(&cpuinfo),
        container: virtualisation::container(),
        filesystem: filesystem(path),
        device: device::resolve(path),
    }
}

fn filesystem(path: &Path) -> Option<Filesystem> {
    let existing = device::nearest_existing(path).ok()?;
    let mounts = mounts(&fs::read("/proc/self/mountinfo").ok()?);
    let mount = mount_of(&mounts, &existing)?;
    Some(Filesystem {
        kind: mount.filesystem.clone(),
        mount_point: mount.mount_point.display().to_string(),
        source: mount.source.display().to_string(),
        options: merged_options(&mount.mount_options, &mount.super_options),
    })
}

/// Returns the options of both lists, each once.
fn merged_options(of_mount: &str, of_filesystem: &str) -> String {
    let mut options: Vec<&str> = Vec::new();
    for option in of_mount.split(',').chain(of_filesystem.split(',')) {
        if !option.is_empty() && !options.contains(&option) {
            options.push(option);
        }
    }
    options.join(",")
}

fn pretty_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim().trim_matches(['"', '\'']).to_owned())
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    // x86 writes "model name", POWER "cpu", RISC-V "uarch".
    ["model name", "cpu", "uarch"].into_iter().find_map(|wanted| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == wanted).then(|| value.trim().to_owned())
        })
    })
}

/// Returns a file's text, with invalid UTF-8 replaced; none if the file cannot be read.
fn text(path: &str) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_the_texts_of_several_systems() {
        let release = "NAME=\"Debian GNU/Linux\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n";
        assert_eq!(pretty_name(release).as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        assert_eq!(pretty_name("PRETTY_NAME='Void'\n").as_deref(), Some("Void"));
        assert_eq!(cpu_model("processor : 0\nmodel name\t: AMD EPYC\n").as_deref(), Some("AMD EPYC"));
        assert_eq!(cpu_model("processor : 0\ncpu\t\t: POWER9\n").as_deref(), Some("POWER9"));
        assert_eq!(cpu_model("cpu MHz : 2700\n"), None);
    }

    #[test]
    fn options_of_the_mount_and_of_the_file_system_are_named_once() {
        assert_eq!(merged_options("rw,relatime", "rw,discard"), "rw,relatime,discard");
        assert_eq!(merged_options("ro", ""), "ro");
    }

    #[test]
    fn this_host_has_a_fingerprint_that_serialises() {
        let host = fingerprint(Path::new(env!("CARGO_MANIFEST_DIR")));
        assert!(host.cores.is_some_and(|cores| cores > 0));
        assert!(host.memory_total_bytes.is_some_and(|bytes| bytes > 64 << 20));
        assert!(host.filesystem.is_some());
        let json = serde_json::to_value(&host).expect("it serialises");
        assert_eq!(json["device"]["name"].as_str(), host.device.name.as_deref());
        assert!(json["kernel"].is_string());
    }
}
