//! A session with a server: the two query protocols and COPY. [`startup`](super::startup) begins a session.
//!
//! The library `postgres-protocol` makes the messages to the server.

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use super::error::PgError;
use super::interrupt::Handle;
use super::message::{Body, Malformed, column_types, parameter_types, server_error, tagged_rows};
use super::wire::Wire;

/// The server's description of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The types of the statement's parameters, by their numbers at the server.
    pub parameters: Vec<u32>,
    /// The types of the statement's result columns, by their numbers at the server.
    pub columns: Vec<u32>,
}

/// Rows of values as text; a value is none for NULL.
pub type TextRows = Vec<Vec<Option<String>>>;

/// The most bytes of rows that one answer may have as text.
const MOST_TEXT_BYTES: usize = 32 << 20;

/// The rows of an answer, which may have at most [`MOST_TEXT_BYTES`].
#[derive(Default)]
struct Few {
    rows: TextRows,
    bytes: usize,
}

impl Few {
    fn push(&mut self, row: Vec<Option<String>>) -> Result<(), PgError> {
        let text: usize = row.iter().flatten().map(String::len).sum();
        self.bytes += size_of::<Vec<Option<String>>>() + size_of_val(&*row) + text;
        if self.bytes > MOST_TEXT_BYTES {
            return Err(Malformed("more rows than the question can have".into()).into());
        }
        self.rows.push(row);
        Ok(())
    }
}

/// A session that has logged in at a server and can execute statements.
pub struct Connection {
    /// The session's socket and buffers.
    pub wire: Wire,
    pub(super) process_id: i32,
    pub(super) secret_key: i32,
    pub(super) server_version: String,
    /// The server's last status: `I` outside of a transaction, `T` in one, `E` in one that failed.
    pub(super) transaction: u8,
}

pub(super) fn unexpected(tag: u8) -> PgError {
    Malformed(format!("an unexpected message {:?}", char::from(tag)).into()).into()
}

impl Connection {
    /// Returns the version in the server's own words: "15.18 (Debian 15.18-0+deb12u1)".
    pub fn server_version(&self) -> &str {
        &self.server_version
    }

    /// Returns `I` outside of a transaction, `T` in one, `E` in one that failed.
    pub fn transaction(&self) -> u8 {
        self.transaction
    }

    /// Returns the handle that interrupts the connection.
    ///
    /// # Errors
    /// The system's error.
    pub fn handle(&self) -> Result<Handle, PgError> {
        let hang_up = self.wire.hang_up()?;
        Ok(Handle { process_id: self.process_id, secret_key: self.secret_key, hang_up })
    }

    /// Returns the server's error, from the message read last.
    pub fn said(&self) -> PgError {
        server_error(self.wire.body()).map_or_else(PgError::from, |error| PgError::Server(Box::new(error)))
    }

    pub(super) fn ready(&mut self) -> Result<(), PgError> {
        self.transaction = Body(self.wire.body()).byte()?;
        Ok(())
    }

    /// Reads a message that has to be of the type `tag`.
    ///
    /// # Errors
    /// The server's error, if the message is one; when the message has another type.
    pub fn expect(&mut self, tag: u8) -> Result<(), PgError> {
        match self.wire.read()? {
            read if read == tag => {
                if tag == b'Z' {
                    self.ready()?;
                }
                Ok(())
            }
            b'E' => Err(self.said()),
            read => Err(unexpected(read)),
        }
    }

    /// Reads all messages after an error, until the server waits for a query and the connection is usable. Returns
    /// `error`, or the error that ended the connection meanwhile.
    pub fn recover(&mut self, error: PgError) -> PgError {
        if !error.leaves_the_connection_whole() {
            return error;
        }
        loop {
            match self.wire.read() {
                Ok(b'Z') => return self.ready().err().unwrap_or(error),
                Ok(b'E') if !self.said().leaves_the_connection_whole() => return self.said(),
                // The failed statement had begun a copy from the client.
                Ok(b'G') => {
                    if let Err(lost) = self.refuse_copy() {
                        return lost;
                    }
                }
                Ok(_) => {}
                Err(lost) => return lost,
            }
        }
    }

    /// Ends a copy for which the server waits for data. In the extended protocol the server has discarded the Sync at
    /// the end of the exchange, so this sends another Sync.
    pub(super) fn refuse_copy(&mut self) -> Result<(), PgError> {
        frontend::copy_fail("bufferlab sends no data to a statement of a script", &mut self.wire.out)?;
        frontend::sync(&mut self.wire.out);
        self.wire.flush()
    }

    /// Executes statements in the simple protocol. Returns the rows of all statements, as text.
    ///
    /// # Errors
    /// The first error, also when the rows are too large. After an error of the server the connection is usable.
    pub fn query(&mut self, sql: &str) -> Result<TextRows, PgError> {
        let mut few = Few::default();
        self.query_each(sql, &mut |row| few.push(row))?;
        Ok(few.rows)
    }

    /// Executes statements in the simple protocol and discards their rows.
    ///
    /// # Errors
    /// The errors of [`Connection::query`].
    pub fn execute(&mut self, sql: &str) -> Result<(), PgError> {
        self.query_each(sql, &mut |_| Ok(()))
    }

    fn query_each(
        &mut self,
        sql: &str,
        take: &mut dyn FnMut(Vec<Option<String>>) -> Result<(), PgError>,
    ) -> Result<(), PgError> {
        frontend::query(sql, &mut self.wire.out)?;
        self.wire.flush()?;
        loop {
            match self.wire.read()? {
                b'D' => take(self.text_row()?)?,
                b'Z' => return self.ready(),
                b'G' => {
                    frontend::copy_fail("bufferlab sends no data to a statement of a script", &mut self.wire.out)?;
                    self.wire.flush()?;
                }
                // Ignore ends of commands, descriptions of rows, and data of COPY TO STDOUT.
                b'C' | b'T' | b'I' | b'H' | b'd' | b'c' => {}
                b'E' => {
                    let error = self.said();
                    return Err(self.recover(error));
                }
                tag => return Err(unexpected(tag)),
            }
        }
    }

    fn text_row(&self) -> Result<Vec<Option<String>>, PgError> {
        let mut body = Body(self.wire.body());
        let count = body.count()?;
        let mut row = Vec::new();
        for _ in 0..count {
            row.push(body.value()?.map(|value| String::from_utf8_lossy(value).into_owned()));
        }
        Ok(row)
    }

    /// Prepares a statement under a name; returns the server's description.
    ///
    /// # Errors
    /// When the statement does not compile, after which the connection is still usable; when the connection fails.
    pub fn prepare(&mut self, name: &str, sql: &str) -> Result<Described, PgError> {
        frontend::parse(name, sql, [], &mut self.wire.out)?;
        frontend::describe(b'S', name, &mut self.wire.out)?;
        frontend::sync(&mut self.wire.out);
        self.wire.flush()?;
        let described = self.described();
        match described {
            Ok(described) => {
                self.expect(b'Z')?;
                Ok(described)
            }
            Err(error) => Err(self.recover(error)),
        }
    }

    fn described(&mut self) -> Result<Described, PgError> {
        self.expect(b'1')?;
        self.expect(b't')?;
        let parameters = parameter_types(self.wire.body())?;
        let columns = match self.wire.read()? {
            b'T' => column_types(self.wire.body())?,
            b'n' => Vec::new(),
            b'E' => return Err(self.said()),
            tag => return Err(unexpected(tag)),
        };
        Ok(Described { parameters, columns })
    }

    /// Executes a prepared statement without parameters; returns its rows as text.
    ///
    /// # Errors
    /// The errors of [`Connection::query`].
    pub fn execute_prepared(&mut self, name: &str) -> Result<TextRows, PgError> {
        bind_and_execute(name, &mut self.wire.out)?;
        // A portal left open in a transaction keeps its snapshot, and the server keeps every row version since then.
        // Index scans then get more and more pages (seen: 200 pages per transaction of TPC-C became 330 within 4,000
        // transactions).
        frontend::close(b'P', "", &mut self.wire.out)?;
        frontend::sync(&mut self.wire.out);
        self.wire.flush()?;
        let mut few = Few::default();
        loop {
            match self.wire.read()? {
                b'D' => few.push(self.text_row()?)?,
                b'Z' => {
                    self.ready()?;
                    return Ok(few.rows);
                }
                b'2' | b'3' | b'C' => {}
                b'E' => {
                    let error = self.said();
                    return Err(self.recover(error));
                }
                tag => return Err(unexpected(tag)),
            }
        }
    }

    /// Begins a COPY FROM STDIN. The caller sends rows by [`Connection::copy`], and ends it by
    /// [`Connection::end_copy`].
    ///
    /// # Errors
    /// The server's error.
    pub fn begin_copy(&mut self, sql: &str) -> Result<(), PgError> {
        frontend::query(sql, &mut self.wire.out)?;
        self.wire.flush()?;
        match self.expect(b'G') {
            Ok(()) => Ok(()),
            Err(error) => Err(self.recover(error)),
        }
    }

    /// Sends whole rows of a COPY. If the server refuses a row, its error comes with a later call, and the copy ends
    /// there.
    ///
    /// # Errors
    /// The server's error.
    pub fn copy(&mut self, rows: &[u8]) -> Result<(), PgError> {
        while self.wire.has_input() {
            let error = match self.wire.read_any()? {
                b'N' | b'A' | b'S' => continue,
                b'E' => self.said(),
                tag => unexpected(tag),
            };
            return Err(self.recover(error));
        }
        let too_long = |_| PgError::Value(format!("a chunk of {} bytes", rows.len()));
        let length = i32::try_from(rows.len() + 4).map_err(too_long)?;
        self.wire.out.extend_from_slice(b"d");
        self.wire.out.extend_from_slice(&length.to_be_bytes());
        self.wire.flush_with(rows)
    }

    /// Ends a COPY. Returns the number of rows that the server has stored.
    ///
    /// # Errors
    /// The server's error.
    pub fn end_copy(&mut self) -> Result<u64, PgError> {
        frontend::copy_done(&mut self.wire.out);
        self.wire.flush()?;
        match self.expect(b'C') {
            Ok(()) => {
                let rows = tagged_rows(self.wire.body())?;
                self.expect(b'Z')?;
                Ok(rows)
            }
            Err(error) => Err(self.recover(error)),
        }
    }
}

/// Appends the messages that execute a prepared statement without parameters, with its rows as text.
pub(super) fn bind_and_execute(name: &str, out: &mut BytesMut) -> Result<(), PgError> {
    let none = |_: (), _: &mut BytesMut| Ok(postgres_protocol::IsNull::Yes);
    match frontend::bind("", name, [], [], none, [], out) {
        Ok(()) => Ok(frontend::execute("", 0, out)?),
        Err(frontend::BindError::Serialization(error)) => Err(error.into()),
        Err(frontend::BindError::Conversion(error)) => Err(PgError::Value(error.to_string())),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::startup::SESSION;
    use super::super::wire::tests::{Cue, Scripted, message};
    use super::super::wire::{SILENCE, Silence};
    use super::*;
    use crate::server::target::{Place, Target};

    pub fn target() -> Target {
        Target {
            place: Place::Socket("/nowhere".to_owned()),
            user: "u".to_owned(),
            password: "p".to_owned(),
            database: "d".to_owned(),
            security: None,
        }
    }

    /// Returns the messages with which a server without passwords accepts a client.
    pub fn welcome() -> Vec<u8> {
        [
            message(b'R', &0i32.to_be_bytes()),
            message(b'S', b"server_version\x0015.18 (Debian)\0"),
            message(b'S', b"TimeZone\0UTC\0"),
            message(b'K', &[0, 0, 0, 7, 0, 0, 0, 9]),
            message(b'Z', b"I"),
        ]
        .concat()
    }

    /// Returns a session with a server that then sends `cues`.
    pub fn connection(cues: impl IntoIterator<Item = Vec<u8>>) -> Connection {
        let cues = std::iter::once(welcome()).chain(cues).map(Cue::Bytes);
        started(Scripted::new(cues)).expect("it lets everybody in")
    }

    pub fn started(server: Scripted) -> Result<Connection, PgError> {
        Connection::start(Wire::new(Box::new(server), Silence::Fatal, SILENCE)?, &target(), "d", &SESSION)
    }

    pub fn error(severity: &str, code: &str) -> Vec<u8> {
        message(b'E', format!("V{severity}\0C{code}\0Mwords\0\0").as_bytes())
    }

    #[test]
    fn a_session_knows_the_server_and_how_to_interrupt_it() {
        let connection = connection([]);
        assert_eq!(connection.server_version(), "15.18 (Debian)");
        let handle = connection.handle().expect("a script has one");
        assert_eq!((handle.process_id, handle.secret_key, connection.transaction()), (7, 9, b'I'));
    }

    #[test]
    fn rows_are_read_as_text_and_an_error_leaves_the_connection_usable() {
        let row = message(b'D', b"\0\x02\0\0\0\x0215\xff\xff\xff\xff");
        let good = [message(b'T', b"\0\0"), row, message(b'C', b"SELECT 1\0"), message(b'Z', b"I")].concat();
        let bad = [error("ERROR", "42P01"), message(b'Z', b"E")].concat();
        let mut connection = connection([bad, good]);
        assert_eq!(connection.query("SELECT").expect_err("there is no such table").code(), "42P01");
        assert_eq!(connection.transaction(), b'E');
        assert_eq!(connection.query("SELECT").expect("it answers"), [[Some("15".to_owned()), None]]);
    }

    #[test]
    fn a_server_that_ends_is_heard_to_the_end() {
        let mut connection = connection([[error("ERROR", "XX000"), error("FATAL", "57P01")].concat()]);
        assert_eq!(connection.query("SELECT").expect_err("it ends").code(), "57P01");
    }

    #[test]
    fn a_copy_is_broken_off_by_the_servers_error() {
        let mut connection =
            connection([message(b'G', b"\0\0\0"), [error("ERROR", "53100"), message(b'Z', b"I")].concat()]);
        connection.begin_copy("COPY t FROM STDIN").expect("it wants rows");
        assert_eq!(connection.copy(b"1\n").expect_err("its disk is full").code(), "53100");
    }

    #[test]
    fn endless_rows_are_refused_where_few_are_expected() {
        let row = message(b'D', &[&b"\0\x01\0\0\x40\0"[..], &[b'x'; 0x4000]].concat());
        let endless: Vec<Vec<u8>> = vec![row.repeat(64); 33];
        let mut connection = connection(endless);
        let error = connection.query("SELECT").expect_err("nobody keeps them all");
        assert!(error.to_string().contains("more rows"), "{error}");
        assert!(!error.leaves_the_connection_whole());
    }

    #[test]
    fn a_prepared_statement_is_described() {
        let described =
            [message(b'1', b""), message(b't', b"\0\x01\0\0\0\x17"), message(b'n', b""), message(b'Z', b"I")].concat();
        let expected = Described { parameters: vec![23], columns: Vec::new() };
        assert_eq!(connection([described]).prepare("s0", "DELETE").expect("it compiles"), expected);
        let refused = [error("ERROR", "42601"), message(b'Z', b"I")].concat();
        assert_eq!(connection([refused]).prepare("s0", "DELET").expect_err("it does not").code(), "42601");
    }
}
