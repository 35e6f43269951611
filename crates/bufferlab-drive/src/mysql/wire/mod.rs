//! The path of prepared statements on an open connection: it writes once, reads the answer in place, and allocates
//! nothing.
//!
//! The library connects, authenticates and prepares; between two of its commands the socket is quiet, and this executes
//! on it. Client/server protocol 4.1 in its binary form (MySQL internals manual, "Prepared Statements"; MariaDB's
//! "Protocol"), without compression and TLS, with EOF packets, as the library negotiates. This module bounds and checks
//! everything that a server sends: a broken answer is an error, after which the connection is lost.

mod answer;
mod bytes;
mod execute;
mod packets;
mod row;

use std::io::Write;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use bufferlab_workload::client::Value;
use mysql::Conn;

use self::packets::Packets;
pub use self::row::{Columns, Row, Unreadable};

const COM_QUERY: u8 = 0x03;

/// The socket of a connection, and buffers that every statement uses again.
pub struct Wire {
    stream: UnixStream,
    request: Vec<u8>,
    packets: Packets,
}

impl Wire {
    /// Shares the connection's socket: the library's commands and these take turns, never at the same time.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn of(conn: &Conn) -> std::io::Result<Self> {
        // SAFETY: the descriptor is the open connection's and is only borrowed until it has been duplicated.
        let socket = unsafe { BorrowedFd::borrow_raw(conn.as_raw_fd()) };
        // Reading and writing are the same for a TCP socket.
        let stream = UnixStream::from(socket.try_clone_to_owned()?);
        Ok(Wire { stream, request: Vec::with_capacity(4096), packets: Packets::new() })
    }

    /// Sends one execution of a prepared statement. Call [`Wire::answer`] next.
    ///
    /// # Errors
    /// When the connection fails, or the parameters do not fit into one packet.
    pub fn execute<'v, V>(&mut self, statement: u32, params: V) -> Result<(), mysql::Error>
    where
        V: Iterator<Item = Value<'v>> + Clone,
    {
        packets::begin(&mut self.request);
        execute::encode(statement, params, &mut self.request);
        self.send()
    }

    /// Sends a statement as text, waits for its end, and discards its rows.
    ///
    /// # Errors
    /// When the connection fails, or the server refuses the statement.
    pub fn command(&mut self, sql: &str) -> Result<(), mysql::Error> {
        packets::begin(&mut self.request);
        self.request.push(COM_QUERY);
        self.request.extend_from_slice(sql.as_bytes());
        self.send()?;
        answer::skip(&mut self.packets, &mut self.stream)
    }

    /// Reads the answer to an execution and passes every row to `take`. Returns the number of rows that a writing
    /// statement affected.
    ///
    /// # Errors
    /// When the connection fails, the answer is broken, or the server refuses the statement.
    pub fn answer(&mut self, columns: &mut Columns, mut take: impl FnMut(Row<'_>)) -> Result<u64, mysql::Error> {
        answer::read(&mut self.packets, &mut self.stream, columns, &mut take)
    }

    fn send(&mut self) -> Result<(), mysql::Error> {
        packets::end(&mut self.request)?;
        Ok(self.stream.write_all(&self.request)?)
    }
}
