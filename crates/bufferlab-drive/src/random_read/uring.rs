//! Keeps many reads in flight on one thread through `io_uring`, with at most one system call for each read.
//!
//! When a read ends, the ring submits the next one at once. If reads were submitted together at the end of a round,
//! they would reach the device in bursts, and a fast device would be idle between them. At a depth of 16 that reduced
//! the reads of 4 KiB a second by 8 %.
//!
//! The ring registers the buffers and the file once, so that the kernel need not look them up for every read. Without
//! the permission of the kernel, or room in the limit of locked memory, it works unregistered. If an older kernel
//! refuses newer flags, the ring does not use them.

use std::io;
use std::os::fd::RawFd;

use io_uring::{IoUring, opcode, squeue, types};

use super::memory::Buffers;
use super::opened_file::{read_failed, read_short};
use super::reader::{Reader, now_ns};
use crate::failure::{Failure, FailureKind};

/// Checks whether this process may use `io_uring`.
///
/// # Errors
/// The kernel's refusal: it has no `io_uring` (`ENOSYS`), forbids it (`EPERM`), or may lock no more memory (`ENOMEM`).
pub fn is_available() -> io::Result<()> {
    build(2).map(drop)
}

fn build(entries: u32) -> io::Result<IoUring> {
    let mut newest = IoUring::builder();
    // The kernel does not interrupt this thread for completions; the thread handles them when it asks for them (Linux
    // 6.1).
    newest.setup_clamp().setup_single_issuer().setup_defer_taskrun();
    match newest.build(entries) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::builder().build(entries),
        built => built,
    }
}

/// A ring with its buffers. Only the thread that made the ring uses it.
pub(super) struct Ring {
    ring: IoUring,
    file: RawFd,
    bytes: u32,
    buffers: Buffers,
    /// For each buffer the offset of its read in flight, and the read's start in nanoseconds.
    flights: Vec<(u64, u64)>,
    /// Whether the kernel has registered the buffers.
    pub buffers_registered: bool,
    file_registered: bool,
}

impl Ring {
    /// Makes a ring for `depth` reads of `bytes` bytes in flight.
    pub fn new(file: RawFd, depth: usize, bytes: usize) -> io::Result<Self> {
        let ring = build(u32::try_from(depth).map_err(io::Error::other)?)?;
        let buffers = Buffers::new(depth, bytes as u64)?;
        // SAFETY: the buffers live as long as the ring, which is dropped before them (order of the fields).
        let buffers_registered = unsafe { ring.submitter().register_buffers(&buffers.io_vectors()) }.is_ok();
        let file_registered = ring.submitter().register_files(&[file]).is_ok();
        let bytes = u32::try_from(bytes).map_err(io::Error::other)?;
        Ok(Ring { ring, file, bytes, buffers, flights: vec![(0, 0); depth], buffers_registered, file_registered })
    }

    fn entry(&self, place: usize, offset: u64) -> squeue::Entry {
        let (memory, bytes) = (self.buffers.at(place), self.bytes);
        let read = |fd| match self.buffers_registered {
            true => match fd {
                Handle::Registered(fd) => {
                    opcode::ReadFixed::new(fd, memory, bytes, place as u16).offset(offset).build()
                }
                Handle::Plain(fd) => opcode::ReadFixed::new(fd, memory, bytes, place as u16).offset(offset).build(),
            },
            false => match fd {
                Handle::Registered(fd) => opcode::Read::new(fd, memory, bytes).offset(offset).build(),
                Handle::Plain(fd) => opcode::Read::new(fd, memory, bytes).offset(offset).build(),
            },
        };
        let handle = match self.file_registered {
            true => Handle::Registered(types::Fixed(0)),
            false => Handle::Plain(types::Fd(self.file)),
        };
        read(handle).user_data(place as u64)
    }

    /// Puts a read into the submission queue.
    fn push(&mut self, place: usize, offset: u64, now_ns: u64) -> Result<(), Failure> {
        self.flights[place] = (offset, now_ns);
        let entry = self.entry(place, offset);
        // SAFETY: the buffer is this ring's own, no other read in flight uses it, and it outlives the read: `read_all`
        // waits for every read before it returns.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| broken("the submission queue is full"))
    }

    /// Reads until `reader` has no more offsets and no read is in flight.
    pub fn read_all(&mut self, reader: &mut Reader<'_>) -> Result<(), Failure> {
        let mut in_flight = 0;
        let mut outcome = Ok(());
        let start_ns = now_ns();
        for place in 0..self.flights.len() {
            let Some(offset) = reader.take() else { break };
            self.push(place, offset, start_ns)?;
            in_flight += 1;
        }
        // The completions of one round, copied so that the ring can take new reads meanwhile.
        let mut ended: Vec<(usize, i32)> = Vec::with_capacity(self.flights.len());
        while in_flight > 0 {
            if let Err(error) = self.ring.submit_and_wait(1) {
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                // The kernel may still write into the buffers, so never free them.
                std::mem::forget(std::mem::replace(&mut self.buffers, Buffers::new(1, 1).map_err(|_| lost(&error))?));
                return Err(lost(&error));
            }
            let now_ns = now_ns();
            ended.extend(self.ring.completion().map(|done| (done.user_data() as usize, done.result())));
            let mut left = ended.len();
            for (place, result) in ended.drain(..) {
                left -= 1;
                let (offset, begun_ns) = self.flights[place];
                in_flight -= 1;
                match self.judged(reader, offset, result) {
                    Ok(true) => reader.done(offset, now_ns - begun_ns),
                    Ok(false) => {
                        self.push(place, offset, begun_ns)?;
                        in_flight += 1;
                        continue;
                    }
                    Err(failure) if outcome.is_ok() => outcome = Err(failure),
                    Err(_) => {}
                }
                if outcome.is_ok()
                    && let Some(next) = reader.take()
                {
                    self.push(place, next, now_ns)?;
                    in_flight += 1;
                    if left > 0 {
                        // Do not submit after the last completion: the next wait submits that read. It also submits any
                        // read that the kernel refuses here.
                        let _ = self.ring.submit();
                    }
                }
            }
            // Ignore that the part is over: reads in flight have begun in it, so wait for them.
            let _ = reader.round(now_ns);
        }
        outcome
    }

    /// Returns true when the read returned all of its bytes, false when the caller must submit it again.
    fn judged(&self, reader: &Reader<'_>, offset: u64, result: i32) -> Result<bool, Failure> {
        let bytes = self.bytes as usize;
        match usize::try_from(result) {
            Ok(read) if read == bytes => Ok(true),
            Ok(read) => Err(read_short(reader.path(), offset, bytes, read)),
            Err(_) if [-libc::EAGAIN, -libc::EINTR].contains(&result) => Ok(false),
            Err(_) => Err(read_failed(reader.path(), offset, bytes, &io::Error::from_raw_os_error(-result))),
        }
    }
}

/// How the ring's requests identify the file.
enum Handle {
    Registered(types::Fixed),
    Plain(types::Fd),
}

fn broken(what: &str) -> Failure {
    Failure::new(FailureKind::Internal, what, "io_uring", "please report this with the run's worker.log")
}

fn lost(error: &io::Error) -> Failure {
    let what = format!("io_uring refused to wait for reads: {error}");
    Failure::new(FailureKind::Io, what, "io_uring", "use --set backend=threads")
}
