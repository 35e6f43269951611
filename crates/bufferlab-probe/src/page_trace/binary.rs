//! The executable segments of a binary. Their bytes identify the build, whether its symbols were stripped or not.

use std::fs::File;
use std::path::Path;

use object::elf::{PF_X, PT_LOAD};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, ReadCache};

use crate::tracefs::TraceError;

/// A part of a binary's file that the loader maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The segment's place in the file, in bytes from its beginning.
    pub offset: u64,
    /// The segment's address, without the load address.
    pub address: u64,
    /// The segment's length in the file, in bytes.
    pub bytes: u64,
    /// Whether the segment is code.
    pub executable: bool,
}

/// Returns the segments of a binary.
///
/// # Errors
/// When the file cannot be read, or is not an ELF file of 64 bits.
pub fn segments(binary: &Path) -> Result<Vec<Segment>, TraceError> {
    let file = File::open(binary);
    let file = file.map_err(|error| TraceError::io("the server's binary cannot be read", binary, &error))?;
    let cache = ReadCache::new(file);
    let parsed = ElfFile64::<Endianness, _>::parse(&cache).map_err(|error| {
        let hint = "name the server's own binary, not a script that starts it";
        TraceError::new(format!("this is no binary of Linux: {error}"), binary.display().to_string(), hint)
    })?;
    let endian = parsed.endian();
    let headers = parsed.elf_program_headers().iter().filter(|header| header.p_type(endian) == PT_LOAD);
    Ok(headers
        .map(|header| {
            let (offset, bytes) = header.file_range(endian);
            let executable = header.p_flags(endian).contains(PF_X);
            Segment { offset, address: header.p_vaddr(endian), bytes, executable }
        })
        .collect())
}

/// Returns offset and length of each executable segment in a binary's file.
///
/// # Errors
/// As [`segments`].
pub fn executable_segments(binary: &Path) -> Result<Vec<(u64, u64)>, TraceError> {
    let executable = segments(binary)?.into_iter().filter(|segment| segment.executable);
    Ok(executable.map(|segment| (segment.offset, segment.bytes)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_has_executable_bytes_and_a_text_has_none() {
        let own = std::env::current_exe().expect("a program");
        let length = own.metadata().expect("a file").len();
        let segments = executable_segments(&own).expect("it is a binary");
        assert!(!segments.is_empty());
        assert!(segments.iter().all(|(offset, bytes)| *bytes > 0 && offset + bytes <= length));
        let text = executable_segments(Path::new("Cargo.toml")).expect_err("a text");
        assert!(text.what.contains("no binary"), "{text}");
    }
}
