//! The stream of a connection: a socket, or TLS over one; and the connecting of sockets.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::input::await_input;
use super::target::Place;
use super::unix::connect_within;
use crate::tls::Tls;

/// The longest time for connecting a socket.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A stream. The variants differ in how its bytes are protected.
pub(crate) enum Stream {
    /// A Unix socket, whose bytes do not leave this host.
    Unix(UnixStream),
    /// A TCP socket.
    Tcp(TcpStream),
    /// TLS over TCP.
    Tls(Box<Tls>),
}

impl Stream {
    /// Connects a socket to a server's place.
    ///
    /// # Errors
    /// The system's error.
    pub fn connect(place: &Place) -> io::Result<Self> {
        Ok(match place {
            Place::Socket(path) => Stream::Unix(connect_within(path, CONNECT_TIMEOUT)?),
            Place::Tcp { host, port } => Stream::Tcp(connect_tcp(host, *port)?),
        })
    }

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
        set_socket_timeout(self, Timeout::Recv, read)?;
        Ok(set_socket_timeout(self, Timeout::Send, write)?)
    }

    /// Sets the time limit of each read.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn set_read_timeout(&self, limit: Duration) -> io::Result<()> {
        Ok(set_socket_timeout(self, Timeout::Recv, Some(limit))?)
    }

    /// Returns another descriptor of the socket.
    ///
    /// # Errors
    /// When the process has no more descriptors.
    pub fn socket(&self) -> io::Result<OwnedFd> {
        self.as_fd().try_clone_to_owned()
    }
}

/// Connects to the first address of a name that answers.
///
/// # Errors
/// The error of the last address.
pub(crate) fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut refused = io::Error::new(io::ErrorKind::NotFound, "this name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => refused = error,
        }
    }
    Err(refused)
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
