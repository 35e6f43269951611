//! The common part of both recorders of a running server: checks whether this host allows programs in the kernel (BPF),
//! and gives the reason if it does not.
//!
//! Only descriptors of this process keep the programs and their links: however the process ends, the kernel removes
//! them.

use std::fmt;

use aya::Btf;

use crate::tracefs::TraceError;

/// The inode of the first PID namespace (PROC_PID_INIT_INO of the kernel's proc_ns.h), whose numbers the programs see.
const FIRST_NAMESPACE: u64 = 0xEFFF_FFFC;

/// The kernel's file with its level of lockdown, the present level in brackets (kernel_lockdown(7)).
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";

/// Returns whether the kernel is at the level of lockdown at which it refuses programs as invalid, without a reason.
fn is_secretive(lockdown: &str) -> bool {
    lockdown.contains("[confidentiality]")
}

/// Returns the kernel's description of its structures, on a host where programs can record a server.
///
/// # Errors
/// On another host, with the thing that it lacks.
pub(super) fn kernel() -> Result<Btf, TraceError> {
    if crate::tracefs::namespace() != FIRST_NAMESPACE {
        let what = "the kernel's programs name processes by other numbers than this container";
        return Err(TraceError::new(what, "/proc/self/ns/pid", "run it on the host itself, not in a container"));
    }
    if !cfg!(target_arch = "x86_64") {
        let what = "servers that run cannot be recorded on this processor";
        return Err(TraceError::new(what, std::env::consts::ARCH, "use a host with an x86-64 processor"));
    }
    if is_secretive(&std::fs::read_to_string(LOCKDOWN).unwrap_or_default()) {
        let what = "this kernel is locked down to confidentiality: programs may not read what it holds";
        return Err(TraceError::new(what, LOCKDOWN, "start it with lockdown=integrity, or without lockdown"));
    }
    Btf::from_sys_fs().map_err(|error| {
        let what = format!("this kernel does not describe its own structures: {error}");
        let hint = "use a kernel with CONFIG_DEBUG_INFO_BTF, as distributions have";
        TraceError::new(what, "/sys/kernel/btf/vmlinux", hint)
    })
}

/// Returns an error of the kernel or its loader with all its causes, in one line.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut next = Some(error);
    let mut texts = Vec::new();
    while let Some(one) = next {
        texts.push(one.to_string().lines().next().unwrap_or_default().to_owned());
        next = one.source();
    }
    texts.join(": ")
}

/// Returns the error of a kernel that refuses the programs. `what` is their work, and `since` the first kernel that has
/// them.
pub(super) fn refused(what: &str, since: &str, error: impl fmt::Display) -> TraceError {
    let hint = format!(
        "run as root (CAP_BPF and CAP_PERFMON), on a kernel of {since} or later that is not locked down \
         (/sys/kernel/security/lockdown)"
    );
    TraceError::new(format!("the kernel does not take the programs that {what}: {error}"), "bpf(2)", hint)
}

#[cfg(test)]
mod tests {
    use super::is_secretive;

    #[test]
    fn only_the_level_that_hides_the_kernels_memory_forbids_programs() {
        let levels = ["", "[none] integrity confidentiality\n", "none [integrity] confidentiality\n"];
        assert_eq!(levels.map(is_secretive), [false; 3]);
        assert!(is_secretive("none integrity [confidentiality]\n"));
    }
}
