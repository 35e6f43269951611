//! Does one read after the other on one thread, by `pread` or by a copy from a mapping.

use std::io;
use std::os::fd::RawFd;

use super::memory::{Buffers, Mapping};
use super::opened_file::{read_failed, read_short};
use super::reader::{Reader, now_ns};
use crate::failure::Failure;

/// Reads with `pread` until `reader` has no more offsets.
pub(super) fn with_pread(reader: &mut Reader<'_>, file: RawFd, buffers: &Buffers) -> Result<(), Failure> {
    let (bytes, memory) = (reader.io_size(), buffers.at(0));
    let mut begun_ns = now_ns();
    while let Some(offset) = reader.take() {
        loop {
            // SAFETY: the buffer is this thread's own and at least this large.
            let read = unsafe { libc::pread64(file, memory.cast(), bytes, offset as libc::off64_t) };
            match usize::try_from(read) {
                Ok(read) if read == bytes => break,
                Ok(read) => return Err(read_short(reader.path(), offset, bytes, read)),
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(read_failed(reader.path(), offset, bytes, &error));
                    }
                }
            }
        }
        let ended_ns = now_ns();
        reader.done(offset, ended_ns - begun_ns);
        begun_ns = reader.round(ended_ns);
    }
    Ok(())
}

/// Copies from the mapping until `reader` has no more offsets.
pub(super) fn with_mapping(reader: &mut Reader<'_>, mapping: &Mapping, buffers: &Buffers) {
    let (bytes, memory) = (reader.io_size(), buffers.at(0));
    let mut begun_ns = now_ns();
    while let Some(offset) = reader.take() {
        // SAFETY: the buffer is this thread's own and at least this large.
        unsafe { mapping.copy(offset, bytes, memory) };
        let ended_ns = now_ns();
        reader.done(offset, ended_ns - begun_ns);
        begun_ns = reader.round(ended_ns);
    }
}
