//! Begins a session: the socket, the password's proof, and the server's greeting.
//!
//! The library `postgres-protocol` makes the messages to the server and does SCRAM; over TLS the proof is bound to the
//! server's certificate. A session has the same settings on every server, however the server is configured. The client
//! asks for TLS as libpq does (PostgreSQL's documentation, "SSL Session Encryption").

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256};
use postgres_protocol::message::frontend;

use super::connection::{Connection, unexpected};
use super::error::{PgError, failure};
use super::message::{Body, Malformed};
use super::wire::{LOGIN_MESSAGES, SILENCE, Silence, Transport, Wire};
use crate::failure::{Failure, FailureKind};
use crate::server::patience::{Patience, is_a_step};
use crate::server::refusal::Refusal;
use crate::server::security::SslMode;
use crate::server::stream::{Stream, connect_tcp};
use crate::server::target::{Place, Target};
use crate::tls::{TlsClient, TlsError};

/// Time that a silent server gets to answer a new connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that a server gets for the handshake of TLS.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// The SQLSTATE invalid_authorization_specification: pg_hba.conf has no line that allows this connection.
const NO_SUCH_LINE: &str = "28000";

/// The settings of every session: dates are UTC, texts are UTF-8, a statement sees all commits before its beginning.
/// The server must not end a session that waits between two measured parts. Names are sought only in pg_catalog and
/// public: the search path of the role or of the database could find another user's functions and tables first.
pub(super) const SESSION: [(&str, &str); 7] = [
    ("search_path", "public"),
    ("application_name", "bufferlab"),
    ("client_encoding", "UTF8"),
    ("TimeZone", "UTC"),
    ("DateStyle", "ISO"),
    ("default_transaction_isolation", "read committed"),
    ("idle_in_transaction_session_timeout", "0"),
];

/// Connects to the target's database. `silence` is the rule for a server that sends nothing for 60 s.
///
/// # Errors
/// When the server cannot be reached, falls silent, refuses the login, has no such database, or is not a PostgreSQL
/// server. Also when the target's security refuses the server.
pub fn connect(target: &Target, silence: Silence) -> Result<Connection, Failure> {
    connect_to(target, &target.database, silence, SILENCE)
}

/// Connects to any database of the target's server. After `timeout` without a byte from the server the rule `silence`
/// applies.
///
/// # Errors
/// The errors of [`connect`].
pub fn connect_to(target: &Target, database: &str, silence: Silence, timeout: Duration) -> Result<Connection, Failure> {
    let place = target.place();
    let refused = |error: PgError| match error {
        PgError::Io(error) => {
            let what = format!("connecting to the server: {error}");
            Failure::new(FailureKind::Environment, what, &place, "is it running, and is this its socket or address?")
        }
        error => failure("connecting to the server", &place, &error),
    };
    // A login does not wait for other sessions, so the client gives up if the server is silent during the login.
    let start = |transport| {
        Wire::new(transport, Silence::Fatal, timeout)
            .and_then(|wire| Connection::start(wire, target, database, &SESSION))
    };
    let mut connection = logged_in(target, Patience::of(HANDSHAKE_TIMEOUT), &start).map_err(refused)?;
    connection.wire.set_silence(silence);
    Ok(connection)
}

/// Logs in by `start`, with TLS as the target's mode asks. If the mode only prefers TLS and pg_hba.conf refuses the
/// login with TLS, logs in without.
pub(super) fn logged_in(
    target: &Target,
    patience: Patience,
    start: &dyn Fn(Box<dyn Transport>) -> Result<Connection, PgError>,
) -> Result<Connection, PgError> {
    let first = secured(target, patience)?;
    let prefers = target.security.as_ref().is_some_and(|security| security.mode == SslMode::Prefer);
    let may_go_on = matches!(first, Stream::Tls(_)) && prefers;
    match start(Box::new(first)) {
        // Do as libpq does with `prefer`: pg_hba.conf may allow a login without TLS that it refuses with TLS
        // (fe-connect.c, `connection_failed`).
        Err(error) if may_go_on && error.code() == NO_SUCH_LINE => start(Box::new(Stream::connect(&target.place)?)),
        started => started,
    }
}

/// Returns a new socket to the server, with TLS as the target's mode asks.
///
/// # Errors
/// When the server cannot be reached, does not finish the handshake before the patience ends, has no TLS though the
/// mode requires it, or fails the mode's checks of its certificate.
pub(super) fn secured(target: &Target, patience: Patience) -> Result<Stream, PgError> {
    let plain = || Ok(Stream::connect(&target.place)?);
    let (Place::Tcp { host, port }, Some(security)) = (&target.place, &target.security) else {
        // A connection through a Unix socket has no TLS, whichever mode is asked for, as with libpq.
        return plain();
    };
    let Some(client) = TlsClient::of(security, host).map_err(PgError::Refused)? else { return plain() };
    let mut socket = connect_tcp(host, *port)?;
    let within = Some(patience.left().unwrap_or(HANDSHAKE_TIMEOUT));
    socket.set_read_timeout(within).and_then(|()| socket.set_write_timeout(within))?;
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    socket.write_all(&request)?;
    match &first_byte(&mut socket, patience)? {
        b"S" => match client.handshake(socket, patience) {
            Ok(tls) => Ok(Stream::Tls(Box::new(tls))),
            Err(TlsError::Refused(_)) if security.mode == SslMode::Prefer => plain(),
            Err(TlsError::Silent(_)) => Err(std::io::Error::from(ErrorKind::TimedOut).into()),
            Err(error) => Err(PgError::Refused(error.refusal())),
        },
        b"N" if security.mode.requires_tls() => Err(PgError::Refused(Refusal::no_tls(security.mode))),
        b"N" => Ok(Stream::Tcp(socket)),
        [other] => Err(Malformed(format!("{:?} to the question whether it has TLS", char::from(*other)).into()).into()),
    }
}

/// Reads exactly one byte. Further bytes that come with it could be an attacker's (CVE-2021-23222), so they must stay
/// in the socket until TLS reads them.
fn first_byte(socket: &mut TcpStream, patience: Patience) -> Result<[u8; 1], std::io::Error> {
    let mut byte = [0];
    loop {
        socket.set_read_timeout(Some(patience.step()?))?;
        match socket.read(&mut byte) {
            Ok(0) => {
                let what = "it closed the connection when it was asked for TLS";
                return Err(std::io::Error::new(ErrorKind::UnexpectedEof, what));
            }
            Ok(_) => return Ok(byte),
            Err(error) if is_a_step(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns the rule for silence during long statements: they may take any time while the server answers new
/// connections.
pub fn patient(target: &Target) -> Silence {
    let target = target.clone();
    Silence::Unless(Box::new(move || answers(&target)))
}

/// Returns true when the server answers a new connection.
fn answers(target: &Target) -> bool {
    let ask = || -> std::io::Result<usize> {
        let mut stream = Stream::connect(&target.place)?;
        stream.set_timeout(ANSWER_TIMEOUT)?;
        let mut request = BytesMut::new();
        // Ask whether the server has TLS: it answers this question without a password.
        frontend::ssl_request(&mut request);
        stream.write_all(&request)?;
        stream.read(&mut [0])
    };
    ask().is_ok_and(|bytes| bytes > 0)
}

impl Connection {
    /// Starts a session over a socket: logs in to `database` with these settings, and waits until the server can take a
    /// query.
    ///
    /// # Errors
    /// The server's refusal; when the client refuses the server's way to log in, the connection fails, or the peer is
    /// not a PostgreSQL server.
    pub fn start<'a>(
        wire: Wire,
        target: &'a Target,
        database: &'a str,
        settings: &'a [(&'a str, &'a str)],
    ) -> Result<Self, PgError> {
        let mut connection =
            Connection { wire, process_id: 0, secret_key: 0, server_version: String::new(), transaction: b'I' };
        let parameters = [("user", target.user.as_str()), ("database", database)];
        let parameters = parameters.into_iter().chain(settings.iter().copied());
        frontend::startup_message(parameters, &mut connection.wire.out)?;
        connection.wire.flush()?;
        connection.authenticate(target)?;
        connection.settle_in()?;
        connection.wire.logged_in()?;
        Ok(connection)
    }

    /// Proves the password by the method that the server asks for.
    fn authenticate(&mut self, target: &Target) -> Result<(), PgError> {
        let password = target.password.as_bytes();
        self.expect(b'R')?;
        let mut body = Body(self.wire.body());
        match body.int()? {
            0 => return Ok(()),
            3 => return Err(PgError::Refused(Refusal::clear_text())),
            5 => {
                let salt = body.take(4)?.try_into().map_err(|_| unexpected(b'R'))?;
                let proof = md5_hash(target.user.as_bytes(), password, salt);
                frontend::password_message(proof.as_bytes(), &mut self.wire.out)?;
                self.wire.flush()?;
            }
            10 => {
                let mut mechanisms = Vec::new();
                while body.0.first().is_some_and(|&byte| byte != 0) {
                    mechanisms.push(body.text()?.into_owned());
                }
                self.prove_by_scram(password, &mechanisms)?;
            }
            method => return Err(PgError::Refused(Refusal::other_method(method))),
        }
        // After this proof the server must accept the login; it may not ask for another one.
        self.expect(b'R')?;
        if Body(self.wire.body()).int()? == 0 { Ok(()) } else { Err(unexpected(b'R')) }
    }

    /// Proves the password by SCRAM. Over TLS the proof is bound to the server's certificate (RFC 5802, section 6): an
    /// attacker between client and server, who has another certificate, cannot use the proof. Nor can the attacker
    /// pretend that the server does not support binding.
    fn prove_by_scram(&mut self, password: &[u8], mechanisms: &[String]) -> Result<(), PgError> {
        let offers = |name: &str| mechanisms.iter().any(|offered| offered == name);
        let (mechanism, binding) = match self.wire.endpoint() {
            Some(hash) if offers(SCRAM_SHA_256_PLUS) => {
                (SCRAM_SHA_256_PLUS, ChannelBinding::tls_server_end_point(hash.to_vec()))
            }
            _ if !offers(SCRAM_SHA_256) => {
                let what = format!("it knows {} alone; bufferlab knows SCRAM-SHA-256", mechanisms.join(", "));
                return Err(Malformed(what.into()).into());
            }
            Some(_) => (SCRAM_SHA_256, ChannelBinding::unrequested()),
            None => (SCRAM_SHA_256, ChannelBinding::unsupported()),
        };
        let mut scram = ScramSha256::new(password, binding);
        frontend::sasl_initial_response(mechanism, scram.message(), &mut self.wire.out)?;
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
        // The server has to prove that it knows the password, too.
        Ok(scram.finish(body.0)?)
    }

    /// Reads the server's messages after the login, until it waits for a query.
    fn settle_in(&mut self) -> Result<(), PgError> {
        for _ in 0..LOGIN_MESSAGES {
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
        Err(Malformed("a greeting without end".into()).into())
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tls_tests;

#[cfg(test)]
mod tests {
    use super::super::connection::tests::{error, started, welcome};
    use super::super::wire::tests::{Cue, Scripted, message};
    use super::*;

    #[test]
    fn refusals_and_strangers_are_told_apart() {
        let refused = |bytes: Vec<u8>| started(Scripted::new([Cue::Bytes(bytes)])).err().expect("it is refused");
        assert_eq!(refused(error("FATAL", "28P01")).code(), "28P01");
        assert!(matches!(refused(message(b'R', &7i32.to_be_bytes())), PgError::Refused(_)), "GSSAPI is not known here");
        assert!(matches!(refused(message(b'R', b"\0")), PgError::Malformed(_)));
        let clear_text = refused(message(b'R', &3i32.to_be_bytes()));
        assert_eq!(clear_text.to_string(), "the server asks for the password in clear text, which is refused");
        let external = message(b'R', &[&10i32.to_be_bytes()[..], b"EXTERNAL\0\0"].concat());
        assert!(matches!(refused(external), PgError::Malformed(_)));
        let twice = message(b'R', &[0, 0, 0, 5, 1, 2, 3, 4]).repeat(2);
        assert!(matches!(refused(twice), PgError::Malformed(_)), "one proof is enough");
        let endless = [message(b'R', &0i32.to_be_bytes()), message(b'S', b"a\0b\0").repeat(2_000)].concat();
        assert!(matches!(refused(endless), PgError::Malformed(_)));
        assert!(matches!(refused(message(b'N', b"").repeat(2_000)), PgError::Malformed(_)));
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
