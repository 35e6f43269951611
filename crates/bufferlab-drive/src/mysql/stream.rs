//! The stream of a connection: a socket, or TLS over one.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::server::input::await_input;
use crate::tls::Tls;

/// A stream. The variants differ in how its bytes are protected.
pub(super) enum Stream {
    /// A Unix socket, whose bytes do not leave this host.
    Unix(UnixStream),
    /// A TCP socket.
    Tcp(TcpStream),
    /// TLS over TCP.
    Tls(Box<Tls>),
}

impl Stream {
    /// Returns true when the bytes do not leave this host.
    pub fn is_local(&self) -> bool {
        let is_loopback =
            |socket: &TcpStream| socket.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback());
        match self {
            Stream::Unix(_) => true,
            Stream::Tcp(socket) => is_loopback(socket),
            Stream::Tls(tls) => is_loopback(tls.socket()),
        }
    }

    /// Sets the time limits of each read and of each write; none removes a limit.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn set_timeouts(&self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Unix(socket) => socket.set_read_timeout(read).and_then(|()| socket.set_write_timeout(write)),
            Stream::Tcp(socket) => socket.set_read_timeout(read).and_then(|()| socket.set_write_timeout(write)),
            Stream::Tls(tls) => {
                tls.socket().set_read_timeout(read).and_then(|()| tls.socket().set_write_timeout(write))
            }
        }
    }

    /// Sets the time limit of each read.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn set_read_timeout(&self, limit: Duration) -> io::Result<()> {
        match self {
            Stream::Unix(socket) => socket.set_read_timeout(Some(limit)),
            Stream::Tcp(socket) => socket.set_read_timeout(Some(limit)),
            Stream::Tls(tls) => tls.socket().set_read_timeout(Some(limit)),
        }
    }

    /// Returns another descriptor of the socket.
    ///
    /// # Errors
    /// When the process has no more descriptors.
    pub fn socket(&self) -> io::Result<OwnedFd> {
        self.as_fd().try_clone_to_owned()
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(socket) => socket.as_fd(),
            Stream::Tcp(socket) => socket.as_fd(),
            Stream::Tls(tls) => tls.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(socket) => {
                await_input(socket);
                socket.read(buffer)
            }
            Stream::Tcp(socket) => socket.read(buffer),
            Stream::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(socket) => socket.write(bytes),
            Stream::Tcp(socket) => socket.write(bytes),
            Stream::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Unix(_) | Stream::Tcp(_) => Ok(()),
            Stream::Tls(tls) => tls.flush(),
        }
    }
}
