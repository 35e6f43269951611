//! Connects to a Unix socket within a time limit. A stopped server accepts no connections, so its queue of connections
//! may be full, and connect(2) would wait.

use std::io::{Error, ErrorKind};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Connects to the Unix socket at a path, within the time `within`.
///
/// # Errors
/// The system's error; `TimedOut` when the server's queue was full for all of this time.
pub(crate) fn connect_within(path: &str, within: Duration) -> Result<UnixStream, Error> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The time limit of sending is also the limit for which connect(2) waits for room in the queue (net/unix/af_unix.c,
    // unix_stream_connect).
    set_socket_timeout(&socket, Timeout::Send, Some(within))?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Err(rustix::io::Errno::AGAIN) => return Err(ErrorKind::TimedOut.into()),
        connected => connected?,
    }
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rustix::net::{bind, listen};

    use super::*;

    #[test]
    fn a_full_queue_is_waited_for_and_then_given_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let server = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("one");
        bind(&server, &SocketAddrUnix::new(&path).expect("a short path")).expect("a free path");
        listen(&server, 0).expect("it is bound");
        let path = path.to_str().expect("UTF-8");
        let _queued = connect_within(path, Duration::from_secs(5)).expect("the first waits in the queue");
        let begun = Instant::now();
        let error = connect_within(path, Duration::from_millis(100)).expect_err("there is no room");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}
