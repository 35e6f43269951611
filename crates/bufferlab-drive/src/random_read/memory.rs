//! Memory for reads: page-aligned buffers, which a reader allocates once, and mappings of a file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// Memory that this process got from mmap(2). Dropping the value returns the memory to the kernel.
struct Mapped {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapped {
    fn new(bytes: usize, protection: i32, flags: i32, fd: i32) -> io::Result<Self> {
        // SAFETY: the call makes a new mapping at an address that the kernel chooses, and touches no memory in use.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Mapped { start, bytes })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: only this value owns the mapping, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: the memory belongs to the owner of the value; no thread keeps state about it.
unsafe impl Send for Mapped {}
// SAFETY: shared references give out only addresses; the code that reads or writes there says why that is sound.
unsafe impl Sync for Mapped {}

/// Buffers of equal size, each aligned to a page, because direct I/O needs that. The kernel may keep them registered.
pub(super) struct Buffers {
    memory: Mapped,
    each_bytes: usize,
    count: usize,
}

impl Buffers {
    /// Makes `count` buffers for reads of `bytes` bytes, resident from the start.
    pub fn new(count: usize, bytes: u64) -> io::Result<Self> {
        let each_bytes = (bytes as usize).next_multiple_of(super::pages::PAGE_BYTES as usize);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        let memory = Mapped::new(each_bytes * count, libc::PROT_READ | libc::PROT_WRITE, flags, -1)?;
        Ok(Buffers { memory, each_bytes, count })
    }

    /// Returns the address of a buffer.
    pub fn at(&self, place: usize) -> *mut u8 {
        assert!(place < self.count, "there is no buffer {place}");
        self.memory.start.as_ptr().wrapping_add(place * self.each_bytes)
    }

    /// Returns all buffers in the form that the kernel takes.
    pub fn io_vectors(&self) -> Vec<libc::iovec> {
        (0..self.count).map(|place| libc::iovec { iov_base: self.at(place).cast(), iov_len: self.each_bytes }).collect()
    }
}

/// A file's bytes as read-only memory.
///
/// If the file becomes shorter while it is mapped, or its device fails, touching the mapping raises SIGBUS, which ends
/// the process. Readers check the file's size before they read a mapping, and the parent process reports the signal.
pub(super) struct Mapping {
    memory: Mapped,
}

impl Mapping {
    /// Maps the first `bytes` of a file, with or without advice that reads are random.
    pub fn new(file: &File, bytes: u64, advise_random: bool) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let mapping = Mapping { memory: Mapped::new(bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd())? };
        if advise_random {
            // SAFETY: advice about a mapping that exists changes no byte of it.
            let told = unsafe { libc::madvise(mapping.memory.start.as_ptr().cast(), bytes, libc::MADV_RANDOM) };
            if told != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(mapping)
    }

    /// Copies `bytes` bytes of the mapping, from `offset` on, to `to`.
    ///
    /// # Safety
    /// `to` is valid for writes of `bytes`, and no other code uses that memory.
    pub unsafe fn copy(&self, offset: u64, bytes: usize, to: *mut u8) {
        let offset = offset as usize;
        assert!(offset + bytes <= self.memory.bytes, "{bytes} bytes at {offset} are not mapped");
        // SAFETY: the source lies inside the mapping; the caller has promised that the target is valid.
        unsafe { std::ptr::copy_nonoverlapping(self.memory.start.as_ptr().add(offset), to, bytes) };
        std::hint::black_box(to);
    }

    /// Returns the number of the mapping's pages that are in the page cache now.
    pub fn resident_pages(&self) -> io::Result<u64> {
        const STEP_BYTES: usize = 1 << 30;
        let mut seen = vec![0_u8; STEP_BYTES / super::pages::PAGE_BYTES as usize];
        let mut resident = 0;
        let mut at = 0;
        while at < self.memory.bytes {
            let bytes = STEP_BYTES.min(self.memory.bytes - at);
            // SAFETY: the range is mapped, and `seen` has a byte for each of its pages.
            let told = unsafe { libc::mincore(self.memory.start.as_ptr().add(at).cast(), bytes, seen.as_mut_ptr()) };
            if told != 0 {
                return Err(io::Error::last_os_error());
            }
            let pages = bytes.div_ceil(super::pages::PAGE_BYTES as usize);
            resident += seen[..pages].iter().filter(|&&page| page & 1 == 1).count() as u64;
            at += bytes;
        }
        Ok(resident)
    }
}
