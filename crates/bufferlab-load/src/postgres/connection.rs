//! Connecting to a server and asking it: the start, with the password's proof, and the two query protocols.
//!
//! Messages to the server and SCRAM are those of the library `postgres-protocol`. A session is the same on every server,
//! whatever its configuration says. Connections are made without TLS: a private server is reached over its socket.

use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::frontend;

use super::error::{PgError, failure};
use super::message::{Body, Malformed, column_types, parameter_types, server_error, tagged_rows};
use super::target::Target;
use super::wire::{HangUp, SILENCE, Silence, Transport, Wire};
use crate::failure::{Failure, FailureKind};

/// How long a TCP connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server that has been silent is given to answer a new connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// What every session is set to: dates are UTC, texts are UTF-8, a statement sees what was committed before it began. A session
/// that waits between two measured parts is not to be ended.
const SESSION: [(&str, &str); 6] = [
    ("application_name", "bufferlab"),
    ("client_encoding", "UTF8"),
    ("TimeZone", "UTC"),
    ("DateStyle", "ISO"),
    ("default_transaction_isolation", "read committed"),
    ("idle_in_transaction_session_timeout", "0"),
];

/// How a connection can be interrupted: what the server calls it, and its socket.
#[derive(Clone)]
pub struct Handle {
    /// Process of the server that serves it.
    pub process_id: i32,
    /// Proof that one may interrupt it.
    pub secret_key: i32,
    /// Ends it from this side.
    pub hang_up: HangUp,
}

/// A statement as the server has understood it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Types of its parameters.
    pub parameters: Vec<u32>,
    /// Types of its columns.
    pub columns: Vec<u32>,
}

/// Rows of values as text.
pub type TextRows = Vec<Vec<Option<String>>>;

/// A connection that waits for a query.
pub struct Connection {
    /// Its socket and buffers.
    pub wire: Wire,
    process_id: i32,
    secret_key: i32,
    server_version: String,
    /// As the server said last: `I` outside of a transaction, `T` in one, `E` in one that failed.
    transaction: u8,
}

fn unexpected(tag: u8) -> PgError {
    Malformed(format!("a message {:?} where none such belongs", char::from(tag)).into()).into()
}

/// Connects to the target's database. What is to be done when the server is silent stands in `silence`.
///
/// # Errors
/// When the server is not there, refuses the role, or has no such database.
pub fn connect(target: &Target, silence: Silence) -> Result<Connection, Failure> {
    connect_to(target, &target.database, silence, SILENCE)
}

/// Connects to any database of the same server; `timeout` is how long it may be silent before that is looked into.
///
/// # Errors
/// As [`connect`].
pub fn connect_to(target: &Target, database: &str, silence: Silence, timeout: Duration) -> Result<Connection, Failure> {
    let place = target.place();
    if target.socket_dir.is_none() && target.host.is_none() {
        let hint = "give the directory of the server's socket, or its host";
        return Err(Failure::new(FailureKind::Usage, "nothing says where the server is", place, hint));
    }
    let transport = transport(target).map_err(|error| {
        let what = format!("connecting to the server: {error}");
        Failure::new(FailureKind::Environment, what, &place, "is it running, and is this its socket or address?")
    })?;
    let started = Wire::new(transport, silence, timeout).and_then(|wire| Connection::start(wire, target, database));
    started.map_err(|error| failure("connecting to the server", &place, &error))
}

/// Statements may take long while the server answers others.
#[must_use]
pub fn patient(target: &Target) -> Silence {
    let target = target.clone();
    Silence::Unless(Box::new(move || answers(&target)))
}

/// A new socket to the server.
pub(super) fn transport(target: &Target) -> std::io::Result<Box<dyn Transport>> {
    if let Some(path) = target.socket_path() {
        return Ok(Box::new(UnixStream::connect(path)?));
    }
    let host = target.host.as_deref().unwrap_or_default();
    let mut refused = std::io::Error::new(std::io::ErrorKind::NotFound, "this name has no address");
    for address in (host, target.port_or_default()).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(Box::new(stream));
            }
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// True when the server answers a new connection at all.
fn answers(target: &Target) -> bool {
    let ask = || -> std::io::Result<usize> {
        let mut stream = transport(target)?;
        stream.set_timeout(ANSWER_TIMEOUT)?;
        let mut request = BytesMut::new();
        // Whether it has TLS: the one question that is answered before anything is proven.
        frontend::ssl_request(&mut request);
        stream.write_all(&request)?;
        stream.read(&mut [0])
    };
    ask().is_ok_and(|bytes| bytes > 0)
}

impl Connection {
    /// Starts a session over a socket.
    ///
    /// # Errors
    /// The server's refusal, or bytes that are no server's.
    pub fn start(wire: Wire, target: &Target, database: &str) -> Result<Self, PgError> {
        let mut connection =
            Connection { wire, process_id: 0, secret_key: 0, server_version: String::new(), transaction: b'I' };
        let parameters = [("user", target.user.as_str()), ("database", database)];
        frontend::startup_message(parameters.into_iter().chain(SESSION), &mut connection.wire.out)?;
        connection.wire.flush()?;
        connection.authenticate(target)?;
        connection.settle_in()?;
        Ok(connection)
    }

    /// Proves the password in whatever way the server asks for, until it is content.
    fn authenticate(&mut self, target: &Target) -> Result<(), PgError> {
        let password = target.password.as_bytes();
        loop {
            self.expect(b'R')?;
            let mut body = Body(self.wire.body());
            match body.int()? {
                0 => return Ok(()),
                3 => frontend::password_message(password, &mut self.wire.out)?,
                5 => {
                    let salt = body.take(4)?.try_into().map_err(|_| unexpected(b'R'))?;
                    let proof = md5_hash(target.user.as_bytes(), password, salt);
                    frontend::password_message(proof.as_bytes(), &mut self.wire.out)?;
                }
                10 => {
                    self.prove_by_scram(password)?;
                    continue;
                }
                method => {
                    let what =
                        format!("it asks for a proof of kind {method}; only passwords (SCRAM, MD5) are known here");
                    return Err(Malformed(what.into()).into());
                }
            }
            self.wire.flush()?;
        }
    }

    fn prove_by_scram(&mut self, password: &[u8]) -> Result<(), PgError> {
        let mut scram = ScramSha256::new(password, ChannelBinding::unsupported());
        frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), &mut self.wire.out)?;
        self.wire.flush()?;
        self.expect(b'R')?;
        let mut body = Body(self.wire.body());
        if body.int()? != 11 {
            return Err(unexpected(b'R'));
        }
        scram.update(body.0)?;
        frontend::sasl_response(scram.message(), &mut self.wire.out)?;
        self.wire.flush()?;
        self.expect(b'R')?;
        let mut body = Body(self.wire.body());
        if body.int()? != 12 {
            return Err(unexpected(b'R'));
        }
        // The server has to prove that it knows the password too.
        Ok(scram.finish(body.0)?)
    }

    /// Takes what the server tells of itself until it waits for a query.
    fn settle_in(&mut self) -> Result<(), PgError> {
        loop {
            match self.wire.read_any()? {
                b'K' => {
                    let mut body = Body(self.wire.body());
                    (self.process_id, self.secret_key) = (body.int()?, body.int()?);
                }
                b'S' => {
                    let mut body = Body(self.wire.body());
                    if body.text()? == "server_version" {
                        self.server_version = body.text()?.into_owned();
                    }
                }
                b'N' => {}
                b'Z' => return self.ready(),
                b'E' => return Err(self.said()),
                tag => return Err(unexpected(tag)),
            }
        }
    }

    /// The server's own name of its version: "15.18 (Debian 15.18-0+deb12u1)".
    #[must_use]
    pub fn server_version(&self) -> &str {
        &self.server_version
    }

    /// `I` outside of a transaction, `T` in one, `E` in one that failed.
    #[must_use]
    pub fn transaction(&self) -> u8 {
        self.transaction
    }

    /// How it can be interrupted.
    ///
    /// # Errors
    /// The system's.
    pub fn handle(&self) -> Result<Handle, PgError> {
        let hang_up = self.wire.hang_up()?;
        Ok(Handle { process_id: self.process_id, secret_key: self.secret_key, hang_up })
    }

    /// The error whose message was read last.
    pub fn said(&self) -> PgError {
        server_error(self.wire.body()).map_or_else(PgError::from, |error| PgError::Server(Box::new(error)))
    }

    fn ready(&mut self) -> Result<(), PgError> {
        self.transaction = Body(self.wire.body()).byte()?;
        Ok(())
    }

    /// Reads a message that has to be of this type.
    ///
    /// # Errors
    /// The server's error, if it is one.
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

    /// After an error: reads whatever still comes until the server waits again, when the connection is whole. The error is
    /// given back, or what ended the connection meanwhile.
    pub fn recover(&mut self, error: PgError) -> PgError {
        if !error.leaves_the_connection_whole() {
            return error;
        }
        loop {
            match self.wire.read() {
                Ok(b'Z') => return self.ready().err().unwrap_or(error),
                Ok(b'E') if !self.said().leaves_the_connection_whole() => return self.said(),
                // A copy that the failed statement had begun.
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

    /// Tells a server that waits for data that there is none. In the extended protocol it has thrown the end of the exchange
    /// away meanwhile, so that is sent again.
    pub(super) fn refuse_copy(&mut self) -> Result<(), PgError> {
        frontend::copy_fail("bufferlab sends no data to a statement of a script", &mut self.wire.out)?;
        frontend::sync(&mut self.wire.out);
        self.wire.flush()
    }

    /// Executes statements in the simple protocol; rows of all of them, as text.
    ///
    /// # Errors
    /// The first error; the connection can be used after it when it was the server's.
    pub fn query(&mut self, sql: &str) -> Result<TextRows, PgError> {
        let mut rows = Vec::new();
        self.query_each(sql, &mut |row| rows.push(row))?;
        Ok(rows)
    }

    /// The same without the rows.
    ///
    /// # Errors
    /// As [`Connection::query`].
    pub fn execute(&mut self, sql: &str) -> Result<(), PgError> {
        self.query_each(sql, &mut |_| {})
    }

    fn query_each(&mut self, sql: &str, take: &mut dyn FnMut(Vec<Option<String>>)) -> Result<(), PgError> {
        frontend::query(sql, &mut self.wire.out)?;
        self.wire.flush()?;
        loop {
            match self.wire.read()? {
                b'D' => take(self.text_row()?),
                b'Z' => return self.ready(),
                b'G' => {
                    frontend::copy_fail("bufferlab sends no data to a statement of a script", &mut self.wire.out)?;
                    self.wire.flush()?;
                }
                // Commands' ends, rows' descriptions, and what COPY TO STDOUT sends.
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

    /// Prepares a statement under a name and asks what the server makes of it.
    ///
    /// # Errors
    /// When it does not compile; the connection can be used after it.
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

    /// Executes a prepared statement without parameters; its rows as text.
    ///
    /// # Errors
    /// As [`Connection::query`].
    pub fn execute_prepared(&mut self, name: &str) -> Result<TextRows, PgError> {
        bind_and_execute(name, &mut self.wire.out)?;
        frontend::sync(&mut self.wire.out);
        self.wire.flush()?;
        let mut rows = Vec::new();
        loop {
            match self.wire.read()? {
                b'D' => rows.push(self.text_row()?),
                b'Z' => {
                    self.ready()?;
                    return Ok(rows);
                }
                b'2' | b'C' => {}
                b'E' => {
                    let error = self.said();
                    return Err(self.recover(error));
                }
                tag => return Err(unexpected(tag)),
            }
        }
    }

    /// Begins a COPY FROM STDIN: from now on [`Connection::copy`], at the end [`Connection::end_copy`].
    ///
    /// # Errors
    /// The server's.
    pub fn begin_copy(&mut self, sql: &str) -> Result<(), PgError> {
        frontend::query(sql, &mut self.wire.out)?;
        self.wire.flush()?;
        match self.expect(b'G') {
            Ok(()) => Ok(()),
            Err(error) => Err(self.recover(error)),
        }
    }

    /// Sends whole rows. A server that refuses some says so at once: then the rest need not be sent.
    ///
    /// # Errors
    /// The server's.
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

    /// Ends a COPY; answers how many rows the server has taken.
    ///
    /// # Errors
    /// The server's.
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

/// Appends what executes a prepared statement without parameters, with its rows as text.
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
    use super::super::wire::tests::{Cue, Scripted, message};
    use super::*;

    pub fn target() -> Target {
        Target {
            socket_dir: Some("/nowhere".to_owned()),
            host: None,
            port: None,
            user: "u".to_owned(),
            password: "p".to_owned(),
            database: "d".to_owned(),
        }
    }

    /// The messages with which a server that trusts everybody lets a client in.
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

    /// A session with a server that then sends this.
    pub fn connection(cues: impl IntoIterator<Item = Vec<u8>>) -> Connection {
        let cues = std::iter::once(welcome()).chain(cues).map(Cue::Bytes);
        started(Scripted::new(cues)).expect("it lets everybody in")
    }

    fn started(server: Scripted) -> Result<Connection, PgError> {
        Connection::start(Wire::new(Box::new(server), Silence::Fatal, SILENCE)?, &target(), "d")
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
    fn refusals_and_strangers_are_told_apart() {
        let refused = |bytes: Vec<u8>| started(Scripted::new([Cue::Bytes(bytes)])).err().expect("it is refused");
        assert_eq!(refused(error("FATAL", "28P01")).code(), "28P01");
        assert!(
            matches!(refused(message(b'R', &7i32.to_be_bytes())), PgError::Malformed(_)),
            "GSSAPI is not known here"
        );
        assert!(matches!(refused(message(b'R', b"\0")), PgError::Malformed(_)));
        assert!(matches!(refused(message(b'D', b"")), PgError::Malformed(_)));
        assert!(matches!(refused(b"HTTP/1.1 400 Bad Request\r\n".to_vec()), PgError::Malformed(_)));
        assert!(matches!(refused(Vec::new()), PgError::Closed));
    }

    #[test]
    fn a_server_that_cannot_prove_that_it_knows_the_password_is_not_believed() {
        let begin = message(b'R', &[&10i32.to_be_bytes()[..], b"SCRAM-SHA-256\0\0"].concat());
        let forged = message(b'R', &[&11i32.to_be_bytes()[..], b"r=another,s=QSXCR+Q6sek8bf92,i=4096"].concat());
        let refused = started(Scripted::new([Cue::Bytes([begin, forged].concat())])).err().expect("the nonce is wrong");
        assert!(matches!(refused, PgError::Io(_)), "{refused}");
    }

    #[test]
    fn a_password_is_proven_by_md5_where_the_server_asks_for_it() {
        let ask = message(b'R', &[0, 0, 0, 5, 1, 2, 3, 4]);
        let server = Scripted::new([Cue::Bytes([ask, welcome()].concat())]);
        let heard = std::sync::Arc::clone(&server.heard);
        started(server).expect("it is content with anything");
        let heard = heard.lock().expect("nobody panics").clone();
        let proof = md5_hash(b"u", b"p", [1, 2, 3, 4]);
        assert!(String::from_utf8_lossy(&heard).contains(&proof), "{heard:?}");
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
    fn a_prepared_statement_is_described() {
        let described =
            [message(b'1', b""), message(b't', b"\0\x01\0\0\0\x17"), message(b'n', b""), message(b'Z', b"I")].concat();
        let expected = Described { parameters: vec![23], columns: Vec::new() };
        assert_eq!(connection([described]).prepare("s0", "DELETE").expect("it compiles"), expected);
        let refused = [error("ERROR", "42601"), message(b'Z', b"I")].concat();
        assert_eq!(connection([refused]).prepare("s0", "DELET").expect_err("it does not").code(), "42601");
    }
}
