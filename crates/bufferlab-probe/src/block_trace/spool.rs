//! The files of a trace that is not decoded yet: the buffer's pages, one file per processor, and the formats with which
//! to read them. These are `header_page` and `<tracepoint>.format`, which the tracer copied from tracefs at its start.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bytes that must stay free on the disk: a trace that fills the disk would end the run.
const SPARE_BYTES: u64 = 512 << 20;
/// Bytes between two checks of the free space.
const LOOK_BYTES: u64 = 16 << 20;
const BUFFER_BYTES: usize = 1 << 18;

pub(super) const HEADER_PAGE: &str = "header_page";
pub(super) const FORMAT: &str = "format";

/// Returns the file of one processor's pages.
pub(super) fn pages_of(directory: &Path, cpu: u32) -> PathBuf {
    directory.join(format!("cpu{cpu}.pages"))
}

/// Returns the processors that have a file.
pub(super) fn cpus(directory: &Path) -> io::Result<Vec<u32>> {
    let names = fs::read_dir(directory)?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut cpus: Vec<u32> =
        names.filter_map(|name| name.strip_prefix("cpu")?.strip_suffix(".pages")?.parse().ok()).collect();
    cpus.sort_unstable();
    Ok(cpus)
}

/// A writer of pages that checks the disk's free space.
pub(super) struct SpoolWriter {
    directory: PathBuf,
    file: BufWriter<File>,
    written: u64,
    looked: u64,
}

impl SpoolWriter {
    pub(super) fn create(directory: &Path, cpu: u32) -> io::Result<Self> {
        let file = BufWriter::with_capacity(BUFFER_BYTES, File::create(pages_of(directory, cpu))?);
        Ok(Self { directory: directory.to_path_buf(), file, written: 0, looked: 0 })
    }

    /// Appends one page.
    pub(super) fn page(&mut self, page: &[u8]) -> io::Result<()> {
        if self.written >= self.looked {
            self.looked = self.written + LOOK_BYTES;
            if free_bytes(&self.directory)? < SPARE_BYTES {
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
        }
        self.written += page.len() as u64;
        self.file.write_all(page)
    }

    /// Writes the buffered pages; returns the bytes of all pages.
    pub(super) fn close(mut self) -> io::Result<u64> {
        self.file.flush()?;
        Ok(self.written)
    }
}

fn free_bytes(directory: &Path) -> io::Result<u64> {
    let path = std::ffi::CString::new(directory.as_os_str().as_bytes())?;
    let mut found = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path is a valid C string, and the structure is valid to write.
    if unsafe { libc::statvfs(path.as_ptr(), found.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, and zeros are a valid value besides.
    let found = unsafe { found.assume_init() };
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_kept_per_processor_and_in_order() {
        let place = tempfile::tempdir().expect("a directory");
        let mut writer = SpoolWriter::create(place.path(), 3).expect("it can be written");
        writer.page(&[1; 64]).expect("there is room");
        writer.page(&[2; 64]).expect("there is room");
        assert_eq!(writer.close().expect("it ends"), 128);
        assert_eq!(cpus(place.path()).expect("it is there"), [3]);
        let pages = fs::read(pages_of(place.path(), 3)).expect("the file");
        assert_eq!((pages.len(), pages[0], pages[127]), (128, 1, 2));
    }
}
