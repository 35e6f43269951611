//! The file or block device that a run reads: opens it read-only, checks its size, and controls its pages in the page
//! cache.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, Advice, AtFlags, StatxFlags, access, fadvise, ioctl_blksszget, statx};

use super::job::{Cache, IoMode, Reads, Run, SECTOR_BYTES};
use super::memory::{Buffers, Mapping};
use crate::failure::{Failure, FailureKind};
use crate::storage::storage_read_bytes;

/// From linux/fs.h: `_IO(0x12, 97)` flushes the buffer cache.
const BLKFLSBUF: libc::c_ulong = 0x1261;
/// The number of tries to drop pages. The first may fail for some pages, because the kernel keeps lists of pages per
/// processor core and empties them only a moment later.
const TRIES_TO_DROP: u32 = 8;

/// The file or block device of a run.
pub(super) struct OpenedFile {
    /// The descriptor for reads, opened with O_DIRECT in direct mode.
    pub file: File,
    /// A descriptor without O_DIRECT, to drop and to count pages in the page cache.
    plain: File,
    path: PathBuf,
    below: Vec<File>,
    range_bytes: u64,
    is_block: bool,
    /// Whether mincore(2) is exact for this user. For other users' files it reports all pages as resident.
    may_look: bool,
    as_opened: (u64, i64, i64),
    /// The alignment of direct I/O in bytes, if known: offsets and sizes must be multiples of it.
    pub direct_alignment_bytes: Option<u64>,
}

impl OpenedFile {
    /// Opens the file of a job. Refuses a file that is too short for the job's reads, and direct I/O that does not work
    /// here.
    pub fn open(job: &Run) -> Result<Self, Failure> {
        let path = &job.path;
        let fail = |error: io::Error| unreadable(path, &error);
        let plain = OpenOptions::new().read(true).open(path).map_err(fail)?;
        let metadata = plain.metadata().map_err(fail)?;
        let is_block = metadata.file_type().is_block_device();
        if !is_block && !metadata.is_file() {
            let hint = "name a file or a block device";
            return Err(refused(path, "this is neither a file nor a block device".to_owned(), hint));
        }
        let size_bytes = size_of(&plain).map_err(fail)?;
        if job.range_bytes > size_bytes {
            return Err(too_short(path, size_bytes, job.range_bytes));
        }
        if job.range_bytes < job.reads.io_size_bytes {
            let what = format!("{} bytes do not hold one read of {}", job.range_bytes, job.reads.io_size_bytes);
            return Err(refused(path, what, "choose a larger file_size, or a smaller io_size"));
        }
        let direct = job.io_mode == IoMode::Direct;
        let file = if direct { open_direct(path)? } else { plain.try_clone().map_err(fail)? };
        let below: Result<Vec<File>, Failure> =
            job.below.iter().map(|path| File::open(path).map_err(|error| unreadable(path, &error))).collect();
        let direct_alignment_bytes = if direct { direct_alignment(&file, is_block) } else { None };
        let opened = OpenedFile {
            file,
            may_look: may_look(path, &metadata),
            plain,
            path: path.clone(),
            below: below?,
            range_bytes: job.range_bytes,
            is_block,
            as_opened: identity(&metadata),
            direct_alignment_bytes,
        };
        if direct {
            opened.check_direct(job)?;
        }
        opened.advise(job.advise_random).map_err(fail)?;
        Ok(opened)
    }

    /// Checks that direct I/O is possible with the job's sizes, and that it really bypasses the page cache.
    fn check_direct(&self, job: &Run) -> Result<(), Failure> {
        let unit = self.direct_alignment_bytes.unwrap_or(SECTOR_BYTES);
        for (name, bytes) in [("io_size", job.reads.io_size_bytes), ("alignment", job.reads.alignment_bytes)] {
            if !bytes.is_multiple_of(unit) {
                let what = format!("{name} = {bytes} bytes: direct I/O here needs multiples of {unit} bytes");
                return Err(refused(&self.path, what, "choose larger ones, or --set io_mode=buffered"));
            }
        }
        let buffers = Buffers::new(1, job.reads.io_size_bytes).map_err(|error| no_memory(&error))?;
        // Do not try offset 0, which is aligned to everything.
        let Reads { io_size_bytes, alignment_bytes, .. } = job.reads;
        let offset = if io_size_bytes + alignment_bytes <= self.range_bytes { alignment_bytes } else { 0 };
        for attempt in ["cold", "warm"] {
            // If the kernel does not count reads from storage, trust the flag O_DIRECT.
            let Ok(before) = storage_read_bytes() else { return Ok(()) };
            // SAFETY: only this function uses the buffer, which is at least this large.
            let memory = unsafe { std::slice::from_raw_parts_mut(buffers.at(0), job.reads.io_size_bytes as usize) };
            let read = self
                .file
                .read_at(memory, offset)
                .map_err(|error| read_failed(&self.path, offset, memory.len(), &error))?;
            let fetched = storage_read_bytes().map_or(0, |after| after - before);
            if fetched < read as u64 {
                let what = format!(
                    "direct I/O is accepted here but not honoured: a {attempt} read of {read} bytes fetched {fetched} \
                     from storage"
                );
                let hint = "choose a file on a local disk, or measure with --set io_mode=buffered";
                return Err(Failure::new(FailureKind::Environment, what, self.path.display().to_string(), hint));
            }
        }
        Ok(())
    }

    fn advise(&self, random: bool) -> io::Result<()> {
        if random {
            // The advice belongs to a descriptor, not to the file: give it to both.
            for file in [&self.file, &self.plain] {
                fadvise(file, 0, None, Advice::Random)?;
            }
        }
        Ok(())
    }

    /// Returns a mapping of the range that the run reads.
    pub fn map(&self, advise_random: bool) -> Result<Mapping, Failure> {
        Mapping::new(&self.plain, self.range_bytes, advise_random).map_err(|error| {
            let what = format!("{} bytes cannot be mapped: {error}", self.range_bytes);
            Failure::new(FailureKind::Environment, what, self.path.display().to_string(), "use --set io_mode=buffered")
        })
    }

    /// Brings the page cache into the state `cache`. Returns the number of the range's pages that it then holds, if
    /// this user can know.
    pub fn prepare(&self, cache: Cache, io_mode: IoMode) -> Result<Option<u64>, Failure> {
        let fail = |error: io::Error| unreadable(&self.path, &error);
        match cache {
            Cache::Warm => {
                self.read_once().map_err(fail)?;
                self.resident_pages().map_err(fail)
            }
            Cache::Cold => {
                let left = self.drop_pages().map_err(fail)?;
                match left {
                    Some(pages) if pages > 0 && io_mode != IoMode::Direct => Err(self.still_cached(pages)),
                    _ => Ok(left),
                }
            }
        }
    }

    fn still_cached(&self, pages: u64) -> Failure {
        let what = format!("{pages} pages stay in the page cache although bufferlab dropped them (cache = cold)");
        let hint = match self.is_block {
            true => "a file system on the device holds them, or only root may drop them: unmount it, or run as root",
            false => "another program has the file mapped, or writes it: stop it, or use --set cache=warm",
        };
        Failure::new(FailureKind::Environment, what, self.path.display().to_string(), hint)
    }

    fn drop_pages(&self) -> io::Result<Option<u64>> {
        let mut left = None;
        for attempt in 0..TRIES_TO_DROP {
            // Sync each file first, from the top layer down, because the kernel keeps dirty pages despite the advice.
            for file in std::iter::once(&self.plain).chain(&self.below) {
                file.sync_data()?;
                fadvise(file, 0, None, Advice::DontNeed)?;
            }
            if self.is_block && attempt > 0 {
                // SAFETY: the call takes no argument; without the right to flush it does nothing.
                unsafe { libc::ioctl(self.plain.as_raw_fd(), BLKFLSBUF, 0) };
            }
            left = self.resident_pages()?;
            if left.is_none_or(|pages| pages == 0) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20 << attempt.min(4)));
        }
        Ok(left)
    }

    fn read_once(&self) -> io::Result<()> {
        let mut memory = vec![0_u8; 1 << 20];
        let mut reader = &self.plain;
        reader.seek(SeekFrom::Start(0))?;
        let mut left = self.range_bytes;
        while left > 0 {
            let want = left.min(memory.len() as u64) as usize;
            let read = reader.read(&mut memory[..want])?;
            if read == 0 {
                break;
            }
            left -= read as u64;
        }
        Ok(())
    }

    /// Returns the number of the range's pages that are in the page cache; none if the kernel hides it from this user.
    pub fn resident_pages(&self) -> io::Result<Option<u64>> {
        if !self.may_look {
            return Ok(None);
        }
        Mapping::new(&self.plain, self.range_bytes, false)?.resident_pages().map(Some)
    }

    /// Checks that the file has neither become shorter nor changed since it was opened. Reading a mapping of a shorter
    /// file would kill the process.
    pub fn check_unchanged(&self) -> Result<(), Failure> {
        let size_bytes = size_of(&self.plain).map_err(|error| unreadable(&self.path, &error))?;
        if size_bytes < self.range_bytes {
            return Err(too_short(&self.path, size_bytes, self.range_bytes));
        }
        let metadata = self.plain.metadata().map_err(|error| unreadable(&self.path, &error))?;
        if !self.is_block && identity(&metadata) != self.as_opened {
            let what = "another program changed the file during the run";
            let hint = "use a file that no program writes, then repeat the run";
            return Err(Failure::new(FailureKind::Data, what, self.path.display().to_string(), hint));
        }
        Ok(())
    }
}

fn identity(metadata: &Metadata) -> (u64, i64, i64) {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

fn size_of(file: &File) -> io::Result<u64> {
    let mut file = file;
    file.seek(SeekFrom::End(0))
}

fn may_look(path: &Path, metadata: &Metadata) -> bool {
    // SAFETY: the call has no conditions.
    let user = unsafe { libc::geteuid() };
    user == 0 || metadata.uid() == user || access(path, Access::WRITE_OK).is_ok()
}

fn open_direct(path: &Path) -> Result<File, Failure> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => {
            let hint = "choose a file on a local disk, or measure with --set io_mode=buffered";
            let what = "its file system has no direct I/O (O_DIRECT is refused)";
            Failure::new(FailureKind::Environment, what, path.display().to_string(), hint)
        }
        _ => unreadable(path, &error),
    })
}

/// Returns the alignment of direct I/O in bytes: offsets and sizes must be multiples of it. For a block device it is
/// the logical block; for a file, statx reports it (Linux 6.1 and later).
fn direct_alignment(file: &File, is_block: bool) -> Option<u64> {
    if is_block {
        return ioctl_blksszget(file).ok().map(u64::from).filter(|&bytes| bytes > 0);
    }
    let found = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let is_known = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::DIOALIGN);
    Some(u64::from(found.stx_dio_offset_align)).filter(|&bytes| is_known && bytes > 0)
}

fn refused(path: &Path, what: String, hint: &str) -> Failure {
    Failure::new(FailureKind::Usage, what, path.display().to_string(), hint)
}

fn too_short(path: &Path, size_bytes: u64, range_bytes: u64) -> Failure {
    let what = format!("it has {size_bytes} bytes, and the run reads {range_bytes}: it is shorter than before");
    let hint = "make the file again, or ask for a smaller file_size";
    Failure::new(FailureKind::Data, what, path.display().to_string(), hint)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let mut failure = Failure::from_io("it cannot be read", path, error);
    if let Some(libc::EACCES | libc::EPERM) = error.raw_os_error() {
        "a block device needs root or the group disk; of a file, the right to read it".clone_into(&mut failure.hint);
    }
    failure
}

/// Returns the failure for a lack of memory for the reads' buffers.
pub(super) fn no_memory(error: &io::Error) -> Failure {
    let what = format!("there is no memory for the buffers: {error}");
    Failure::new(FailureKind::Environment, what, "io_size, queue_depth, threads", "ask for fewer or smaller reads")
}

/// Returns the failure of a read, with the file and the offset.
pub(super) fn read_failed(path: &Path, offset: u64, bytes: usize, error: &io::Error) -> Failure {
    let place = format!("{}, offset {offset}", path.display());
    let what = format!("a read of {bytes} bytes at offset {offset} failed: {error}");
    match error.raw_os_error() {
        Some(libc::EINVAL) => {
            let hint =
                "direct I/O needs sizes and offsets in multiples of the device's block: choose a larger alignment";
            Failure::new(FailureKind::Usage, what, place, hint)
        }
        _ => Failure::new(FailureKind::Io, what, place, crate::failure::DEVICE_ERROR_HINT),
    }
}

/// Returns the failure of a read that returned fewer bytes than it asked for.
pub(super) fn read_short(path: &Path, offset: u64, bytes: usize, read: usize) -> Failure {
    let what = format!("a read of {bytes} bytes at offset {offset} gave {read}: the file ends before");
    let place = format!("{}, offset {offset}", path.display());
    Failure::new(FailureKind::Data, what, place, "the file became shorter while it was read: make it again")
}

#[cfg(test)]
mod tests {
    use super::super::job::{Backend, Order, Reads};
    use super::*;
    use crate::job::Limit;

    fn job(path: &Path, range_bytes: u64) -> Run {
        let limit = Limit { transactions: 1, seconds: 1.0 };
        Run {
            path: path.to_path_buf(),
            range_bytes,
            below: Vec::new(),
            io_mode: IoMode::Buffered,
            advise_random: false,
            cache: Cache::Cold,
            backend: Backend::Auto,
            read_ahead_kib: None,
            reads: Reads {
                io_size_bytes: 4096,
                alignment_bytes: 4096,
                order: Order::Random,
                queue_depth: 1,
                threads: 1,
                seed: 1,
            },
            warm_up: limit,
            measure: limit,
            sample_interval: Duration::from_secs(1),
            probes: crate::probes::Asked::default(),
        }
    }

    fn file(directory: &Path, bytes: usize) -> PathBuf {
        let path = directory.join("file");
        std::fs::write(&path, vec![1_u8; bytes]).expect("a file");
        path
    }

    /// Returns a directory on a disk, in the checkout. The system's temporary directory may be in memory, and the
    /// kernel never drops such pages.
    fn on_disk() -> tempfile::TempDir {
        tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory")
    }

    #[test]
    fn pages_are_dropped_and_brought_back_and_mincore_says_so() {
        let directory = on_disk();
        let path = file(directory.path(), 64 * 4096);
        let opened = OpenedFile::open(&job(&path, 64 * 4096)).expect("it opens");
        assert_eq!(opened.prepare(Cache::Cold, IoMode::Buffered).expect("dropped"), Some(0));
        assert_eq!(opened.prepare(Cache::Warm, IoMode::Buffered).expect("read"), Some(64));
    }

    #[test]
    fn a_file_that_is_too_short_or_becomes_so_is_named_with_its_size() {
        let directory = on_disk();
        let path = file(directory.path(), 8192);
        let Err(failure) = OpenedFile::open(&job(&path, 1 << 20)) else { panic!("a short file was opened") };
        assert!(failure.what.contains("8192") && failure.kind == FailureKind::Data, "{failure:?}");
        let opened = OpenedFile::open(&job(&path, 8192)).expect("it opens");
        opened.check_unchanged().expect("nobody changed it");
        std::fs::write(&path, [0; 100]).expect("shortened");
        let failure = opened.check_unchanged().expect_err("it is shorter");
        assert!(failure.what.contains("100 bytes"), "{failure:?}");
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let Err(failure) = OpenedFile::open(&job(Path::new("/"), 8192)) else { panic!("a directory was opened") };
        assert_eq!(failure.kind, FailureKind::Usage);
        let Err(failure) = OpenedFile::open(&job(Path::new("/nonexistent/file"), 8192)) else { panic!("opened") };
        assert_eq!(failure.kind, FailureKind::Environment);
    }

    #[test]
    fn direct_reads_smaller_than_a_block_are_refused_before_any() {
        let directory = on_disk();
        let path = file(directory.path(), 64 * 4096);
        let mut job = job(&path, 64 * 4096);
        job.io_mode = IoMode::Direct;
        let Ok(opened) = OpenedFile::open(&job) else { return eprintln!("not run: no direct I/O here") };
        let unit = opened.direct_alignment_bytes.expect("this kernel tells");
        job.reads.io_size_bytes = 4096 + unit / 2;
        let Err(failure) = OpenedFile::open(&job) else { panic!("half a block was accepted") };
        assert!(failure.what.contains(&format!("multiples of {unit}")), "{failure:?}");
    }
}
