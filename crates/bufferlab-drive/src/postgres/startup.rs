//! Begins a session: the socket, the password's proof, and the server's greeting.
//!
//! The library `postgres-protocol` makes messages to the server and does SCRAM. A session is the same on every server,
//! for any configuration. Connections have no TLS: a run reaches a private server over its socket.

use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::frontend;

use super::connection::{Connection, unexpected};
use super::error::{PgError, failure};
use super::message::{Body, Malformed};
use super::wire::{SILENCE, Silence, Transport, Wire};
use crate::failure::{Failure, FailureKind};
use crate::server::target::{Place, Target};

/// Longest time that connecting over TCP may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that a silent server gets to answer a new connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The settings of every session: dates are UTC, texts are UTF-8, a statement sees all commits before its beginning.
/// The server must not end a session that waits between two measured parts. Names are looked for in pg_catalog and
/// public alone: another path, of the role or the database, could put somebody else's functions and tables before ours.
const SESSION: [(&str, &str); 7] = [
    ("search_path", "public"),
    ("application_name", "bufferlab"),
    ("client_encoding", "UTF8"),
    ("TimeZone", "UTC"),
    ("DateStyle", "ISO"),
    ("default_transaction_isolation", "read committed"),
    ("idle_in_transaction_session_timeout", "0"),
];

/// Connects to the target's database. `silence` says what to do when the server is silent.
///
/// # Errors
/// When the server is not there, refuses the role, or has no such database.
pub fn connect(target: &Target, silence: Silence) -> Result<Connection, Failure> {
    connect_to(target, &target.database, silence, SILENCE)
}

/// Connects to any database of the same server; `timeout` is its longest silence before the connection acts on
/// `silence`.
///
/// # Errors
/// As [`connect`].
pub fn connect_to(target: &Target, database: &str, silence: Silence, timeout: Duration) -> Result<Connection, Failure> {
    let place = target.place();
    let transport = transport(target).map_err(|error| {
        let what = format!("connecting to the server: {error}");
        Failure::new(FailureKind::Environment, what, &place, "is it running, and is this its socket or address?")
    })?;
    let started = Wire::new(transport, silence, timeout).and_then(|wire| Connection::start(wire, target, database));
    started.map_err(|error| failure("connecting to the server", &place, &error))
}

/// Returns the rule for long statements: they may take long while the server answers other connections.
pub fn patient(target: &Target) -> Silence {
    let target = target.clone();
    Silence::Unless(Box::new(move || answers(&target)))
}

/// Returns a new socket to the server.
pub(super) fn transport(target: &Target) -> std::io::Result<Box<dyn Transport>> {
    let (host, port) = match &target.place {
        Place::Socket(path) => return Ok(Box::new(UnixStream::connect(path)?)),
        Place::Tcp { host, port } => (host.as_str(), *port),
    };
    let mut refused = std::io::Error::new(std::io::ErrorKind::NotFound, "this name has no address");
    for address in (host, port).to_socket_addrs()? {
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

/// Returns true when the server answers a new connection at all.
fn answers(target: &Target) -> bool {
    let ask = || -> std::io::Result<usize> {
        let mut stream = transport(target)?;
        stream.set_timeout(ANSWER_TIMEOUT)?;
        let mut request = BytesMut::new();
        // Ask whether it has TLS: the one question that a server answers before a password.
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
    /// The server's refusal, or when the peer is no PostgreSQL server.
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

    /// Proves the password in the way that the server asks for, until it accepts.
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
                    let what = format!(
                        "it asks for authentication method {method}; bufferlab knows only passwords (SCRAM, MD5)"
                    );
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

    /// Reads the server's greeting until it waits for a query.
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
}

#[cfg(test)]
mod tests {
    use super::super::connection::tests::{error, started, welcome};
    use super::super::wire::tests::{Cue, Scripted, message};
    use super::*;

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
}
