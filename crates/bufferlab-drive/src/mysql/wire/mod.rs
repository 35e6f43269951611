//! Sends commands over an open connection, and reads their answers. To execute a prepared statement, the wire makes one
//! write, and reads the answer in place without allocating memory.
//!
//! The protocol is the client/server protocol 4.1 (MySQL internals manual, "Text Protocol", "Prepared Statements";
//! MariaDB's "Protocol"). The [login](super::login) negotiates it without compression and with EOF packets. This module
//! bounds and checks everything that a server sends: a broken answer is an error, after which the connection is lost.

mod answer;
mod bytes;
mod execute;
mod packets;
mod row;

use std::io::{Read, Write};

use bufferlab_workload::client::Value;

pub use self::answer::{End, TextRows};
pub(super) use self::bytes::{Bytes, broken};
use self::packets::Packets;
pub use self::row::{Columns, Row, Unreadable};
use super::error::MysqlError;
use crate::server::patience::{Patience, is_a_step};
use crate::server::python_session::Table;
use crate::server::stream::Stream;

const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_CLOSE: u8 = 0x19;
const COM_QUIT: u8 = 0x01;
const ERR: u8 = 0xff;
/// Most bytes of a file that one packet carries.
const FILE_PIECE_BYTES: usize = 1 << 20;

/// A prepared statement, with its columns as the server described them.
pub struct Statement {
    /// The statement's number at the server.
    pub id: u32,
    /// The number of the statement's parameters.
    pub parameters: usize,
    /// The columns of the statement's rows.
    pub columns: Columns,
}

/// The stream of a connection, and buffers that all statements share.
pub struct Wire {
    stream: Stream,
    request: Vec<u8>,
    packets: Packets,
    login: Patience,
}

/// A stream for one exchange with a time limit, which holds however slowly the server sends.
struct Bounded<'a>(&'a mut Stream, Patience);

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            self.0.set_read_timeout(self.1.step()?)?;
            match self.0.read(buffer) {
                Err(error) if is_a_step(&error) => {}
                done => return done,
            }
        }
    }
}

impl Wire {
    /// Makes a wire over the stream of a connection that has not logged in. Until the login ends, packets must be
    /// short, and all of them must come within `login`.
    pub(super) fn new(stream: Stream, login: Patience) -> Self {
        Wire { stream, request: Vec::with_capacity(4096), packets: Packets::of_login(), login }
    }

    /// Returns the connection's stream.
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Replaces the stream by the one that `change` makes from it, for example to begin TLS.
    ///
    /// # Errors
    /// When the server has sent bytes before the change, because TLS would not protect them; the error of `change`.
    pub(super) fn exchange<E: From<MysqlError>>(
        self,
        change: impl FnOnce(Stream) -> Result<Stream, E>,
    ) -> Result<Self, E> {
        if self.packets.has_unused() {
            return Err(MysqlError::from(broken("it sends something before TLS begins")).into());
        }
        Ok(Wire { stream: change(self.stream)?, ..self })
    }

    /// Ends the login: allows longer packets from now on, up to `limit_bytes`.
    pub(super) fn logged_in(&mut self, limit_bytes: usize) {
        self.packets.logged_in(limit_bytes);
    }

    /// Reads a packet of a login.
    ///
    /// # Errors
    /// When the connection fails, or the server refuses the login.
    pub(super) fn login_packet(&mut self) -> Result<&[u8], MysqlError> {
        match self.packets.next(&mut Bounded(&mut self.stream, self.login))? {
            packet if packet.first() == Some(&ERR) => Err(answer::refused(packet)),
            packet => Ok(packet),
        }
    }

    /// Sends the answer to the packet read last.
    ///
    /// # Errors
    /// When the connection fails.
    pub(super) fn reply(&mut self, bytes: &[u8]) -> Result<(), MysqlError> {
        packets::begin(&mut self.request);
        self.request.extend_from_slice(bytes);
        self.send_next()
    }

    fn send_next(&mut self) -> Result<(), MysqlError> {
        packets::end_at(&mut self.request, self.packets.next_number())?;
        Ok(self.stream.write_all(&self.request)?)
    }

    /// Sends one execution of a prepared statement. Call [`Wire::answer`] next.
    ///
    /// # Errors
    /// When the connection fails, or the parameters do not fit into one packet.
    pub fn execute<'v, V>(&mut self, statement: u32, params: V) -> Result<(), MysqlError>
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
    /// When the statement does not fit into one packet, the connection fails, the answer breaks the protocol, or the
    /// server refuses the statement.
    pub fn command(&mut self, sql: &str) -> Result<End, MysqlError> {
        self.ask(COM_QUERY, sql.as_bytes())?;
        self.skip()
    }

    /// Waits for the end of an answer, and discards its rows.
    ///
    /// # Errors
    /// The errors of [`Wire::command`].
    pub fn skip(&mut self) -> Result<End, MysqlError> {
        answer::skip(&mut self.packets, &mut self.stream)
    }

    /// Sends a statement as text, and calls `row` for each of its rows.
    ///
    /// # Errors
    /// The errors of [`Wire::command`].
    pub fn command_each(&mut self, sql: &str, row: &mut dyn FnMut()) -> Result<End, MysqlError> {
        self.ask(COM_QUERY, sql.as_bytes())?;
        answer::each(&mut self.packets, &mut self.stream, &mut |_| {
            row();
            Ok(())
        })
    }

    /// Sends a statement as text and returns its rows, of which there must be few.
    ///
    /// # Errors
    /// The errors of [`Wire::command`]; when the rows have more than 32 MiB.
    pub fn rows(&mut self, sql: &str) -> Result<TextRows, MysqlError> {
        self.ask(COM_QUERY, sql.as_bytes())?;
        answer::text(&mut self.packets, &mut self.stream)
    }

    /// Sends a statement of any length as text, and returns the rows of its first result.
    ///
    /// # Errors
    /// The errors of [`Wire::command`]; when the patience ends, or the answer is larger than `most_bytes`.
    pub(super) fn table(&mut self, sql: &[u8], patience: Patience, most_bytes: usize) -> Result<Table, MysqlError> {
        packets::write_long(&mut self.stream, &[&[COM_QUERY], sql].concat())?;
        answer::table(&mut self.packets, &mut Bounded(&mut self.stream, patience), most_bytes)
    }

    /// Sends a LOAD DATA LOCAL statement. Then sends the content of its file: the pieces that `next` returns, until it
    /// returns none.
    ///
    /// # Errors
    /// The errors of [`Wire::command`].
    pub fn load_local<T: AsRef<[u8]>>(
        &mut self,
        sql: &str,
        next: &mut dyn FnMut() -> Option<T>,
    ) -> Result<End, MysqlError> {
        self.ask(COM_QUERY, sql.as_bytes())?;
        match self.packets.next(&mut self.stream)? {
            packet if packet.first() == Some(&answer::LOCAL_FILE) => {}
            packet if packet.first() == Some(&ERR) => return Err(answer::refused(packet)),
            _ => return Err(broken("it does not take the file of a LOAD DATA LOCAL").into()),
        }
        while let Some(text) = next() {
            for piece in text.as_ref().chunks(FILE_PIECE_BYTES) {
                packets::begin(&mut self.request);
                self.request.extend_from_slice(piece);
                self.send_next()?;
            }
        }
        packets::begin(&mut self.request);
        self.send_next()?;
        self.skip()
    }

    /// Prepares a statement; returns its number at the server, its number of parameters, and its columns.
    ///
    /// # Errors
    /// The errors of [`Wire::command`].
    pub fn prepare(&mut self, sql: &str) -> Result<Statement, MysqlError> {
        self.ask(COM_STMT_PREPARE, sql.as_bytes())?;
        let packet = self.packets.next(&mut self.stream)?;
        if packet.first() == Some(&ERR) {
            return Err(answer::refused(packet));
        }
        let mut rest = Bytes(packet);
        let (status, id, columns, parameters) = (rest.u8()?, rest.u32()?, rest.u16()?, usize::from(rest.u16()?));
        if status != 0 {
            return Err(broken("no answer to a preparation").into());
        }
        let mut statement = Statement { id, parameters, columns: Columns::default() };
        if parameters > 0 {
            answer::definitions(&mut self.packets, &mut self.stream, parameters, &mut |_| Ok(()))?;
        }
        if columns > 0 {
            let take = &mut |packet: &[u8]| statement.columns.push(packet);
            answer::definitions(&mut self.packets, &mut self.stream, columns.into(), take)?;
        }
        Ok(statement)
    }

    /// Closes a prepared statement at the server, which does not answer.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn close(&mut self, statement: u32) -> Result<(), MysqlError> {
        self.ask(COM_STMT_CLOSE, &statement.to_le_bytes())
    }

    /// Sends the message that ends the connection, and ignores a server that no longer listens.
    pub(super) fn quit(&mut self) {
        let _ = self.ask(COM_QUIT, &[]);
    }

    /// Reads the answer to an execution and passes every row to `take`. Returns the number of rows that a writing
    /// statement affected.
    ///
    /// # Errors
    /// When the connection fails, the answer is broken, or the server refuses the statement.
    pub fn answer(&mut self, columns: &mut Columns, mut take: impl FnMut(Row<'_>)) -> Result<u64, MysqlError> {
        answer::read(&mut self.packets, &mut self.stream, columns, &mut take)
    }

    fn ask(&mut self, command: u8, bytes: &[u8]) -> Result<(), MysqlError> {
        packets::begin(&mut self.request);
        self.request.push(command);
        self.request.extend_from_slice(bytes);
        self.send()
    }

    fn send(&mut self) -> Result<(), MysqlError> {
        packets::end(&mut self.request)?;
        Ok(self.stream.write_all(&self.request)?)
    }
}
