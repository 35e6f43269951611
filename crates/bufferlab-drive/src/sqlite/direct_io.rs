//! Checks whether O_DIRECT really works in a directory. Some file systems refuse the flag; others accept it, but still
//! use the page cache.
//!
//! The check reads the same page twice, and both reads must appear in `/proc/self/io` as bytes fetched from storage.
//! The same trial finds the alignment that the device demands.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::aligned_file::AlignedBuffer;
use crate::storage::storage_read_bytes;

/// The result of a trial of direct I/O in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectIo {
    /// True when reads really bypass the page cache.
    pub honoured: bool,
    /// Smallest alignment that works, in bytes; zero when none does.
    pub alignment_bytes: usize,
    /// The reason why reads do not bypass the page cache; empty if they do.
    pub reason: String,
}

const TRIAL_BYTES: usize = 256 * 1024;
const LARGEST_ALIGNMENT: usize = 65_536;

/// Tries direct I/O in `directory`: writes a small file, reads it twice with O_DIRECT, and removes it.
///
/// # Errors
/// When this user cannot write to the directory, or a read of the file fails.
pub fn check(directory: &Path) -> io::Result<DirectIo> {
    let trial = TrialFile::create(directory)?;
    let direct = match OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&trial.path) {
        Ok(direct) => direct,
        Err(error) => return Ok(refused(0, format!("opening a file with O_DIRECT is refused ({error})"))),
    };
    let Some(alignment_bytes) = smallest_alignment(&direct) else {
        return Ok(refused(0, "no alignment up to 64 KiB is accepted for an O_DIRECT read".to_owned()));
    };
    let mut memory = AlignedBuffer::new(LARGEST_ALIGNMENT, LARGEST_ALIGNMENT);
    for attempt in ["cold", "warm"] {
        let before = match storage_read_bytes() {
            Ok(bytes) => bytes,
            Err(error) => {
                return Ok(refused(alignment_bytes, format!("/proc/self/io cannot be read to verify it ({error})")));
            }
        };
        let read = direct.read_at(memory.as_mut_slice(), 0)?;
        let counted = storage_read_bytes()? - before;
        if counted < read as u64 {
            let reason = format!(
                "the flag is accepted but not honoured: a {attempt} read of {read} bytes fetched {counted} bytes from storage"
            );
            return Ok(refused(alignment_bytes, reason));
        }
    }
    Ok(DirectIo { honoured: true, alignment_bytes, reason: String::new() })
}

fn refused(alignment_bytes: usize, reason: String) -> DirectIo {
    DirectIo { honoured: false, alignment_bytes, reason }
}

/// A file that is removed at the end of the trial, also after an error.
struct TrialFile {
    path: PathBuf,
}

impl TrialFile {
    fn create(directory: &Path) -> io::Result<Self> {
        let path = directory.join(format!(".bufferlab-direct-io-{}", std::process::id()));
        // A killed process with the same ID may have left the file. Other users may write here, too, so the open below
        // follows no link.
        let _ = fs::remove_file(&path);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let trial = TrialFile { path };
        file.write_all(&vec![0xA5; TRIAL_BYTES])?;
        file.sync_all()?;
        Ok(trial)
    }
}

impl Drop for TrialFile {
    fn drop(&mut self) {
        // If the file cannot be removed, a later trial of a process with the same ID removes it.
        let _ = fs::remove_file(&self.path);
    }
}

fn smallest_alignment(direct: &File) -> Option<usize> {
    let mut memory = AlignedBuffer::new(2 * LARGEST_ALIGNMENT, 2 * LARGEST_ALIGNMENT);
    let (mut alignment, mut accepted) = (512, None);
    while alignment <= LARGEST_ALIGNMENT {
        // Address, offset and length are multiples of `alignment`, but of no larger power of two.
        let buffer = &mut memory.as_mut_slice()[alignment..2 * alignment];
        let before = storage_read_bytes();
        if direct.read_at(buffer, alignment as u64).is_ok_and(|count| count == alignment) {
            accepted = accepted.or(Some(alignment));
            // Btrfs accepts reads that are not aligned to its sector, but takes them from the page cache, which has the
            // written bytes.
            match (before, storage_read_bytes()) {
                (Ok(before), Ok(after)) if after - before < alignment as u64 => {}
                _ => return Some(alignment),
            }
        }
        alignment *= 2;
    }
    accepted
}

/// Returns the name of the file system that holds `path`, by its magic number. An unknown number is returned as
/// `0x...`, and a failure as "unknown".
pub fn filesystem_name(path: &Path) -> String {
    let Ok(system) = rustix::fs::statfs(path) else { return "unknown".to_owned() };
    // Magic numbers from linux/magic.h.
    let name = match system.f_type {
        0xEF53 => "ext4",
        0x5846_5342 => "xfs",
        0x0102_1994 => "tmpfs",
        0x9123_683E => "btrfs",
        0x794C_7630 => "overlayfs",
        0x6969 => "nfs",
        0x2FC1_2FC1 => "zfs",
        0xF2F5_2010 => "f2fs",
        0x6573_5546 => "fuse",
        other => return format!("{other:#x}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_directory_is_an_error_with_its_cause() {
        let error = check(Path::new("/nonexistent/bufferlab")).expect_err("there is no such directory");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn memory_is_not_taken_for_a_device() {
        // tmpfs either refuses O_DIRECT or, from Linux 6.6 on, accepts it and still reads from memory.
        let answer = check(Path::new("/dev/shm")).expect("/dev/shm can be written");
        assert!(!answer.honoured, "tmpfs cannot do direct I/O: {answer:?}");
        assert!(!answer.reason.is_empty());
    }

    #[test]
    fn nothing_is_left_behind() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        check(directory.path()).expect("the trial runs");
        assert_eq!(fs::read_dir(directory.path()).expect("lists").count(), 0);
    }
}
