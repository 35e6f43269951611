//! Reads the number of bytes that the kernel has fetched from storage for this process.

use std::{fs, io};

/// Returns the number of bytes that the kernel has fetched from storage for this process (`read_bytes` of
/// `/proc/self/io`).
pub(crate) fn storage_read_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/io")?;
    text.lines()
        .find_map(|line| line.strip_prefix("read_bytes: ")?.trim().parse().ok())
        .ok_or_else(|| io::Error::other("no read_bytes line"))
}
