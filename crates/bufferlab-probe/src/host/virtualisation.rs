//! Finds out whether this is a virtual machine or a container, and of which product. It uses only what an ordinary user
//! may read: the processor's hypervisor leaf and flag, DMI strings, marker files.

use super::text;
use std::path::Path;

/// Returns the hypervisor's name, `none` on bare metal, or None when unknown.
pub(super) fn hypervisor(cpuinfo: &str) -> Option<String> {
    // The kernel of WSL2 has Microsoft's name in its release; the processor would only report Hyper-V.
    if text("/proc/sys/kernel/osrelease").is_some_and(|release| release.contains("microsoft")) {
        return Some("wsl".to_owned());
    }
    let flagged = has_hypervisor_flag(cpuinfo);
    let named = flagged
        .then(hypervisor_signature)
        .flatten()
        .and_then(|signature| known_signature(&signature))
        .or_else(|| dmi_strings().iter().find_map(|text| known_product(text)));
    match (named, flagged) {
        (Some(name), _) => Some(name.to_owned()),
        (None, true) => Some("unknown hypervisor".to_owned()),
        // The flag is reliable only on x86; other machines without a known name stay unknown.
        (None, false) if cfg!(any(target_arch = "x86_64", target_arch = "x86")) => Some("none".to_owned()),
        (None, false) => None,
    }
}

/// Returns the container engine around this process, by the file with which the engine marks its containers.
pub(super) fn container() -> Option<String> {
    if Path::new("/.dockerenv").exists() {
        return Some("docker".to_owned());
    }
    if Path::new("/run/.containerenv").exists() {
        return Some("podman".to_owned());
    }
    // By systemd's convention, every container manager writes its name into this file.
    text("/run/systemd/container").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty())
}

fn has_hypervisor_flag(cpuinfo: &str) -> bool {
    cpuinfo
        .lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

fn known_signature(signature: &[u8; 12]) -> Option<&'static str> {
    match signature {
        b"KVMKVMKVM\0\0\0" | b"Linux KVM Hv" => Some("kvm"),
        b"VMwareVMware" => Some("vmware"),
        b"Microsoft Hv" => Some("hyper-v"),
        b"XenVMMXenVMM" => Some("xen"),
        b"TCGTCGTCGTCG" => Some("qemu"),
        b"VBoxVBoxVBox" => Some("virtualbox"),
        b"bhyve bhyve " => Some("bhyve"),
        b"ACRNACRNACRN" => Some("acrn"),
        _ => None,
    }
}

/// Returns the product of a virtual machine whose maker or product is named in its firmware tables.
fn known_product(text: &str) -> Option<&'static str> {
    const PRODUCTS: [(&str, &str); 10] = [
        ("KVM", "kvm"),
        ("OpenStack", "kvm"),
        ("Google Compute Engine", "kvm"),
        ("Amazon EC2", "kvm"),
        ("QEMU", "qemu"),
        ("VMware", "vmware"),
        ("VirtualBox", "virtualbox"),
        ("innotek", "virtualbox"),
        ("Xen", "xen"),
        ("Parallels", "parallels"),
    ];
    // "Amazon EC2" is also the maker of the cloud's bare-metal machines, whose product ends in ".metal".
    if text.contains(".metal") {
        return None;
    }
    PRODUCTS.into_iter().find(|(part, _)| text.contains(part)).map(|(_, name)| name)
}

fn dmi_strings() -> Vec<String> {
    ["product_name", "sys_vendor", "bios_vendor"]
        .into_iter()
        .filter_map(|name| text(&format!("/sys/class/dmi/id/{name}")))
        .collect()
}

/// Returns the twelve bytes that a hypervisor puts where the processor would name its maker. Call it only when the flag
/// is set.
#[cfg(target_arch = "x86_64")]
fn hypervisor_signature() -> Option<[u8; 12]> {
    const HYPERVISOR_LEAF: u32 = 0x4000_0000;
    // SAFETY: every x86_64 processor has the instruction, and it only reads. (Newer compilers call it safe.)
    #[allow(unused_unsafe)]
    let leaf = unsafe { std::arch::x86_64::__cpuid(HYPERVISOR_LEAF) };
    let mut signature = [0; 12];
    for (place, register) in signature.chunks_exact_mut(4).zip([leaf.ebx, leaf.ecx, leaf.edx]) {
        place.copy_from_slice(&register.to_le_bytes());
    }
    Some(signature)
}

#[cfg(not(target_arch = "x86_64"))]
fn hypervisor_signature() -> Option<[u8; 12]> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_a_whole_word_of_the_flags_line() {
        assert!(has_hypervisor_flag("flags\t\t: fpu hypervisor lahf_lm\n"));
        assert!(!has_hypervisor_flag("flags\t\t: fpu lahf_lm\nmodel name: hypervisor\n"));
        assert!(!has_hypervisor_flag(""));
    }

    #[test]
    fn makers_are_known_by_signature_and_by_product_but_a_clouds_bare_metal_is_not_virtual() {
        assert_eq!(known_signature(b"KVMKVMKVM\0\0\0"), Some("kvm"));
        assert_eq!(known_signature(b"GenuineIntel"), None);
        assert_eq!(known_product("Standard PC (Q35 + ICH9, 2009) QEMU\n"), Some("qemu"));
        assert_eq!(known_product("PowerEdge R740\n"), None);
        assert_eq!(known_product("m5.metal\n"), None);
    }
}
