//! /proc/meminfo and /proc/vmstat: the use of memory, and paging. Layout: proc(5). meminfo's kB and vmstat's
//! pgpgin/pgpgout are units of 1024 bytes; pswpin/pswpout are pages.

use super::named_numbers;

const KIB: u64 = 1024;

/// Sizes from /proc/meminfo, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct MemoryInfo {
    pub total_bytes: Option<u64>,
    pub free_bytes: Option<u64>,
    /// `MemAvailable`, which kernels before 3.14 lack.
    pub available_bytes: Option<u64>,
    pub buffers_bytes: Option<u64>,
    pub cached_bytes: Option<u64>,
    pub dirty_bytes: Option<u64>,
    pub writeback_bytes: Option<u64>,
}

/// Pages swapped and bytes paged since boot, from /proc/vmstat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Paging {
    pub swap_in_pages: Option<u64>,
    pub swap_out_pages: Option<u64>,
    pub paged_in_bytes: Option<u64>,
    pub paged_out_bytes: Option<u64>,
}

/// Reads /proc/meminfo.
pub fn meminfo(text: &[u8]) -> MemoryInfo {
    let names = ["MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "Dirty", "Writeback"];
    let [total, free, available, buffers, cached, dirty, writeback] = named_numbers(text, names).map(in_bytes);
    MemoryInfo {
        total_bytes: total,
        free_bytes: free,
        available_bytes: available,
        buffers_bytes: buffers,
        cached_bytes: cached,
        dirty_bytes: dirty,
        writeback_bytes: writeback,
    }
}

/// Reads /proc/vmstat.
pub fn vmstat(text: &[u8]) -> Paging {
    let [swap_in_pages, swap_out_pages, paged_in, paged_out] =
        named_numbers(text, ["pswpin", "pswpout", "pgpgin", "pgpgout"]);
    Paging { swap_in_pages, swap_out_pages, paged_in_bytes: in_bytes(paged_in), paged_out_bytes: in_bytes(paged_out) }
}

fn in_bytes(kib: Option<u64>) -> Option<u64> {
    kib?.checked_mul(KIB)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MEMINFO_3_10: &[u8] = include_bytes!("../../testdata/meminfo-3.10");
    const MEMINFO_6_18: &[u8] = include_bytes!("../../testdata/meminfo-6.18");
    const VMSTAT_6_18: &[u8] = include_bytes!("../../testdata/vmstat-6.18");

    #[test]
    fn sizes_are_bytes_and_similar_names_are_told_apart() {
        let memory = meminfo(MEMINFO_6_18);
        assert_eq!(memory.total_bytes, Some(24_684_096 * 1024));
        // The same file has SwapCached and WritebackTmp, which must not match.
        assert_eq!(memory.cached_bytes, Some(173_592 * 1024));
        assert_eq!(memory.writeback_bytes, Some(16 * 1024));
    }

    #[test]
    fn an_old_kernel_has_no_available_memory_and_that_is_not_zero() {
        let memory = meminfo(MEMINFO_3_10);
        assert_eq!(memory.available_bytes, None);
        assert_eq!(memory.free_bytes, Some(1_503_320 * 1024));
    }

    #[test]
    fn paging_is_bytes_and_swapping_is_pages() {
        let paging = vmstat(VMSTAT_6_18);
        assert_eq!(paging.paged_in_bytes, Some(1_842_233 * 1024));
        assert_eq!(paging.swap_out_pages, Some(7));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..400)) {
            meminfo(&text);
            vmstat(&text);
        }
    }
}
