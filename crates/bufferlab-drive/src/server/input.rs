//! Waits for an answer on a Unix socket, with one wake-up.
//!
//! The kernel wakes a thread that blocks in read(2) on a Unix stream socket also when the socket has room to write.
//! Readers and writers of the socket sleep in one queue, and read(2) does not say for which it waits (Linux,
//! net/unix/af_unix.c: `unix_write_space`, `unix_stream_data_wait`). So the client wakes when the server has taken the
//! request, finds nothing, and sleeps again: two wake-ups for each answer. With poll(2) a thread waits only for input.
//! That is one more system call, but costs less than a sleep (docs/benchmarks.md). A TCP socket wakes a thread for room
//! only if the thread waits for room.

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// The longest wait in poll(2). After it the caller waits in read(2), and the socket's time limit counts from the
/// beginning of this read.
const ONE_WAKE_UP: Duration = Duration::from_millis(100);

/// Waits until something can be read, the connection has ended, or 100 ms have passed. The caller must read next; the
/// read waits further and returns errors.
pub(crate) fn await_input(socket: &impl AsFd) {
    has_input(socket, ONE_WAKE_UP);
}

/// Returns true when something can be read, or the connection has ended, within the time `within`.
pub(crate) fn has_input(socket: &impl AsFd, within: Duration) -> bool {
    let mut poll = libc::pollfd { fd: socket.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the call gets one descriptor's record, which lives until the call is over.
    let ready = unsafe { libc::poll(&raw mut poll, 1, within.as_millis() as libc::c_int) };
    ready == 1
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;

    fn pair() -> (UnixStream, UnixStream) {
        UnixStream::pair().expect("a pair of sockets")
    }

    /// Returns the voluntary context switches of this thread.
    fn sleeps() -> i64 {
        // SAFETY: rusage is plain data, for which all zeros is a valid value, and it is valid to write.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage.ru_nvcsw
        }
    }

    #[test]
    fn bytes_and_an_end_are_input_and_silence_is_none() {
        let (mut here, mut there) = pair();
        assert!(!has_input(&here, Duration::ZERO));
        there.write_all(b"x").expect("it is open");
        assert!(has_input(&here, Duration::ZERO));
        let mut byte = [0];
        here.read_exact(&mut byte).expect("it was sent");
        assert!(!has_input(&here, Duration::ZERO));
        drop(there);
        assert!(has_input(&here, Duration::from_secs(60)));
    }

    #[test]
    fn a_wait_for_an_answer_that_does_not_come_is_handed_to_the_read() {
        let (here, _there) = pair();
        let begun = Instant::now();
        await_input(&here);
        assert!(begun.elapsed() >= ONE_WAKE_UP);
    }

    #[test]
    fn an_answer_wakes_its_reader_once_although_the_request_is_taken_before() {
        const TRIPS: i64 = 40;
        let (mut here, mut there) = pair();
        let server = std::thread::spawn(move || {
            let mut byte = [0];
            while there.read(&mut byte).is_ok_and(|count| count == 1) {
                // The reader sleeps by now. If it waited in read(2), the read above would have woken it.
                std::thread::sleep(Duration::from_millis(1));
                there.write_all(&byte).expect("it reads");
            }
        });
        let before = sleeps();
        for _ in 0..TRIPS {
            here.write_all(b"x").expect("it is open");
            // Make the reader of requests wait until the reader of answers sleeps.
            await_input(&here);
            here.read_exact(&mut [0]).expect("it answers");
        }
        let slept = sleeps() - before;
        drop(here);
        server.join().expect("it ends");
        assert!(slept <= TRIPS + TRIPS / 4, "{slept} sleeps for {TRIPS} answers");
    }
}
